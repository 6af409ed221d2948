"""Paths that a test runner is given in a validator's own command line and that do not exist or hold no tests."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from goalrunner.core.shell_programs import programs
from goalrunner.validators.absent_programs import Place, replaced
from goalrunner.validators.runners import Call, calls

_TESTS = re.compile(r"test_.*\.py|.*_test\.py|tests?\.py|.*_test\.go|.*\.(?:test|spec)\.[cm]?[jt]sx?")
_PLAIN = re.compile(r"[\w.+@%,/-]+")
_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__", "venv", "env"})
_MOST = 20_000
"""Files of a workspace that are looked at."""
_FLAGS = frozenset(
    "--lf --ff --sw --nf --last-failed --failed-first --exitfirst --verbose --quiet --showlocals --no-header --no-summary".split()  # noqa: SIM905
)
"""Long options of pytest without a value, behind which a path may stand."""
_VALUED = frozenset("-k -m -p -c -n -o -W -r".split())  # noqa: SIM905
_SELECTING = tuple("-k -m --doctest --deselect --ignore --nbmake --nbval --lf --last-failed --testmon".split())  # noqa: SIM905
_FILES = (".py", ".go", ".js", ".ts")
_SIMILAR = 0.8
_SIMILAR_FILE = 0.9
_LEAST = 4
"""Letters of a word in which one edit is a misspelling."""
_AROUND = re.compile(r"^test_|_test(?=\.|$)|\..*")
"""What names of tests have in common."""
_WRITES_TESTS = re.compile(r"\b(?:add|cover|create|extend|implement|write)\b[^.\n]*\btests?\b", re.IGNORECASE)


@dataclass(frozen=True)
class Unmatched:
    """A word of a line that names nothing: a path, a test, a target of make or a script of npm."""

    word: str
    message: str
    """What follows "validator NAME"."""
    instead: str = ""
    """The existing one that may be meant."""
    mistake: bool = False
    """Whether it is plainly a mistake, rather than what the work is to bring."""
    path: str = ""
    """Of a path, the one relative to the workspace."""

    def hint(self, command: str) -> str:
        """Return what to type."""
        return f'did you mean {self.instead}? write "{replaced(command, self.word, self.instead)}"'

    @property
    def warning(self) -> str:
        """The message, with a hint."""
        return f"{self.message}; did you mean {self.instead}?" if self.instead else self.message


@dataclass(frozen=True)
class TestTree:
    """The files with tests in a workspace, by the names that test runners look for."""

    __test__ = False

    workspace: Path

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Return their paths, relative to the workspace, sorted."""
        return tuple(sorted(self._walked()))

    @cached_property
    def folders(self) -> tuple[str, ...]:
        """Return the folders below the workspace that hold some, at any depth."""
        found = {str(parent) for file in self.files for parent in Path(file).parents}
        return tuple(sorted(found - {"."}))

    def _walked(self) -> Iterator[str]:
        seen = 0
        for folder, folders, names in os.walk(self.workspace):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
            seen += len(names)
            for name in filter(_TESTS.fullmatch, names):
                yield os.path.relpath(os.path.join(folder, name), self.workspace)  # noqa: PTH118
            if seen > _MOST:
                return

    def near_file(self, path: str) -> str:
        """Return the test file in the same folder whose name is most similar to a missing one; empty if none is."""
        folder, name = os.path.split(path)
        names = [Path(file).name for file in self.files if os.path.dirname(file) == folder]  # noqa: PTH120
        near = difflib.get_close_matches(name, names, n=1, cutoff=_SIMILAR_FILE) if path.endswith(_FILES) else []
        return os.path.join(folder, near[0]) if near else ""  # noqa: PTH118

    def similar(self, path: str) -> str:
        """Return the existing file or folder with tests that a missing path may mean; empty if there is none.

        A file has the same name in another folder. A folder has the same last name elsewhere, or a similar one.
        """
        name = Path(path).name
        if path.endswith(_FILES):
            same = [file for file in self.files if Path(file).name == name]
            return same[0] if len(same) == 1 else ""
        if same := sorted((folder for folder in self.folders if Path(folder).name == name), key=len):
            return same[0]
        # Names that differ in digits alone are different on purpose.
        spelled = [folder for folder in self.folders if _letters(Path(folder).name) != _letters(name)]
        siblings = [folder for folder in spelled if Path(folder).parent == Path(path).parent]
        for folders in (siblings, spelled):
            names = {Path(folder).name: folder for folder in reversed(folders)}
            if near := nearest(name, names, _SIMILAR):
                return names[near]
        return ""


