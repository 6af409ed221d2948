"""The options of a run besides its goal, its models and secrets, and the forms of judges, critics and checks."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import urlsplit

from goalrunner.app.external_agent import ResolvedAgent, resolve_agent
from goalrunner.core.agent_ports import Approver, Conversation, Message, Observer
from goalrunner.core.errors import UsageError, kind_of
from goalrunner.core.events import Account
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AGENT_MODEL, AgentConfig, CriticConfig, JudgeConfig, NotifyConfig, ValidatorSpec
from goalrunner.core.observation import Claim, Observation, Trail
from goalrunner.core.ports import Critic, Validator
from goalrunner.engine.prompts import ResumePrompt
from goalrunner.llm import LLM, Tape, as_model
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder, goal_home
from goalrunner.system.launcher import credentials_of
from goalrunner.validators.child import arity
from goalrunner.validators.python_validators import CallableValidator

if TYPE_CHECKING:
    from goalrunner.judge.prompt_builder import Events


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The settings of a run besides its goal, from the command line or a calling program."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    home: Path = field(default_factory=lambda: goal_home(os.environ))  # where the run's folder is made
    observers: Sequence[Observer] = ()
    approver: Approver | None = None  # asked where something waits for a person
    goal_file: Path | None = None  # where the goal was read from; it is always protected
    record: Path | None = None  # where the models' replies are recorded, for `scripted/<file>`
    continues: RunFolder | None = None  # a run whose conversation this one continues
    conversation: Conversation | None = None  # None: made from the goal, as judge and critic
    critic: LLM | Critic | None = None
    validators: tuple[Validator, ...] = ()  # run in this process, besides those of the goal
    resume_prompt: ResumePrompt | None = None
    prompt: str | None = None  # the first user message, if it differs from the objective
    needs_round: bool = False  # whether the agent works even if the baseline is green
    labels: tuple[str, ...] = ()  # further labels of the run, which the caller knows

    @property
    def live(self) -> bool:
        """Whether the agent keeps working while its work is checked, so that no check may run in place."""
        return getattr(self.conversation, "live", False)

    def handed(self, goal: Goal) -> tuple[str, ...]:
        """Return the parts that the calling program passed, by name; only that program can make them again."""
        given = {
            "conversation": self.conversation,
            "judge": goal.judge.instance,
            "critic": self.critic,
            "validators": self.validators,
            "resume_prompt": callable(self.resume_prompt),
        }
        return tuple(name for name, value in given.items() if value)


def goal_models(goal: Goal, options: RunOptions, tape: Tape | None = None) -> dict[Account, LLM]:
    """Return the models of a run by account. An external agent and the caller's own conversation bring their own.

    Raise UsageError if a recording is missing, or if a judge or critic shall be the agent's own model, which is unknown.
    """
    own = options.conversation
    agent = goal_model(goal, "agent", tape) if own is None else getattr(own, "llm", None)
    found: tuple[tuple[Account, object], ...] = (
        ("agent", agent if own is None else None),
        ("judge", goal_model(goal, "judge", tape, agent)),
        ("critic", goal_model(goal, "critic", tape, agent) if options.critic is None else options.critic),
    )
    return {account: llm for account, llm in found if isinstance(llm, LLM)}


def goal_model(goal: Goal, account: Account, tape: Tape | None = None, agent: object = None) -> LLM | None:
    """Return a new instance of the goal's model for an account; None if it has none. `agent` is the agent's model."""
    tables: dict[Account, AgentConfig | JudgeConfig | CriticConfig]
    tables = {"agent": goal.agent, "judge": goal.judge, "critic": goal.critic}
    config = tables[account]
    if account == "judge" and goal.judge.instance is not None:
        return as_model(goal.judge.instance)
    if not config.model or (account == "agent" and goal.agent.external):
        return None
    name, base, key = config.model, config.api_base, config.api_key_env
    if account != "agent" and name == AGENT_MODEL:
        if not isinstance(agent, LLM):
            why = f'{account} "agent" is the agent\'s own model, and this agent does not share its model'
            raise UsageError(why, f'name a model for the {account}: {account} = "provider/model"')
        if not (base or key or config.params):
            return agent.separate(account)
        name, base, key = agent.model, base or goal.agent.api_base, key or goal.agent.api_key_env
    return LLM(name, api_base=base, api_key_env=key, params=config.params, account=account, tape=tape)


def withheld(goal: Goal, agent: ResolvedAgent | None = None, llms: Iterable[object] = ()) -> tuple[str, ...]:
    """Return the names of environment variables that hold the keys of models and agent; no child process gets them."""
    tables = (goal.agent, goal.judge, goal.critic)
    keys = (*(table.api_key_env for table in tables), *(llm.api_key_env for llm in llms if isinstance(llm, LLM)))
    named = (*(name for name in keys if name), *(agent.keys if agent else ()))
    return (*named, *(name for table in tables for name in credentials_of(table.model)))


def goal_redactor(goal: Goal, environ: Mapping[str, str], names: Iterable[str] | None = None) -> Redactor:
    """Return the redactor of everything that a run of the goal writes. Raise UsageError for an invalid [redact].

    `names` are variables that hold secrets whatever their names look like, by default those of the goal's models and
    agent; the values in the goal are searched as well.
    """
    if names is None:
        names = withheld(goal, resolve_agent(goal, environ))
    given: dict[str, object] = {f"agent.env.{name}": value for name, value in goal.agent.env.items()}
    for spec in goal.validators:
        given |= {f"validators.env.{name}": value for name, value in spec.env.items()}
    for agent, preset in goal.agents.items():
        given |= {f"agents.{agent}.env.{name}": value for name, value in (preset.env | preset.sandbox_env).items()}
    for table, config in (("agent", goal.agent), ("judge", goal.judge), ("critic", goal.critic)):
        given |= {f"{table}.params.{name}": value for name, value in config.params.items()}
        given[f"{table}.api_base.PASSWORD"] = urlsplit(config.api_base or "").password
    values = {name: value for name, value in given.items() if isinstance(value, str)}
    return Redactor({**environ, **values}, names=tuple(names), extra=goal.redact.extra, allow=goal.redact.allow)


def redacted_events(events: Events, redactor: Redactor) -> Events:
    """Return the events without secrets; citations are matched on the same text."""

    def redacted(item: Observation | Claim) -> Observation | Claim:
        if isinstance(item, Claim):
            return item
        update = {"command": redactor.text(item.command), "facts": tuple(map(redactor.text, item.facts))}
        return item.model_copy(update=update)

    if isinstance(events, Trail):
        items = tuple(map(redacted, events.items))
        return replace(events, items=items, read=lambda item: redactor.text(events.read(item)))
    # A value that is not a chat is rejected where it is read.
    known = isinstance(events, Sequence) and not isinstance(events, str | bytes)
    return [redactor.json(item) if isinstance(item, Mapping) else item for item in events] if known else events


class Completing(Protocol):
    """A model of the calling program."""

    def complete(self, messages: Sequence[Message], /) -> str | Awaitable[str]:
        """Return the answer to system and user messages."""


JudgeChoice = LLM | JudgeConfig | str | Completing | Callable[[Sequence[Message]], str | Awaitable[str]] | None
"""A model instance, its configuration, its name, a function or object that answers messages, or no judge."""

CriticChoice = Critic | LLM | CriticConfig | str | None
"""A callable `(response, agent)`, a model instance, a configuration, a model's name, or None: that of the Goal."""


