"""The command line of an agent, from the template in its preset."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.core.messages import clean
from goalrunner.system.launcher import SHELL

LONGEST_WORD = 128 * 1024 - 1
"""Bytes of the longest argument on Linux (MAX_ARG_STRLEN)."""

_PLACEHOLDER = re.compile(r"\{(prompt|prompt_file|session|workspace)\}")
_READ_IT = (
    "Read the file {path} whole, and do what it says: "
    "it holds your task, which is too long to be given here."
)


@dataclass(frozen=True)
class Invocation:
    """The command and the stdin of a process."""

    argv: tuple[str, ...]
    stdin: bytes | None = None
    prompt_file: Path | None = None
    """A file that must be removed after the end of the process."""


def invocation(
    template: Sequence[str],
    agent: ExternalAgent,
    scratch: Callable[[str], Path],
    prompt: str = "",
    session: str = "",
) -> Invocation:
    """Return the command of `template` with the placeholders replaced.

    A single word is a line for the shell. A prompt that is too long for a command line
    is written to a file that the agent is asked to read. Raise OSError if the file
    cannot be written.
    """
    prompt = clean(prompt)
    placeholders: set[str] = set()
    for word in template:
        placeholders.update(_PLACEHOLDER.findall(word))
    file = None
    if "prompt_file" in placeholders:
        file = _written(scratch(".prompt.md"), prompt)
    values = {
        "session": session,
        "workspace": str(agent.workspace),
        "prompt_file": str(file or ""),
        # An argument of a process cannot contain NUL.
        "prompt": prompt.replace("\0", "\ufffd"),
    }
    argv = _argv(template, values, agent)
    if "prompt" in placeholders and _is_too_long(argv):
        file = file or _written(scratch(".prompt.md"), prompt)
        values["prompt"] = _READ_IT.format(path=file)
        argv = _argv(template, values, agent)
    if placeholders & {"prompt", "prompt_file"}:
        return Invocation(argv, prompt_file=file)
    return Invocation(argv, prompt.encode(), file)


def _is_too_long(argv: Sequence[str]) -> bool:
    return any(len(os.fsencode(word)) > LONGEST_WORD for word in argv)


def _written(path: Path, text: str) -> Path:
    # Created first with its mode, so that no other user can ever read the prompt.
    path.touch(0o600, exist_ok=False)
    path.write_bytes(text.encode())
    return path


# Words of a line that are no programs, but commands of the shell itself.
_OF_THE_SHELL = frozenset({".", "command", "eval", "exec", "exit"})
# A line that starts one program: no quotes, variables, redirections or second commands.
_SIMPLE_LINE = re.compile(r"\s*[\w./+-]+(\s[\w\s./+:,@{}-]*)?")


def program_of(template: Sequence[str]) -> str:
    """Return the program that a command starts; empty if the shell determines it."""
    if len(template) != 1:
        return template[0] if template else ""
    if not _SIMPLE_LINE.fullmatch(template[0]):
        return ""
    words = template[0].split()
    program = words[0]
    if program in ("exec", "command") and len(words) > 1:
        program = words[1]
    if program.startswith("-") or program in _OF_THE_SHELL:
        return ""
    return program


def _argv(
    template: Sequence[str], values: Mapping[str, str], agent: ExternalAgent
) -> tuple[str, ...]:
    if len(template) == 1:
        return _shell(template[0], values, agent)
    words: list[str] = []
    for word in template:
        if word == "{model}":
            words += agent.model
        elif word == "{args}":
            words += agent.args
        else:
            words.append(_PLACEHOLDER.sub(lambda match: values[match[1]], word))
    # Options of most programs may follow the prompt.
    if "{args}" not in template:
        words += agent.args
    return tuple(words)


def _shell(
    line: str, values: Mapping[str, str], agent: ExternalAgent
) -> tuple[str, ...]:
    """Return a line for `sh -c`.

    Values are its parameters, so that no prompt can become a command.
    """
    parameters: list[str] = []

    def parameter(match: re.Match[str]) -> str:
        parameters.append(values[match[1]])
        return f'"${{{len(parameters)}}}"'

    filled = _PLACEHOLDER.sub(parameter, line)
    for placeholder, words in (("{model}", agent.model), ("{args}", agent.args)):
        if placeholder in filled:
            filled = filled.replace(placeholder, shlex.join(words))
        elif placeholder == "{args}" and words:
            filled = f"{filled} {shlex.join(words)}"
    return (SHELL, "-c", filled, "sh", *parameters)
