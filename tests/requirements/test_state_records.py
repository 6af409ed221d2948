"""What the text on goals and state says of goal record, working memory and state events, for runs of this project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from goalrunner import Goal, RunState, read_events, read_state, run_goal
from goalrunner.core import events
from goalrunner.core.errors import RecordError
from goalrunner.core.events import GoalRecord, Record
from goalrunner.core.fold import apply
from goalrunner.core.outcome import StopReason
from goalrunner.core.run_state import BudgetState, MemoryStop, WorkingMemory
from goalrunner.records.event_log import read_records
from goalrunner.testing import ScriptedConversation
from tests.support.library_runs import Judge, Project, misses, proves, ran, says
from tests.support.memory import MemoryLog
from tests.support.recordings import agent, judge, quote, shell, write_file

GOAL = {"goal_id", "run_id", "owner", "description", "success_criteria", "constraints", "risk_class", "status"}
MEMORY = {"run_id", "goal_id", "current_step", "completed_steps", "pending_steps", "open_questions", "constraints"}
REFERENCES = {"evidence_refs", "tool_result_refs", "approval_refs", "budget_state", "stop_reason", "version"}
BUDGET = {"iteration_count", "token_estimate", "cost_cents", "deadline_at"}


def test_s01_the_goal_record_has_every_field() -> None:
    goal = Goal(
        objective="Be good.", owner="ann", success_criteria=["it is good"], constraints=["short"], risk_class="medium"
    )
    state = read_state(run_goal(ScriptedConversation("good"), goal, validators=says("good")))
    record = state.goal
    assert GOAL | {"created_at", "updated_at"} <= set(GoalRecord.model_fields)
    assert (record.owner, record.description, record.risk_class) == ("ann", "Be good.", "medium")
    assert (record.success_criteria, record.constraints) == (("it is good",), ("short",))
    assert (record.run_id, record.goal_id, record.status) == (state.memory.run_id, state.memory.goal_id, "completed")
    assert record.created_at < record.updated_at


def test_s02_the_risk_classes_are_four(project: Project) -> None:
    for risk in ("low", "medium", "high", "critical"):
        assert Goal(objective="x", risk_class=risk).risk_class == risk
    project.write('validator = "true"\nrisk_class = "huge"')
    ended = project.goal("run")
    assert ended.code == 2
    assert "goal.toml:4:14  risk_class must be 'low', 'medium', 'high' or 'critical', not \"huge\"" in ended.err


def test_s03_a_goal_has_each_status(project: Project) -> None:
    seen: list[str] = []

    def check(response: Any, agent: Any) -> bool:
        seen.append(read_state(project.run_id).goal.status)
        return "good" in response["content"][0]["text"]

    def broken(messages: Any) -> str:
        raise ConnectionError

    def status(answer: str, goal: Any = "x", **options: Any) -> str:
        run_goal(ScriptedConversation(answer), goal, max_iterations=1, **options)
        return read_state(project.run_id).goal.status

    ends = [
        status("good", validators=check),
        status("bad", validators=check),
        status("good", validators=check, goal=Goal(objective="x", risk_class="high")),
        status("good", judge=broken),
    ]
    assert project.goal("cancel", project.run_id).code == 0
    assert seen == ["active"] * 3
    assert ends == ["completed", "blocked", "waiting_for_approval", "failed"]
    assert read_state(project.run_id).goal.status == "cancelled"


def test_s04_the_working_memory_has_every_field() -> None:
    assert set(WorkingMemory.model_fields) >= MEMORY | REFERENCES
    assert set(BudgetState.model_fields) >= BUDGET
    goal = Goal(objective="The tests pass.", constraints=["short"])
    answer = judge(("it holds", [quote("o1", "3 passed")]), ("short", [quote("o1", "3 passed")]))["text"]
    outcome = run_goal(ScriptedConversation(ran("3 passed")), goal, Judge(answer), timeout=60)
    memory = read_state(outcome).memory
    assert (memory.constraints, memory.tool_result_refs, memory.evidence_refs) == (("short",), ("c1",), ("o1",))
    assert (memory.current_step, memory.pending_steps, memory.stop_reason) == (None, (), "success")
    assert memory.completed_steps == ("round-1", "audit-1")
    spent = memory.budget_state
    assert (spent.iteration_count, spent.token_estimate, spent.cost_cents) == (1, 15, None)
    assert str(spent.deadline_at) > outcome.started_at
    assert memory.version == len(list(read_events(outcome)))


def test_s05_every_stop_reason_is_one_of_the_six() -> None:
    stops = {
        StopReason.SATISFIED: "success",
        StopReason.QUESTION_OPEN: "blocked",
        StopReason.APPROVAL_REQUIRED: "approval_required",
        StopReason.MAX_ITERATIONS: "budget_exhausted",
        StopReason.TIMEOUT: "budget_exhausted",
        StopReason.BUDGET_EXHAUSTED: "budget_exhausted",
        StopReason.CANCELLED: "cancelled",
        StopReason.JUDGE_FAILED: "failed",
    }
    assert set(get_args(MemoryStop)) == set(stops.values())
    for reason, stop in stops.items():
        assert folded(events.RunEnded(stop_reason=reason)).memory.stop_reason == stop
    assert all(folded(events.RunEnded(stop_reason=reason)).memory.stop_reason for reason in StopReason)


CREATED = events.GoalCreated(
    goal=GoalRecord(goal_id="g", run_id="r", description="d", created_at="t0", updated_at="t0"),
    plan=events.RunRules(validators=("tests",)),
)


def folded(*happened: Any) -> RunState:
    """Return the state after these events of a run."""
    log, state = MemoryLog(), None
    for event in (CREATED, *happened):
        state = apply(state, log.append(event))
    assert state is not None
    return state


def test_s06_the_events_have_the_fields_of_the_pattern() -> None:
    fields: dict[Any, set[str]] = {
        events.GoalCreated: {"goal"},
        events.StepStarted: {"step_id", "description"},
        events.ToolResultRecorded: {"tool_call_id", "evidence_ref"},
        events.ApprovalRecorded: {"approval_id", "decision"},
        events.QuestionOpened: {"question"},
        events.QuestionAnswered: {"question", "evidence_ref"},
        events.BlockReported: {"reason"},
        events.RunEnded: {"stop_reason", "message"},
    }
    for kind, names in fields.items():
        assert names <= set(kind.model_fields), kind
    assert set(get_args(events.Decision)) == {"approved", "denied", "expired"}
    known = {"goal_created", "step_started", "tool_result_recorded", "approval_recorded", "question_opened"}
    assert known | {"question_answered", "block_reported", "run_ended"} <= events.KINDS
    ends = {"satisfied": "completed", "cancelled": "cancelled", "question_open": "blocked"}
    for reason, status in ends.items():
        ended = folded(events.RunEnded(stop_reason=StopReason(reason), message="m"))
        assert (ended.goal.status, ended.message) == (status, "m")


def test_s07_each_event_makes_the_transition_of_the_pattern() -> None:
    observation = events.ToolResultRecorded.model_fields["observation"].annotation
    assert observation is not None
    result = events.ToolResultRecorded(
        tool_call_id="c1", evidence_ref="o1", observation=observation(id="o1", source="shell", round=1)
    )
    asked = events.ApprovalRequested(approval_id="a1", kind="complete", action="x", rule="r")
    begun = folded(events.StepStarted(step_id="validate-1", description="run it"), result, asked)
    memory = begun.memory
    assert (memory.current_step, memory.version) == ("validate-1", 4)
    assert (memory.evidence_refs, memory.tool_result_refs, memory.approval_refs) == (("o1",), ("c1",), ())
    for decision, stop in (("approved", None), ("denied", "blocked"), ("expired", "blocked")):
        decided = folded(asked, events.ApprovalRecorded(approval_id="a1", decision=decision)).memory
        assert (decided.approval_refs, decided.stop_reason) == (("a1",), stop)
    assert folded(events.RunEnded(stop_reason=StopReason.SATISFIED)).memory.stop_reason == "success"
    assert folded(events.RunEnded(stop_reason=StopReason.CANCELLED)).memory.stop_reason == "cancelled"


def test_s08_each_tool_result_is_an_event_with_an_evidence_reference(project: Project) -> None:
    calls = (shell("exit 3"), write_file("a.txt", "a\n"), {"name": "read_file", "arguments": {"path": "a.txt"}})
    project.write('validator = "test -e a.txt"', agent("", *calls), agent("done"))
    project.run()
    results = project.events("tool_result_recorded")
    assert [result.observation.facts for result in results] == [("exit 3",), ("created", "2 bytes"), ("1 line",)]
    assert [result.evidence_ref for result in results] == ["o2", "o3", "o4"]
    memory = project.state.memory
    assert memory.tool_result_refs == tuple(result.tool_call_id for result in results)
    assert set(memory.evidence_refs) >= {"o2", "o3", "o4"}


def test_s09_a_goal_has_observable_criteria_given_or_derived_and_kept() -> None:
    given = Goal(objective="x", success_criteria=["it is good"])
    assert read_state(run_goal(ScriptedConversation("good"), given, validators=says("good"))).criteria == (
        "it is good",
    )
    both = judge(("a is made", []), ("b is made", []), missing="Make them.")["text"]
    second = judge(("a is made", [quote("o1", "a and b")]), ("b is made", [quote("o1", "a and b")]))["text"]
    conversation = ScriptedConversation("first", ran("a and b"))
    outcome = run_goal(conversation, Goal(objective="Make both."), Judge(both, second))
    assert (outcome.status, outcome.derived_criteria) == ("complete", ("a is made", "b is made"))
    assert read_state(outcome).goal.derived_criteria == read_state(outcome).criteria == outcome.derived_criteria


def test_s10_a_goal_that_nothing_checks_is_refused(project: Project) -> None:
    project.write("")
    ended = project.goal("run")
    assert ended.code == 2
    assert "the goal has neither a validator nor a judge" in ended.err
    assert not (project.home / "runs").exists()


@pytest.mark.parametrize(("objective", "warned"), [("Work on the parser.", True), ("parse('') returns [].", False)])
def test_s11_an_objective_that_is_an_activity_gets_a_warning(project: Project, objective: str, warned: bool) -> None:
    project.write('validator = "true"', objective=objective)
    shown = project.goal("run", "--dry-run")
    assert shown.code == 0
    assert ("begins with an activity" in " ".join(shown.out.split())) is warned


def test_s12_the_stop_conditions_are_in_the_first_event() -> None:
    goal = Goal(objective="x", budget={"tokens": 5000}, stall_rounds=7)
    outcome = run_goal(ScriptedConversation("good"), goal, validators=says("good"), max_iterations=4, timeout=60)
    first = next(read_events(outcome))
    assert isinstance(first, events.GoalCreated)
    plan = first.plan
    assert (plan.max_iterations, plan.timeout, plan.tokens, plan.stall_rounds) == (4, 60.0, 5000, 7)
    assert (first.goal.description, plan.validators) == ("x", ("check",))


def plan(**arguments: object) -> dict[str, Any]:
    """Return a call of the plan tool."""
    return {"name": "plan", "arguments": arguments}


def test_s13_the_model_proposes_and_a_step_needs_a_result_that_shows_it(project: Project) -> None:
    project.write(
        'validator = "test -e a.txt"',
        agent("", plan(current="look", pending=["make it"])),
        agent("", shell("ls; touch a.txt")),
        agent("", plan(completed={"look": "o3", "phantom": "o99"}, stop_reason="done")),
        agent("done"),
    )
    project.run()
    memory = project.state.memory
    assert memory.step_evidence["look"] == "o3"
    assert "phantom" not in memory.completed_steps
    assert [event.refused for event in project.events("plan_proposed")] == [(), ("phantom",)]
    assert (memory.proposed_stop, memory.stop_reason) == ("done", "success")


def test_s14_a_state_that_was_rewritten_is_found(project: Project) -> None:
    outcome = run_goal(ScriptedConversation(ran("3 passed")), Goal(objective="x"), Judge(proves("o1", "3 passed")))
    assert project.goal("verify", outcome.run_id).code == 0
    log = project.home / "runs" / outcome.run_id / "events.jsonl"
    text = log.read_text()
    second = text.index('"at":"20', text.index("\n"))
    log.write_text(f'{text[:second]}"at":"19{text[second + 8 :]}')
    ended = project.goal("verify", outcome.run_id)
    assert ended.code != 0
    assert "not intact: " in ended.out


def test_s15_an_event_that_is_applied_twice_changes_nothing() -> None:
    judge = Judge(misses("More."), proves("o2", "3 passed"))
    outcome = run_goal(ScriptedConversation(ran("1 failed"), ran("3 passed")), Goal(objective="x"), judge)
    state: RunState | None = None
    for record in records_of(outcome):
        state = apply(state, record)
        assert apply(state, record) == state
    assert state == read_state(outcome)
    assert state is not None
    assert state.memory.tool_result_refs == ("c1", "c1")


def records_of(outcome: Any) -> list[Record]:
    """Return the records of a run."""
    return list(read_records(Path(outcome.run_path) / "events.jsonl"))


def test_s16_the_state_is_replayed_at_any_event(project: Project) -> None:
    outcome = run_goal(ScriptedConversation("bad", "good"), "x", validators=says("good"))
    records = records_of(outcome)
    state: RunState | None = None
    for record in records:
        state = apply(state, record)
    assert state == read_state(outcome)
    middle = next(record.seq for record in records if record.event.type == "round_finished")
    shown = [project.goal("show", outcome.run_id, "--state", "--at", str(at)).out for at in (middle, len(records))]
    assert "round-1" in shown[0]
    assert shown[0] != shown[1]
    with pytest.raises(RecordError):
        apply(None, records[1])
    assert json.loads(records[0].model_dump_json())["seq"] == 1