def judge_of(goal: Goal, judge: JudgeChoice = None, *, default: bool = False) -> JudgeConfig:
    """Return the configuration of a judge, with the model itself if one was passed. None is the judge of the goal.

    A judge that has settings but no model uses the agent's; with `default`, so does a goal without a judge. Raise
    UsageError for an invalid judge.
    """
    config, model = (judge, None) if isinstance(judge, JudgeConfig) else (goal.judge, judge)
    if model is not None and not (isinstance(model, str) and model.strip()) and as_model(model) is None:
        hint = "give an LLM, a model's name, a JudgeConfig, or a function or object with complete(messages) -> str"
        raise UsageError(f"{kind_of(judge)} is not a judge", hint)
    if model is None and not config.model and (default or judge is not None or config != JudgeConfig()):
        model = AGENT_MODEL
    return config if model is None else JudgeConfig(model, **config.model_dump(exclude={"model"}))


def own_critic(critic: Any) -> LLM | Critic | None:
    """Return a critic that is a model or a callable; None for those of a Goal. Raise UsageError for an invalid one."""
    if isinstance(critic, LLM):
        return critic.separate("critic")
    if isinstance(critic, CriticConfig | None) or (isinstance(critic, str) and critic.strip()):
        return None
    if not callable(critic):
        hint = "give a callable (response, agent), an LLM, a model's name, or a CriticConfig"
        raise UsageError(f"{critic!r:.60} is not a critic", hint)
    return cast("Critic", critic)


