"""The commands as Typer knows them. Owns names, options and help; each hands over to its own file and ends with its code.

Nothing heavy is imported here: a command imports what it needs when it runs.
"""

from __future__ import annotations

from typing import Annotated, NoReturn

import typer

from goalrunner import __version__
from goalrunner.cli import options, output
from goalrunner.errors import UsageError

app = typer.Typer(
    name="goal",
    help="Drive an AI agent round after round until it is proven that the goal is reached.",
    epilog="Exit codes: 0 complete, 1 capped, 2 usage or goal file, 3 blocked, 4 failed, 129, 130 and 143 by signal.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        output.say(f"goal {__version__}\n")
        raise typer.Exit


@app.callback()
def _goal(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of `goal` itself."""


@app.command()
def run(
    goal_file: options.GoalFile = None,
    objective: options.Objective = None,
    criterion: options.Criterion = None,
    constraint: options.Constraint = None,
    validator: options.Validator = None,
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

    Options override the environment (GOAL_MODEL, GOAL_JUDGE), which overrides the goal file. The exit code is the
    outcome's: 0 complete, 1 capped, 2 usage or goal file, 3 blocked, 4 failed, 129, 130 or 143 by signal.
    """
    from goalrunner.cli import run as command

    keys = {
        "objective": objective,
        "success_criteria": criterion,
        "constraints": constraint,
        "validators": validator,
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


@app.command()
def resume(
    run: options.Run = None,
    max_iterations: options.MaxIterations = None,
    timeout: options.Timeout = None,
    tokens: options.Tokens = None,
    cost: options.Cost = None,
    note: options.Note = "",
    output_file: options.Output = None,
    json: options.OutcomeJson = False,
    quiet: options.Quiet = False,
) -> NoReturn:
    """Go on with a run where it was: after a crash, Ctrl-C, a limit, an approval or an answer.

    Conversation, counters, spend and evidence are those of the run; nothing that was done is done again. A limit that is
    used up must be raised. A run that is complete, or was ended by `goal cancel`, is over for good.
    """
    from goalrunner.cli import resume as command
    from goalrunner.cli.run import Manner

    keys = {
        "max_iterations": max_iterations,
        "timeout": timeout,
        "budget.tokens": tokens,
        "budget.cost_usd": cost,
    }
    limits = {key: value for key, value in keys.items() if value is not None}
    raise typer.Exit(command.resume_run(run, limits, Manner(copy=output_file, json=json, quiet=quiet), note=note))


@app.command()
def approve(run: options.OneRun, approval: options.ApprovalId = None, json: options.PeopleJson = False) -> NoReturn:
    """Approve what waits in a run that has ended waiting.

    Then `goal resume` goes on; what was approved is done once. The outcome is labelled "unguarded approval", because the
    agent could have typed this as well; an approval at the terminal of the run itself is not.
    """
    from goalrunner.cli import people

    raise typer.Exit(people.decide(run, approval, "approved", json=json))


@app.command()
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
    from goalrunner.cli import people

    raise typer.Exit(people.decide(run, approval, "denied", reason=reason, json=json))


@app.command()
def answer(
    run: options.OneRun, text: options.Answer, question: options.Question = None, json: options.PeopleJson = False
) -> NoReturn:
    """Answer an open question of a run.

    `goal resume` tells the agent, and the judge may cite the answer.
    """
    from goalrunner.cli import people

    raise typer.Exit(people.answer(run, text, number=question, json=json))


@app.command()
def status(
    target: options.Target = None,
    objective: options.JudgedBy = None,
    goal: options.JudgedByGoal = None,
    judge: options.AuditModel = None,
    json: options.StatusJson = False,
) -> NoReturn:
    """Print the state of a run, or judge a saved transcript.

    A run: no model is called; the exit code is the run's, and 4 while it has not ended. A transcript (of a run, or
    OpenAI chat messages as JSON or JSONL) with --objective or --goal: the judge is asked; the exit code is 0 for
    complete, 1 for not, 4 when the judge failed.
    """
    from goalrunner.cli import audit
    from goalrunner.cli.status import print_status

    if objective is None and goal is None and judge is None:
        raise typer.Exit(print_status(target, json=json))
    raise typer.Exit(audit.print_verdict(target, objective=objective, goal_file=goal, judge=judge, json=json))


@app.command("list")
def list_(json: options.ListJson = False) -> NoReturn:
    """List the runs, newest first."""
    from goalrunner.cli.list import list_runs

    raise typer.Exit(list_runs(json=json))


@app.command()
def show(
    run: options.Run = None,
    path: options.ShowPath = False,
    json: options.ShowJson = False,
    evidence: options.ShowEvidence = False,
    state: options.ShowState = False,
    at: options.ShowAt = None,
    events: options.ShowEvents = False,
) -> NoReturn:
    """Show what happened in a run, round by round.

    With --evidence: what its last verdict rests on. With --state: what it is doing, on which evidence, and why it goes
    on or stopped; --at N: the same after event N; --events: every event, a line each.
    """
    from goalrunner.cli.show import show_run

    if evidence + (state or at is not None) + events + path > 1:
        raise UsageError("--path, --evidence, --state (--at) and --events exclude each other", "ask for one of them")
    if state or at is not None:
        from goalrunner.cli.state import show_state

        raise typer.Exit(show_state(run, at, json=json))
    if events:
        from goalrunner.cli.state import show_events

        raise typer.Exit(show_events(run, json=json))
    if evidence:
        from goalrunner.cli.evidence import show_evidence

        raise typer.Exit(show_evidence(run, path=path, json=json))

    raise typer.Exit(show_run(run, path=path, json=json))


@app.command()
def diff(
    run: options.Run = None,
    number: options.Round = None,
    stat: options.DiffStat = False,
    json: options.DiffJson = False,
) -> NoReturn:
    """Print what a run changed, or one round of it, as a unified patch."""
    from goalrunner.cli.diff import print_diff

    raise typer.Exit(print_diff(run, number, stat=stat, json=json))


@app.command()
def restore(
    run: options.Run = None,
    number: options.RestoredRound = None,
    snapshot: options.SnapshotId = None,
    yes: options.Yes = False,
) -> NoReturn:
    """Put the workspace back as a round left it; asks first.

    The state before is kept as a snapshot; its id and the way back are printed. Ignored files, and HEAD, refs and index
    of your repositories stay as they are.
    """
    from goalrunner.cli.restore import restore_run

    raise typer.Exit(restore_run(run, number, snapshot=snapshot, yes=yes))


@app.command()
def cancel(run: options.Run = None, reason: options.CancelReason = "", json: options.CancelJson = False) -> NoReturn:
    """End a run for good, from any terminal; it can not be resumed."""
    from goalrunner.cli import cancel as command

    raise typer.Exit(command.cancel(run, reason=reason, json=json))


@app.command()
def watch(run: options.Run = None) -> NoReturn:
    """Follow a living run from another terminal; the exit code is the run's."""
    from goalrunner.cli.watch import watch_run

    raise typer.Exit(watch_run(run))


@app.command()
def prune(
    older_than: options.OlderThan,
    yes: options.Yes = False,
    dry_run: options.PruneDryRun = False,
    json: options.PruneJson = False,
) -> NoReturn:
    """Remove runs that ended long ago; never a living one, or one that waits for a person."""
    from goalrunner.cli.prune import prune_runs

    raise typer.Exit(prune_runs(older_than, yes=yes, dry_run=dry_run, json=json))


@app.command()
def verify(run: options.Run = None, json: options.VerifyJson = False) -> NoReturn:
    """Check offline that the records of a run still hold.

    Log, transcript, artifacts, outcome, and the citations of each verdict. The first thing that does not hold is named
    by file and byte, and the exit code is 4.
    """
    from goalrunner.cli.verify import verify_run

    raise typer.Exit(verify_run(run, json=json))


@app.command()
def promote(
    run: options.OfRun,
    item: options.Item,
    kind: options.Kind,
    text: options.Said = "",
    expires: options.Expires = None,
    sensitivity: options.Sensitive = "low",
    permission: options.Permission = "",
    replaces: options.Replaces = "",
) -> NoReturn:
    """Let later runs remember a fact, where the goal allows it.

    Only kinds that [memory] promote of the run's goal names are kept, for its owner. Later runs of that owner with
    [memory] recall = true are told, and the judge never takes it for evidence.
    """
    from goalrunner.cli.promote import Wish, promote_item

    wish = Wish(kind, text, expires, sensitivity, permission, replaces)
    raise typer.Exit(promote_item(run, item, wish))


@app.command()
def memory(owner: options.Owner = None, json: options.MemoryJson = False) -> NoReturn:
    """List what is remembered beyond runs."""
    from goalrunner.cli.memory import list_memory

    raise typer.Exit(list_memory(owner, json=json))


@app.command()
def forget(item: options.MemoryId) -> NoReturn:
    """Remove an item from the memory, and what it had corrected."""
    from goalrunner.cli.forget import forget_item

    raise typer.Exit(forget_item(item))
