"""Baseline and rounds over a scripted check environment: what is recorded, and what the run does next."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core import events
from goalrunner.core.agent_ports import Approver
from goalrunner.core.errors import (
    EnvironmentFailed,
    ProviderUnavailable,
    WorkspaceError,
)
from goalrunner.core.events import ChangedChecks, Colour, Content
from goalrunner.core.fold.resuming import resumed
from goalrunner.core.goal import Goal
from goalrunner.core.observation import ArtifactRef
from goalrunner.core.outcome import GoalOutcome, StopReason
from goalrunner.core.ports import Judge
from goalrunner.core.run_state import Phase
from goalrunner.core.verdict import HIDDEN, ValidatorResult
from goalrunner.engine.journal import RunJournal
from goalrunner.engine.parts import Parts
from goalrunner.engine.prompts import Prompts
from goalrunner.engine.resumption import Resumption
from goalrunner.engine.run import Run
from goalrunner.testing import (
    ScriptedApprover,
    ScriptedConversation,
    ScriptedJudge,
    satisfied,
)
from tests.support.checker import FOUR, ONE, THREE, TWO, Folder, ScriptedChecker, ran
from tests.support.memory import (
    ManualClock,
    MemoryArtifacts,
    MemoryLog,
    MemoryTranscript,
)


class RedactingArtifacts(MemoryArtifacts):
    """Replaces secrets, as the artifacts of a run do."""

    def put(self, data: bytes) -> ArtifactRef:
        return super().put(data.replace(b"secret", b"***"))


class Bench:
    """A run with a scripted agent and a scripted check environment."""

    def __init__(
        self,
        tmp_path: Path,
        *answers: Any,
        conversation: ScriptedConversation | None = None,
        approver: Approver | None = None,
        judge: Judge | None = None,
        folder: Folder | None = None,
        comparison: str = "",
        **plan: Any,
    ) -> None:
        self.folder = folder or Folder()
        self.checker = ScriptedChecker(list(answers), comparison)
        self.conversation = conversation or ScriptedConversation("one", "two", "three")
        self.log, self.artifacts = MemoryLog(), RedactingArtifacts()
        numbers = itertools.count()
        self.parts = Parts(
            conversation=self.conversation,
            validators=(),
            judge=judge,
            log=self.log,
            transcript=MemoryTranscript(),
            artifacts=self.artifacts,
            clock=ManualClock(),
            workspace=tmp_path,
            scratch=lambda suffix: tmp_path / f"scratch-{next(numbers)}{suffix}",
            snapshots=self.folder,
            checker=self.checker,
            approver=approver,
            redact=lambda text: text.replace("secret", "***"),
        )
        self.plan = events.RunRules.model_validate(
            {
                "validators": ("check",),
                "max_iterations": 3,
                "has_judge": judge is not None,
                **plan,
            },
            strict=False,
        )
        journal = RunJournal(
            self.parts.log, self.parts.transcript, self.parts.artifacts
        )
        self.run = Run(
            self.parts, journal, Prompts(Goal(objective="x")).render, fresh_rounds=False
        )
        record = events.GoalRecord(
            goal_id="g", run_id="r", description="x", created_at="t", updated_at="t"
        )
        self.run.start(
            events.GoalCreated(goal=record, plan=self.plan),
            events.RunStarted(workspace=str(tmp_path), version="0"),
        )

    async def drive(self) -> GoalOutcome:
        return await self.run.drive()

    def events_of(self, kind: type[Any]) -> list[Any]:
        return [
            record.event
            for record in self.log.records
            if isinstance(record.event, kind)
        ]


UNCHANGED = "nothing changed"


def hidden(*, passed: bool) -> ValidatorResult:
    return ValidatorResult(
        name="hush",
        passed=passed,
        hidden=True,
        summary="exit 1",
        feedback="the case is ''",
    )


def visible(*, passed: bool = True) -> ValidatorResult:
    return ValidatorResult(
        name="check", passed=passed, summary="exit 1", feedback="boom"
    )


async def test_a_round_is_checked_once_and_the_results_are_recorded(
    tmp_path: Path,
) -> None:
    content = Content(
        key="c", when="round 1", said=(Colour(name="check", passed=True),)
    )
    answer = ran(
        True,
        protected_changes=("t.py (changed; x)",),
        differing=("t.py",),
        labels=("checks differ: t.py",),
        content=content,
    )
    bench = Bench(tmp_path, answer)
    outcome = await bench.drive()
    assert (outcome.passed, outcome.iterations) == (True, 1)
    assert bench.checker.calls == [
        {"base": ONE, "now": ONE, "iteration": 1, "when": "round 1", "approved": {}}
    ]
    (event,) = bench.events_of(events.ValidatorsFinished)
    assert [(item.name, item.passed, item.observation) for item in event.results] == [
        ("check", True, "o1")
    ]
    assert (event.protected_changes, event.differing) == (
        ("t.py (changed; x)",),
        ("t.py",),
    )
    assert (event.labels, event.content, event.snapshot) == (
        ("checks differ: t.py", UNCHANGED),
        content,
        None,
    )
    assert outcome.labels == ("checks differ: t.py", UNCHANGED)


async def test_a_check_in_which_nothing_ran_proves_nothing(tmp_path: Path) -> None:
    outcome = await Bench(tmp_path, ran(), max_iterations=1).drive()
    assert (outcome.stop_reason, outcome.verdict and outcome.verdict.missing) == (
        StopReason.MAX_ITERATIONS,
        "no validator has run",
    )


async def test_a_refusal_goes_to_the_agent_and_its_hint_to_people_alone(
    tmp_path: Path,
) -> None:
    bench = Bench(
        tmp_path,
        ran(refusal="installed packages changed", hint='allow = [".venv"]'),
        ran(True),
    )
    assert (await bench.drive()).passed
    assert "installed packages changed" in bench.conversation.prompts[1]
    assert ".venv" not in bench.conversation.prompts[1]
    assert bench.events_of(events.ValidatorsFinished)[0].hint == 'allow = [".venv"]'


async def test_of_a_hidden_validator_neither_agent_nor_judge_sees_anything(
    tmp_path: Path,
) -> None:
    judge = ScriptedJudge(satisfied())
    bench = Bench(
        tmp_path,
        ran(visible(), hidden(passed=False)),
        ran(visible(), hidden(passed=True)),
        judge=judge,
        hidden=("hush",),
    )
    outcome = await bench.drive()
    assert (outcome.passed, outcome.iterations, len(judge.requests)) == (True, 2, 1)
    assert HIDDEN in bench.conversation.prompts[1]
    first = bench.events_of(events.ValidatorsFinished)[0]
    assert (
        [item.id for item in first.observations],
        [item.id for item in first.concealed],
    ) == (["o1"], ["o2"])
    trail = judge.requests[0].trail
    assert [item.id for item in trail.items if item.kind == "observation"] == [
        "o1",
        "o3",
    ]
    told = str(bench.conversation.messages) + str(
        [trail.read(item) for item in trail.items]
    )
    assert "hush" not in told
    assert "the case is" not in told


async def test_a_workspace_that_changes_during_the_check_is_checked_once_more(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, ran(True), ran(True))

    def during(number: int) -> None:
        if number == 1:
            bench.folder.now = TWO

    bench.checker.during = during
    outcome = await bench.drive()
    assert (outcome.passed, outcome.iterations) == (True, 1)
    first, second = bench.events_of(events.ValidatorsFinished)
    assert (first.leaked, first.snapshot, second.leaked, second.snapshot) == (
        ("a.py",),
        TWO,
        (),
        None,
    )
    assert [call["now"] for call in bench.checker.calls] == [ONE, TWO]


async def test_a_workspace_that_changes_during_every_check_ends_the_run(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, ran(True), ran(True))
    states = iter((TWO, THREE))

    def during(number: int) -> None:
        bench.folder.now = next(states)

    bench.checker.during = during
    outcome = await bench.drive()
    assert (outcome.stop_reason, outcome.iterations) == (
        StopReason.EVIDENCE_UNSTABLE,
        0,
    )
    assert outcome.message.startswith(
        "the workspace changed while it was checked: a.py\n"
    )


async def test_ignored_files_that_change_in_the_workspace_count_as_changes(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, ran(True, leaked=("ignored files",)), ran(True))
    assert (await bench.drive()).passed
    assert [event.leaked for event in bench.events_of(events.ValidatorsFinished)] == [
        ("ignored files",),
        (),
    ]


async def test_what_changes_between_the_check_and_the_end_is_checked_again(
    tmp_path: Path,
) -> None:
    """The judge takes its time, and a server writes a file meanwhile."""

    class Slow(ScriptedJudge):
        async def audit(self, request: Any, recorder: Any) -> Any:
            bench.folder.now = TWO
            return await super().audit(request, recorder)

    judge = Slow(satisfied(), satisfied())
    bench = Bench(tmp_path, ran(True), ran(True), judge=judge)
    outcome = await bench.drive()
    assert (outcome.passed, outcome.iterations) == (True, 1)
    (changed,) = bench.events_of(events.WorkspaceChanged)
    assert (changed.paths, changed.snapshot) == (("a.py",), TWO)
    assert [call["now"] for call in bench.checker.calls] == [ONE, TWO]
    assert bench.events_of(events.SnapshotTaken)[-1].moment == "complete"


async def test_a_workspace_that_never_rests_does_not_complete(tmp_path: Path) -> None:
    class Restless(Folder):
        states = itertools.cycle((ONE, TWO, THREE, FOUR))

        async def snapshot(self) -> Any:
            return next(self.states)

    bench = Bench(tmp_path, *[ran(True)] * 5, folder=Restless())
    assert (await bench.drive()).stop_reason is StopReason.EVIDENCE_UNSTABLE


FULL = EnvironmentFailed("the check environment is full of secret", "free some space")


async def test_an_environment_that_fails_once_is_tried_once_more(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, FULL, ran(True))
    outcome = await bench.drive()
    assert (outcome.passed, outcome.iterations, len(bench.conversation.prompts)) == (
        True,
        1,
        1,
    )
    said = "the check could not run: the check environment is full of secret; it runs once more"
    assert [event.note for event in bench.events_of(events.NoteAdded)] == [said]


async def test_a_failure_of_the_environment_that_only_a_person_can_mend_ends_the_run_at_once(
    tmp_path: Path,
) -> None:
    bench = Bench(
        tmp_path, EnvironmentFailed("setup failed", "correct it", permanent=True)
    )
    outcome = await bench.drive()
    assert (outcome.stop_reason, outcome.message) == (
        StopReason.ENVIRONMENT_FAILED,
        "setup failed\ncorrect it",
    )
    assert len(bench.checker.calls) == 1


async def test_an_environment_that_fails_is_no_red_check(tmp_path: Path) -> None:
    error = EnvironmentFailed("the check environment is full", "free some space")
    bench = Bench(tmp_path, error, error)
    outcome = await bench.drive()
    assert (outcome.stop_reason, outcome.iterations, outcome.attempts) == (
        StopReason.ENVIRONMENT_FAILED,
        0,
        (),
    )
    assert outcome.message == "the check environment is full\nfree some space"
    assert bench.events_of(events.ValidatorsFinished) == []


async def test_a_workspace_that_cannot_be_read_ends_the_run_with_its_cause_and_no_traceback(
    tmp_path: Path,
) -> None:
    class Broken(Folder):
        async def snapshot(self) -> Any:
            if self.now is TWO:
                raise WorkspaceError("/w is gone", "mkdir -p /w")
            return await super().snapshot()

    class Removing(ScriptedConversation):
        async def send(self, prompt: str, recorder: Any) -> Any:
            bench.folder.now = TWO
            return await super().send(prompt, recorder)

    bench = Bench(tmp_path, folder=Broken(), conversation=Removing("done"))
    outcome = await bench.drive()
    assert (outcome.status.value, outcome.stop_reason) == (
        "failed",
        StopReason.WORKSPACE_FAILED,
    )
    assert outcome.message == "/w is gone\nmkdir -p /w"
    assert list(tmp_path.iterdir()) == []


GONE = ValidatorResult(
    name="check",
    passed=False,
    reason="not_found",
    summary="sh: 1: nox: not found",
    cannot_run=True,
    exit_code=127,
)


async def test_validators_that_cannot_run_twice_end_the_run_and_the_agent_reads_nothing_of_it(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, ran(GONE), ran(GONE))
    outcome = await bench.drive()
    assert (outcome.status.value, outcome.stop_reason) == (
        "failed",
        StopReason.VALIDATOR_MISSING,
    )
    assert outcome.message == (
        "validator check cannot run here: sh: 1: nox: not found\ncorrect that; then goal resume r"
    )
    assert (outcome.iterations, outcome.attempts, len(bench.conversation.prompts)) == (
        0,
        (),
        1,
    )


async def test_validators_that_cannot_run_once_are_run_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ran(GONE), ran(False), ran(GONE), ran(True))
    outcome = await bench.drive()
    assert (outcome.passed, outcome.iterations) == (True, 2)
    assert "nox" not in "".join(bench.conversation.prompts)


async def test_a_run_that_is_resumed_runs_validators_again_that_could_not_run(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, ran(GONE), ran(GONE))
    await bench.drive()
    state = resumed(
        bench.run.state,
        events.RunResumed(plan=bench.plan, version="0"),
        "2026-01-01T00:00:00+00:00",
    )
    assert (state.phase, state.obstacle, state.obstacles) == (Phase.WORKED, "", 0)


async def test_the_agents_processes_are_stopped_during_a_check(tmp_path: Path) -> None:
    trace: list[str] = []

    class Staying(ScriptedConversation):
        @contextmanager
        def paused(self) -> Any:
            trace.append("stopped")
            yield
            trace.append("goes on")

    bench = Bench(tmp_path, ran(False), ran(True), conversation=Staying("one", "two"))
    bench.checker.during = lambda number: trace.append(f"check {number}")
    assert (await bench.drive()).passed
    assert trace == ["stopped", "check 1", "goes on", "stopped", "check 2", "goes on"]


# -- the agent's versions of the checks ----------------------------------------------------------------------------------


def tampered(key: str = "k1") -> Any:
    changed = ChangedChecks(key=key, paths=("t.py",), results=(visible(),))
    return ran(
        False,
        changed_checks=changed,
        diff="-assert secret\n+pass\n",
        differing=("t.py",),
    )


async def test_a_person_sees_the_patch_of_changed_checks_and_accepts_it(
    tmp_path: Path,
) -> None:
    person = ScriptedApprover(True)
    bench = Bench(tmp_path, tampered(), approver=person)
    outcome = await bench.drive()
    assert (outcome.passed, outcome.iterations, outcome.labels) == (
        True,
        1,
        ("checks changed: t.py",),
    )
    (request,) = person.requests
    assert (request.preview, request.changed) == ("-assert ***\n+pass\n", ("t.py",))
    assert (request.approval.kind, request.approval.action) == (
        "checks",
        "checks changed: t.py",
    )
    (event,) = bench.events_of(events.ValidatorsFinished)
    assert bench.artifacts.read(event.changed_checks.diff) == b"-assert ***\n+pass\n"


async def test_a_person_who_denies_them_sends_the_agent_back(tmp_path: Path) -> None:
    person = ScriptedApprover("keep the assertion")
    bench = Bench(tmp_path, tampered(), ran(True), approver=person)
    outcome = await bench.drive()
    assert (outcome.passed, outcome.iterations, outcome.labels) == (
        True,
        2,
        (UNCHANGED,),
    )
    assert (
        "Your changes to t.py were not accepted (keep the assertion)."
        in bench.conversation.prompts[1]
    )


async def test_a_person_is_asked_once_about_the_same_versions(tmp_path: Path) -> None:
    person = ScriptedApprover("no")
    bench = Bench(tmp_path, tampered(), tampered(), ran(True), approver=person)
    assert (await bench.drive()).passed
    assert len(person.requests) == 1
    assert "were not accepted (no)" in bench.conversation.prompts[2]


async def test_what_was_accepted_counts_in_later_rounds(tmp_path: Path) -> None:
    person = ScriptedApprover(True)
    judge = ScriptedJudge(
        satisfied().model_copy(update={"complete": False, "missing": "more"}),
        satisfied(),
    )
    bench = Bench(
        tmp_path, tampered(), ran(True), ran(True), approver=person, judge=judge
    )
    assert (await bench.drive()).passed
    # With a judge, what was accepted is checked once more in the same round, so that its results are observations.
    assert [call["approved"] for call in bench.checker.calls] == [
        {},
        {"k1": ""},
        {"k1": ""},
    ]


@pytest.mark.parametrize(
    ("decision", "answers", "rounds"),
    [("approved", (), 1), ("denied", (ran(True),), 2)],
    ids=["approved", "denied"],
)
@pytest.mark.parametrize("has_judge", [False, True])
async def test_without_a_person_the_run_waits_and_goes_on_with_the_decision(
    tmp_path: Path, decision: Any, answers: Sequence[Any], rounds: int, has_judge: bool
) -> None:
    judge = ScriptedJudge(satisfied()) if has_judge else None
    accepted = ran(True, labels=("checks changed: t.py",))
    more = (accepted,) if has_judge and decision == "approved" else ()
    bench = Bench(tmp_path, tampered(), *more, *answers, judge=judge)
    outcome = await bench.drive()
    assert (outcome.stop_reason, outcome.exit_code) == (StopReason.APPROVAL_REQUIRED, 3)
    assert "checks changed: t.py" in outcome.message
    bench.log.append(
        events.ApprovalRecorded(approval_id="a1", decision=decision, by="ada")
    )
    ended = await resumed_in_new_process(bench)
    assert (ended.passed, ended.iterations) == (True, rounds)
    is_again = (
        has_judge or decision == "denied"
    )  # else the first results count, which were reviewed
    labels = ("checks changed: t.py",) if decision == "approved" else ()
    assert ended.labels == ((*labels, UNCHANGED) if is_again else labels)


LABEL = "rests on changed files: t.py"
STRICT: Any = {"labels": ["rests on"]}


async def test_a_result_with_a_label_that_the_goal_names_is_reviewed(
    tmp_path: Path,
) -> None:
    person = ScriptedApprover(True)
    rested = ran(True, labels=(LABEL,), changed=("t.py",))
    bench = Bench(tmp_path, rested, approver=person, approvals=STRICT)
    outcome = await bench.drive()
    assert (outcome.passed, outcome.iterations, outcome.labels) == (True, 1, (LABEL,))
    (request,) = person.requests
    assert (request.approval.action, request.changed) == (LABEL, ("t.py",))
    free = Bench(tmp_path, rested)
    assert (await free.drive()).labels == (LABEL,)


async def test_a_label_that_was_accepted_is_not_reviewed_again(tmp_path: Path) -> None:
    rested = ran(True, labels=(LABEL,), changed=("t.py",))
    judge = ScriptedJudge(
        satisfied().model_copy(update={"complete": False, "missing": "more"}),
        satisfied(),
        reviews=(True,),
    )
    bench = Bench(
        tmp_path, rested, rested, judge=judge, approvals={**STRICT, "checks": "judge"}
    )
    outcome = await bench.drive()
    assert (outcome.passed, outcome.labels) == (
        True,
        (f"{LABEL} (reviewed by the judge)",),
    )
    assert (len(judge.reviewed), len(bench.checker.calls)) == (1, 2)


async def test_a_review_is_recorded_with_its_usage_and_refuses_with_the_path(
    tmp_path: Path,
) -> None:
    judge = ScriptedJudge(satisfied(), reviews=(False,))
    bench = Bench(
        tmp_path, tampered(), ran(True), judge=judge, approvals={"checks": "judge"}
    )
    outcome = await bench.drive()
    assert (outcome.passed, outcome.iterations, outcome.usage["judge"].calls) == (
        True,
        2,
        2,
    )
    (request,) = judge.reviewed
    assert (request.diff, request.changed.key, request.reviews) == (
        "-assert ***\n+pass\n",
        "k1",
        0,
    )
    (event,) = bench.events_of(events.ChecksReviewed)
    assert (event.key, event.round, event.decision) == ("k1", 1, "refused")
    assert (
        "- restore t.py: nothing in the goal asks for this change"
        in bench.conversation.prompts[1]
    )


async def test_a_review_of_a_judge_that_is_away_fails_the_run_and_is_made_when_it_is_resumed(
    tmp_path: Path,
) -> None:
    judge = ScriptedJudge(satisfied(), reviews=(ProviderUnavailable("503"), True))
    bench = Bench(
        tmp_path, tampered(), ran(True), judge=judge, approvals={"checks": "judge"}
    )
    assert (await bench.drive()).stop_reason is StopReason.JUDGE_FAILED
    ended = await resumed_in_new_process(bench)
    assert (ended.passed, ended.iterations) == (True, 1)


async def resumed_in_new_process(bench: Bench) -> GoalOutcome:
    """Another process takes the run up."""
    journal = RunJournal(bench.parts.log, bench.parts.transcript, bench.parts.artifacts)
    reader = Resumption(fresh_rounds=False)
    for record in bench.log.records:
        journal.replay(record)
        reader.add(record)
    left = reader.read(bench.parts.transcript.read, bench.parts.artifacts)
    run = Run(
        bench.parts,
        journal,
        Prompts(Goal(objective="x")).render,
        fresh_rounds=False,
        resumption=left,
    )
    await run.resume(events.RunResumed(plan=bench.plan, version="0"))
    return await run.drive()


async def test_a_resumed_run_hands_over_what_validators_said_before(
    tmp_path: Path,
) -> None:
    content = Content(
        key="c", when="round 1", said=(Colour(name="check", passed=False),)
    )
    bench = Bench(tmp_path, ran(False, content=content), max_iterations=1)
    assert (await bench.drive()).stop_reason is StopReason.MAX_ITERATIONS
    bench.plan = bench.plan.model_copy(update={"max_iterations": 2})
    bench.checker.answers.append(ran(True))
    assert (await resumed_in_new_process(bench)).passed
    assert bench.checker.recalled == (content,)


# -- the baseline --------------------------------------------------------------------------------------------------------


async def test_the_baseline_is_taken_in_the_environment_before_round_1(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, ran(False), ran(True), takes_baseline=True)
    assert (await bench.drive()).passed
    assert bench.checker.base == ONE
    assert [(call["iteration"], call["when"]) for call in bench.checker.calls] == [
        (0, "the baseline"),
        (1, "round 1"),
    ]
    assert bench.checker.compared == [("check",)]
    assert bench.events_of(events.BaselineTaken)[0].standing == "red"


async def test_a_green_baseline_completes_without_a_round(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ran(True), takes_baseline=True)
    outcome = await bench.drive()
    assert (outcome.passed, outcome.iterations, bench.conversation.prompts) == (
        True,
        1,
        [],
    )
    assert bench.checker.compared == []


def _working(folder: Folder, now: Any) -> ScriptedConversation:
    """Return an agent that leaves the folder with this snapshot."""

    class Working(ScriptedConversation):
        async def send(self, prompt: str, recorder: Any) -> Any:
            folder.now = now
            return await super().send(prompt, recorder)

    return Working("one")


@pytest.mark.parametrize(
    ("changes", "added_fails", "label"),
    [
        (False, None, (UNCHANGED,)),
        (True, None, ()),
        (True, True, ()),
        (True, False, ("checks passed before the change",)),
    ],
)
async def test_results_that_were_green_before_the_work_are_labelled(
    tmp_path: Path, changes: bool, added_fails: bool | None, label: tuple[str, ...]
) -> None:
    folder = Folder()
    bench = Bench(
        tmp_path,
        ran(True),
        ran(True),
        conversation=_working(folder, TWO if changes else ONE),
        folder=folder,
        takes_baseline=True,
        needs_round=True,
    )
    bench.checker.added_fails = added_fails
    outcome = await bench.drive()
    assert (outcome.passed, outcome.iterations, outcome.labels) == (True, 1, label)


async def test_results_after_a_red_baseline_are_labelled_only_if_nothing_changed(
    tmp_path: Path,
) -> None:
    for name, now, labels in (("same", ONE, (UNCHANGED,)), ("other", TWO, ())):
        folder = Folder()
        bench = Bench(
            tmp_path / name,
            ran(False),
            ran(True),
            conversation=_working(folder, now),
            folder=folder,
            takes_baseline=True,
            needs_round=True,
        )
        bench.checker.added_fails = False
        assert (await bench.drive()).labels == labels


async def test_results_of_a_round_without_a_change_are_labelled_with_a_judge_as_well(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, ran(True), judge=ScriptedJudge(satisfied()))
    assert (await bench.drive()).labels == (UNCHANGED,)


async def test_a_baseline_that_the_environment_makes_red_ends_the_run_with_the_line_that_helps(
    tmp_path: Path,
) -> None:
    said = 'validator check cannot work\nadd to the goal file: [workspace] check = "in-place"'
    bench = Bench(tmp_path, ran(False), takes_baseline=True, comparison=said)
    outcome = await bench.drive()
    assert (outcome.stop_reason, outcome.message) == (
        StopReason.ENVIRONMENT_FAILED,
        said,
    )
    assert bench.conversation.prompts == []


async def test_a_program_that_is_missing_here_and_there_is_the_users_to_install(
    tmp_path: Path,
) -> None:
    missing = ValidatorResult(
        name="check",
        passed=False,
        reason="not_found",
        cannot_run=True,
        summary="sh: nope: not found",
    )
    bench = Bench(tmp_path, ran(missing), takes_baseline=True)
    outcome = await bench.drive()
    assert outcome.stop_reason is StopReason.VALIDATOR_MISSING
    assert outcome.message == "validator check cannot run here: sh: nope: not found"
    assert bench.checker.compared == [("check",)]


async def test_a_workspace_that_changes_during_the_baseline_is_looked_at_once_more(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, ran(True), ran(True), takes_baseline=True)
    bench.checker.during = lambda number: setattr(bench.folder, "now", TWO)
    outcome = await bench.drive()
    assert (outcome.passed, len(bench.checker.calls)) == (True, 2)
    assert bench.events_of(events.BaselineTaken)[0].snapshot == TWO


async def test_a_workspace_that_changes_during_both_baselines_ends_the_run(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, ran(True), ran(True), takes_baseline=True)
    states = iter((TWO, THREE))
    bench.checker.during = lambda number: setattr(bench.folder, "now", next(states))
    outcome = await bench.drive()
    assert (outcome.stop_reason, outcome.message) == (
        StopReason.ENVIRONMENT_FAILED,
        "the workspace changed while it was checked: a.py",
    )


async def test_a_baseline_that_is_refused_says_why_and_what_helps(
    tmp_path: Path,
) -> None:
    bench = Bench(
        tmp_path, ran(refusal="it is lost", hint="allow it"), takes_baseline=True
    )
    outcome = await bench.drive()
    assert (outcome.stop_reason, outcome.message) == (
        StopReason.ENVIRONMENT_FAILED,
        "it is lost\nallow it",
    )


async def test_a_hidden_validator_that_is_red_in_the_baseline_makes_it_red(
    tmp_path: Path,
) -> None:
    bench = Bench(
        tmp_path,
        ran(visible(), hidden(passed=False)),
        ran(visible(), hidden(passed=True)),
        takes_baseline=True,
        hidden=("hush",),
    )
    assert (await bench.drive()).iterations == 1
    taken = bench.events_of(events.BaselineTaken)[0]
    assert (
        taken.standing,
        [item.id for item in taken.observations],
        [item.id for item in taken.concealed],
    ) == (
        "red",
        ["o1"],
        ["o2"],
    )
    assert "hush" not in str(bench.conversation.messages)
