"""Receipts over real histories: honest changes, and changes whose tests prove nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.receipts.change_histories import (
    BASE,
    BROKEN,
    EMPTY,
    FIX_WITH_TEST,
    FIXED,
    GOAL,
    HISTORIES,
    PYTEST,
    TESTS,
    branch,
)
from tests.support.forking import goal
from tests.support.workspaces import git, make_repository, write

pytestmark = pytest.mark.slow


def verify(
    root: Path,
    *arguments: str,
    home: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[int, Any, str]:
    """The exit code of `goal receipt --json`, the document, and stderr."""
    env = {"GOAL_HOME": str(home or root.parent / "home"), **(environ or {})}
    ended = goal("receipt", *arguments, "--json", cwd=root, env=env)
    return ended.code, json.loads(ended.out) if ended.out else None, ended.err


@pytest.mark.parametrize("name", HISTORIES)
def test_each_history_gets_the_receipt_that_it_deserves(
    name: str, tmp_path: Path
) -> None:
    history = HISTORIES[name]
    if history.program and shutil.which(history.program) is None:
        pytest.skip(f"{history.program} is not installed")
    place = history.shape(tmp_path / "ws", history.base, history.change)
    before = (git(place.root, "status", "--porcelain"), git(place.root, "show-ref"))
    arguments = ["--base", place.base, "--head", place.head, *history.arguments]
    if history.validator:
        arguments += ["--validator", history.validator]

    code, document, errors = verify(place.root, *arguments, environ=history.environment)

    assert document is not None, errors
    predicate = document["predicate"]
    proofs = {
        row["test"].rpartition("::")[2]: row["change"] for row in predicate["tests"]
    }
    assert (predicate["result"], code) == (history.result, history.code), predicate
    assert history.proofs.items() <= proofs.items()
    assert set(history.labels) == set(predicate["labels"])
    assert predicate["proof"] == history.proof
    assert bool(predicate["reason"]) == (code != 0)
    after = (git(place.root, "status", "--porcelain"), git(place.root, "show-ref"))
    assert after == before


def test_criteria_are_judged_over_observations_made_here(tmp_path: Path) -> None:
    root = branch(
        tmp_path / "ws", BASE, {"words.py": FIXED, "tests/test_words.py": TESTS + EMPTY}
    ).root
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
        root, "--validator", PYTEST, "--criterion", criterion,
        "--judge", f"scripted/{replies}",
    )  # fmt: skip

    assert document is not None, errors
    (checked,) = document["predicate"]["criteria"]
    assert (code, checked["satisfied"]) == (0, True), document["predicate"]
    assert checked["citations"][0]["quote"] == quote
    assert checked["citations"][0]["command"].startswith("git diff")


def test_the_files_of_the_work_tree_are_the_head(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", BASE)
    change = {
        "words.py": FIXED,
        "tests/test_empty.py": "from words import parse" + EMPTY,
    }
    write(root, change)
    before = git(root, "status", "--porcelain")

    code, document, errors = verify(root, "--validator", PYTEST)

    assert document is not None, errors
    predicate = document["predicate"]
    assert (code, predicate["head"]["commit"]) == (0, "")
    assert "gitTree" in document["subject"][0]["digest"]
    assert git(root, "status", "--porcelain") == before
    git(root, "add", "--all")
    assert git(root, "write-tree").strip() == predicate["head"]["tree"]


def test_an_allowed_change_of_a_test_is_still_named(tmp_path: Path) -> None:
    root = branch(tmp_path / "ws", BASE, HISTORIES["a weakened comparison"].change).root

    code, document, errors = verify(
        root, "--head", "change", "--validator", PYTEST, "--allow", "tests/**"
    )

    assert document is not None, errors
    labels = document["predicate"]["labels"]
    assert code == 0
    assert "weakened tests: 2" in labels
    assert "checks changed: tests/test_words.py" in labels


def test_a_goal_file_that_neither_base_nor_head_has_is_that_of_the_person(
    tmp_path: Path,
) -> None:
    root = branch(tmp_path / "ws", BASE, {"words.py": BROKEN}).root
    write(root, {"goal.toml": GOAL.replace(PYTEST, "grep -q return words.py")})

    code, document, errors = verify(root, "--base", "main", "--head", "change")

    assert document is not None, errors
    goal = document["predicate"]["goal"]
    assert (code, goal["file"], goal["revision"]) == (0, "goal.toml", ""), document


def test_a_goal_file_of_the_head_counts_if_it_is_named(tmp_path: Path) -> None:
    change = {**FIX_WITH_TEST, "goal.toml": GOAL}
    root = branch(tmp_path / "ws", BASE, change).root

    code, document, errors = verify(root, "goal.toml", "--base", "main")

    assert document is not None, errors
    predicate = document["predicate"]
    assert (code, predicate["goal"]["revision"]) == (0, "head"), predicate
    assert "goal changed" in predicate["labels"]


def test_a_base_on_which_validators_cannot_run_never_passes(tmp_path: Path) -> None:
    root = branch(tmp_path / "ws", BASE, {"check.sh": "#!/bin/sh\nexit 0\n"}).root

    code, document, errors = verify(
        root, "--head", "change", "--validator", "no-such-program --check"
    )

    assert code not in (0, None)
    assert document is None or document["predicate"]["result"] == "failed"
    assert "no-such-program" in errors + json.dumps(document)


def test_changed_files_outside_of_the_workspace_are_named(tmp_path: Path) -> None:
    files = {f"package/{name}": text for name, text in BASE.items()}
    root = branch(
        tmp_path / "ws", files, {"package/words.py": FIXED, "other/words.py": FIXED}
    ).root

    code, document, errors = verify(
        root / "package", "--validator", PYTEST, home=tmp_path / "home"
    )

    assert document is not None, errors
    labels = document["predicate"]["labels"]
    assert code == 0
    assert "changed outside of the workspace: other/words.py" in labels
    assert document["predicate"]["goal"]["workspace"] == "package"
