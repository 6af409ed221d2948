"""`goal init`, `goal check` and `goal schema`: a goal file is written and tested before a run."""

from __future__ import annotations

import json as json_module
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from goalrunner.app.doctor import BaselineResult, Readiness, check_readiness, sandbox_finding, take_baseline
from goalrunner.app.project import InstalledAgent, Project, detect_project, installed_agents, judge_for, with_keys
from goalrunner.app.run_options import RunOptions
from goalrunner.cli import goals, options, output, runs
from goalrunner.cli.drive import workspace_state
from goalrunner.cli.options import Text, argument, flag, option
from goalrunner.core.errors import ExitCode, UsageError, os_errors
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import BUILTIN
from goalrunner.core.summary import json_schema
from goalrunner.goalfile.loading import current_folder
from goalrunner.reports.figures import count
from goalrunner.reports.layout import Fact, ReportLine, home_path, output_lines
from goalrunner.reports.steps import event_lines
from goalrunner.reports.tables import check_lines

_GREEN_TESTS = "Make the tests pass."
_TO_DESCRIBE = "Describe the work here, and how one sees that it is done."
_STANDINGS = {
    "green": "passed: every validator passes before any work is done",
    "red": "failed: this is what the agent has to change",
    "differs": "not valid: the check environment gives another result",
    "cannot_run": "not valid: a validator cannot run",
}
_RESULT = {"name", "passed", "reason", "command", "exit_code", "duration", "summary", "feedback"}


def check(
    goal_file: Annotated[Text, argument("GOAL_FILE", "Default: goal.toml.", options.goal_files)] = None,
    json: options.Json = False,
) -> int:
    """Check a goal file and run its validators once; spend nothing.

    Prints the check environment, protected and ignored files, which validators fail and why, and whether a run could
    start: agent, keys, judge, sandbox. No model is called. The exit code is 0 if a run could start, 2 for an error in the
    goal file, else 4.
    """
    goal, path = goals.load(goal_file, {}, runnable=False)
    run_options = RunOptions(home=runs.home(), goal_file=path)
    found = check_readiness(goal, run_options)
    if found.can_check:
        found = found.with_baseline(_baseline(goal, run_options))
    if json:
        event = found.baseline.event if found.baseline else None
        results = [result.model_dump(mode="json", include=_RESULT) for result in event.results] if event else []
        output.say(
            {
                "ready": not found.problems,
                "problems": list(found.problems),
                "goal": goal.model_dump(mode="json"),
                "checks": [item.value() for item in found.findings],
                "environment": [{"label": label, "text": text} for label, text in found.lines],
                "baseline": event and {"standing": event.standing, "reason": event.reason, "results": results},
            }
        )
    else:
        output.say(output.terminal_text(_check_lines(goal, found, f"goal run {goal_file or ''}".strip())))
    if found.baseline and found.baseline.interrupted:
        return found.baseline.interrupted
    return found.exit_code if found.problems else int(ExitCode.COMPLETE)


def _check_lines(goal: Goal, found: Readiness, command: str) -> Iterator[ReportLine]:
    yield Fact("goal", goal.objective)
    yield Fact("workspace", home_path(goal.workspace.path))
    yield from check_lines(found.findings)
    yield from (Fact(label, text, tone="warn" if label == "warning" else "plain") for label, text in found.lines)
    if found.baseline is None:
        why = "" if found.problems else ": hidden validators and those in Python run only after a round"
        yield Fact("baseline", f"not run{why}" if goal.validators else "none: the goal has no validator")
    else:
        yield from _baseline_lines(found.baseline)
    if found.problems:
        yield Fact("result", f"a run cannot start: {count(len(found.problems), 'problem')} found", tone="bad")
        return
    if found.baseline and found.baseline.is_green and not goal.has_judge:
        yield Fact("note", "a run would be complete at once: the validators pass, and there is no judge", tone="warn")
    yield Fact("result", f"ready: {command}", tone="good", whole=True)


def _baseline(goal: Goal, run_options: RunOptions) -> BaselineResult:
    """Run the validators once, with a line on stderr while a person waits."""
    commands = ", ".join(spec.run for spec in goal.validators if spec.run and not spec.hidden)
    output.complain(f"Running the validators once: {commands}")
    return take_baseline(goal, run_options)


def _baseline_lines(baseline: BaselineResult) -> Iterator[ReportLine]:
    """Yield a line for each validator, the end of the output of red ones, and why a run would end there."""
    if baseline.event is not None:
        yield Fact("baseline", _STANDINGS.get(baseline.event.standing, baseline.event.standing))
        yield from event_lines(baseline.event.model_copy(update={"reason": "", "standing": "red"}))
        for result in baseline.event.results:
            if not result.passed and result.feedback.strip():
                yield from output_lines("output", result.feedback, tone="bad")
    if baseline.problem:
        yield from output_lines("problem", baseline.problem, tone="bad")


