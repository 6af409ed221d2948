"""What each changed path means for the checks.

It is the agent's work, a test, configuration, a script of a check, or data. The goal's
keys come first, then what the baseline showed. Names decide where it showed nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from goalrunner.checking.configuration import (
    configuration_of,
    folder_configured,
    is_python_itself,
)
from goalrunner.checking.formatting import is_python_code, is_reformatted
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
    "pyproject.toml", "setup.py", "setup.cfg", "MANIFEST.in", "requirements*.txt",
    "requirements*.in", "constraints*.txt", "requirements/", "uv.toml", "pylock.toml",
    "pylock.*.toml", "Pipfile", ".python-version", "environment.yml", "pixi.toml",
    "package.json", "npm-shrinkwrap.json", "pnpm-workspace.yaml", "bun.lockb", ".npmrc",
    ".yarnrc", ".yarnrc.yml", ".node-version", ".nvmrc", "go.mod", "go.sum", "go.work",
    "go.work.sum", "Cargo.toml", "Cargo.lock", "rust-toolchain", "rust-toolchain.toml",
    "Gemfile", "Gemfile.lock", "composer.json", "composer.lock",
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
"""The beginning of the rule of a file that a validator uses.

It names, starts, sources or includes it, and the file has no name of a check.
"""
CHECKED = "checked by validator"
"""The beginning of the rule of what a validator checks or starts as the work itself.

Example: the operand of `grep` or `test -f`.
"""
COMPARED = "compared by validator"
"""The beginning of the rule of an expectation, such as a file that `diff` reads."""

NAMED_BY_GOAL = "named by the objective"
_COMPARED_IN_PARTS = frozenset({CONFIGURATION, NEW_CONFIGURATION, NEW_LINTING, ""})
"""Rules of configuration of which only a part configures checks."""

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
"""Modules that `python -m mypy` takes from the folder in which it starts."""
_TEMPLATE = re.compile(r"(?:^|/)templates/")
_EXPECTED = re.compile(r"(?:^|/)goldens?/", re.IGNORECASE)
"""Folders of expectations, which are data even if they are written as code."""


NOT_KEPT = "its original content is not kept"
"""The rule of a path that cannot be put back."""


@dataclass(frozen=True)
class ChangedPath:
    """One path that differs from the start, and its meaning for the checks."""

    path: str
    change: PathChange
    kind: PathKind
    rule: str = ""
    """What makes it a check, for people: "existing test".

    It is empty for source and other files.
    """
    protected: bool = False
    """Whether it is put back wherever original checks are wanted."""
    named: bool = False
    """Whether a validator's line names, starts, sources or includes it."""
    allowed: str = ""
    """Why it may change, though it is no source: "allow", "editable".

    It is empty if nothing allows it.
    """
    of_program: bool = False
    """Whether it is a file beside source and checks, such as a template or a table."""
    needed: bool = False
    """Whether a validator cannot run on its content of the start.

    It is new, or its recipes or scripts of the validator are.
    """

    @property
    def is_work(self) -> bool:
        """Whether it stays as the agent left it when everything else is put back."""
        is_source = self.kind == "source" and not self.protected and not self.named
        return bool(self.allowed) or is_source

    def __str__(self) -> str:
        """Return one line: `tests/test_a.py (changed; existing test)`."""
        about = f"{self.change}; {self.rule}" if self.rule else self.change
        return f"{self.path} ({about})"


