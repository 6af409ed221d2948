"""What only a person can correct in a validator's command line: found before it runs, or in what it printed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path

from goalrunner.core.ports import HIDDEN
from goalrunner.core.shell_programs import Program, programs
from goalrunner.core.verdict import ValidatorResult
from goalrunner.system.child import NOT_EXECUTABLE
from goalrunner.system.launcher import SHELL
from goalrunner.validators.check_files import make_targets, makefile_in, package_scripts, text_of
from goalrunner.validators.runners import PYTEST_NO_TESTS, PYTEST_USAGE, calls
from goalrunner.validators.spec_validator import Place

_PLAIN = re.compile(r"[\w.+@%,:/-]+")
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_BUILTINS = frozenset(
    """
    : [ [[ bg break cd command continue declare echo exec exit export false fc fg getopts jobs kill let local popd printf
    pushd pwd read readonly return set shift shopt test time times trap true type typeset ulimit umask unset wait
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Commands of the shell itself that make no program available."""
_LOADING = frozenset({".", "source", "eval", "alias", "builtin", "hash"})
"""Commands after which the available programs are unknown."""
_TRANSPARENT = frozenset("env exec command nohup nice timeout sh bash dash coverage".split())  # noqa: SIM905
"""Programs that look up what they start on the same PATH as the shell."""
_LOCAL = (".venv/bin", "venv/bin", "node_modules/.bin")
"""Folders of a workspace in which programs are installed."""
_PARSE_TIMEOUT = 10.0
_TOOLS = frozenset(
    """
    ruff mypy pyright flake8 pylint black isort bandit tox nox pytest unittest behave build coverage nose2 pip pre_commit
    sphinx twine uv
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Modules that are started with `python -m` to check or build a project. The agent's work does not provide them."""
_NO_MODULE = re.compile(r"^(\S*(?:python|pypy)[0-9.]*): No module named ([\w.]+)$", re.MULTILINE)
_UNKNOWN_OPTION = re.compile(r"^\S+: error: unrecognized arguments: (.+)$", re.MULTILINE)
_OF_PLUGINS = re.compile(r"-n|--(?:(?:no-)?cov|benchmark|dist|numprocesses|reruns|timeout)")
"""Beginnings of options of pytest that a plugin brings, rather than a conftest.py."""


def _path(place: Place) -> str:
    return place.env.get("PATH", os.defpath)


def _may_get_programs(place: Place) -> bool:
    """Return whether the work may put a program into a folder of PATH, rather than install a package there."""
    entries = (Path(os.path.normpath(place.folder / entry)) for entry in _path(place).split(os.pathsep) if entry)
    own = (entry for entry in entries if entry.is_relative_to(place.workspace))
    return any(folder.name != ".bin" and not (folder.parent / "pyvenv.cfg").exists() for folder in own)


def syntax_error(line: str) -> str:
    """Return the shell's error for a line that it cannot parse; empty if it can. The line is not executed."""
    try:
        done = subprocess.run(
            [SHELL, "-n", "-c", line], env={}, capture_output=True, timeout=_PARSE_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return ""
    message = done.stderr.decode(errors="replace").strip().partition("\n")[0]
    return re.sub(r"^\S*sh: (?:-c: )?(?:line )?\d+: ", "", message) if done.returncode else ""


def missing_program(line: str, place: Place) -> tuple[str, str] | None:
    """Return that the first program of a line is not on PATH, and a hint; None if it is, or if that is not certain."""
    for program in programs(line):
        command = program.command
        is_certain = not (command.fallback or command.optional) and (command.lost is None or command.lost.how == "|")
        if not is_certain or _is_unknown(program):
            return None
        if program.name not in _BUILTINS:
            return next(missing_words(program, place), None)
    return None


def _is_unknown(program: Program) -> bool:
    """Return whether it is unknown what a program runs, or which programs are available after it."""
    sets_path = any("PATH=" in word for word in (*program.assignments, *program.command.words[:2]))
    return bool(program.problem) or sets_path or program.name in _LOADING


def missing_words(program: Program, place: Place) -> Iterator[tuple[str, str]]:
    """Yield a message and a hint for each word of a command that is looked up on PATH and not found."""
    if program.clean or _is_unknown(program):
        return
    is_passed_on = all(name in _TRANSPARENT or _PYTHON.fullmatch(name) for name in program.through)
    words = [word for word in program.command.words[:1] if is_passed_on or word in program.through]
    words += program.words[:1] if is_passed_on and not program.module else ()
    for word in dict.fromkeys(words):
        is_name = _PLAIN.fullmatch(word) and "/" not in word and word not in _BUILTINS
        if is_name and shutil.which(word, path=_path(place)) is None:
            near = _similar_program(word, place)
            if near or not _may_get_programs(place):
                hint = f"did you mean {near}?" if near else f"install {word}, or name another program in the goal file"
                yield f"{word}: not found", hint


def _similar_program(name: str, place: Place) -> str:
    """Return the program that may be meant: one of the workspace's own environment, or one on PATH with a similar name."""
    for folder in _LOCAL:
        if os.access(place.folder / folder / name, os.X_OK):
            return f"{folder}/{name}"
    names: set[str] = set()
    for entry in filter(None, _path(place).split(os.pathsep)):
        with contextlib.suppress(OSError):  # it does not exist, or this user cannot read it
            names.update(path.name for path in Path(entry).iterdir())
    return misspelled(name, names)


def misspelled(word: str, known: Iterable[str]) -> str:
    """Return a name from which a word of four or more letters differs in one letter, but not in digits alone; else "".

    Affixes of test names (`test_`, `_test`) are not compared.
    """

    def differs_in_one(name: str) -> bool:
        one, other = stem(word), stem(name)
        longest, alike = max(len(one), len(other), 1), SequenceMatcher(None, one, other).ratio()
        return 4 <= longest <= longest * alike + 1 and re.sub(r"\d", "", one) != re.sub(r"\d", "", other)

    return next(filter(differs_in_one, get_close_matches(word, sorted(known), 5, 0.6)), "")


_AROUND = re.compile(r"^tests?_|_tests?(?=\.|$)|\..*")


def stem(path: str) -> str:
    """Return the name of a file without its extension and the affixes of test names."""
    return _AROUND.sub("", Path(path).name)


def obstacle(result: ValidatorResult, place: Place) -> str:
    """Return why a validator's own command line cannot work on this machine, and what helps; empty if it can.

    A missing script, module or test may be what the agent is to create. So may a program that a script of the workspace
    needs.
    """
    line, output = result.command, result.feedback
    module = _NO_MODULE.search(output) if result.exit_code == 1 else None
    if module and module[2] in _TOOLS and any(one.module and one.words[0] == module[2] for one in programs(line)):
        hint = f"{module[1]} -m pip install {module[2].replace('_', '-')}"
        return f"No module named {module[2]}; {hint}, in [workspace] setup if checks run in a fresh checkout"
    if result.reason == "not_found":
        return _not_started(result, place)
    if "Illegal option -o pipefail" in output and "pipefail" in line:
        return f"{SHELL} does not know `set -o pipefail`; write bash -c '...'"
    refused = _UNKNOWN_OPTION.search(output) if result.exit_code == PYTEST_USAGE else None
    own = {word.partition("=")[0] for call in calls(line) if call.runner.name == "pytest" for word in call.arguments}
    for option in (word.partition("=")[0] for word in (refused[1].split() if refused else ())):
        if option in own and _OF_PLUGINS.match(option):
            return f"pytest does not know {option}; install its plugin, or remove it from the goal file"
    return ""


def _not_started(result: ValidatorResult, place: Place) -> str:
    """Return why a program of the line itself could not be started; `summary` is the message of the shell."""
    message = result.summary
    if message == f"{SHELL}: not found":
        return message
    if HIDDEN in message:
        return f'{message}; name its real folder in PATH, or write [workspace] sandbox = "none"'
    for program in programs(result.command):
        for missing, hint in missing_words(program, place):
            if re.search(rf"(?<![\w./-]){re.escape(missing.partition(':')[0])}(?![\w./-])", message):
                return f"{missing}; {hint}"
        path, word = _path_of(program, place)
        if path and word in message and not path.is_relative_to(place.workspace):
            return f"{message}; correct its path, or provide {path}"
    return ""


def _path_of(program: Program, place: Place) -> tuple[Path | None, str]:
    """Return the path that a program is started by if it cannot be executed, and the word for it with variables expanded."""
    word = re.sub(r"\$\{?(\w+)\}?", lambda found: place.env.get(found[1], found[0]), (program.words[:1] or ("",))[0])
    path = Path(os.path.normpath(place.folder / program.folder / word))
    return (None if "/" not in word or os.access(path, os.X_OK) else path), word


_UNKNOWN = re.compile(
    r"^ERROR: (?:file or directory )?not found: (?P<test>.+)$"
    r"|^make: \*\*\* No rule to make target ['`](?P<target>[^']+)'\.  Stop"
    r"|\bMissing script: \"?(?P<script>[\w:.-]+)",
    re.MULTILINE,
)
"""How pytest, make, and npm or pnpm name what they do not find."""
_TESTS = re.compile(r"test_.*\.py|.*_test\.py|tests?\.py")
_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__", "venv", "env"})
_WRITES_TESTS = re.compile(r"\b(?:add|cover|create|extend|implement|write)\b[^.\n]*\btests?\b", re.IGNORECASE)
"""A goal's text that asks for tests."""
_FUNCTIONS = re.compile(r"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+(test\w*)", re.MULTILINE | re.IGNORECASE)


def mistyped(result: ValidatorResult, place: Place, goal_text: str) -> str:
    """Return a message if a line names something that does not exist at the baseline and is misspelled; else empty.

    Names in the goal's text may be what the agent is to create, and so may tests if the goal asks for tests.
    """
    if result.exit_code == PYTEST_NO_TESTS:
        return "" if _WRITES_TESTS.search(goal_text) else _folder_of_sources(result.command, place)
    for program in programs(result.command) if result.exit_code == NOT_EXECUTABLE else ():
        script, word = _path_of(program, place)
        # Validators see their own scripts in their original state, so the work cannot change this.
        if script and script.is_file() and script.is_relative_to(place.workspace) and not _names(goal_text, word):
            return f"{word} cannot be executed; chmod +x {word}"
    found = _UNKNOWN.search(result.feedback)
    word, near = _similar(found, place) if found else ("", "")
    is_work = _names(goal_text, word) or (found and found["test"] and _WRITES_TESTS.search(goal_text))
    return "" if not near or is_work or word not in result.command else f"{word} does not exist; did you mean {near}?"


def _similar(found: re.Match[str], place: Place) -> tuple[str, str]:
    """Return the name that was not found, and the existing one that is similar; empty if there is none."""
    if target := found["target"]:
        makefile = place.folder / (makefile_in(place.folder) or "Makefile")
        return target, misspelled(target, make_targets(text_of(makefile)))
    if script := found["script"]:
        return script, misspelled(script, package_scripts(text_of(place.folder / "package.json")))
    path, _, test = found["test"].partition("::")
    path = os.path.relpath(place.folder / path, str(place.folder))
    if not test:
        return path, _similar_path(path, place)
    name = test.rpartition("::")[2].partition("[")[0]
    return name, misspelled(name, _FUNCTIONS.findall(text_of(place.folder / path)))


def _names(text: str, path: str) -> bool:
    """Return whether a text contains the last part of a path, with or without the affixes of test names."""
    words = "|".join(re.escape(word) for word in {Path(path).name, stem(path)} if word)
    return bool(words) and re.search(rf"(?<![\w-])(?:{words})(?![\w-])", text, re.IGNORECASE) is not None


def _test_files(workspace: Path) -> list[Path]:
    """Return the files with tests, by the names that pytest looks for, relative to the workspace."""
    found: list[Path] = []
    for folder, folders, names in os.walk(workspace):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
        found += [Path(folder, name).relative_to(workspace) for name in sorted(names) if _TESTS.fullmatch(name)]
    return found


def _similar_path(path: str, place: Place) -> str:
    """Return the file or folder with tests that a path means: of the same name elsewhere, or of a similar one."""
    name, files = Path(path).name, _test_files(place.workspace)
    is_file = path.endswith(".py")
    known = set(files) if is_file else {folder for file in files for folder in file.parents if folder.name}
    near = name if name in {one.name for one in known} else misspelled(name, {one.name for one in known})
    if is_file and near != name and stem(near).removesuffix("s") == stem(name).removesuffix("s"):
        return ""  # a plural may be a new file
    same = sorted((one for one in known if one.name == near), key=lambda one: len(one.parts))
    return str(same[0]) if len(same) == 1 or (same and not is_file) else ""


def _folder_of_sources(line: str, place: Place) -> str:
    """Return the folder of sources in which a line looks for tests, and the one that has them; empty if none is certain."""
    files = _test_files(place.workspace)
    tops = {file.parts[0] for file in files if len(file.parts) > 1}
    for word in (word for call in calls(line) if call.runner.name == "pytest" for word in call.arguments):
        folder = place.folder / word
        has_tests = any((place.workspace / file).is_relative_to(folder) for file in files)
        if folder.is_dir() and not has_tests and any(folder.rglob("*.py")) and len(tops) == 1:
            return f"no tests collected in {word}; did you mean {min(tops)}?"
    return ""
