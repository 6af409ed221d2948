"""What a run of a goal needs: the same findings for `goal check`, `goal run --dry-run`,
`goal agents AGENT` and `goal run`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain

from goalrunner.agents.external_agents import ACP, COMMAND
from goalrunner.agents.facts import find_program
from goalrunner.agents.judge_program import ProgramModel
from goalrunner.app.external_agent import (
    SIGN_IN,
    Finding,
    ResolvedAgent,
    check_installed,
    external_notes,
    refuse_unsupported,
    sign_in_finding,
)
from goalrunner.app.goal_models import programs_in
from goalrunner.app.parts import goal_validators
from goalrunner.app.preflight import (
    describe_checks,
    needs_environment,
    refuse_invalid_commands,
    warnings_before,
)
from goalrunner.app.resolve import RunConfig, refuse_nested_home, refuse_unseen_work
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
    """Return what is there, what is missing, and warnings, in a fixed order.

    Nothing is written, and no model is called.

    A finding with an `error` keeps a run from starting.
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
        known = [other.message for other in findings if other.state == "bad"]
        # Two models may lack the same key, for example.
        if finding.state != "bad" or not any(
            finding.message in message for message in known
        ):
            findings.append(finding)
    return tuple(findings)


def refuse_unready(config: RunConfig, findings: Iterable[Finding]) -> None:
    """Raise the error of the first finding for which no run is made: all but failures
    of agent, model or validator.

    Those end a run as failed, unless the built-in agent lacks its model.
    """
    in_run: tuple[type[GoalError], ...] = (AgentError, ValidatorMissing)
    if config.options.conversation is not None:
        in_run = (*in_run, ModelError)
    for finding in findings:
        if finding.error is not None and not isinstance(finding.error, in_run):
            raise finding.error


async def ask_before(
    config: RunConfig,
    findings: Iterable[Finding],
    count: Callable[[Account, Usage], None],
) -> tuple[str, ...]:
    """Raise the error of the first finding that has one.

    Then ask the models that the agent's own calls do not prove.

    Each is asked for one token; `count` gets what that used. Return warnings. Raise
    ModelError.
    """
    for finding in findings:
        if finding.error is not None:
            raise finding.error
    models = _unproven_models(config)
    try:
        answers = await asyncio.gather(
            *(llm.probe() for llm in models), return_exceptions=True
        )
    finally:
        for llm in models:
            if llm.usage != Usage():
                count(llm.account, llm.usage)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    warnings = [answer for answer in answers if isinstance(answer, str) and answer]
    return tuple(f"{warning}; the run goes on, and asks again" for warning in warnings)


def _unproven_models(config: RunConfig) -> tuple[LLM, ...]:
    """Return the other models, unless the agent's first call shows whether their key
    and name are accepted.
    """
    agent = config.models.get("agent") or config.callers_model
    proven = agent.address if agent is not None else None
    others = {
        llm.address: llm for account, llm in config.models.items() if account != "agent"
    }
    return tuple(llm for address, llm in others.items() if address != proven)


def run_notes(findings: Iterable[Finding], config: RunConfig) -> tuple[str, ...]:
    """Return the notes for people with which a run begins: warnings, and each sign-in
    that was not found.
    """
    by_name = {config.finding_name(SIGN_IN, agent): agent for agent in config.agents}
    notes, sign_ins = [], []
    for finding in findings:
        agent = by_name.get(finding.name)
        if finding.name == WARNING:
            notes.append(finding.message)
        elif (
            agent is not None
            and finding.state != "good"
            and (agent.keys or agent.preset.login)
        ):
            sign_ins.append(
                "; ".join(filter(None, (finding.message, agent.preset.sign_in)))
            )
    return (*notes, *sign_ins)


