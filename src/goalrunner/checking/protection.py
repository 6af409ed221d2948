"""Which paths have their original content in the check environment, by the goal's keys or by tables of well-known files."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from goalrunner.checking.manifests import check_part
from goalrunner.core.tools import MAKEFILES, PACKAGE_MANAGERS, PROJECT_RUNNERS, TEST_RUNNERS
from goalrunner.snapshots.diff import Patterns
from goalrunner.snapshots.objects import EntryPair

LINK = "120000"
"""git's mode of a symbolic link."""

TESTS = (
    "test/", "tests/", "spec/", "specs/", "__tests__/", "__snapshots__/", "testdata/", "e2e/", "test_*.py",
    "*_test.py", "tests.py", "conftest.py", "*_test.go", "*_test.rs", "*_spec.rb", "*_test.rb", "*.test.*",
    "*.spec.*", "*.e2e.*", "test.js", "test.mjs", "test.cjs", "test.ts", "test.py", "test-*.js", "*.bats",
    "features/", "*_test.exs", "*_test.dart", "*_test.cc", "*_test.cpp", "*_unittest.cc", "*Spec.scala",
    "*Test.scala", "*Test.java", "*Tests.java", "*Test.kt", "*Test.php", "*Tests.cs",
)  # fmt: skip
"""Tests, as patterns of .gitignore. By default, those that exist at the start have their original content."""

RUNNER_CONFIGURATION = (
    *(name for runner in TEST_RUNNERS for name in runner.configuration),
    *MAKEFILES,
    "pyproject.toml", "setup.cfg", "tox.ini", "tox.toml", "noxfile.py", ".coveragerc", "sitecustomize.py",
    "usercustomize.py", "package.json", "karma.conf.*", "ava.config.*", ".nycrc", ".nycrc.*", ".c8rc*",
    "playwright.config.*", "cypress.config.*", "justfile", ".justfile", "Taskfile.yml", "Taskfile.yaml", "pom.xml",
    ".mvn/", "*.gradle", "*.gradle.kts", "gradle.properties", "buildSrc/", "gradle/wrapper/", "Directory.Build.*",
    "*.runsettings", "*.rake", "dart_test.yaml", "CMakeLists.txt", "meson.build", "Rakefile", "composer.json",
    "deno.json", "deno.jsonc", "bunfig.toml", ".npmrc", "hatch.toml", "tasks.py", "dodo.py", ".bazelrc", "nx.json",
    "turbo.json", "phpunit.xml", "phpunit.xml.dist", ".rspec",
)  # fmt: skip
"""What configures test runners."""

CHECKER_CONFIGURATION = (
    "ruff.toml", ".ruff.toml", "mypy.ini", ".mypy.ini", ".flake8", ".pylintrc", "pylintrc", "pyrightconfig.json",
    "tsconfig.json", "tsconfig.*.json", "eslint.config.*", ".eslintrc", ".eslintrc.*", ".eslintignore",
    "biome.json", "biome.jsonc", ".pre-commit-config.yaml", ".importlinter", ".rubocop.yml", "phpstan.neon*",
    "psalm.xml", ".clang-tidy", ".clang-format", "rustfmt.toml", ".rustfmt.toml", "deny.toml", ".bandit",
    ".yamllint*", ".stylelintrc*", ".markdownlint*", ".oxlintrc.json", ".shellcheckrc", ".codespellrc",
    ".prettierrc", ".prettierrc.*", ".prettierignore", "prettier.config.*", ".golangci.*", "clippy.toml",
    ".clippy.toml", ".gitignore", ".rubocop_todo.yml", "phpstan-baseline.*", "psalm-baseline.xml", "detekt-baseline.xml",
    "lint-baseline.xml", "mypy-baseline.txt", ".basedpyright/", "eslint-suppressions.json", "ty.toml", "pyrefly.toml",
)  # fmt: skip
"""What configures linters and type checkers."""

IGNORE_FILE = ".gitignore"
"""It configures those checkers that leave out what git ignores, if a validator calls one."""

MANIFESTS = (
    *PACKAGE_MANAGERS.values(), *filter(None, PROJECT_RUNNERS.values()),
    "pyproject.toml", "setup.py", "setup.cfg", "MANIFEST.in", "requirements*.txt", "requirements*.in",
    "constraints*.txt", "requirements/", "uv.toml", "pylock.toml", "pylock.*.toml", "Pipfile", ".python-version",
    "environment.yml", "pixi.toml", "package.json", "npm-shrinkwrap.json", "pnpm-workspace.yaml", "bun.lockb",
    ".npmrc", ".yarnrc", ".yarnrc.yml", ".node-version", ".nvmrc", "go.mod", "go.sum", "go.work", "go.work.sum",
    "Cargo.toml", "Cargo.lock", "rust-toolchain", "rust-toolchain.toml", "Gemfile", "Gemfile.lock", "composer.json",
    "composer.lock",
)  # fmt: skip
"""Files that decide which packages a set-up command installs."""

