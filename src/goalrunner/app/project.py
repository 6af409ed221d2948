"""Detecting a project's test command and layout, and the agents and keys of the
machine, to propose a goal.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from goalrunner.agents.facts import ways_of
from goalrunner.app.external_agent import in_turn, sign_in_finding
from goalrunner.app.preflight import listed_files
from goalrunner.checking.start_files import is_test_file
from goalrunner.core.goal_tables import BUILTIN
from goalrunner.core.tools import (
    MAKEFILES,
    PACKAGE_MANAGERS,
    PROGRAM_FOLDERS,
    PROJECT_RUNNERS,
)
from goalrunner.goalfile.agents import all_presets
from goalrunner.system.launcher import program_outside
from goalrunner.validators.recipes import make_targets, package_scripts

# Entries of `editable`; with more source folders, the default protection of tests is
# enough.
_MOST_FOLDERS = 6
_WORKSPACE_OF_PNPM = "pnpm-workspace.yaml"  # there before the first `pnpm install`
_SOURCES = {
    "py",
    "js",
    "jsx",
    "ts",
    "tsx",
    "mjs",
    "cjs",
    "rs",
    "go",
    "c",
    "h",
    "cc",
    "cpp",
    "java",
    "kt",
    "rb",
    "php",
}
_NO_SOURCES = {
    "docs",
    "doc",
    "examples",
    "example",
    "benchmarks",
    "bench",
    "scripts",
    "tools",
    "ci",
    "node_modules",
}
_NO_MODULES = {"setup.py", "conftest.py", "noxfile.py", "build.rs", "gulpfile.js"}
_TEST_FOLDERS = {"test", "tests", "spec", "specs", "__tests__", "testing", "e2e"}
_TEST_MODULE = r"(.*/)?(test\w*|\w+_tests?)\.py"
_PYTEST = (
    (r"pyproject\.toml", r"^\[tool\.pytest"),
    (r"pytest\.ini|tox\.ini", r"^\[pytest\]"),
    (r"setup\.cfg", r"^\[tool:pytest\]"),
    (
        r"pyproject\.toml|[\w-]*requirements[^/]*",
        r"""^\s*["']?pytest\b|["']pytest["'<>=~\[ -]""",
    ),
    (r"(.*/)?conftest\.py", ""),
    (_TEST_MODULE, r"^(?:import pytest|from pytest |(?:async )?def test_)"),
)
"""Signs of pytest: patterns of a file's name and of its text."""
_FORMATS = {
    "package.json": json.loads,
    "pyproject.toml": tomllib.loads,
    "Cargo.toml": tomllib.loads,
}

# Returns the text of a file of the project; empty if there is none.
Read = Callable[[str], str]


@dataclass(frozen=True)
class Found:
    """A test command, and what in the project names it."""

    command: str
    why: str


@dataclass(frozen=True)
class Project:
    """A project that was detected in a folder.

    `commands` are test commands, the best one first.
    """

    commands: tuple[Found, ...] = ()
    editable: tuple[str, ...] = ()
    is_empty: bool = False
    # Files that cannot be read and may name a command, and why.
    problems: tuple[str, ...] = ()


def detect_project(folder: Path, environ: Mapping[str, str]) -> Project:
    """Return the project that is detected in a folder."""

    def read(name: str) -> str:
        try:
            return (folder / name).read_text("utf-8-sig", errors="replace")
        except OSError:
            return ""

    def has(program: str) -> bool:
        path, active = (
            folder / program,
            program_outside(Path(program).name, environ, ()),
        )
        if "/" not in program:
            return active is not None
        # The program of an activated environment needs no path, which may be another
        # one for other people.
        return path.is_file() and not (
            active is not None and active.parent.resolve() == path.parent.resolve()
        )

    paths = listed_files(folder, environ, "--cached", "--others", "--exclude-standard")
    return replace(
        detect(paths, read, has, _files_above(folder)),
        problems=tuple(_problems(folder, paths)),
    )


def _files_above(folder: Path) -> frozenset[str]:
    """Return the lock files that lie above a folder, within its repository."""
    parents = list(folder.resolve().parents)
    roots = [
        number
        for number, parent in enumerate((folder, *parents))
        if (parent / ".git").exists()
    ]
    above = parents[: roots[0]] if roots else []
    locks = {*PACKAGE_MANAGERS.values(), *PROJECT_RUNNERS.values()} - {""}
    wanted = locks | {_WORKSPACE_OF_PNPM}
    return frozenset(
        name for name in wanted if any((parent / name).is_file() for parent in above)
    )


def _problems(folder: Path, paths: Iterable[str]) -> Iterator[str]:
    for name in sorted(_FORMATS.keys() & set(paths)):
        try:
            _FORMATS[name]((folder / name).read_text("utf-8-sig"))
        except (OSError, ValueError, RecursionError) as error:
            yield f"{name} cannot be read: {getattr(error, 'strerror', None) or error}"


def detect(
    paths: Iterable[str],
    read: Read,
    has: Callable[[str], bool],
    above: frozenset[str] = frozenset(),
) -> Project:
    """Return the project with files at these paths.

    `has` returns whether a program is installed, and of a path, whether it is needed to
    start the program. `above` are the lock files above the folder.
    """
    names = frozenset(paths)
    tests = frozenset(
        path
        for path in names
        if is_test_file(path) or not _TEST_FOLDERS.isdisjoint(path.split("/")[:-1])
    )
    commands = (*_python(names, tests, read, has, above), *_others(names, read, above))
    return Project(
        tuple({found.command: found for found in commands}.values()),
        _editable(names, tests),
        not names,
    )


def _python(
    names: frozenset[str],
    tests: frozenset[str],
    read: Read,
    has: Callable[[str], bool],
    above: frozenset[str],
) -> Iterator[Found]:
    """Yield the command of pytest or unittest, then those of tox and nox."""
    settings = read("pyproject.toml")
    if tested := _pytest(names, read) or _unittest(names, tests):
        yield replace(
            tested,
            command=f"{_start(tested.command, names | above, settings, has)}{tested.command}",
        )
    if "tox.ini" in names or "[tool.tox" in settings:
        yield Found(
            "tox", "tox.ini" if "tox.ini" in names else "pyproject.toml: [tool.tox]"
        )
    if "noxfile.py" in names:
        yield Found("nox", "noxfile.py")


def _pytest(names: Iterable[str], read: Read) -> Found | None:
    """Return the command of pytest, with the first file that is a sign of it; None if
    there is none.
    """
    for name_pattern, text_pattern in _PYTEST:
        for name in sorted(names):
            if re.fullmatch(name_pattern, name) and re.search(
                text_pattern, read(name), re.MULTILINE
            ):
                return Found("pytest -q", name)
    return None


def _unittest(names: frozenset[str], tests: Iterable[str]) -> Found | None:
    modules = [path for path in sorted(tests) if re.fullmatch(_TEST_MODULE, path)]
    if not modules:
        return None
    folder, slash, _ = modules[0].partition("/")
    is_package = not slash or f"{folder}/__init__.py" in names
    command = (
        "python3 -m unittest"
        if is_package
        else f"python3 -m unittest discover -s {folder}"
    )
    return Found(command, f"{modules[0]} uses unittest")


def _start(
    command: str, names: frozenset[str], settings: str, has: Callable[[str], bool]
) -> str:
    """Return what a command begins with to run in the project's own environment; empty
    if there is none.
    """
    program = command.partition(" ")[0]
    for runner in ("uv", "poetry"):
        is_used = PROJECT_RUNNERS[runner] in names or (
            runner == "poetry" and "[tool.poetry" in settings
        )
        if is_used and has(runner):
            return f"{runner} run "
    return next(
        (f"{folder}/" for folder in PROGRAM_FOLDERS if has(f"{folder}/{program}")), ""
    )


def _others(
    names: frozenset[str], read: Read, above: frozenset[str]
) -> Iterator[Found]:
    """Yield the test commands of npm, cargo, go and make."""
    script = package_scripts(read("package.json")).get("test", "")
    if script and "no test specified" not in script:
        files = names | above
        locks = PACKAGE_MANAGERS.items()
        locked = next((manager for manager, lock in locks if lock in files), "npm")
        manager = "pnpm" if _WORKSPACE_OF_PNPM in files else locked
        command = "bun run test" if manager == "bun" else f"{manager} test"
        yield Found(
            command, f"package.json: scripts.test is {' '.join(script.split())}"
        )
    if "Cargo.toml" in names:
        yield Found("cargo test", "Cargo.toml")
    if "go.mod" in names:
        yield Found("go test ./...", "go.mod")
    makefile = next((name for name in MAKEFILES if name in names), "")
    targets = make_targets(read(makefile)) if makefile else {}
    target = next(
        (target for target in targets if target in ("test", "tests", "check")), ""
    )
    if target:
        yield Found(f"make {target}", f"{makefile}: target {target}")


def _editable(names: frozenset[str], tests: frozenset[str]) -> tuple[str, ...]:
    """Return the source folders as patterns for `editable`; empty if tests and sources
    are not in separate folders.
    """
    sources = {path for path in names - tests if _is_source(path)}
    tops = {path.partition("/")[0] for path in sources}
    mixed = any("/" in path and path.partition("/")[0] in tops for path in tests)
    if (
        mixed
        or not tests
        or len(tops) > _MOST_FOLDERS
        or not all("/" in path for path in sources)
    ):
        return ()
    return tuple(f"{top}/**" for top in sorted(tops))


def _is_source(path: str) -> bool:
    first, _, _ = path.partition("/")
    is_code = path.rpartition(".")[2] in _SOURCES and not path.startswith(".")
    is_config = "/" not in path and (path in _NO_MODULES or ".config." in path)
    return is_code and first not in _NO_SOURCES and not is_config


@dataclass(frozen=True)
class InstalledAgent:
    """An agent that can be used here.

    `note` says what it still needs; `model` is that of the built-in agent.

    `fallbacks` are the agents that take over from it.
    """

    name: str
    note: str = ""
    model: str = ""
    fallbacks: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it in words."""
        name = (
            f"built-in agent with {self.model}"
            if self.model
            else in_turn((self.name, *self.fallbacks))
        )
        return f"{name} ({self.note})" if self.note else name


PROVIDERS = (
    ("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5", "anthropic/claude-haiku-4-5"),
    ("OPENAI_API_KEY", "openai/gpt-5", "openai/gpt-5-mini"),
    ("GEMINI_API_KEY", "gemini/gemini-2.5-pro", "gemini/gemini-2.5-flash"),
)
"""The variable of a key, a model for the agent, and a cheaper one for the judge."""


def installed_agents(environ: Mapping[str, str]) -> tuple[InstalledAgent, ...]:
    """Return the external agents whose program is installed, those with a key or a
    login first.
    """
    found = []
    for name, preset in all_presets({}, environ).items():
        if any(way.is_installed for way in ways_of(preset, environ)):
            is_missing = sign_in_finding(name, preset, environ).state == "bad"
            found.append(InstalledAgent(name, "not signed in" if is_missing else ""))
    return tuple(sorted(found, key=lambda agent: bool(agent.note)))


def with_keys(environ: Mapping[str, str]) -> tuple[InstalledAgent, ...]:
    """Return the built-in agent with a model of each provider whose key is set."""
    return tuple(
        InstalledAgent(BUILTIN, f"{key} is set", model)
        for key, model, _ in PROVIDERS
        if environ.get(key, "").strip()
    )


def judge_for(environ: Mapping[str, str], agent: InstalledAgent | None = None) -> str:
    """Return the judge of a new goal: a model of a provider whose key is set, else the
    model of the built-in agent, else the program of a signed-in agent; empty if
    there is none.

    Another program than that of the agent comes first.
    """
    chosen = environ.get("GOAL_JUDGE", "").strip()
    chosen = chosen or next(
        (judge for key, _, judge in PROVIDERS if environ.get(key, "").strip()), ""
    )
    if chosen or (agent is not None and agent.model):
        return chosen or "agent"
    presets = all_presets({}, environ)
    signed_in = [
        each.name
        for each in installed_agents(environ)
        if not each.note and presets[each.name].judge.argv
    ]
    name = agent.name if agent is not None else ""
    signed_in.sort(key=lambda each: (each == name, presets[each].judge.tools))
    return next(iter(signed_in), "")
