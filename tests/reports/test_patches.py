"""Patches at a terminal and as JSON, and their figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.app.run_snapshots import RoundPatch
from goalrunner.core.observation import Change
from goalrunner.reports.patches import files_of, patch_text, patch_value, stat_text
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


def test_a_patch_for_a_terminal_has_no_escape_sequences_of_the_files() -> None:
    patch = RoundPatch(1, CHANGES, "@@ -0,0 +1,2 @@\n+\tred \x1b[31m\n+two\r\n")
    assert patch_text(patch) == "@@ -0,0 +1,2 @@\n+       red \n+two\n"


def test_only_lines_of_a_hunk_are_coloured_as_added_and_removed() -> None:
    text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n--- old\n+++ new\n\\ No newline at end of file\n"
    bold, blue, red, green, end = (
        "\x1b[1m",
        "\x1b[36m",
        "\x1b[31m",
        "\x1b[32m",
        "\x1b[m",
    )
    assert patch_text(RoundPatch(1, CHANGES, text), colours=True).splitlines() == [
        f"{bold}diff --git a/x b/x{end}",
        f"{bold}--- a/x{end}",
        f"{bold}+++ b/x{end}",
        f"{blue}@@ -1,2 +1,2 @@{end}",
        " same",
        f"{red}--- old{end}",
        f"{green}+++ new{end}",
        "\\ No newline at end of file",
    ]


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
def test_figures_are_those_of_git(
    tmp_path: Path, name: str, before: str, after: str
) -> None:
    folder = make_repository(tmp_path / "r", {name: before, "z last": "same\n"})
    write(folder, {name: after, "z last": "other\n"})

    counted, _ = files_of(git(folder, "diff", "--no-renames"))

    numbers = [
        line.split("\t")[:2]
        for line in git(folder, "diff", "--numstat", "--no-renames", "-z").split("\0")[
            :-1
        ]
    ]
    assert [[str(one.added), str(one.removed)] for one in counted] == numbers
    shown = {
        "grün und\ttab": "grün und\\x09tab",
        'quo"te\\back': 'quo"te\\x5cback',
    }.get(name, name)
    assert [one.path for one in counted] == [shown, "z last"]
