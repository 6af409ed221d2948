"""`goal run` and `goal resume`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from goalrunner.cli import ci, completion, goals, output, runs
from goalrunner.cli.canary import refuse_credulous_judge
from goalrunner.cli.drive import drive, workspace_state
from goalrunner.cli.options import Cost, MaxIterations, OutcomeJson, OutputFile, Quiet, Run, Timeout, Tokens
from goalrunner.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from goalrunner.app.run_options import RunOptions
    from goalrunner.core.goal import Goal
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.reports.result_file import ResultFile


def _texts(metavar: str, help_: str, values: Any = None) -> Any:
    return Option(metavar=metavar, help=f"{help_}; may be repeated.", autocompletion=values)


GoalArgument = Annotated[
    str | None,
    Argument(
        metavar="GOAL_FILE | TEXT",
        help='A goal file, or an objective: "make the tests pass"; default: goal.toml.',
        autocompletion=completion.goal_files,
    ),
]
Agent = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="The agent: builtin, claude, codex, ...; goal agents lists them.",
        autocompletion=completion.agents,
    ),
]
Model = Annotated[str | None, Option(metavar="NAME", help="The agent's model: openai/..., scripted/FILE, ...")]
Judge = Annotated[str | None, Option(metavar="NAME", help="The judge's model; \"agent\" is the agent's own.")]
Record = Annotated[
    Path | None, Option(metavar="FILE", readable=False, help="Record the models' replies; scripted/FILE replays them.")
]
Parent = Annotated[
    str | None, Option(metavar="RUN", help="The run that this goal is a part of.", autocompletion=completion.run_ids)
]
ContinueFrom = Annotated[
    str | None, Option(metavar="RUN", help="Continue the conversation of that run.", autocompletion=completion.run_ids)
]
Canary = Annotated[
    bool, Option("--canary", help="First test the judge; do not run if it accepts examples without proof.")
]


def run(
    goal_file_or_text: GoalArgument = None,
    objective: Annotated[
        str | None, Option(metavar="TEXT", help="The objective; replaces that of the goal file.")
    ] = None,
    criterion: Annotated[list[str] | None, _texts("TEXT", "A success criterion")] = None,
    constraint: Annotated[list[str] | None, _texts("TEXT", "A constraint")] = None,
    validator: Annotated[
        list[str] | None, _texts("CMD", "A shell command that validates the work", completion.validators)
    ] = None,
    agent: Agent = None,
    model: Model = None,
    judge: Judge = None,
    max_iterations: MaxIterations = None,
    timeout: Timeout = None,
    tokens: Tokens = None,
    cost: Cost = None,
    workspace: Annotated[str | None, Option(metavar="DIR", help="The folder that the agent works in.")] = None,
    output_file: OutputFile = None,
    junit: ci.JUnit = None,
    summary: ci.SummaryFile = None,
    gitlab: ci.GitLab = None,
    parent: Parent = None,
    json: OutcomeJson = False,
    quiet: Quiet = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Resolve, check and print the goal; spend nothing.")] = False,
    record: Record = None,
    continue_from: ContinueFrom = None,
    canary: Canary = False,
) -> int:
    """Work on a goal until it is proven complete or a limit stops it.

    Options override the environment (GOAL_AGENT, GOAL_MODEL, GOAL_JUDGE), which overrides the goal file. The exit code is the
    outcome's: 0 complete, 1 capped, 2 usage or goal file, 3 blocked, 4 failed, 129, 130 or 143 by signal.
    """
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
        "parent": parent,
    }
    given = {key: value for key, value in keys.items() if value is not None and value != []}
    goal, goal_file = goals.load(goal_file_or_text, given)
    copy = _checked_copy(goal_file, goal, output_file, record)
    files = ci.open_files(junit, summary, gitlab)
    if dry_run:
        return _dry_run(goal, goal_file, json=json)
    if canary:
        refuse_credulous_judge(goal)
    from goalrunner.app.run_options import RunOptions
    from goalrunner.app.session import arun

    options = RunOptions(
        home=runs.home(),
        goal_file=goal_file,
        record=record,
        continues=runs.find(continue_from) if continue_from is not None else None,
    )
    return drive(lambda options: arun(goal, options), options, copy, files, json=json, quiet=quiet)


def _dry_run(goal: Goal, goal_file: Path | None, *, json: bool) -> int:
    """Check a goal and print it, without calling a model or running a validator."""
    from goalrunner.app.build import check
    from goalrunner.app.run_options import RunOptions
    from goalrunner.reports.header import resolved_text

    agent, checked = check(goal, RunOptions(home=runs.home(), goal_file=goal_file))
    if json:
        output.say_json(goal.model_dump(mode="json"))
    else:
        place = workspace_state(goal.workspace.path)
        output.say(resolved_text(goal, agent, place=place, checked=checked, columns=output.columns()))
    return int(ExitCode.COMPLETE)


def _checked_copy(goal_file: Path | None, goal: Goal, path: Path | None, record: Path | None) -> ResultFile | None:
    """Return the copy of the outcome. Raise UsageError if a file cannot be written, or the run needs the one there."""
    if record is not None and os.path.isdir(record):  # noqa: PTH112 - never raises
        raise UsageError(f"--record {record} is a folder", "give the path of a file")
    if path is None:
        return None
    from goalrunner.reports.header import SCRIPTED
    from goalrunner.reports.result_file import ResultFile

    taken = {"the goal file": goal_file, "the file of --record": record}
    for who, model in (("agent", goal.agent.model), ("judge", goal.judge.model)):
        if model.startswith(SCRIPTED):
            taken[f"the recording of the {who}"] = Path(model.removeprefix(SCRIPTED))
    return ResultFile(path, {what: other for what, other in taken.items() if other is not None})


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
    junit: ci.JUnit = None,
    summary: ci.SummaryFile = None,
    gitlab: ci.GitLab = None,
    json: OutcomeJson = False,
    quiet: Quiet = False,
) -> int:
    """Continue a run: after a crash, Ctrl-C, a limit or a decision.

    Conversation, counters, usage and evidence are those of the run; nothing that was done is done again. A limit that is
    used up must be raised. A run that is complete, or was ended by `goal cancel`, cannot be resumed.
    """
    from goalrunner.app.run_options import RunOptions
    from goalrunner.app.session import aresume
    from goalrunner.goalfile import resolve_limits
    from goalrunner.reports.result_file import ResultFile

    keys = {
        "max_iterations": max_iterations,
        "timeout": timeout,
        "budget.tokens": tokens,
        "budget.cost_usd": cost,
        "budget.allow_unenforced": allow_unenforced or None,
    }
    limits = resolve_limits({key: value for key, value in keys.items() if value is not None})
    folder = runs.find(run)

    def start(options: RunOptions) -> Coroutine[Any, Any, GoalOutcome]:
        return aresume(folder, options, limits, note=note, on_torn=runs.warn_torn)

    copy = ResultFile(output_file) if output_file is not None else None
    files = ci.open_files(junit, summary, gitlab)
    return drive(start, RunOptions(home=runs.home()), copy, files, json=json, quiet=quiet)
