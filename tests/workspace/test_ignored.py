"""What is ignored, and whether it is as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

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
