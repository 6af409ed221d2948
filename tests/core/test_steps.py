"""What is under way, done and still to come; each completed step with what shows it."""

from __future__ import annotations

from goalrunner.core import events
from goalrunner.core.observation import Observation, Snapshot
from goalrunner.core.outcome import StopReason
from goalrunner.core.run_state import KEPT, WorkingMemory
from goalrunner.core.verdict import (
    Citation,
    CriterionVerdict,
    GoalVerdict,
    ValidatorResult,
)
from tests.support.folding import state_after

PLAN = events.RunRules(validators=("tests",), has_judge=True, takes_baseline=True)
ROUND = events.RoundStarted(round=1, prompt="first")
VALIDATE = events.StepStarted(step_id="validate-1", description="run 1 validator")


def fold(*happened: events.Event) -> WorkingMemory:
    return state_after(PLAN, *happened).memory


def seen(number: int, source: str = "shell") -> Observation:
    return Observation(id=f"o{number}", source=source, round=1)


def tool(number: int) -> events.ToolResultRecorded:
    return events.ToolResultRecorded(
        tool_call_id=f"c{number}", evidence_ref=f"o{number}", observation=seen(number)
    )


def checked(number: int, *, passed: bool = True) -> events.ValidatorsFinished:
    result = ValidatorResult(name="tests", passed=passed)
    return events.ValidatorsFinished(
        round=1, results=(result,), observations=(seen(number, "validator tests"),)
    )


def verdict(*cited: str, complete: bool = True) -> events.VerdictRecorded:
    evidence = tuple(
        Citation(observation=identifier, quote="x") for identifier in cited
    )
    criterion = CriterionVerdict(criterion="c", satisfied=complete, evidence=evidence)
    return events.VerdictRecorded(
        round=1,
        verdict=GoalVerdict(
            score=1.0, complete=complete, criteria=(criterion,), missing=""
        ),
    )


def test_a_state_says_from_its_first_event_what_remains() -> None:
    assert fold().pending_steps == ("baseline", "round-1")
    assert fold(ROUND).pending_steps == ("validate-1", "audit-1")
    assert fold(ROUND, tool(1), events.RoundFinished(round=1)).pending_steps == (
        "validate-1",
        "audit-1",
    )
    assert fold(
        ROUND, events.RoundFinished(round=1), VALIDATE, checked(1, passed=False)
    ).pending_steps == ("round-2",)


def test_after_a_green_baseline_the_round_remains_where_the_agent_works_in_any_case() -> (
    None
):
    green = events.BaselineTaken(
        standing="green", results=(ValidatorResult(name="tests", passed=True),)
    )
    assert fold(green).pending_steps == ("audit-0",)
    session = PLAN.model_copy(update={"needs_round": True})
    assert state_after(session, green).memory.pending_steps == ("round-1",)


def test_each_of_the_runners_steps_names_the_observation_that_shows_it() -> None:
    memory = fold(
        ROUND,
        tool(1),
        tool(2),
        events.RoundFinished(round=1),
        VALIDATE,
        checked(3),
        events.AuditStarted(round=1),
        verdict("o99", "o2"),
    )
    assert memory.completed_steps == ("round-1", "validate-1", "audit-1")
    assert memory.step_evidence == {
        "round-1": "o2",
        "validate-1": "o3",
        "audit-1": "o2",
    }
    assert memory.pending_steps == ()


def test_a_step_that_no_observation_shows_names_its_event() -> None:
    memory = fold(ROUND, events.RoundFinished(round=1))
    assert (memory.completed_steps, memory.step_evidence) == (
        ("round-1",),
        {"round-1": "e3"},
    )


def test_a_step_that_was_cut_is_not_completed_by_the_one_that_begins_after_it() -> None:
    again = events.RunResumed(plan=PLAN, version="0")
    memory = fold(
        ROUND, tool(1), events.RoundFinished(round=1), VALIDATE, again, VALIDATE
    )
    assert (memory.current_step, memory.completed_steps) == ("validate-1", ("round-1",))


