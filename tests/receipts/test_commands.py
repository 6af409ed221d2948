"""`goal receipt` and `goal receipt verify` as they are typed, with real signatures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from goalrunner.cli.main import main
from goalrunner.receipts.signing import sign_file
from goalrunner.receipts.statement import CheckedGoal, CheckedRevision, make_statement
from goalrunner.receipts.verification import compared_receipts
from tests.receipts.test_signing import allow, make_key
from tests.receipts.test_statement import predicate
from tests.support import forking
from tests.support.command_line import Ended
from tests.support.workspaces import git, make_repository, write


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = make_repository(tmp_path / "ws", {"a": "1\n"})
    monkeypatch.chdir(root)
    return root


VERIFY = ["receipt", "verify", "--any-signer"]


def receipt_of(root: Path, folder: Path, result: str = "complete") -> Path:
    """A receipt about the commit that is checked out."""
    commit, tree = git(root, "rev-parse", "HEAD", "HEAD^{tree}").split()
    head = CheckedRevision(commit=commit, tree=tree)
    path = folder / "receipt.json"
    path.write_text(make_statement(predicate(head=head, result=result)).json_text())
    return path


def test_a_receipt_of_this_commit_is_valid(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt = receipt_of(repository, tmp_path)

    assert main([*VERIFY, str(receipt)]) == 0

    printed = capsys.readouterr().out
    assert "it is about the commit" in printed
    assert "not signed" in printed


def test_a_rebased_commit_with_the_same_files_is_valid(
    repository: Path, tmp_path: Path
) -> None:
    receipt = receipt_of(repository, tmp_path)
    git(repository, "commit", "-q", "--amend", "-m", "another message")

    assert main([*VERIFY, str(receipt)]) == 0


def test_a_receipt_of_other_files_is_not_valid(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt = receipt_of(repository, tmp_path)
    write(repository, {"a": "2\n"})
    git(repository, "commit", "-q", "-a", "-m", "two")

    assert main([*VERIFY, str(receipt)]) == 1
    assert "other files" in capsys.readouterr().out


def test_a_receipt_that_is_not_complete_is_not_valid(
    repository: Path, tmp_path: Path
) -> None:
    receipt = receipt_of(repository, tmp_path, "not complete")

    assert main([*VERIFY, str(receipt)]) == 1


@pytest.mark.parametrize(
    ("proof", "code"), [("fail to pass", 0), ("no regression", 1), ("criteria", 1)]
)
def test_the_proof_that_is_required_is_looked_for(
    repository: Path,
    tmp_path: Path,
    proof: str,
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    receipt = receipt_of(repository, tmp_path)
    values = json.loads(receipt.read_text())
    values["predicate"]["proof"] = proof
    receipt.write_text(json.dumps(values))
    command = [*VERIFY, str(receipt)]

    assert main(command) == 0
    assert f"{proof}: " in capsys.readouterr().out
    assert main([*command, "--require-fail-to-pass"]) == code


def test_subjects_that_the_predicate_does_not_name_are_not_valid(
    repository: Path, tmp_path: Path
) -> None:
    receipt = receipt_of(repository, tmp_path)
    values = json.loads(receipt.read_text())
    values["predicate"]["head"]["commit"] = "0" * 40
    receipt.write_text(json.dumps(values))

    assert main([*VERIFY, str(receipt)]) == 1


def test_commands_of_an_unknown_signer_are_not_run(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt = receipt_of(repository, tmp_path)
    values = json.loads(receipt.read_text())
    values["predicate"]["goal"]["options"] = {"validators": ["touch ran"]}
    receipt.write_text(json.dumps(values))

    assert main([*VERIFY, str(receipt), "--rerun"]) == 2
    assert "signer is not known" in capsys.readouterr().err
    assert not (repository / "ran").exists()


def test_signers_that_are_named_must_have_signed(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt = receipt_of(repository, tmp_path)
    signers = str(allow(make_key(tmp_path)))

    assert main(["receipt", "verify", str(receipt), "--signers", signers]) == 1
    assert "not signed" in capsys.readouterr().out


def test_a_receipt_without_a_known_signer_is_not_valid(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt = receipt_of(repository, tmp_path)
    command = ["receipt", "verify", str(receipt)]

    assert main(command) == 1
    assert "anyone may have written it" in capsys.readouterr().out

    # Whoever edits a receipt can sign it again.
    sign_file(receipt, make_key(tmp_path))
    assert main(command) == 1
    assert "no file says which signers you trust" in capsys.readouterr().out
    assert main([*VERIFY, str(receipt)]) == 0
    # What to do about the signer is of no use to a person who accepts any.
    assert "name it: --signers" not in capsys.readouterr().out


def test_the_signers_of_git_count(repository: Path, tmp_path: Path) -> None:
    receipt, key = receipt_of(repository, tmp_path), make_key(tmp_path)
    sign_file(receipt, key)
    git(repository, "config", "gpg.ssh.allowedSignersFile", str(allow(key)))

    assert main(["receipt", "verify", str(receipt)]) == 0


def test_an_edited_receipt_is_an_error(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt, key = receipt_of(repository, tmp_path, "not complete"), make_key(tmp_path)
    sign_file(receipt, key)
    receipt.write_text(receipt.read_text().replace('"not complete"', '"complete"'))

    assert main([*VERIFY, str(receipt)]) == 2
    assert "was changed after it was signed" in capsys.readouterr().err


def test_an_unknown_signer_counts_only_with_any_signer(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt = receipt_of(repository, tmp_path)
    sign_file(receipt, make_key(tmp_path))
    signers = allow(make_key(tmp_path, "other"))
    named = [str(receipt), "--signers", str(signers)]

    assert main(["receipt", "verify", *named]) == 1
    assert "not in" in capsys.readouterr().out
    assert main([*VERIFY, *named]) == 0


@pytest.mark.parametrize("is_signed", [False, True])
def test_commands_of_an_unknown_signer_are_not_run_beside_known_ones(
    repository: Path,
    tmp_path: Path,
    is_signed: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    receipt = receipt_of(repository, tmp_path)
    values = json.loads(receipt.read_text())
    values["predicate"]["goal"]["options"] = {"validators": ["touch ran"]}
    receipt.write_text(json.dumps(values))
    if is_signed:
        sign_file(receipt, make_key(tmp_path))
    signers = str(allow(make_key(tmp_path, "other")))

    assert main([*VERIFY, str(receipt), "--signers", signers, "--rerun"]) == 2
    assert "signer is not known" in capsys.readouterr().err


def test_a_file_of_signers_that_is_missing_is_an_error(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt = receipt_of(repository, tmp_path)
    missing = str(tmp_path / "signers")

    assert main(["receipt", "verify", str(receipt), "--signers", missing]) == 2
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["make", "verify"])
def test_a_missing_ssh_keygen_is_an_error_before_anything_runs(
    verb: str,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    receipt, key = receipt_of(repository, tmp_path), make_key(tmp_path)
    sign_file(receipt, key)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "git").symlink_to(shutil.which("git") or "")
    monkeypatch.setenv("PATH", str(programs))
    arguments = {
        "make": ["make", "-o", str(receipt), "--sign", str(key)],
        "verify": ["verify", str(receipt), "--signers", str(allow(key))],
    }

    assert main(["receipt", *arguments[verb]]) == 2
    assert "install OpenSSH" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--sign", "key"], ["--sign", "gone", "-o", "receipt.json"]]
)
def test_a_key_without_a_file_is_an_error_before_anything_runs(
    repository: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["receipt", *arguments]) == 2
    assert "--sign" in capsys.readouterr().err


def test_a_change_of_nothing_is_an_error(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["receipt", "--base", "HEAD", "--validator", "true"]) == 2
    assert "no change" in capsys.readouterr().err


@pytest.mark.slow
def test_a_signed_receipt_is_made_and_verified(
    repository: Path, tmp_path: Path
) -> None:
    key = make_key(tmp_path)
    git(repository, "switch", "-q", "-c", "change")
    write(repository, {"a": "2\n"})
    git(repository, "commit", "-q", "-a", "-m", "two")
    receipt, comment = tmp_path / "receipt.json", tmp_path / "comment.md"

    def goal(*arguments: str | Path) -> Ended:
        env = {"GOAL_HOME": str(tmp_path / "home")}
        return forking.goal("receipt", *arguments, cwd=repository, env=env)

    made = goal(
        "--validator", "grep -q 2 a", "-o", receipt, "--comment", comment, "--sign", key
    )
    verified = goal("verify", receipt, "--signers", allow(key), "--rerun")
    receipt.write_text(receipt.read_text().replace("complete", "finished"))
    edited = goal("verify", receipt, "--signers", allow(key))

    assert made.code == 0, made.err
    assert "complete" in made.out
    assert "Receipt: complete" in comment.read_text()
    assert "the same results" in verified.out
    assert verified.code == 0, verified.out + verified.err
    assert "signed by me@example.org" in verified.out
    assert edited.code == 2


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, ""),
        ({"result": "blocked", "reason": "why"}, "it is blocked now: why"),
        ({"tests": ()}, "tests have other results: t.py::new, t.py::old"),
        ({"goal": CheckedGoal(sha256="1" * 64, objective="")}, "the goal differs"),
    ],
)
def test_a_second_check_must_have_the_same_results(
    changes: dict[str, Any], problem: str
) -> None:
    finding = compared_receipts(predicate(), predicate(**changes))

    assert finding.state == ("bad" if problem else "good")
    assert problem in finding.text


@pytest.mark.parametrize(
    ("first", "second", "state"),
    [
        ("new", "fail to pass", "good"),
        ("not known", "pass to pass", "good"),
        ("fail to pass", "pass to pass", "bad"),
    ],
)
def test_a_second_check_may_show_what_the_first_did_not(
    first: str, second: str, state: str
) -> None:
    (test, *_) = predicate().tests
    before = predicate(tests=(test.model_copy(update={"change": first}),))
    after = predicate(tests=(test.model_copy(update={"change": second}),))

    assert compared_receipts(before, after).state == state


def test_a_name_of_a_file_is_no_sequence_for_the_terminal(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repository, {"a": "2\n"})
    git(repository, "commit", "-q", "-a", "-m", "two")
    write(repository, {"b\n::error::\x1b[31m": "3\n"})
    options = ["--base", "HEAD^", "--objective-from", "b\n::error::\x1b[31m"]

    assert main(["receipt", "goal.toml", *options]) == 2
    errors = capsys.readouterr().err
    assert "uncommitted files are part of the change: b ::error::" in errors
    assert "\x1b" not in errors
