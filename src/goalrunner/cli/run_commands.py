"""Options of the commands that drive a run."""

from __future__ import annotations

from typing import NoReturn

import typer

from goalrunner.cli import options

commands = typer.Typer()


@commands.command()
def run(
    goal_file: options.GoalFile = None,
    objective: options.Objective = None,
    criterion: options.Criterion = None,
    constraint: options.Constraint = None,
    validator: options.Validator = None,
    agent: options.Agent = None,
    model: options.Model = None,
    judge: options.Judge = None,
    max_iterations: options.MaxIterations = None,
    timeout: options.Timeout = None,
    tokens: options.Tokens = None,
    cost: options.Cost = None,
    workspace: options.Workspace = None,
    output_file: options.Output = None,
    json: options.OutcomeJson = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
    record: options.Record = None,
    continue_from: options.ContinueFrom = None,
) -> NoReturn:
    """Work on a goal until it is proven complete or a limit stops it.

    Options override the environment (GOAL_AGENT, GOAL_MODEL, GOAL_JUDGE), which overrides the goal file. The exit code is the
    outcome's: 0 complete, 1 capped, 2 usage or goal file, 3 blocked, 4 failed, 129, 130 or 143 by signal.
    """
    from goalrunner.cli import run as command

    keys = {
        "objective": objective,
        "success_criteria": criterion,
        "constraints": constraint,
        "validators": validator,
        "agent.use": agent,
        "agent.model": model,
        "judge.model": judge,
        "max_iterations": max_iterations,
        "timeout": timeout,
        "budget.tokens": tokens,
        "budget.cost_usd": cost,
        "workspace.path": workspace,
    }
    overrides = {key: value for key, value in keys.items() if value is not None and value != []}
    manner = command.Manner(copy=output_file, json=json, quiet=quiet, record=record, continue_from=continue_from)
    perform = command.dry_run if dry_run else command.run_goal_file
    raise typer.Exit(perform(goal_file, overrides, manner))


@commands.command()
def resume(
    run: options.Run = None,
    max_iterations: options.MaxIterations = None,
    timeout: options.Timeout = None,
    tokens: options.Tokens = None,
    cost: options.Cost = None,
    allow_unenforced: options.AllowUnenforced = None,
    note: options.Note = "",
    output_file: options.Output = None,
    json: options.OutcomeJson = False,
    quiet: options.Quiet = False,
) -> NoReturn:
    """Go on with a run where it was: after a crash, Ctrl-C, a limit, an approval or an answer.

    Conversation, counters, spend and evidence are those of the run; nothing that was done is done again. A limit that is
    used up must be raised. A run that is complete, or was ended by `goal cancel`, is over for good.
    """
    from goalrunner.cli import run as command
    from goalrunner.cli.run import Manner

    keys = {
        "max_iterations": max_iterations,
        "timeout": timeout,
        "budget.tokens": tokens,
        "budget.cost_usd": cost,
        "budget.allow_unenforced": allow_unenforced or None,
    }
    limits = {key: value for key, value in keys.items() if value is not None}
    raise typer.Exit(command.resume_run(run, limits, Manner(copy=output_file, json=json, quiet=quiet), note=note))


@commands.command()
def approve(run: options.OneRun, approval: options.ApprovalId = None, json: options.PeopleJson = False) -> NoReturn:
    """Approve what waits in a run that has ended waiting.

    Then `goal resume` goes on; what was approved is done once. Without a sandbox the outcome is labelled "unguarded
    approval", because a command of the agent could have done this as well.
    """
    from goalrunner.cli import approvals

    raise typer.Exit(approvals.decide(run, approval, "approved", json=json))


@commands.command()
def deny(
    run: options.OneRun,
    approval: options.ApprovalId = None,
    reason: options.Reason = "",
    json: options.PeopleJson = False,
) -> NoReturn:
    """Deny what waits in a run that has ended waiting.

    It is never done. `goal resume` then ends the run as blocked (denied), or goes on with the agent told where the goal
    says on_deny = "continue".
    """
    from goalrunner.cli import approvals

    raise typer.Exit(approvals.decide(run, approval, "denied", reason=reason, json=json))


@commands.command()
def answer(
    run: options.OneRun, text: options.Answer, question: options.Question = None, json: options.PeopleJson = False
) -> NoReturn:
    """Answer an open question of a run.

    `goal resume` tells the agent, and the judge may cite the answer.
    """
    from goalrunner.cli import approvals

    raise typer.Exit(approvals.answer(run, text, number=question, json=json))


@commands.command()
def cancel(run: options.Run = None, reason: options.CancelReason = "", json: options.CancelJson = False) -> NoReturn:
    """End a run for good, from any terminal; it can not be resumed."""
    from goalrunner.cli import run as command

    raise typer.Exit(command.cancel(run, reason=reason, json=json))


@commands.command()
def watch(run: options.Run = None) -> NoReturn:
    """Follow a living run from another terminal; the exit code is the run's."""
    from goalrunner.cli.audit import watch_run

    raise typer.Exit(watch_run(run))
