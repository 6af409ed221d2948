"""The command line of one round: placeholders, quoting, and the path of the program."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.agent_preset import Preset
from goalrunner.system.launcher import SHELL, program_outside

LONGEST_WORD = 128 * 1024 - 1
"""Bytes; Linux takes no longer string on a command line."""

_PLACEHOLDER = re.compile(r"\{(prompt|prompt_file|session|workspace)\}")
_READ_IT = "Read the file {path} whole, and do what it says: it holds your task, which is too long to be given here."


@dataclass(frozen=True)
class Invocation:
    """How a process is started. `prompt_file` is to be removed after it."""

    argv: tuple[str, ...]
    stdin: bytes | None = None
    prompt_file: Path | None = None


@dataclass(frozen=True)
class Round:
    """What the placeholders of a command stand for in this round."""

    prompt: str
    workspace: Path
    session: str = ""
    model: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


def invocation(template: Sequence[str], said: Round, scratch: Callable[[str], Path]) -> Invocation:
    """The words of `template` filled in. One word alone is a line for the shell.

    A prompt that is too long for a word of a command line is put into a file, and the agent told to read that. Raises
    OSError where the file cannot be written.
    """
    needed = {match[1] for word in template for match in _PLACEHOLDER.finditer(word)}
    file = _write(scratch(".prompt.md"), said.prompt) if "prompt_file" in needed else None
    values = {"session": said.session, "workspace": str(said.workspace), "prompt_file": str(file or "")}
    values["prompt"] = said.prompt.replace("\0", "\ufffd")
    argv = _argv(template, values, said)
    if "prompt" in needed and any(len(os.fsencode(_encodable(word))) > LONGEST_WORD for word in argv):
        file = file or _write(scratch(".prompt.md"), said.prompt)
        argv = _argv(template, {**values, "prompt": _READ_IT.format(path=file)}, said)
    by_stdin = not needed & {"prompt", "prompt_file"}
    return Invocation(argv, said.prompt.encode("utf-8", "replace") if by_stdin else None, file)


def program_of(template: Sequence[str]) -> str:
    """The program that a command starts; empty where only the shell knows."""
    if len(template) != 1:
        return template[0] if template else ""
    words = template[0].split()
    plain = words and all(character.isalnum() or character in "_-./+" for character in words[0])
    return words[0] if plain and not any(character in template[0] for character in "|&;<>()$`\\\"'*?[#~=%\n") else ""


def _argv(template: Sequence[str], values: Mapping[str, str], said: Round) -> tuple[str, ...]:
    if len(template) == 1:
        return _shell(template[0], values, said)
    words: list[str] = []
    for word in template:
        if word == "{model}":
            words += said.model
        elif word == "{args}":
            words += said.args
        else:
            words.append(_PLACEHOLDER.sub(lambda match: values[match[1]], word))
    if "{args}" not in template:
        words += said.args
    return tuple(map(_encodable, words))


def _shell(line: str, values: Mapping[str, str], said: Round) -> tuple[str, ...]:
    """A line for `sh -c`. Values are its parameters and never part of it: no prompt can become a command."""
    given: list[str] = []

    def parameter(match: re.Match[str]) -> str:
        given.append(_encodable(values[match[1]]))
        return f'"${{{len(given)}}}"'

    filled = _PLACEHOLDER.sub(parameter, line)
    for placeholder, words in (("{model}", said.model), ("{args}", said.args)):
        if placeholder in filled:
            filled = filled.replace(placeholder, shlex.join(words))
        elif placeholder == "{args}" and words:
            filled = f"{filled} {shlex.join(words)}"
    return (SHELL, "-c", filled, "sh", *given)


def _encodable(word: str) -> str:
    return word.encode("utf-8", "replace").decode("utf-8")


def _write(path: Path, text: str) -> Path:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(handle, "wb") as file:  # noqa: PTH123 - a handle
        file.write(text.encode("utf-8", "replace"))
    return path


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


@dataclass(frozen=True)
class ExternalAgent:
    """An agent as a goal names it. `env` is its whole environment, its own keys included."""

    name: str
    preset: Preset
    workspace: Path
    env: Mapping[str, str]
    model: tuple[str, ...] = ()
    """The words that stand for `{model}`."""
    args: tuple[str, ...] = ()
    """The words that stand for `{args}`."""
