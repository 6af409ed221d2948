"""What the row of an entry says, and the status and totals of a batch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from goalrunner.batches.history import (
    BatchEvent,
    BatchStopped,
    EntryEnded,
    EntryIntegrated,
    EntrySkipped,
)
from goalrunner.batches.rows import BatchMoment, batch_row, batch_rows, batch_totals
from goalrunner.core.run_summary import RunSummary
from tests.support import batch_moments
from tests.support.batch_moments import (
    AT,
    ended,
    moment,
    plan_of,
    running,
    started,
    summary_of,
)

LIMIT = {"waits_for": "usage limit", "resume_at": "2026-11-21T12:23:00+00:00"}
APPROVAL = {"id": "a1", "kind": "shell", "action": "make deploy"}
QUESTION = {"asks": True, "open_questions": ["Which one?"]}
STOPPED = EntryEnded(at=AT, key="1", status="cancelled", stopped=True)


@pytest.mark.parametrize(
    ("events", "summary", "word", "remark"),
    [
        ([], None, "pending", ""),
        (started(1), None, "running", "starting"),
        (started(1), running(1, round=None), "running", "starting"),
        (started(1), running(1, round=0, validators=[]), "running", "agent"),
        (started(1), running(1), "running", "agent · ✗ tests: 2 failed, 41 passed"),
        (
            started(1),
            running(1, validators=[], missing="no\nproof", current_step="audit-2"),
            "running",
            "judge · ✗ judge: no proof",
        ),
        (
            started(1),
            running(1, **LIMIT),
            "waiting",
            "until 12:23 UTC (in 2 h 13 min): usage limit",
        ),
        (
            started(1),
            running(1, approvals=[APPROVAL]),
            "waiting",
            "you: a1 shell: make deploy",
        ),
        (started(1), running(1, **QUESTION), "waiting", "you: Which one?"),
        # The run has ended, and the scheduler will notice it.
        (started(1), summary_of(1), "running", "starting"),
        ([*started(1), ended(1)], summary_of(1), "complete", ""),
        (
            [*started(1), ended(1, "capped", "the time is over\ngoal resume k3f9")],
            summary_of(1, status="capped"),
            "capped",
            "the time is over",
        ),
        (
            [*started(1), ended(1, "blocked")],
            summary_of(1, status="blocked", stop_reason="question_open"),
            "blocked",
            "question open",
        ),
        ([*started(1), ended(1, "failed", "no copy")], None, "failed", "no copy"),
        ([*started(1), STOPPED], running(1), "stopped", ""),
        (
            [EntrySkipped(at=AT, key="1", reason="b is not complete")],
            None,
            "skipped",
            "b is not complete",
        ),
        (
            [
                ended(1),
                EntryIntegrated(at=AT, key="1", branch="goal/n", commit="4f"),
            ],
            summary_of(1),
            "complete",
            "on goal/n",
        ),
        (
            [
                ended(1),
                EntryIntegrated(at=AT, key="1", branch="goal/n", reason="conflict"),
            ],
            summary_of(1),
            "complete",
            "left out: conflict",
        ),
    ],
)
def test_a_row_says_what_its_entry_does_or_how_it_ended(
    events: list[BatchEvent], summary: RunSummary | None, word: str, remark: str
) -> None:
    summaries = [summary] if summary else []
    row = batch_row(moment(plan_of("a"), events, *summaries), "1")
    assert (row.word, row.remark) == (word, remark)


@pytest.mark.parametrize(
    ("summary", "word"),
    [
        (None, "lost"),
        (summary_of(1, status="lost"), "lost"),
        (summary_of(1), "complete"),
        (running(1), "running"),
        # Its scheduler was killed, which ended it so that it goes on.
        (summary_of(1, status="cancelled", stop_reason="interrupted"), "stopped"),
    ],
)
def test_without_a_scheduler_the_figures_of_the_run_say_what_it_does(
    summary: RunSummary | None, word: str
) -> None:
    summaries = [summary] if summary else []
    looked_at = moment(plan_of("a"), started(1), *summaries, is_driven=False)
    assert batch_row(looked_at, "1").word == word


def test_an_entry_waits_for_those_before_it_that_are_not_complete() -> None:
    plan = plan_of("a", "b", "c")
    last = plan.entries[2].model_copy(update={"after": ("1", "2")})
    plan = plan.model_copy(update={"entries": (*plan.entries[:2], last)})
    assert batch_row(moment(plan, [ended(1)]), "3").remark == "after b"


def test_the_time_of_a_run_goes_on_while_it_works_and_not_while_it_waits() -> None:
    events = started(1, 2)
    waiting = running(2, **LIMIT)
    rows = batch_rows(moment(plan_of("a", "b"), events, running(1), waiting))
    assert [row.seconds for row in rows] == [71.0, 63.0]


def test_the_round_is_the_one_at_work_and_then_those_that_were_checked() -> None:
    events = [*started(1, 2), ended(2)]
    rows = batch_rows(moment(plan_of("a", "b"), events, running(1), summary_of(2)))
    assert [row.rounds for row in rows] == [2, 2]


def test_totals_count_the_words_and_sum_what_is_known() -> None:
    totals = batch_totals(batch_rows(batch_moments.at_work()))
    assert totals.counts == {
        "running": 3,
        "waiting": 2,
        "complete": 2,
        "capped": 1,
        "failed": 1,
        "skipped": 1,
        "pending": 2,
    }
    # One run has no price, so that the sum is a lower bound.
    assert totals.spent.cost_usd is None
    assert totals.spent.known_cost_usd == pytest.approx(4 * 0.04 + 3 * 0.21)
    assert totals.spent.tokens == 4 * 12_400 + 4 * 41_210


def _stopped(**fields: bool) -> BatchStopped:
    return BatchStopped.model_validate({"at": AT, "reason": "the budget", **fields})


def _one(*events: BatchEvent) -> BatchMoment:
    return moment(plan_of("a"), events, is_driven=False)


@pytest.mark.parametrize(
    ("looked_at", "status", "exit_code"),
    [
        (replace(_one(), is_driven=True), "running", 4),
        (_one(ended(1)), "complete", 0),
        (_one(ended(1), _stopped()), "complete", 0),
        (_one(ended(1, "failed")), "incomplete", 1),
        (_one(_stopped()), "stopped", 1),
        (_one(_stopped(cancelled=True)), "cancelled", 1),
        (_one(*started(1)), "lost", 4),
    ],
)
def test_the_status_of_a_batch(
    looked_at: BatchMoment, status: str, exit_code: int
) -> None:
    assert (looked_at.status, looked_at.exit_code) == (status, exit_code)


def test_a_run_that_was_continued_since_is_pointed_out() -> None:
    events = [*started(1), ended(1, "blocked", "question open")]
    resumed = summary_of(1, exit_code=0)
    row = batch_row(moment(plan_of("a"), events, resumed, is_driven=False), "1")
    assert (row.word, row.is_outdated) == ("blocked", True)
    assert row.remark == "its run is complete since goal resume"