def schema(
    name: Annotated[str, argument("goal|outcome|state|events", "What the schema describes.")] = "goal",
) -> int:
    """Print the JSON Schema of goal files, outcomes, states or events.

    Editors check and complete a goal file whose first line is `#:schema PATH`; `goal init` writes this line.
    """
    output.say(json_schema(name))
    return 0


def init(
    objective: Annotated[Text, option("TEXT", "What the agent is to do.")] = None,
    validator: Annotated[
        Text, option("CMD", "What verifies it; default: the project's tests.", values=options.validators)
    ] = None,
    agent: options.Agent = None,
    model: Annotated[Text, option("NAME", "The model of the built-in agent.")] = None,
    judge: Annotated[Text, option("NAME", "The judge's model; default: by the keys that are set.")] = None,
    force: Annotated[bool, flag("--force", "Replace a goal.toml that exists.")] = False,
    yes: options.Yes = False,
) -> int:
    """Write goal.toml for the project in the current folder.

    Detects the test command (pytest, unittest, tox, nox, npm, cargo, go, make), the source and test folders, installed agents,
    keys and the sandbox. Runs the validator once and shows the file. At a terminal, it asks before it writes. No model is called.
    """
    ask = output.is_interactive() and not yes
    path = Path(goals.DEFAULT)
    if path.exists() and not force and not (ask and output.agreed("goal.toml exists. Replace it? [y/N]")):
        raise UsageError("goal.toml exists already", "goal check tests it; goal init --force replaces it")
    given = {"objective": _GREEN_TESTS if objective is None else objective, "judge.model": judge or None}
    goals.resolved(None, {**given, "agent.use": agent, "validators": None if validator is None else [validator]})
    proposal = _proposal(validator, agent, model, judge, ask=ask)
    output.say("".join(f"{line}\n" for line in proposal.detected()))
    baseline = proposal.baseline()
    if module := proposal.not_imported(baseline):
        output.say(f"{module} is in this folder, but the tests cannot import it. Trying python -m:\n")
        command, why = f"python3 -m {proposal.command}", f"so that tests can import {module}"
        proposal = replace(proposal, command=command, why=why)
        baseline = proposal.baseline()
    objective = objective or (_TO_DESCRIBE if baseline.is_green else _GREEN_TESTS)
    if ask and objective in (_TO_DESCRIBE, _GREEN_TESTS):
        objective = output.typed(f"What is the agent to do? [Enter: {objective}] ", objective)
    schema_path = runs.home().absolute() / "goal.schema.json"
    is_done = baseline.is_green and not proposal.judge
    text = proposal.text(objective, schema_path, is_done=is_done)
    output.say(f"\n{text}\n")
    if ask and not output.agreed(f"Write this to {path}? [Y/n]"):
        raise UsageError("nothing was written", "goal init --help lists the options")
    with os_errors(f"cannot write {path} and {schema_path}", "check the paths and their permissions", UsageError):
        schema_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        schema_path.write_text(json_module.dumps(json_schema("goal"), indent=1), encoding="utf-8")
        path.write_text(text, encoding="utf-8")
    if proposal.agent is None:
        following = "install an agent (goal agents) and name it in goal.toml, or export a key and name a model."
    elif baseline.problem:
        following = "repair what the baseline says, then: goal check"
    elif is_done:
        following = "the validator passes already. Add a test that fails, or a judge. Then: goal run"
    else:
        following = "goal check, then goal run"
        following = f"describe the work in goal.toml, then: {following}" if text.count(_TO_DESCRIBE) else following
    output.say(f"Wrote {path}.\nNext: {following}\n")
    return 0


