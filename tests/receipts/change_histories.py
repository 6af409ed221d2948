"""Histories of small projects, each with the receipt that its last change should get.

A history is files of a base, a change of them, and a shape: how the two commits come to
be in a repository. Most have the usual shape, a branch with one commit.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.workspaces import git, make_repository, write

Change = Mapping[str, str | None]
"""Files of a head; None: deleted; `-> TARGET`: a link."""


@dataclass(frozen=True)
class Place:
    """Where a change is, and the revisions that a person would name."""

    root: Path
    base: str = "main"
    head: str = "change"


def changed(text: str, old: str, new: str) -> str:
    """Return a text with one place changed."""
    assert text.count(old) == 1, (text, old)
    return text.replace(old, new)


def commit(root: Path, change: Change, message: str = "change") -> None:
    """Commit files on the current branch."""
    for name, text in change.items():
        if text is None:
            (root / name).unlink()
        elif text.startswith("-> "):
            (root / name).unlink(missing_ok=True)
            (root / name).symlink_to(text.removeprefix("-> "))
        else:
            write(root, {name: text})
    git(root, "add", "--all")
    git(root, "commit", "-q", "--allow-empty", "-m", message)


def branch(root: Path, base: Change, change: Change) -> Place:
    """Make a repository whose branch `change` has one commit."""
    make_repository(root, {name: text or "" for name, text in base.items()})
    git(root, "switch", "-q", "-c", "change")
    commit(root, change)
    return Place(root)


def branch_that_merged(root: Path, base: Change, change: Change) -> Place:
    """Let the default branch go on, and merge it into the branch."""
    branch(root, base, change)
    git(root, "switch", "-q", "main")
    commit(root, {"later.py": "LATER = 1\n"}, "later")
    git(root, "switch", "-q", "change")
    git(root, "merge", "-q", "--no-edit", "main")
    return Place(root)


def merge_commit(root: Path, base: Change, change: Change) -> Place:
    """Make the commit that a forge makes of base and head; it is checked out."""
    branch(root, base, change)
    git(root, "switch", "-q", "main")
    commit(root, {"later.py": "LATER = 1\n"}, "later")
    git(root, "switch", "-q", "--detach", "main")
    git(root, "merge", "-q", "--no-edit", "--no-ff", "change")
    return Place(root, "main", "HEAD")


def fork(root: Path, base: Change, change: Change) -> Place:
    """Fetch the head of a fork into a clone of the project, as a forge's jobs do.

    The clone has no branch of the fork, and its remotes cannot be written.
    """
    project, forked = root.parent / "project", root.parent / "fork"
    make_repository(project, {name: text or "" for name, text in base.items()})
    git(root.parent, "clone", "-q", str(project), "fork")
    git(forked, "switch", "-q", "-c", "change")
    commit(forked, change)
    git(root.parent, "clone", "-q", str(project), root.name)
    git(root, "fetch", "-q", str(forked), "change")
    head = git(root, "rev-parse", "FETCH_HEAD").strip()
    git(root, "checkout", "-q", "--detach", head)
    for folder in (project, forked):
        shutil.rmtree(folder)
    return Place(root, "origin/main", "HEAD")


def rewritten_base(root: Path, base: Change, change: Change) -> Place:
    """Replace the commit of the default branch from which the branch was made."""
    branch(root, base, {"extra.py": "EXTRA = 1\n"})
    git(root, "branch", "-q", "-f", "main", "change")
    commit(root, change)
    git(root, "switch", "-q", "main")
    git(root, "reset", "-q", "--hard", "HEAD^")
    commit(root, {"extra.py": "EXTRA = 2\n"}, "another extra")
    git(root, "switch", "-q", "change")
    return Place(root)


def with_submodule(root: Path, base: Change, change: Change) -> Place:
    """Make a repository with a submodule, which the change does not move."""
    library = make_repository(root.parent / "library", {"library.py": "ONE = 1\n"})
    make_repository(root, {name: text or "" for name, text in base.items()})
    git(root, "submodule", "--quiet", "add", str(library), "library")
    git(root, "commit", "-q", "-m", "library")
    git(root, "switch", "-q", "-c", "change")
    commit(root, change)
    return Place(root)


def with_filter(root: Path, base: Change, change: Change) -> Place:
    """Make a repository whose `*.bin` are stored by a filter, as with Git LFS."""
    make_repository(root, {})
    git(root, "config", "filter.store.clean", "tr a-z A-Z")
    git(root, "config", "filter.store.smudge", "tr A-Z a-z")
    git(root, "config", "filter.store.required", "true")
    commit(root, {**base, ".gitattributes": "*.bin filter=store\n"}, "base")
    git(root, "switch", "-q", "-c", "change")
    commit(root, change)
    stored = git(root, "show", "HEAD:words.bin")
    assert stored == stored.upper(), "the filter has run"
    return Place(root)


PARSER = "def parse(text):\n    return text.split()[0]\n"
FIXED = (
    "def parse(text):\n    words = text.split()\n    return words[0] if words else ''\n"
)
REWRITTEN = "def parse(text):\n    first, *_ = text.split()\n    return first\n"  # the same behaviour
UPPER = "def parse(text):\n    return text.split()[0].upper()\n"
NO_SPACES = "def parse(text):\n    return text[:1]\n"
"""`test_spaces` fails with it, and `test_first` does not."""
BROKEN = "def parse(text):\n    return ''\n"
TESTS = """\
from words import parse


