"""Whether a run can start: the findings about a goal, in one order for all commands."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain

from goalrunner.agents.external_agents import ACP, COMMAND
from goalrunner.agents.facts import find_program
from goalrunner.agents.judge_program import ProgramModel
from goalrunner.app.agent_findings import (
    SIGN_IN,
    Finding,
    check_installed,
    external_notes,
    refuse_unsupported,
    sign_in_finding,
)
from goalrunner.app.external_agent import ResolvedAgent
from goalrunner.app.goal_models import programs_in
from goalrunner.app.parts import goal_validators
from goalrunner.app.preflight import (
    describe_checks,
    needs_environment,
    refuse_invalid_commands,
    warnings_before,
)
from goalrunner.app.resolve import RunConfig, refuse_nested_home, refuse_unseen_work
from goalrunner.app.run_telemetry import refuse_missing_extra
from goalrunner.app.stored_goal import secret_notes
from goalrunner.core.errors import (
    AgentError,
    AgentNotInstalled,
    GoalError,
    ModelError,
    UsageError,
    ValidatorMissing,
)
from goalrunner.core.events import Account
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.labels import label_in
from goalrunner.core.outcome import Usage
from goalrunner.goalfile.dumping import dump_goal
from goalrunner.judge.prompt_builder import check_room
from goalrunner.llm import LLM
from goalrunner.snapshots.git import git_program
from goalrunner.system.launcher import ProcessLauncher

PROGRAM = "program"  # the name of findings about the program of an agent
WARNING = "warning"  # the name of findings that keep nothing from working


def readiness(config: RunConfig) -> tuple[Finding, ...]:
    """Return what can be used, what is missing, and warnings, in a fixed order.

    Nothing is written, and no model is called. A finding with an `error` keeps a run
    from starting.
    """
    findings: list[Finding] = []
    parts = (
        _settings(config),
        _agents(config),
        _models(config),
        _machine(config),
        _commands(config),
        _warnings(config),
    )
    for finding in chain(*parts):
        # Two models may lack the same key, for example.
        if finding.state == "bad" and _is_reported(finding.message, findings):
            continue
        findings.append(finding)
    return tuple(findings)


def _is_reported(message: str, findings: Iterable[Finding]) -> bool:
    """Return whether a bad finding contains this message."""
    return any(item.state == "bad" and message in item.message for item in findings)


def refuse_unready(config: RunConfig, findings: Iterable[Finding]) -> None:
    """Raise the error of the first finding that keeps a run from being made.

    With a missing agent or validator, a run is made, and ends as failed. So does a run
    without a usable model, if the calling program passed the conversation.
    """
    run_errors: tuple[type[GoalError], ...] = (AgentError, ValidatorMissing)
    if config.options.conversation is not None:
        # The calling program expects an outcome rather than an error.
        run_errors = (*run_errors, ModelError)
    for finding in findings:
        if finding.error is not None and not isinstance(finding.error, run_errors):
            raise finding.error


async def check_before_run(
    config: RunConfig,
    findings: Iterable[Finding],
    count: Callable[[Account, Usage], None],
) -> tuple[str, ...]:
    """Perform the preflight of a run, and return warnings.

    Raise the error of the first finding that has one. Else ask the models of judge and
    critic for one token, and raise ModelError if one of them cannot be used. `count`
    gets what the calls used.
    """
    for finding in findings:
        if finding.error is not None:
            raise finding.error
    models = _models_to_ask(config)
    try:
        answers = await asyncio.gather(
            *(llm.probe() for llm in models), return_exceptions=True
        )
    finally:
        # Failed and cancelled requests may have used tokens as well.
        for llm in models:
            if llm.usage != Usage():
                count(llm.account, llm.usage)
    warnings: list[str] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        if answer:
            warnings.append(f"{answer}; the run goes on, and asks again")
    return tuple(warnings)


def _models_to_ask(config: RunConfig) -> tuple[LLM, ...]:
    """Return the models of judge and critic, one for each address.

    The address of the agent's model is left out: its first call shows whether key and
    name are accepted.
    """
    by_address: dict[object, LLM] = {}
    for account, llm in config.models.items():
        if account != "agent":
            by_address[llm.address] = llm
    agent = config.models.get("agent") or config.callers_model
    if agent is not None:
        by_address.pop(agent.address, None)
    return tuple(by_address.values())


def run_notes(findings: Iterable[Finding], config: RunConfig) -> tuple[str, ...]:
    """Return the notes for people with which a run begins.

    They are warnings, and then each sign-in that was not found.
    """
    by_name = {config.finding_name(SIGN_IN, agent): agent for agent in config.agents}
    notes: list[str] = []
    sign_ins: list[str] = []
    for finding in findings:
        if finding.name == WARNING:
            notes.append(finding.message)
        agent = by_name.get(finding.name)
        if agent is None or finding.state == "good":
            continue
        if agent.keys or agent.preset.login:
            parts = (finding.message, agent.preset.sign_in)
            sign_ins.append("; ".join(filter(None, parts)))
    return (*notes, *sign_ins)


def described(
    config: RunConfig, findings: Iterable[Finding]
) -> tuple[tuple[str, str], ...]:
    """Return lines for people, label and text.

    They say how the goal is checked, what is protected and ignored, and warnings.
    """
    lines: list[tuple[str, str]] = []
    if config.check is not None:
        options = config.options
        lines += describe_checks(
            config.goal,
            config.check,
            config.workspace,
            options.environ,
            options.goal_file,
        )
    return (*lines, *((WARNING, note) for note in run_notes(findings, config)))


def _raised(name: str, check: Callable[[], object]) -> Iterator[Finding]:
    """Yield the error that a check raises as a finding."""
    try:
        check()
    except GoalError as error:
        yield Finding.of(name, error)


def _settings(config: RunConfig) -> Iterator[Finding]:
    """Yield a parent run that is missing, and settings that cannot be combined."""
    if "parent" in config.problems:
        yield Finding.of("start", config.problems["parent"])
    yield from _raised("start", lambda: _refuse_unfit(config))
    yield from _raised("telemetry", lambda: refuse_missing_extra(config.goal))


def _refuse_unfit(config: RunConfig) -> None:
    """Raise UsageError for the first settings that cannot be combined."""
    goal = config.goal
    _refuse_no_check(config)
    if goal.approvals.checks == "judge" and not goal.has_judge:
        raise UsageError(
            '[approvals] checks = "judge" needs a judge',
            'add judge = "provider/model", or remove checks',
        )
    if not config.options.sees_files:
        _refuse_unseen_files(goal)
    # An overlay of the workspace would contain its own upper layer.
    if needs_environment(goal):
        refuse_nested_home(config.workspace, config.home)
    hidden = [spec for spec in goal.validators if spec.hidden]
    if hidden and goal.deliverable != "workspace":
        raise UsageError(
            f"the hidden validator {_name_of(hidden[0])} would never run: hidden ones "
            'need deliverable = "workspace"',
            "remove hidden = true",
        )
    # The runner sees what the built-in agent does, because it runs its tools.
    refuse_unseen_work(
        goal, goal.agent.use, unseen=goal.agent.external and not goal.validators
    )
    for agent in config.usable_agents:
        refuse_unsupported(agent)
    # The prompt of the judge must have room for evidence beside the criteria.
    if goal.has_judge:
        check_room(goal)


def _refuse_unseen_files(goal: Goal) -> None:
    """Raise UsageError for settings that need the agent's files on this machine."""
    workspace, approvals = goal.workspace, goal.approvals
    settings = {
        "validators": goal.validators,
        "[workspace] protect": workspace.protect,
        "[workspace] editable": workspace.editable,
        "[workspace] setup": workspace.setup,
        "[workspace] outputs": workspace.outputs,
        "[workspace] check": workspace.check,
        'baseline = "red"': goal.baseline == "red",
        "[approvals] checks": approvals.checks,
        "[approvals] labels": approvals.labels,
    }
    for name, value in settings.items():
        if value:
            raise UsageError(
                f"{name} needs the agent's files, which are not in a known folder here",
                "use a conversation with a local workspace, or remove it",
            )


