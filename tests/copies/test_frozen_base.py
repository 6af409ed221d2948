"""The mirror below copies: it equals the live tree, follows what changes, and stays as it was for a copy that uses it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from goalrunner.copies.frozen_base import FrozenBase, frozen_base
from goalrunner.core.errors import EnvironmentFailed
from tests.support.workspaces import git, listing, make_repository, write


def _base(home: Path, root: Path) -> FrozenBase:
    with frozen_base(home, root, os.environ) as (base, _):
        return base


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = make_repository(
        tmp_path / "ws", {".gitignore": "out/\n", "a.py": "1\n", "src/b.py": "2\n"}
    )
    (folder / "run.sh").write_text("echo\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("a.py")
    return folder


def _is_opaque(folder: Path) -> bool:
    return "user.overlay.opaque" in os.listxattr(folder)


def test_the_mirror_has_content_modes_links_and_times(
    tmp_path: Path, root: Path
) -> None:
    base = _base(tmp_path / "home", root)
    assert listing(base.files) == listing(root)
    for name in ("a.py", "run.sh"):
        assert (base.files / name).stat().st_mtime_ns == (
            root / name
        ).stat().st_mtime_ns


def test_an_unchanged_tree_needs_no_new_base(tmp_path: Path, root: Path) -> None:
    first = _base(tmp_path / "home", root)
    assert _base(tmp_path / "home", root).folder == first.folder


def test_a_base_without_users_is_brought_up_to_date(tmp_path: Path, root: Path) -> None:
    first = _base(tmp_path / "home", root)
    kept = (first.files / "src" / "b.py").stat().st_ino
    write(root, {"a.py": "changed\n", "new/c.py": "3\n"})
    (root / "link").unlink()
    second = _base(tmp_path / "home", root)
    assert not first.folder.exists()
    assert listing(second.files) == listing(root)
    assert (second.files / "src" / "b.py").stat().st_ino == kept


def test_a_base_in_use_stays_as_it_was(tmp_path: Path, root: Path) -> None:
    copy = tmp_path / "run" / "copy"
    copy.mkdir(parents=True)
    with frozen_base(tmp_path / "home", root, os.environ) as (first, _):
        first.add_user(copy)
    before = listing(first.files)
    write(root, {"a.py": "changed\n"})
    (root / "src" / "b.py").unlink()
    second = _base(tmp_path / "home", root)
    assert listing(first.files) == before
    assert listing(second.files) == listing(root)
    copy.rmdir()
    write(root, {"a.py": "again\n"})
    _base(tmp_path / "home", root)
    write(root, {"a.py": "and again\n"})
    _base(tmp_path / "home", root)
    assert not first.folder.exists()


def test_what_a_killed_process_left_is_replaced(tmp_path: Path, root: Path) -> None:
    base = _base(tmp_path / "home", root)
    write(root, {"a.py": "changed\n"})
    # As a kill leaves it: the newest base is under change.
    base.folder.rename(base.folder.parent / "unfinished")
    again = _base(tmp_path / "home", root)
    assert listing(again.files) == listing(root)


def test_folders_without_shared_content_hide_the_live_ones(
    tmp_path: Path, root: Path
) -> None:
    write(root, {"out/result": "x\n"})
    base = _base(tmp_path / "home", root)
    assert _is_opaque(base.files / "src")
    assert not _is_opaque(base.files)
    write(root, {".gitignore": "out/\nlocal.txt\n", "src/local.txt": "x\n"})
    assert not _is_opaque(_base(tmp_path / "home", root).files / "src")


def test_the_repository_of_the_mirror_reads_the_objects_of_the_live_one(
    tmp_path: Path, root: Path
) -> None:
    base = _base(tmp_path / "home", root)
    alternates = base.files / ".git" / "objects" / "info" / "alternates"
    assert alternates.read_text() == f"{base.objects / '0'}\n"
    assert (base.objects / "0").is_dir()


def test_alternates_of_the_live_repository_are_kept(tmp_path: Path, root: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--shared", str(root), str(clone))
    base = _base(tmp_path / "home", clone)
    alternates = base.files / ".git" / "objects" / "info" / "alternates"
    assert str(root / ".git" / "objects") in alternates.read_text().splitlines()


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(root / "a.py"))

    monkeypatch.setattr("goalrunner.copies.frozen_base.FileCopier.copy", refuse)
    with pytest.raises(EnvironmentFailed, match=r"cannot be made.*a\.py"):
        _base(tmp_path / "home", root)


def test_a_line_feed_in_a_name_reaches_no_file_elsewhere(
    tmp_path: Path, root: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    (root / "named\n").write_text("1\n")
    for parent in ("planted\n", "two\nlines"):
        planted = Path(root, parent, *victim.parts[1:])
        planted.parent.mkdir(parents=True)
        planted.write_text("2\n")
    base = _base(tmp_path / "home", root)
    assert victim.read_text() == "mine\n"
    assert listing(base.files) == listing(root)

    shutil.rmtree(root / "planted\n")
    base = _base(tmp_path / "home", root)
    assert victim.read_text() == "mine\n"
    assert listing(base.files) == listing(root)


def test_a_repository_that_is_gone_leaves_nothing_in_the_mirror(
    tmp_path: Path, root: Path
) -> None:
    make_repository(root / "nested", {"x": "1\n"})
    _base(tmp_path / "home", root)
    shutil.rmtree(root / "nested")
    (root / "nested").write_text("a file\n")
    base = _base(tmp_path / "home", root)
    assert listing(base.files) == listing(root)


def test_the_mirror_may_lie_on_another_file_system(root: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == root.stat().st_dev:
        pytest.skip("there is no second file system")
    with tempfile.TemporaryDirectory(dir=memory) as home:
        base = _base(Path(home), root)
        assert listing(base.files) == listing(root)


def test_a_file_that_vanishes_while_the_tree_is_copied_is_not_missed(
    tmp_path: Path, root: Path
) -> None:
    make_repository(root / "inner", {"c.py": "3\n"})
    vanishing, called = root / "vanishing", tmp_path / "called"
    # The first call, for the ignored files of the tree, comes before the tree is listed,
    # and the second one, for those of the inner repository, while it is.
    program = tmp_path / "bin" / "git"
    write(
        program.parent,
        {
            "git": f"""\
#!/bin/sh
if mkdir {called} 2>/dev/null; then touch {vanishing}; else rm -f {vanishing}; fi
exec {shutil.which("git")} "$@"
"""
        },
    )
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    with frozen_base(tmp_path / "home", root, {**os.environ, "PATH": path}) as (
        base,
        _,
    ):
        assert called.exists()
        assert listing(base.files) == listing(root)
