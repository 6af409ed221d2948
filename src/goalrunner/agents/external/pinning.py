"""Which program a command starts, by its whole path. Owns that choice; starts nothing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.agents.external.invocation import program_of
from goalrunner.model.preset import Preset
from goalrunner.process.program import program_outside


def pinned(preset: Preset, environ: Mapping[str, str], folder: Path) -> Preset:
    """The preset with every program of its commands by its path."""
    commands = {name: getattr(preset, name) for name in ("argv", "resume", "acp", "version")}
    return preset.model_copy(update={name: pinned_words(words, environ, folder) for name, words in commands.items()})


def pinned_words(words: Sequence[str], environ: Mapping[str, str], folder: Path) -> tuple[str, ...]:
    """A command with its program by its path: the first on PATH that does not lie in `folder`.

    An agent can write `folder`, and PATH may begin in there: what it puts there under its own name is not started in its
    place. One that is nowhere else stays as it is: then that is where its user has installed it.
    """
    program = program_of(words)
    if not program or "/" in program or "{" in program:
        return tuple(words)
    found = program_outside(program, environ, (folder,))
    if found is None:
        return tuple(words)
    if len(words) == 1:
        return (words[0].replace(program, shlex.quote(str(found)), 1),)
    return (str(found), *words[1:])
