"""What validators start, and what the baseline shows of the checks: the files that tests were collected from."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from goalrunner.checking.ignored_content import digest_of_path
from goalrunner.checking.protection import BEFORE, CHECKED, COMPARED, SCRIPT, USED
from goalrunner.checking.start_files import ObservedChecks, language_of
from goalrunner.core.goal_tables import RunVariable, ValidatorSpec
from goalrunner.core.shell_programs import Program
from goalrunner.core.tools import (
    CHECKERS,
    CONFIGURATION,
    CONFIGURED_BY_NAME,
    PACKAGE_MANAGERS,
    TEST_RUNNERS,
)
from goalrunner.core.verdict import ValidatorResult
from goalrunner.records.run_folder import damaged, read_json, write_json
from goalrunner.validators.check_files import NAMED, STRICTNESS, FollowedLines, Role
from goalrunner.validators.recipes import file_text
from goalrunner.validators.spec_validator import variables_named

_NAME = re.compile(r"[A-Za-z][\w-]*")
_PATH = re.compile(r"[\w.][\w./+-]*")
_VARIABLE = re.compile(r"\$\w+|\$\{[^}]*\}")
_MOST_WORDS = 5_000
"""Words of one text in which paths are looked for."""
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
_KNOWN_TOOLS = frozenset(
    (*CONFIGURATION, *CONFIGURED_BY_NAME, *CHECKERS, *_DRIVERS, "rg")
)
_RUNNERS = frozenset(
    name
    for runner in TEST_RUNNERS
    for name in runner.programs.split()
    if name not in ("node", "go", "cargo")
)
_NEUTRAL = frozenset(
    "cd export set echo printf true : . source make gmake npm pnpm yarn bun".split()
)
_LINTING = {"cargo": ("clippy", "fmt", "check", "deny"), "go": ("vet", "fmt")}

_RULES: Mapping[Role, str] = {
    "before": BEFORE,
    "read": CHECKED,
    "work": CHECKED,
    "compared": COMPARED,
    "named": USED,
    "script": SCRIPT,
}


@dataclass(frozen=True)
class StartedChecks:
    """What validators start, as it was before the agent worked."""

    specs: tuple[ValidatorSpec, ...] = ()
    """The validators, with the variables that their scripts name in `pass_env`."""
    rules: dict[str, str] = field(default_factory=dict)
    """The files that belong to checks, and why."""
    tools: frozenset[str] = frozenset()
    """The known programs that they start, or that their scripts and settings name."""
    runs_tests: bool = True
    """False if all validators only lint, format or check types."""
    outside: tuple[str, ...] = ()
    """Files and folders outside of the workspace that they name, relative to it."""
    words: frozenset[str] = frozenset()
    """Digests of what may be a path in the lines and scripts, but for the work that they check."""


class _Row(NamedTuple):
    """What is recorded of one validator."""

    variables: tuple[RunVariable, ...]
    roles: dict[str, Role]
    tools: tuple[str, ...]
    runs_tests: bool
    outside: tuple[str, ...]
    words: tuple[str, ...]


def started_checks(
    specs: Sequence[ValidatorSpec],
    workspace: Path,
    record: Path | None = None,
    redact: Callable[[str], str] = str,
) -> StartedChecks:
    """Return what validators start. The paths are relative to the workspace.

    The scripts are read once, before the agent works, and kept in the file `record` for a resumed run; `redact` replaces
    secrets in what is written. Raise RecordError if that file is damaged or cannot be written.
    """
    # Paths alone are kept: the name of a validator may be its command line, which may hold a secret.
    rows: list[_Row] | None = None if record is None else read_json(record, list[_Row])
    if rows is None:
        rows = [_look(spec, workspace) for spec in specs]
        if record is not None:
            write_json(record, [_redacted(row, redact) for row in rows])
    if record is not None and len(rows) != len(specs):
        raise damaged(record, f"it is about {len(rows)} validators, not {len(specs)}")
    known: list[ValidatorSpec] = []
    found: dict[str, tuple[Role, str]] = {}
    for row, spec in zip(rows, specs, strict=True):
        known.append(
            spec.model_copy(
                update={
                    "pass_env": tuple(dict.fromkeys((*spec.pass_env, *row.variables)))
                }
            )
        )
        for path, role in row.roles.items():
            # Another validator may be stricter with a path.
            if path not in found or STRICTNESS.index(role) >= STRICTNESS.index(
                found[path][0]
            ):
                found[path] = role, f'{_RULES[role]} "{spec.name}"'
    return StartedChecks(
        tuple(known),
        {path: rule for path, (_, rule) in found.items()},
        frozenset(tool for row in rows for tool in row.tools),
        any(row.runs_tests for row in rows),
        tuple(sorted({path for row in rows for path in row.outside})),
        frozenset(word for row in rows for word in row.words),
    )


def _look(spec: ValidatorSpec, workspace: Path) -> _Row:
    found = FollowedLines(spec, workspace)
    texts = "\n".join(
        file_text(workspace / path)
        for path, role in found.roles.items()
        if role in NAMED
    )
    tools = _tools_in("\n".join((texts, *(line for line, _ in found.read))))
    for name in sorted({name for tool in tools for name in _DRIVERS.get(tool, ())}):
        text = file_text(workspace / spec.cwd / name)
        tools |= _tools_in(
            "\n".join(_COMMANDS.findall(text))
            if name.endswith(("toml", "json"))
            else text
        )
    runs_tests = any(
        program is None or not _only_lints(program) for program in found.programs
    )
    runs_tests = runs_tests or not tools.isdisjoint(_RUNNERS)
    roles = dict(sorted(found.roles.items()))
    work = {path for path, role in roles.items() if _RULES[role] == CHECKED}
    lines = [
        *found.read,
        *(
            (file_text(workspace / path), "")
            for path, role in roles.items()
            if role in NAMED
        ),
    ]
    words = {word for text, folder in lines for word in _paths_in(text, folder)} - work
    outside = tuple(sorted(found.outside))
    digests = tuple(sorted(map(digest_of_path, words)))  # a word may be a secret
    return _Row(
        variables_named(texts),
        roles,
        tuple(sorted(tools)),
        runs_tests,
        outside,
        digests,
    )


def _paths_in(text: str, folder: str) -> set[str]:
    """Return what may be a path inside of the workspace in a text whose paths are relative to a folder."""
    words = _PATH.findall(_VARIABLE.sub("", text))
    paths = {
        posixpath.normpath(posixpath.join(folder, word)) for word in words[:_MOST_WORDS]
    }
    return {path for path in paths if path != "." and not path.startswith("../")}


def _redacted(row: _Row, redact: Callable[[str], str]) -> _Row:
    """Return a row without secrets: any word of a validator's line may be taken for a path."""
    roles = {redact(path): role for path, role in row.roles.items()}
    return row._replace(roles=roles, outside=tuple(map(redact, row.outside)))


