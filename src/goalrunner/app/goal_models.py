"""The models of a goal by account, and the secrets that belong to them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from goalrunner.agents.judge_program import ProgramModel
from goalrunner.agents.program_call import ProgramChoice
from goalrunner.app.external_agent import ResolvedAgent, resolve_agents
from goalrunner.app.run_options import RunOptions
from goalrunner.app.sandbox import workspace_of
from goalrunner.core.errors import UsageError
from goalrunner.core.events import Account
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AGENT_MODEL
from goalrunner.core.observation import Claim, Observation, Trail
from goalrunner.goalfile.agents import NO_JUDGE, preset_named, program_named
from goalrunner.llm import LLM, Tape, as_model
from goalrunner.records.redaction import Redactor
from goalrunner.system.child_environment import credentials_of

if TYPE_CHECKING:
    from goalrunner.judge.prompt_builder import Events

COLLECTOR_KEYS = (
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
)
"""Variables with keys of a collector. Their names do not look like secrets."""


def goal_models(
    goal: Goal, options: RunOptions, tape: Tape | None = None
) -> dict[Account, LLM]:
    """Return the models of a run by account.

    An external agent and the caller's own conversation bring their own. Raise
    UsageError if a recording is missing, or if a judge or critic shall be the agent's
    own model, which is unknown.
    """
    conversation, environ = options.conversation, options.environ
    models: dict[Account, object] = {}
    agent: object
    if conversation is None:
        agent = models["agent"] = goal_model(goal, "agent", tape)
    else:
        # It is not a model of the run: the conversation counts its own usage.
        agent = getattr(conversation, "llm", None)
    critic: object = options.critic
    if critic is None:
        critic = goal_model(goal, "critic", tape, agent, environ)
    models["judge"] = goal_model(goal, "judge", tape, agent, environ)
    models["critic"] = critic
    return {account: llm for account, llm in models.items() if isinstance(llm, LLM)}


def goal_model(
    goal: Goal,
    account: Account,
    tape: Tape | None = None,
    agent: object = None,
    environ: Mapping[str, str] = os.environ,
) -> LLM | None:
    """Return a new instance of the goal's model for an account; None if it has none.

    `agent` is the agent's model. Judge and critic may be an agent's program. Raise
    UsageError for a program that cannot be one.
    """
    config = goal.model_tables[account]
    # A function or object of the calling program is the judge itself.
    if account == "judge" and goal.judge.instance is not None:
        return as_model(goal.judge.instance)
    choice = judging_program(goal, account, environ)
    if choice is not None:
        return ProgramModel(
            choice, environ, workspaces=[workspace_of(goal)], account=account, tape=tape
        )
    # An external agent chooses its model itself.
    if not config.model or (account == "agent" and goal.agent.external):
        return None
    name, base, key = config.model, config.api_base, config.api_key_env
    if account != "agent" and name == AGENT_MODEL:
        if not isinstance(agent, LLM):
            raise UsageError(
                f'{account} "agent" is the agent\'s own model, and this agent does '
                "not share its model",
                f'name a model for the {account}: {account} = "provider/model"',
            )
        # A copy of the same model counts its own usage.
        if not (base or key or config.params):
            return agent.separate(account)
        name = agent.model
        base = base or goal.agent.api_base
        key = key or goal.agent.api_key_env
    return LLM(
        name,
        api_base=base,
        api_key_env=key,
        params=config.params,
        account=account,
        tape=tape,
    )


def judging_program(
    goal: Goal, account: Account, environ: Mapping[str, str]
) -> ProgramChoice | None:
    """Return the agent's program that is the judge or critic of a goal.

    None if it is a model, or there is none. Raise UsageError for an unknown agent, and
    for one that cannot judge.
    """
    named = program_named(goal, account, environ)
    if named is None:
        return None
    preset = preset_named(named.name, goal.agents, environ)
    if not preset.judge.argv:
        raise UsageError(
            f"{named.name} cannot be the {account}: {NO_JUDGE}",
            f'write {account} = "provider/model"',
        )
    return ProgramChoice(named.name, preset, named.model)


def programs_in(models: Mapping[Account, LLM]) -> dict[Account, ProgramModel]:
    """Return the models that are programs of agents."""
    return {
        account: llm for account, llm in models.items() if isinstance(llm, ProgramModel)
    }


def withheld(
    goal: Goal, agents: Iterable[ResolvedAgent] = (), llms: Iterable[object] = ()
) -> tuple[str, ...]:
    """Return the environment variables that hold the keys of models and agents.

    No child process gets them, but an agent gets its own keys.
    """
    models = [llm for llm in llms if isinstance(llm, LLM)]
    tables = goal.model_tables.values()
    keys = [table.api_key_env for table in tables]
    keys += [model.api_key_env for model in models]
    names = [key for key in keys if key]
    for agent in agents:
        names += agent.keys
    for model in models:
        if isinstance(model, ProgramModel):
            # The program gets its own keys when it is started.
            names += model.preset.keys
    for table in tables:
        names += credentials_of(table.model)
    return tuple(names)


def goal_redactor(
    goal: Goal, environ: Mapping[str, str], names: Iterable[str] | None = None
) -> Redactor:
    """Return the redactor of everything that a run of the goal writes.

    `names` are variables that hold secrets whatever their names look like, by default
    those of the goal's models and agent; the values in the goal are searched as well.
    Raise UsageError for an invalid [redact].
    """
    if names is None:
        names = withheld(goal, resolve_agents(goal, environ))
    return Redactor(
        {**environ, **_values_in(goal)},
        names=(*names, *COLLECTOR_KEYS),
        extra=goal.redact.extra,
        allow=goal.redact.allow,
    )


def _values_in(goal: Goal) -> dict[str, str]:
    """Return the texts of a goal that may be secrets, by their names in the file."""
    tables: list[tuple[str, Mapping[str, object]]] = [("agent.env", goal.agent.env)]
    tables += [("validators.env", spec.env) for spec in goal.validators]
    for agent, preset in goal.agents.items():
        tables.append((f"agents.{agent}.env", preset.env | preset.sandbox_env))
    for account, config in goal.model_tables.items():
        tables.append((f"{account}.params", config.params))
        # The name says that the value is a secret, as it does for a variable.
        password = urlsplit(config.api_base or "").password
        tables.append((f"{account}.api_base", {"PASSWORD": password}))
    texts: dict[str, str] = {}
    for table, values in tables:
        for name, value in values.items():
            if isinstance(value, str):
                texts[f"{table}.{name}"] = value
    return texts


def redacted_events(events: Events, redactor: Redactor) -> Events:
    """Return the events without secrets; citations are matched on the same text."""

    def redacted(item: Observation | Claim) -> Observation | Claim:
        # The text of a claim is redacted where it is read.
        if isinstance(item, Claim):
            return item
        command = redactor.text(item.command)
        facts = tuple(map(redactor.text, item.facts))
        # Copies of all observations of a long transcript would be most of the memory.
        if (command, facts) == (item.command, item.facts):
            return item
        return item.model_copy(update={"command": command, "facts": facts})

    if isinstance(events, Trail):
        items = tuple(map(redacted, events.items))
        return replace(
            events, items=items, read=lambda item: redactor.text(events.read(item))
        )
    is_chat = isinstance(events, Sequence) and not isinstance(events, str | bytes)
    if not is_chat:
        # It is rejected where it is read.
        return events
    messages: list[Any] = []
    for item in events:
        messages.append(redactor.json(item) if isinstance(item, Mapping) else item)
    return messages


def goal_judge(goal: Goal) -> LLM:
    """Return a new model for the judge of a goal. Raise UsageError if it has none."""
    judge = require_judge(goal).judge
    is_agents_model = judge.model == AGENT_MODEL and not judge.use
    agent = goal_model(goal, "agent") if is_agents_model else None
    llm = goal_model(goal, "judge", agent=agent)
    assert llm is not None, "it has a judge"
    return llm


def require_judge(goal: Goal) -> Goal:
    """Return the goal itself. Raise UsageError if it has no judge."""
    if not goal.has_judge:
        raise UsageError("no judge is given", "add --judge MODEL, or set GOAL_JUDGE")
    is_agents_model = goal.judge.model == AGENT_MODEL and not goal.judge.use
    if is_agents_model and not (goal.agent.external or goal.agent.model):
        raise UsageError(
            'judge = "agent" needs a model of the agent', "add --judge MODEL"
        )
    return goal
