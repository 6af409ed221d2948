"""A batch at one moment, as rows and totals that every view of it shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from goalrunner.batches.history import BatchState, EntryState
from goalrunner.core.endings import worker_of
from goalrunner.core.errors import one_line, some
from goalrunner.core.run_summary import RUNNING, UNREADABLE, RunSummary
from goalrunner.reports import figures

WORDS = (
    "running",
    "waiting",
    "lost",
    "complete",
    "capped",
    "blocked",
    "failed",
    "cancelled",
    "stopped",
    "skipped",
    "pending",
)
"""What a row says about its entry: what it does, or how it ended.

This is the order in which totals count them. `lost`: the process of the run is gone,
and no scheduler starts it again. `stopped`: it ended with the batch, and goes on with
it.
"""

ACTIVE = ("running", "waiting")

BatchStatus = Literal[
    "running", "complete", "incomplete", "stopped", "cancelled", "lost"
]


@dataclass(frozen=True)
class BatchMoment:
    """A batch at one moment: its state, and the figures of its runs."""

    state: BatchState
    summaries: Mapping[str, RunSummary]
    """By run id; a run without a summary has not begun."""
    is_driven: bool
    """Whether a scheduler works on it."""
    now: datetime
    in_fleet: bool = False
    """Whether the workers of a fleet have its runs."""
    holds: Mapping[str, str] = field(default_factory=dict)
    """By key: why an entry does not begin, if that is not the order of the batch."""

    @property
    def status(self) -> BatchStatus:
        """How far the batch is, in one word."""
        stop = self.state.stopped
        if stop is not None and stop.cancelled:
            return "cancelled"
        if self.is_driven:
            return "running"
        if self.state.is_success:
            return "complete"
        if stop is not None:
            return "stopped"
        is_over = all(entry.is_over for entry in self.state.entries.values())
        return "incomplete" if is_over else "lost"

    @property
    def exit_code(self) -> int:
        """The exit code of a command about the batch, as that of a run."""
        # 4 while it has not ended, as `goal status` of a run.
        codes = {"complete": 0, "running": 4, "lost": 4}
        return codes.get(self.status, 1)


@dataclass(frozen=True)
class BatchRow:
    """One entry of a batch."""

    entry: EntryState
    word: str
    summary: RunSummary
    """The figures of its run; those of an empty summary if there are none."""
    seconds: float
    """Active time of the run until now."""
    remark: str
    """What it does or waits for, or why it ended; may be empty."""

    @property
    def name(self) -> str:
        return self.entry.entry.name

    @property
    def run_id(self) -> str:
        return self.entry.run_id

    @property
    def is_outdated(self) -> bool:
        """Whether its run has ended otherwise since: `goal resume` has continued it."""
        if self.entry.status != "ended" or self.summary.exit_code is None:
            return False
        return self.summary.status != self.entry.outcome

    @property
    def waits_for_person(self) -> bool:
        """Whether it goes on after a decision or an answer."""
        return self.word == "waiting" and not self.summary.waits_for

    @property
    def rounds(self) -> int:
        """The round that is running, or the rounds that were checked."""
        if self.word in ACTIVE and self.summary.round is not None:
            return self.summary.round
        return self.summary.checked_rounds


def batch_rows(moment: BatchMoment) -> list[BatchRow]:
    """Return a row for each entry, in the order of the plan."""
    return [batch_row(moment, key) for key in moment.state.entries]


def active_rows(moment: BatchMoment) -> list[BatchRow]:
    """Return the rows of the entries whose runs are at work, which alone change."""
    keys = [
        key for key, entry in moment.state.entries.items() if entry.status == "running"
    ]
    return [batch_row(moment, key) for key in keys]


def batch_row(moment: BatchMoment, key: str) -> BatchRow:
    """Return the row of one entry. Raise KeyError."""
    entry = moment.state.entries[key]
    summary = moment.summaries.get(entry.run_id, RunSummary())
    word = _word(entry, summary, is_driven=moment.is_driven)
    if word in ("pending", "stopped") and moment.status == "cancelled":
        word = "cancelled"
    seconds = summary.duration
    if word == "running" and summary.status == RUNNING:
        # A summary is written at events, and a turn goes on for minutes without one.
        seconds += _seconds_since(summary.updated_at, moment.now)
    remark = _remark(moment, entry, summary, word)
    row = BatchRow(entry, word, summary, seconds, one_line(remark))
    if row.is_outdated:
        row = replace(row, remark=f"its run is {summary.status} since goal resume")
    return row


def _word(entry: EntryState, summary: RunSummary, *, is_driven: bool) -> str:
    if entry.status == "ended":
        return entry.outcome
    if entry.status != "running":
        return entry.status
    if summary.status == RUNNING:
        return "waiting" if _waits(summary) else "running"
    # A scheduler notices an end a moment later, and starts a run again whose process
    # is gone. Without one, the figures of the run are the last word.
    if is_driven:
        return "running"
    if summary.status == UNREADABLE:
        return "lost"
    return "stopped" if summary.stop_reason == "interrupted" else summary.status


def _waits(summary: RunSummary) -> bool:
    return bool(summary.waits_for or summary.waiting or summary.asks)


def _seconds_since(when: str, now: datetime) -> float:
    try:
        return max((now - datetime.fromisoformat(when)).total_seconds(), 0.0)
    except (TypeError, ValueError):
        # The first summary of a run has no time, and a damaged one may have any text.
        return 0.0


def _remark(
    moment: BatchMoment, entry: EntryState, summary: RunSummary, word: str
) -> str:
    match word:
        case "waiting":
            return _wait(summary, moment.now)
        case "running":
            return _work(summary)
        case "pending":
            before = _before(moment.state, entry)
            return before or moment.holds.get(entry.entry.key, "")
        case "complete":
            return _integration(moment.state, entry)
        case "lost":
            if not summary.run_id:
                return "it never began: its process has ended"
            return "its process has ended unexpectedly"
        case "stopped" if moment.state.plan.ends_at_first and moment.state.is_success:
            return "ended, because another run is verified"
    reason = (summary.stop_reason or "").replace("_", " ")
    message = entry.message or summary.message
    # A message has further lines, with commands that the end of the batch names.
    first_line = message.strip().partition("\n")[0]
    return first_line or reason


def _wait(summary: RunSummary, now: datetime) -> str:
    """Return what a run waits for: a limit, or a person."""
    if summary.waits_for:
        until = figures.time_ahead(summary.resume_at, now)
        # The time comes first: a narrow terminal cuts the end.
        return f"until {until}: {summary.waits_for}"
    for identifier, action in summary.waiting.items():
        return f"you: {identifier} {action}"
    return f"you: {summary.open_questions[0]}" if summary.open_questions else "you"


def _work(summary: RunSummary) -> str:
    """Return who works, and why the last check was red: "agent · ✗ tests: 2 failed"."""
    if summary.status != RUNNING or summary.round is None:
        return "starting"
    worker = worker_of(summary.current_step)
    for check in summary.validators:
        if check.get("passed") is False:
            return f"{worker} · ✗ {check.get('name', '?')}: {check.get('summary', '')}"
    if summary.missing:
        return f"{worker} · ✗ judge: {summary.missing}"
    return worker


def _before(state: BatchState, entry: EntryState) -> str:
    """Return the entries that must be complete before this one begins."""
    names = []
    for key in entry.entry.after:
        earlier = state.entries[key]
        if not earlier.is_complete:
            names.append(earlier.entry.name)
    return f"after {some(names)}" if names else ""


def _integration(state: BatchState, entry: EntryState) -> str:
    if entry.left_out:
        return f"left out: {entry.left_out}"
    return f"on {state.branch}" if entry.commit else ""


@dataclass(frozen=True)
class BatchTotals:
    """The sums over all rows of a batch."""

    counts: Mapping[str, int]
    """The number of entries by word, those that occur."""
    spent: RunSummary
    """Tokens and dollars of all runs together."""


def batch_totals(rows: Sequence[BatchRow]) -> BatchTotals:
    """Return the sums over these rows."""
    occurring: Counter[str] = Counter(row.word for row in rows)
    counts = {word: occurring[word] for word in WORDS if occurring[word]}
    # Tokens are unknown until a run has counted some, which 0 would hide.
    spent = RunSummary(tokens=None, cost_usd=0.0)
    for row in rows:
        _add(spent, row.summary)
    return BatchTotals(counts, spent)


def _add(total: RunSummary, summary: RunSummary) -> None:
    """Add what a run spent; one call without a price makes the sum a lower bound."""
    if not summary.has_spent:
        return
    if summary.tokens is not None:
        total.tokens = (total.tokens or 0) + summary.tokens
    total.estimated_tokens += summary.estimated_tokens
    total.uncounted_calls += summary.uncounted_calls
    total.known_cost_usd += summary.known_cost_usd
    if total.cost_usd is None or summary.cost_usd is None:
        total.cost_usd = None
    else:
        total.cost_usd += summary.cost_usd
