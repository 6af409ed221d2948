"""`goal export --receipt`: the receipt of a run, made of its records."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.receipts.test_signing import allow, make_key
from tests.support import forking
from tests.support.command_line import only_run
from tests.support.workspaces import git, make_repository, write

pytestmark = pytest.mark.slow

_BROKEN = "def parse(text):\n    return text.split()[0]\n"
_FIXED = "def parse(text):\n    return (text.split() or [''])[0]\n"
_UPPER = "def parse(text):\n    return text.split()[0].upper()\n"
_TEST = (
    "from words import parse\n\n\ndef test_first():\n    assert parse('a b') == 'a'\n"
)
_EMPTY = "\n\ndef test_empty():\n    assert parse('') == ''\n"
_BASE = {
    "words.py": _BROKEN,
    "tests/test_words.py": _TEST,
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
    ".gitignore": "__pycache__\n.pytest_cache\n",
}
_VALIDATOR = "python -m pytest -q -p no:cacheprovider"
_AGENT = """\
import json, pathlib, sys

for name, text in json.loads(sys.argv[1]).items():
    pathlib.Path(name).write_text(text)
"""


class Project:
    """A repository, in which an agent writes the files that it is given."""

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self.folder, self.home = folder, folder / "home"
        self.root = make_repository(folder / "ws", {**_BASE, **files})

    def run(
        self,
        change: Mapping[str, str],
        *arguments: str,
        goal: str = "",
        is_goal_inside: bool = False,
    ) -> None:
        """Run a goal in which the agent writes these files."""
        command = [sys.executable, "-c", _AGENT, json.dumps(change)]
        text = (
            f'objective = "parse() is right."\nvalidator = "{_VALIDATOR}"\n{goal}\n'
            f"[agent]\nuse = 'command'\ncommand = {json.dumps(command)}\n"
        )
        folder = self.root if is_goal_inside else self.folder
        (folder / "goal.toml").write_text(text)
        if is_goal_inside:
            self.commit()
        file = str(folder / "goal.toml")
        place = ("--workspace", str(self.root))
        code, _, errors = self.goal("run", file, *place, *arguments)
        assert code == 0, errors

    def goal(self, *arguments: str) -> tuple[int, str, str]:
        env = {"GOAL_HOME": str(self.home)}
        ended = forking.goal(*arguments, cwd=self.root, env=env)
        return ended.code, ended.out, ended.err

    def receipt(self, *arguments: str) -> tuple[int, Any, str]:
        code, out, errors = self.goal("export", "--receipt", *arguments)
        return code, json.loads(out)["predicate"] if out else None, errors

    def commit(self) -> str:
        git(self.root, "add", "--all")
        git(self.root, "commit", "-q", "-m", "change")
        return git(self.root, "rev-parse", "HEAD").strip()


def proofs(predicate: Any) -> dict[str, str]:
    """What tests prove, by name."""
    return {
        row["test"].rpartition("::")[2]: row["change"] for row in predicate["tests"]
    }


def test_a_fix_has_a_receipt_that_is_verified(tmp_path: Path) -> None:
    project = Project(tmp_path, {"tests/test_words.py": _TEST + _EMPTY})
    project.run({"words.py": _FIXED})

    code, before, _ = project.receipt()
    commit = project.commit()
    receipt, key = tmp_path / "receipt.json", make_key(tmp_path)
    signed, _, errors = project.receipt("-o", str(receipt), "--sign", str(key))
    after = json.loads(receipt.read_text())["predicate"]
    verify = ("receipt", "verify", str(receipt), "--signers", str(allow(key)))
    verified, out, _ = project.goal(*verify)
    rerun, _, refusal = project.goal(*verify, "--rerun")

    assert (code, signed) == (0, 0), errors
    assert (before["result"], before["proof"]) == ("complete", "fail to pass")
    assert proofs(before) == {
        "test_first": "pass to pass",
        "test_empty": "fail to pass",
    }
    assert before["head"]["commit"] == ""
    assert after["head"] == {"commit": commit, "tree": before["head"]["tree"]}
    assert before["labels"] == []
    assert "it is about the commit" in out
    assert verified == 0
    # The goal file is not in the repository, so the receipt does not name it.
    assert rerun == 2
    assert "by options, or by a file outside of the repository" in refusal
    assert "goal receipt --base" in refusal


def test_a_goal_file_of_the_repository_is_used_by_a_second_check(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path, {"tests/test_words.py": _TEST + _EMPTY})
    project.run({"words.py": _FIXED}, is_goal_inside=True)
    receipt = tmp_path / "receipt.json"
    project.commit()
    code, _, errors = project.receipt("-o", str(receipt))
    assert code == 0, errors

    verified, out, errors = project.goal(
        "receipt", "verify", str(receipt), "--any-signer", "--rerun"
    )

    assert (verified, "the same results" in out) == (0, True), out + errors


def test_a_new_test_that_failed_before_is_proven_by_the_run(tmp_path: Path) -> None:
    project = Project(tmp_path, {})
    project.run({"words.py": _FIXED, "tests/test_words.py": _TEST + _EMPTY})

    code, predicate, errors = project.receipt()

    assert code == 0, errors
    assert proofs(predicate)["test_empty"] == "fail to pass"
    assert predicate["tests"][1]["headChecks"] == "failed"


def test_what_the_run_had_no_reason_to_check_is_not_known(tmp_path: Path) -> None:
    project = Project(tmp_path, {})
    changed = _TEST.replace("== 'a'", "== 'A'")
    project.run(
        {"words.py": _UPPER, "tests/test_words.py": changed},
        goal='[workspace]\nallow = ["tests/**"]',
    )

    code, predicate, errors = project.receipt()

    assert predicate is not None, errors
    assert proofs(predicate) == {"test_first": "not known"}
    assert "tests of some sides not recorded" in predicate["labels"]
    # Without the version of the base, the test shows no more than that it is green.
    assert (code, predicate["proof"]) == (0, "no regression")


def test_a_run_in_a_copy_has_the_receipt_of_its_branch(tmp_path: Path) -> None:
    project = Project(tmp_path, {"tests/test_words.py": _TEST + _EMPTY})
    project.run({"words.py": _FIXED}, "--isolate")
    code, _, errors = project.goal("export", "--branch", "fix")
    assert code == 0, errors

    code, predicate, errors = project.receipt()

    assert code == 0, errors
    fix = git(project.root, "rev-parse", "fix").strip()
    assert predicate["head"]["commit"] == fix
    assert predicate["base"]["commit"] == git(project.root, "rev-parse", "main").strip()


def test_a_run_that_began_with_uncommitted_files_has_no_receipt(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path, {"tests/test_words.py": _TEST + _EMPTY})
    write(project.root, {"data.txt": "1\n"})
    project.run({"words.py": _FIXED})

    code, predicate, errors = project.receipt()

    assert (code, predicate) == (2, None)
    assert "data.txt" in errors
    assert "goal receipt --base" in errors


def test_a_run_without_a_record_of_its_sides_names_only_its_validators(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path, {"tests/test_words.py": _TEST + _EMPTY})
    project.run({"words.py": _FIXED})
    (only_run(project.home) / "sides.json").unlink()

    code, predicate, _ = project.receipt()

    assert (code, predicate["validators"][0]["head"]) == (0, "passed")
    assert "tests of some sides not recorded" in predicate["labels"]
    assert predicate["tests"] == []
