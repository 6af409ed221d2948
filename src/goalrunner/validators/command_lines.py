"""What only a person can correct in a validator's command line: found before it runs, or in what it printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from goalrunner.core.ports import HIDDEN
from goalrunner.core.runner_calls import calls
from goalrunner.core.shell_programs import Program, programs
from goalrunner.core.tools import PROGRAM_FOLDERS, PYTEST, PYTHON_TOOLS
from goalrunner.core.verdict import ValidatorResult
from goalrunner.system.child import NOT_EXECUTABLE
from goalrunner.system.launcher import SHELL
from goalrunner.validators.spec_validator import CheckPlace

_PLAIN = re.compile(r"[\w.+@%,:/][\w.+@%,:/-]*")
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_BUILTINS = frozenset(
    """
    : [ [[ bg break cd command continue declare echo exec exit export false fc fg getopts jobs kill let local popd printf
    pushd pwd read readonly return set shift shopt test time times trap true type typeset ulimit umask unset wait
    """.split()
)
"""Commands of the shell itself that make no program available."""
_LOADING = frozenset({".", "source", "eval", "alias", "builtin", "hash"})
"""Commands after which the available programs are unknown."""
_TRANSPARENT = frozenset(
    "env exec command nohup nice timeout sh bash dash coverage".split()
)
"""Programs that look up what they start on the same PATH as the shell."""
_PARSE_TIMEOUT = 10.0
_NO_MODULE = re.compile(
    r"^(\S*(?:python|pypy)[0-9.]*): No module named ([\w.]+)$", re.MULTILINE
)
_UNKNOWN_OPTION = re.compile(
    r"^\S+: error: unrecognized arguments: (.+)$", re.MULTILINE
)
_OF_PLUGINS = re.compile(
    r"-n|--(?:(?:no-)?cov|asyncio|benchmark|create-db|dist|ds=|html|json-report|maxprocesses|mypy|nbval|nomigrations"
    r"|numprocesses|randomly|reruns|reuse-db|ruff|snapshot|timeout)"
)
"""Beginnings of options of pytest that a plugin brings, rather than a conftest.py."""
_NO_PLUGIN = re.compile(
    r"^.*(?:Missing required plugins: .+"
    r"|Error importing plugin \"(?P<plugin>[^\"]+)\": No module named '(?P<module>[^']+)'.*)$",
    re.MULTILINE,
)
_CONFLICT = re.compile(
    r"^.*(?:PluginValidationError: .+|ValueError: option names? .*already added.*"
    r"|ArgumentError: .*conflicting option string.*)$",
    re.MULTILINE,
)
_INTERNAL_FRAME = re.compile(
    r"^INTERNALERROR> +File \"([^\"]+)\", line \d+", re.MULTILINE
)
_INTERNAL_ERROR = re.compile(
    r"^INTERNALERROR> ((?:\w+\.)*\w+(?:Error|Exception|Warning)\b.*)$", re.MULTILINE
)
_NO_DOCKER = re.compile(
    r"^.*(?:Cannot connect to the Docker daemon|permission denied while trying to connect to the Docker"
    r"|error during connect:|Cannot connect to Podman).*$",
    re.MULTILINE,
)
_CONTAINERS = frozenset({"docker", "docker-compose", "podman", "podman-compose"})


def _path(place: CheckPlace) -> str:
    return place.env.get("PATH", os.defpath)


def _may_get_programs(place: CheckPlace) -> bool:
    """Return whether the work may put a program into a folder of PATH, rather than install a package there."""
    for entry in filter(None, _path(place).split(os.pathsep)):
        folder = Path(os.path.normpath(place.folder / entry))
        is_environment = (
            folder.name == ".bin" or (folder.parent / "pyvenv.cfg").exists()
        )
        if folder.is_relative_to(place.workspace) and not is_environment:
            return True
    return False


def syntax_error(line: str) -> str:
    """Return the shell's error for a line that it cannot parse; empty if it can. The line is not executed."""
    try:
        done = subprocess.run(
            [SHELL, "-n", "-c", line],
            env={},
            capture_output=True,
            timeout=_PARSE_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return ""
    message = done.stderr.decode(errors="replace").strip().partition("\n")[0]
    return (
        re.sub(r"^\S*sh: (?:-c: )?(?:line )?\d+: ", "", message)
        if done.returncode
        else ""
    )


def missing_program(line: str, place: CheckPlace) -> tuple[str, str] | None:
    """Return that the first program of a line is not on PATH, and a hint; None if it is, or if that is not certain."""
    for program in programs(line):
        is_certain = not (program.fallback or program.optional) and (
            program.lost is None or program.lost.how == "|"
        )
        if not is_certain or _is_unknown(program):
            return None
        if program.name not in _BUILTINS:
            return next(missing_words(program, place), None)
    return None


def _is_unknown(program: Program) -> bool:
    """Return whether it is unknown what a program runs, or which programs are available after it."""
    sets_path = any(
        "PATH=" in word for word in (*program.assignments, *program.words[:2])
    )
    return bool(program.problem) or sets_path or program.name in _LOADING


def missing_words(program: Program, place: CheckPlace) -> Iterator[tuple[str, str]]:
    """Yield a message and a hint for each word of a command that is looked up on PATH and not found."""
    if program.clean or _is_unknown(program):
        return
    for word in _looked_up(program):
        is_name = _PLAIN.fullmatch(word) and "/" not in word and word not in _BUILTINS
        if not is_name or shutil.which(word, path=_path(place)):
            continue
        if installed := _installed_here(word, place):
            yield f"{word}: not found", f"write {installed}"
        elif not _may_get_programs(place):
            yield (
                f"{word}: not found",
                f"install {word}, or name another program in the goal file",
            )


def _looked_up(program: Program) -> Iterator[str]:
    """Yield the words of a command that are looked up on PATH: its first one, and the program behind wrappers."""
    is_passed_on = all(
        name in _TRANSPARENT or _PYTHON.fullmatch(name) for name in program.through
    )
    if program.first_word and (is_passed_on or program.first_word in program.through):
        yield program.first_word
    if (
        is_passed_on
        and not program.module
        and program.words[:1] != (program.first_word,)
    ):
        yield from program.words[:1]


def _installed_here(name: str, place: CheckPlace) -> str:
    """Return the path of a program in an environment of the workspace; empty if there is none."""
    paths = (f"{folder}/{name}" for folder in PROGRAM_FOLDERS)
    return next((path for path in paths if os.access(place.folder / path, os.X_OK)), "")


def obstacle(
    result: ValidatorResult, place: CheckPlace, *, at_start: bool = False
) -> str:
    """Return why a validator's own command line cannot work on this machine, and what helps; empty if it can.

    A missing script, module or test may be what the agent is to create. So may a program that a script of the workspace
    needs. `at_start`: before round 1, so that not even the settings of pytest are the agent's.
    """
    if why := _missing_tool(result):
        return why
    if result.reason == "not_found":
        return _not_started(result, place)
    if "Illegal option -o pipefail" in result.feedback and "pipefail" in result.command:
        return f"{SHELL} does not know `set -o pipefail`; write bash -c '...'"
    if (found := _NO_DOCKER.search(result.feedback)) and _starts_containers(
        result.command
    ):
        return f"{found[0].strip().partition('. ')[0][:_LONGEST]}; start it, or name another command in the goal file"
    if option := _refused_option(result, at_start=at_start):
        return f"pytest does not know {option}; install its plugin, or remove it from {_WHERE[at_start]}"
    return _pytest_cannot_start(result.feedback, place) if at_start else ""


_WHERE = {False: "the goal file", True: "the goal file or pytest's settings"}
_LONGEST = 200


def _starts_containers(line: str) -> bool:
    return any(program.name in _CONTAINERS for program in programs(line))


def _pytest_cannot_start(feedback: str, place: CheckPlace) -> str:
    """Return that a plugin of pytest is missing, or that plugins do not work together; else empty."""
    missing = _NO_PLUGIN.search(feedback)
    if missing and (
        not missing["plugin"]
        or _is_installable(missing["plugin"], missing["module"], place)
    ):
        return f"pytest cannot start: {_message(missing[0])}; install the plugin"
    if conflict := _CONFLICT.search(feedback):
        return f"pytest cannot start: {_message(conflict[0])}; correct the versions of its plugins"
    frames = _INTERNAL_FRAME.findall(feedback)
    error = _INTERNAL_ERROR.search(feedback)
    if (
        error is None
        or not frames
        or any(_is_of_project(frame, place) for frame in frames)
    ):
        return ""
    return f"pytest and its plugins do not work together: {error[1][:_LONGEST]}; correct their versions"


def _is_installable(plugin: str, module: str, place: CheckPlace) -> bool:
    """Return whether a plugin is no module of the work, and itself is what is missing."""
    top = plugin.partition(".")[0]
    is_of_work = any((place.folder / name).exists() for name in (top, f"{top}.py"))
    return f"{plugin}.".startswith(f"{module}.") and not is_of_work


def _message(line: str) -> str:
    return re.sub(r"^(?:INTERNALERROR> |E +|ERROR: |ImportError: )+", "", line.strip())[
        :_LONGEST
    ]


def _is_of_project(path: str, place: CheckPlace) -> bool:
    """Return whether a file belongs to the work, and not to an environment of the project."""
    whole = Path(os.path.normpath(place.folder / path))
    return whole.is_relative_to(place.workspace) and "site-packages" not in whole.parts


def missing_in_pipe(result: ValidatorResult, output: str, place: CheckPlace) -> str:
    """Return that a program of a pipeline was not found, so that its exit code was lost; else empty."""
    for program in programs(result.command):
        if (
            program.lost is None
            or program.lost.how != "|"
            or program.fallback
            or program.optional
        ):
            continue
        for missing, hint in missing_words(program, place):
            name = re.escape(missing.partition(":")[0])
            if re.search(
                rf"^.*\b{name}: (?:command )?not found$", output, re.MULTILINE
            ):
                return f"{missing}; {hint}"
    return ""


def _missing_tool(result: ValidatorResult) -> str:
    """Return that a tool is missing which the line starts by `python -m`, and how it is installed; else empty."""
    found = _NO_MODULE.search(result.feedback) if result.exit_code == 1 else None
    if found is None:
        return ""
    python, module = found.groups()
    is_started = any(
        program.module and program.words[0] == module
        for program in programs(result.command)
    )
    if not is_started or module not in PYTHON_TOOLS:
        return ""
    hint = f"{python} -m pip install {module.replace('_', '-')}"
    return (
        f"No module named {module}; {hint}, with [workspace] setup if the goal has one"
    )


def _refused_option(result: ValidatorResult, *, at_start: bool) -> str:
    """Return an option that belongs to a plugin of pytest and that pytest did not accept; else empty.

    After round 1 it must be one of the line itself: the agent may have written another one into the settings.
    """
    arguments = [
        word
        for call in calls(result.command)
        if call.runner is PYTEST
        for word in call.arguments
    ]
    options = {word.partition("=")[0] for word in arguments}
    refused = _UNKNOWN_OPTION.search(result.feedback)
    for word in refused[1].split() if refused else ():
        option = word.partition("=")[0]
        if (at_start or option in options) and _OF_PLUGINS.match(word):
            return option
    return ""


def _not_started(result: ValidatorResult, place: CheckPlace) -> str:
    """Return why a program of the line itself could not be started; `summary` is the message of the shell."""
    message = result.summary
    if message == f"{SHELL}: not found":
        return message
    if HIDDEN in message:
        return f'{message}; name its real folder in PATH, or write [workspace] sandbox = "none"'
    for program in programs(result.command):
        for missing, hint in missing_words(program, place):
            if re.search(
                rf"(?<![\w./-]){re.escape(missing.partition(':')[0])}(?![\w./-])",
                message,
            ):
                return f"{missing}; {hint}"
        path, word = _path_of(program, place)
        if path and word in message and not path.is_relative_to(place.workspace):
            return f"{message}; correct its path, or provide {path}"
    return ""


def _path_of(program: Program, place: CheckPlace) -> tuple[Path | None, str]:
    """Return the path that a program is started by if it cannot be executed, and the word for it with variables expanded."""
    word = re.sub(
        r"\$\{?(\w+)\}?",
        lambda found: place.env.get(found[1], found[0]),
        (program.words[:1] or ("",))[0],
    )
    path = Path(os.path.normpath(place.folder / program.folder / word))
    return (None if "/" not in word or os.access(path, os.X_OK) else path), word


def unexecutable_script(
    result: ValidatorResult, place: CheckPlace, goal_text: str
) -> str:
    """Return that a script of the workspace cannot be executed; empty if it can, or if the goal names the script.

    Validators see their own scripts in their original state, so the work cannot change this.
    """
    if result.exit_code != NOT_EXECUTABLE:
        return ""
    for program in programs(result.command):
        script, word = _path_of(program, place)
        if (
            script is None
            or not script.is_file()
            or not script.is_relative_to(place.workspace)
        ):
            continue
        if script.name not in goal_text:
            return f"{word} cannot be executed; chmod +x {word}"
    return ""
