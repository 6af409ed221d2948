"""The check that the keys of a goal fit the programs that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from goalrunner.agents.external_agents import (
    ACP,
    BUILT_IN,
    COMMAND,
    agent_names,
    parser_class,
    protocol_of,
)
from goalrunner.core.agent_preset import TEXT, Preset
from goalrunner.core.errors import nearest, quoted, quoted_list
from goalrunner.core.events import Account
from goalrunner.core.goal import RESERVED_AGENTS, Goal
from goalrunner.core.goal_tables import AGENT_MODEL, BUILTIN
from goalrunner.goalfile.agents import (
    NO_JUDGE,
    AgentCatalog,
    NamedProgram,
    is_bare,
    program_named,
)
from goalrunner.goalfile.layers import GoalLayer
from goalrunner.goalfile.problems import Problems, Spot
from goalrunner.goalfile.toml_text import Key

PROGRAM_KEYS = ("idle_timeout",)
"""Keys of `[agent]` that only external agents have."""
CHAT_KEYS = ("max_steps", "tools", "system_prompt", "params", "api_base", "api_key_env")
"""Keys of `[agent]` that only the built-in agent has."""
MODEL_KEYS = ("params", "api_base", "api_key_env")
"""Keys of `[judge]` and `[critic]` that are for models with an API."""


@dataclass(frozen=True)
class _Subject:
    """A goal that is checked, with the agents that it may name."""

    goal: Goal
    layer: GoalLayer
    catalog: AgentCatalog
    problems: Problems


def check_agent(
    goal: Goal,
    layer: GoalLayer,
    file: GoalLayer,
    environ: Mapping[str, str],
    problems: Problems,
) -> Goal:
    """Report keys that do not fit the agent.

    `file` contains the values of the goal file alone. Return the goal, with the preset
    in it if that is a file of the user. Raise GoalFileError if that file is not valid.
    """
    catalog = AgentCatalog.of(goal.agents, environ)
    subject = _Subject(goal, layer, catalog, problems)
    name = goal.agent.use
    spots: dict[str, Spot] = {}
    for key, spot in layer.spots.items():
        if len(key) == 2 and key[0] == "agent":
            spots[str(key[1])] = spot
    if name not in catalog.names:
        spots["use"].wrong(
            f"{quoted(name)} is unknown; {catalog.hint(name)}{_other_key(name)}"
        )
        return goal
    _refuse_keys_of_another(name, spots, file)
    for names, reason in _unfit_keys(goal, catalog.preset(name)):
        for unfit in names:
            # A key with an invalid value has a message already.
            if unfit in spots and not problems.excuses(spots[unfit].path):
                spots[unfit].wrong_key(f"{spots[unfit].label} {reason}")
    if name != BUILTIN:
        return _checked_external(subject, spots["use"])
    if goal.agent.fallbacks:
        spots["use"].item(0).wrong(
            f"{quoted(BUILTIN)} cannot be one of several agents; name programs, such as"
            " claude and codex"
        )
    return goal


def _refuse_keys_of_another(
    name: str, spots: Mapping[str, Spot], file: GoalLayer
) -> None:
    """Report keys of the file if an option or a variable names another agent."""
    names = file.values.get(("agent", "use"), BUILTIN)
    # Several agents are a list; the keys are for the first one.
    name_in_file = str(names[0] if isinstance(names, list) and names else names)
    if name_in_file == name:
        return
    use = f"{spots['use'].label} {quoted(name)}"
    for key in ("model", "command", "args"):
        spot = spots.get(key)
        if spot is not None and spot is file.spots.get(("agent", key)):
            spot.wrong_key(
                f"{spot.label} is for the agent {quoted(name_in_file)}, not for {use};"
                " remove it"
            )


def _checked_external(subject: _Subject, use: Spot) -> Goal:
    """Report what the external agents lack; `use` is the spot of their names.

    Return the goal with their presets.
    """
    goal, catalog = subject.goal, subject.catalog
    name = goal.agent.use
    if name not in (COMMAND, ACP):
        _check_stream(subject, name)
    elif not goal.agent.command:
        use.wrong_key(
            f"the agent {quoted(name)} has no command;"
            ' write command = "..." beside it in [agent]'
        )
    for index, fallback in enumerate(goal.agent.fallbacks, 1):
        _check_fallback(subject, fallback, use.item(index))
    presets = dict(goal.agents)
    for agent in goal.agent.names:
        if agent in catalog.of_user and agent not in goal.agents:
            presets[agent] = catalog.preset(agent)
    if len(presets) == len(goal.agents):
        return goal
    # The run keeps the preset: a resumed run must not depend on the user's file.
    return goal.model_copy(update={"agents": presets})


def _check_fallback(subject: _Subject, name: str, spot: Spot) -> None:
    """Report an agent that cannot take over.

    It is unknown, has no command of its own, or does not support the goal's protocol.
    """
    goal, catalog = subject.goal, subject.catalog
    if name not in catalog.names:
        spot.wrong(f"{quoted(name)} is unknown; {catalog.hint(name)}")
        return
    if name in RESERVED_AGENTS:
        reason = "is built into goal"
        if name != BUILTIN:
            reason = "has no command of its own"
        spot.wrong(
            f"{quoted(name)} {reason}, so it cannot take over; name a program, or"
            " describe one in [agents.NAME]"
        )
        return
    preset = catalog.preset(name)
    # The protocol of the goal is for all of its agents.
    is_acp = protocol_of(goal.agent.alone(name), preset) == "acp"
    command = preset.acp if is_acp else preset.argv
    if not command:
        protocol = quoted(goal.agent.protocol or "")
        spot.wrong(
            f"{quoted(name)} does not support protocol = {protocol}, which is for all"
            " agents; remove one of the two"
        )
    _check_stream(subject, name)


def _check_stream(subject: _Subject, name: str) -> None:
    """Report a stream that no parser reads."""
    stream, streams = subject.catalog.preset(name).stream, (TEXT, *agent_names())
    if stream in streams:
        return
    # The stream is written in the goal only if the preset is.
    is_of_goal = name in subject.goal.agents
    path: Key = ("agents", name, "stream") if is_of_goal else ("agent", "use")
    subject.layer.spot(path, subject.problems).wrong_key(
        f"the stream {quoted(stream)} of the agent {quoted(name)} is unknown;"
        f" valid: {quoted_list(streams)}"
    )


def check_programs(
    goal: Goal, layer: GoalLayer, environ: Mapping[str, str], problems: Problems
) -> Goal:
    """Report a judge or critic program that cannot answer here.

    Report keys that do not fit it as well. Return the goal, with the preset in it if
    that is a file of the user. Raise GoalFileError if that file is not valid.
    """
    accounts: tuple[Account, ...] = ("judge", "critic")
    for account in accounts:
        catalog = AgentCatalog.of(goal.agents, environ)
        subject = _Subject(goal, layer, catalog, problems)
        goal = _checked_program(subject, account, environ)
    return goal


def _checked_program(
    subject: _Subject, account: Account, environ: Mapping[str, str]
) -> Goal:
    """Check one account as `check_programs` does."""
    goal, catalog = subject.goal, subject.catalog
    program = program_named(goal, account, environ)
    key = "use" if (account, "use") in subject.layer.values else "model"
    spot = subject.layer.spot((account, key), subject.problems)
    if program is None:
        near = _mistyped(goal.model_tables[account].model, catalog)
        if near:
            spot.wrong(
                'is neither "provider/model" nor an agent;'
                f" did you mean {quoted(near)}?"
            )
        return goal
    name = program.name
    is_reserved = name in RESERVED_AGENTS and not program.is_agents
    judges = _judges(goal)
    if name not in catalog.names or is_reserved:
        similar = nearest(name, judges)
        hint = f"did you mean {quoted(similar)}? " if similar else ""
        spot.wrong(
            f"{quoted(name)} is not an agent that can judge;"
            f" {hint}valid: {quoted_list(judges)}"
        )
        return goal
    preset = catalog.preset(name)
    reason = _unable(program, preset, goal, environ)
    if reason and not preset.judge.argv:
        reason += f'; write "provider/model", or one of {quoted_list(judges)}'
    if reason:
        spot.wrong(reason)
    for model_key in MODEL_KEYS:
        key_spot = subject.layer.spots.get((account, model_key))
        if key_spot is not None:
            key_spot.wrong_key(
                f"{key_spot.label} is for a model with an API, and {quoted(name)} is"
                " the program of an agent; remove it"
            )
    if name in catalog.of_user and name not in goal.agents:
        return goal.model_copy(update={"agents": {**goal.agents, name: preset}})
    return goal


def _judges(goal: Goal) -> list[str]:
    """Return the built-in agents and those of the goal that can judge."""
    presets = {name: parser_class(name).preset for name in sorted(BUILT_IN)}
    presets.update(goal.agents)
    return [name for name, preset in presets.items() if preset.judge.argv]


def _mistyped(name: str, catalog: AgentCatalog) -> str:
    """Return the agent that was probably meant by a name.

    The result is empty if the name may be that of a model.
    """
    if not is_bare(name) or name == AGENT_MODEL:
        return ""
    near = nearest(name, catalog.names)
    if near is None:
        return ""
    # The providers are imported only for a name that is probably wrong.
    from goalrunner.llm.endpoints import refuse_unknown_provider
    from goalrunner.llm.failure import ProviderFailure

    try:
        refuse_unknown_provider(name, {})
    except ProviderFailure:
        return near
    return ""


def _unable(
    program: NamedProgram, preset: Preset, goal: Goal, environ: Mapping[str, str]
) -> str:
    """Return why an agent's program cannot be the judge or critic; empty if it can.

    The text follows the name of the key.
    """
    from goalrunner.agents.program_files import program_path

    subject = quoted(program.name)
    if program.is_agents:
        subject = f'"agent" is {subject}, which'
    if not preset.judge.argv:
        return f"{subject} cannot judge: {NO_JUDGE}"
    if program.model and not (preset.model and "{model}" in preset.judge.argv):
        return (
            f"{subject} cannot choose a model; remove model, or write {{model}} in the"
            " [judge] argv of its preset"
        )
    if not program_path(preset, environ, [Path(goal.workspace.path or ".")]):
        install = f": {preset.install}" if preset.install else ""
        return (
            f"{subject} is not installed: the program {preset.judge.argv[0]} was not"
            f" found; install it{install}"
        )
    return ""


def _other_key(name: str) -> str:
    """Return what to write for a command line or a model in place of an agent."""
    if name.startswith((".", "/", "~")) or " " in name:
        command = quoted(name)
        return (
            "; for a command line write"
            f' agent = {{ use = "command", command = {command} }}'
        )
    return f"; for a model write model = {quoted(name)}" if "/" in name else ""


def _unfit_keys(goal: Goal, preset: Preset) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield keys of `[agent]` that the agent does not support.

    The text is the reason and what to do.
    """
    if goal.agent.use == BUILTIN:
        yield from _unfit_for_chat()
        return
    name = quoted(goal.agent.use)
    yield (
        CHAT_KEYS,
        f"is only for the built-in agent, and {name} does not support it; remove it",
    )
    if goal.agent.use not in (COMMAND, ACP):
        yield from _unfit_for_preset(goal, preset)
        return
    yield ("args", "model"), "is for agents with a preset; write it in command"
    if goal.agent.protocol not in (None, goal.agent.use):
        yield ("protocol",), f"does not fit use = {name}; remove it"


