"""The agents that a goal may name: finding them, and reading the files of the user's own. Owns no rule of a goal.

A name is looked up in the goal first, then in `$XDG_CONFIG_HOME/goal/agents/NAME.toml`, then among those that come along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.errors import UsageError
from goalrunner.goalfile.parsing import parse, read_text
from goalrunner.goalfile.presets import RESERVED, preset
from goalrunner.goalfile.problems import Problems, Source, Spot
from goalrunner.goalfile.wording import listed, quoted
from goalrunner.model.goal import CHAT
from goalrunner.model.preset import Preset
from goalrunner.presets import ACP, COMMAND, builtin_names, builtin_text, user_files


@dataclass(frozen=True)
class Known:
    """The agents that a goal may name: its own, those of the user, and those that come along."""

    own: Mapping[str, Preset] = field(default_factory=dict)
    """What the goal's `[agents]` holds."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """The user's own."""

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, those that are no presets first."""
        return (*RESERVED, *sorted({*builtin_names(), *self.files, *self.own}))

    def preset(self, name: str) -> Preset:
        """The one of that name. Raises GoalFileError for a user's file that does not hold, KeyError for no such name."""
        if name in self.own:
            return self.own[name]
        if name in (CHAT, COMMAND, ACP):
            return Preset()
        if name in self.files:
            return read_preset(self.files[name])
        if name in builtin_names():
            return preset_of_text(builtin_text(name), f"{name}.toml")
        raise KeyError(name)


def preset_named(name: str, own: Mapping[str, Preset], environ: Mapping[str, str]) -> Preset:
    """The preset of that name, for a goal whose `[agents]` are `own`.

    Raises GoalFileError for a file of the user's that does not hold, and UsageError where there is no such agent.
    """
    known = Known(own, user_files(environ))
    try:
        return known.preset(name)
    except KeyError:
        raise UsageError(f"there is no agent {quoted(name)}", f"valid: {listed(known.names)}") from None


def all_presets(own: Mapping[str, Preset], environ: Mapping[str, str]) -> dict[str, Preset]:
    """All that such a goal may name. Raises GoalFileError for a file of the user's that does not hold, used or not."""
    known = Known(own, user_files(environ))
    return {name: known.preset(name) for name in known.names if name not in RESERVED}


def read_preset(path: Path) -> Preset:
    """The preset in a file of the user's. Raises GoalFileError with everything that is wrong in it at once."""
    return preset_of_text(read_text(path), str(path), path.parent)


def preset_of_text(text: str, name: str, base: Path = Path("/")) -> Preset:
    """The same for a text; `name` stands for the file in messages. Raises GoalFileError."""
    table, positions = parse(text, name)
    problems = Problems()
    read = preset(table, Spot(Source(base=base, positions=positions), problems))
    problems.raise_any(name)
    return Preset.model_validate(read)