@dataclass(frozen=True)
class _Proposal:
    """The values from which the goal file is made."""

    project: Project
    command: str
    why: str
    agent: InstalledAgent | None
    judge: str

    @property
    def goal(self) -> Goal:
        workspace = {"path": str(current_folder()), "editable": self.project.editable}
        return Goal(objective=_GREEN_TESTS, validator=self.command, workspace=workspace)

    def detected(self) -> Iterator[str]:
        folder = str(current_folder())
        yield f"workspace  {home_path(folder)} · {workspace_state(folder)}"
        yield f"validator  {self.command}{f' ({self.why})' if self.why else ''}"
        others = [f"{item.command} ({item.why})" for item in self.project.commands if item.command != self.command]
        yield from (f"           also found: {other}" for other in others)
        yield from (f"warning    {problem}" for problem in self.project.problems)
        found = "none is installed, and no key is set; goal agents lists what to install"
        yield f"agent      {self.agent or found}"
        yield f"judge      {self.judge or 'none; the validator decides'}"
        yield f"sandbox    {sandbox_finding(current_folder(), os.environ).message}"

    def baseline(self) -> BaselineResult:
        """Run the validator once in the check environment of the goal file, and print the result."""
        baseline = _baseline(self.goal, RunOptions(home=runs.home()))
        if baseline.interrupted:
            raise KeyboardInterrupt
        output.say(output.terminal_text(_baseline_lines(baseline)))
        return baseline

    def not_imported(self, baseline: BaselineResult) -> str:
        """Return the module of this folder that `pytest` cannot import; empty if there is none. `python -m pytest` can."""
        if not self.command.startswith("pytest") or baseline.event is None:
            return ""
        said = "\n".join(result.feedback for result in baseline.event.results if not result.passed)
        names = re.findall(r"ModuleNotFoundError: No module named '(\w+)", said)
        return next((name for name in names if Path(f"{name}.py").is_file() or Path(name).is_dir()), "")

    def text(self, objective: str, schema_path: Path, *, is_done: bool) -> str:
        """Return the goal file."""
        agent, editable = self.agent, self.project.editable
        rows = [
            (f"#:schema {schema_path.as_uri()}", ""),
            ("# goal check   tests this file and runs the validator once", ""),
            ("# goal run     lets the agent work until the result is verified\n", ""),
            (f"objective = {_toml(objective)}", ""),
            ('# success_criteria = ["..."]', "what the judge needs evidence for; default: derived by the judge\n"),
            (f"validator = {_toml(self.command)}", self.why),
        ]
        if is_done:
            rows.append(('baseline = "red"', "do not start while the validator passes without any work"))
        if agent is None:
            rows.append(('# agent = "claude"', "an installed agent (goal agents), or a model of the built-in one:"))
            rows.append(('# model = "anthropic/claude-sonnet-4-5"', ""))
        else:
            rows.append((f"model = {_toml(agent.model)}" if agent.model else f"agent = {_toml(agent.name)}", ""))
        judge = f"judge = {_toml(self.judge)}" if self.judge else '# judge = "openai/gpt-5-mini"'
        rule = f"editable = {_toml(editable)}" if editable else '# protect = ["tests/**"]'
        rows += [
            (judge, "audits the evidence once the validator passes"),
            ("max_iterations = 10", "rounds"),
            ('timeout = "1h"\n\n[workspace]', ""),
            (rule, "validators see all others as they are now, and no new ones" if editable else "besides tests"),
            ('# sandbox = "auto"', "run the agent's commands in a sandbox (bubblewrap, Linux)"),
        ]
        return "".join(f"{f'{line:<38} # {comment}' if comment else line}\n" for line, comment in rows)


def _toml(value: str | tuple[str, ...]) -> str:
    """Return a value as TOML on one line; TOML shares its strings with JSON, except for DEL."""
    return json_module.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _proposal(command: str | None, agent: str | None, model: str | None, judge: str | None, *, ask: bool) -> _Proposal:
    """Return the values of the options, else those that are detected. Raise UsageError without a command."""
    project, why = detect_project(current_folder(), os.environ), ""
    if command is None and project.commands:
        command, why = project.commands[0].command, project.commands[0].why
    elif command is None:
        what = "this folder is empty" if project.is_empty else "no test command was found in this folder"
        what = "; ".join((what, *project.problems))
        if not ask:
            raise UsageError(what, 'goal init --validator "CMD" names the command that verifies the result')
        command = output.typed(f"{what[0].upper()}{what[1:]}. Command that verifies the result: ")
    chosen = _agent(agent, model, ask=ask)
    if judge is None:
        judge = judge_for(os.environ) or ("agent" if chosen is not None and chosen.model else "")
    return _Proposal(project, command, why, chosen, judge)


def _agent(name: str | None, model: str | None, *, ask: bool) -> InstalledAgent | None:
    """Return the agent that is named in an option or variable, the only one, or the one that a person chooses."""
    given = {"agent.use": name or (BUILTIN if model else None), "agent.model": model}
    config = goals.resolved(None, {"objective": _GREEN_TESTS, **given}).agent
    if config.external or config.model:
        return InstalledAgent(config.use, model="" if config.external else config.model)
    keyed = with_keys(os.environ)
    # The key of an installed agent is often exported as well, so keys count only where no program is installed.
    programs = () if "use" in config.model_fields_set else installed_agents(os.environ)
    every = (*programs, *keyed) if ask else programs or keyed
    return goals.choose_agent(every, ask=ask)
