"""What each changed path means for the checks: the agent's work, a test, configuration, a script of a check, or data.

The goal's keys come first, then what the baseline showed. Names decide where it showed nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from goalrunner.checking.configuration import (
    configuration_of,
    folder_configured,
    is_python_itself,
)
from goalrunner.checking.manifests import added_commands, check_part, is_read_in_parts
from goalrunner.checking.named_by_goal import NamedByGoal
from goalrunner.checking.start_files import (
    Matcher,
    ObservedChecks,
    StartFiles,
    StartTests,
    language_of,
    one_spelling,
)
from goalrunner.core.tools import PACKAGE_MANAGERS, PROJECT_RUNNERS
from goalrunner.snapshots.objects import Entry, EntryPair
from goalrunner.snapshots.patterns import CACHES, Patterns

LINK = "120000"
"""git's mode of a symbolic link."""

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

GOAL_FILE = "the goal file"
EXISTING_TEST = "existing test"
CONFIGURATION = "existing configuration of checks"
NEW_CONFIGURATION = "new configuration of existing checks"
NEW_LINTING = "new configuration of linters for existing sources"
INSTALLED_FROM = "installed from by setup"
BEFORE = "found before a file of validator"
SCRIPT = "named by validator"
USED = "used by validator"
"""The beginning of the rule of a file that a validator names, starts, sources or includes, and whose name is no check's."""
CHECKED = "checked by validator"
"""The beginning of the rule of what a validator looks at or starts as the work itself: the operand of `grep`, `test -f`."""
COMPARED = "compared by validator"
"""The beginning of the rule of an expectation, such as a file that `diff` reads."""

NAMED_BY_GOAL = "named by the objective"
_COMPARED_IN_PARTS = frozenset({CONFIGURATION, NEW_CONFIGURATION, NEW_LINTING, ""})

Mode = Literal["default", "protect", "editable"]
PathChange = Literal["new", "changed", "deleted"]
PathKind = Literal["source", "test", "configuration", "script", "data"]

_CACHES = Patterns(CACHES, builtin=True)
_IS_MANIFEST = Matcher(MANIFESTS, builtin=True)
_IMPORTED_BY_CHECKERS = sys.stdlib_module_names | {
    "mypy_extensions",
    "typing_extensions",
    "pathspec",
    "click",
}
"""Modules that `python -m mypy` takes from the folder in which it starts, if they exist there."""
_TEMPLATE = re.compile(r"(?:^|/)templates/")
_EXPECTED = re.compile(r"(?:^|/)goldens?/", re.IGNORECASE)
"""Folders of expectations, which are data even if they are written as code."""


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
    """Why it may change, though it is no source: "allow", "editable", "named by the objective"; empty if nothing says so."""

    @property
    def is_work(self) -> bool:
        """Whether it stays as the agent left it when everything but the agent's work is put back."""
        return bool(self.allowed) or (
            self.kind == "source" and not self.protected and not self.named
        )

    def __str__(self) -> str:
        """Return one line: `tests/test_a.py (changed; existing test)`."""
        return (
            f"{self.path} ({self.change}; {self.rule})"
            if self.rule
            else f"{self.path} ({self.change})"
        )