def test_the_agents_plan_stands_beside_the_runners_steps() -> None:
    plan = events.PlanProposed(
        current="write it", pending=("test it",), completed={"read it": "o1"}
    )
    memory = fold(ROUND, tool(1), plan)
    assert memory.current_step == "write it"
    assert memory.pending_steps == ("test it", "validate-1", "audit-1")
    assert (memory.completed_steps, memory.step_evidence) == (
        ("read it",),
        {"read it": "o1"},
    )


def test_the_end_of_a_turn_completes_the_round_and_not_what_the_agent_was_at() -> None:
    plan = events.PlanProposed(current="write it", pending=("test it",))
    memory = fold(ROUND, tool(1), plan, events.RoundFinished(round=1))
    assert memory.completed_steps == ("round-1",)
    assert memory.pending_steps == ("write it", "test it", "validate-1", "audit-1")


def test_a_plan_outlives_the_round_and_ends_with_the_goal() -> None:
    plan = events.PlanProposed(pending=("test it",))
    red = (
        ROUND,
        tool(1),
        plan,
        events.RoundFinished(round=1),
        VALIDATE,
        checked(2, passed=False),
    )
    assert fold(*red).pending_steps == ("test it", "round-2")
    assert fold(
        *red, events.RunEnded(stop_reason="max_iterations", message="x")
    ).pending_steps == (
        "test it",
        "round-2",
    )
    assert (
        fold(
            *red, events.RunEnded(stop_reason=StopReason.SATISFIED, message="x")
        ).pending_steps
        == ()
    )


def test_the_same_plan_twice_is_one() -> None:
    plan = events.PlanProposed(
        current="b",
        pending=("c", "c"),
        completed={"a": "o1"},
        stop_reason="all is done",
    )
    once, twice = fold(ROUND, tool(1), plan), fold(ROUND, tool(1), plan, plan)
    assert once.model_copy(update={"version": 0}) == twice.model_copy(
        update={"version": 0}
    )
    assert once.proposed_stop == "all is done"


def test_a_step_that_is_completed_is_no_longer_current_or_pending() -> None:
    memory = fold(
        ROUND,
        tool(1),
        events.PlanProposed(
            current="a", pending=("b",), completed={"a": "o1", "b": "o1"}
        ),
    )
    assert (memory.current_step, memory.pending_steps) == (
        "round-1",
        ("validate-1", "audit-1"),
    )


def test_the_state_keeps_the_newest_steps_and_no_evidence_of_others() -> None:
    plans = [
        events.PlanProposed(completed={f"step {number}": "o1"})
        for number in range(KEPT + 10)
    ]
    memory = fold(ROUND, tool(1), *plans)
    assert len(memory.completed_steps) == KEPT
    assert set(memory.step_evidence) == set(memory.completed_steps)


def test_the_observation_of_a_hidden_validator_shows_a_step_as_well() -> None:
    hidden = events.ValidatorsFinished(
        round=1,
        results=(ValidatorResult(name="tests", passed=True),),
        concealed=(seen(1, "validator secret"),),
    )
    memory = fold(ROUND, events.RoundFinished(round=1), VALIDATE, hidden)
    assert memory.step_evidence["validate-1"] == "o1"


def test_a_workspace_that_changed_after_the_check_is_to_be_checked_again() -> None:
    changed = events.WorkspaceChanged(
        paths=("a",), snapshot=Snapshot(id="b" * 64, tree="b" * 64)
    )
    done = (
        ROUND,
        events.RoundFinished(round=1),
        VALIDATE,
        checked(1),
        events.AuditStarted(round=1),
        verdict("o1"),
    )
    assert fold(*done).pending_steps == ()
    assert fold(*done, changed).pending_steps == ("validate-1", "audit-1")
