"""What a run shows that waits for a limit to reset."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from goalrunner.core import events
from goalrunner.core.outcome import GoalStatus, StopReason
from goalrunner.core.run_summary import RunSummary
from goalrunner.reports import figures
from goalrunner.reports.closing import closing_lines
from goalrunner.reports.current import Current
from goalrunner.reports.layout import laid_out
from goalrunner.reports.narrative import Narrative
from goalrunner.reports.next_steps import next_steps
from goalrunner.reports.progress import Progress
from goalrunner.reports.run_table import listing_text
from goalrunner.reports.status import status_lines
from tests.reports.test_current import Clock, following, shown
from tests.support import told_run
from tests.support.told_run import feed, numbered, outcome, state_of, summary

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
UNTIL = "2026-11-21T12:13:00+00:00"


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """People see times in their own time zone."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def failed(**changes: object) -> events.WorkFailed:
    fields = {
        "account": "agent",
        "kind": "limit",
        "reason": "usage limit, five hours",
        "message": "it is used up",
    }
    return events.WorkFailed.model_validate(
        {**fields, "stop_reason": StopReason.AGENT_FAILED, **changes}
    )


def wait(until: str = UNTIL, **changes: object) -> events.WaitStarted:
    fields = {
        "account": "agent",
        "kind": "limit",
        "reason": "usage limit, five hours",
        "until": until,
    }
    return events.WaitStarted.model_validate({**fields, **changes})


@pytest.mark.parametrize(
    ("when", "text"),
    [
        (UNTIL, "13:13 CET (in 2 h 13 min)"),
        ("2026-11-21T10:03:12+00:00", "11:03 CET (in 3 min 12 s)"),
        ("2026-11-23T10:00:00+00:00", "2026-11-23 11:00 CET (in 48 h)"),
        ("2026-11-21T09:59:00+00:00", "10:59 CET"),
        ("soon", "soon"),
    ],
)
def test_a_time_is_local_and_says_how_far_it_is_ahead(when: str, text: str) -> None:
    assert figures.time_ahead(when, NOW) == text


def test_a_log_has_one_line_at_the_beginning_of_a_wait_and_one_at_its_end() -> None:
    clock, stream = Clock(), io.StringIO()
    progress = Progress(stream, monotonic=clock)
    feed(progress, events.RoundStarted(round=1, prompt="first"))
    before = len(stream.getvalue())
    feed(progress, failed(), wait())
    for _ in range(200):
        clock.now += 1
        progress.beat()
    feed(progress, events.WaitEnded())
    assert [
        " ".join(line.split()) for line in stream.getvalue()[before:].splitlines()
    ] == [
        "round 1 ! waiting usage limit, five hours, until 13:13 CET (in 2 h 13 min)",
        "· waiting over after 0.0 s; the work goes on",
    ]


def test_a_retry_is_one_line() -> None:
    stream = io.StringIO()
    overloaded = wait(
        "2026-11-21T10:00:30+00:00", kind="retry", reason="529 overloaded", number=2
    )
    progress = Progress(stream)
    feed(progress, events.RoundStarted(round=1, prompt="first"))
    before = len(stream.getvalue())
    feed(progress, failed(kind="overload"), overloaded, events.WaitEnded())
    assert stream.getvalue()[before:].split() == [
        "round",
        "1",
        "!",
        "agent",
        "retry",
        "2",
        "after",
        "30",
        "s",
        "(529",
        "overloaded)",
    ]


def test_the_live_view_counts_down_and_the_active_time_stands_still() -> None:
    clock = Clock()
    until = datetime.now(UTC) + timedelta(hours=2)
    current = following(
        clock,
        told_run.created(),
        told_run.started(),
        events.RoundStarted(round=1, prompt="first"),
        failed(),
        wait(until.isoformat()),
    )
    name, subject, _ = shown(current)
    assert name == "waiting"
    assert subject.startswith("usage limit, five hours, until ")
    assert "(in 1 h 59 min)" in subject or "(in 2 h)" in subject
    before = current.totals()
    clock.now += 600
    assert current.totals() == before


def test_after_a_wait_the_agent_is_at_work() -> None:
    clock, narrative = Clock(), Narrative()
    current = Current(narrative, clock)
    begun = (
        told_run.created(),
        told_run.started(),
        events.RoundStarted(round=1, prompt="first"),
    )
    for record in numbered(*begun, failed(), wait(), events.WaitEnded()):
        narrative.lines_of(record)
        current.follow(record)
        clock.now += 100
    [item] = current.running()
    assert (item.step.name, item.seconds) == ("agent", 100)


def test_status_and_list_say_what_a_run_waits_for() -> None:
    state = state_of(events.RoundStarted(round=1, prompt="first"), failed(), wait())
    values = RunSummary.of(state)
    assert (values.status, values.waits_for, values.resume_at) == (
        "running",
        "usage limit, five hours",
        UNTIL,
    )
    text = "waiting: usage limit, five hours, until 13:13 CET (in 2 h 13 min)"
    assert f"status     {text}\n" in laid_out(status_lines(values, NOW))
    listed = listing_text([values], NOW)
    assert "waiting" in listed.splitlines()[1]
    assert listed.splitlines()[-1] == f"k3f9-make-parse {text}"


def test_the_last_lines_say_when_to_resume() -> None:
    resume_at = datetime.now(UTC) + timedelta(hours=3, seconds=-30)
    message = f"it is used up\nthe limit resets at {resume_at:%Y-%m-%d %H:%M:%S} UTC"
    changes = {"message": message, "resume_at": resume_at.isoformat(), "waited": 4000.0}
    ended = outcome(GoalStatus.FAILED).model_copy(
        update={**changes, "stop_reason": StopReason.AGENT_FAILED}
    )
    lines = laid_out(closing_lines(ended)).splitlines()
    assert "1 h 6 min waited for limits" in lines[0]
    again = next(
        at for at, line in enumerate(lines) if line.startswith("try again  at ")
    )
    assert "(in 2 h 59 min)" in lines[again]
    assert lines[again + 1] == "continue   goal resume k3f9-make-parse"
    assert "the limit resets" not in "\n".join(lines)


def test_a_time_that_is_over_is_not_shown() -> None:
    over = RunSummary.read(
        summary(
            status="failed",
            stop_reason="agent_failed",
            resume_at=UNTIL.replace("2026", "2020"),
        )
    )
    assert "try again" not in laid_out(next_steps(over))


def test_a_cancelled_run_has_no_time_to_try_again() -> None:
    final = summary(
        status="cancelled",
        stop_reason="cancelled",
        resume_at=UNTIL.replace("2026", "2999"),
    )
    assert "try again" not in laid_out(next_steps(RunSummary.read(final)))
    stopped = summary(
        status="cancelled",
        stop_reason="interrupted",
        resume_at=UNTIL.replace("2026", "2999"),
    )
    assert "try again" in laid_out(next_steps(RunSummary.read(stopped)))
