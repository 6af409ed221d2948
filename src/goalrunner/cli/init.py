"""Writing and testing a goal file before a run.

These are `goal init`, `goal check` and `goal schema`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from goalrunner.app.agent_findings import unchecked_note
from goalrunner.app.doctor import (
    BaselineResult,
    check_readiness,
    sandbox_finding,
    take_baseline,
)
from goalrunner.app.external_agent import resolve_agents
from goalrunner.app.project import (
    InstalledAgent,
    Project,
    detect_project,
    installed_agents,
    judge_for,
    with_keys,
)
from goalrunner.app.proposal import GREEN_TESTS, Proposal
from goalrunner.app.run_options import RunOptions
from goalrunner.cli import dialog, goals, options, output, runs
from goalrunner.cli.drive import workspace_state
from goalrunner.cli.options import Text, argument, flag, option
from goalrunner.core.activity import Activity, CommandStarted
from goalrunner.core.errors import ExitCode, UsageError, os_errors
from goalrunner.core.events import Record
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import BUILTIN
from goalrunner.core.schemas import json_schema
from goalrunner.goalfile.loading import PLACEHOLDER, error_at, resolved_current_folder
from goalrunner.goalfile.place import DEFAULT, project_of
from goalrunner.reports.readiness import (
    baseline_lines,
    readiness_lines,
    readiness_value,
)
from goalrunner.reports.short_forms import home_path

_SCHEMA = Path("goal.schema.json")


def check(
    goal_file: Annotated[
        Text,
        argument("GOAL_FILE", "Default: goal.toml, here or above.", options.goal_files),
    ] = None,
    fresh: options.Fresh = False,
    json: options.Json = False,
) -> int:
    """Check a goal file and run its validators once; spend nothing.

    Prints the check environment, protected and ignored files, which validators fail and
    why, and whether a run could start: agent, keys, judge, sandbox. No model is called.
    If nothing has changed, results of the last 10 minutes are shown again, and
    `goal run` uses them as its baseline. The exit code is 0 if a run could start, 2 for
    an error in the goal file, else 4.
    """
    loaded = goals.load(goal_file, {}, runnable=False)
    goal, path = loaded.goal, loaded.own_file
    run_options = RunOptions(
        home=runs.home(), goal_file=path, reuses_baseline=not fresh
    )
    readiness = check_readiness(goal, run_options)
    if readiness.can_check:
        baseline = _baseline(goal, run_options)
        if path is not None:
            _refuse_tests_to_fix(path, goal, baseline)
        readiness = readiness.with_baseline(baseline)
    if json:
        output.say(readiness_value(goal, readiness))
    else:
        command = f"goal run {goal_file or ''}".strip()
        output.say(output.terminal_text(readiness_lines(goal, readiness, command)))
    if readiness.baseline and readiness.baseline.interrupted:
        return readiness.baseline.interrupted
    return readiness.exit_code if readiness.problems else int(ExitCode.COMPLETE)


def _baseline(goal: Goal, run_options: RunOptions) -> BaselineResult:
    """Run the validators once, with a line on stderr while a person waits."""
    return take_baseline(goal, replace(run_options, observers=(_Announcement(goal),)))


class _Announcement:
    """Prints a line on stderr when the first validator starts."""

    def __init__(self, goal: Goal) -> None:
        self._commands = [
            spec.run for spec in goal.validators if spec.run and not spec.hidden
        ]

    def on_record(self, record: Record) -> None:
        """Do nothing."""

    def on_activity(self, activity: Activity) -> None:
        """Print the line once."""
        if isinstance(activity, CommandStarted) and self._commands:
            commands = ", ".join(self._commands)
            output.complain(f"Running the validators once: {commands}")
            self._commands = []


def _refuse_tests_to_fix(path: Path, goal: Goal, baseline: BaselineResult) -> None:
    """Raise GoalFileError if `fixes` or `known_failures` cannot be used as they are.

    The baseline shows which of the named tests exist.
    """
    results = baseline.event.results if baseline.event is not None else ()
    numbers = [
        number
        for number, spec in enumerate(goal.validators)
        if spec.run is not None and not spec.hidden
    ]
    for number, result in zip(numbers, results, strict=False):
        if not result.cannot_run:
            continue
        for key in ("fixes", "known_failures"):
            if result.summary.startswith(key):
                raise error_at(path, ("validators", number, key), result.summary)


def schema(
    name: Annotated[
        str, argument("goal|outcome|state|events", "What the schema describes.")
    ] = "goal",
) -> int:
    """Print the JSON Schema of goal files, outcomes, states or events.

    Editors check and complete a goal file whose first line is `#:schema PATH`.
    `goal init` writes this line if the folder has goal.schema.json:
    goal schema > goal.schema.json.
    """
    output.say(json_schema(name))
    return 0


def init(
    objective: Annotated[Text, option("TEXT", "What the agent is to do.")] = None,
    validator: Annotated[
        Text,
        option(
            "CMD",
            "What verifies it; default: the project's tests.",
            values=options.validator_commands,
        ),
    ] = None,
    agent: options.Agent = None,
    model: Annotated[Text, option("NAME", "The model of the built-in agent.")] = None,
    judge: Annotated[
        Text,
        option(
            "NAME",
            "The judge; default: by the keys that are set, or a signed-in agent.",
        ),
    ] = None,
    force: Annotated[bool, flag("--force", "Replace a goal.toml that exists.")] = False,
    yes: options.Yes = False,
) -> int:
    """Write goal.toml for the project in the current folder.

    Detects the test command (pytest, unittest, tox, nox, npm, cargo, go, make), the
    source and test folders, installed agents, keys and the sandbox. Runs the validator
    once and shows the file. At a terminal, it asks before it writes. No model is
    called.
    """
    ask = dialog.is_interactive() and not yes
    path = Path(DEFAULT)
    if path.exists() and not force:
        _confirm_replacing(ask=ask)
    # A wrong value of an option is reported before anything runs.
    goals.resolved(
        None,
        {
            "objective": GREEN_TESTS if objective is None else objective,
            "judge.model": judge or None,
            "agent.use": agent,
            "validators": None if validator is None else [validator],
        },
    )
    proposal = _proposal(validator, agent, model, judge, ask=ask)
    output.say("".join(f"{line}\n" for line in _detected(proposal)))
    proposal, baseline = _tried(proposal)
    objective = objective or (PLACEHOLDER if baseline.is_green else GREEN_TESTS)
    if ask and objective in (PLACEHOLDER, GREEN_TESTS):
        objective = dialog.typed(
            f"What is the agent to do? [Enter: {objective}] ", objective
        )
    text = proposal.text(
        objective,
        schema=_SCHEMA.name if _SCHEMA.is_file() else "",
        failing=baseline.failing,
    )
    output.say(f"\n{text}\n")
    if ask and not dialog.agreed(f"Write this to {path}? [Y/n]"):
        raise UsageError("nothing was written", "goal init --help lists the options")
    with os_errors(
        f"cannot write {path}", "check the path and its permissions", UsageError
    ):
        path.write_text(text, encoding="utf-8")
    output.say(f"Wrote {path}.\nNext: {_following(proposal, baseline, objective)}\n")
    return 0


def _confirm_replacing(*, ask: bool) -> None:
    """Raise UsageError unless a person agrees to replace goal.toml."""
    if ask and dialog.agreed("goal.toml exists. Replace it? [y/N]"):
        return
    raise UsageError(
        "goal.toml exists already",
        "goal check tests it; goal init --force replaces it",
    )


def _following(proposal: Proposal, baseline: BaselineResult, objective: str) -> str:
    """Return what comes next, in words."""
    if proposal.agent is None:
        return (
            "install an agent (goal agents) and name it in goal.toml, or export a key"
            " and name a model."
        )
    if baseline.problem:
        return "solve the problem that is named above, then: goal check"
    if baseline.is_green and not proposal.judge:
        return (
            "describe the work in goal.toml, and add a judge or a test that fails: the"
            " validator passes already"
        )
    if objective == PLACEHOLDER:
        return "describe the work in goal.toml, then: goal check, then goal run"
    return "goal check, then goal run"


def _detected(proposal: Proposal) -> Iterator[str]:
    """Yield what was detected, as lines for a person."""
    folder = resolved_current_folder()
    yield f"workspace  {home_path(str(folder))} · {workspace_state(str(folder))}"
    reason = f" ({proposal.why})" if proposal.why else ""
    yield f"validator  {proposal.command}{reason}"
    for item in proposal.project.commands:
        if item.command != proposal.command:
            yield f"           also found: {item.command} ({item.why})"
    for problem in proposal.project.problems:
        yield f"warning    {problem}"
    none = "none is installed, and no key is set; goal agents lists what to install"
    yield f"agent      {proposal.agent or none}"
    for note in _unchecked(proposal):
        yield f"warning    {note}"
    yield f"judge      {proposal.judge or 'none; the validator decides'}"
    yield f"sandbox    {sandbox_finding(folder, os.environ).message}"


def _unchecked(proposal: Proposal) -> Iterator[str]:
    """Yield a note for each agent that runs with its own permission checks off."""
    agent = proposal.agent
    if agent is None or agent.model:
        return
    goal = Goal(objective=GREEN_TESTS, agent=[agent.name, *agent.fallbacks])
    for resolved in resolve_agents(goal, os.environ):
        if resolved.unchecked:
            yield unchecked_note(resolved)


def _tried(proposal: Proposal) -> tuple[Proposal, BaselineResult]:
    """Run the validator once; return the proposal, and the result.

    If the tests cannot import a module of the folder, propose `python -m`.
    """
    baseline = _checked(proposal)
    module = proposal.unimported_module(baseline)
    if not module:
        return proposal, baseline
    output.say(
        f"{module} is in this folder, but the tests cannot import it."
        " Trying python -m:\n"
    )
    # With python -m, the current folder is on the path of imports.
    proposal = replace(
        proposal, command=proposal.as_module, why=f"so that tests can import {module}"
    )
    return proposal, _checked(proposal)


def _checked(proposal: Proposal) -> BaselineResult:
    """Run the validator once in the check environment of the goal file.

    Print and return the result.
    """
    run_options = RunOptions(home=runs.home(), reuses_baseline=True)
    baseline = _baseline(proposal.goal, run_options)
    if baseline.interrupted:
        raise KeyboardInterrupt
    output.say(output.terminal_text(baseline_lines(baseline)))
    return baseline


def _proposal(
    command: str | None,
    agent: str | None,
    model: str | None,
    judge: str | None,
    *,
    ask: bool,
) -> Proposal:
    """Return the values of the options, else those that are detected.

    Raise UsageError without a command.
    """
    folder = resolved_current_folder()
    project, why = detect_project(folder, os.environ), ""
    if command is None and project.commands:
        command, why = project.commands[0].command, project.commands[0].why
    elif command is None:
        command = _asked_command(project, folder, ask=ask)
    chosen = _agent(agent, model, ask=ask)
    if judge is None:
        judge = judge_for(os.environ, chosen)
    return Proposal(project, command, why, chosen, judge)


def _asked_command(project: Project, folder: Path, *, ask: bool) -> str:
    """Return the command that a person types. Raise UsageError if it cannot ask."""
    reason = "no test command was found in this folder"
    if project.is_empty:
        reason = "this folder is empty"
    reason = "; ".join((reason, *project.problems))
    if ask:
        return dialog.typed(
            f"{reason[0].upper()}{reason[1:]}. Command that verifies the result: "
        )
    hint = 'goal init --validator "CMD" names the command that verifies the result'
    around = project_of(folder / DEFAULT)
    if around not in (None, folder):
        hint = f"the project is in {around}: call goal init there; or {hint}"
    raise UsageError(reason, hint)


def _agent(name: str | None, model: str | None, *, ask: bool) -> InstalledAgent | None:
    """Return the agent that an option or variable names.

    Without one, return the only agent, or the one that a person chooses.
    """
    use = name or (BUILTIN if model else None)
    config = goals.resolved(
        None, {"objective": GREEN_TESTS, "agent.use": use, "agent.model": model}
    ).agent
    if config.external or config.model:
        model = "" if config.external else config.model
        return InstalledAgent(config.use, model=model, fallbacks=config.fallbacks)
    keyed = with_keys(os.environ)
    is_builtin = "use" in config.model_fields_set
    programs = () if is_builtin else installed_agents(os.environ)
    if ask:
        return goals.choose_agent((*programs, *keyed), ask=True)
    # The key of an installed agent is often exported as well, so keys count only where
    # no program is signed in.
    signed_in = [program for program in programs if not program.note]
    candidates = signed_in or keyed or programs
    return next(iter(candidates), None)