def _unfit_for_chat() -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the keys that the built-in agent does not support."""
    yield (
        ("command",),
        'needs use = "command" beside it (use = "acp" if the program speaks ACP)',
    )
    yield (
        ("args", "protocol"),
        'is for external agents; name one with use = "...", or remove it',
    )
    yield (
        PROGRAM_KEYS,
        "is for external agents; write turn_timeout for the built-in one, or remove it",
    )


def _unfit_for_preset(
    goal: Goal, preset: Preset
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the keys that an agent with a preset does not support."""
    name, table = quoted(goal.agent.use), f"[agents.{goal.agent.use}]"
    reason = f'is for use = "command" or "acp", and {name} has its own'
    remedy = "add words with args, or describe an agent in [agents.NAME]"
    yield ("command",), f"{reason}; {remedy}"
    is_acp = protocol_of(goal.agent, preset) == "acp"
    command, key = (preset.acp, "acp") if is_acp else (preset.argv, "argv")
    if not command:
        remedy = f'remove it, or write {key} = ["..."] in {table}'
        yield ("protocol",), f"is not supported by {name}; {remedy}"
    elif not (preset.model and any("{model}" in word for word in command)):
        remedy = f"remove it, or write model in {table}, and {{model}} in its {key}"
        yield ("model",), f"cannot be chosen for {name}; {remedy}"
