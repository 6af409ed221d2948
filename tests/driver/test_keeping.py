"""What an agent's process wrote is kept, and nobody whose time is over waits for all of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from goalrunner.driver.keeping import Keeping
from goalrunner.model.observation import ArtifactRef
from goalrunner.testing import MemoryArtifacts

pytestmark = pytest.mark.timeout(60)
LARGE = b"x" * 5_000_000


class PatientArtifacts(MemoryArtifacts):
    """Takes as long as it is not hurried."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()

    def adopt(self, path: Path, hurried: Callable[[], bool] = lambda: False) -> ArtifactRef:
        self.begun.set()
        while not hurried():
            threading.Event().wait(0.001)
        return super().adopt(path)


async def kept(artifacts: MemoryArtifacts, paths: list[Path], refs: list[ArtifactRef | None]) -> None:
    keeping = Keeping(artifacts)
    refs += [await keeping.adopt(path) for path in paths]
    keeping.settle()


async def test_files_are_kept_and_what_is_empty_or_not_there_is_nothing(tmp_path: Path) -> None:
    for name, data in (("large", LARGE), ("small", b"x"), ("empty", b"")):
        (tmp_path / name).write_bytes(data)
    artifacts, refs = MemoryArtifacts(), list[ArtifactRef | None]()

    await kept(artifacts, [tmp_path / name for name in ("large", "small", "empty", "none")], refs)

    assert [ref and ref.size for ref in refs] == [5_000_000, 1, None, None]
    assert list(tmp_path.iterdir()) == []


async def test_who_is_cancelled_meanwhile_hurries_and_still_writes_down_what_there_is(tmp_path: Path) -> None:
    paths = [tmp_path / "output", tmp_path / "errors"]
    for path in paths:
        path.write_bytes(LARGE)
    artifacts, refs = PatientArtifacts(), list[ArtifactRef | None]()
    task = asyncio.ensure_future(kept(artifacts, paths, refs))
    while not artifacts.begun.is_set():
        await asyncio.sleep(0.001)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert [ref and ref.size for ref in refs] == [5_000_000, 5_000_000]


async def test_who_is_cancelled_already_hurries_from_the_beginning(tmp_path: Path) -> None:
    (tmp_path / "output").write_bytes(LARGE)
    refs = list[ArtifactRef | None]()

    async def work() -> None:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            await kept(PatientArtifacts(), [tmp_path / "output"], refs)
            raise

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(work(), 0.01)
    assert [ref and ref.size for ref in refs] == [5_000_000]