def _refuse_no_check(config: RunConfig) -> None:
    """Raise UsageError if nothing that the agent can know of checks the work."""
    goal = config.goal
    if goal.has_judge or config.options.validators:
        return
    if all(spec.hidden for spec in goal.validators):
        judge = "openai/gpt-5-mini" if goal.agent.external else "agent"
        hint = (
            f'add validators (validator = "pytest -q") or a judge (judge = "{judge}")'
        )
        if config.options.conversation is not None:
            hint = 'pass validators=["pytest -q"], or judge="openai/gpt-5-mini"'
        raise UsageError("the goal has neither a validator nor a judge", hint)


def _name_of(spec: ValidatorSpec) -> str:
    return spec.name or spec.run or spec.python or ""


def _agents(config: RunConfig) -> Iterator[Finding]:
    """Yield the program of each external agent, and its key or login.

    In a sandbox, they must be visible there.
    """
    for agent in config.usable_agents:
        yield from _agent_findings(config, agent)


def _agent_findings(config: RunConfig, agent: ResolvedAgent) -> Iterator[Finding]:
    sandbox, program = config.sandbox, config.finding_name(PROGRAM, agent)
    policy = sandbox.agent_policy(sandbox.home, agent.preset.home)
    environ = agent.environment(sandbox.environ, sandboxed=policy is not None)
    try:
        check_installed(agent, config.workspace, sandbox.environ, policy)
        path = find_program(agent.command, environ, config.workspace)[1]
        yield Finding(program, "good", path)
    except AgentNotInstalled as error:
        yield Finding.of(program, error)
    # How a program of the user signs in is not known.
    if agent.name not in (COMMAND, ACP):
        settings = agent.goal.agent
        sign_in = sign_in_finding(
            agent.name,
            agent.preset.model_copy(update={"keys": agent.keys}),
            environ,
            policy,
            configured=bool(settings.args or settings.env),
        )
        yield replace(sign_in, name=config.finding_name(SIGN_IN, agent))


