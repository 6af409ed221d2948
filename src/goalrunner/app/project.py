"""Detecting what a new goal can use: a project's tests, and agents of the machine."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from goalrunner.agents.facts import ways_of
from goalrunner.app.agent_findings import sign_in_finding
from goalrunner.app.external_agent import in_turn
from goalrunner.app.preflight import listed_files
from goalrunner.checking.start_files import is_test_file
from goalrunner.core.errors import UsageError
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
# It exists before the first `pnpm install`, unlike the lock file.
_WORKSPACE_OF_PNPM = "pnpm-workspace.yaml"
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
# Folders whose code is not what a goal is about.
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
# Files at the top that configure tools.
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
class DetectedCommand:
    """A test command, and what in the project names it."""

    command: str
    why: str


@dataclass(frozen=True)
class Project:
    """A project that was detected in a folder.

    `commands` are test commands, the best one first.
    """

    commands: tuple[DetectedCommand, ...] = ()
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
        active = program_outside(Path(program).name, environ, ())
        if "/" not in program:
            return active is not None
        path = folder / program
        # The program of an activated environment needs no path, which may be another
        # one for other people.
        is_active = (
            active is not None and active.parent.resolve() == path.parent.resolve()
        )
        return path.is_file() and not is_active

    paths = listed_files(folder, environ, "--cached", "--others", "--exclude-standard")
    project = detect(paths, read, has, _files_above(folder))
    return replace(project, problems=tuple(_problems(folder, paths)))


def _files_above(folder: Path) -> frozenset[str]:
    """Return the lock files that lie above a folder, within its repository."""
    if (folder / ".git").exists():
        return frozenset()
    above: list[Path] = []
    for parent in folder.resolve().parents:
        above.append(parent)
        if (parent / ".git").exists():
            break
    else:
        # Without a repository, a folder above belongs to something else.
        return frozenset()
    locks = {*PACKAGE_MANAGERS.values(), *PROJECT_RUNNERS.values()} - {""}
    names = locks | {_WORKSPACE_OF_PNPM}
    return frozenset(
        name for name in names if any((parent / name).is_file() for parent in above)
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
    tests = frozenset(path for path in names if _is_in_tests(path))
    commands = (*_python(names, tests, read, has, above), *_others(names, read, above))
    by_line = {command.command: command for command in commands}
    return Project(tuple(by_line.values()), _editable(names, tests), not names)


def _is_in_tests(path: str) -> bool:
    folders = path.split("/")[:-1]
    return is_test_file(path) or not _TEST_FOLDERS.isdisjoint(folders)


def _python(
    names: frozenset[str],
    tests: frozenset[str],
    read: Read,
    has: Callable[[str], bool],
    above: frozenset[str],
) -> Iterator[DetectedCommand]:
    """Yield the command of pytest or unittest, then those of tox and nox."""
    settings = read("pyproject.toml")
    tested = _pytest(names, read) or _unittest(names, tests)
    if tested:
        start = _start(tested.command, names | above, settings, has)
        yield replace(tested, command=f"{start}{tested.command}")
    if "tox.ini" in names:
        yield DetectedCommand("tox", "tox.ini")
    elif "[tool.tox" in settings:
        yield DetectedCommand("tox", "pyproject.toml: [tool.tox]")
    if "noxfile.py" in names:
        yield DetectedCommand("nox", "noxfile.py")


def _pytest(names: Iterable[str], read: Read) -> DetectedCommand | None:
    """Return the command of pytest, with the first file that is a sign of it.

    None if there is none.
    """
    for name_pattern, text_pattern in _PYTEST:
        for name in sorted(names):
            if not re.fullmatch(name_pattern, name):
                continue
            if re.search(text_pattern, read(name), re.MULTILINE):
                return DetectedCommand("pytest -q", name)
    return None


def _unittest(names: frozenset[str], tests: Iterable[str]) -> DetectedCommand | None:
    modules = [path for path in sorted(tests) if re.fullmatch(_TEST_MODULE, path)]
    if not modules:
        return None
    folder, slash, _ = modules[0].partition("/")
    command = "python3 -m unittest"
    # Discovery from the top does not enter a folder that is no package.
    if slash and f"{folder}/__init__.py" not in names:
        command = f"python3 -m unittest discover -s {folder}"
    return DetectedCommand(command, f"{modules[0]} uses unittest")


def _start(
    command: str, names: frozenset[str], settings: str, has: Callable[[str], bool]
) -> str:
    """Return how a command begins to run in the project's own environment.

    Empty if there is none.
    """
    for runner in ("uv", "poetry"):
        is_used = PROJECT_RUNNERS[runner] in names
        if runner == "poetry" and "[tool.poetry" in settings:
            is_used = True
        if is_used and has(runner):
            return f"{runner} run "
    program = command.partition(" ")[0]
    for folder in PROGRAM_FOLDERS:
        if has(f"{folder}/{program}"):
            return f"{folder}/"
    return ""


def _others(
    names: frozenset[str], read: Read, above: frozenset[str]
) -> Iterator[DetectedCommand]:
    """Yield the test commands of npm, cargo, go and make."""
    script = package_scripts(read("package.json")).get("test", "")
    # `npm init` writes a script that prints "no test specified".
    if script and "no test specified" not in script:
        manager = _package_manager(names | above)
        # `bun test` is bun's own test runner.
        command = "bun run test" if manager == "bun" else f"{manager} test"
        why = f"package.json: scripts.test is {' '.join(script.split())}"
        yield DetectedCommand(command, why)
    if "Cargo.toml" in names:
        yield DetectedCommand("cargo test", "Cargo.toml")
    if "go.mod" in names:
        yield DetectedCommand("go test ./...", "go.mod")
    for makefile in MAKEFILES:
        if makefile not in names:
            continue
        for target in make_targets(read(makefile)):
            if target in ("test", "tests", "check"):
                yield DetectedCommand(f"make {target}", f"{makefile}: target {target}")
                break
        # make reads only the first of them.
        break


def _package_manager(files: Collection[str]) -> str:
    """Return the package manager that a project uses, by its lock file."""
    if _WORKSPACE_OF_PNPM in files:
        return "pnpm"
    for manager, lock in PACKAGE_MANAGERS.items():
        if lock in files:
            return manager
    return "npm"


def _editable(names: frozenset[str], tests: frozenset[str]) -> tuple[str, ...]:
    """Return the source folders as patterns for `editable`.

    Empty if tests and sources are not in separate folders.
    """
    sources = {path for path in names - tests if _is_source(path)}
    folders = {path.partition("/")[0] for path in sources}
    if not tests or len(folders) > _MOST_FOLDERS:
        return ()
    if not all("/" in path for path in sources):
        # A source file at the top has no folder that a pattern could name.
        return ()
    for path in tests:
        if "/" in path and path.partition("/")[0] in folders:
            return ()
    return tuple(f"{folder}/**" for folder in sorted(folders))


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
        name = in_turn((self.name, *self.fallbacks))
        if self.model:
            name = f"built-in agent with {self.model}"
        return f"{name} ({self.note})" if self.note else name


PROVIDERS = (
    ("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5", "anthropic/claude-haiku-4-5"),
    ("OPENAI_API_KEY", "openai/gpt-5", "openai/gpt-5-mini"),
    ("GEMINI_API_KEY", "gemini/gemini-2.5-pro", "gemini/gemini-2.5-flash"),
)
"""The variable of a key, a model for the agent, and a cheaper one for the judge."""


def installed_agents(environ: Mapping[str, str]) -> tuple[InstalledAgent, ...]:
    """Return the external agents whose program is installed.

    Those with a key or a login come first.
    """
    agents: list[InstalledAgent] = []
    for name, preset in all_presets({}, environ).items():
        if any(way.is_installed for way in ways_of(preset, environ)):
            is_missing = sign_in_finding(name, preset, environ).state == "bad"
            agents.append(InstalledAgent(name, "not signed in" if is_missing else ""))
    return tuple(sorted(agents, key=lambda agent: bool(agent.note)))


def only_signed_in(agents: Sequence[InstalledAgent]) -> InstalledAgent | None:
    """Return the only agent, or the only one that is signed in; None without agents.

    Raise UsageError if there are more.
    """
    if len(agents) < 2:
        return agents[0] if agents else None
    signed_in = [agent for agent in agents if not agent.note]
    if len(signed_in) == 1:
        return signed_in[0]
    names = ", ".join(map(str, agents))
    raise UsageError(
        f"several agents can be used here, and none is chosen: {names}",
        f"choose one: --agent {agents[0].name}, or set GOAL_AGENT or GOAL_MODEL",
    )


def with_keys(environ: Mapping[str, str]) -> tuple[InstalledAgent, ...]:
    """Return the built-in agent with a model of each provider whose key is set."""
    agents: list[InstalledAgent] = []
    for key, model, _ in PROVIDERS:
        if environ.get(key, "").strip():
            agents.append(InstalledAgent(BUILTIN, f"{key} is set", model))
    return tuple(agents)


def judge_for(environ: Mapping[str, str], agent: InstalledAgent | None = None) -> str:
    """Return the judge of a new goal; empty if there is none.

    It is a model of a provider whose key is set, else the model of the built-in agent,
    else the program of a signed-in agent. Another program than that of the agent comes
    first.
    """
    chosen = environ.get("GOAL_JUDGE", "").strip()
    if chosen:
        return chosen
    for key, _, judge in PROVIDERS:
        if environ.get(key, "").strip():
            return judge
    if agent is not None and agent.model:
        return "agent"
    presets = all_presets({}, environ)
    programs: list[str] = []
    for candidate in installed_agents(environ):
        if not candidate.note and presets[candidate.name].judge.argv:
            programs.append(candidate.name)
    agent_name = agent.name if agent is not None else ""
    # A judge with tools could change files while it judges.
    programs.sort(key=lambda name: (name == agent_name, presets[name].judge.tools))
    return programs[0] if programs else ""
