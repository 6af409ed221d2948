"""A check environment and a workspace that are what a test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from goalrunner.core.events import Content, ValidatorsFinished
from goalrunner.core.observation import ArtifactRef, DiffStat, Snapshot
from goalrunner.core.ports import CheckRun, ValidationContext
from goalrunner.core.verdict import ValidatorResult
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.change_clock import ChangeClock

ONE, TWO, THREE, FOUR = (Snapshot(id=digit * 64, tree=digit * 40) for digit in "1234")


def ran(*results: bool | ValidatorResult, **more: Any) -> CheckRun:
    """What validators said; a truth is the result of one named `check`."""
    made = [
        item
        if isinstance(item, ValidatorResult)
        else ValidatorResult(
            name="check",
            passed=item,
            summary="exit 0" if item else "exit 1",
            feedback="" if item else "boom",
        )
        for item in results
    ]
    diff, changed = more.pop("diff", ""), more.pop("changed", ())
    finished = ValidatorsFinished(round=0, results=tuple(made), **more)
    return CheckRun(finished, tuple(None for _ in made), diff, changed)


@dataclass
class Folder(SnapshotStore):
    """A workspace that is the snapshot `now`."""

    now: Snapshot = ONE
    clock = ChangeClock()

    async def touched(self, since: int) -> dict[str, int] | None:
        """Nothing: there are no files."""
        return {}

    async def snapshot(self) -> Snapshot:
        """As told."""
        return self.now

    async def differences(
        self, snapshots: Sequence[Snapshot]
    ) -> list[dict[str, tuple[str, str]]]:
        """One file differs between any two."""
        return [
            {"a.py": (old.id, new.id)} if old != new else {}
            for old, new in pairwise(snapshots)
        ]

    async def committed(self) -> dict[str, str] | None:
        """There is no repository."""
        return None

    async def diff(
        self,
        old: Snapshot,
        new: Snapshot,
        paths: Sequence[str] = (),
        *,
        errors: str = "replace",
    ) -> str:
        """None."""
        return ""

    async def diff_stat(self, old: Snapshot, new: Snapshot) -> DiffStat:
        """One line of one file."""
        return DiffStat(files=1, added=1, removed=1)


@dataclass
class ScriptedChecker:
    """The port `Checker`: gives one answer after the other, and remembers what it was asked."""

    answers: list[CheckRun | Exception]
    comparison: str = ""
    during: Callable[[int], object] = lambda number: None
    """Called while the check of this number runs."""
    base: Snapshot | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    compared: list[tuple[str, ...]] = field(default_factory=list)
    added_fails: bool | None = None
    """Whether an added test fails on the source of the start."""
    recalled: tuple[Content, ...] = ()

    def recall(self, contents: Sequence[Content]) -> None:
        """Note them."""
        self.recalled = tuple(contents)

    async def remember(self, base: Snapshot) -> None:
        """Note it."""
        self.base = base

    async def check(
        self,
        base: Snapshot,
        now: Snapshot,
        context: ValidationContext,
        *,
        when: str,
        approved: Mapping[str, str] = MappingProxyType({}),
    ) -> CheckRun:
        """Return the next answer, or raise it."""
        self.calls.append(
            {
                "base": base,
                "now": now,
                "iteration": context.iteration,
                "when": when,
                "approved": approved,
            }
        )
        self.during(len(self.calls))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def added_test_fails_on_start(
        self, base: Snapshot, now: Snapshot, context: ValidationContext
    ) -> bool | None:
        """Return what the script says."""
        return self.added_fails

    def protected(self) -> tuple[str, ...]:
        """None."""
        return ()

    def warnings(self, results: Sequence[ValidatorResult]) -> tuple[str, ...]:
        """None."""
        return ()

    def keep_baseline(
        self,
        now: Snapshot,
        outputs: Mapping[str, ArtifactRef],
        read: Callable[[ArtifactRef], bytes],
    ) -> None:
        """Nothing is kept."""

    async def environment_fault(
        self, red: Sequence[ValidatorResult], context: ValidationContext
    ) -> str:
        """Return the text of the script."""
        self.compared.append(tuple(item.name for item in red))
        return self.comparison