def _models(config: RunConfig) -> Iterator[Finding]:
    """Yield each model, its key and its provider; then a price that is missing."""
    # Without models, nothing can be said about their keys.
    if "models" in config.problems:
        yield Finding.of("model", config.problems["models"])
        return
    models = config.models
    has_agent = config.options.conversation is not None or config.agents
    if not has_agent and "agent" not in models:
        hint = (
            'name an agent, such as agent = "claude" (goal agents lists them), or a'
            ' model of the built-in agent: model = "provider/name"'
        )
        yield Finding.of(
            "model", UsageError("neither an agent nor a model is set", hint)
        )
    checked: dict[Account, LLM] = dict(models)
    if config.callers_model is not None:
        checked["agent"] = config.callers_model
    are_usable = True
    for account, llm in checked.items():
        finding = _model_finding("model" if account == "agent" else account, llm)
        are_usable = are_usable and finding.error is None
        yield finding
    yield from _programs(config)
    # The prices are LiteLLM's, whose import takes seconds.
    if are_usable and config.goal.budget.cost_usd is not None:
        yield from _missing_prices(models.values(), config.goal.budget.cost_usd)


def _model_finding(name: str, llm: LLM) -> Finding:
    try:
        llm.check()
    except GoalError as error:
        message = error.message
        # A message about a missing key does not name the model, for example.
        if llm.model not in message:
            message = f"{llm.model}: {message}"
        return Finding(name, "bad", message, error.hint, error)
    message = f"{llm.model} can be used, as far as is known without calling it"
    return Finding(name, "good", message)


def _missing_prices(models: Iterable[LLM], limit: float) -> Iterator[Finding]:
    for llm in models:
        # The program of an agent reports its dollars itself.
        if isinstance(llm, ProgramModel) or llm.has_price():
            continue
        error = UsageError(
            f"model {llm.model} has no known price, so a budget of ${limit:g} cannot "
            "be kept",
            "limit tokens instead ([budget] tokens, --tokens), or use a model with a "
            "price",
        )
        yield Finding.of("price", error)