def test_first():
    assert parse("a b") == "a"


def test_spaces():
    assert parse("  a ") == "a"
"""
EMPTY = "\n\ndef test_empty():\n    assert parse('') == ''\n"
VACUOUS = "\n\ndef test_more():\n    assert parse('x y') == 'x'\n"
CONFIG = '[tool.pytest.ini_options]\npythonpath = ["."]\n'

BASE = {
    "words.py": PARSER,
    "tests/test_words.py": TESTS,
    "pyproject.toml": CONFIG,
    ".gitignore": "__pycache__\n.pytest_cache\n",
}
PYTEST = "python -m pytest -q -p no:cacheprovider"

CASES = """\
import pytest

from words import parse


@pytest.mark.parametrize("text, word", [("a b", "a"), ("  a ", "a")], ids=["one", "two"])
def test_parse(text, word):
    assert parse(text) == word
"""
UNITTEST = """\
import unittest

from words import parse


class Words(unittest.TestCase):
    def test_first(self):
        self.assertEqual(parse("a b"), "a")
"""
NODE = "module.exports = (text) => text.split(' ')[0];\n"
NODE_TEST = """\
const test = require('node:test');
const assert = require('node:assert');
const parse = require('../words.js');

test('first word', () => assert.equal(parse('a b'), 'a'));
"""
NODE_EMPTY = "test('no text', () => assert.equal(parse(), ''));\n"

RUNNER = """\
# Runs the functions of *_check.py, and writes JUnit XML to the file after --junit.
import pathlib, runpy, sys, traceback
from xml.sax.saxutils import quoteattr

cases, failed = [], 0
for path in sorted(pathlib.Path().glob("*_check.py")):
    for name, check in runpy.run_path(str(path)).items():
        if not name.startswith("check_"):
            continue
        try:
            check()
            problem = ""
        except Exception:
            failed += 1
            problem = f"<failure message={quoteattr(traceback.format_exc())}/>"
        case = f'<testcase file="{path}" classname="{path.stem}" name="{name}" time="0">'
        cases.append(case + problem + "</testcase>")
