"""`goal approve`, `goal deny` and `goal answer`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from goalrunner.cli import output, runs
from goalrunner.cli.options import Json, RequiredRun

if TYPE_CHECKING:
    from goalrunner.core.observation import ArtifactRef
    from goalrunner.core.run_state import RunState
    from goalrunner.records.run_folder import RunFolder

ApprovalId = Annotated[str | None, Argument(metavar="ID", help="Which approval, such as a1; default: the only one.")]


def approve(run: RequiredRun, approval: ApprovalId = None, json: Json = False) -> int:
    """Approve what waits for a person in a run that has ended.

    `goal resume` then does it, once. Without a sandbox the outcome has the label "unguarded approval", because a command of
    the agent could have given the approval, too.
    """
    return _decide(run, approval, "approved", "", json=json)


def deny(
    run: RequiredRun,
    approval: ApprovalId = None,
    reason: Annotated[str, Option(metavar="TEXT", help="The reason; the agent reads it if the run goes on.")] = "",
    json: Json = False,
) -> int:
    """Deny what waits for a person in a run that has ended.

    It is never done. `goal resume` then ends the run as blocked (denied); with on_deny = "continue" in the goal file, the
    agent is informed and goes on.
    """
    return _decide(run, approval, "denied", reason, json=json)


def _decide(
    run: str, approval_id: str | None, decision: Literal["approved", "denied"], reason: str, *, json: bool
) -> int:
    from goalrunner.app import decisions
    from goalrunner.app.location import person
    from goalrunner.reports.text import clean

    folder = runs.find(run)
    approval, state = decisions.decide(
        folder,
        decision,
        approval_id=approval_id,
        by=person(),
        reason=reason,
        environ=os.environ,
        on_torn=runs.warn_torn,
    )
    if json:
        _say_json(state, approval=approval.model_dump(mode="json"))
        return 0
    diff = _diff(folder, approval.preview) if approval.preview is not None else ""
    output.say(clean(f"{approval.id} {approval.decision}: {approval.action}\n{diff}") + _next(state))
    return 0


def _diff(folder: RunFolder, ref: ArtifactRef) -> str:
    """Return the diff that was decided on; empty if it is gone."""
    from goalrunner.core.errors import RecordError
    from goalrunner.records.artifacts import ArtifactStore
    from goalrunner.records.redaction import Redactor

    try:
        return ArtifactStore(folder.artifacts, Redactor({})).read(ref).decode(errors="replace")
    except RecordError:
        return ""


def answer(
    run: RequiredRun,
    text: Annotated[str, Argument(metavar="TEXT", help="The answer.")],
    question: Annotated[
        int | None, Option("--question", metavar="N", help="Which question; default: the only one.")
    ] = None,
    json: Json = False,
) -> int:
    """Answer an open question of a run.

    `goal resume` gives the answer to the agent, and the judge may cite it.
    """
    from goalrunner.app import decisions
    from goalrunner.app.location import person
    from goalrunner.reports.text import one_line

    asked, evidence, state = decisions.reply(
        runs.find(run), text, number=question, by=person(), environ=os.environ, on_torn=runs.warn_torn
    )
    if json:
        _say_json(state, question=asked, evidence_ref=evidence)
    else:
        output.say(f"answered: {one_line(asked)}\nthe answer is kept as {evidence}\n{_next(state)}")
    return 0


def _next(state: RunState) -> str:
    run = state.goal.run_id
    if state.waiting:
        return f"still waiting: {', '.join(item.id for item in state.waiting)}\n"
    if state.memory.open_questions:
        return f'questions still open: {len(state.memory.open_questions)}\ngoal answer {run} "..."\n'
    return f"To continue:\ngoal resume {run}\n"


def _say_json(state: RunState, **values: Any) -> None:
    waiting = [item.id for item in state.waiting]
    status = {"run_id": state.goal.run_id, "status": str(state.status)}
    output.say_json({**status, **values, "waiting": waiting, "open_questions": list(state.memory.open_questions)})