def _programs(config: RunConfig) -> Iterator[Finding]:
    """Yield the sign-in of programs that are judge or critic.

    Yield a budget whose usage they do not report as well.
    """
    budget = config.goal.budget
    for account, program in programs_in(config.models).items():
        sign_in = sign_in_finding(
            program.choice.name, program.preset, config.options.environ
        )
        yield replace(sign_in, name=f"{account} sign-in")
        for name in budget.limited:
            reported = program.preset.judge.reports
            if name in reported or name in budget.allow_unenforced:
                continue
            error = UsageError(
                f"the {account} {program.model} does not report its {name}, so a "
                f"budget of {name} cannot be kept",
                f'remove it, or write [budget] allow_unenforced = ["{name}"] to count '
                "only what is known",
            )
            yield Finding.of("budget", error)


def _machine(config: RunConfig) -> Iterator[Finding]:
    """Yield git, the sandbox if the goal asks for one, and the check environment."""
    try:
        git = git_program(config.workspace, config.options.environ)
        yield Finding("git", "good", git)
    except GoalError as error:
        # Snapshots need git; a response has none.
        is_workspace = config.goal.deliverable == "workspace"
        is_needed = is_workspace and config.options.takes_snapshots
        yield Finding(
            "git", "bad", error.message, error.hint, error if is_needed else None
        )
    yield from _raised("workspace", lambda: _refuse_unwritable(config))
    yield from _sandbox_findings(config)
    yield from _check_findings(config)


def _sandbox_findings(config: RunConfig) -> Iterator[Finding]:
    goal, choice = config.goal, config.sandbox.choice
    if "sandbox" in config.problems:
        yield Finding.of("sandbox", config.problems["sandbox"])
    elif choice.sandbox is not None:
        inside = ", and the agent runs in it" if goal.agent.external else ""
        yield Finding("sandbox", "good", f"{choice.sandbox.name} works here{inside}")
    elif goal.workspace.sandbox != "none":
        message = f"{choice.why}; the goal runs without a sandbox"
        yield Finding("sandbox", "note", message, choice.remedy)


def _check_findings(config: RunConfig) -> Iterator[Finding]:
    check = config.check
    if "checks" in config.problems:
        yield Finding.of("checks", config.problems["checks"])
    elif check is not None and check.kind == "in-place" and config.options.live:
        # Both would write the workspace at the same time.
        why = check.why or 'the goal says check = "in-place"'
        error = UsageError(
            f"the validators cannot run while the agent keeps working: {why}",
            "use a system with overlays, and remove check from the goal file",
        )
        yield Finding.of("checks", error)
    elif check is not None:
        yield Finding("checks", "good", str(check))


def _refuse_unwritable(config: RunConfig) -> None:
    """Raise UsageError if the agent could not write files into the workspace."""
    if config.options.conversation is not None:
        # The agent of a calling program may work as another user.
        return
    if config.goal.deliverable != "workspace":
        return
    if not os.access(config.workspace, os.W_OK | os.X_OK):
        raise UsageError(
            f"the workspace {config.workspace} is read-only, so the agent could not "
            "change it",
            "change its permissions or its mount, or name another folder: [workspace] "
            "path",
        )


def _commands(config: RunConfig) -> Iterator[Finding]:
    """Yield the commands that check the work and cannot run here."""
    yield from _raised(
        "validator",
        lambda: refuse_invalid_commands(config.goal, config.options.environ),
    )
    yield from _raised("validator", lambda: goal_validators(config, ProcessLauncher()))


def _warnings(config: RunConfig) -> Iterator[Finding]:
    goal, options = config.goal, config.options
    try:
        secrets = secret_notes(dump_goal(goal, config.redactor.text), options.goal_file)
    except UsageError as error:
        yield Finding.of("start", error)
        return
    is_sandboxed = config.sandbox.choice.sandbox is not None
    notes = [*_label_notes(config), *warnings_before(goal, options.environ)]
    for agent in config.usable_agents:
        notes += external_notes(agent, sandboxed=is_sandboxed)
    for note in (*notes, *secrets):
        yield Finding(WARNING, "note", note)


def _label_notes(config: RunConfig) -> Iterator[str]:
    """Yield what the labels mean that are known before round 1.

    Those that the caller gave are left out.
    """
    for text in config.labels:
        label = label_in(text)
        if label is not None and text not in config.options.labels:
            yield f"{label}: {label.meaning}"
