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
"""Bytes; the longest string on a command line of Linux."""

_PLACEHOLDER = re.compile(r"\{(prompt|prompt_file|session|workspace)\}")
_READ_IT = "Read the file {path} whole, and do what it says: it holds your task, which is too long to be given here."


@dataclass(frozen=True)
class Invocation:
    """How a process is started. `prompt_file` must be removed after it."""

    argv: tuple[str, ...]
    stdin: bytes | None = None
    prompt_file: Path | None = None


@dataclass(frozen=True)
class Round:
    """The values of the placeholders of a command."""

    prompt: str
    workspace: Path
    session: str = ""
    model: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


def invocation(template: Sequence[str], said: Round, scratch: Callable[[str], Path]) -> Invocation:
    """Return the words of `template` with the placeholders replaced. A single word is a line for the shell.

    A prompt that is too long for a command line is written to a file that the agent is asked to read. Raise OSError if
    the file cannot be written.
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
    """Return the program that a command starts; empty if only the shell knows it."""
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
    """Return a line for `sh -c`. Values are its parameters, so that no prompt can become a command."""
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


@dataclass(frozen=True)
class ExternalAgent:
    """An agent as a goal names it. `env` is its whole environment, including its keys."""

    name: str
    preset: Preset
    workspace: Path
    env: Mapping[str, str]
    model: tuple[str, ...] = ()
    """The words of `{model}`."""
    args: tuple[str, ...] = ()
    """The words of `{args}`."""


def resolve_executables(preset: Preset, environ: Mapping[str, str], folder: Path) -> Preset:
    """Return the preset with the programs of all its commands resolved."""
    commands = {name: getattr(preset, name) for name in ("argv", "resume", "acp", "version")}
    return preset.model_copy(
        update={name: resolve_executable(words, environ, folder) for name, words in commands.items()}
    )


def resolve_executable(words: Sequence[str], environ: Mapping[str, str], folder: Path) -> tuple[str, ...]:
    """Return a command with the path of its program: the first one on PATH that is not in `folder`.

    An agent can write to `folder`, and a program that it puts there must not be started in place of the agent's. A
    program that exists only there was installed there by the user; its command stays as it is.
    """
    program = program_of(words)
    found = program_outside(program, environ, (folder,)) if program and not set(program) & {"/", "{"} else None
    if found is None:
        return tuple(words)
    if len(words) == 1:
        return (words[0].replace(program, shlex.quote(str(found)), 1),)
    return (str(found), *words[1:])
