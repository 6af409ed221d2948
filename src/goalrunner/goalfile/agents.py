"""The agents that a goal may name, and the check that its keys fit its agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from goalrunner.agents.external_agents import (
    ACP,
    BUILT_IN,
    COMMAND,
    agent_names,
    parser_class,
    protocol_of,
    user_files,
)
from goalrunner.core.agent_preset import TEXT, Preset
from goalrunner.core.errors import UsageError, nearest, quoted, quoted_list
from goalrunner.core.events import Account
from goalrunner.core.field_types import FROM_FILE
from goalrunner.core.goal import RESERVED_AGENTS, Goal
from goalrunner.core.goal_tables import AGENT_MODEL, BUILTIN, AgentConfig
from goalrunner.goalfile.layers import (
    GoalLayer,
    Problems,
    Spot,
    ValueSource,
    report_invalid,
)
from goalrunner.goalfile.toml_text import Key, parse, read_text


@dataclass(frozen=True)
class Known:
    """The agents that a goal may name: its own, those of the user, and the built-in ones."""

    own: Mapping[str, Preset] = field(default_factory=dict)
    """The presets in the goal's `[agents]`."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """The user's preset files."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names, those without a preset first."""
        return (*RESERVED_AGENTS, *sorted({*agent_names(), *self.files, *self.own}))

    def preset(self, name: str) -> Preset:
        """Return the preset. Raise GoalFileError for an invalid preset file, KeyError for an unknown name."""
        if name in self.own:
            return self.own[name]
        if name in (BUILTIN, COMMAND, ACP):
            return Preset()
        if name in self.files:
            return preset_of_text(read_text(self.files[name]), str(self.files[name]))
        return parser_class(name).preset

    def unknown(self, name: str) -> str:
        """Return the hint for an unknown name: the nearest name and the valid ones."""
        near = nearest(name, self.names)
        return f"{f'did you mean {quoted(near)}? ' if near else ''}valid: {quoted_list(self.names)}"


NO_JUDGE = "its preset has no [judge] command that answers without tools"
"""Why an agent cannot be a judge."""


@dataclass(frozen=True)
class NamedProgram:
    """An agent whose program is the judge or critic, and its model; empty: its default."""

    name: str
    model: str = ""
    is_agents: bool = False
    """Whether it is named as the goal's own agent: `judge = "agent"`."""


def program_named(
    goal: Goal, account: Account, environ: Mapping[str, str]
) -> NamedProgram | None:
    """Return the agent that the goal names as judge or critic; None if it names a model, or nothing.

    A bare name is that of an agent, if there is one; models have a provider before a slash.
    """
    config, agent = goal.model_tables[account], goal.agent
    if isinstance(config, AgentConfig):
        return None
    if config.use:
        return NamedProgram(config.use, config.model)
    if config.model == AGENT_MODEL:
        return (
            NamedProgram(agent.use, agent.model, is_agents=True)
            if agent.external
            else None
        )
    is_bare = bool(config.model) and not set(config.model) & set("/: ")
    known = Known(goal.agents, user_files(environ)).names if is_bare else ()
    return (
        NamedProgram(config.model)
        if config.model in known and config.model not in RESERVED_AGENTS
        else None
    )


def preset_named(
    name: str, own: Mapping[str, Preset], environ: Mapping[str, str]
) -> Preset:
    """Return the preset of that name, for a goal whose `[agents]` are `own`.

    Raise GoalFileError for an invalid preset file, and UsageError for an unknown name.
    """
    known = Known(own, user_files(environ))
    try:
        return known.preset(name)
    except KeyError:
        raise UsageError(
            f"there is no agent {quoted(name)}", known.unknown(name)
        ) from None


def all_presets(
    own: Mapping[str, Preset], environ: Mapping[str, str]
) -> dict[str, Preset]:
    """Return all presets by name; `own` are those of a goal. Raise GoalFileError for an invalid preset file."""
    known = Known(own, user_files(environ))
    return {
        name: known.preset(name) for name in known.names if name not in RESERVED_AGENTS
    }


def preset_of_text(text: str, name: str) -> Preset:
    """Return the preset in the text of the file `name`. Raise GoalFileError with all problems at once."""
    table, positions = parse(text, name)
    problems = Problems()
    try:
        return Preset.model_validate(table, context=FROM_FILE)
    except ValidationError as error:
        report_invalid(
            error,
            Preset,
            lambda path: Spot(ValueSource(problems, positions=positions), path),
        )
        problems.raise_any(name)
        raise


PROGRAM_KEYS = ("idle_timeout",)
"""Keys of `[agent]` that only external agents have."""
CHAT_KEYS = ("max_steps", "tools", "system_prompt", "params", "api_base", "api_key_env")
"""Keys of `[agent]` that only the built-in agent has."""