def described(
    config: RunConfig, findings: Iterable[Finding]
) -> tuple[tuple[str, str], ...]:
    """Return lines for people, label and text: how the goal is checked, what is
    protected and ignored, and warnings.
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


def _refuse_unfit(config: RunConfig) -> None:
    goal, options = config.goal, config.options
    hidden = [
        spec.name or spec.run or spec.python or ""
        for spec in goal.validators
        if spec.hidden
    ]
    if (
        not goal.has_judge
        and not options.validators
        and len(hidden) == len(goal.validators)
    ):
        judge = "openai/gpt-5-mini" if goal.agent.external else "agent"
        raise UsageError(
            "the goal has neither a validator nor a judge",
            f'add validators (validator = "pytest -q") or a judge (judge = "{judge}")',
        )
    if goal.approvals.checks == "judge" and not goal.has_judge:
        raise UsageError(
            '[approvals] checks = "judge" needs a judge',
            'add judge = "provider/model", or remove checks',
        )
    if needs_environment(goal):
        refuse_nested_home(config.workspace, config.home)
    if hidden and goal.deliverable != "workspace":
        raise UsageError(
            f"the hidden validator {hidden[0]} would never run: hidden ones need "
            'deliverable = "workspace"',
            "remove hidden = true",
        )
    refuse_unseen_work(
        goal, goal.agent.use, unseen=goal.agent.external and not goal.validators
    )
    for agent in config.usable_agents:
        refuse_unsupported(agent)
    if goal.has_judge:
        check_room(goal)


def _agents(config: RunConfig) -> Iterator[Finding]:
    """Yield the program of each external agent, and its key or login, as they are in
    its sandbox.
    """
    for agent in config.usable_agents:
        yield from _agent_findings(config, agent)


def _agent_findings(config: RunConfig, agent: ResolvedAgent) -> Iterator[Finding]:
    sandbox, program = config.sandbox, config.finding_name(PROGRAM, agent)
    policy = sandbox.agent_policy(sandbox.home, agent.preset.home)
    environ = agent.environment(sandbox.environ, sandboxed=policy is not None)
    try:
        check_installed(agent, config.workspace, sandbox.environ, policy)
        yield Finding(
            program, "good", find_program(agent.command, environ, config.workspace)[1]
        )
    except AgentNotInstalled as error:
        yield Finding.of(program, error)
    if agent.name not in (COMMAND, ACP):
        own = agent.preset.model_copy(update={"keys": agent.keys})
        settings = agent.goal.agent
        sign_in = sign_in_finding(
            agent.name,
            own,
            environ,
            policy,
            configured=bool(settings.args or settings.env),
        )
        yield replace(sign_in, name=config.finding_name(SIGN_IN, agent))


def _models(config: RunConfig) -> Iterator[Finding]:
    """Yield each model, its key and its provider; then a price that is missing."""
    if "models" in config.problems:
        yield Finding.of("model", config.problems["models"])
        return
    goal, models = config.goal, config.models
    if (
        config.options.conversation is None
        and not config.agents
        and "agent" not in models
    ):
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
    is_usable = True
    for account, llm in checked.items():
        name = "model" if account == "agent" else account
        try:
            llm.check()
        except GoalError as error:
            is_usable = False
            message = (
                error.message
                if llm.model in error.message
                else f"{llm.model}: {error.message}"
            )
            yield Finding(name, "bad", message, error.hint, error)
        else:
            yield Finding(
                name,
                "good",
                f"{llm.model} can be used, as far as is known without calling it",
            )
    yield from _programs(config)
    # The prices are LiteLLM's, whose import takes seconds.
    for llm in (
        models.values() if is_usable and goal.budget.cost_usd is not None else ()
    ):
        if not (isinstance(llm, ProgramModel) or llm.has_price()):
            why = (
                f"model {llm.model} has no known price, so a budget of "
                f"${goal.budget.cost_usd:g} cannot be kept"
            )
            hint = (
                "limit tokens instead ([budget] tokens, --tokens), or use a model with "
                "a price"
            )
            yield Finding.of("price", UsageError(why, hint))


def _programs(config: RunConfig) -> Iterator[Finding]:
    """Yield whether programs that are judge or critic are signed in, and a budget whose
    usage they do not report.
    """
    for account, program in programs_in(config.models).items():
        signed_in = sign_in_finding(
            program.choice.name, program.preset, config.options.environ
        )
        yield replace(signed_in, name=f"{account} sign-in")
        for budget in config.goal.budget.limited:
            if (
                budget not in program.preset.judge.reports
                and budget not in config.goal.budget.allow_unenforced
            ):
                why = (
                    f"the {account} {program.model} does not report its {budget}, so a "
                    f"budget of {budget} cannot be kept"
                )
                hint = (
                    f'remove it, or write [budget] allow_unenforced = ["{budget}"] to '
                    "count only what is known"
                )
                yield Finding.of("budget", UsageError(why, hint))


def _machine(config: RunConfig) -> Iterator[Finding]:
    """Yield git, the sandbox if the goal wants one, and the check environment."""
    goal, problems = config.goal, config.problems
    try:
        yield Finding(
            "git", "good", git_program(config.workspace, config.options.environ)
        )
    except GoalError as error:
        is_needed = goal.deliverable == "workspace"
        yield Finding(
            "git", "bad", error.message, error.hint, error if is_needed else None
        )
    yield from _raised("workspace", lambda: _refuse_unwritable(config))
    choice = config.sandbox.choice
    if "sandbox" in problems:
        yield Finding.of("sandbox", problems["sandbox"])
    elif choice.sandbox is not None:
        inside = ", and the agent runs in it" if goal.agent.external else ""
        yield Finding("sandbox", "good", f"{choice.sandbox.name} works here{inside}")
    elif goal.workspace.sandbox != "none":
        yield Finding(
            "sandbox",
            "note",
            f"{choice.why}; the goal runs without a sandbox",
            choice.remedy,
        )
    if "checks" in problems:
        yield Finding.of("checks", problems["checks"])
    elif (
        config.check is not None
        and config.check.kind == "in-place"
        and config.options.live
    ):
        why = config.check.why or 'the goal says check = "in-place"'
        hint = "use a system with overlays, and remove check from the goal file"
        live = UsageError(
            f"the validators cannot run while the agent keeps working: {why}", hint
        )
        yield Finding.of("checks", live)
    elif config.check is not None:
        yield Finding("checks", "good", str(config.check))


def _refuse_unwritable(config: RunConfig) -> None:
    """Raise UsageError if the agent could not write files into the workspace."""
    # That of a calling program may work as another user.
    is_own_agent = config.options.conversation is None
    if (
        is_own_agent
        and config.goal.deliverable == "workspace"
        and not os.access(config.workspace, os.W_OK | os.X_OK)
    ):
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
    notes = list(_label_notes(config))
    notes += warnings_before(goal, options.environ)
    for agent in config.usable_agents:
        notes += external_notes(
            agent, sandboxed=config.sandbox.choice.sandbox is not None
        )
    yield from (Finding(WARNING, "note", note) for note in (*notes, *secrets))


def _label_notes(config: RunConfig) -> Iterator[str]:
    """Yield what the labels mean that are known before round 1, without those that the
    caller gave.
    """
    for text in config.labels:
        label = label_in(text)
        if label is not None and text not in config.options.labels:
            yield f"{label}: {label.meaning}"
