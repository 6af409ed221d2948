"""What a person says of a run from another terminal: yes, no, or an answer. Owns the refusals; drives nothing.

Such a word is not guarded: whoever can start a command on this machine, the agent included, can give it. It is where
every command of the run was in a jail, which hides the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from goalrunner import events, policy
from goalrunner.compose import Visit, glance, visit
from goalrunner.driver.people import record_answer
from goalrunner.errors import UsageError
from goalrunner.eventlog import LogInUse, TornTail
from goalrunner.model.outcome import GoalStatus
from goalrunner.ports import QuestionReply
from goalrunner.runs import RunFolder
from goalrunner.state import RunState
from goalrunner.state.resumption import FINAL
from goalrunner.state.run_state import Approval

OnTorn = Callable[[TornTail], None] | None


def decide(
    folder: RunFolder,
    decision: Literal["approved", "denied"],
    *,
    approval_id: str | None,
    by: str,
    reason: str = "",
    environ: Mapping[str, str],
    on_torn: OnTorn = None,
) -> tuple[Approval, RunState]:
    """Record a decision on what waits; gives it, and the state. Raises UsageError where there is nothing to decide."""
    with _visited(folder, environ, on_torn) as here:
        approval = _waiting(here.journal.state, approval_id)
        late = policy.is_late(approval.expires_at, here.clock.now())
        recorded = events.ApprovalRecorded(
            approval_id=approval.id,
            decision="expired" if late else decision,
            by="" if late else by,
            reason="" if late else reason,
            guarded=here.journal.state.sandbox != "none",
            evidence_refs=approval.evidence_refs,
        )
        here.journal.append(recorded)
        here.save()
        state = here.journal.state
        if late:
            raise UsageError(
                f"{approval.id} of run {folder.run_id} expired at {approval.expires_at}; it can no longer be {decision}",
                f"goal resume {folder.run_id} goes on without it",
            )
        return next(item for item in reversed(state.approvals) if item.id == approval.id), state


def reply(
    folder: RunFolder,
    text: str,
    *,
    number: int | None,
    by: str,
    environ: Mapping[str, str],
    on_torn: OnTorn = None,
) -> tuple[str, str, RunState]:
    """Answer an open question, the `number`th; gives it, the id of the answer's observation, and the state.

    Raises UsageError where there is no such question.
    """
    if not text.strip():
        raise UsageError("the answer is empty", 'goal answer RUN "..."')
    with _visited(folder, environ, on_torn) as here:
        question = _open_question(here.journal.state, number)
        record_answer(here.journal, question, QuestionReply(text.strip(), by))
        here.save()
        state = here.journal.state
        return question, state.memory.evidence_refs[-1], state


@contextmanager
def _visited(folder: RunFolder, environ: Mapping[str, str], on_torn: OnTorn) -> Iterator[Visit]:
    state, _ = glance(folder)
    _refuse_over(state)
    try:
        with visit(folder, environ, on_torn) as here:
            _refuse_over(here.journal.state)
            yield here
    except LogInUse as error:
        raise _busy(state, error) from None


def _refuse_over(state: RunState) -> None:
    run = state.goal.run_id
    if state.status is GoalStatus.COMPLETE:
        raise UsageError(f"run {run} is complete; nothing waits for a person", f"goal show {run}")
    if state.stop_reason in FINAL:
        raise UsageError(f"run {run} was cancelled, which is final; nothing waits for a person", f"goal show {run}")


def _busy(state: RunState, error: LogInUse) -> UsageError:
    run = state.goal.run_id
    if state.waiting:
        asked = ", ".join(item.id for item in state.waiting)
        return UsageError(
            f"run {run} is alive ({error.owner}) and is asking for {asked} at its own terminal", "answer there"
        )
    return UsageError(f"run {run} is alive ({error.owner}); nobody else can write into it", "wait for it to end")


def _waiting(state: RunState, approval_id: str | None) -> Approval:
    run = state.goal.run_id
    ids = ", ".join(item.id for item in state.waiting)
    if approval_id is None and len(state.waiting) == 1:
        return state.waiting[0]
    if approval_id is None and state.waiting:
        raise UsageError(f"run {run} waits for {ids}", f"name one of them: goal approve {run} {state.waiting[0].id}")
    known = next((item for item in reversed(state.approvals) if item.id == approval_id), None)
    if known is None and approval_id is not None:
        raise UsageError(f"run {run} has no approval {approval_id}", _what_waits(ids, run))
    if known is None:
        last = f"; {_decided(state.approvals[-1])}" if state.approvals else ""
        raise UsageError(f"nothing waits for a person in run {run}{last}", f"goal status {run}")
    if known.decision is not None:
        raise UsageError(_decided(known), _what_waits(ids, run))
    return known


def _decided(approval: Approval) -> str:
    match approval.decision:
        case "expired":
            return f"{approval.id} has expired"
        case "withdrawn":
            return f"{approval.id} was withdrawn: what it was about is there no more"
        case _:
            return f"{approval.id} was {approval.decision} by {approval.by or 'somebody'} at {approval.decided_at}"


def _what_waits(ids: str, run: str) -> str:
    return f"it waits for {ids}" if ids else f"nothing waits now; goal status {run}"


def _open_question(state: RunState, number: int | None) -> str:
    run, questions = state.goal.run_id, state.memory.open_questions
    if not questions:
        raise UsageError(f"run {run} has no open question", f"goal status {run}")
    if number is None and len(questions) == 1:
        return questions[0]
    listed = "\n".join(f"{at}  {question}" for at, question in enumerate(questions, start=1))
    if number is None:
        raise UsageError(f"run {run} has {len(questions)} open questions:\n{listed}", "name one of them: --question N")
    if not 1 <= number <= len(questions):
        raise UsageError(f"run {run} has no question {number}; open are:\n{listed}")
    return questions[number - 1]