_MIXED = frozenset({"pyproject.toml", "setup.cfg", "package.json"})
"""Manifests that configure test runners as well as linters and type checkers."""

_AT_START = frozenset({"sitecustomize.py", "usercustomize.py"})
CONFIGURATION = "existing configuration of checks"
NEW_CONFIGURATION = "new configuration of existing checks"
NEW_LINTING = "new configuration of linters for existing sources"
BEFORE = "found before a file of validator"
COMPARED = "output compared by validator"
"""The beginning of the rule of a script that may be the work itself: validators see it as the agent left it."""

SOURCE = re.compile(r"\.(py|pyi|js|jsx|ts|tsx|mjs|cjs|go|rs|java|kt|rb|php|c|cc|cpp|h|hpp|cs|swift|sh)$")

Mode = Literal["default", "protect", "editable"]


PathChange = Literal["new", "changed", "deleted"]
PathKind = Literal["source", "test", "configuration", "script", "data"]


@dataclass(frozen=True)
class ChangedPath:
    """One path that differs from the start of the run, and what it means for the checks."""

    path: str
    change: PathChange
    kind: PathKind
    rule: str = ""
    """What makes it a check, for people: "existing test"; empty for source and other files."""
    protected: bool = False
    """Whether it is put back wherever original checks are wanted."""
    named: bool = False
    """Whether a validator's line names, starts, sources or includes it."""
    allowed: str = ""
    """Why the agent may change it, though it is a check: "allow", "named by the objective"; empty if it may not."""

    @property
    def is_work(self) -> bool:
        """Whether it stays as the agent left it when everything but the agent's work is put back."""
        return bool(self.allowed) or (self.kind == "source" and not self.protected and not self.named)


@dataclass(frozen=True)
class ObservedChecks:
    """What the baseline showed of the checks. The default is a start at which nothing was observed."""

    test_files: frozenset[str] = frozenset()
    """The files from which test runners collected tests."""
    observed: frozenset[str] = frozenset()
    """The languages of which all collected tests are known: "python", "go". Names decide for the others."""
    tools: frozenset[str] = frozenset()
    """The names of the programs that validators start, and of those that their configuration may start."""
    runs_tests: bool = True
    """Whether a validator may run tests; False if all of them only lint or check types."""


@dataclass(frozen=True)
class Difference:
    """One protected path that is not as it was at the start, and the rule that protects it."""

    path: str
    kind: Literal["changed", "deleted", "planted"]
    rule: str

    def __str__(self) -> str:
        """Return one line: `tests/test_a.py (changed; existing test)`."""
        kind = "new" if self.kind == "planted" else self.kind
        return f"{self.path} ({kind}; {self.rule})"


