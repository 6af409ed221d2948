"""Paths, tests, make targets and npm scripts that a validator's own command line names and that do not exist."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from goalrunner.core.shell_programs import Program, programs
from goalrunner.validators.absent_programs import Absent, Place, brings_nothing, misspelled, stem
from goalrunner.validators.check_files import (
    MAKE,
    PACKAGE_MANAGERS,
    make_targets,
    makefile_in,
    package_scripts,
    text_of,
)
from goalrunner.validators.runners import Call, calls

_TESTS = re.compile(r"test_.*\.py|.*_test\.py|tests?\.py|.*_test\.go|.*\.(?:test|spec)\.[cm]?[jt]sx?")
_PLAIN = re.compile(r"[\w.+@%,/-]+")
_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__", "venv", "env"})
_MOST = 20_000
"""Files of a workspace that are looked at."""
_FLAGS = frozenset("--lf --ff --sw --nf --exitfirst --verbose --quiet --no-header --no-summary".split())  # noqa: SIM905
"""Long options of pytest without a value, behind which a path may stand."""
_VALUED = frozenset("-k -m -p -c -n -o -W -r".split())  # noqa: SIM905
_FILES = (".py", ".go", ".js", ".ts")
_WRITES_TESTS = re.compile(r"\b(?:add|cover|create|extend|implement|write)\b[^.\n]*\btests?\b", re.IGNORECASE)
"""A goal's text that asks for tests."""
_NODE = re.compile(r"([\w./-]+\.py)::(?:\w+::)*(\w+)(?:\[.*)?", re.DOTALL)
_NAMES = re.compile(r"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+(test\w*)", re.MULTILINE | re.IGNORECASE)
_GENERATED = re.compile(
    r"import \*|globals\(\)|setattr\(|^class \w+\((?!(?:\w+\.)?\w*TestCase\)|object\)|\))", re.MULTILINE
)
"""What may bring tests that the text of a file does not name, such as a base class."""
_TARGET = re.compile(r"[A-Za-z][\w-]*")
_DYNAMIC = re.compile(
    r"^\s*-?s?include\b|^[^\t#\n]*[%$][^\n]*:|^\.DEFAULT\b|\$\((?:eval|foreach)|^[\w./-][^:=\n]*\\$", re.MULTILINE
)
"""What may make targets that the text of a Makefile does not name."""