class Protection:
    """The rules of one run. Patterns are those of .gitignore, matched without regard to case.

    `editable`: everything that it does not match is protected. `protect`: what it matches, and the configuration of test
    runners and checkers. Neither: tests and configuration that exist at the start. `scripts` maps the files of checks to
    their rules; a path that ends with a slash is a folder. `allow` takes paths out.
    """

    def __init__(
        self,
        protect: Sequence[str] = (),
        editable: Sequence[str] = (),
        allow: Sequence[str] = (),
        scripts: Mapping[str, str] | None = None,
        *,
        setup: bool = False,
        named: NamedByGoal | None = None,
        seen: ObservedChecks | None = None,
        start: StartFiles | None = None,
    ) -> None:
        """Create the rules. `setup`: code that a set-up command installs from is protected as well, and under `protect`
        and `editable` also manifests and lock files.

        `named` is what the goal asks to change by its name, `seen` what the baseline showed of the checks in the files of
        `start`.
        """
        self.setup = setup
        self.protect, self.editable, self.allow = (
            tuple(protect),
            tuple(editable),
            tuple(allow),
        )
        self.mode: Mode = (
            "editable" if editable else "protect" if protect else "default"
        )
        """Which of the keys is set."""
        self.strict = self.mode != "default"
        """Whether the goal has `protect` or `editable`."""
        self.scripts = dict(scripts or {})
        self.named = named or NamedByGoal()
        self._protect, self._editable, self._allow = map(
            Matcher, (self.protect, self.editable, self.allow)
        )
        self._scripts = {
            one_spelling(path): rule for path, rule in self.scripts.items()
        }
        self._start, self._seen = start or StartFiles(()), seen or ObservedChecks()
        self._tests = StartTests(self._start, self._seen)
        self._configuration = configuration_of(self._seen.tools)
        self._held: frozenset[str] | None = None
        # A pattern that matches nothing, such as a misspelled folder, must not protect less than no pattern.
        self._leaves_tests = self.mode == "protect" and bool(
            self._start.matching(self._protect)
        )

    def with_observed(self, seen: ObservedChecks, start: StartFiles) -> Protection:
        """Return these rules for the files of the start, with what the baseline showed of the checks."""
        return Protection(
            self.protect,
            self.editable,
            self.allow,
            self.scripts,
            setup=self.setup,
            named=self.named,
            seen=seen,
            start=start,
        )

    def at(self, start: StartFiles) -> Protection:
        """Return these rules for the files of the start."""
        return self if self._start is start else self.with_observed(self._seen, start)

    def allowed(self, path: str) -> bool:
        """Return whether `allow` takes a path out."""
        return self._allow(path)

    def is_editable(self, path: str) -> bool:
        """Return whether the agent may change a path under `editable`; True without that key."""
        return not self.editable or self._editable(path) or self.allowed(path)

    def is_source_of_checks(self, path: str) -> bool:
        """Return whether a path of the start is a protected test, script or configuration; data and manifests are not."""
        item = self.describe(path)
        is_code = language_of(path) is not None or item.kind in (
            "configuration",
            "script",
        )
        return item.protected and is_code and not _IS_MANIFEST(path)

    def protected(self) -> frozenset[str]:
        """Return the paths of the start that are protected, and that `allow` does not take out."""
        if self._held is None:
            start = self._start
            match self.mode:
                case "editable":
                    held = start.matching(self._editable, is_wanted=False)
                case "protect":
                    held = start.matching(self._protect)
                case "default":
                    held = set(self._tests.all)
            others = (
                self._tests.all
                | self._configuration.among(start)
                | start.below(map(one_spelling, start.links.values()))
            )
            others |= start.spelled(lambda name: name in self._scripts)
            others |= start.matching(_IS_MANIFEST) if self.setup else set()
            held |= {path for path in others - held if self.describe(path).protected}
            self._held = frozenset(
                held - start.matching(self._allow) if self.allow else held
            )
        return self._held

    def describe(
        self,
        path: str,
        change: PathChange = "changed",
        mode: str = "",
        delivered: ObservedChecks | None = None,
    ) -> ChangedPath:
        """Return what the change of a path means by its name and place, the baseline, and the goal's keys.

        `mode` is that of git. `delivered` is what the checks showed of the agent's work; it decides about new files.
        """
        is_program = mode == "100755" and "." not in path.rpartition("/")[2]
        is_source = (
            is_program
            or language_of(path) is not None
            or _TEMPLATE.search(path)
            or _IS_MANIFEST(path)
        )
        is_source = is_source and not _EXPECTED.search(path)
        item = ChangedPath(path, change, "source" if is_source else "data")
        if change == "new" and _CACHES.match(path):
            return replace(item, kind="source")
        for name in self._start.names_of(path):
            if found := self._check(name, change, delivered):
                return self._by_keys(replace(found, path=path))
        return self._by_keys(item)

    def _check(
        self, path: str, change: PathChange, delivered: ObservedChecks | None
    ) -> ChangedPath | None:
        """Return what makes a path a part of the checks, whatever the goal's keys say; None if nothing does."""
        role = self._role(one_spelling(path))
        is_named = role.startswith((USED, COMPARED))
        held = ChangedPath(path, change, "configuration", role, protected=True)
        if role == GOAL_FILE or (role.startswith(BEFORE) and change == "new"):
            return held
        configures, test = (
            self._configuration.of(path, self._start),
            self._tests.kind(path),
        )
        if test and change != "new":
            kind: PathKind = "configuration" if configures == "tests" else test
            return replace(held, kind=kind, rule=EXISTING_TEST, named=is_named)
        if role.startswith(SCRIPT):
            return replace(held, kind="script")
        if change == "new" and (new := self._new(path, delivered)):
            return new
        if configures and change != "new":
            return replace(held, rule=CONFIGURATION, named=is_named)
        is_installed_from = self.setup and _IS_MANIFEST(path) and change != "new"
        if is_installed_from and (
            self.strict or language_of(path) is not None
        ):  # else a label names the dependencies
            return replace(held, rule=INSTALLED_FROM)
        if role.startswith(CHECKED):
            return ChangedPath(path, change, "source")
        if is_named:
            return ChangedPath(
                path,
                change,
                "data" if role.startswith(COMPARED) else "source",
                role,
                named=True,
            )
        return None

    def _new(self, path: str, delivered: ObservedChecks | None) -> ChangedPath | None:
        """Return what makes a new path a part of the checks; None if nothing does."""
        item = ChangedPath(path, "new", "configuration")
        configures, folder = (
            self._configuration.of(path, self._start),
            folder_configured(path),
        )
        if configures in ("tests", "both") and (
            is_python_itself(path) or folder in self._tests.folders_above
        ):
            return replace(item, rule=NEW_CONFIGURATION, protected=True)
        if configures in ("code", "both") and folder in self._start.source_folders:
            return replace(item, rule=NEW_LINTING, protected=True)
        if test := self._tests.kind_of_new(path, delivered):
            return replace(item, kind=test)
        first = path.partition("/")[0]
        is_imported = (
            first.removesuffix(".py") in _IMPORTED_BY_CHECKERS
            and first not in self._start.folders
        )
        if is_imported and not self._seen.runs_tests:
            return replace(item, kind="data")
        # In a project without tests, the configuration of a test runner is work; that of a linter is none beside sources.
        only_lints = configures == "code" or not self._seen.runs_tests
        decides = self._tests.all or (only_lints and self._start.source_folders)
        return (
            replace(item, kind="configuration" if decides else "source")
            if configures
            else None
        )

    def _role(self, name: str) -> str:
        if name in self._scripts:
            return self._scripts[name]
        return next(
            (
                rule
                for path, rule in self._scripts.items()
                if path.endswith("/") and name.startswith(path)
            ),
            "",
        )

    def _by_keys(self, item: ChangedPath) -> ChangedPath:
        """Return what the goal's keys make of a path. They win over everything but the protection of the goal file."""
        path, is_new = item.path, item.change == "new"
        if item.rule == GOAL_FILE:
            return item
        is_decisive = item.rule.startswith((SCRIPT, BEFORE)) or (
            is_new and path not in self.editable
        )
        match self.mode:
            case "editable" if not self._editable(path):
                item = replace(item, rule="not editable", protected=True)
            case "editable" if not is_decisive:
                item = replace(
                    item,
                    rule="",
                    protected=False,
                    named=False,
                    allowed="" if item.is_work else "editable",
                )
            case "protect" if pattern := self._protect.pattern(path):
                item = replace(item, rule=f'protect = "{pattern}"', protected=True)
            case "protect" if (
                item.rule == EXISTING_TEST
                and item.kind != "configuration"
                and self._leaves_tests
            ):
                item = replace(item, rule="", protected=False)
            case "protect" if item.named:
                item = replace(item, protected=True)
            case _:
                pass
        if not self.allowed(path):
            return item
        return replace(
            item, protected=False, named=False, allowed="" if item.is_work else "allow"
        )

    def compared(
        self, item: ChangedPath, old: bytes | None, new: bytes | None
    ) -> ChangedPath:
        """Return what the contents of a changed path and the text of the goal make of it.

        A manifest is work if only dependencies and metadata differ, and so is what the goal asks to change by its name and
        no check reads. New configuration and new commands that it names are allowed.
        """
        is_named = self.named.names(item.path)
        if item.kind == "configuration" and item.rule in _COMPARED_IN_PARTS:
            only_linters = item.rule == NEW_LINTING or not self._seen.runs_tests
            parts = [
                check_part(
                    item.path, one, only_linters=only_linters, tools=self._seen.tools
                )
                for one in (old, new)
            ]
            if parts[0] == parts[1]:
                return replace(
                    item, kind="source", rule="", protected=False, named=False
                )
            commands = added_commands(item.path, old, new)
            is_new = item.change == "new" and is_named
            if not self.strict and (
                is_new or (commands and all(map(self.named.names_command, commands)))
            ):
                return replace(
                    item, protected=False, named=False, allowed=NAMED_BY_GOAL
                )
        if (
            is_named
            and not item.protected
            and (item.rule.startswith(USED) or (item.kind == "data" and not item.named))
        ):
            return replace(item, kind="source", rule="", named=False)
        return item


