"""`goal approve`, `goal deny`, `goal answer`: a person's word on a run that is not driven now. Owns what is printed of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from goalrunner.cli import output

if TYPE_CHECKING:
    from goalrunner.eventlog import TornTail
    from goalrunner.model.observation import ArtifactRef
    from goalrunner.runs import RunFolder
    from goalrunner.state import RunState
    from goalrunner.state.run_state import Approval


def decide(
    run: str,
    approval_id: str | None,
    decision: Literal["approved", "denied"],
    *,
    reason: str = "",
    json: bool = False,
) -> int:
    """Approve or deny what waits; gives exit code 0. Raises UsageError where there is nothing to decide."""
    from goalrunner.api import people
    from goalrunner.compose.system import person

    folder = _folder(run)
    approval, state = people.decide(
        folder,
        decision,
        approval_id=approval_id,
        by=person(),
        reason=reason,
        environ=os.environ,
        on_torn=_torn,
    )
    if json:
        _say_json(state, approval=approval.model_dump(mode="json"))
    else:
        output.say(_decided_text(folder, approval, state))
    return 0


def answer(run: str, text: str, *, number: int | None = None, json: bool = False) -> int:
    """Answer an open question; gives exit code 0. Raises UsageError where there is none."""
    from goalrunner.api import people
    from goalrunner.compose.system import person
    from goalrunner.reports.terminal_text import one_line

    folder = _folder(run)
    question, evidence, state = people.reply(
        folder, text, number=number, by=person(), environ=os.environ, on_torn=_torn
    )
    if json:
        _say_json(state, question=question, evidence_ref=evidence)
    else:
        output.say(f"answered: {one_line(question)}\nthe answer is kept as {evidence}\n{_next(state)}")
    return 0


def _decided_text(folder: RunFolder, approval: Approval, state: RunState) -> str:
    from goalrunner.reports.terminal_text import clean

    said = f"{approval.id} {approval.decision}: {approval.action}\n"
    if approval.preview is not None:
        said += _diff(folder, approval.preview)
    return clean(said) + _next(state)


def _diff(folder: RunFolder, ref: ArtifactRef) -> str:
    """What was decided on; where it is gone, that is no reason to fail."""
    from goalrunner.artifacts import ArtifactStore
    from goalrunner.errors import RecordError
    from goalrunner.redaction import Redactor

    try:
        store = ArtifactStore(folder.artifacts, Redactor({}))
        return store.read(ref).decode(errors="replace")
    except RecordError:
        return ""


def _next(state: RunState) -> str:
    run = state.goal.run_id
    if state.waiting:
        return f"still waiting: {', '.join(item.id for item in state.waiting)}\n"
    if state.memory.open_questions:
        return f'questions still open: {len(state.memory.open_questions)}\ngoal answer {run} "..."\n'
    return f"To continue:\ngoal resume {run}\n"


def _say_json(state: RunState, **said: Any) -> None:
    from goalrunner.reports.outcome import json_text

    values = {
        "run_id": state.goal.run_id,
        "status": str(state.status),
        **said,
        "waiting": [item.id for item in state.waiting],
        "open_questions": list(state.memory.open_questions),
    }
    output.say(json_text(values))


def _folder(run: str) -> RunFolder:
    from goalrunner import runs

    return runs.find_run(runs.goal_home(os.environ), run)


def _torn(torn: TornTail) -> None:
    output.complain(f"Warning: {torn}; they are removed")