@dataclass(frozen=True)
class TestTree:
    """The files with tests in a workspace, by the names that test runners look for."""

    __test__ = False

    workspace: Path

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Their paths, relative to the workspace, sorted."""
        found: list[str] = []
        seen = 0
        for folder, folders, names in os.walk(self.workspace):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
            below = Path(folder).relative_to(self.workspace)
            found += [str(below / name) for name in names if _TESTS.fullmatch(name)]
            seen += len(names)
            if seen > _MOST:
                break
        return tuple(sorted(found))

    @cached_property
    def folders(self) -> tuple[str, ...]:
        """The folders below the workspace that hold some, at any depth."""
        return tuple(sorted({str(parent) for file in self.files for parent in Path(file).parents} - {"."}))

    def similar(self, path: str) -> str:
        """Return the existing file or folder with tests that a missing path may mean; empty if there is none.

        It has the same name in another folder, or the path misspells it.
        """
        name, is_file = Path(path).name, path.endswith(_FILES)
        known = [Path(other) for other in (self.files if is_file else self.folders)]
        same = sorted((other for other in known if other.name == name), key=lambda other: len(str(other)))
        if not same and (near := misspelled(name, {other.name for other in known})):
            # A plural may be a new file.
            is_new = is_file and stem(near).removesuffix("s") == stem(name).removesuffix("s")
            same = [other for other in known if other.name == near and not is_new]
        return str(same[0]) if len(same) == 1 or (same and not is_file) else ""


def absent_targets(line: str, place: Place, tree: TestTree, goal_text: str) -> tuple[Absent, ...]:
    """Return the paths, tests, targets and scripts that a line names and that do not exist.

    One that the goal's text names is what the work is to bring. So may a test be if the goal is to write tests.
    """
    found = [*_paths_and_tests(line, place, tree)]
    if _WRITES_TESTS.search(goal_text):
        found = [_expected(item) for item in found]
    for program in programs(line):
        command = program.command
        if program.words and not (program.problem or program.through or command.fallback or command.optional):
            found += [*_target(program, place), *_script(program, place)]
        if not (brings_nothing(program) or program.name in MAKE | PACKAGE_MANAGERS):
            break  # it may write the Makefile
    if (start := _absent_start(line, place)) and start not in (item.path for item in found):
        found.append(Absent(start, f" fails until {start} exists", mistake=False, path=start, is_start=True))
    if not tree.files and any(
        call.runner.name == "pytest" and call.tests and not [*_paths(call)] for call in calls(line)
    ):
        found.append(Absent("", " fails until there are tests: the workspace has no test file", mistake=False))
    return tuple(_expected(item) if _is_named(item, goal_text) else item for item in dict.fromkeys(found))


def _expected(item: Absent) -> Absent:
    """Return an absent word as one that the work may bring."""
    message = f" fails until {item.word} exists" if item.path else item.message
    return replace(item, mistake=False, message=message)


def _is_named(item: Absent, goal_text: str) -> bool:
    return mentions(goal_text, item.word) or (item.path.endswith(_FILES) and mentions(goal_text, stem(item.path)))


def folder_without_tests(line: str, place: Place, tree: TestTree, goal_text: str) -> str:
    """Return the folder of sources in which pytest collects no tests, and the one that may be meant; empty if none is."""
    tops = [folder for folder in tree.folders if "/" not in folder]
    for call, word, path in () if _WRITES_TESTS.search(goal_text) else _paths_of(line, place):
        is_source = path not in tree.folders and any((place.workspace / path).rglob("*.py"))
        if call.runner.name == "pytest" and is_source and len(tops) == 1:
            return f"no tests collected in {word}; did you mean {tops[0]}?"
    return ""


def mentions(text: str, path: str) -> bool:
    """Return whether a text names a path, or its last part, as a word."""
    name = re.escape(Path(path).name)
    return bool(name) and re.search(rf"(?<![\w-]){name}(?![\w-])", text, re.IGNORECASE) is not None


def _paths_and_tests(line: str, place: Place, tree: TestTree) -> Iterator[Absent]:
    """Yield the paths and tests of direct calls of test runners that do not exist."""
    for _, word, path in _paths_of(line, place):
        if not os.path.lexists(place.workspace / path):
            near = tree.similar(path)
            message = f": {word} does not exist" if near else f" fails until {word} exists"
            yield Absent(word, message, f"did you mean {near}?" if near else "", mistake=bool(near), path=path)
    for call in calls(line):
        nodes = map(_NODE.fullmatch, call.arguments if call.runner.name == "pytest" and call.tests else ())
        for node in filter(None, nodes):
            text = text_of(Path(place.path(call.program, node[1])))
            if text and not (re.search(rf"\b{node[2]}\b", text) or _GENERATED.search(text)):
                yield _unnamed(node[2], f"{node[1]} has no {node[2]}", _NAMES.findall(text))


def _unnamed(word: str, what: str, known: Iterable[str]) -> Absent:
    near = misspelled(word, known)
    return Absent(word, f": {what}", f"did you mean {near}?" if near else "", mistake=bool(near))


def _absent_start(line: str, place: Place) -> str:
    """Return the folder or script of the workspace that a line starts with and that does not exist; empty if it does."""
    first = next(iter(programs(line)), None)
    if first is None or first.problem or first.command.optional or first.command.lost is not None:
        return ""
    words = first.command.words
    is_cd = words[:1] == ("cd",) and len(words) == 2
    word = words[1] if is_cd else next(iter(first.words), "")
    full = place.path(first, word)
    is_path = (is_cd or ("/" in word and not first.module)) and _PLAIN.fullmatch(word) and place.holds(full)
    return os.path.relpath(full, place.workspace) if is_path and not os.path.lexists(full) else ""


def _paths_of(line: str, place: Place) -> Iterator[tuple[Call, str, str]]:
    """Yield each path in the workspace that a line gives to a test runner: the call, its word, and the path itself."""
    for call in calls(line):
        for word in _paths(call):
            full = place.path(call.program, word)
            if place.holds(full):
                yield call, word, os.path.relpath(full, place.workspace)


def _paths(call: Call) -> Iterator[str]:
    """Yield the words of a runner's call that are certainly paths."""
    words, found = call.arguments, []
    if call.runner.name == "pytest" and call.tests:
        for before, word in pairwise(("", *words)):
            valued = before in _VALUED or (before.startswith("--") and "=" not in before and before not in _FLAGS)
            if not valued and not word.startswith(("-", "@")):
                found.append(word.partition("::")[0])
    elif call.runner.name == "go test":
        found = [word.removesuffix("...").rstrip("/") for word in words if word.startswith("./")]
    elif call.runner.name == "unittest" and words[:1] == ("discover",):
        found = [later for word, later in pairwise(words) if word in ("-s", "--start-directory")]
    yield from (word for word in found if word.strip("./") and _PLAIN.fullmatch(word))


def _target(program: Program, place: Place) -> Iterator[Absent]:
    """Yield the first target of `make TARGET` that the Makefile does not have; only plain calls are looked at."""
    words, folder = program.words[1:], Path(place.path(program, "."))
    if program.name not in MAKE or not all(map(_TARGET.fullmatch, words)) or not folder.is_dir():
        return
    name = makefile_in(folder)
    text = text_of(folder / name) if name else ""
    targets = {*make_targets(text), *(path.name.partition(".")[0] for path in folder.iterdir())}
    missing = next((word for word in words if word not in targets), "")
    if missing and place.holds(str(folder)) and not _DYNAMIC.search(text):
        what = f"{name} has no target {missing}" if name else f"there is no Makefile with a target {missing}"
        yield _unnamed(missing, what, make_targets(text))


def _script(program: Program, place: Place) -> Iterator[Absent]:
    """Yield the script of `npm run NAME` or `npm test` that package.json does not have."""
    words = [word for word in program.words[1:] if word not in ("-s", "--silent")]
    folder = Path(place.path(program, "."))
    runs = words[:1] in (["run"], ["run-script"])
    name = "".join(words[1:2] if runs else words[:1] if program.name == "npm" and words[:1] == ["test"] else ())
    is_plain = program.name in PACKAGE_MANAGERS and re.fullmatch(r"\w[\w:.-]*", name) and "--if-present" not in words
    if not is_plain or not place.holds(str(folder)) or (folder / "node_modules/.bin" / name).exists():
        return
    scripts = package_scripts(text_of(folder / "package.json"))
    if name not in scripts:
        has = "package.json has no" if (folder / "package.json").exists() else "there is no package.json with a"
        yield _unnamed(name, f'{has} script "{name}"', scripts)
