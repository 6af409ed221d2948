"""What waits for a person, and what was said of it, folded."""

from __future__ import annotations

from goalrunner.core import events
from goalrunner.core.decision import AskApproval, RunRound, decide
from goalrunner.core.events import Event, RunEnded
from goalrunner.core.goal_tables import ApprovalKind, Approvals
from goalrunner.core.observation import ArtifactRef, Observation, Snapshot
from goalrunner.core.outcome import StopReason
from goalrunner.core.run_state import Approval, RunState
from goalrunner.core.state_outcome import outcome_of
from goalrunner.core.verdict import ValidatorResult
from tests.support.folding import state_after

GREEN = events.ValidatorsFinished(
    round=1, results=(ValidatorResult(name="tests", passed=True),)
)


BOTH = Approvals(require=("complete", "shell"))


def fold(*happened: Event, approvals: Approvals = BOTH) -> RunState:
    """The state of a run with one validator after these events."""
    return state_after(
        events.RunRules(validators=("tests",), approvals=approvals), *happened
    )


def requested(
    number: int, call: str = "", kind: ApprovalKind = "shell", about: str = ""
) -> events.ApprovalRequested:
    return events.ApprovalRequested(
        approval_id=f"a{number}",
        kind=kind,
        action="rm x",
        rule="r",
        tool_call_id=call,
        snapshot=about,
    )


def said(
    number: int, decision: str = "approved", **more: object
) -> events.ApprovalRecorded:
    return events.ApprovalRecorded.model_validate(
        {"approval_id": f"a{number}", "decision": decision, **more}
    )


def working() -> events.RoundStarted:
    return events.RoundStarted(round=1, prompt="first")


def snapshot(name: str) -> Snapshot:
    return Snapshot(id=name * 64, tree=name * 64)


def worked(name: str = "a") -> tuple[Event, Event]:
    return working(), events.RoundFinished(round=1, snapshot=snapshot(name))


def _is_unused(approval: Approval) -> bool:
    return approval.tool_call_id == "c1" and not approval.used


def test_an_approval_permits_one_call_and_none_after_it() -> None:
    call = events.ToolCalled(tool_call_id="c1", tool="shell", summary="rm x")
    before = fold(working(), requested(1, "c1"), said(1))
    assert before.newest_approval(_is_unused) is not None
    assert (
        fold(working(), requested(1, "c1"), said(1), call).newest_approval(_is_unused)
        is None
    )


def test_a_decision_counts_once_and_only_for_what_is_known() -> None:
    state = fold(
        working(),
        requested(1, "c1"),
        said(1, "denied", by="ada"),
        said(1, "approved", by="bob"),
        said(7),
    )
    assert [(item.decision, item.by) for item in state.approvals] == [("denied", "ada")]


def test_an_action_that_is_no_longer_possible_does_not_wait() -> None:
    assert fold(working(), requested(1, "c1")).waiting
    assert (
        fold(working(), requested(1, "c1"), events.RoundFinished(round=1)).waiting == ()
    )
    assert (
        fold(
            *worked(), GREEN, requested(1, kind="complete", about="a" * 64), working()
        ).waiting
        == ()
    )
    two = fold(
        *worked(),
        GREEN,
        requested(1, kind="complete", about="b" * 64),
        requested(2, kind="complete"),
    )
    assert [item.id for item in two.waiting] == ["a2"]


def test_a_completion_is_asked_for_and_bound_to_its_snapshot() -> None:
    assert isinstance(decide(fold(*worked(), GREEN)), AskApproval)
    asked = requested(1, kind="complete", about="a" * 64)
    done = decide(fold(*worked(), GREEN, asked, said(1)))
    assert isinstance(done, RunEnded)
    assert done.stop_reason is StopReason.SATISFIED
    other = requested(1, kind="complete", about="b" * 64)
    assert isinstance(decide(fold(*worked(), GREEN, other, said(1))), AskApproval)


def test_files_that_changed_while_a_completion_waited_are_checked_again() -> None:
    asked = requested(1, kind="complete", about="a" * 64)
    now = said(1, changed=("x",), snapshot=snapshot("c").model_dump())
    assert type(decide(fold(*worked(), GREEN, asked, now))).__name__ == "Validate"
    assert isinstance(decide(fold(*worked(), GREEN, asked, now, GREEN)), AskApproval)


def test_one_approved_response_does_not_approve_the_next() -> None:
    def response(sha: str) -> events.RoundFinished:
        output = ArtifactRef(sha256=sha * 64, size=1)
        return events.RoundFinished(
            round=1,
            response=Observation(id="o1", source="response", round=1, output=output),
        )

    asked = requested(1, kind="complete", about="a" * 64)
    assert isinstance(
        decide(fold(working(), response("a"), GREEN, asked, said(1))), RunEnded
    )
    assert isinstance(
        decide(
            fold(working(), response("a"), GREEN, asked, said(1), response("b"), GREEN)
        ),
        AskApproval,
    )


def test_a_denied_completion_never_completes_even_when_it_is_proven_again() -> None:
    asked = requested(1, kind="complete", about="a" * 64)
    going = Approvals(require=("complete",), on_deny="continue")
    denied = fold(
        *worked(), GREEN, asked, said(1, "denied", reason="ugly"), approvals=going
    )
    step = decide(denied)
    assert isinstance(step, RunRound)
    assert "ugly" in (step.feedback or "")
    again = fold(
        *worked(), GREEN, asked, said(1, "denied"), *worked(), GREEN, approvals=going
    )
    assert isinstance(decide(again), RunRound)
    assert not again.attempts[-1].passed
    stopped = decide(fold(*worked(), GREEN, asked, said(1, "denied")))
    assert isinstance(stopped, RunEnded)
    assert stopped.stop_reason is StopReason.DENIED


def test_a_run_ends_for_a_denial_once_and_a_resume_goes_on() -> None:
    asked = requested(1, kind="complete", about="a" * 64)
    plan = events.RunRules(
        validators=("tests",), approvals=Approvals(require=("complete",))
    )
    ended = events.RunEnded(message="denied", stop_reason=StopReason.DENIED)
    state = fold(
        *worked(),
        GREEN,
        asked,
        said(1, "denied"),
        ended,
        events.RunResumed(plan=plan, version="0"),
    )
    assert isinstance(decide(state), RunRound)


def test_nothing_completes_while_something_waits() -> None:
    finish = decide(fold(*worked(), GREEN, requested(1, "c1"), approvals=Approvals()))
    assert isinstance(finish, RunEnded)
    assert finish.stop_reason is StopReason.APPROVAL_REQUIRED


def test_a_word_from_elsewhere_leaves_how_the_run_ended_and_when() -> None:
    ended = events.RunEnded(
        message="a1 waits", stop_reason=StopReason.APPROVAL_REQUIRED
    )
    before = outcome_of(fold(working(), requested(1, "c1"), ended))
    after = outcome_of(
        fold(working(), requested(1, "c1"), ended, said(1, by="ada", guarded=False))
    )
    assert (after.status, after.stop_reason, after.finished_at) == (
        before.status,
        before.stop_reason,
        before.finished_at,
    )
    assert after.message == "a1 was approved by ada\ngoal resume r goes on"
    assert after.labels == ("unguarded approval",)
    assert (before.approvals[0].decision, after.approvals[0].decision) == (
        "waiting",
        "approved",
    )
