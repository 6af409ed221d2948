"""Receipts over real histories: honest changes, and changes whose tests prove nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import start
from tests.support.workspaces import git, make_repository, write

pytestmark = pytest.mark.slow

_PARSER = "def parse(text):\n    return text.split()[0]\n"
_FIXED = (
    "def parse(text):\n    words = text.split()\n    return words[0] if words else ''\n"
)
_UPPER = "def parse(text):\n    return text.split()[0].upper()\n"
_BROKEN = "def parse(text):\n    return ''\n"
_TESTS = """\
from words import parse


def test_first():
    assert parse("a b") == "a"


def test_spaces():
    assert parse("  a ") == "a"
"""
_EMPTY = "\n\ndef test_empty():\n    assert parse('') == ''\n"
_VACUOUS = "\n\ndef test_more():\n    assert parse('x y') == 'x'\n"
_RED = "\n\ndef test_empty():\n    assert parse('') == ''\n"

_BASE = {
    "words.py": _PARSER,
    "tests/test_words.py": _TESTS,
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
    ".gitignore": "__pycache__\n.pytest_cache\n",
}
_VALIDATOR = "python -m pytest -q -p no:cacheprovider"


@dataclass(frozen=True)
class History:
    """A change, and the receipt that it should get."""

    change: Mapping[str, str | None]
    """The files of the head; None: deleted."""
    result: str
    code: int
    proofs: Mapping[str, str] = field(default_factory=dict)
    """What tests prove, by name."""
    labels: tuple[str, ...] = ()
    base: Mapping[str, str] = field(default_factory=dict)
    """Files of the base that differ from the usual ones."""


_HISTORIES = {
    "a fix with a test": History(
        {"words.py": _FIXED, "tests/test_words.py": _TESTS + _EMPTY},
        "complete",
        0,
        {"test_first": "pass to pass", "test_empty": "fail to pass"},
    ),
    "a fix of a red test": History(
        {"words.py": _FIXED},
        "complete",
        0,
        {"test_empty": "fail to pass", "test_first": "pass to pass"},
        base={"tests/test_words.py": _TESTS + _RED},
    ),
    "a feature in new files": History(
        {
            "numbers_.py": "def double(x):\n    return 2 * x\n",
            "tests/test_numbers.py": "from numbers_ import double\n\n\n"
            "def test_double():\n    assert double(2) == 4\n",
        },
        "complete",
        0,
        {"test_double": "fail to pass"},
    ),
    "a fix with a test that is green on the base as well": History(
        {"words.py": _FIXED, "tests/test_words.py": _TESTS + _EMPTY + _VACUOUS},
        "complete",
        0,
        {"test_more": "vacuous"},
        ("vacuous tests: 1",),
    ),
    "no test that fails without the change": History(
        {"words.py": _FIXED, "tests/test_words.py": _TESTS + _VACUOUS},
        "not complete",
        1,
        {"test_more": "vacuous"},
        ("vacuous tests: 1",),
    ),
    "a fix without a test": History(
        {"words.py": _FIXED},
        "complete",
        0,
        labels=("checks passed before the change",),
    ),
    "a broken source": History(
        {"words.py": _BROKEN}, "not complete", 1, {"test_first": "pass to fail"}
    ),
    "a weakened test": History(
        {
            "words.py": _UPPER,
            "tests/test_words.py": _TESTS.replace('== "a"', 'in ("a", "A")'),
        },
        "blocked",
        3,
        {"test_first": "weakened"},
        ("weakened tests: 2",),
    ),
    "a changed expectation": History(
        {
            "words.py": _UPPER,
            "tests/test_words.py": _TESTS.replace('== "a"', '== "A"'),
        },
        "blocked",
        3,
        {"test_first": "changed"},
    ),
    "a deleted test that would fail": History(
        {
            "words.py": "def parse(text):\n    return text[:1]\n",
            "tests/test_words.py": _TESTS.partition("\n\ndef test_spaces")[0],
        },
        "blocked",
        3,
        {"test_spaces": "deleted"},
        ("deleted tests: 1",),
    ),
    "a skipped test that would fail": History(
        {
            "words.py": "def parse(text):\n    return text[:1]\n",
            "tests/test_words.py": _TESTS.replace(
                "def test_spaces",
                "import pytest\n\n\n@pytest.mark.skip\ndef test_spaces",
            ),
        },
        "blocked",
        3,
        {"test_spaces": "skipped"},
        ("skipped tests: 1",),
    ),
    "a configuration that deselects a test": History(
        {
            "words.py": "def parse(text):\n    return text[:1]\n",
            "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n'
            'addopts = "-k first"\n',
        },
        "blocked",
        3,
    ),
}


def verify(
    root: Path, *arguments: str, home: Path | None = None
) -> tuple[int, Any, str]:
    """The exit code of `goal receipt --json`, the document, and stderr."""
    process = start(
        "receipt",
        *arguments,
        "--json",
        cwd=root,
        env={"GOAL_HOME": str(home or root.parent / "home")},
    )
    out, errors = process.communicate(timeout=300)
    return process.returncode, json.loads(out) if out else None, errors


def commit(
    root: Path, change: Mapping[str, str | None], branch: str = "change"
) -> None:
    """Commit files on a new branch."""
    git(root, "switch", "-q", "-c", branch)
    write(root, {name: text for name, text in change.items() if text is not None})
    for name, text in change.items():
        if text is None:
            (root / name).unlink()
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "change")


@pytest.mark.parametrize("name", _HISTORIES)
def test_each_history_gets_the_receipt_that_it_deserves(
    name: str, tmp_path: Path
) -> None:
    history = _HISTORIES[name]
    root = make_repository(tmp_path / "ws", {**_BASE, **history.base})
    commit(root, history.change)
    before = git(root, "status", "--porcelain")

    code, document, errors = verify(
        root, "--base", "main", "--head", "change", "--validator", _VALIDATOR
    )

    assert document is not None, errors
    predicate = document["predicate"]
    proofs = {
        row["test"].rpartition("::")[2]: row["change"] for row in predicate["tests"]
    }
    assert (predicate["result"], code) == (history.result, history.code), predicate
    assert history.proofs.items() <= proofs.items()
    assert set(history.labels) <= set(predicate["labels"])
    assert git(root, "status", "--porcelain") == before


def test_criteria_are_judged_over_observations_made_here(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", _BASE)
    commit(root, {"words.py": _FIXED, "tests/test_words.py": _TESTS + _EMPTY})
    criterion = "parse('') returns an empty text"
    quote = "if words else ''"
    answer = {
        "criteria": [
            {
                "criterion": criterion,
                "satisfied": True,
                "evidence": [{"observation": "o3", "quote": quote}],
                "missing": "",
            }
        ],
        "score": 1.0,
        "complete": True,
        "missing": "",
    }
    replies = tmp_path / "replies.jsonl"
    reply = {"account": "judge", "text": json.dumps(answer)}
    replies.write_text(json.dumps(reply) + "\n")

    code, document, errors = verify(
        root, "--validator", _VALIDATOR, "--criterion", criterion,
        "--judge", f"scripted/{replies}",
    )  # fmt: skip

    assert document is not None, errors
    (checked,) = document["predicate"]["criteria"]
    assert (code, checked["satisfied"]) == (0, True), document["predicate"]
    assert checked["citations"][0]["quote"] == quote
    assert checked["citations"][0]["command"].startswith("git diff")


def test_the_files_of_the_work_tree_are_the_head(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", _BASE)
    change = {
        "words.py": _FIXED,
        "tests/test_empty.py": "from words import parse" + _EMPTY,
    }
    write(root, change)
    before = git(root, "status", "--porcelain")

    code, document, errors = verify(root, "--validator", _VALIDATOR)

    assert document is not None, errors
    predicate = document["predicate"]
    assert (code, predicate["head"]["commit"]) == (0, "")
    assert "gitTree" in document["subject"][0]["digest"]
    assert git(root, "status", "--porcelain") == before
    git(root, "add", "--all")
    assert git(root, "write-tree").strip() == predicate["head"]["tree"]


def test_an_allowed_change_of_a_test_is_still_named(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", _BASE)
    commit(root, _HISTORIES["a weakened test"].change)

    code, document, errors = verify(
        root, "--head", "change", "--validator", _VALIDATOR, "--allow", "tests/**"
    )

    assert document is not None, errors
    labels = document["predicate"]["labels"]
    assert code == 0
    assert "weakened tests: 2" in labels
    assert "checks changed: tests/test_words.py" in labels


def test_the_goal_of_the_base_counts(tmp_path: Path) -> None:
    goal = f'objective = "It parses."\nvalidator = "{_VALIDATOR}"\n'
    root = make_repository(tmp_path / "ws", {**_BASE, "goal.toml": goal})
    easier = goal.replace(_VALIDATOR, "true")
    commit(root, {"words.py": _BROKEN, "goal.toml": easier})

    code, document, errors = verify(root, "--head", "change")

    assert document is not None, errors
    predicate = document["predicate"]
    assert (code, predicate["result"]) == (1, "not complete")
    assert predicate["goal"]["revision"] == "base"
    assert "goal changed" in predicate["labels"]


def test_a_base_on_which_validators_cannot_run_never_passes(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", _BASE)
    commit(root, {"check.sh": "#!/bin/sh\nexit 0\n"})

    code, document, errors = verify(
        root, "--head", "change", "--validator", "no-such-program --check"
    )

    assert code not in (0, None)
    assert document is None or document["predicate"]["result"] == "failed"
    assert "no-such-program" in errors + json.dumps(document)


def test_a_merge_of_a_fork_is_compared_with_where_it_left(tmp_path: Path) -> None:
    upstream = make_repository(tmp_path / "upstream", _BASE)
    git(tmp_path, "clone", "-q", str(upstream), "fork")
    fork = tmp_path / "fork"
    commit(fork, {"words.py": _FIXED, "tests/test_words.py": _TESTS + _EMPTY})
    write(upstream, {"README": "later\n"})
    git(upstream, "add", "README")
    git(upstream, "commit", "-q", "-m", "later")
    git(fork, "fetch", "-q", "origin")
    git(fork, "merge", "-q", "--no-edit", "origin/main")

    code, document, errors = verify(
        fork, "--base", "origin/main", "--head", "HEAD", "--validator", _VALIDATOR
    )

    assert document is not None, errors
    predicate = document["predicate"]
    assert (code, predicate["result"]) == (0, "complete")
    assert predicate["base"]["commit"] == git(fork, "rev-parse", "origin/main").strip()


def test_changed_files_outside_of_the_workspace_are_named(tmp_path: Path) -> None:
    files = {f"package/{name}": text for name, text in _BASE.items()}
    root = make_repository(tmp_path / "ws", files)
    commit(root, {"package/words.py": _FIXED, "other/words.py": _FIXED})

    code, document, errors = verify(
        root / "package", "--validator", _VALIDATOR, home=tmp_path / "home"
    )

    assert document is not None, errors
    labels = document["predicate"]["labels"]
    assert code == 0
    assert "changed outside of the workspace: other/words.py" in labels
    assert document["predicate"]["goal"]["workspace"] == "package"
