"""The commands `goal receipt` and `goal receipt verify`."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from goalrunner.cli import options, output
from goalrunner.cli.options import File, Text, Texts, argument, option
from goalrunner.copies import INSIDE
from goalrunner.core.errors import UsageError

if TYPE_CHECKING:
    from goalrunner.receipts.statement import RequiredProof
    from goalrunner.receipts.verification import CheckedReceipt

# A check that could not be made verifies no more than one that was red.
EXIT_CODES = {"complete": 0, "not complete": 1, "blocked": 3, "failed": 1}
"""The exit code of a command that makes a receipt, by its result."""

_RequireFailToPass = Annotated[
    bool,
    options.flag(
        "--require-fail-to-pass",
        "Require a test or validator that fails without the change.",
    ),
]


def make(
    goal: Annotated[
        Text,
        argument(
            "GOAL",
            "Goal file; default: that of the project, or the options alone.",
            options.goal_files,
        ),
    ] = None,
    base: Annotated[
        Text,
        option(
            "REV",
            "The commit before the change; default: where the head left the default"
            " branch.",
        ),
    ] = None,
    head: Annotated[
        Text,
        option(
            "REV", "The commit with the change; default: the files of the work tree."
        ),
    ] = None,
    validator: options.Validators = None,
    criterion: options.Criteria = None,
    allow: Annotated[
        Texts,
        option(
            "PATTERN",
            "Tests and other files of checks that the change may edit, as in"
            " [workspace] allow; may be repeated.",
        ),
    ] = None,
    objective_from: Annotated[
        File,
        option(
            "FILE", "Take the objective from this text of an issue or a pull request."
        ),
    ] = None,
    judge: options.Judge = None,
    tokens: options.Tokens = None,
    cost: options.Cost = None,
    file: Annotated[
        File, option("FILE", "Write the receipt there.", "--output", "-o")
    ] = None,
    comment: Annotated[
        File, option("FILE", "Write Markdown for the pull request there.")
    ] = None,
    junit: options.JUnit = None,
    sign: options.SigningKey = None,
    require_fail_to_pass: _RequireFailToPass = False,
    json: options.Json = False,
) -> int:
    """Verify a change of any author, and write a receipt.

    The validators run on the base, on the head, with the tests of the base on the
    source of the head, and with the tests of the head on the source of the base, where
    new tests must fail. A judge checks the criteria. Everything runs in a copy: the
    work tree, the index and the branches stay as they are. The exit code is 0 if the
    change is verified, 1 if not, 3 if a person has to decide.
    """
    from goalrunner.receipts.isolated_check import verified, verify_inside
    from goalrunner.receipts.pages import receipt_facts
    from goalrunner.receipts.requests import (
        ReceiptRequest,
        RequestedChange,
        objective_in,
    )
    from goalrunner.receipts.result_files import ReceiptFiles

    if inside := os.environ.pop(INSIDE, ""):
        return verify_inside(Path(inside))
    files = ReceiptFiles.of_options(file, comment=comment, junit=junit, key=sign)
    settings: dict[str, Any] = {
        "success_criteria": criterion,
        "validators": validator,
        "workspace.allow": allow,
        "judge.model": judge,
        "budget.tokens": tokens,
        "budget.cost_usd": cost,
    }
    if objective_from is not None:
        settings["objective"] = objective_in(objective_from)
    required: RequiredProof = "fail to pass" if require_fail_to_pass else ""
    change = RequestedChange(base, head, files.paths)
    request = ReceiptRequest.of_options(change, goal, settings, required)
    statement = verified(request)
    files.write(statement)
    predicate = statement.predicate
    text = statement.json_text()
    output.say(text if json else output.terminal_text(receipt_facts(predicate)))
    return EXIT_CODES[predicate.result]


def verify(
    receipt: Annotated[Path, argument("FILE", "A receipt.")],
    signers: Annotated[
        File,
        option(
            "FILE",
            "The trusted signers: an allowed_signers file of ssh-keygen(1); default:"
            " gpg.ssh.allowedSignersFile of git.",
        ),
    ] = None,
    any_signer: Annotated[
        bool,
        options.flag("--any-signer", "Accept an unknown signer, or no signature."),
    ] = False,
    head: Annotated[
        str, option("REV", "The commit that the receipt must be about.")
    ] = "HEAD",
    require_fail_to_pass: _RequireFailToPass = False,
    rerun: Annotated[
        bool,
        options.flag("--rerun", "Verify the change again, and compare the results."),
    ] = False,
    json: options.Json = False,
) -> int:
    """Check offline that a receipt is intact and about the current commit.

    The signature is read from `FILE.sig`. The exit code is 0 if the receipt says
    "complete", is about the files of the commit, and is signed by a trusted signer;
    else 1. With --rerun, which runs the validators, the results must be the same again.
    """
    from goalrunner.receipts.pages import finding_facts
    from goalrunner.receipts.signing import signers_of_git
    from goalrunner.receipts.verification import check_receipt

    signers = signers or signers_of_git(os.environ)
    required: RequiredProof = "fail to pass" if require_fail_to_pass else ""
    checked = check_receipt(
        receipt,
        signers=signers,
        any_signer=any_signer,
        head=head,
        required_proof=required,
    )
    if rerun and checked.is_valid:
        checked = _checked_again(checked, head)
    if json:
        rows = [asdict(finding) for finding in checked.findings]
        output.say({"valid": checked.is_valid, "findings": rows})
    else:
        output.say(output.terminal_text(finding_facts(checked.findings)))
    return 0 if checked.is_valid else 1


def _checked_again(checked: CheckedReceipt, head: str) -> CheckedReceipt:
    """Verify the change of a receipt again. Raise UsageError for an unknown signer."""
    from goalrunner.receipts.isolated_check import verified
    from goalrunner.receipts.requests import ReceiptRequest

    predicate = checked.statement.predicate
    if not checked.signer and "validators" in predicate.goal.options:
        # Its author chose the commands, which would run here.
        raise UsageError(
            "--rerun would run commands that the receipt names, and its signer is not "
            "known",
            "name the signers that you trust: --signers FILE",
        )
    statement = verified(ReceiptRequest.of_receipt(predicate, head))
    return checked.with_rerun(statement.predicate)
