"""Output of processes is stored; a run whose time is over does not wait for all of it."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from goalrunner.core.goal import Goal
from goalrunner.core.observation import ArtifactRef
from goalrunner.core.outcome import StopReason
from goalrunner.core.ports import ValidationContext
from goalrunner.core.verdict import ValidatorResult
from goalrunner.engine.output_store import OutputStore
from goalrunner.testing import (
    ScriptedConversation,
    ScriptedRound,
    ScriptedValidator,
    shell_result,
)
from tests.engine.test_run import Bench
from tests.support.memory import MemoryArtifacts

pytestmark = pytest.mark.timeout(60)
LARGE = b"x" * 5_000_000


class PatientArtifacts(MemoryArtifacts):
    """Takes as long as it is not hurried."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()

    def adopt(
        self, path: Path, hurried: Callable[[], bool] = lambda: False
    ) -> ArtifactRef:
        self.begun.set()
        while not hurried():
            threading.Event().wait(0.001)
        return super().adopt(path)


async def kept(
    artifacts: MemoryArtifacts, paths: list[Path], refs: list[ArtifactRef | None]
) -> None:
    keeping = OutputStore(artifacts)
    refs += [await keeping.take_if_any(path) for path in paths]
    keeping.raise_cancellation()


async def test_files_are_kept_and_what_is_empty_or_not_there_is_nothing(
    tmp_path: Path,
) -> None:
    for name, data in (("large", LARGE), ("small", b"x"), ("empty", b"")):
        (tmp_path / name).write_bytes(data)
    artifacts, refs = MemoryArtifacts(), list[ArtifactRef | None]()

    await kept(
        artifacts,
        [tmp_path / name for name in ("large", "small", "empty", "none")],
        refs,
    )

    assert [ref and ref.size for ref in refs] == [5_000_000, 1, None, None]
    assert list(tmp_path.iterdir()) == []


async def test_who_is_cancelled_meanwhile_hurries_and_still_writes_down_what_there_is(
    tmp_path: Path,
) -> None:
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


async def test_who_is_cancelled_already_hurries_from_the_beginning(
    tmp_path: Path,
) -> None:
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


class LargeValidator(ScriptedValidator):
    """Writes a large output."""

    def __init__(self, folder: Path) -> None:
        super().__init__(True)
        self.output = folder / "large"

    async def validate(
        self, context: ValidationContext
    ) -> tuple[ValidatorResult, Path | None]:
        result, _ = await super().validate(context)
        self.output.write_bytes(LARGE)
        return result, self.output


async def test_a_deadline_is_seen_while_the_output_of_a_check_is_kept_and_the_check_is_not_recorded(
    tmp_path: Path,
) -> None:
    """Nothing but the deadline ends the keeping here: where it were not seen, the run would never end."""
    artifacts = PatientArtifacts()
    bench = Bench(
        tmp_path,
        ScriptedConversation("done"),
        validators=[LargeValidator(tmp_path)],
        goal=Goal(objective="x", timeout=0.2),
        artifacts=artifacts,
    )
    outcome = await bench.drive()
    assert artifacts.begun.is_set()
    assert outcome.stop_reason is StopReason.TIMEOUT
    assert "validators_finished" not in bench.log.types()
    assert not (tmp_path / "large").exists()


async def test_a_deadline_is_seen_while_the_output_of_a_command_is_kept_and_the_command_is_recorded(
    tmp_path: Path,
) -> None:
    (tmp_path / "large").write_bytes(LARGE)
    shell = dataclasses.replace(
        shell_result("c1", "cat large", ""), output=tmp_path / "large"
    )
    bench = Bench(
        tmp_path,
        ScriptedConversation(ScriptedRound(text="done", tools=(shell,))),
        validators=[ScriptedValidator(True)],
        goal=Goal(objective="x", timeout=0.2),
        artifacts=PatientArtifacts(),
    )
    outcome = await bench.drive()
    assert outcome.stop_reason is StopReason.TIMEOUT
    assert "tool_result_recorded" in bench.log.types()


async def test_a_check_whose_output_is_empty_has_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "none").touch()
    ref = await OutputStore(MemoryArtifacts()).take(tmp_path / "none")
    assert ref.size == 0
    with pytest.raises(
        OSError, match="none"
    ):  # the double's; the real store says it as a RecordError
        await OutputStore(MemoryArtifacts()).take(tmp_path / "none")