class Protection:
    """The rules of one run.

    Patterns are those of .gitignore, matched without regard to case. `editable`:
    everything that it does not match is protected. `protect`: what it matches, and the
    configuration of test runners and checkers. Neither: tests and configuration that
    exist at the start. `scripts` maps the files of checks to their rules; a path that
    ends with a slash is a folder. `allow` takes paths out.
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
        observed: ObservedChecks | None = None,
        start: StartFiles | None = None,
    ) -> None:
        """Create the rules.

        `setup`: code that a set-up command installs from is protected as well, and
        under `protect` and `editable` also manifests and lock files. `named` is what
        the goal asks to change by its name, `observed` what the baseline showed of the
        checks in the files of `start`.
        """
        self.setup = setup
        self.protect = tuple(protect)
        self.editable = tuple(editable)
        self.allow = tuple(allow)
        self.mode: Mode = "default"
        """Which of the keys is set."""
        if editable:
            self.mode = "editable"
        elif protect:
            self.mode = "protect"
        self.strict = self.mode != "default"
        """Whether the goal has `protect` or `editable`."""
        self.scripts = dict(scripts or {})
        self.named = named or NamedByGoal()
        self._protect = Matcher(self.protect)
        self._editable = Matcher(self.editable)
        self._allow = Matcher(self.allow)
        self._scripts = {
            one_spelling(path): rule for path, rule in self.scripts.items()
        }
        self._start = start or StartFiles(())
        self._observed = observed or ObservedChecks()
        self._tests = StartTests(self._start, self._observed)
        self._configuration = configuration_of(self._observed.tools)
        self._protected: frozenset[str] | None = None
        # Under `protect`, existing tests that no pattern matches may change. If the
        # patterns match no file at all, such as a misspelled folder, all tests stay
        # protected, as without the key.
        self._protects_matches_only = self.mode == "protect" and bool(
            self._start.matching(self._protect)
        )

    def with_observed(self, observed: ObservedChecks, start: StartFiles) -> Protection:
        """Return these rules for the files of the start.

        `observed` is what the baseline showed of the checks.
        """
        return Protection(
            self.protect,
            self.editable,
            self.allow,
            self.scripts,
            setup=self.setup,
            named=self.named,
            observed=observed,
            start=start,
        )

    def at(self, start: StartFiles) -> Protection:
        """Return these rules for the files of the start."""
        if self._start is start:
            return self
        return self.with_observed(self._observed, start)

    def allowed(self, path: str) -> bool:
        """Return whether `allow` takes a path out."""
        return self._allow(path)

    def is_editable(self, path: str) -> bool:
        """Return whether the agent may change a path under `editable`.

        Return True without that key.
        """
        return not self.editable or self._editable(path) or self.allowed(path)

    def is_source_of_checks(self, path: str) -> bool:
        """Return whether a path of the start is a protected test or other code.

        Scripts and configuration of checks are code; data and manifests are not.
        """
        item = self.describe(path)
        is_code = language_of(path) is not None or item.kind in (
            "configuration",
            "script",
        )
        # A manifest changes with the dependencies of the work.
        return item.protected and is_code and not _IS_MANIFEST(path)

    def protected(self) -> frozenset[str]:
        """Return the protected paths of the start, without those of `allow`."""
        # Computed once: every check asks for it.
        if self._protected is None:
            paths = self._protected_paths()
            if self.allow:
                paths -= self._start.matching(self._allow)
            self._protected = frozenset(paths)
        return self._protected

    def _protected_paths(self) -> set[str]:
        start = self._start
        match self.mode:
            case "editable":
                paths = start.matching(self._editable, is_wanted=False)
            case "protect":
                paths = start.matching(self._protect)
            case "default":
                paths = set(self._tests.all)
        # `describe` is too slow for every path of a large workspace, so only those are
        # described that may be protected.
        candidates = self._tests.all | self._configuration.among(start)
        candidates |= start.below(map(one_spelling, start.links.values()))
        candidates |= start.spelled(lambda name: name in self._scripts)
        if self.setup:
            candidates |= start.matching(_IS_MANIFEST)
        for path in candidates - paths:
            if self.describe(path).protected:
                paths.add(path)
        return paths

    def describe(
        self,
        path: str,
        change: PathChange = "changed",
        mode: str = "",
        delivered: ObservedChecks | None = None,
    ) -> ChangedPath:
        """Return what the change of a path means, whatever its content is.

        Its name and place, the baseline, and the goal's keys decide. `mode` is that of
        git. `delivered` is what the checks showed of the agent's work; it decides about
        new files.
        """
        if change == "new" and _CACHES.match(path):
            return ChangedPath(path, change, "source")
        # A file may be a test under another name, through a link.
        for name in self._start.names_of(path):
            check = self._check(name, change, delivered)
            if check is not None:
                return self._by_keys(replace(check, path=path))
        if _is_source(path, mode):
            return self._by_keys(ChangedPath(path, change, "source"))
        of_program = not _EXPECTED.search(path)
        item = ChangedPath(path, change, "data", of_program=of_program)
        return self._by_keys(item)

    def _check(
        self,
        path: str,
        change: PathChange,
        delivered: ObservedChecks | None,
    ) -> ChangedPath | None:
        """Return what makes a path a part of the checks; None if nothing does.

        The goal's keys are applied later.
        """
        role = self._role(one_spelling(path))
        protected_item = ChangedPath(
            path, change, "configuration", role, protected=True
        )
        # A new file before a program or module of a check would be used in its place.
        if role == GOAL_FILE or (role.startswith(BEFORE) and change == "new"):
            return protected_item
        if change != "new":
            test = self._existing_test(protected_item)
            if test is not None:
                return test
        if role.startswith(SCRIPT):
            return replace(protected_item, kind="script")
        if change == "new":
            check = self._new(path, delivered)
        else:
            check = self._existing_configuration(protected_item)
        if check is not None:
            return check
        if role.startswith(CHECKED):
            return ChangedPath(path, change, "source")
        if role.startswith((USED, COMPARED)):
            kind: PathKind = "data" if role.startswith(COMPARED) else "source"
            return ChangedPath(path, change, kind, role, named=True)
        return None

    def _existing_test(self, protected_item: ChangedPath) -> ChangedPath | None:
        """Return what makes a path of the start a test; None if nothing does.

        `protected_item` is a protected configuration; its rule is the role of the path.
        """
        test = self._tests.kind(protected_item.path)
        if test is None:
            return None
        kind: PathKind = test
        # conftest.py is a test by its name, and configures the others.
        if self._configuration.of(protected_item.path, self._start) == "tests":
            kind = "configuration"
        is_named = protected_item.rule.startswith((USED, COMPARED))
        return replace(
            protected_item,
            kind=kind,
            rule=EXISTING_TEST,
            named=is_named,
        )

    def _existing_configuration(
        self, protected_item: ChangedPath
    ) -> ChangedPath | None:
        """Return what makes a path of the start configuration; None if nothing does.

        `protected_item` is a protected configuration; its rule is the role of the path.
        """
        if self._configuration.of(protected_item.path, self._start):
            is_named = protected_item.rule.startswith((USED, COMPARED))
            return replace(
                protected_item,
                rule=CONFIGURATION,
                named=is_named,
            )
        is_installed_from = self.setup and _IS_MANIFEST(protected_item.path)
        # Without `protect` or `editable`, a label names changed dependencies.
        if is_installed_from and (
            self.strict or language_of(protected_item.path) is not None
        ):
            return replace(protected_item, rule=INSTALLED_FROM)
        return None

    def _new(self, path: str, delivered: ObservedChecks | None) -> ChangedPath | None:
        """Return what makes a new path a part of the checks; None if nothing does."""
        item = ChangedPath(path, "new", "configuration")
        configures = self._configuration.of(path, self._start)
        folder = folder_configured(path)
        # A conftest.py in a folder without tests configures none.
        concerns_tests = is_python_itself(path) or folder in self._tests.folders_above
        if configures in ("tests", "both") and concerns_tests:
            return replace(
                item,
                rule=NEW_CONFIGURATION,
                protected=True,
            )
        if configures in ("code", "both") and folder in self._start.source_folders:
            return replace(
                item,
                rule=NEW_LINTING,
                protected=True,
            )
        test = self._tests.kind_of_new(path, delivered)
        if test:
            return replace(item, kind=test)
        # Such a module could replace the result of the checker.
        if self._is_imported_by_checkers(path) and not self._observed.runs_tests:
            return replace(item, kind="data")
        if not configures:
            return None
        # In a project without tests, the configuration of a test runner is work; that
        # of a linter is none beside sources.
        only_lints = configures == "code" or not self._observed.runs_tests
        decides = self._tests.all or (only_lints and self._start.source_folders)
        return replace(item, kind="configuration" if decides else "source")

    def _is_imported_by_checkers(self, path: str) -> bool:
        """Return whether a new path shadows a module of a checker."""
        first = path.partition("/")[0]
        module = first.removesuffix(".py")
        return module in _IMPORTED_BY_CHECKERS and first not in self._start.folders

    def _role(self, name: str) -> str:
        """Return the rule of a path as a file of checks; empty without one."""
        if name in self._scripts:
            return self._scripts[name]
        for path, rule in self._scripts.items():
            if path.endswith("/") and name.startswith(path):
                return rule
        return ""

    def _by_keys(self, item: ChangedPath) -> ChangedPath:
        """Return what the goal's keys make of a path.

        They win over everything but the protection of the goal file.
        """
        if item.rule == GOAL_FILE:
            return item
        if self.mode == "editable":
            item = self._by_editable(item)
        elif self.mode == "protect":
            item = self._by_protect(item)
        if not self.allowed(item.path):
            return item
        allowed = "" if item.is_work else "allow"
        return replace(
            item,
            protected=False,
            named=False,
            allowed=allowed,
        )

    def _by_editable(self, item: ChangedPath) -> ChangedPath:
        if not self._editable(item.path):
            return replace(
                item,
                rule="not editable",
                protected=True,
            )
        # A pattern such as `src/` says nothing about a new check in it.
        is_unlisted = item.change == "new" and item.path not in self.editable
        if is_unlisted or item.rule.startswith((SCRIPT, BEFORE)):
            return item
        allowed = "" if item.is_work else "editable"
        return replace(
            item,
            rule="",
            protected=False,
            named=False,
            allowed=allowed,
        )

    def _by_protect(self, item: ChangedPath) -> ChangedPath:
        pattern = self._protect.pattern(item.path)
        if pattern:
            return replace(
                item,
                rule=f'protect = "{pattern}"',
                protected=True,
            )
        # With `protect`, the goal itself says which tests are protected.
        is_test = item.rule == EXISTING_TEST and item.kind != "configuration"
        if is_test and self._protects_matches_only:
            return replace(
                item,
                rule="",
                protected=False,
            )
        return replace(item, protected=True) if item.named else item

    def compared(
        self,
        item: ChangedPath,
        old: bytes | None,
        new: bytes | None,
    ) -> ChangedPath:
        """Return what the contents of a path and the text of the goal make of it.

        A manifest is work if only dependencies and metadata differ, a test if only its
        formatting does, and so is what the goal asks to change by its name and no check
        reads. New configuration and new commands that it names are allowed.
        """
        # Data of tests may be the expected output of a formatter.
        is_test = item.kind == "test" and item.rule == EXISTING_TEST
        if is_test and is_python_code(item.path) and is_reformatted(old, new):
            return _as_work(item)
        is_named = self.named.names(item.path)
        if item.kind == "configuration" and item.rule in _COMPARED_IN_PARTS:
            if self._is_same_part(item, old, new):
                return _as_work(item)
            is_asked_for = (item.change == "new" and is_named) or (
                self._adds_named_commands(item.path, old, new)
            )
            if is_asked_for and not self.strict:
                return replace(
                    item,
                    protected=False,
                    named=False,
                    allowed=NAMED_BY_GOAL,
                )
        if not is_named or item.protected:
            return item
        is_data = item.kind == "data" and not item.named
        if item.rule.startswith(USED) or is_data:
            return _as_work(item)
        return item

    def _is_same_part(
        self,
        item: ChangedPath,
        old: bytes | None,
        new: bytes | None,
    ) -> bool:
        """Return whether the part that configures checks is the same."""
        part_of = partial(
            check_part,
            item.path,
            # Without tests, settings of test runners decide nothing.
            only_linters=item.rule == NEW_LINTING or not self._observed.runs_tests,
            tools=self._observed.tools,
        )
        return part_of(old) == part_of(new)

    def _adds_named_commands(
        self,
        path: str,
        old: bytes | None,
        new: bytes | None,
    ) -> bool:
        commands = added_commands(path, old, new)
        return bool(commands) and all(map(self.named.names_command, commands))


def _is_source(path: str, mode: str) -> bool:
    """Return whether a file is source by its name and its mode of git."""
    if _EXPECTED.search(path):
        return False
    if language_of(path) is not None or _TEMPLATE.search(path) or _IS_MANIFEST(path):
        return True
    # A program without a suffix.
    return mode == "100755" and "." not in path.rpartition("/")[2]


def _as_work(item: ChangedPath) -> ChangedPath:
    """Return a changed path that is work of the agent and no check."""
    return replace(
        item,
        kind="source",
        rule="",
        protected=False,
        named=False,
    )


def contents_needed(changes: Mapping[str, EntryPair]) -> dict[str, str]:
    """Return the ids of the contents that `classify_changes` compares in parts.

    Each has its path.
    """
    needed: dict[str, str] = {}
    for path, entries in changes.items():
        # Other contents are compared by their ids.
        if not (is_read_in_parts(path) or (is_python_code(path) and all(entries))):
            continue
        for entry in entries:
            if entry is not None and entry.stored:
                needed[entry.blob] = path
    return needed


def _content(entry: Entry | None, contents: Mapping[str, bytes]) -> bytes | None:
    """Return what a content is compared by; None if the file does not exist.

    It is the content itself, or its id.
    """
    if entry is None:
        return None
    content = contents.get(entry.blob, entry.blob.encode())
    # A link with the same text as a file is not the same.
    return b"-> " + content if entry.mode == LINK else content


def classify_changes(
    protection: Protection,
    start: StartFiles,
    changes: Mapping[str, EntryPair],
    contents: Mapping[str, bytes],
    *,
    delivered: ObservedChecks | None = None,
) -> tuple[ChangedPath, ...]:
    """Return every path that differs from the start, with its meaning for the checks.

    They are sorted. `protection` has the goal's keys and what the baseline showed
    (`with_observed`). `contents` has the stored contents of `contents_needed(changes)`,
    by their ids. `delivered` is what the checks showed of the agent's work.
    """
    rules = protection.at(start)
    items: list[ChangedPath] = []
    for path, (old, new) in changes.items():
        change = _change(old, new)
        modes = [entry.mode for entry in (old, new) if entry is not None]
        # The last mode is that of the new file, if there is one.
        item = rules.describe(path, change, modes[-1], delivered)
        # Snapshots contain no files below a link, so it stands for what it leads to.
        if LINK in modes and not item.protected:
            below = rules.describe(f"{path}/x", change, delivered=delivered)
            item = replace(below, path=path)
        before, after = _content(old, contents), _content(new, contents)
        items.append(rules.compared(item, before, after))
    return tuple(sorted(items, key=lambda item: item.path))


def _change(old: Entry | None, new: Entry | None) -> PathChange:
    if old is None:
        return "new"
    return "deleted" if new is None else "changed"