class Protection:
    """The rules of one run. Patterns are those of .gitignore, matched without regard to case.

    `editable`: everything that it does not match is protected. `protect`: what it matches, and the configuration of test
    runners and checkers. Neither: tests and configuration that exist at the start. `scripts` maps paths that are always
    protected to the reason (the goal file, what decides a validator). `allow` takes paths out.
    """

    def __init__(
        self,
        protect: Sequence[str] = (),
        editable: Sequence[str] = (),
        allow: Sequence[str] = (),
        scripts: Mapping[str, str] | None = None,
        *,
        setup: bool = False,
        below: Mapping[str, str] | None = None,
    ) -> None:
        """Create the rules. `setup`: manifests and lock files that a set-up command installs from are protected as well.

        `below` maps folders, in one spelling, to the rule that protects everything in them.
        """
        self.setup = setup
        self._below = dict(below or {})
        self.protect, self.editable, self.allow = tuple(protect), tuple(editable), tuple(allow)
        self.mode: Mode = "editable" if editable else "protect" if protect else "default"
        """Which of the keys is set."""
        self.strict = self.mode != "default"
        """Whether the goal has `protect` or `editable`."""
        self.scripts = dict(scripts or {})
        self._protect, self._editable, self._allow = map(_Matcher, (self.protect, self.editable, self.allow))
        self._scripts = {_folded(path): rule for path, rule in self.scripts.items()}
        self._ignores = self._scripts.get(IGNORE_FILE, "").startswith(BEFORE)

    def allowed(self, path: str) -> bool:
        """Return whether `allow` takes a path out."""
        return self._allow(path)

    def is_editable(self, path: str) -> bool:
        """Return whether the agent may change a path under `editable`; True without that key."""
        return not self.editable or self._editable(path) or self.allowed(path)

    def rule(self, path: str, *, applies: Callable[[str], bool] | None = None) -> str | None:
        """Return the rule that protects a path, or None; `allow` is not considered.

        `applies` is None for a path that exists at the start; of a new file of configuration it says whether that takes
        effect on files of the start.
        """
        name = _folded(path)
        if above := next((rule for folder, rule in self._below.items() if name.startswith(f"{folder}/")), None):
            return above
        script = self._scripts.get(name, "")
        if script and not script.startswith((BEFORE, COMPARED)):
            return script
        exempt = self.editable if script.startswith(COMPARED) else applies is None
        return self._by_keys(path, applies) or (None if exempt else script or None)

    def is_source_of_checks(self, path: str) -> bool:
        """Return whether a path of the start is a protected test, script or configuration; data and manifests are not."""
        rule = self.rule(path)
        is_code = SOURCE.search(path) or rule == CONFIGURATION or path in self.scripts
        return bool(rule and is_code) and not self.allowed(path) and not _MANIFESTS(path)

    def _by_keys(self, path: str, applies: Callable[[str], bool] | None) -> str | None:
        match self.mode:
            case "editable" if not self._editable(path):
                return "not editable"
            case "editable" if applies is None or path in self.editable:  # new configuration may be named by its path
                return None
            case "protect" if pattern := self._protect.pattern(path):
                return f'protect = "{pattern}"'
            case "default" if applies is None and is_test(path):
                return "existing test"
            case _ if self.setup and applies is None and _MANIFESTS(path):
                return "installed from by setup"
            case _:
                return self._configuration(path, applies)

    def _configuration(self, path: str, applies: Callable[[str], bool] | None) -> str | None:
        if not (configures_runners(path) or _CHECKERS(path)):
            return None
        if posixpath.basename(path) == IGNORE_FILE and not self._ignores:
            return None
        if applies is None:
            return CONFIGURATION
        return NEW_CONFIGURATION if applies(path) else None

    def with_tests(self, files: Iterable[str], start: StartFiles) -> Protection:
        """Return these rules with the tests of the start, if the goal's own keys name none of its files.

        `files` are those in which tests ran at the start.
        """
        if self.editable or start.matching(self._protect):
            return self
        # A pattern that matches nothing, such as a misspelled folder, must not protect less than no pattern.
        tests = start.tests if self.protect else ()
        others = (path for path in files if not is_test(path))
        named = dict.fromkeys(tests, "existing test") | dict.fromkeys(others, "its tests ran at the start")
        return self._with(named | self.scripts)

    def with_observed(self, observed: ObservedChecks, start: StartFiles) -> Protection:
        """Return these rules with what the baseline showed of the checks."""
        return self.with_tests(observed.test_files, start)

    def protected(self, start: StartFiles) -> set[str]:
        """Return the paths of the start that have a rule, and that `allow` does not take out."""
        match self.mode:
            case "editable":
                by_key = start.matching(self._editable, is_wanted=False)
            case "protect":
                by_key = start.matching(self._protect)
            case "default":
                by_key = set(start.tests)
        others = (start.matching(_CONFIGURATION) | start.named(self._scripts, self._below)) - by_key
        protected = by_key.union(path for path in others if self.rule(path))
        return protected - start.matching(self._allow) if self.allow else protected

    def with_link_targets(self, links: Mapping[str, str]) -> Protection:
        """Return these rules with what protected links lead to: if `tests` is a link to `suite`, `suite` is protected.

        `links` maps the links of the start to their targets.
        """
        scripts, before = dict(self.scripts), -1
        while self.mode != "editable" and len(scripts) > before:
            before, now = len(scripts), self._with(scripts)
            for path, target in links.items():
                there = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
                inside = there not in (".", "..") and not there.startswith(("/", "../"))
                if inside and (now.rule(path) or now.rule(f"{path}/x")):
                    scripts.setdefault(there, f'reached through the protected link "{path}"')
        new = {_folded(path): rule for path, rule in scripts.items() if path not in self.scripts}
        return self._with(scripts, new) if new else self

    def _with(self, scripts: Mapping[str, str], below: Mapping[str, str] | None = None) -> Protection:
        return Protection(self.protect, self.editable, self.allow, scripts, setup=self.setup, below=below)


