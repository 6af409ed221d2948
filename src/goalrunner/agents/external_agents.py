"""The external agents that a goal may name, and the command line of a round."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from goalrunner.agents.parser import AgentParser
from goalrunner.core.agent_preset import TEXT, Preset, Protocol
from goalrunner.core.errors import UsageError
from goalrunner.core.goal_tables import BUILTIN, AgentConfig
from goalrunner.core.messages import clean
from goalrunner.system.launcher import SHELL

ACP, COMMAND = "acp", "command"
"""Names of agents without a preset, which are described by `[agent] command` only."""

GROUP = "goalrunner.agents"
"""The entry-point group in which other packages register subclasses of AgentParser."""

_RESERVED = (BUILTIN, COMMAND, ACP)
BUILT_IN = {
    "claude": "Claude",
    "codex": "Codex",
    "gemini": "Gemini",
    "opencode": "OpenCode",
    "openhands": "OpenHands",
    "qwen": "Qwen",
}
"""Name of the agent -> its class in `builtin_agents`."""


def agent_names() -> tuple[str, ...]:
    """Return the names of the built-in and registered agents."""
    return tuple(sorted((*BUILT_IN, *registered_names())))


def registered_names() -> tuple[str, ...]:
    """Return the names of the agents that other packages have registered, without importing them."""
    from importlib.metadata import entry_points

    return tuple(
        sorted(entry_points(group=GROUP).names - {*BUILT_IN, TEXT, *_RESERVED})
    )


def parser_class(name: str) -> type[AgentParser]:
    """Return the class of a built-in or registered agent.

    Raise KeyError if there is none of that name, and UsageError if a registered one cannot be imported.
    """
    if name in BUILT_IN:
        module = import_module("goalrunner.agents.builtin_agents")
        found: type[AgentParser] = getattr(module, BUILT_IN[name])
        return found
    from importlib.metadata import entry_points

    points = entry_points(group=GROUP, name=name)
    if not points:
        raise KeyError(name)
    (point, *_) = points
    hint = f"repair or uninstall the package that registers it in the entry-point group {GROUP}"
    try:
        loaded = point.load()
    except Exception as error:
        raise UsageError(
            f"the agent {name} cannot be imported from {point.value}: {error}", hint
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, AgentParser)):
        raise UsageError(
            f"the agent {name}: {point.value} is not a subclass of AgentParser", hint
        )
    return loaded


def user_files(environ: Mapping[str, str]) -> dict[str, Path]:
    """Return the user's preset files by name: `$XDG_CONFIG_HOME/goal/agents/NAME.toml`, or below `~/.config`."""
    config, home = environ.get("XDG_CONFIG_HOME", ""), environ.get("HOME", "")
    folder = Path(
        config if Path(config).is_absolute() else Path(home, ".config"), "goal/agents"
    )
    paths = sorted(folder.glob("*.toml")) if folder.is_absolute() else []
    return {path.stem: path for path in paths if path.stem not in _RESERVED}


def protocol_of(config: AgentConfig, preset: Preset) -> Protocol:
    """Return the protocol of an external agent: the goal's, else "acp" for `use = "acp"` or without another command."""
    if config.protocol is not None:
        return config.protocol
    return "acp" if config.use == ACP or (preset.acp and not preset.argv) else "command"


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
    idle_timeout: float | None = None
    """Seconds without a sign of life after which a turn is ended; None: no limit."""


LONGEST_WORD = 128 * 1024 - 1
"""Bytes of the longest argument on Linux."""

_PLACEHOLDER = re.compile(r"\{(prompt|prompt_file|session|workspace)\}")
_READ_IT = "Read the file {path} whole, and do what it says: it holds your task, which is too long to be given here."


@dataclass(frozen=True)
class Invocation:
    """The command and the stdin of a process. `prompt_file` must be removed after its end."""

    argv: tuple[str, ...]
    stdin: bytes | None = None
    prompt_file: Path | None = None


def invocation(
    template: Sequence[str],
    agent: ExternalAgent,
    scratch: Callable[[str], Path],
    prompt: str = "",
    session: str = "",
) -> Invocation:
    """Return the command of `template` with the placeholders replaced. A single word is a line for the shell.

    A prompt that is too long for a command line is written to a file that the agent is asked to read. Raise OSError if
    the file cannot be written.
    """
    prompt = clean(prompt)
    needed = {match[1] for word in template for match in _PLACEHOLDER.finditer(word)}
    file = _written(scratch(".prompt.md"), prompt) if "prompt_file" in needed else None
    values = {
        "session": session,
        "workspace": str(agent.workspace),
        "prompt_file": str(file or ""),
    }
    values["prompt"] = prompt.replace("\0", "\ufffd")
    argv = _argv(template, values, agent)
    if "prompt" in needed and any(
        len(os.fsencode(word)) > LONGEST_WORD for word in argv
    ):
        file = file or _written(scratch(".prompt.md"), prompt)
        argv = _argv(template, {**values, "prompt": _READ_IT.format(path=file)}, agent)
    return Invocation(
        argv, None if needed & {"prompt", "prompt_file"} else prompt.encode(), file
    )


def _written(path: Path, text: str) -> Path:
    path.touch(0o600, exist_ok=False)
    path.write_bytes(text.encode())
    return path


_OF_THE_SHELL = frozenset({".", "command", "eval", "exec", "exit"})


def program_of(template: Sequence[str]) -> str:
    """Return the program that a command starts; empty if the shell determines it."""
    if len(template) != 1:
        return template[0] if template else ""
    if not re.fullmatch(r"\s*[\w./+-]+(\s[\w\s./+:,@{}-]*)?", template[0]):
        return ""
    words = template[0].split()
    started = (
        words[1] if words[0] in ("exec", "command") and len(words) > 1 else words[0]
    )
    return "" if started.startswith("-") or started in _OF_THE_SHELL else started


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
    if "{args}" not in template:
        words += agent.args
    return tuple(words)


def _shell(
    line: str, values: Mapping[str, str], agent: ExternalAgent
) -> tuple[str, ...]:
    """Return a line for `sh -c`. Values are its parameters, so that no prompt can become a command."""
    given: list[str] = []

    def parameter(match: re.Match[str]) -> str:
        given.append(values[match[1]])
        return f'"${{{len(given)}}}"'

    filled = _PLACEHOLDER.sub(parameter, line)
    for placeholder, words in (("{model}", agent.model), ("{args}", agent.args)):
        if placeholder in filled:
            filled = filled.replace(placeholder, shlex.join(words))
        elif placeholder == "{args}" and words:
            filled = f"{filled} {shlex.join(words)}"
    return (SHELL, "-c", filled, "sh", *given)
