"""The measures of runs: a good run has no bad sample, and each kind of fault is seen by the measure for it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence

import pytest
import tomli_w

from goalrunner.app import measures
from goalrunner.app.measures import MEASURES, Measure, measure
from goalrunner.app.previous_run import load_state
from goalrunner.core import events
from goalrunner.core.events import Event
from goalrunner.core.fold import apply
from goalrunner.core.outcome import StopReason
from goalrunner.records.event_log import EventLog, read_records
from goalrunner.records.files import SystemClock
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder
from tests.support.finished_run import FinishedRun

Change = Callable[[list[Event]], Sequence[Event]]


def rewritten(run: FinishedRun, change: Change) -> RunFolder:
    """The run with another log, as a defective runner would have written it."""
    folder = run.folder
    found = [record.event for record in read_records(folder.events)]
    folder.events.unlink()
    with EventLog(folder.events, SystemClock(), Redactor({})) as log:
        for event in change(found):
            log.append(event)
    return folder


def by_name(folder: RunFolder) -> dict[str, Measure]:
    return {one.name: one for one in measure([folder])}


def faulty(folder: RunFolder) -> dict[str, str]:
    """The first fault of each measure that has one."""
    return {one.name: one.faults[0].removeprefix(f"{folder.run_id}: ") for one in measure([folder]) if one.faults}


def resumed(found: Sequence[Event]) -> events.RunResumed:
    created = next(event for event in found if isinstance(event, events.GoalCreated))
    return events.RunResumed(plan=created.plan, version="0")


def test_a_good_run_has_no_fault_and_what_did_not_happen_is_unknown(run: FinishedRun) -> None:
    found = by_name(run.folder)
    assert list(found) == list(MEASURES)
    assert {name: one.rate for name, one in found.items()} == {
        "state completeness": 1.0,
        "transition validity": 1.0,
        "replay success": 1.0,
        "resume success": None,
        "fresh state": 1.0,
        "approvals kept": None,
        "stop-reason accuracy": 1.0,
        "promotion-policy accuracy": None,
    }
    assert found["state completeness"].samples == len(list(read_records(run.folder.events)))


def test_the_samples_of_several_runs_are_added(run: FinishedRun) -> None:
    once, twice = measure([run.folder]), measure([run.folder, run.folder])
    assert [one.samples * 2 for one in once] == [one.samples for one in twice]


def test_a_complete_verdict_on_outdated_evidence_is_a_fault(run: FinishedRun) -> None:
    def outdate(found: list[Event]) -> list[Event]:
        return [
            event.model_copy(update={"stale": {"o6": "hello.txt changed"}})
            if isinstance(event, events.VerdictRecorded) and event.verdict.complete
            else event
            for event in found
        ]

    assert "complete, with outdated o6" in faulty(rewritten(run, outdate))["fresh state"]


def test_a_complete_end_without_a_proof_is_a_fault(run: FinishedRun) -> None:
    def unproven(found: list[Event]) -> list[Event]:
        kept = [event for event in found if not isinstance(event, events.VerdictRecorded | events.ValidatorsFinished)]
        return [event for event in kept if not isinstance(event, events.BaselineTaken)]

    assert "complete without a proof" in faulty(rewritten(run, unproven))["stop-reason accuracy"]


def test_an_outcome_that_the_log_does_not_support_is_a_fault(run: FinishedRun) -> None:
    def capped(found: list[Event]) -> list[Event]:
        return [*found[:-1], events.RunEnded(stop_reason=StopReason.MAX_ITERATIONS)]

    faults = faulty(rewritten(run, capped))
    assert faults["replay success"].startswith("outcome.json differs from the log: ")
    assert "status" in faults["replay success"]


def test_a_damaged_log_is_an_invalid_transition(run: FinishedRun) -> None:
    lines = run.folder.events.read_text().splitlines(keepends=True)
    run.folder.events.write_text("".join(lines[:5] + lines[6:]))
    found = by_name(run.folder)["transition validity"]
    assert (found.good, found.samples) == (5, 6)
    assert found.faults


def test_a_log_of_another_version_is_named_as_such_by_each_measure(run: FinishedRun) -> None:
    run.folder.events.write_text(run.folder.events.read_text().replace('"v":"1.', '"v":"0.', 1))
    found = by_name(run.folder)
    for name in ("transition validity", "replay success"):
        assert "has schema version 0." in found[name].faults[0]


@pytest.mark.parametrize("went_on", [True, False])
def test_a_resumed_run_has_to_go_on(run: FinishedRun, went_on: bool) -> None:
    def interrupted(found: list[Event]) -> list[Event]:
        place = max(number for number, event in enumerate(found) if isinstance(event, events.RoundStarted))
        return [*found[:place], resumed(found), *(found[place:] if went_on else ())]

    found = by_name(rewritten(run, interrupted))["resume success"]
    assert (found.good, found.samples) == (int(went_on), 1)


def test_an_approval_is_kept_with_its_first_decision(run: FinishedRun) -> None:
    decisions: tuple[events.Decision, ...] = ("approved", "denied")

    def asked(found: list[Event]) -> list[Event]:
        request = events.ApprovalRequested(approval_id="a1", kind="shell", action="rm -r build", rule="delete")
        answers = [events.ApprovalRecorded(approval_id="a1", decision=decision, by="me") for decision in decisions]
        return [*found[:-1], request, *answers, found[-1]]

    folder = rewritten(run, asked)
    assert by_name(folder)["approvals kept"].rate == 1.0
    records = list(read_records(folder.events))
    forgetful = apply(None, records[0])  # a state that has forgotten it
    assert list(measures._approvals(records, [forgetful])) == ["a1 is lost"]


@pytest.mark.parametrize("end", [StopReason.INTERRUPTED, StopReason.APPROVAL_REQUIRED])
def test_an_approval_after_the_end_is_no_fault_and_a_missing_stop_reason_is(run: FinishedRun, end: StopReason) -> None:
    def approved(found: list[Event]) -> list[Event]:
        place = max(number for number, event in enumerate(found) if isinstance(event, events.RoundStarted))
        requests = [
            events.ApprovalRequested(approval_id=name, kind="shell", action="make", rule="r", tool_call_id=name)
            for name in ("a1", "a2")
        ]
        decision = events.ApprovalRecorded(approval_id="a1", decision="approved", by="me")
        return [*found[:place], *requests, events.RunEnded(stop_reason=end), decision]

    folder = rewritten(run, approved)
    folder.outcome.unlink()
    assert faulty(folder) == {}
    state = load_state(folder).with_approvals(lambda _: True, decided_at="")
    assert measures._missing_part(state).endswith("no stop reason")


def test_a_kept_fact_that_the_goal_does_not_allow_is_a_fault(run: FinishedRun) -> None:
    def promoted(found: list[Event]) -> list[Event]:
        return [*found, events.MemoryPromoted(memory_id="m1", kind="preference", source_ref="o6")]

    folder = rewritten(run, promoted)
    assert faulty(folder)["promotion-policy accuracy"] == "m1: preference is not allowed"
    table = tomllib.loads(folder.goal_file.read_text())
    folder.goal_file.write_text(tomli_w.dumps({**table, "memory": {"promote": ["preference"]}}))
    assert by_name(folder)["promotion-policy accuracy"].rate == 1.0


def test_a_changed_outcome_is_a_fault(run: FinishedRun) -> None:
    run.folder.outcome.write_text(json.dumps({**json.loads(run.folder.outcome.read_text()), "iterations": 9}))
    assert faulty(run.folder) == {"replay success": "outcome.json differs from the log: iterations"}
