"""What validators start, as far as their lines and scripts say.

It is read once, before round 1: what the agent later writes into a script must not
change which files and tools belong to the checks.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from goalrunner.checking.ignored_content import digest_of_path
from goalrunner.checking.protection import BEFORE, CHECKED, COMPARED, SCRIPT, USED
from goalrunner.core.goal_tables import RunVariable, ValidatorSpec
from goalrunner.core.shell_programs import Program
from goalrunner.core.tools import (
    CHECKERS,
    CONFIGURATION,
    CONFIGURED_BY_NAME,
    PACKAGE_MANAGERS,
    TEST_RUNNERS,
)
from goalrunner.records.run_folder import damaged, read_json, write_json
from goalrunner.validators.check_files import NAMED, STRICTNESS, FollowedLines, Role
from goalrunner.validators.recipes import file_text
from goalrunner.validators.spec_validator import variables_named

_NAME = re.compile(r"[A-Za-z][\w-]*")
_PATH = re.compile(r"[\w.][\w./+-]*")
_VARIABLE = re.compile(r"\$\w+|\$\{[^}]*\}")
# `test = "pytest -q"`, `"test": "jest"`, and lists and tables of commands
_COMMANDS = re.compile(
    r"^\s*(?:\"[\w:.-]+\"|[\w.-]+)\s*[=:]\s*"
    r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'"
    r"|\[(?:[^\]\n]*\n){0,30}[^\]\n]*\]|\{[^}\n]*\})",
    re.MULTILINE,
)
"""Settings of a manifest, which may be commands."""
_MOST_WORDS = 5_000
"""Words of one text in which paths are looked for."""
# The program, the module and the settings of a tool may have different names.
_OTHER_NAMES = {
    "basedpyright": "pyright",
    "dmypy": "mypy",
    "lint-imports": "importlinter",
    "py.test": "pytest",
    "ruff-check": "ruff",
    "ruff-format": "ruff",
}
_DRIVERS = {
    "tox": ("tox.ini", "tox.toml", "pyproject.toml"),
    "nox": ("noxfile.py",),
    "pre-commit": (".pre-commit-config.yaml",),
    "prek": (".pre-commit-config.yaml", "prek.toml"),
    "just": ("justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "invoke": ("tasks.py",),
    "inv": ("tasks.py",),
    "doit": ("dodo.py",),
    "rake": ("Rakefile",),
    "hatch": ("pyproject.toml", "hatch.toml"),
    "pytest": ("pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg"),
    **dict.fromkeys(("poe", "pdm", "poetry"), ("pyproject.toml",)),
    "composer": ("composer.json",),
    **dict.fromkeys(
        ("docker", "docker-compose", "podman"),
        ("compose.yaml", "docker-compose.yml", "Dockerfile"),
    ),
    **dict.fromkeys(PACKAGE_MANAGERS, ("package.json",)),
}
"""Programs that start others, with the files that say which."""
# Any other word of a script may be anything.
_KNOWN_TOOLS = frozenset(
    (*CONFIGURATION, *CONFIGURED_BY_NAME, *CHECKERS, *_DRIVERS, "rg")
)
# node, go and cargo also do other things than running tests.
_RUNNERS = frozenset(
    name
    for runner in TEST_RUNNERS
    for name in runner.programs.split()
    if name not in ("node", "go", "cargo")
)
# make and npm count by what they start.
_NEUTRAL = frozenset(
    "cd export set echo printf true : . source make gmake npm pnpm yarn bun".split()
)
_LINTING = {"cargo": ("clippy", "fmt", "check", "deny"), "go": ("vet", "fmt")}
"""Subcommands that run no tests, of programs that have others."""

_RULES: Mapping[Role, str] = {
    "before": BEFORE,
    "read": CHECKED,
    "work": CHECKED,
    "compared": COMPARED,
    "named": USED,
    "script": SCRIPT,
}
"""Why a file is protected, by its role."""


@dataclass(frozen=True)
class StartedChecks:
    """What validators start, as it was before the agent worked."""

    specs: tuple[ValidatorSpec, ...] = ()
    """The validators; `pass_env` also has the variables that their scripts name."""
    rules: dict[str, str] = field(default_factory=dict)
    """The files that belong to checks, and why."""
    tools: frozenset[str] = frozenset()
    """The known programs that they start, or that their scripts and settings name."""
    runs_tests: bool = True
    """False if all validators only lint, format or check types."""
    outside: tuple[str, ...] = ()
    """Files and folders outside of the workspace that they name, relative to it."""
    words: frozenset[str] = frozenset()
    """Digests of what may be a path in lines and scripts, but for the checked work."""
    lines: frozenset[str] = frozenset()
    """Digests of the lines and scripts themselves."""


class _Row(NamedTuple):
    """What is recorded of one validator."""

    variables: tuple[RunVariable, ...]
    roles: dict[str, Role]
    tools: tuple[str, ...]
    runs_tests: bool
    outside: tuple[str, ...]
    words: tuple[str, ...]
    lines: tuple[str, ...] = ()


def started_checks(
    specs: Sequence[ValidatorSpec],
    workspace: Path,
    record: Path | None = None,
    redact: Callable[[str], str] = str,
) -> StartedChecks:
    """Return what validators start. The paths are relative to the workspace.

    The scripts are read once, before the agent works, and kept in the file `record`
    for a resumed run; `redact` replaces secrets in what is written. Raise RecordError
    if that file is damaged or cannot be written.
    """
    rows = _recorded_rows(specs, workspace, record, redact)
    validators: list[ValidatorSpec] = []
    for row, spec in zip(rows, specs, strict=True):
        variables = tuple(dict.fromkeys((*spec.pass_env, *row.variables)))
        validators.append(spec.model_copy(update={"pass_env": variables}))
    outside = chain.from_iterable(row.outside for row in rows)
    return StartedChecks(
        specs=tuple(validators),
        rules=_rules_of(rows, specs),
        tools=frozenset(chain.from_iterable(row.tools for row in rows)),
        runs_tests=any(row.runs_tests for row in rows),
        outside=tuple(sorted(set(outside))),
        words=frozenset(chain.from_iterable(row.words for row in rows)),
        lines=frozenset(chain.from_iterable(row.lines for row in rows)),
    )


def _recorded_rows(
    specs: Sequence[ValidatorSpec],
    workspace: Path,
    record: Path | None,
    redact: Callable[[str], str],
) -> list[_Row]:
    """Return a row for each validator, from the record if there is one."""
    if record is None:
        return [_look(spec, workspace) for spec in specs]
    # Paths alone are kept: the name of a validator may be its command line, which may
    # hold a secret.
    rows: list[_Row] | None = read_json(record, list[_Row])
    if rows is None:
        rows = [_look(spec, workspace) for spec in specs]
        write_json(record, [_redacted(row, redact) for row in rows])
    if len(rows) != len(specs):
        raise damaged(record, f"it is about {len(rows)} validators, not {len(specs)}")
    return rows


def _rules_of(rows: Sequence[_Row], specs: Sequence[ValidatorSpec]) -> dict[str, str]:
    """Return the files of all validators, each with the rule of its strictest role.

    Of equally strict validators, the last one is named.
    """
    strictest: dict[str, Role] = {}
    rules: dict[str, str] = {}
    for row, spec in zip(rows, specs, strict=True):
        for path, role in row.roles.items():
            earlier_role = strictest.get(path, role)
            if STRICTNESS.index(role) >= STRICTNESS.index(earlier_role):
                strictest[path] = role
                rules[path] = f'{_RULES[role]} "{spec.name}"'
    return rules


def _look(spec: ValidatorSpec, workspace: Path) -> _Row:
    """Return what a validator starts, read from its line and its scripts."""
    followed = FollowedLines(spec, workspace)
    roles = dict(sorted(followed.roles.items()))
    started = [path for path, role in followed.roles.items() if role in NAMED]
    started_texts = [file_text(workspace / path) for path in started]
    scripts = "\n".join(started_texts)
    lines = "\n".join(line for line, _ in followed.read)
    tools = _with_driven_tools(_tools_in(f"{scripts}\n{lines}"), workspace / spec.cwd)
    # A callable and a line that is not understood may run tests.
    runs_tests = not tools.isdisjoint(_RUNNERS)
    for program in followed.programs:
        runs_tests = runs_tests or program is None or not _only_lints(program)
    words: set[str] = set()
    for line, folder in followed.read:
        words |= _paths_in(line, folder)
    # Each text has its own limit of words.
    for text in started_texts:
        words |= _paths_in(text, "")
    # Checks also name the work that they check, which the agent may make.
    words -= {path for path, role in roles.items() if _RULES[role] == CHECKED}
    # A word may be a secret.
    digests = tuple(sorted(map(digest_of_path, words)))
    read_lines = {digest_of_path(line) for line, _ in followed.read}
    return _Row(
        variables=variables_named(scripts),
        roles=roles,
        tools=tuple(sorted(tools)),
        runs_tests=runs_tests,
        outside=tuple(sorted(followed.outside)),
        words=digests,
        lines=tuple(sorted(read_lines)),
    )


def _with_driven_tools(tools: set[str], folder: Path) -> set[str]:
    """Return tools with those that the settings of drivers among them name."""
    settings_names: set[str] = set()
    for tool in tools:
        settings_names.update(_DRIVERS.get(tool, ()))
    driven: set[str] = set()
    for name in settings_names:
        text = file_text(folder / name)
        if name.endswith(("toml", "json")):
            # A manifest also lists dependencies, which are not started.
            text = "\n".join(_COMMANDS.findall(text))
        driven |= _tools_in(text)
    return tools | driven


def _paths_in(text: str, folder: str) -> set[str]:
    """Return what may be a path inside of the workspace in a text.

    The paths of the text are relative to a folder.
    """
    words = _PATH.findall(_VARIABLE.sub("", text))[:_MOST_WORDS]
    paths = {posixpath.normpath(posixpath.join(folder, word)) for word in words}
    return {path for path in paths if path != "." and not path.startswith("../")}


def _redacted(row: _Row, redact: Callable[[str], str]) -> _Row:
    """Return a row without secrets: a secret in a line may look like a path."""
    roles = {redact(path): role for path, role in row.roles.items()}
    return row._replace(roles=roles, outside=tuple(map(redact, row.outside)))


def _tools_in(text: str) -> set[str]:
    names = set(_NAME.findall(text))
    names |= {_OTHER_NAMES.get(name, name) for name in names}
    return names & (_KNOWN_TOOLS | {*_OTHER_NAMES.values()})


def _only_lints(program: Program) -> bool:
    """Return whether a program runs no tests.

    It is a linter, a formatter, a type checker, or only starts others.
    """
    name = program.words[0] if program.module else program.name
    if name in CHECKERS | _NEUTRAL:
        return True
    return "".join(program.words[1:2]) in _LINTING.get(name, ())
