"""`goal init`: a goal file for the project of the current folder."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from goalrunner.cli import check, completion, goals, output, runs
from goalrunner.cli.options import Yes
from goalrunner.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goalrunner.app.doctor import Baseline
    from goalrunner.app.project import Installed, Project
    from goalrunner.core.goal import Goal

_GREEN_TESTS = "Make the tests pass."
_TO_DESCRIBE = "Describe the work here, and how one sees that it is done."


def init(
    objective: Annotated[str | None, Option(metavar="TEXT", help="What the agent is to do.")] = None,
    validator: Annotated[
        str | None,
        Option(
            metavar="CMD",
            help="The command that verifies it; default: the project's test command.",
            autocompletion=completion.validators,
        ),
    ] = None,
    agent: Annotated[
        str | None,
        Option(metavar="NAME", help="The agent; default: one that is installed.", autocompletion=completion.agents),
    ] = None,
    model: Annotated[str | None, Option(metavar="NAME", help="The model of the built-in agent.")] = None,
    judge: Annotated[
        str | None, Option(metavar="NAME", help="The judge's model; default: by the keys that are set.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace a goal.toml that exists.")] = False,
    yes: Yes = False,
) -> int:
    """Write goal.toml for the project in the current folder.

    Detects the test command (pytest, unittest, tox, nox, npm, cargo, go, make), the source and test folders, installed agents,
    keys and the sandbox. Runs the validator once, shows the file, and asks before it writes at a terminal. No model is called.
    """
    ask = goals.is_interactive() and not yes
    path = Path(goals.DEFAULT)
    if path.exists() and not force and not (ask and output.agreed("goal.toml exists. Replace it? [y/N]")):
        raise UsageError("goal.toml exists already", "goal check tests it; goal init --force replaces it")
    from goalrunner.app.project import judge_for, look
    from goalrunner.core.schemas import json_schema

    project = look(goals.current_folder(), os.environ)
    command, why = _validator(project, validator, ask=ask)
    chosen = _agent(agent, model, ask=ask)
    own = "agent" if chosen is not None and chosen.model else ""
    proposal = _Proposal(project, command, why, chosen, judge_for(os.environ) or own if judge is None else judge)
    output.say("".join(f"{line}\n" for line in _detected(proposal)))
    baseline = _baseline(proposal)
    if module := _not_imported(proposal, baseline):
        why = f"so that tests can import {module}"
        output.say(f"{module} is in this folder, but the tests cannot import it. Trying python -m:\n")
        proposal = replace(proposal, command=f"python3 -m {proposal.command}", why=why)
        baseline = _baseline(proposal)
    default = _TO_DESCRIBE if baseline.is_green else _GREEN_TESTS
    if ask and objective is None:
        later = "write it into goal.toml later" if baseline.is_green else default
        objective = goals.typed(f"What is the agent to do? [Enter: {later}] ", default)
    text = "\n".join([*_lines(proposal, objective or default, baseline), ""])
    output.say(f"\n{text}\n")
    if ask and not output.agreed_by_default(f"Write this to {path}? [Y/n]"):
        raise UsageError("nothing was written", "goal init --help lists the options")
    schema = _schema_path()
    try:
        schema.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        schema.write_text(json.dumps(json_schema("goal"), indent=1), encoding="utf-8")
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename}: {error.strerror}", "check the path and its permissions"
        ) from error
    output.say(f"Wrote {path}.\nNext: {_next(proposal, baseline, objective or default)}\n")
    return 0


@dataclass(frozen=True)
class _Proposal:
    """What the goal file is made from."""

    project: Project
    command: str
    why: str
    agent: Installed | None
    judge: str

    def is_done(self, baseline: Baseline) -> bool:
        """Return whether a run would be complete at once: the validator passes, and there is no judge."""
        return baseline.is_green and not self.judge


def _validator(project: Project, given: str | None, *, ask: bool) -> tuple[str, str]:
    """Return the command, and where it was found. Raise UsageError if there is none."""
    if given is not None:
        return given, ""
    if project.commands:
        return project.commands[0].command, project.commands[0].why
    what = "this folder is empty" if project.is_empty else "no test command was found in this folder"
    if ask:
        return goals.typed(f"{what[0].upper()}{what[1:]}. Command that verifies the result: "), ""
    raise UsageError(what, 'goal init --validator "CMD" names the command that verifies the result')


def _agent(name: str | None, model: str | None, *, ask: bool) -> Installed | None:
    """Return the agent that is named in an option or variable, the only one, or the one that a person chooses."""
    from goalrunner.app.project import Installed, choose_agent, installed_agents, with_keys
    from goalrunner.core.goal_tables import BUILTIN, agent_name
    from goalrunner.goalfile import preset_named

    environ = os.environ
    name = agent_name(name or ("" if model else environ.get("GOAL_AGENT", "").strip()))
    if name and name != BUILTIN:
        preset_named(name, {}, environ)
        return Installed(name)
    if model := model or environ.get("GOAL_MODEL", "").strip() or environ.get("LLM_MODEL", "").strip():
        return Installed(BUILTIN, model=model)
    keyed = with_keys(environ)
    # The key of an installed agent is often exported as well, so keys count only where no program is installed.
    programs = () if name == BUILTIN else installed_agents(environ)
    every = (*programs, *keyed) if ask else programs or keyed
    return choose_agent(every, goals.ask_agent if ask else None)


def _detected(proposal: _Proposal) -> Iterator[str]:
    from goalrunner.app.doctor import sandbox_check
    from goalrunner.cli.drive import workspace_state

    folder, agent = str(goals.current_folder()), proposal.agent
    yield f"workspace  {folder} · {workspace_state(folder)}"
    yield f"validator  {proposal.command}{f' ({proposal.why})' if proposal.why else ''}"
    others = (item for item in proposal.project.commands if item.command != proposal.command)
    yield from (f"           also found: {other.command} ({other.why})" for other in others)
    found = "none is installed, and no key is set; goal agents lists what to install"
    yield f"agent      {agent or found}"
    yield f"judge      {proposal.judge or 'none; the validator decides'}"
    yield f"sandbox    {sandbox_check(_goal(proposal), os.environ)[0].message}"


def _goal(proposal: _Proposal) -> Goal:
    from goalrunner.core.goal import Goal

    rules = {"editable": proposal.project.editable, "protect": proposal.project.protect}
    return Goal(
        objective=_GREEN_TESTS, validator=proposal.command, workspace={"path": str(goals.current_folder()), **rules}
    )


def _baseline(proposal: _Proposal) -> Baseline:
    """Run the validator once in the check environment of the goal file, and print the result."""
    from goalrunner.app.run_options import RunOptions
    from goalrunner.reports.layout import Layout

    baseline = check.run_baseline(_goal(proposal), RunOptions(home=runs.home()))
    if baseline.interrupted:
        raise KeyboardInterrupt
    output.say(Layout(output.columns()).text(check.baseline_lines(baseline)))
    return baseline


def _not_imported(proposal: _Proposal, baseline: Baseline) -> str:
    """Return the module of this folder that `pytest` cannot import; empty if there is none. `python -m pytest` can."""
    if not proposal.command.startswith("pytest") or baseline.event is None:
        return ""
    missing = "\n".join(result.feedback for result in baseline.event.results if not result.passed)
    names = [
        found.partition(".")[0] for found in re.findall(r"ModuleNotFoundError: No module named '([\w.]+)'", missing)
    ]
    return next((name for name in names if Path(f"{name}.py").is_file() or Path(name).is_dir()), "")


def _schema_path() -> Path:
    """Return the path of the JSON Schema that the first line of the goal file names, for editors."""
    return runs.home().absolute() / "goal.schema.json"


def _lines(proposal: _Proposal, objective: str, baseline: Baseline) -> Iterator[str]:
    """Yield the lines of the goal file."""
    project, agent = proposal.project, proposal.agent
    yield f"#:schema {_schema_path().as_uri()}"
    yield "# goal check   tests this file and runs the validator once"
    yield "# goal run     lets the agent work until the result is verified\n"
    yield f"objective = {_toml(objective)}"
    yield _noted('# success_criteria = ["..."]', "what the judge needs evidence for; default: derived by the judge")
    yield ""
    yield _noted(f"validator = {_toml(proposal.command)}", proposal.why)
    if proposal.is_done(baseline):
        yield _noted('baseline = "red"', "do not start while the validator passes without any work")
    if agent is None:
        yield _noted('# agent = "claude"', "an installed agent (goal agents), or a model of the built-in one:")
        yield '# model = "anthropic/claude-sonnet-4-5"'
    else:
        yield f"model = {_toml(agent.model)}" if agent.model else f"agent = {_toml(agent.name)}"
    judge = f"judge = {_toml(proposal.judge)}" if proposal.judge else '# judge = "openai/gpt-5-mini"'
    yield _noted(judge, "audits the evidence once the validator passes")
    yield _noted("max_iterations = 10", "rounds")
    yield 'timeout = "1h"\n\n[workspace]'
    if project.editable:
        yield _noted(
            f"editable = {_toml(project.editable)}", "validators see all others as they are now, and no new ones"
        )
    else:
        rule = f"protect = {_toml(project.protect)}" if project.protect else '# protect = ["tests/**"]'
        yield _noted(rule, "validators see these files as they are now")
    yield _noted('# sandbox = "auto"', "run the agent's commands in a sandbox (bubblewrap, Linux)")


def _toml(value: str | tuple[str, ...]) -> str:
    """Return a value as TOML on one line; TOML shares its strings with JSON, except for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _noted(line: str, comment: str) -> str:
    return f"{line:<38} # {comment}" if comment else line


def _next(proposal: _Proposal, baseline: Baseline, objective: str) -> str:
    if proposal.agent is None:
        return "install an agent (goal agents) and name it in goal.toml, or export a key and name a model."
    if baseline.problem:
        return "repair what the baseline says, then: goal check"
    if proposal.is_done(baseline):
        return "the validator passes already, so it cannot verify new work. Add a test that fails, or a judge. Then: goal run"
    return "describe the work in goal.toml. Then: goal run" if objective == _TO_DESCRIBE else "goal run"
