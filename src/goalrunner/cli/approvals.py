"""Decisions about a run, from any terminal.

These are `goal approve`, `goal deny`, `goal answer`, `goal note` and `goal cancel`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from goalrunner import fleet
from goalrunner.app import decisions
from goalrunner.app.previous_run import load_state, refuse_final
from goalrunner.app.sandbox import person
from goalrunner.batches.names import named_batch
from goalrunner.cli import dialog, main, options, output, runs
from goalrunner.cli.options import COUNT, Text, argument, option
from goalrunner.core.errors import RunNotFound, UsageError
from goalrunner.core.outcome import StopReason
from goalrunner.core.run_state import RunState
from goalrunner.core.run_summary import RunSummary
from goalrunner.goalfile.place import repository_root
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_search import runs_of
from goalrunner.records.run_summaries import read_summary, run_summaries
from goalrunner.records.writer_lock import has_writer
from goalrunner.reports import layout
from goalrunner.reports.next_steps import resuming
from goalrunner.reports.questions import ANSWER, approval_text, question_text
from goalrunner.reports.short_forms import home_path
from goalrunner.reports.status import naming_lines
from goalrunner.reports.terminal_text import printable, printable_line

ApprovalId = Annotated[
    Text, argument("ID", "Which approval, such as a1; default: the only one.")
]
WaitingRun = Annotated[
    Text,
    argument(
        "RUN",
        "Id of a run; default: the one of this workspace that waits.",
        options.run_ids,
    ),
]

_MOST_RUNS = 5


def approve(
    run: WaitingRun = None,
    approval: ApprovalId = None,
    yes: options.Yes = False,
    json: options.Json = False,
) -> int:
    """Approve an action or a result that waits for a person.

    From any terminal: an active run takes the decision and goes on; else `goal resume`
    performs the action once, or accepts the result. Without RUN, the question is shown
    first, and you confirm. Without a sandbox, the outcome has the label "unguarded
    approval", because a command of the agent could also have given the approval.
    """
    return _decide(run, approval, "approve", "", yes=yes, json=json)


def deny(
    run: WaitingRun = None,
    approval: ApprovalId = None,
    reason: Annotated[
        str, option("TEXT", "The reason; the agent reads it if the run continues.")
    ] = "",
    yes: options.Yes = False,
    json: options.Json = False,
) -> int:
    """Deny an action or a result that waits for a person.

    A denied action is never performed. Without RUN, the question is shown first, and
    you confirm. The active run, or `goal resume`, then ends as blocked (denied); with
    on_deny = "continue" in the goal file, the agent gets the reason and continues.
    """
    return _decide(run, approval, "deny", reason, yes=yes, json=json)


def _decide(
    run: str | None,
    identifier: str | None,
    verb: Literal["approve", "deny"],
    reason: str,
    *,
    yes: bool,
    json: bool,
) -> int:
    if _is_elsewhere(run):
        return 0
    folder = _waiting(run, verb)
    if run is None:
        identifier = _print_request(folder, identifier)
        if not yes and not dialog.confirmed(
            f"{verb.capitalize()} {identifier}? [y/N]",
            f"goal {verb} without RUN asks first",
            f"goal {verb} {folder.run_id} {identifier}",
            "nothing was decided",
        ):
            return 1
    decision: Literal["approved", "denied"] = "denied"
    if verb == "approve":
        decision = "approved"
    approval, state = decisions.record_decision(
        folder,
        decision,
        approval_id=identifier,
        by=person(),
        reason=reason,
        environ=os.environ,
    )
    if json:
        output.say(_value(state, approval=approval.model_dump(mode="json")))
        return 0
    # An active run records the decision itself, a moment later.
    result = approval.decision or f"is to be {decision}"
    line = printable(f"{approval.id} {result}: {approval.action}\n")
    output.say(line + _next(state, folder, approval.decision is not None))
    return 0


def _print_request(folder: RunFolder, identifier: str | None) -> str:
    """Print an approval that waits, and return its id."""
    waiting = decisions.waiting(load_state(folder), identifier)
    request = main.wait_for(
        decisions.request_of(folder, waiting, runs.home(), os.environ)
    )
    text = approval_text(request, columns=output.columns(sys.stderr))
    output.complain(f"run {folder.run_id}{text}")
    return waiting.id


def _is_elsewhere(run: str | None) -> bool:
    """Return whether the run is one of the fleet, whose worker has the command now."""
    if fleet.VARIABLE not in os.environ:
        return False
    from goalrunner.fleet.remote_commands import performed_by_worker

    return performed_by_worker(runs.home(), run, main.COMMAND_LINE.get())


def _waiting(reference: str | None, verb: str) -> RunFolder:
    """Return the folder of a run; None is the only run that waits for this command.

    Raise UsageError if it is not one.
    """
    if reference is not None:
        return runs.find(reference)
    need, command = "a decision", f"{verb} RUN"
    if verb == "answer":
        need, command = "an answer", 'answer RUN "..."'
    summaries = run_summaries(runs.home())
    of_folder = filter(_is_here, runs_of(summaries, runs.current_folder()))
    run_ids = [summary.run_id for summary in _open(of_folder, verb)]
    if len(run_ids) == 1:
        return runs.find(run_ids[0])
    if run_ids:
        commands = [
            f"goal {command.replace('RUN', run_id)}" for run_id in run_ids[:_MOST_RUNS]
        ]
        raise UsageError(
            f"{len(run_ids)} runs wait for {need}; name one of them",
            "\n".join(commands),
        )
    message = f"no run of this workspace waits for {need}"
    elsewhere = _open(summaries, verb)
    if not elsewhere:
        raise UsageError(message, "goal list shows the runs")
    other = elsewhere[0]
    raise UsageError(
        f"{message}; {other.run_id} in {home_path(other.workspace)} waits:"
        f" {printable_line(other.objective)}",
        f"goal {command.replace('RUN', other.run_id)}",
    )


def _is_here(summary: dict[str, Any]) -> bool:
    """Return whether a run works in the current folder.

    A folder above it in the same repository counts as well.
    """
    folder, workspace = runs.current_folder(), Path(str(summary.get("workspace", "")))
    is_in_workspace = folder.is_relative_to(workspace)
    return is_in_workspace and repository_root(folder) == repository_root(workspace)


def _open(summaries: Iterable[dict[str, Any]], verb: str) -> list[RunSummary]:
    """Return the runs that wait for this command."""
    open_runs = []
    for summary in map(RunSummary.read, summaries):
        waits = summary.open_questions if verb == "answer" else summary.waiting
        if waits and summary.status not in ("complete", "cancelled"):
            open_runs.append(summary)
    return open_runs


def answer(
    run: WaitingRun = None,
    text: Annotated[Text, argument("TEXT", "The answer; default: asks for it.")] = None,
    question: Annotated[
        int | None,
        option(
            "N", "Which question; default: the only one.", "--question", parser=COUNT
        ),
    ] = None,
    json: options.Json = False,
) -> int:
    """Answer an open question of a run.

    Without RUN, the answer is for the only run of this workspace that waits. The active
    run, or `goal resume`, gives it to the agent, and the judge may cite it.
    """
    # A single argument is the answer, unless it names a run.
    if text is None and run is not None and not _is_run(run):
        run, text = None, run
    if text is not None and _is_elsewhere(run):
        return 0
    folder = _waiting(run, "answer")
    if run is None or text is None:
        asked = decisions.open_question(load_state(folder), question)
        columns = output.columns(sys.stderr)
        output.complain(f"run {folder.run_id}{question_text(asked, columns)}")
    if text is None:
        if not dialog.is_interactive():
            raise UsageError(
                "the answer is missing", f'goal answer {folder.run_id} "..."'
            )
        text = dialog.typed(ANSWER.replace(" (Ctrl-D leaves the question open)", ""))
    asked, evidence, state = decisions.reply(
        folder, text, number=question, by=person(), environ=os.environ
    )
    if json:
        output.say(_value(state, question=asked, evidence_ref=evidence))
        return 0
    lines = f"answered: {printable_line(asked)}\n"
    if evidence:
        lines += f"the answer is kept as {evidence}\n"
    output.say(lines + _next(state, folder, bool(evidence)))
    return 0


def note(
    run: Annotated[str, argument("RUN", "Id of a run.", options.run_ids)],
    text: Annotated[str, argument("TEXT", "The note.")],
    json: options.Json = False,
) -> int:
    """Give the agent of a run a note with its next prompt, from any terminal.

    The run may be active: the turn at hand is not interrupted. For a run that has
    ended, `goal resume` gives the note. It is kept in the run's log, and it is no
    evidence.
    """
    if _is_elsewhere(run):
        return 0
    folder = runs.find(run)
    state = decisions.give_note(folder, text, by=person(), environ=os.environ)
    if json:
        output.say(_value(state, note=text.strip()))
        return 0
    following = _next(state, folder)
    output.say(f"the agent gets the note with its next prompt\n{following}")
    return 0


def cancel(
    run: options.RunOrBatch = None,
    reason: Annotated[
        str, option("TEXT", "The reason; it is kept in the run's log.")
    ] = "",
    yes: options.Yes = False,
    json: options.Json = False,
) -> int:
    """End a run or a batch permanently, from any terminal.

    Asks first. The run cannot be resumed; nor can a batch, which ends with its runs.
    """
    batch = named_batch(runs.home(), run)
    if batch is not None:
        from goalrunner.batches.cancelling import cancel_named_batch

        return cancel_named_batch(runs.home(), batch, reason, yes=yes, as_json=json)
    if fleet.VARIABLE in os.environ and run is not None:
        from goalrunner.fleet.remote_commands import cancelled_in_fleet

        answer = cancelled_in_fleet(runs.home(), run, reason, yes=yes, as_json=json)
        if answer is not None:
            return answer
    folder = runs.find(run)
    state = load_state(folder)
    # A second request is no mistake: the first one may have been interrupted.
    if state.stop_reason is not StopReason.CANCELLED:
        refuse_final(state)
        if not yes and not _confirms_cancelling(folder):
            return 1
        state = decisions.cancel_run(folder, reason)
    value = {
        "run_id": folder.run_id,
        "status": str(state.status),
        "message": state.message,
    }
    output.say(value if json else f"{state.status}  {folder.run_id}  {state.message}\n")
    return 0


def _confirms_cancelling(folder: RunFolder) -> bool:
    lines = naming_lines(RunSummary.read(read_summary(folder)))
    output.complain(layout.laid_out(lines, output.columns(sys.stderr)))
    return dialog.confirmed(
        "End this run for good? It cannot be resumed. [y/N]",
        "goal cancel asks before it ends a run",
    )


def _is_run(text: str) -> bool:
    """Return whether a text is the id of a run, or at least its first four letters."""
    if re.fullmatch(r"[a-z][0-9a-z]{3}(-[0-9a-z-]*)?", text) is None:
        return False
    with suppress(RunNotFound):
        return bool(runs.find(text))
    return False


def _next(state: RunState, folder: RunFolder, is_recorded: bool = True) -> str:
    """Return what comes next; `is_recorded` is whether the decision is in the log."""
    run = state.goal.run_id
    if not is_recorded:
        return (
            f"the run is active, and records it with its next step: goal watch {run}\n"
        )
    if state.waiting:
        identifiers = ", ".join(approval.id for approval in state.waiting)
        return f"still waiting: {identifiers}\n"
    count = len(state.memory.open_questions)
    if count:
        return f'questions still open: {count}\ngoal answer {run} "..."\n'
    if has_writer(folder.events):
        return f"the run goes on: goal watch {run}\n"
    if state.handed:
        return f"To continue: {state.way_on}.\n"
    return "\n".join(("To continue:", *resuming(RunSummary.of(state)), ""))


def _value(state: RunState, **values: Any) -> dict[str, Any]:
    """Return the result of a command as JSON."""
    return {
        "run_id": state.goal.run_id,
        "status": str(state.status),
        **values,
        "waiting": [approval.id for approval in state.waiting],
        "open_questions": list(state.memory.open_questions),
    }
