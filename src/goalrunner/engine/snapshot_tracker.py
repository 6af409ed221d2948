"""The snapshots of a run, what changed between them, which evidence is outdated, and which validators are flaky."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from goalrunner.core.errors import WorkspaceError, some
from goalrunner.core.events import Colour, Content, SnapshotTaken
from goalrunner.core.freshness import changed_after_start, depends_on, is_git, newest
from goalrunner.core.observation import (
    OWNER,
    RESPONSE,
    Claim,
    DiffStat,
    Observation,
    Snapshot,
)
from goalrunner.core.snapshot_history import SnapshotHistory
from goalrunner.core.verdict import ValidatorResult
from goalrunner.engine.journal import Answer, RunJournal

if TYPE_CHECKING:
    from goalrunner.snapshots.store import SnapshotStore

Moment = Literal[
    "start", "tool", "round", "validators", "resumed", "approval", "complete"
]

Step = Mapping[str, tuple[str, str]]
"""By path: what identifies its content before and after; empty where the path does not exist."""


def joined(steps: Sequence[Step]) -> Step:
    """Return consecutive steps as one. A path that changed and changed back is not in it."""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for step in steps:
        for path, (old, new) in step.items():
            before.setdefault(path, old)
            after[path] = new
    return {
        path: (before[path], content)
        for path, content in after.items()
        if content != before[path]
    }


def gone_or_reverted(
    since_start: Step, committed: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the paths whose content at the start was not committed, and that are gone or have the committed content now.

    `committed` is the content of the commit at the start, by path. A file that was moved is not gone.
    """
    contents_now = {now for _, now in since_start.values() if now}
    paths: list[str] = []
    for path, (then, now) in since_start.items():
        content = committed.get(path, "")
        if is_git(path) or not then or then == content:
            continue
        is_gone = not now and then not in contents_now
        is_reverted = bool(now) and now == content
        if is_gone or is_reverted:
            paths.append(path)
    return tuple(sorted(paths))


