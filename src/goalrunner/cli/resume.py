"""`goal resume` and `goal cancel`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from goalrunner.cli import output, runs
from goalrunner.cli.drive import OutputOptions, drive
from goalrunner.cli.options import Cost, Json, MaxIterations, OutcomeJson, OutputFile, Quiet, Run, Timeout, Tokens

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.core.ports import Approver, Observer


def resume(
    run: Run = None,
    max_iterations: MaxIterations = None,
    timeout: Timeout = None,
    tokens: Tokens = None,
    cost: Cost = None,
    allow_unenforced: Annotated[
        list[str] | None,
        Option(metavar="BUDGET", help="tokens or cost_usd: count only what is known; may be repeated."),
    ] = None,
    note: Annotated[str, Option(metavar="TEXT", help="A note to the agent.")] = "",
    output_file: OutputFile = None,
    json: OutcomeJson = False,
    quiet: Quiet = False,
) -> int:
    """Continue a run: after a crash, Ctrl-C, a limit or a decision.

    Conversation, counters, usage and evidence are those of the run; nothing that was done is done again. A limit that is
    used up must be raised. A run that is complete, or was ended by `goal cancel`, cannot be resumed.
    """
    from goalrunner import app
    from goalrunner.goalfile import resolve_limits
    from goalrunner.reports.outcome_copy import OutcomeCopy

    keys = {
        "max_iterations": max_iterations,
        "timeout": timeout,
        "budget.tokens": tokens,
        "budget.cost_usd": cost,
        "budget.allow_unenforced": allow_unenforced or None,
    }
    limits = resolve_limits({key: value for key, value in keys.items() if value is not None})
    folder = runs.find(run)

    def work(observers: tuple[Observer, ...], approver: Approver | None) -> Coroutine[Any, Any, GoalOutcome]:
        options = app.RunOptions(home=runs.home(), observers=observers, approver=approver)
        return app.aresume(folder, options, limits, note=note, on_torn=runs.warn_torn)

    copy = OutcomeCopy(output_file) if output_file is not None else None
    return drive(work, OutputOptions(copy, json=json, quiet=quiet))


def cancel(
    run: Run = None,
    reason: Annotated[str, Option(metavar="TEXT", help="The reason; it is kept in the run's log.")] = "",
    json: Json = False,
) -> int:
    """End a run for good, from any terminal.

    It cannot be resumed.
    """
    from goalrunner.app.decisions import cancel_run

    folder = runs.find(run)
    state = cancel_run(folder, reason)
    if json:
        output.say_json({"run_id": folder.run_id, "status": str(state.status), "message": state.message})
    else:
        output.say(f"{state.status}  {folder.run_id}  {state.message}\n")
    return 0