def check_agent(
    goal: Goal,
    layer: GoalLayer,
    file: GoalLayer,
    environ: Mapping[str, str],
    problems: Problems,
) -> Goal:
    """Report keys that do not fit the agent. Return the goal, with the preset in it if that is a file of the user.

    `file` contains the values of the goal file alone. Raise GoalFileError if the user's preset file is not valid.
    """
    name, known = goal.agent.use, Known(goal.agents, user_files(environ))
    spots = {
        str(key[1]): spot
        for key, spot in layer.spots.items()
        if len(key) == 2 and key[0] == "agent"
    }
    if name not in known.names:
        spots["use"].wrong(
            f"{quoted(name)} is unknown; {known.unknown(name)}{_meant(name)}"
        )
        return goal
    of_file = _first(file.values.get(("agent", "use"), BUILTIN))
    for key in ("model", "command", "args"):
        if (
            of_file != name
            and key in spots
            and spots[key] is file.spots.get(("agent", key))
        ):
            spot, named = spots[key], f"{spots['use'].label} {quoted(name)}"
            spot.wrong_key(
                f"{spot.label} is for the agent {quoted(of_file)}, not for {named}; remove it"
            )
    preset = known.preset(name)
    for keys, why in _unfit(goal, preset):
        for key in keys:
            if key in spots and not problems.excuses(spots[key].path):
                spots[key].wrong_key(f"{spots[key].label} {why}")
    if name != BUILTIN:
        return _checked_external(goal, known, spots["use"], layer, problems)
    if goal.agent.fallbacks:
        why = f"{quoted(BUILTIN)} cannot be one of several agents"
        spots["use"].item(0).wrong(f"{why}; name programs, such as claude and codex")
    return goal


def _checked_external(
    goal: Goal, known: Known, use: Spot, layer: GoalLayer, problems: Problems
) -> Goal:
    """Report what the external agents lack; `use` is the spot of their names. Return the goal with their presets."""
    name = goal.agent.use
    if name in (COMMAND, ACP):
        if not goal.agent.command:
            message = f'the agent {quoted(name)} has no command; write command = "..." beside it in [agent]'
            use.wrong_key(message)
    else:
        _check_stream(goal, name, known.preset(name), layer, problems)
    for index, fallback in enumerate(goal.agent.fallbacks, 1):
        _check_fallback(goal, fallback, use.item(index), known, layer, problems)
    own_files = [
        each
        for each in goal.agent.names
        if each in known.files and each not in goal.agents
    ]
    presets = {**goal.agents, **{each: known.preset(each) for each in own_files}}
    return goal.model_copy(update={"agents": presets}) if own_files else goal


def _first(use: object) -> str:
    """Return the name of the first agent in the value of `use`."""
    return str(use[0] if isinstance(use, list) and use else use)


def _check_fallback(
    goal: Goal,
    name: str,
    spot: Spot,
    known: Known,
    layer: GoalLayer,
    problems: Problems,
) -> None:
    """Report an agent that cannot take over: it is unknown, has no command of its own, or not the goal's protocol."""
    if name not in known.names:
        spot.wrong(f"{quoted(name)} is unknown; {known.unknown(name)}")
        return
    if name in RESERVED_AGENTS:
        why = "is built into goal" if name == BUILTIN else "has no command of its own"
        spot.wrong(
            f"{quoted(name)} {why}, so it cannot take over; name a program, or describe one in [agents.NAME]"
        )
        return
    preset = known.preset(name)
    if not (
        preset.acp
        if protocol_of(goal.agent.alone(name), preset) == "acp"
        else preset.argv
    ):
        why = f"{quoted(name)} does not support protocol = {quoted(goal.agent.protocol or '')}, which is for all agents"
        spot.wrong(f"{why}; remove one of the two")
    _check_stream(goal, name, preset, layer, problems)


def _check_stream(
    goal: Goal, name: str, preset: Preset, layer: GoalLayer, problems: Problems
) -> None:
    """Report a stream that no parser reads."""
    if preset.stream in (TEXT, *agent_names()):
        return
    place: Key = ("agents", name, "stream") if name in goal.agents else ("agent", "use")
    why = f"the stream {quoted(preset.stream)} of the agent {quoted(name)} is unknown"
    layer.spot(place, problems).wrong_key(
        f"{why}; valid: {quoted_list((TEXT, *agent_names()))}"
    )


MODEL_KEYS = ("params", "api_base", "api_key_env")
"""Keys of `[judge]` and `[critic]` that are for models with an API."""