def absent_paths(line: str, place: Place, tree: TestTree, objective: str) -> tuple[Unmatched, ...]:
    """Return the paths of direct calls of test runners that do not exist, or hold no tests.

    A path that the objective names is what the work is to bring.
    """
    found: list[Unmatched] = []
    for call in calls(line):
        for word in _paths(call):
            full = place.path(call.program, word)
            if not place.holds(full):
                continue
            path = os.path.relpath(full, place.workspace)
            start = os.path.relpath(place.path(call.program, "."), place.workspace)
            if not os.path.lexists(full):
                is_new = mentions(objective, path)
                if instead := "" if is_new else _from(tree.similar(path), start):
                    found.append(Unmatched(word, f": {word} does not exist", instead, mistake=True, path=path))
                else:
                    near = "" if is_new else tree.near_file(path)
                    is_wanted = mentions(objective, _stem(path)) or writes_tests(objective)
                    mistake = is_misspelling(path, near) and not is_wanted
                    what = f": {word} does not exist" if mistake else f" is red until {word} exists"
                    found.append(Unmatched(word, what, _from(near, start), mistake=mistake, path=path))
            elif call.runner.name == "pytest" and _is_empty(call, path, full, tree):
                instead = "" if names_folder(objective, path) else _from(_other(path, tree), start)
                found.append(Unmatched(word, f": no test file in {word}", instead, path=path))
    return tuple(found)


def absent_start(line: str, place: Place) -> str:
    """Return the folder or script of the workspace that a line starts with and that does not exist; empty if it does."""
    first = next(iter(programs(line)), None)
    if first is None or first.problem or first.command.optional or first.command.lost is not None:
        return ""
    words = first.command.words
    word = words[1] if words[:1] == ("cd",) and len(words) == 2 else next(iter(first.words), "")
    is_path = words[:1] == ("cd",) or ("/" in word and not first.module)
    full = place.path(first, word)
    if not is_path or not _PLAIN.fullmatch(word) or not place.holds(full) or os.path.lexists(full):
        return ""
    return os.path.relpath(full, place.workspace)


def runs_all_tests(line: str) -> bool:
    """Return whether a line calls pytest without a path."""
    return any(call.runner.name == "pytest" and call.tests and not tuple(_paths(call)) for call in calls(line))


def mentions(text: str, path: str) -> bool:
    """Return whether a text names a path, or its last part, as a word."""
    name = re.escape(Path(path).name)
    return re.search(rf"(?<![\w-]){name}(?![\w-])", text, re.IGNORECASE) is not None


def writes_tests(text: str) -> bool:
    """Return whether a goal's text asks for tests."""
    return _WRITES_TESTS.search(text) is not None


def nearest(word: str, known: Iterable[str], cutoff: float) -> str:
    """Return the name that is most similar to a word, or else one that it misspells; empty if there is none."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=cutoff)
    return next(iter(near), "") or next((name for name in names if is_misspelling(word, name)), "")


def is_misspelling(word: str, name: str) -> bool:
    """Return whether a letter of a name is missing, added, replaced, or swapped with the next one.

    Names that differ in digits or a plural alone are different on purpose.
    """
    stems = _stem(word), _stem(name)
    if min(map(len, stems)) < _LEAST or _letters(stems[0]) == _letters(stems[1]):
        return False
    one, other = (stem.removesuffix("s") for stem in stems)
    same = len(os.path.commonprefix((one, other)))  # noqa: RUF071 - of letters
    one, other = one[same:], other[same:]
    is_swap = one[:2] == other[1::-1] and one[2:] == other[2:]
    return one != other and (is_swap or one[1:] in (other, other[1:]) or one == other[1:])


def names_folder(text: str, path: str) -> bool:
    """Return whether a text names a folder itself, rather than a file in it."""
    words = "|".join(map(re.escape, dict.fromkeys((path, Path(path).name))))
    return re.search(rf"(?<![\w./-])(?:\./)?(?:{words})/?(?![\w/-])", text, re.IGNORECASE) is not None


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
        started = [later for word, later in pairwise(words) if word in ("-s", "--start-directory")]
        found = started[:1] or [word for word in words[1:2] if "/" in word and not word.startswith("-")]
    yield from (word for word in found if word.strip("./") and _PLAIN.fullmatch(word))


def _is_empty(call: Call, path: str, full: str, tree: TestTree) -> bool:
    """Return whether pytest finds no test in a folder of sources, by the usual names."""
    selecting = any(word.startswith(_SELECTING) for word in call.arguments)
    if selecting or not Path(full).is_dir() or path == "." or path in tree.folders or not tree.files:
        return False
    return any(Path(full).rglob("*.py"))


def _other(path: str, tree: TestTree) -> str:
    """Return the folder with tests that is meant: a similar one, or the only one at the top."""
    tops = [folder for folder in tree.folders if "/" not in folder]
    return tree.similar(path) or (tops[0] if len(tops) == 1 else "")


def _from(path: str, start: str) -> str:
    return os.path.relpath(path, start) if path else ""


def _stem(path: str) -> str:
    return _AROUND.sub("", Path(path).name)


def _letters(name: str) -> str:
    return re.sub(r"\d+", "", name)
