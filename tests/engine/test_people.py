"""People in a run, played by a script: decisions before anything is done, answers as observations."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from goalrunner.agents.chat import ChatConversation
from goalrunner.agents.toolbox import Toolbox
from goalrunner.core import events
from goalrunner.core.agent_ports import (
    ApprovalAnswer,
    ApprovalRequest,
    Approver,
    QuestionReply,
)
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import Approvals
from goalrunner.core.outcome import GoalOutcome, StopReason
from goalrunner.engine.journal import RunJournal
from goalrunner.engine.parts import Parts
from goalrunner.engine.prompts import Prompts
from goalrunner.engine.run import Run
from goalrunner.records.decision_files import (
    DecisionFiles,
    GivenAnswer,
    GivenApproval,
    GivenNote,
)
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.testing import (
    ScriptedApprover,
    ScriptedJudge,
    ScriptedValidator,
    satisfied,
    unsatisfied,
)
from tests.support.agents import ScriptedModel, asked, call, said
from tests.support.memory import (
    ManualClock,
    MemoryArtifacts,
    MemoryLog,
    MemoryTranscript,
)

ONCE = call("shell", command="echo once >> done")


class Bench:
    """A real chat agent with real tools and a scripted model; `log` shows what happened."""

    def __init__(
        self,
        folder: Path,
        approver: Approver | None,
        *replies: Any,
        judge: Any = None,
        **approvals: Any,
    ) -> None:
        self.folder, self.log, self.clock = (
            folder,
            MemoryLog(ManualClock()),
            ManualClock(),
        )
        self.model = ScriptedModel(*replies)
        box = Toolbox(folder, ProcessLauncher(), {"PATH": "/usr/bin:/bin"})
        self.chat = ChatConversation(self.model, toolbox=box)
        numbers = itertools.count()
        parts = Parts(
            conversation=self.chat,
            validators=(ScriptedValidator(*[True] * 9),),
            judge=judge,
            log=self.log,
            transcript=MemoryTranscript(),
            artifacts=MemoryArtifacts(),
            clock=self.clock,
            workspace=folder,
            scratch=lambda suffix: folder.parent / f"scratch-{next(numbers)}{suffix}",
            approver=approver,
            decision_files=DecisionFiles(folder.parent / "decisions"),
        )
        self.given = DecisionFiles(folder.parent / "decisions")
        journal = RunJournal(parts.log, parts.transcript, parts.artifacts)
        self.run = Run(
            parts, journal, Prompts(Goal(objective="do it")).render, fresh_rounds=False
        )
        record = events.GoalRecord(
            goal_id="g", run_id="r", description="do it", created_at="t", updated_at="t"
        )
        plan = events.RunRules(
            validators=("check",),
            has_judge=judge is not None,
            max_iterations=2,
            timeout=approvals.pop("timeout", None),
            approvals=Approvals(**approvals),
        )
        self.run.start(
            events.GoalCreated(goal=record, plan=plan),
            events.RunStarted(workspace=str(folder), version="0"),
        )

    async def drive(self) -> GoalOutcome:
        return await self.run.drive()

    def told(self) -> str:
        return str(self.chat.messages)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


async def test_a_yes_lets_the_command_run_and_is_in_the_log_before_it(
    folder: Path,
) -> None:
    person = ScriptedApprover(True)
    bench = Bench(folder, person, asked(ONCE), said("ok"), require=("shell",))
    assert (await bench.drive()).passed
    assert (folder / "done").read_text() == "once\n"
    types = bench.log.types()
    assert (
        types.index("approval_requested")
        < types.index("approval_recorded")
        < types.index("tool_called")
    )
    assert person.requests[0].approval.action == "echo once >> done"


async def test_an_approval_does_not_carry_over_to_another_command_of_the_same_id(
    folder: Path,
) -> None:
    person = ScriptedApprover(True, None)
    other = call("shell", command="rm done")
    bench = Bench(folder, person, asked(ONCE), asked(other), require=("shell",))
    outcome = await bench.drive()
    assert outcome.stop_reason is StopReason.APPROVAL_REQUIRED
    assert [item.decision for item in outcome.approvals] == ["approved", "waiting"]
    assert (folder / "done").exists()


async def test_a_denial_ends_the_run_and_is_shown_on_resume(folder: Path) -> None:
    bench = Bench(folder, ScriptedApprover("use make"), asked(ONCE), require=("shell",))
    outcome = await bench.drive()
    assert (outcome.stop_reason, (folder / "done").exists()) == (
        StopReason.DENIED,
        False,
    )
    assert "use make" in outcome.message
    assert "use make" in bench.told()


async def test_a_no_with_continue_goes_on(folder: Path) -> None:
    person = ScriptedApprover("use make")
    bench = Bench(
        folder, person, asked(ONCE), said("ok"), require=("shell",), on_deny="continue"
    )
    assert (await bench.drive()).passed
    assert "use make" in bench.told()
    assert not (folder / "done").exists()


async def test_the_diff_of_a_write_is_in_view_before_it_is_done(folder: Path) -> None:
    (folder / "a.txt").write_text("old\n")
    person = ScriptedApprover(False)
    bench = Bench(
        folder,
        person,
        asked(call("write_file", path="a.txt", content="new\n")),
        require=("write",),
    )
    await bench.drive()
    assert "-old\n+new\n" in person.requests[0].preview
    assert (folder / "a.txt").read_text() == "old\n"


async def test_a_write_that_cannot_be_done_is_asked_about_all_the_same(
    folder: Path,
) -> None:
    person = ScriptedApprover(True)
    edit = call("edit_file", path="none.txt", old="a", new="b")
    assert (
        await Bench(folder, person, asked(edit), said("ok"), require=("write",)).drive()
    ).passed
    assert "not possible" in person.requests[0].preview


class Slow:
    """A person who takes an hour by the clock of the log and by that of the event loop."""

    def __init__(self) -> None:
        self.clock: ManualClock | None = None

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer:
        assert self.clock is not None
        self.clock.advance(3600)
        loop, time = asyncio.get_running_loop(), asyncio.get_running_loop().time
        loop.time = lambda: time() + 3600  # type: ignore[method-assign]
        await asyncio.sleep(0.01)  # timers that are due run now
        return ApprovalAnswer("approved", "ada@desk")

    async def answer(self, question: str) -> QuestionReply:
        return QuestionReply("blue", "ada@desk")


async def test_the_time_of_a_person_is_no_active_time(folder: Path) -> None:
    person = Slow()
    bench = Bench(
        folder, person, asked(ONCE), said("ok"), require=("shell",), timeout=60
    )
    person.clock = bench.log._clock  # type: ignore[assignment]
    outcome = await bench.drive()
    assert outcome.passed, outcome
    assert outcome.duration < 60


async def test_a_decision_that_comes_too_late_is_none(folder: Path) -> None:
    person = Slow()
    bench = Bench(folder, person, asked(ONCE), require=("shell",), expires=60.0)
    person.clock = bench.clock
    outcome = await bench.drive()
    assert (outcome.stop_reason, outcome.approvals[0].decision) == (
        StopReason.DENIED,
        "expired",
    )
    assert not (folder / "done").exists()


async def test_a_cancelled_question_leaves_the_call_unanswered(folder: Path) -> None:
    class Absent(Slow):
        async def approve(self, request: ApprovalRequest) -> ApprovalAnswer:
            raise asyncio.CancelledError

    bench = Bench(folder, Absent(), asked(ONCE), require=("shell",))
    bench.run.interrupt(2)
    outcome = await bench.drive()
    assert (outcome.stop_reason, outcome.approvals[0].decision) == (
        StopReason.INTERRUPTED,
        "waiting",
    )
    assert bench.chat.messages[-1]["role"] == "assistant"


async def test_an_answered_question_is_the_tools_result(folder: Path) -> None:
    bench = Bench(
        folder,
        ScriptedApprover(answers=["blue"]),
        asked(call("ask", question="Which?")),
        said("ok"),
    )
    assert (await bench.drive()).passed
    answered = next(
        record.event
        for record in bench.log.records
        if record.event.type == "question_answered"
    )
    result = next(
        record.event
        for record in bench.log.records
        if record.event.type == "tool_result_recorded"
    )
    assert (answered.answer, answered.by, answered.evidence_ref) == (
        "blue",
        "ada@desk",
        result.evidence_ref,
    )
    assert result.observation.source == "owner"
    assert "blue" in bench.told()


async def test_the_judges_question_is_asked_and_its_answer_told(folder: Path) -> None:
    open_verdict = unsatisfied("which?").model_copy(
        update={"questions": ("Which colour?",)}
    )
    person = ScriptedApprover(answers=["blue"])
    bench = Bench(
        folder,
        person,
        said("a"),
        said("b"),
        judge=ScriptedJudge(open_verdict, satisfied()),
    )
    assert (await bench.drive()).passed
    assert "Answer: blue" in bench.told()


async def test_the_judges_question_blocks_without_a_person(folder: Path) -> None:
    open_verdict = unsatisfied("which?").model_copy(
        update={"questions": ("Which colour?",)}
    )
    outcome = await Bench(
        folder, None, said("a"), judge=ScriptedJudge(open_verdict)
    ).drive()
    assert (outcome.stop_reason, outcome.questions) == (
        StopReason.QUESTION_OPEN,
        ("Which colour?",),
    )


class AbsentPerson:
    """A person who never answers; `withdrawn` counts the questions that were withdrawn."""

    def __init__(self) -> None:
        self.asked, self.withdrawn = asyncio.Event(), 0

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        await self._wait()
        return None

    async def answer(self, question: str) -> QuestionReply | None:
        await self._wait()
        return None

    async def _wait(self) -> None:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.withdrawn += 1
            raise


async def test_a_decision_from_another_terminal_ends_the_question_at_the_runs_own(
    folder: Path,
) -> None:
    person = AbsentPerson()
    bench = Bench(folder, person, asked(ONCE), said("ok"), require=("shell",))
    driving = asyncio.ensure_future(bench.drive())
    await person.asked.wait()
    file = bench.given.give(
        GivenApproval(approval_id="a1", decision="approved", by="ann@desk")
    )
    outcome = await asyncio.wait_for(driving, 20)
    assert (outcome.passed, outcome.approvals[0].by, person.withdrawn) == (
        True,
        "ann@desk",
        1,
    )
    assert ((folder / "done").read_text(), file.exists()) == ("once\n", False)


async def test_a_decision_on_an_approval_that_does_not_wait_is_dropped(
    folder: Path,
) -> None:
    bench = Bench(folder, None, asked(ONCE), require=("shell",))
    bench.given.give(
        GivenApproval(approval_id="a1", decision="approved", by="ann@desk")
    )
    outcome = await bench.drive()
    assert outcome.stop_reason is StopReason.APPROVAL_REQUIRED
    assert (list(bench.given.pending()), (folder / "done").exists()) == ([], False)


async def test_an_answer_from_another_terminal_reaches_the_agent(folder: Path) -> None:
    person = AbsentPerson()
    bench = Bench(
        folder, person, asked(call("ask", question="Which colour?")), said("ok")
    )
    driving = asyncio.ensure_future(bench.drive())
    await person.asked.wait()
    bench.given.give(
        GivenAnswer(question="Which colour?", text="dark blue", by="ann@desk")
    )
    await asyncio.wait_for(driving, 20)
    assert "dark blue" in bench.told()
    assert list(bench.given.pending()) == []


async def test_a_note_is_told_once_with_the_next_prompt(folder: Path) -> None:
    bench = Bench(folder, None, said("ok"))
    note = GivenNote(note_id="n1", text="keep the public API", by="ann@desk")
    bench.given.give(note)
    bench.given.give(
        note
    )  # as if it was recorded, and its file was still there after a kill
    assert (await bench.drive()).passed
    assert bench.told().count("keep the public API") == 1
    assert bench.log.types().count("note_given") == 1