def contents_needed(changes: Mapping[str, EntryPair]) -> dict[str, str]:
    """Return the ids of the contents that `classify_changes` compares in parts, with their paths."""
    found: dict[str, str] = {}
    for path, change in changes.items():
        if is_read_in_parts(path):
            found |= {
                entry.blob: path
                for entry in change
                if entry is not None and entry.stored
            }
    return found


def _content(entry: Entry | None, contents: Mapping[str, bytes]) -> bytes | None:
    """Return what a content is compared by: itself, or its id; None if the file does not exist."""
    if entry is None:
        return None
    content = contents.get(entry.blob, entry.blob.encode())
    return b"-> " + content if entry.mode == LINK else content


def classify_changes(
    protection: Protection,
    start: StartFiles,
    changes: Mapping[str, EntryPair],
    contents: Mapping[str, bytes],
    *,
    delivered: ObservedChecks | None = None,
) -> tuple[ChangedPath, ...]:
    """Return every path that differs from the start, sorted, with what it means for the checks.

    `protection` has the goal's keys and what the baseline showed (`with_observed`). `contents` has the kept contents of
    `contents_needed(changes)`, by their ids. `delivered` is what the checks showed of the agent's work.
    """
    rules = protection.at(start)
    found: list[ChangedPath] = []
    for path, (old, new) in changes.items():
        change: PathChange = (
            "new" if old is None else "deleted" if new is None else "changed"
        )
        modes = [entry.mode for entry in (old, new) if entry is not None]
        item = rules.describe(path, change, modes[-1], delivered)
        if (
            LINK in modes and not item.protected
        ):  # snapshots contain no files below a link
            item = replace(
                rules.describe(f"{path}/x", change, delivered=delivered), path=path
            )
        found.append(
            rules.compared(item, _content(old, contents), _content(new, contents))
        )
    return tuple(sorted(found, key=lambda item: item.path))
