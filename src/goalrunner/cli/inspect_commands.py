"""Options of the commands that only look at runs."""

from __future__ import annotations

from typing import NoReturn

import typer

from goalrunner.cli import options
from goalrunner.core.errors import UsageError

commands = typer.Typer()


@commands.command()
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


@commands.command("list")
def list_(json: options.ListJson = False) -> NoReturn:
    """List the runs, newest first."""
    from goalrunner.cli.status import list_runs

    raise typer.Exit(list_runs(json=json))


@commands.command()
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
        raise UsageError("--path, --evidence, --state (--at) and --events cannot be combined", "use one of them")
    if state or at is not None:
        from goalrunner.cli.show import show_state

        raise typer.Exit(show_state(run, at, json=json))
    if events:
        from goalrunner.cli.show import show_events

        raise typer.Exit(show_events(run, json=json))
    if evidence:
        from goalrunner.cli.show import show_evidence

        raise typer.Exit(show_evidence(run, path=path, json=json))

    raise typer.Exit(show_run(run, path=path, json=json))


@commands.command()
def diff(
    run: options.Run = None,
    number: options.Round = None,
    stat: options.DiffStat = False,
    json: options.DiffJson = False,
) -> NoReturn:
    """Print what a run changed, or one round of it, as a unified patch."""
    from goalrunner.cli.show import print_diff

    raise typer.Exit(print_diff(run, number, stat=stat, json=json))


@commands.command()
def verify(run: options.Run = None, json: options.VerifyJson = False) -> NoReturn:
    """Check offline that the records of a run still hold.

    Log, transcript, artifacts, outcome, and the citations of each verdict. The first thing that does not hold is named
    by file and byte, and the exit code is 4.
    """
    from goalrunner.cli.audit import verify_run

    raise typer.Exit(verify_run(run, json=json))


@commands.command()
def agents(goal: options.AgentsGoal = None, json: options.AgentsJson = False) -> NoReturn:
    """List the agents that a goal may name: what is installed, and what each can.

    Built-in ones, those of the user's folder (~/.config/goal/agents), and with --goal those of a goal file.
    """
    from goalrunner.cli.agents import list_agents

    raise typer.Exit(list_agents(goal, json=json))


@commands.command()
def doctor(
    agent: options.AgentName = None, goal: options.AgentsGoal = None, json: options.DoctorJson = False
) -> NoReturn:
    """Say whether an agent can be used here, and what to type where it cannot.

    Looks at its program, its key or login, git and the sandbox, and tries one round against a scripted server where the
    agent can be pointed at one; no provider is asked. The exit code is 0 when it can be used, else 4.
    """
    from goalrunner.cli.agents import diagnose

    raise typer.Exit(diagnose(agent, goal, json=json))