count = f'tests="{len(cases)}" failures="{failed}"'
text = f'<testsuite name="checks" {count}>{"".join(cases)}</testsuite>'
pathlib.Path(sys.argv[sys.argv.index("--junit") + 1]).write_text(text)
print(f"{len(cases)} checks, {failed} failed")
sys.exit(failed > 0)
"""
CHECKS = (
    'from words import parse\n\n\ndef check_first():\n    assert parse("a b") == "a"\n'
)
CHECK_EMPTY = "\n\ndef check_empty():\n    assert parse('') == ''\n"


@dataclass(frozen=True)
class History:
    """A change, and the receipt that it should get."""

    change: Change
    result: str
    code: int
    proofs: Mapping[str, str] = field(default_factory=dict)
    """What tests prove, by the last part of their ids."""
    labels: tuple[str, ...] = ()
    base: Change = field(default_factory=lambda: BASE)
    validator: str = PYTEST
    arguments: tuple[str, ...] = ()
    """More options of `goal receipt`."""
    shape: Callable[[Path, Change, Change], Place] = branch
    program: str = ""
    """What must be installed."""
    environment: Mapping[str, str] = field(default_factory=dict)
    proves_nothing: bool = False
    """Whether nothing fails without the change, although the base is red."""

    @property
    def proof(self) -> str:
        """What shows that the change does what it is for."""
        if self.code:
            return "none"
        was_green = "checks passed before the change" in self.labels
        is_unproven = was_green or self.proves_nothing
        return "no regression" if is_unproven else "fail to pass"


def complete(
    change: Change, proofs: Mapping[str, str], *labels: str, **more: object
) -> History:
    """Return a history whose change is verified."""
    return History(change, "complete", 0, proofs, labels, **more)  # type: ignore[arg-type]


def refused(
    change: Change, proofs: Mapping[str, str], *labels: str, **more: object
) -> History:
    """Return a history whose change is not verified."""
    return History(change, "not complete", 1, proofs, labels, **more)  # type: ignore[arg-type]


def blocked(
    change: Change, proofs: Mapping[str, str], *labels: str, **more: object
) -> History:
    """Return a history whose change a person has to look at."""
    return History(change, "blocked", 3, proofs, labels, **more)  # type: ignore[arg-type]


FIX_WITH_TEST: Change = {"words.py": FIXED, "tests/test_words.py": TESTS + EMPTY}
PROOFS_OF_FIX = {"test_first": "pass to pass", "test_empty": "fail to pass"}

HONEST = {
    "a fix with a test": complete(FIX_WITH_TEST, PROOFS_OF_FIX),
    "a fix of a red test": complete(
        {"words.py": FIXED},
        PROOFS_OF_FIX,
        base={**BASE, "tests/test_words.py": TESTS + EMPTY},
    ),
    "a feature with tests in new files": complete(
        {
            "numbers_.py": "def double(x):\n    return 2 * x\n",
            "tests/test_numbers.py": "from numbers_ import double\n\n\n"
            "def test_double():\n    assert double(2) == 4\n",
        },
        {"test_double": "fail to pass", "test_first": "pass to pass"},
    ),
    "a fix with a test that is green on the base as well": complete(
        {"words.py": FIXED, "tests/test_words.py": TESTS + EMPTY + VACUOUS},
        {"test_empty": "fail to pass", "test_more": "vacuous"},
        "vacuous tests: 1",
    ),
    "a fix with a new assertion in a test": complete(
        {
            "words.py": FIXED,
            "tests/test_words.py": changed(
                TESTS,
                'assert parse("a b")',
                'assert parse("") == ""\n    assert parse("a b")',
            ),
        },
        {"test_first": "fail to pass", "test_spaces": "pass to pass"},
    ),
    "a fix with a new assertion, and a test that is green on the base": complete(
        {
            "words.py": FIXED,
            "tests/test_words.py": changed(
                TESTS,
                'assert parse("a b")',
                'assert parse("") == ""\n    assert parse("a b")',
            )
            + VACUOUS,
        },
        {"test_first": "fail to pass", "test_more": "vacuous"},
        "vacuous tests: 1",
    ),
    "a feature that its tests import, beside a test that is green on the base": complete(
        {
            "numbers_.py": "def double(x):\n    return 2 * x\n",
            "tests/test_numbers.py": "from numbers_ import double\n\n\n"
            "def test_double():\n    assert double(2) == 4\n",
            "tests/test_words.py": TESTS + VACUOUS,
        },
        {"test_double": "fail to pass", "test_more": "new"},
    ),
    "a fix without a test": complete(
        {"words.py": FIXED}, {}, "checks passed before the change"
    ),
    "a refactoring": complete(
        {"words.py": REWRITTEN},
        {"test_first": "pass to pass"},
        "checks passed before the change",
    ),
    "documentation": complete(
        {"README.md": "# Words\n\nIt parses.\n"},
        {"test_first": "pass to pass"},
        "checks passed before the change",
    ),
    "a file of tests with a new name and a new test": complete(
        {
            "words.py": FIXED,
            "tests/test_words.py": None,
            "tests/test_parse.py": TESTS + EMPTY,
        },
        PROOFS_OF_FIX,
    ),
    "tests in another folder": complete(
        {
            "tests/test_words.py": None,
            "checks/test_words.py": TESTS,
            "pyproject.toml": CONFIG + 'testpaths = ["checks"]\n',
        },
        {"test_first": "pass to pass"},
        "checks differ: pyproject.toml",
        "checks passed before the change",
        base={**BASE, "pyproject.toml": CONFIG + 'testpaths = ["tests"]\n'},
    ),
    "tests alone": complete(
        {"tests/test_words.py": TESTS + VACUOUS},
        {"test_first": "pass to pass", "test_more": "vacuous"},
        "checks passed before the change",
        "vacuous tests: 1",
    ),
    "a fix in data": complete(
        {
            "words.json": '["a", "b"]',
            "tests/test_words.py": TESTS
            + "\n\ndef test_known():\n    assert parse('b') == 'b'\n",
        },
        {"test_first": "pass to pass", "test_known": "fail to pass"},
        base={
            **BASE,
            "words.json": '["a"]',
            "words.py": "import json\n\n\ndef parse(text):\n"
            "    words = json.load(open('words.json'))\n"
            "    return next(word for word in text.split() if word in words)\n",
        },
    ),
    "a fixture in conftest.py": complete(
        {
            "words.py": FIXED,
            "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\n"
            "def nothing():\n    return ''\n",
            "tests/test_words.py": TESTS
            + "\n\ndef test_empty(nothing):\n    assert parse(nothing) == ''\n",
        },
        PROOFS_OF_FIX,
        "checks differ: tests/conftest.py",
    ),
    "a test with a new file of data": complete(
        {
            "words.py": FIXED,
            "tests/empty.txt": "\0\n",
            "tests/test_words.py": TESTS
            + "\n\ndef test_empty():\n    text = open('tests/empty.txt').read()\n"
            "    assert parse(text.strip('\\0\\n')) == ''\n",
        },
        PROOFS_OF_FIX,
    ),
    "a source file with a new name that can be imported by the old one": complete(
        {"words.py": "from text import parse\n", "text.py": PARSER},
        {"test_first": "pass to pass"},
        "checks passed before the change",
    ),
    "a source file with a new name, for which the tests were changed": blocked(
        {
            "words.py": None,
            "text.py": PARSER,
            "tests/test_words.py": changed(TESTS, "from words", "from text"),
        },
        {"test_first": "changed"},
    ),
    "one more case of a parametrised test": complete(
        {
            "words.py": FIXED,
            "tests/test_words.py": changed(
                changed(CASES, '"a")], ids', '"a"), ("", "")], ids'),
                '"two"]',
                '"two", "no text"]',
            ),
        },
        {"test_parse[one]": "pass to pass", "test_parse[no text]": "fail to pass"},
        base={**BASE, "tests/test_words.py": CASES},
    ),
    "a new dependency": complete(
        {
            "requirements.txt": "upper\nlower\n",
            "words.py": "from lower import lowered\n\n\ndef parse(text):\n"
            "    return lowered(text).split()[0]\n",
            "tests/test_words.py": TESTS
            + "\n\ndef test_lower():\n    assert parse('A b') == 'a'\n",
        },
        {"test_first": "pass to pass", "test_lower": "fail to pass"},
        "dependencies changed: requirements.txt",
        base={
            **BASE,
            ".gitignore": "__pycache__\ninstalled/\n",
            "pyproject.toml": changed(CONFIG, '"."', '".", "installed"'),
            "goal.toml": 'objective = "Words are parsed."\n'
            f'validator = "{PYTEST}"\n[workspace]\nsetup = "sh install.sh"\n',
            "install.sh": "mkdir -p installed\n"
            'for name in $(cat requirements.txt); do cp "index/$name.py" installed; done\n',
            "requirements.txt": "upper\n",
            "index/upper.py": "def uppered(text):\n    return text.upper()\n",
            "index/lower.py": "def lowered(text):\n    return text.lower()\n",
        },
        validator="",
    ),
}

WEAKENED = {
    "no test that fails without the change": refused(
        {"words.py": FIXED, "tests/test_words.py": TESTS + VACUOUS},
        {"test_more": "vacuous"},
        "checks passed before the change",
        "vacuous tests: 1",
    ),
    "a broken source": refused({"words.py": BROKEN}, {"test_first": "pass to fail"}),
    "a weakened comparison": blocked(
        {
            "words.py": UPPER,
            "tests/test_words.py": TESTS.replace('== "a"', 'in ("a", "A")'),
        },
        {"test_first": "weakened", "test_spaces": "weakened"},
        "weakened tests: 2",
    ),
    "an assertion that was removed": blocked(
        {
            "words.py": NO_SPACES,
            "tests/test_words.py": changed(
                TESTS, 'assert parse("  a ") == "a"', 'parse("  a ")'
            ),
        },
        {"test_spaces": "weakened"},
        "weakened tests: 1",
    ),
    "a changed expectation": blocked(
        {
            "words.py": UPPER,
            "tests/test_words.py": TESTS.replace('== "a"', '== "A"'),
        },
        {"test_first": "changed"},
    ),
    "a deleted test that would fail": blocked(
        {
            "words.py": NO_SPACES,
            "tests/test_words.py": TESTS.partition("\n\ndef test_spaces")[0],
        },
        {"test_spaces": "deleted"},
        "deleted tests: 1",
    ),
    "a deleted test that would pass": complete(
        {
            "words.py": FIXED,
            "tests/test_words.py": TESTS.partition("\n\ndef test_spaces")[0] + EMPTY,
        },
        {"test_spaces": "deleted", "test_empty": "fail to pass"},
        "deleted tests: 1",
    ),
    "a skipped test that would fail": blocked(
        {
            "words.py": NO_SPACES,
            "tests/test_words.py": changed(
                TESTS,
                "def test_spaces",
                "import pytest\n\n\n@pytest.mark.skip\ndef test_spaces",
            ),
        },
        {"test_spaces": "skipped"},
        "skipped tests: 1",
        "suppressions added: 1",
    ),
    "a test that is expected to fail": blocked(
        {
            "words.py": NO_SPACES,
            "tests/test_words.py": changed(
                TESTS,
                "def test_spaces",
                "import pytest\n\n\n@pytest.mark.xfail\ndef test_spaces",
            ),
        },
        {"test_spaces": "skipped"},
        "skipped tests: 1",
        "suppressions added: 1",
    ),
    "a conftest.py that deselects a test": blocked(
        {
            "words.py": NO_SPACES,
            "tests/conftest.py": "def pytest_collection_modifyitems(items):\n"
            "    items[:] = [item for item in items if 'first' in item.name]\n",
        },
        {"test_first": "pass to pass", "test_spaces": "deleted"},
        "deleted tests: 1",
    ),
    "a file of tests with a new name and without an assertion": blocked(
        {
            "words.py": NO_SPACES,
            "tests/test_words.py": None,
            "tests/test_parse.py": changed(
                TESTS, 'assert parse("  a ") == "a"', 'parse("  a ")'
            ),
        },
        {"test_spaces": "weakened"},
        "weakened tests: 1",
    ),
    "fewer cases of a parametrised test": blocked(
        {
            "words.py": NO_SPACES,
            "tests/test_words.py": changed(
                changed(CASES, ', ("  a ", "a")', ""), ', "two"', ""
            ),
        },
        {"test_parse[one]": "pass to pass", "test_parse[two]": "deleted"},
        "deleted tests: 1",
        base={**BASE, "tests/test_words.py": CASES},
    ),
    "pytest.ini that deselects a test": blocked(
        {
            "words.py": NO_SPACES,
            "pytest.ini": "[pytest]\npythonpath = .\naddopts = -k first\n",
        },
        {"test_first": "pass to pass", "test_spaces": "deleted"},
        "deleted tests: 1",
    ),
    "pyproject.toml that deselects a test": blocked(
        {"words.py": NO_SPACES, "pyproject.toml": CONFIG + 'addopts = "-k first"\n'},
        {"test_first": "pass to pass", "test_spaces": "deleted"},
        "deleted tests: 1",
    ),
    "tox.ini that deselects a test": blocked(
        {
            "words.py": NO_SPACES,
            "tox.ini": "[pytest]\npythonpath = .\naddopts = -k first\n",
        },
        {"test_first": "pass to pass", "test_spaces": "deleted"},
        "deleted tests: 1",
        base={**BASE, "tox.ini": "[pytest]\npythonpath = .\n", "pyproject.toml": ""},
    ),
    "a new file of data that a test reads, which is green on the base": refused(
        {
            "words.py": REWRITTEN,
            "tests/words.txt": "x y\n",
            "tests/test_words.py": TESTS + "\n\ndef test_file():\n"
            "    assert parse(open('tests/words.txt').read()) == 'x'\n",
        },
        {"test_file": "vacuous"},
        "checks passed before the change",
        "vacuous tests: 1",
    ),
    "a Makefile that runs no test": blocked(
        {"words.py": BROKEN, "Makefile": "test:\n\techo ok\n"},
        {},
        base={**BASE, "Makefile": f"test:\n\t{PYTEST}\n"},
        validator="make test",
        program="make",
    ),
    "a plugin of pytest that the folder brings like a package": blocked(
        {
            "words.py": BROKEN,
            "green.py": "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\n"
            "def pytest_runtest_makereport():\n    report = yield\n"
            "    report.get_result().outcome = 'passed'\n",
            "green.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: green\n",
            "green.egg-info/entry_points.txt": "[pytest11]\ngreen = green\n",
        },
        {"test_first": "weakened", "test_spaces": "weakened"},
        "rests on changed files: green.egg-info/PKG-INFO",
        "weakened tests: 2",
        environment={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": ""},
    ),
    "a module in the place of pytest": refused(
        {"words.py": BROKEN, "pytest.py": "raise SystemExit(0)\n"}, {}
    ),
    "failures of the base that the goal knows": complete(
        FIX_WITH_TEST,
        {**PROOFS_OF_FIX, "test_other": "still fails"},
        base={
            **BASE,
            "tests/test_other.py": "def test_other():\n    assert 1 == 2\n",
            "goal.toml": 'objective = "Words are parsed."\n[[validators]]\n'
            f'run = "{PYTEST}"\nknown_failures = "baseline"\n',
        },
        validator="",
    ),
    "a suite that was red for a reason that the change removes": complete(
        {
            "other.py": "ONE = 1\n",
            "words.py": FIXED,
            "tests/test_words.py": TESTS + EMPTY,
        },
        {"test_other": "fail to pass", "test_empty": "fail to pass"},
        base={
            **BASE,
            "tests/test_other.py": "def test_other():\n    import other\n\n"
            "    assert other.ONE == 1\n",
        },
    ),
    "a file of tests that could not be imported": complete(
        {"other.py": "ONE = 1\n"},
        {"test_other": "fail to pass", "test_first": "new"},
        base={
            **BASE,
            "tests/test_other.py": "from other import ONE\n\n\n"
            "def test_other():\n    assert ONE == 1\n",
        },
    ),
    "a suite that is red for another reason": refused(
        FIX_WITH_TEST,
        {"test_empty": "new", "test_other": "still fails"},
        base={
            **BASE,
            "tests/test_other.py": "def test_other():\n    assert 1 == 2\n",
        },
    ),
}

GOAL = f'objective = "Words are parsed."\nvalidator = "{PYTEST}"\n'
EASY = 'objective = "Words are parsed."\nvalidator = "true"\n'
_TABLE = "[tool.goal]\n" + GOAL
_PROJECT = '[project]\nname = "words"\nversion = "1"\ndependencies = ["pytest"]\n'

GOALS = {
    "a goal file that the change weakens": refused(
        {"words.py": BROKEN, "goal.toml": EASY},
        {"test_first": "pass to fail"},
        "goal changed",
        base={**BASE, "goal.toml": GOAL},
        validator="",
    ),
    "a goal file that the change removes": refused(
        {"words.py": BROKEN, "goal.toml": None},
        {"test_first": "pass to fail"},
        "goal changed",
        base={**BASE, "goal.toml": GOAL},
        validator="",
    ),
    "a goal file that the change brings": refused(
        {"words.py": BROKEN, "goal.toml": EASY},
        {"test_first": "pass to fail"},
        "goal changed",
        validator="",
    ),
    "a goal in pyproject.toml that the change brings": refused(
        {
            "words.py": BROKEN,
            "pyproject.toml": CONFIG + "[tool.goal]\n" + EASY,
        },
        {"test_first": "pass to fail"},
        "goal changed",
        validator="",
    ),
    "a dependency beside a goal that is the same": complete(
        {**FIX_WITH_TEST, "pyproject.toml": _PROJECT + CONFIG + _TABLE},
        PROOFS_OF_FIX,
        "checks differ: pyproject.toml",
        base={**BASE, "pyproject.toml": CONFIG + _TABLE},
        validator="",
    ),
    "a link to another goal file": refused(
        {"words.py": BROKEN, "goal.toml": "-> easy.toml"},
        {"test_first": "pass to fail"},
        "goal changed",
        base={**BASE, "goal.toml": GOAL, "easy.toml": EASY},
        validator="",
    ),
    "a goal file that is named, and is a link to another one": refused(
        {"words.py": BROKEN, "goals/check.toml": "-> easy.toml"},
        {"test_first": "pass to fail"},
        "goal changed",
        base={**BASE, "goals/check.toml": GOAL, "goals/easy.toml": EASY},
        validator="",
        arguments=("goals/check.toml",),
    ),
}

RUNNERS = {
    "a fix with a test of unittest": complete(
        {
            "words.py": FIXED,
            "test_words.py": UNITTEST
            + '\n    def test_empty(self):\n        self.assertEqual(parse(""), "")\n',
        },
        PROOFS_OF_FIX,
        base={"words.py": PARSER, "test_words.py": UNITTEST},
        validator="python -m unittest -v",
    ),
    "a fix with a test of unittest that prints no names": complete(
        {
            "words.py": FIXED,
            "test_words.py": UNITTEST
            + '\n    def test_empty(self):\n        self.assertEqual(parse(""), "")\n',
        },
        {},
        base={"words.py": PARSER, "test_words.py": UNITTEST},
        validator="python -m unittest",
    ),
    "a weakened test of unittest": blocked(
        {
            "words.py": UPPER,
            "test_words.py": changed(
                UNITTEST, 'assertEqual(parse("a b"), "a")', "id()"
            ),
        },
        {"test_first": "weakened"},
        "weakened tests: 1",
        base={"words.py": PARSER, "test_words.py": UNITTEST},
        validator="python -m unittest -v",
    ),
    "a fix with a test of node": complete(
        {
            "words.js": changed(NODE, "(text)", "(text = '')"),
            "test/words.test.js": NODE_TEST + NODE_EMPTY,
        },
        {"first word": "pass to pass", "no text": "fail to pass"},
        base={"words.js": NODE, "test/words.test.js": NODE_TEST},
        validator="node --test",
        program="node",
    ),
    "a weakened test of node": blocked(
        {
            "words.js": "module.exports = (text) => text;\n",
            "test/words.test.js": changed(
                NODE_TEST, "equal(parse('a b'), 'a')", "ok(1)"
            ),
        },
        {"first word": "weakened"},
        "weakened tests: 1",
        base={"words.js": NODE, "test/words.test.js": NODE_TEST},
        validator="node --test",
        program="node",
    ),
    "a fix with a test of a program that writes JUnit XML": complete(
        {"words.py": FIXED, "words_check.py": CHECKS + CHECK_EMPTY},
        {"check_first": "pass to pass", "check_empty": "fail to pass"},
        base={"words.py": PARSER, "words_check.py": CHECKS, "run.py": RUNNER},
        validator="python run.py --junit report.xml",
    ),
    "a program that ends with 0 although its JUnit XML has a failure": refused(
        {"words.py": BROKEN + "\n\nimport sys\n\nsys.exit = print\n"},
        {"check_first": "pass to fail"},
        base={"words.py": PARSER, "words_check.py": CHECKS, "run.py": RUNNER},
        validator="python run.py --junit report.xml",
    ),
}

SHAPES = {
    "a branch into which the default branch was merged": complete(
        FIX_WITH_TEST, PROOFS_OF_FIX, shape=branch_that_merged
    ),
    "the merge commit of base and head": complete(
        FIX_WITH_TEST, PROOFS_OF_FIX, shape=merge_commit
    ),
    "the head of a fork": complete(FIX_WITH_TEST, PROOFS_OF_FIX, shape=fork),
    "a base that was rewritten": complete(
        FIX_WITH_TEST, PROOFS_OF_FIX, shape=rewritten_base
    ),
    "a submodule that is not moved": complete(
        FIX_WITH_TEST, PROOFS_OF_FIX, shape=with_submodule
    ),
    "files that a filter stores": complete(
        {
            "words.bin": "a b c\n",
            "words.py": "def parse(text):\n    words = open('words.bin').read()\n"
            "    return text.split()[0] if text.split()[0] in words else ''\n",
            "tests/test_words.py": TESTS
            + "\n\ndef test_unknown():\n    assert parse('d') == ''\n",
        },
        {"test_first": "pass to pass", "test_unknown": "fail to pass"},
        base={**BASE, "words.bin": "a b\n"},
        shape=with_filter,
    ),
}

_CHECK = "from words import parse\nassert parse('a b') == 'a'\n"
_CHECK_OF_FIX = "from words import parse\nassert parse('') == ''\n"
_SCRIPTS = '{"scripts": {"old": "true"}}\n'
_NEW_SCRIPT = '{"scripts": {"old": "true", "words": "python run.py"}}\n'

COMMANDS = {
    "a new script that passes without the change": complete(
        {"run.py": _CHECK, "run.sh": "python run.py\n"},
        {},
        validator="sh run.sh",
        proves_nothing=True,
    ),
    "a new script that fails without the fix": complete(
        {"words.py": FIXED, "check.py": _CHECK_OF_FIX},
        {},
        validator="python check.py",
    ),
    "a new script of npm that passes without the change": complete(
        {"package.json": _NEW_SCRIPT, "run.py": _CHECK},
        {},
        base={**BASE, "package.json": _SCRIPTS},
        validator="npm run words",
        program="npm",
        proves_nothing=True,
    ),
    "a new Makefile that passes without the change": complete(
        {"Makefile": "words:\n\tpython run.py\n", "run.py": _CHECK},
        {},
        "rests on changed files: Makefile",
        validator="make words",
        program="make",
        proves_nothing=True,
    ),
    "a new package with tests, of which commands name the folder": complete(
        {
            "more/__init__.py": "",
            "more/sums.py": "def add(a, b):\n    return a + b\n",
            "more/test_sums.py": "from more.sums import add\n\n\n"
            "def test_add():\n    assert add(1, 2) == 3\n",
        },
        {"test_add": "fail to pass"},
        "rests on changed files: more/test_sums.py",
        validator=f"{PYTEST} more",
        arguments=("--validator", "python -m compileall -q more"),
    ),
    "a feature that an existing script asks for": complete(
        {"app.py": "print('hello')\n"},
        {},
        base={**BASE, "run.sh": 'test "$(python app.py)" = hello\n'},
        validator="sh run.sh",
    ),
}
"""Commands without results of single tests, that name files of the head alone."""

HISTORIES = {**HONEST, **WEAKENED, **GOALS, **RUNNERS, **SHAPES, **COMMANDS}
