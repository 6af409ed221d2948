"""A made-up batch at several moments, for tests of what people are shown."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from goalrunner.batches.history import (
    BatchEvent,
    BatchStopped,
    EntryEnded,
    EntryIntegrated,
    EntrySkipped,
    EntryStarted,
    batch_state,
)
from goalrunner.batches.plan import BatchEntry, BatchLimits, BatchPlan
from goalrunner.batches.rows import BatchMoment
from goalrunner.core.run_summary import RunSummary
from tests.support import told_run

NOW = datetime(2026, 11, 21, 10, 10, tzinfo=UTC)
AT = NOW.isoformat()
LIMITS = BatchLimits(cost_usd=20, until="2026-11-21T18:00:00+00:00", max_failures=4)

NAMES = (
    "parse-empty-input",
    "cli-reads-stdin",
    "docs-build-without-warnings-in-strict-mode",
    "faster-import",
    "remove-python-2-shims",
    "retry-on-503",
    "upgrade-django",
    "migrate-settings",
    "typed-public-api",
    "windows-paths",
    "release-notes",
    "deploy",
)
RUN_IDS = [
    f"{sign}3f9-{name[:12].rstrip('-')}"
    for sign, name in zip("kmnpqrstvwxy", NAMES, strict=True)
]


def plan_of(*names: str, **fields: object) -> BatchPlan:
    """Return a plan with a goal of each name."""
    entries = []
    for number, name in enumerate(names, 1):
        entry = BatchEntry(
            key=str(number),
            name=name,
            source=f"/goals/{name}.toml",
            objective=f"Work on {name}.",
            workspace="/src/parser",
        )
        entries.append(entry)
    values = {
        "batch_id": "night",
        "created_at": "2026-11-21T09:50:00+00:00",
        "entries": entries,
        "jobs": 4,
        **fields,
    }
    return BatchPlan.model_validate(values)


def summary_of(number: int, **changes: object) -> RunSummary:
    """Return the figures of the run of an entry, by its number from 1."""
    values = told_run.summary(run_id=RUN_IDS[number - 1], known_cost_usd=0.21)
    return RunSummary.read(values | changes)


def running(number: int, **changes: object) -> RunSummary:
    """Return the figures of a run that goes on: in its second round, after a red check."""
    tests = {"name": "tests", "passed": False, "summary": "2 failed, 41 passed"}
    values: dict[str, object] = {
        "status": "running",
        "stop_reason": None,
        "round": 2,
        "iterations": 1,
        "current_step": "round-2",
        "score": None,
        "complete": False,
        "validators": [tests],
        "updated_at": (NOW - timedelta(seconds=8)).isoformat(),
        "finished_at": "",
        "duration": 63.0,
        "tokens": 12_400,
        "cost_usd": 0.04,
        "known_cost_usd": 0.04,
    }
    return summary_of(number, **values | changes)


def started(*numbers: int) -> list[BatchEvent]:
    """Return the starts of entries."""
    return [
        EntryStarted(at=AT, key=str(number), run_id=RUN_IDS[number - 1])
        for number in numbers
    ]


def ended(number: int, status: str = "complete", message: str = "") -> BatchEvent:
    """Return the end of an entry."""
    return EntryEnded(at=AT, key=str(number), status=status, message=message)


def moment(
    plan: BatchPlan,
    events: Iterable[BatchEvent],
    *summaries: RunSummary,
    is_driven: bool = True,
) -> BatchMoment:
    """Return a batch after these events, with these figures of its runs."""
    by_run = {summary.run_id: summary for summary in summaries}
    return BatchMoment(batch_state(plan, events), by_run, is_driven, NOW)


def night_plan() -> BatchPlan:
    """Return twelve goals, of which some wait for others."""
    plan = plan_of(*NAMES, limits=LIMITS)
    after = {"8": ("7",), "11": ("1", "2"), "12": ("9", "10", "11")}
    entries = [
        entry.model_copy(update={"after": after.get(entry.key, ())})
        for entry in plan.entries
    ]
    return plan.model_copy(update={"entries": tuple(entries)})


def night_events() -> list[BatchEvent]:
    """Return what has happened in the night so far."""
    return [
        *started(1, 2, 3, 4, 5, 6, 7, 9, 10),
        ended(1),
        ended(2),
        ended(5, "capped", "the time limit of 30 min was reached"),
        ended(7, "failed", "the agent claude is not signed in\nclaude login"),
        EntrySkipped(at=AT, key="8", reason="upgrade-django is not complete"),
        EntryIntegrated(at=AT, key="1", branch="goal/night", commit="4" * 40),
        EntryIntegrated(
            at=AT, key="2", branch="goal/night", reason="conflict in src/cli.py"
        ),
    ]


def at_work() -> BatchMoment:
    """Return the night while it is at work: each kind of row occurs."""
    limit = "claude: usage limit, five hours"
    resume_at = "2026-11-21T12:23:00+00:00"
    approval = {"id": "a1", "kind": "shell", "action": "git push origin main"}
    failed: dict[str, object] = {
        "score": None,
        "complete": False,
        "iterations": 0,
        "cost_usd": None,
    }
    failed["known_cost_usd"] = 0.0
    return moment(
        night_plan(),
        night_events(),
        summary_of(1),
        summary_of(2, iterations=1, duration=61.0),
        running(3, waits_for=limit, resume_at=resume_at, validators=[]),
        running(4),
        summary_of(5, status="capped", stop_reason="timeout", score=0.62),
        running(6, approvals=[approval]),
        summary_of(7, status="failed", stop_reason="agent_failed", **failed),
        running(9, round=0, iterations=0, current_step="baseline", validators=[]),
        is_driven=True,
    )


def over_budget() -> BatchMoment:
    """Return the night after its budget was spent."""
    before = at_work()
    events = [
        *started(1, 2, 3, 4),
        ended(1),
        ended(2),
        EntryEnded(at=AT, key="3", status="cancelled", stopped=True),
        EntryEnded(at=AT, key="4", status="cancelled", stopped=True),
        BatchStopped(at=AT, reason="the budget of $20.00 is spent"),
    ]
    costly = running(4, cost_usd=19.7, known_cost_usd=19.7)
    summaries = {**before.summaries, RUN_IDS[3]: costly}
    return moment(night_plan(), events, *summaries.values(), is_driven=False)


def night_over() -> BatchMoment:
    """Return a batch whose goals are all complete."""
    plan = plan_of(*NAMES[:3])
    events = [*started(1, 2, 3), ended(1), ended(2), ended(3)]
    return moment(
        plan, events, *(summary_of(number) for number in (1, 2, 3)), is_driven=False
    )


def without_scheduler() -> BatchMoment:
    """Return a batch whose scheduler was killed."""
    events = started(1, 2)
    return moment(
        plan_of(*NAMES[:3]), events, summary_of(1, status="lost"), is_driven=False
    )


MOMENTS = (at_work, over_budget, night_over, without_scheduler)