def goal_judge(goal: Goal) -> LLM:
    """Return a new model for the judge of a goal. Raise UsageError if it has none."""
    agent = goal_model(goal, "agent") if judged_by(goal).judge.model == AGENT_MODEL else None
    llm = goal_model(goal, "judge", agent=agent)
    assert llm is not None, "it has a judge"
    return llm


def judged_by(goal: Goal) -> Goal:
    """Return the goal. Raise UsageError if it has no judge."""
    if not goal.has_judge:
        raise UsageError("no judge is given", "add --judge MODEL, or set GOAL_JUDGE")
    if goal.judge.model == AGENT_MODEL and not goal.agent.model:
        raise UsageError('judge = "agent" needs a model of the agent', "add --judge MODEL")
    return goal


Check = str | ValidatorSpec | Validator | Callable[..., Any]
"""A shell command, a specification, a Validator, or a callable `(response, agent)` that says whether it passed."""

Checks = Check | Iterable[Check]  # one check, or any number of them


def split_checks(given: Checks) -> tuple[tuple[ValidatorSpec, ...], tuple[Validator, ...]]:
    """Return the checks that run in child processes, shell commands first, and those that run in this process.

    Raise UsageError for an invalid check.
    """
    single = isinstance(given, str | bytes | Mapping | ValidatorSpec) or callable(given) or _is_validator(given)
    commands: list[ValidatorSpec] = []
    specs: list[ValidatorSpec] = []
    own: list[Any] = []
    checks: Iterable[Any] = (given,) if single or not isinstance(given, Iterable) else given
    for check in checks:
        if isinstance(check, str) and check.strip():
            commands.append(ValidatorSpec(name=check, run=check))
        elif isinstance(check, ValidatorSpec):
            specs.append(check)
        elif _is_validator(check):
            own.append(check)
        elif callable(check) and not isinstance(check, type):
            if arity(check) is None:
                name = getattr(check, "__name__", type(check).__name__)
                why = f"the validator {name} cannot be called with (response, agent)"
                raise UsageError(why, f"write: def {name}(response, agent):")
            own.append(CallableValidator(check))
        else:
            hint = "give shell commands, ValidatorSpecs, Validators, or callables (response, agent): validators=[...]"
            raise UsageError(f"{check!r:.60} is not a validator", hint)
    return (*commands, *specs), tuple(own)


def _is_validator(value: object) -> bool:
    return hasattr(value, "validate") and hasattr(value, "name") and not isinstance(value, type)


def only_checks(goal: Goal) -> Goal:
    """Return the goal with its workspace and validators alone, for checks outside of a run."""
    names = ("agent", "judge", "critic", "budget", "memory", "approvals", "risk_class")
    defaults = {name: Goal.model_fields[name].get_default(call_default_factory=True) for name in names}
    return goal.model_copy(update={**defaults, "notify": NotifyConfig(bell=False)})
