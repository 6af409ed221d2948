"""What an apply does when it cannot write everything, or is not the only one to write."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import disk_usage

import pytest

from goalrunner.app.previous_run import load_run
from goalrunner.copies import applying
from goalrunner.copies.applying import Application, Applied, applied_lines
from goalrunner.core.errors import UsageError, WorkspaceBusy, WorkspaceError
from goalrunner.core.observation import Snapshot
from goalrunner.records.run_folder import RunFolder
from tests.copies.test_apply_command import finish
from tests.support.workspaces import listing, write


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of three megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    mounted = subprocess.run(mounting, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def application(root: Path, run: str) -> Application:
    folder = RunFolder(root / "home" / "runs" / run)
    return Application(folder, load_run(folder), root / "home", os.environ)


async def test_a_full_disk_changes_nothing_and_is_named(
    tmp_path: Path, small_disk: Path
) -> None:
    work = "for n in 1 2 3; do head -c 300000 /dev/urandom > f$n; done"
    run = await finish(tmp_path, agent=work, workspace=small_disk / "ws")
    (small_disk / "ballast").write_bytes(b"x" * 2_300_000)
    before = listing(small_disk / "ws")
    with closing(application(tmp_path, run)) as apply:
        tree = await apply.merge()
        with pytest.raises(WorkspaceError, match=r"the change needs 0\.9 MB, and"):
            await apply.write(tree)
        assert listing(small_disk / "ws") == before
        (small_disk / "ballast").unlink()
        await apply.write(tree)
    assert (small_disk / "ws" / "f3").exists()


def test_packages_that_only_the_copy_has_are_named() -> None:
    applied = Applied((), Snapshot(id="1" * 64, tree="1" * 40))
    labels = ("flaky: tests", "dependencies changed: .venv: iniconfig 2.0 → 2.1")
    facts = [fact.text for fact in applied_lines("a000", "/ws", applied, labels)]
    assert "what changed in the copy alone: .venv: iniconfig 2.0 → 2.1" in facts
    assert not any("flaky" in text for text in facts)


async def test_a_disk_that_is_filled_meanwhile_changes_nothing(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = "for n in 1 2 3; do head -c 300000 /dev/urandom > new/f$n; done"
    work = f"mkdir new; {work}; echo > mul.txt"
    run = await finish(
        tmp_path, agent=work, workspace=small_disk / "ws", home=small_disk / "home"
    )
    before = listing(small_disk / "ws")
    with closing(application(small_disk, run)) as apply:
        tree = await apply.merge()
        (small_disk / "ballast").write_bytes(
            b"x" * (disk_usage(small_disk).free - 500_000)
        )
        room = disk_usage("/")._replace(free=1 << 40)
        monkeypatch.setattr(applying, "disk_usage", lambda _: room)
        with pytest.raises(WorkspaceError, match="nothing was applied: git checkout"):
            await apply.write(tree)
        assert listing(small_disk / "ws") == before
        assert not (small_disk / "ws" / "new").exists()
        assert not list((small_disk / "home" / "applies").iterdir())


async def test_what_a_person_changes_after_the_merge_is_not_overwritten(
    tmp_path: Path,
) -> None:
    run = await finish(tmp_path)
    with closing(application(tmp_path, run)) as apply:
        tree = await apply.merge()
        write(tmp_path / "ws", {"mul.txt": "of the person\n"})
        with pytest.raises(UsageError, match=r"mul\.txt changed in .* meanwhile"):
            await apply.write(tree)
        assert (tmp_path / "ws" / "mul.txt").read_text() == "of the person\n"
        with (
            closing(application(tmp_path, run)) as second,
            pytest.raises(WorkspaceBusy),
        ):
            await second.undo_interrupted()
