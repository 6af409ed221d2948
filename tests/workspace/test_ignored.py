"""What is ignored, and whether it is as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.workspace.caches import CACHES
from goalrunner.workspace.store import SnapshotStore
from tests.support.workspaces import write

FILES = {".gitignore": "build/\n*.db\nhome/\n", "a.py": "a = 1\n", "build/out": "1", "build/deep/b": "1", "x.db": "1"}


@pytest.mark.parametrize("home", ["home", "build/home", "../home"])
@pytest.mark.parametrize(
    ("path", "differs"),
    [
        ("build/out", True),
        ("build/deep/c", True),
        ("x.db", True),
        ("y.db", True),
        ("out.xml", True),  # one of the outputs
        ("a.py", False),  # a snapshot shows it
        ("b.py", False),
        ("build/__pycache__/a.pyc", False),
        ("build/deep/.coverage.7", False),
        ("build/node_modules/.cache/a", False),
    ],
)
async def test_what_makes_other_surroundings(tmp_path: Path, path: str, differs: bool, home: str) -> None:
    workspace = tmp_path / "ws"
    write(workspace, FILES)
    store = SnapshotStore(workspace, workspace / home, outputs=["out.xml"])
    await store.snapshot()
    before = await store.surroundings()
    (store.folder.parent.parent / "log").write_text("of the run itself")
    assert await store.surroundings() == before

    write(workspace, {path: "22"})
    await store.snapshot()

    assert (await store.surroundings() != before) is differs


def test_the_table_of_caches_holds_no_pattern_that_this_look_does_not_know() -> None:
    files = [pattern for pattern in CACHES if not pattern.endswith("/")]
    middles = [pattern.removeprefix("*").removesuffix("*") for pattern in files]
    assert not [pattern for pattern in middles if set(pattern) & set("*?[]/!")]
    assert "*" not in files


async def test_a_link_is_a_name_alone(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    write(workspace, FILES)
    (tmp_path / "far").mkdir()
    (workspace / "build" / "way").symlink_to(tmp_path / "far")
    store = SnapshotStore(workspace, tmp_path / "home")
    await store.snapshot()
    before = await store.surroundings()
    (tmp_path / "far" / "new").write_text("not followed")
    assert await store.surroundings() == before
    (workspace / "build" / "way").unlink()
    assert await store.surroundings() != before