class StartFiles:
    """The paths of the start of a run. What rules need to know about all of them is computed once."""

    def __init__(self, paths: Iterable[str], links: Mapping[str, str] | None = None) -> None:
        """`links` are the targets of the symbolic links among the paths."""
        self._sorted = sorted(paths)
        self.paths = frozenset(self._sorted)
        self.links = dict(links or {})
        text = "\n".join(self._sorted)
        self._spellings = text.lower().split("\n") if text.isascii() else [_folded(path) for path in self._sorted]
        self._followed: tuple[Protection, Protection] | None = None
        self._protected: tuple[Protection, frozenset[str]] | None = None

    def matching(self, matcher: _Matcher, *, is_wanted: bool = True) -> set[str]:
        """Return the paths that match, or with `is_wanted` = False those that do not."""
        results = matcher.matches(self._spellings)
        return {path for path, matches in zip(self._sorted, results, strict=False) if matches is is_wanted}

    def named(self, names: Collection[str], folders: Collection[str]) -> set[str]:
        """Return the paths with one of these names, or below one of the folders; in one spelling."""
        below = tuple(f"{folder}/" for folder in folders)
        spelled = zip(self._sorted, self._spellings, strict=False)
        return {path for path, name in spelled if name in names or (below and name.startswith(below))}

    @cached_property
    def tests(self) -> tuple[str, ...]:
        """The tests by their names, sorted."""
        return tuple(sorted(self.matching(is_test)))

    @cached_property
    def test_folders(self) -> frozenset[str]:
        """Every folder that a test lies in, "" for the workspace."""
        return _folders(self.tests)

    @cached_property
    def source_folders(self) -> frozenset[str]:
        """Every folder that source code lies in, "" for the workspace."""
        return _folders(path for path in self.paths if SOURCE.search(path))

    @cached_property
    def folders(self) -> frozenset[str]:
        """Every folder that a file lies in, "" for the workspace."""
        return _folders(self.paths)

    @cached_property
    def caches(self) -> list[str]:
        """The files in caches of bytecode."""
        return [path for path in self.paths if "__pycache__" in path]

    def followed(self, protection: Protection) -> Protection:
        """Return the rules with what protected links lead to; computed again only for other rules."""
        if self._followed is None or self._followed[0] is not protection:
            self._followed = protection, protection.with_link_targets(self.links)
        return self._followed[1]

    def protected(self, protection: Protection) -> frozenset[str]:
        """Return the protected paths; computed again only for other rules."""
        if self._protected is None or self._protected[0] is not protection:
            self._protected = protection, frozenset(protection.protected(self))
        return self._protected[1]


def differences(
    protection: Protection, start: StartFiles, changes: Mapping[str, EntryPair]
) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
    """Return the protected paths that differ from the start, sorted: those that count, and those that `allow` takes out."""

    def configures_tests(path: str) -> bool:
        """Whether it is beside or above tests of the start, or configures Python itself."""
        at_start = posixpath.basename(path).casefold() in _AT_START
        return at_start or (not _CHECKERS(path) and posixpath.dirname(path) in start.test_folders)

    def configures(path: str) -> bool:
        mixed = posixpath.basename(path).casefold() in _MIXED
        return configures_tests(path) or (
            (mixed or _CHECKERS(path)) and posixpath.dirname(path) in start.source_folders
        )

    found: list[Difference] = []
    for path, (old, new) in sorted(changes.items()):
        applies = None if old is not None else configures
        rule = protection.rule(path, applies=applies)
        if rule is None and any(item is not None and item.mode == LINK for item in (old, new)):
            rule = protection.rule(f"{path}/x", applies=applies)  # snapshots do not contain files below a link
        if rule == NEW_CONFIGURATION and not configures_tests(path):
            rule = NEW_LINTING
        if rule:
            found.append(Difference(path, "planted" if old is None else "deleted" if new is None else "changed", rule))
    free = (item for item in found if protection.allowed(item.path) and item.rule != "the goal file")
    allowed = [*free, *(item for item in found if item.rule.startswith(COMPARED))]
    return tuple(item for item in found if item not in allowed), tuple(allowed)


def contents_needed(changes: Mapping[str, EntryPair]) -> dict[str, str]:
    """Return the ids of the contents that `classify_changes` compares, with their paths."""
    found: dict[str, str] = {}
    for path, change in changes.items():
        for entry in change if _CONFIGURATION(path) else ():
            if entry is not None and entry.stored:
                found[entry.blob] = path
    return found