def check_programs(
    goal: Goal, layer: GoalLayer, environ: Mapping[str, str], problems: Problems
) -> Goal:
    """Report a judge or critic that is an agent's program and cannot answer here, and keys that do not fit it.

    Return the goal, with the preset in it if that is a file of the user. Raise GoalFileError if that file is not valid.
    """
    accounts: tuple[Account, ...] = ("judge", "critic")
    for account in accounts:
        named = program_named(goal, account, environ)
        known = Known(goal.agents, user_files(environ))
        key = "use" if (account, "use") in layer.values else "model"
        spot = layer.spot((account, key), problems)
        if named is None:
            if near := _mistyped(goal.model_tables[account].model, known):
                spot.wrong(
                    f'is neither "provider/model" nor an agent; did you mean {quoted(near)}?'
                )
            continue
        if named.name not in known.names or (
            named.name in RESERVED_AGENTS and not named.is_agents
        ):
            able = _judging(goal)
            similar = nearest(named.name, able)
            meant = f"did you mean {quoted(similar)}? " if similar else ""
            spot.wrong(
                f"{quoted(named.name)} is not an agent that can judge; {meant}valid: {quoted_list(able)}"
            )
            continue
        preset = known.preset(named.name)
        if why := _unable(named, preset, goal, environ):
            spot.wrong(
                why
                if preset.judge.argv
                else f'{why}; write "provider/model", or one of {quoted_list(_judging(goal))}'
            )
        for wrong in (wrong for wrong in MODEL_KEYS if (account, wrong) in layer.spots):
            place = layer.spots[account, wrong]
            why = f"is for a model with an API, and {quoted(named.name)} is the program of an agent; remove it"
            place.wrong_key(f"{place.label} {why}")
        if named.name in known.files and named.name not in goal.agents:
            goal = goal.model_copy(
                update={"agents": {**goal.agents, named.name: preset}}
            )
    return goal


def _judging(goal: Goal) -> list[str]:
    """Return the built-in agents and those of the goal that can judge."""
    presets = {
        **{name: parser_class(name).preset for name in sorted(BUILT_IN)},
        **goal.agents,
    }
    return [name for name, preset in presets.items() if preset.judge.argv]


def _mistyped(name: str, known: Known) -> str:
    """Return the agent that was probably meant by a name; empty if the name may be that of a model."""
    from goalrunner.llm.endpoints import refuse_unknown_provider
    from goalrunner.llm.failure import ProviderFailure

    near = (
        nearest(name, known.names)
        if name and not set(name) & set("/: ") and name != AGENT_MODEL
        else None
    )
    if near is None:
        return ""
    try:
        refuse_unknown_provider(name, {})
    except ProviderFailure:
        return near
    return ""


def _unable(
    named: NamedProgram, preset: Preset, goal: Goal, environ: Mapping[str, str]
) -> str:
    """Return why an agent's program cannot be the judge or critic, after the name of the key; empty if it can."""
    from goalrunner.agents.program_files import program_path

    who = (
        f'"agent" is {quoted(named.name)}, which'
        if named.is_agents
        else quoted(named.name)
    )
    if not preset.judge.argv:
        return f"{who} cannot judge: {NO_JUDGE}"
    if named.model and not (preset.model and "{model}" in preset.judge.argv):
        return f"{who} cannot choose a model; remove model, or write {{model}} in the [judge] argv of its preset"
    if not program_path(preset, environ, [Path(goal.workspace.path or ".")]):
        install = f": {preset.install}" if preset.install else ""
        return f"{who} is not installed: the program {preset.judge.argv[0]} was not found; install it{install}"
    return ""


def _meant(name: str) -> str:
    """Return what to write for a command line or a model that is given as the name of an agent."""
    if name.startswith((".", "/", "~")) or " " in name:
        return f'; for a command line write agent = {{ use = "command", command = {quoted(name)} }}'
    return f"; for a model write model = {quoted(name)}" if "/" in name else ""


def _unfit(goal: Goal, preset: Preset) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield keys of `[agent]` that the agent does not support, with the reason and what to do."""
    name = quoted(goal.agent.use)
    if goal.agent.use == BUILTIN:
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
        return
    yield (
        CHAT_KEYS,
        f"is only for the built-in agent, and {name} does not support it; remove it",
    )
    if goal.agent.use in (COMMAND, ACP):
        yield ("args", "model"), "is for agents with a preset; write it in command"
        if goal.agent.protocol not in (None, goal.agent.use):
            yield ("protocol",), f"does not fit use = {name}; remove it"
        return
    why = f'is for use = "command" or "acp", and {name} has its own'
    yield (
        ("command",),
        f"{why}; add words with args, or describe an agent in [agents.NAME]",
    )
    is_acp = protocol_of(goal.agent, preset) == "acp"
    command, key = (preset.acp, "acp") if is_acp else (preset.argv, "argv")
    table = f"[agents.{goal.agent.use}]"
    if not command:
        yield (
            ("protocol",),
            f'is not supported by {name}; remove it, or write {key} = ["..."] in {table}',
        )
    elif not (preset.model and any("{model}" in word for word in command)):
        why = f"cannot be chosen for {name}; remove it"
        yield (
            ("model",),
            f"{why}, or write model in {table}, and {{model}} in its {key}",
        )