class SnapshotTracker:
    """Takes snapshots and compares them. Without a workspace there are no snapshots, and nothing is outdated."""

    def __init__(self, workspace: SnapshotStore | None, journal: RunJournal) -> None:
        self._workspace = workspace
        self.journal = journal
        self._steps: list[
            Step
        ] = []  # from each snapshot to the next one, as far as they were compared

    @property
    def _history(self) -> SnapshotHistory:
        return self.journal.history

    @property
    def last(self) -> Snapshot | None:
        return self._history.snapshots[-1] if self._history.snapshots else None

    @property
    def round_start(self) -> Snapshot | None:
        """The snapshot at the start of the current round."""
        return self._history.starts.get(self.journal.state.round)

    async def has_changed(self) -> bool:
        """Return whether the workspace has changed in the current round; False without a workspace."""
        started, now = self.round_start, await self.take("round")
        return started is not None and now is not None and now.id != started.id

    async def end_round(self) -> dict[str, Any]:
        """Take the snapshot at the end of a round; return it, and what changed, as fields of RoundFinished."""
        snapshot = await self.take("round")
        base, started = self.journal.state.base, self.round_start
        total, changes = await asyncio.gather(
            self._diff_stat(base, snapshot), self._diff_stat(started, snapshot)
        )
        idle = (
            snapshot is not None and started is not None and snapshot.id == started.id
        )
        touched = await self._touched(started, snapshot)
        lost = await self._gone_or_reverted(snapshot)
        figures = {
            "changes": changes,
            "total": total,
            "touched": touched,
            "gone_or_reverted": lost,
        }
        return {"snapshot": snapshot, "idle": idle, **figures}

    async def _gone_or_reverted(self, snapshot: Snapshot | None) -> tuple[str, ...]:
        """Return the paths that were not committed at the start, and are gone or reverted at `snapshot`."""
        base = self.journal.state.base
        if self._workspace is None or base is None or snapshot is None:
            return ()
        with suppress(WorkspaceError):  # only for display
            since_start = await self._difference(base, snapshot)
            if all(now and not then for then, now in since_start.values()):
                return ()
            committed = await self._workspace.committed()
            return () if committed is None else gone_or_reverted(since_start, committed)
        return ()

    async def _touched(
        self, started: Snapshot | None, ended: Snapshot | None
    ) -> dict[str, int] | None:
        """Return when the paths that changed in this round last changed; None if that is not known."""
        number = self.journal.state.round
        if (
            self._workspace is None
            or started is None
            or ended is None
            or number not in self._history.began
        ):
            return None
        starts = [
            item.started
            for item in self.journal.observations(number)
            if item.started is not None
        ]
        times = await self._workspace.touched(
            min([self._history.began[number], *starts])
        )
        [differing] = (
            await self._workspace.differences((started, ended))
            if started.id != ended.id
            else [{}]
        )
        if times is None or any(
            new and path not in times and not is_git(path)
            for path, (_, new) in differing.items()
        ):
            return None  # the file system has another clock
        return newest(times)

    def after_changes(self) -> int | None:
        """Return a time after all changes so far, at which a tool is started; None without a workspace."""
        return (
            self._workspace.clock.after_changes()
            if self._workspace is not None
            else None
        )

    def note_changes(self) -> int | None:
        """Return the time at which a tool has ended; None without a workspace."""
        return self._workspace.clock.note() if self._workspace is not None else None

    async def _diff_stat(
        self, old: Snapshot | None, new: Snapshot | None
    ) -> DiffStat | None:
        """Count what changed between two snapshots; None if that is not known."""
        if self._workspace is None or old is None or new is None:
            return None
        with suppress(
            WorkspaceError
        ):  # only for display: a failure does not end the run
            return (
                DiffStat()
                if old.id == new.id
                else await self._workspace.diff_stat(old, new)
            )
        return None

    async def take(self, moment: Moment) -> Snapshot | None:
        """Take a snapshot; record it if it differs from the last one."""
        if self._workspace is None:
            return None
        snapshot = await self._workspace.snapshot()
        if self.last is None or snapshot.id != self.last.id:
            self.journal.append(SnapshotTaken(snapshot=snapshot, moment=moment))
        return snapshot

    async def changed(
        self, old: Snapshot | None, new: Snapshot | None
    ) -> tuple[str, ...]:
        """Return the paths that differ, without caches, ignored files and outputs."""
        if old is None or new is None:
            return ()
        return tuple(sorted(await self._difference(old, new)))

    async def _difference(self, old: Snapshot, new: Snapshot) -> Step:
        """Return what differs, without caches, ignored files and outputs."""
        if self._workspace is None or old.id == new.id:
            return {}
        places, uncompared = (
            self._history.places,
            self._history.snapshots[len(self._steps) :],
        )
        if old.id not in places or new.id not in places:
            return joined(await self._workspace.differences((old, new)))
        if len(uncompared) > 1:
            self._steps += await self._workspace.differences(uncompared)
        first, last = places[old.id], places[new.id]
        if first <= last:
            return joined(self._steps[first:last])
        return {
            path: (then, now)
            for path, (now, then) in joined(self._steps[last:first]).items()
        }

    async def patch(
        self, old: Snapshot | None, new: Snapshot | None, paths: Sequence[str] = ()
    ) -> str:
        """Return a unified patch for reading, of these paths or of all; empty without a workspace."""
        if self._workspace is None or old is None or new is None:
            return ""
        return await self._workspace.diff(old, new, paths)

    async def stale(
        self, items: Sequence[Observation | Claim], final: Snapshot | None
    ) -> dict[str, str]:
        """Return by observation id why it is outdated at `final`."""
        if self._workspace is None or final is None:
            return {}
        seen: dict[tuple[Snapshot | None, Snapshot | None], tuple[str, ...]] = {}

        async def compare(
            old: Snapshot | None, new: Snapshot | None
        ) -> tuple[str, ...]:
            if (old, new) not in seen:
                seen[old, new] = await self.changed(old, new)
            return seen[old, new]

        observations = [item for item in items if isinstance(item, Observation)]
        reasons = {
            item.id: await why_stale(item, self._history, final, compare)
            for item in observations
        }
        return {identifier: reason for identifier, reason in reasons.items() if reason}


Compare = Callable[[Snapshot | None, Snapshot | None], Awaitable[Sequence[str]]]
"""Returns the paths that differ between two snapshots, sorted; none where one is unknown."""


