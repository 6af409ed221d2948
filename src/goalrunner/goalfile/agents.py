"""The agents that a goal may name, and their presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from goalrunner.agents.external_agents import (
    ACP,
    COMMAND,
    agent_names,
    parser_class,
    user_files,
)
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import UsageError, nearest, quoted, quoted_list
from goalrunner.core.events import Account
from goalrunner.core.field_types import FROM_FILE
from goalrunner.core.goal import RESERVED_AGENTS, Goal
from goalrunner.core.goal_tables import AGENT_MODEL, BUILTIN, AgentConfig
from goalrunner.goalfile.invalid_values import report_invalid
from goalrunner.goalfile.problems import Problems, Spot, ValueSource
from goalrunner.goalfile.toml_text import parse, read_text


@dataclass(frozen=True)
class AgentCatalog:
    """The agents that a goal may name: its own, the user's, and the built-in ones."""

    of_goal: Mapping[str, Preset] = field(default_factory=dict)
    """The presets in the goal's `[agents]`."""
    of_user: Mapping[str, Path] = field(default_factory=dict)
    """The user's preset files."""

    @classmethod
    def of(
        cls, of_goal: Mapping[str, Preset], environ: Mapping[str, str]
    ) -> AgentCatalog:
        """Return the agents for a goal with the presets `of_goal`."""
        return cls(of_goal, user_files(environ))

    @property
    def names(self) -> tuple[str, ...]:
        """All names, those without a preset first."""
        names = {*agent_names(), *self.of_user, *self.of_goal}
        return (*RESERVED_AGENTS, *sorted(names))

    def preset(self, name: str) -> Preset:
        """Return the preset.

        Raise GoalFileError for an invalid preset file, KeyError for an unknown name.
        """
        # The nearest description counts: a goal may replace a preset of the user.
        if name in self.of_goal:
            return self.of_goal[name]
        if name in (BUILTIN, COMMAND, ACP):
            return Preset()
        if name in self.of_user:
            path = self.of_user[name]
            return preset_of_text(read_text(path), str(path))
        return parser_class(name).preset

    def hint(self, name: str) -> str:
        """Return the hint for an unknown name: the nearest name and the valid ones."""
        valid = f"valid: {quoted_list(self.names)}"
        near = nearest(name, self.names)
        return f"did you mean {quoted(near)}? {valid}" if near else valid


NO_JUDGE = "its preset has no [judge] command that answers without tools"
"""Why an agent cannot be a judge."""


@dataclass(frozen=True)
class NamedProgram:
    """An agent whose program is the judge or critic."""

    name: str
    model: str = ""
    """The model of the program; empty: its default."""
    is_agents: bool = False
    """Whether it is named as the goal's own agent: `judge = "agent"`."""


def program_named(
    goal: Goal, account: Account, environ: Mapping[str, str]
) -> NamedProgram | None:
    """Return the agent that the goal names as judge or critic.

    Return None if the goal names a model, or nothing.
    """
    config, agent = goal.model_tables[account], goal.agent
    if isinstance(config, AgentConfig):
        return None
    if config.use:
        return NamedProgram(config.use, config.model)
    if config.model == AGENT_MODEL:
        if not agent.external:
            return None
        return NamedProgram(agent.use, agent.model, is_agents=True)
    if not is_bare(config.model) or config.model in RESERVED_AGENTS:
        return None
    catalog = AgentCatalog.of(goal.agents, environ)
    return NamedProgram(config.model) if config.model in catalog.names else None


def is_bare(name: str) -> bool:
    """Return whether a name may be that of an agent.

    Models have a provider before a slash or a colon.
    """
    return bool(name) and not set(name) & set("/: ")


def preset_named(
    name: str, of_goal: Mapping[str, Preset], environ: Mapping[str, str]
) -> Preset:
    """Return the preset of that name, for a goal with the presets `of_goal`.

    Raise GoalFileError for an invalid preset file, and UsageError for an unknown name.
    """
    catalog = AgentCatalog.of(of_goal, environ)
    try:
        return catalog.preset(name)
    except KeyError:
        message = f"there is no agent {quoted(name)}"
        raise UsageError(message, catalog.hint(name)) from None


def all_presets(
    of_goal: Mapping[str, Preset], environ: Mapping[str, str]
) -> dict[str, Preset]:
    """Return all presets by name, for a goal with the presets `of_goal`.

    Raise GoalFileError for an invalid preset file.
    """
    catalog = AgentCatalog.of(of_goal, environ)
    names = [name for name in catalog.names if name not in RESERVED_AGENTS]
    return {name: catalog.preset(name) for name in names}


def preset_of_text(text: str, name: str) -> Preset:
    """Return the preset in the text of the file `name`.

    Raise GoalFileError with all problems at once.
    """
    table, positions = parse(text, name)
    source = ValueSource(Problems(), positions=positions)
    try:
        return Preset.model_validate(table, context=FROM_FILE)
    except ValidationError as error:
        report_invalid(error, Preset, lambda path: Spot(source, path))
        source.problems.raise_any(name)
        raise
