"""The figures of a patch are those that git itself counts, whatever its lines look like."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.app.run_snapshots import RoundPatch
from goalrunner.core.base import Change
from goalrunner.reports.patch import lines_of, patch_text, patch_value, stat_text
from tests.support.workspaces import git, make_repository, write

PATCH = """\
diff --git a/src/a.py b/src/a.py
index 1..2 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,2 +1,3 @@
 one
-two
+2
+three
diff --git a/logo.png b/logo.png
index 1..2 100644
Binary files a/logo.png and b/logo.png differ
big.bin: not there -> not kept, sha256 0123456789abcdef
"""
CHANGES = (
    Change(path=".git", kind="repository"),
    Change(path="big.bin", kind="added"),
    Change(path="logo.png", kind="modified"),
    Change(path="src/a.py", kind="modified"),
)
ROUND = RoundPatch(3, CHANGES, PATCH)


def test_the_figures_of_a_round() -> None:
    assert stat_text(ROUND) == (
        ".git      HEAD, refs or index of the repository\n"
        "big.bin   added, not kept\n"
        "logo.png  binary\n"
        "src/a.py  +2 −1\n"
        "4 paths in round 3, +2 −1\n"
    )
    assert stat_text(RoundPatch(1, (), "")) == ""


def test_long_paths_are_cut_for_a_terminal() -> None:
    path = "a/" * 30 + "x.py"
    (line, _) = stat_text(RoundPatch(1, (Change(path=path, kind="added"),), ""), columns=40).splitlines()
    assert line == f"{path[:22]}…  added, not kept"


def test_a_pipe_gets_the_patch_as_it_is_and_a_terminal_nothing_that_drives_it() -> None:
    patch = RoundPatch(1, CHANGES, "+\tred \x1b[31m\n+two\r\n")
    assert patch_text(patch, terminal=False) == patch.text
    assert patch_text(patch, terminal=True) == "+       red \n+two\n"


def test_json_holds_changes_with_their_figures_and_the_patch() -> None:
    value = patch_value("k3f9", ROUND)
    assert (value["run_id"], value["round"], value["patch"]) == ("k3f9", 3, PATCH)
    assert value["changes"][3] == {
        "path": "src/a.py",
        "kind": "modified",
        "added": 2,
        "removed": 1,
        "binary": False,
    }


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("plain.txt", "a\nb\n", "a\nc\nd\n"),
        ("looks like a patch", "-- a/x\n", "++ b/x\ndiff --git a/y b/y\n@@ -1 +1 @@\n"),
        ("no newline", "a", "b"),
        ("grün und\ttab", "", "x\n"),
        ('quo"te\\back', "x\n", ""),
        ("a b/c d", "1\n", "2\n"),
        ("-x: not there -> gone", "1\n2\n", "2\n"),
    ],
)
def test_figures_are_those_of_git(tmp_path: Path, name: str, before: str, after: str) -> None:
    folder = make_repository(tmp_path / "r", {name: before, "z last": "same\n"})
    write(folder, {name: after, "z last": "other\n"})

    counted = lines_of(git(folder, "diff", "--no-renames"))

    numbers = [line.split("\t")[:2] for line in git(folder, "diff", "--numstat", "--no-renames", "-z").split("\0")[:-1]]
    assert [[str(one.added), str(one.removed)] for one in counted.values()] == numbers
    shown = {"grün und\ttab": "grün und\\x09tab", 'quo"te\\back': 'quo"te\\x5cback'}.get(name, name)
    assert list(counted) == [shown, "z last"]