async def why_stale(
    item: Observation, history: SnapshotHistory, final: Snapshot, compare: Compare
) -> str:
    """Return why an observation is outdated at `final`, in words; empty if it is not. See `core.freshness`.

    A file tool's observation depends only on its own path, a command's on the whole workspace. The response and a
    person's answer depend on no snapshot.
    """
    if item.source in (RESPONSE, OWNER) and not item.reported_by:
        return ""
    before, end = history.find(item.before), history.ends.get(item.round)
    after = end if item.reported_by else history.find(item.after)
    if after is None or (before is None and item.reported_by):
        return f"it is not known on which files {item.id} was seen"
    later = await compare(after, final)
    if item.path is not None and not item.reported_by:
        return f"{item.path} changed after {item.id}" if item.path in later else ""
    times, differing = history.touched.get(item.round), await compare(before, after)
    during = changed_after_start(item, times, differing, history.written)
    if during and item.reported_by and item.started is None:
        return f"{some(during, 3)} changed in the round in which {item.reported_by} reported {item.id}"
    if during and item.reported_by:
        return f"{some(during, 3)} changed after {item.id} began"
    if during:
        return f"{item.id} itself changed {some(during, 3)}; run the check alone, after the change"
    later = [path for path in later if depends_on(item, path, history.written)]
    return f"{some(later, 3)} changed after {item.id}" if later else ""


class Flakiness:
    """The results of one run by content. A content is a snapshot with the ignored files and the plan of the check."""

    def __init__(self) -> None:
        self._contents: list[
            Content
        ] = []  # oldest first; the last one is being checked

    def recall(self, contents: Iterable[Content]) -> None:
        self._contents += contents

    def begin(self, key: str, when: str) -> None:
        """Start a check of a content; `when` is for people ("round 2")."""
        self._contents.append(Content(key=key, when=when))

    def contradicted(self, result: ValidatorResult, where: str = "") -> str:
        """Return when the validator had the opposite result on this content, in this environment; empty if never."""
        # The result of a missing program does not depend on the content.
        if not result.steady or result.reason == "not_found":
            return ""
        opposite, key = (
            Colour(name=f"{result.name}{where}", passed=not result.passed),
            self.content().key,
        )
        return next(
            (
                item.when
                for item in self._contents
                if item.key == key and opposite in item.said
            ),
            "",
        )

    def note(self, result: ValidatorResult, where: str = "") -> None:
        """Remember a result on the current content."""
        if result.steady and result.reason not in ("not_found", "flaky"):
            results = (
                *self.content().said,
                Colour(name=f"{result.name}{where}", passed=result.passed),
            )
            self._contents[-1] = self.content().model_copy(update={"said": results})

    def content(self) -> Content:
        """Return what was noted since `begin`, for the log."""
        return self._contents[-1]


def flaky_red(result: ValidatorResult, earlier: str) -> ValidatorResult:
    """Return a result that contradicts an earlier one as a failed result."""
    was, now = ("failed", "passed") if result.passed else ("passed", "failed")
    message = f"it {was} in {earlier} and {now} now on the same files; with [[validators]] retries = 0 that counts as failed"
    update = {
        "passed": False,
        "reason": "flaky",
        "summary": f"flaky: {now} now, {was} in {earlier} on the same files",
    }
    return result.model_copy(
        update={**update, "feedback": f"{message}\n\n{result.feedback}".strip()}
    )


@dataclass(frozen=True)
class Results:
    """The results of one run in an environment, and which of them a third run decided."""

    answers: tuple[Answer, ...]
    flaky: tuple[str, ...] = ()
    changed: tuple[
        str, ...
    ] = ()  # files of the snapshot that validators wrote; the workspace has not changed
    written: tuple[
        str, ...
    ] = ()  # all files that validators wrote, without caches and outputs

    def __add__(self, other: Results) -> Results:
        """Return both as the results of one run."""
        return Results(
            (*self.answers, *other.answers),
            (*self.flaky, *other.flaky),
            (*self.changed, *other.changed),
            (*self.written, *other.written),
        )

    @property
    def results(self) -> tuple[ValidatorResult, ...]:
        return tuple(result for result, _ in self.answers)

    @property
    def green(self) -> bool:
        """Return whether there are results and all are green."""
        return bool(self.answers) and all(result.passed for result in self.results)
