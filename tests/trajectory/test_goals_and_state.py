"""The evaluation list of Goals and State: its ten tests as real runs. Their trajectory is looked at, not their end alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from goalrunner.app.promotion import Promotion, promote_fact
from goalrunner.core import events
from goalrunner.core.decision import decide
from goalrunner.core.errors import UsageError
from goalrunner.core.events import Record, RunEnded
from goalrunner.core.fold import apply
from goalrunner.core.run_state import RunState
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import SystemClock
from goalrunner.records.redaction import Redactor
from tests.support.course import Course, effect
from tests.support.deciding import answer_question, cancel_run, decide_approval
from tests.support.recordings import agent, fact, judge, quote, shell, write_file

Measured = Callable[[Course], None]

CRITERIA = ["two.txt exists"]
CHECKS = [{"name": "two", "run": "test -e two.txt"}]
WORK = (
    agent("I begin.", effect("one")),
    agent("I am done."),
    agent("I go on.", effect("two", "touch two.txt")),
    agent("Now I am."),
)
"""Round 1 does not do it, round 2 does."""
GOAL: dict[str, Any] = {"success_criteria": CRITERIA, "validators": CHECKS}


def fold(records: list[Record]) -> RunState:
    state: RunState | None = None
    for record in records:
        state = apply(state, record)
    assert state is not None
    return state


def of_kind(course: Course, kind: type[Any]) -> list[Any]:
    return [record.event for record in course.log if isinstance(record.event, kind)]


def plan(**arguments: object) -> dict[str, Any]:
    return {"name": "plan", "arguments": arguments}


async def test_a_multi_step_task_creates_a_goal_with_observable_success_criteria(
    course: Course, measured: Measured
) -> None:
    await course.run(
        agent("", plan(current="look", pending=["make it"])),
        agent("", shell("ls -a")),
        agent("", plan(current="make it", completed={"look": "o3", "make it": "o9"})),
        *WORK[2:],
        ends="complete",
        constraints=["touch nothing else"],
        **GOAL,
    )
    first = course.log[0].event
    assert isinstance(first, events.GoalCreated)
    assert first.goal.success_criteria == ("two.txt exists",)
    assert first.plan.validators == ("two",)
    memory = course.state.memory
    assert memory.completed_steps == ("baseline", "look", "round-1", "validate-1")
    assert memory.step_evidence == {
        "baseline": "o1",
        "look": "o3",
        "round-1": "o5",
        "validate-1": "o6",
    }
    (refused,) = (
        event.refused for event in of_kind(course, events.PlanProposed) if event.refused
    )
    assert refused == ("make it",)
    measured(course)


async def test_each_tool_result_becomes_a_state_event_with_an_evidence_reference(
    course: Course, measured: Measured
) -> None:
    calls = (
        shell("printf hello; exit 3"),
        write_file("a.txt", "a\n"),
        {"name": "read_file", "arguments": {"path": "a.txt"}},
        {"name": "edit_file", "arguments": {"path": "a.txt", "old": "a", "new": "b"}},
        {"name": "read_file", "arguments": {"path": "no.txt"}},
        {"name": "sehll", "arguments": {}},
        {"name": "shell", "arguments": "{"},
        {"name": "ask", "arguments": {"question": "which colour?"}},
    )
    await course.run(agent("", *calls), *WORK[2:], ends="complete", **GOAL)
    results = of_kind(course, events.ToolResultRecorded)
    assert len(results) == len(calls) + 1
    artifacts = ArtifactStore(course.run_folder.artifacts, Redactor({}))
    for result in results:
        assert result.evidence_ref == result.observation.id
        assert result.observation.output is not None
        artifacts.read(result.observation.output)
    memory = course.state.memory
    assert memory.tool_result_refs == tuple(result.tool_call_id for result in results)
    assert set(memory.evidence_refs) >= {result.evidence_ref for result in results}
    assert len(set(memory.evidence_refs)) == len(memory.evidence_refs)
    measured(course)


INTERRUPTED = [
    pytest.param(
        lambda event: isinstance(event, events.RoundStarted), id="in the first prompt"
    ),
    pytest.param(
        lambda event: isinstance(event, events.ToolResultRecorded),
        id="after a tool result",
    ),
    pytest.param(
        lambda event: isinstance(event, events.RoundFinished), id="before the checks"
    ),
    pytest.param(
        lambda event: isinstance(event, events.ValidatorsFinished),
        id="after the checks",
    ),
]


@pytest.mark.parametrize("when", INTERRUPTED)
async def test_resume_after_interruption(
    course: Course, measured: Measured, when: Any
) -> None:
    course.interrupt(when)
    await course.run(*WORK, ends="cancelled/interrupted", **GOAL)
    before = course.state
    outcome = await course.resume(ends="complete")
    assert outcome.iterations == 2
    assert course.effects == ["one", "two"], (
        "nothing ran twice, and nothing was left out"
    )
    assert (
        course.state.memory.evidence_refs[: len(before.memory.evidence_refs)]
        == before.memory.evidence_refs
    )
    measured(course)


async def test_resume_after_an_interruption_in_the_middle_of_a_tool_call(
    course: Course, measured: Measured
) -> None:
    long = agent("I begin.", effect("one", "sleep 60"), effect("never"))
    course.interrupt(lambda event: isinstance(event, events.ToolCalled), after=1.0)
    await course.run(long, *WORK[1:], ends="cancelled/interrupted", **GOAL)
    await course.resume(ends="complete")
    assert course.effects == ["one", "two"]
    assert "interrupted; its effect is unknown" in course.told
    (resumed,) = of_kind(course, events.RunResumed)
    assert resumed.cut == ("call_1",)
    measured(course)


async def test_a_cancelled_run_does_not_continue(
    course: Course, measured: Measured
) -> None:
    course.interrupt(lambda event: isinstance(event, events.ToolResultRecorded))
    await course.run(*WORK, ends="cancelled/interrupted", **GOAL)
    cancel_run(course.run_folder)
    state, size = course.state, course.run_folder.events.stat().st_size
    assert (state.goal.status, state.memory.stop_reason) == ("cancelled", "cancelled")
    assert isinstance(decide(state), RunEnded)
    with pytest.raises(UsageError, match="was cancelled, which is final"):
        await course.resume(ends="cancelled/cancelled")
    assert course.run_folder.events.stat().st_size == size
    assert course.effects == ["one"]
    course.ends.clear()
    course.expected.clear()
    measured(course)


PAY = {
    "success_criteria": CRITERIA,
    "validators": CHECKS,
    "approvals": {"commands": ["*two.txt*"]},
}


async def test_approval_waits_survive_resume_and_the_approved_action_runs_once(
    course: Course, measured: Measured
) -> None:
    await course.run(*WORK, ends="blocked/approval_required", **PAY)
    (waiting,) = course.state.waiting
    assert (course.state.goal.status, course.state.memory.stop_reason) == (
        "waiting_for_approval",
        "approval_required",
    )
    assert course.ends[-1].exit_code == 3
    await course.resume(ends="blocked/approval_required")
    assert course.state.waiting == (waiting,)
    assert course.effects == ["one"]
    decide_approval(course.run_folder, "approved")
    outcome = await course.resume(ends="complete")
    assert course.effects == ["one", "two"]
    assert len(of_kind(course, events.ApprovalRequested)) == 1
    assert course.state.memory.approval_refs == (waiting.id,)
    assert outcome.labels.count("unguarded approval") == 1
    measured(course)


@pytest.mark.parametrize("decision", ["denied", "expired"])
async def test_what_a_person_did_not_allow_is_never_done(
    course: Course, measured: Measured, decision: Any
) -> None:
    expires = (
        {"approvals": {**PAY["approvals"], "expires": 2.0}}
        if decision == "expired"
        else {}
    )
    await course.run(
        *WORK, ends="blocked/approval_required", max_iterations=2, **{**PAY, **expires}
    )
    if decision == "denied":
        decide_approval(course.run_folder, "denied", reason="not today")
    else:
        await asyncio.sleep(2.0)
    await course.resume(ends="blocked/denied")
    assert course.state.memory.stop_reason == "blocked"
    await course.resume(ends="capped/max_iterations")
    (approval,) = course.state.approvals
    assert (approval.decision, course.effects) == (decision, ["one"])
    assert ("not today" in course.told) is (decision == "denied")
    measured(course)


async def test_the_agent_is_told_of_a_denial_where_the_goal_says_so(
    course: Course, measured: Measured
) -> None:
    going = {**PAY, "approvals": {**PAY["approvals"], "on_deny": "continue"}}
    replies = (
        *WORK[:3],
        agent("", write_file("two.txt", "by hand\n")),
        agent("Done in another way."),
    )
    await course.run(*replies, ends="blocked/approval_required", **going)
    decide_approval(course.run_folder, "denied", reason="not by echo")
    await course.resume(ends="complete")
    assert course.effects == ["one"]
    assert "The owner of this run denied it: not by echo" in course.told
    measured(course)


async def test_fresh_evidence_wins_over_stale_tool_results(
    course: Course, measured: Measured
) -> None:
    course.write({"a.txt": "old words\n"})
    await course.run(
        agent("", shell("cat a.txt"), write_file("a.txt", "new words\n")),
        agent("It says old words."),
        judge(("a.txt says new words", [quote("o1", "old words")])),
        agent("", shell("cat a.txt")),
        agent("It says new words."),
        judge(
            ("a.txt says new words", [quote("o3", "new words"), fact("o3", "exit 0")])
        ),
        ends="complete",
        judged=True,
        success_criteria=["a.txt says new words"],
    )
    stale, fresh = of_kind(course, events.VerdictRecorded)
    assert not stale.verdict.complete
    assert stale.stale == {"o1": "a.txt changed after o1"}
    assert (fresh.verdict.complete, fresh.stale) == (True, {})
    assert course.state.verdict == fresh.verdict
    measured(course)


async def test_a_blocked_run_preserves_its_open_questions(
    course: Course, measured: Measured
) -> None:
    question = "Which name shall it have?"
    asked = {"name": "ask", "arguments": {"question": question}}
    await course.run(
        agent("", effect("one"), asked),
        agent("I wait."),
        *WORK[2:],
        ends="blocked/question_open",
        **GOAL,
    )
    assert course.state.memory.open_questions == (question,)
    assert (course.state.goal.status, course.state.memory.stop_reason) == (
        "blocked",
        "blocked",
    )
    await course.resume(ends="blocked/question_open")
    assert course.state.memory.open_questions == (question,)
    evidence = answer_question(course.run_folder, "two.txt, what else")
    await course.resume(ends="complete")
    assert course.state.memory.open_questions == ()
    assert evidence in course.state.memory.evidence_refs
    assert "Answer: two.txt, what else" in course.told
    measured(course)


async def test_working_memory_is_not_promoted_without_policy(
    course: Course, measured: Measured
) -> None:
    await course.run(*WORK, ends="complete", owner="ann", **GOAL)
    assert not (course.home / "memory").exists()
    with pytest.raises(UsageError, match=r"\[memory\] promote"):
        _promote(course, "o2")
    course.promotions.append(
        not (course.home / "memory").exists()
        and not of_kind(course, events.MemoryPromoted)
    )
    measured(course)


def _promote(course: Course, item: str, kind: Any = "fact") -> None:
    text = "two.txt is made by touching it"
    promote_fact(
        course.run_folder,
        course.home,
        Promotion(item=item, kind=kind, by="ann@desk", text=text),
        SystemClock(),
        Redactor({}),
    )