def _tools_in(text: str) -> set[str]:
    found = {_OTHER_NAMES.get(name, name) for name in _NAME.findall(text)} | {
        *_NAME.findall(text)
    }
    return found & (_KNOWN_TOOLS | {*_OTHER_NAMES.values()})


_COMMANDS = re.compile(
    r"^\s*(?:\"[\w:.-]+\"|[\w.-]+)\s*[=:]\s*(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|\[(?:[^\]\n]*\n){0,30}[^\]\n]*\]|\{[^}\n]*\})",
    re.MULTILINE,
)
"""Settings of a manifest, which may be commands."""


def _only_lints(program: Program) -> bool:
    """Return whether a program runs no tests: a linter, a formatter, a type checker, or what only starts others."""
    name = program.words[0] if program.module else program.name
    return name in CHECKERS | _NEUTRAL or program.words[1:2] in [
        (word,) for word in _LINTING.get(name, ())
    ]


_TOOLS = {
    "pytest": "pytest",
    "python": "pytest",
    "javascript": "node",
    "cargo test": "cargo",
    "rust": "cargo",
}
"""The programs of test runners and of languages whose tests were collected."""
_LANGUAGES = {
    "pytest": "python",
    "unittest": "python",
    "cargo test": "rust",
    "go test": "go",
}
"""The languages of test runners; that of the others is JavaScript."""
_BY_NAME = frozenset({"go", "rust"})
"""Languages in which tests are files with certain names, or parts of sources."""


def observed_checks(
    results: Iterable[ValidatorResult], started: StartedChecks | None = None
) -> ObservedChecks:
    """Return what the results of the baseline show of the checks that were `started`."""
    files: set[str] = set()
    observed: set[str | None] = set()
    unknown: set[str | None] = set()
    ran: set[str] = set()
    for result in results:
        ids = result.tests.endings if result.tests is not None else {}
        is_whole = result.tests is not None and result.tests.whole
        files |= {
            path
            for path, name in (_split(one) for one in ids)
            if is_test_of_file(path, name)
        }
        languages = {language_of(_split(one)[0]) for one in ids}
        counted = {
            _LANGUAGES.get(count.runner, "javascript") for count in result.suite.counts
        }
        if is_whole:
            observed |= languages
            unknown |= counted - languages
        else:
            unknown |= counted | languages or (
                {"python", "javascript"} if result.tests is not None else set()
            )
        ran |= {language for language in languages if language} | {
            count.runner for count in result.suite.counts
        }
    known = frozenset(
        language
        for language in observed - unknown
        if language and language not in _BY_NAME
    )
    if started is None:
        return ObservedChecks(frozenset(files), known)
    tools = started.tools | {_TOOLS.get(name, name) for name in ran}
    return ObservedChecks(
        frozenset(files), known, tools, started.runs_tests or bool(ran)
    )


def _split(identifier: str) -> tuple[str, str]:
    file, _, name = identifier.partition("::")
    return file, name


def is_test_of_file(path: str, name: str) -> bool:
    """Return whether a test is a function of a file of tests: no doctest of a source, and no check of a linter's plugin."""
    if language_of(path) in (None, "", *_BY_NAME):
        return False
    if language_of(path) != "python":
        return True
    stem, first = PurePosixPath(path).stem, name.partition("[")[0].partition("::")[0]
    is_doctest = "." in first or (first == stem and not first.startswith("test"))
    return (
        not is_doctest
        and first.isidentifier()
        and first.lower() not in CHECKERS | {"black", "isort", "pycodestyle"}
    )