def classify_changes(
    protection: Protection,
    start: StartFiles,
    changes: Mapping[str, EntryPair],
    contents: Mapping[str, bytes],
    *,
    ignored: Iterable[str] = (),
) -> tuple[ChangedPath, ...]:
    """Return every path that differs from the start, sorted, with what it means for the checks.

    `protection` has the goal's keys and what the baseline showed (`with_observed`). `contents` has the kept contents of
    `contents_needed(changes)`, by their ids. `ignored` are files that git ignores, existed at the start, and changed.
    """
    found: list[ChangedPath] = []
    held, free = differences(protection, start, changes)
    rules = {item.path: item for item in (*held, *free)}
    for path, (old, new) in sorted(changes.items()):
        change: PathChange = "new" if old is None else "deleted" if new is None else "changed"
        item = rules.get(path)
        if item is not None and not _concerns_checks(item, (old, new), contents):
            item = None
        if item is None:
            found.append(ChangedPath(path, change, _kind_by_name(path)))
            continue
        allowed = "allow" if protection.allowed(path) and item.rule != "the goal file" else ""
        compared = item.rule.startswith(COMPARED)
        kind: PathKind = "source" if compared else _kind_by_rule(item)
        found.append(ChangedPath(path, change, kind, item.rule, not allowed and not compared, compared, allowed))
    for path in sorted({*ignored} - changes.keys()):
        rule = protection.rule(path) or ""
        allowed = "allow" if rule and protection.allowed(path) else ""
        is_check = bool(rule) and not allowed
        found.append(ChangedPath(path, "changed", _kind_by_name(path), rule, is_check, allowed=allowed))
    return tuple(sorted(found, key=lambda item: item.path))


_COMPARED_IN_PARTS = frozenset({CONFIGURATION, NEW_CONFIGURATION, NEW_LINTING})


def _concerns_checks(item: Difference, change: EntryPair, contents: Mapping[str, bytes]) -> bool:
    """Return whether a change concerns the configuration of checks; a new dependency in a manifest does not."""
    if item.rule not in _COMPARED_IN_PARTS or any(side is not None and not side.stored for side in change):
        return True
    versions = (None if side is None else contents[side.blob] for side in change)
    old, new = (check_part(item.path, one, only_linters=item.rule == NEW_LINTING) for one in versions)
    return old != new


def _kind_by_rule(item: Difference) -> PathKind:
    if item.rule in _COMPARED_IN_PARTS:
        return "configuration"
    if item.rule == "existing test":
        return "test"
    kind = _kind_by_name(item.path)
    return "script" if "validator" in item.rule and kind == "source" else kind


def _kind_by_name(path: str) -> PathKind:
    if is_test(path):
        return "test"
    return "source" if SOURCE.search(path) or _MANIFESTS(path) else "data"


def _folders(paths: Iterable[str]) -> frozenset[str]:
    """Return every folder that one of the paths lies in, "" for the workspace."""
    found: set[str] = set()
    for path in paths:
        folder = posixpath.dirname(path)
        while folder not in found:
            found.add(folder)
            folder = posixpath.dirname(folder)
    return frozenset(found)


class _Matcher:
    """Patterns that are matched without regard to case and to the form of Unicode."""

    def __init__(self, lines: Sequence[str], *, own: bool = False) -> None:
        self._given = {_folded(line): line for line in lines}
        self._patterns = Patterns(tuple(self._given), own=own)

    def __call__(self, path: str) -> bool:
        return self._patterns.match(_folded(path))

    def matches(self, spellings: Iterable[str]) -> Iterator[bool]:
        """Return for each path, in one spelling, whether a pattern matches it."""
        return self._patterns.matches(spellings)

    def pattern(self, path: str) -> str | None:
        """Return the pattern that matches, as it was written."""
        line = self._patterns.rule(_folded(path))
        return None if line is None else self._given[line]


def _folded(text: str) -> str:
    """Return the same text for all spellings that a file system may treat as one name."""
    text = text.removeprefix("./")
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", text).casefold()


is_test = _Matcher(TESTS, own=True)
"""Whether a path is a test by its name."""
configures_runners = _Matcher(RUNNER_CONFIGURATION, own=True)
"""Whether a path configures a test runner by its name."""
_CHECKERS = _Matcher(CHECKER_CONFIGURATION, own=True)
_MANIFESTS = _Matcher(MANIFESTS, own=True)
_CONFIGURATION = _Matcher((*RUNNER_CONFIGURATION, *CHECKER_CONFIGURATION, *MANIFESTS), own=True)
"""Whether one of the tables of configuration names a path."""
