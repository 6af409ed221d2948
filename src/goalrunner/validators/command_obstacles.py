"""What only a person can correct in a validator's command line, seen in its output."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from goalrunner.core.ports import HIDDEN
from goalrunner.core.runner_calls import calls
from goalrunner.core.shell_programs import Program, programs
from goalrunner.core.tools import PYTEST, PYTHON_TOOLS
from goalrunner.core.verdict import ValidatorResult
from goalrunner.system.child import NOT_EXECUTABLE
from goalrunner.system.launcher import SHELL
from goalrunner.validators.missing_programs import missing_words
from goalrunner.validators.node_packages import uninstalled_packages
from goalrunner.validators.spec_validator import CheckPlace

# "/usr/bin/python3: No module named pytest"
_NO_MODULE = re.compile(
    r"^(\S*(?:python|pypy)[0-9.]*): No module named ([\w.]+)$", re.MULTILINE
)
# "pytest: error: unrecognized arguments: --cov=src"
_UNKNOWN_OPTION = re.compile(
    r"^(\S+): error: unrecognized arguments: (.+)$", re.MULTILINE
)
_OF_PLUGINS = re.compile(
    r"-n|--(?:(?:no-)?cov|asyncio|benchmark|create-db|dist|ds=|html|json-report"
    r"|maxprocesses|mypy|nbval|nomigrations"
    r"|numprocesses|randomly|reruns|reuse-db|ruff|snapshot|timeout)"
)
"""Beginnings of options of pytest that a plugin brings, rather than a conftest.py."""
# "Missing required plugins: pytest-django", and what `-p NAME` prints
_NO_PLUGIN = re.compile(
    r"^.*(?:Missing required plugins: .+"
    r"|Error importing plugin \"(?P<plugin>[^\"]+)\":"
    r" No module named '(?P<module>[^']+)'.*)$",
    re.MULTILINE,
)
# Two plugins, or two versions of one, that pytest does not load together.
_CONFLICT = re.compile(
    r"^.*(?:PluginValidationError: .+|ValueError: option names? .*already added.*"
    r"|ArgumentError: .*conflicting option string.*)$",
    re.MULTILINE,
)
# The traceback of an error that is not one of a test.
_INTERNAL_FRAME = re.compile(
    r"^INTERNALERROR> +File \"([^\"]+)\", line \d+", re.MULTILINE
)
_INTERNAL_ERROR = re.compile(
    r"^INTERNALERROR> ((?:\w+\.)*\w+(?:Error|Exception|Warning)\b.*)$", re.MULTILINE
)
_NO_DOCKER = re.compile(
    r"^.*(?:Cannot connect to the Docker daemon"
    r"|permission denied while trying to connect to the Docker"
    r"|error during connect:|Cannot connect to Podman).*$",
    re.MULTILINE,
)
_CONTAINERS = frozenset({"docker", "docker-compose", "podman", "podman-compose"})
_LONGEST = 200
"""Characters of a message of a program."""


def obstacle(
    result: ValidatorResult, place: CheckPlace, *, at_start: bool = False
) -> str:
    """Return why a validator's own line cannot work on this machine, and what helps.

    Empty if it can. A missing script, module or test may be what the agent is to
    create. So may a program that a script of the workspace needs. `at_start`: before
    round 1, so that not even the settings of pytest are the agent's.
    """
    # From the most certain sign to the least.
    if why := _missing_tool(result):
        return why
    if at_start and (why := uninstalled_packages(result, place)):
        return why
    # The shell itself says which program is missing.
    if result.reason == "not_found":
        return _not_started(result, place)
    if "Illegal option -o pipefail" in result.feedback and "pipefail" in result.command:
        return f"{SHELL} does not know `set -o pipefail`; write bash -c '...'"
    if why := _no_containers(result):
        return why
    if option := _refused_option(result, at_start=at_start):
        where = "the goal file or pytest's settings" if at_start else "the goal file"
        hint = f"install its plugin, or remove it from {where}"
        return f"pytest does not know {option}; {hint}"
    if refusal := _refused_by_tool(result):
        return refusal
    # Later, the agent may have written what stops pytest.
    return _pytest_cannot_start(result.feedback, place) if at_start else ""


def missing_in_pipe(result: ValidatorResult, output: str, place: CheckPlace) -> str:
    """Return that a program of a pipeline was not found; else empty.

    Its exit code was lost in the pipeline.
    """
    for program in programs(result.command):
        is_piped = program.lost is not None and program.lost.how == "|"
        if not is_piped or program.fallback or program.optional:
            continue
        for missing in missing_words(program, place):
            name = re.escape(missing.name)
            message = rf"^.*\b{name}: (?:command )?not found$"
            if re.search(message, output, re.MULTILINE):
                return str(missing)
    return ""


def unexecutable_script(
    result: ValidatorResult, place: CheckPlace, goal_text: str
) -> str:
    """Return that a script of the workspace cannot be executed.

    Empty if it can, or if the goal names the script. Validators see their own scripts
    in their original state, so the work cannot change this.
    """
    if result.exit_code != NOT_EXECUTABLE:
        return ""
    for program in programs(result.command):
        start = _start_of(program, place)
        is_script = start.cannot_execute and start.path.is_file()
        if not is_script or not start.path.is_relative_to(place.workspace):
            continue
        if start.path.name not in goal_text:
            return f"{start.word} cannot be executed; chmod +x {start.word}"
    return ""


def _missing_tool(result: ValidatorResult) -> str:
    """Return that a tool is missing which `python -m` starts; else empty."""
    no_module = _NO_MODULE.search(result.feedback)
    if no_module is None or result.exit_code != 1:
        return ""
    python, module = no_module.groups()
    is_started = any(
        program.module and program.words[0] == module
        for program in programs(result.command)
    )
    if not is_started or module not in PYTHON_TOOLS:
        return ""
    install = f"{python} -m pip install {module.replace('_', '-')}"
    hint = f"{install}, with [workspace] setup if the goal has one"
    return f"No module named {module}; {hint}"


def _no_containers(result: ValidatorResult) -> str:
    """Return that the container service that a line needs does not run; else empty."""
    message = _NO_DOCKER.search(result.feedback)
    if message is None:
        return ""
    if not any(program.name in _CONTAINERS for program in programs(result.command)):
        return ""
    first_sentence = message[0].strip().partition(". ")[0][:_LONGEST]
    return f"{first_sentence}; start it, or name another command in the goal file"


def _refused_option(result: ValidatorResult, *, at_start: bool) -> str:
    """Return an option of a pytest plugin that pytest did not accept; else empty.

    After round 1 it must be one of the line itself: the agent may have written another
    one into the settings.
    """
    refused = _UNKNOWN_OPTION.search(result.feedback)
    if refused is None:
        return ""
    options_of_line: set[str] = set()
    for call in calls(result.command):
        if call.runner is PYTEST:
            options_of_line |= {word.partition("=")[0] for word in call.arguments}
    # pytest lists all options that it does not know, with their values.
    for word in refused[2].split():
        option = word.partition("=")[0]
        if not at_start and option not in options_of_line:
            continue
        if _OF_PLUGINS.match(word):
            return option
    return ""


def _refused_by_tool(result: ValidatorResult) -> str:
    """Return that a tool does not know an option of the line itself; else empty."""
    # The work may bring an option of pytest, in conftest.py, but none of these tools.
    tools = PYTHON_TOOLS - {PYTEST.name}
    for program in programs(result.command):
        if program.name.replace("-", "_") not in tools:
            continue
        for name, arguments in _UNKNOWN_OPTION.findall(result.feedback):
            refused_words = [
                word for word in arguments.split() if word in program.words[1:]
            ]
            if name == program.name and refused_words:
                return (
                    f"{name} does not know {refused_words[0]}; correct the command in"
                    " the goal file"
                )
    return ""


def _pytest_cannot_start(feedback: str, place: CheckPlace) -> str:
    """Return that a plugin of pytest is missing, or plugins do not work together.

    Empty if pytest started, or if the work may be the reason.
    """
    missing = _NO_PLUGIN.search(feedback)
    if missing and _is_installable(missing["plugin"], missing["module"], place):
        return f"pytest cannot start: {_message(missing[0])}; install the plugin"
    conflict = _CONFLICT.search(feedback)
    if conflict:
        hint = "correct the versions of its plugins"
        return f"pytest cannot start: {_message(conflict[0])}; {hint}"
    frames = _INTERNAL_FRAME.findall(feedback)
    error = _INTERNAL_ERROR.search(feedback)
    if error is None or not frames:
        return ""
    if any(_is_of_project(frame, place) for frame in frames):
        return ""
    message = f"pytest and its plugins do not work together: {error[1][:_LONGEST]}"
    return f"{message}; correct their versions"


def _is_installable(plugin: str | None, module: str | None, place: CheckPlace) -> bool:
    """Return whether a plugin is no module of the work, and itself is what is missing.

    pytest names none if `required_plugins` is what it misses.
    """
    if not plugin:
        return True
    top = plugin.partition(".")[0]
    is_of_work = any((place.folder / name).exists() for name in (top, f"{top}.py"))
    return f"{plugin}.".startswith(f"{module}.") and not is_of_work


def _message(line: str) -> str:
    """Return a line without the marks that pytest puts before an error."""
    marks = r"^(?:INTERNALERROR> |E +|ERROR: |ImportError: )+"
    return re.sub(marks, "", line.strip())[:_LONGEST]


def _is_of_project(path: str, place: CheckPlace) -> bool:
    """Return whether a file belongs to the work, not to its environment of packages."""
    absolute = Path(os.path.normpath(place.folder / path))
    is_inside = absolute.is_relative_to(place.workspace)
    return is_inside and "site-packages" not in absolute.parts


def _not_started(result: ValidatorResult, place: CheckPlace) -> str:
    """Return why a program of the line itself could not be started.

    The summary of the result is the message of the shell.
    """
    message = result.summary
    if message == f"{SHELL}: not found":
        return message
    if HIDDEN in message:
        hint = 'name its real folder in PATH, or write [workspace] sandbox = "none"'
        return f"{message}; {hint}"
    for program in programs(result.command):
        for missing in missing_words(program, place):
            # As a whole word: the message may be about `./name`.
            name = rf"(?<![\w./-]){re.escape(missing.name)}(?![\w./-])"
            if re.search(name, message):
                return str(missing)
        start = _start_of(program, place)
        # The agent may create a program in the workspace.
        is_outside = not start.path.is_relative_to(place.workspace)
        if start.cannot_execute and start.word in message and is_outside:
            return f"{message}; correct its path, or provide {start.path}"
    return ""


class _Start(NamedTuple):
    """How a program of a line is started."""

    word: str
    """The word for it, with variables expanded."""
    path: Path

    @property
    def cannot_execute(self) -> bool:
        """Whether it is started by its path, and there is no such program."""
        return "/" in self.word and not os.access(self.path, os.X_OK)


def _start_of(program: Program, place: CheckPlace) -> _Start:
    def value_of(variable: re.Match[str]) -> str:
        return place.env.get(variable[1], variable[0])

    first_word = program.words[0] if program.words else ""
    word = re.sub(r"\$\{?(\w+)\}?", value_of, first_word)
    path = Path(os.path.normpath(place.folder / program.folder / word))
    return _Start(word, path)
