"""The commands `goal receipt` and `goal receipt verify`."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from goalrunner.cli import goals, options, output, runs
from goalrunner.cli.options import File, Text, Texts, argument, option
from goalrunner.cli.result_file import ResultFile
from goalrunner.copies import INSIDE
from goalrunner.core.errors import ExitCode, GoalError, UsageError

if TYPE_CHECKING:
    from goalrunner.receipts.change_run import ReceiptRequest
    from goalrunner.receipts.statement import Predicate, Statement

_EXIT_CODES = {"complete": 0, "not complete": 1, "blocked": 3, "failed": 4}
_LONGEST_TEXT = 200_000
"""Bytes of a file with an objective."""


def make(
    goal: Annotated[
        Text,
        argument(
            "GOAL",
            "Goal file; default: that of the project, else options alone.",
            options.goal_files,
        ),
    ] = None,
    base: Annotated[
        Text,
        option("REV", "Before the change; default: where it left the default branch."),
    ] = None,
    head: Annotated[
        Text, option("REV", "With the change; default: the files of the work tree.")
    ] = None,
    validator: Annotated[
        Texts,
        option(
            "COMMAND",
            "A shell command that must pass; may be repeated.",
            values=options.validators,
        ),
    ] = None,
    criterion: Annotated[
        Texts, option("TEXT", "A success criterion; may be repeated.")
    ] = None,
    allow: Annotated[
        Texts,
        option(
            "PATTERN",
            "Files of checks that the change may edit, as in [workspace] allow; may be"
            " repeated.",
        ),
    ] = None,
    objective_from: Annotated[
        File, option("FILE", "The text of an issue, or of a pull request.")
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
    sign: Annotated[
        File, option("KEY", "Sign the receipt with this SSH key; needs --output.")
    ] = None,
    json: options.Json = False,
) -> int:
    """Verify a change of any author, and write a receipt.

    The validators run on the base and on the head; the tests of the base on the source
    of the head, and the tests of the head on the source of the base, where new ones
    must fail. A judge checks the criteria. All of it happens in a copy: the work tree,
    the index and the branches stay as they are. The exit code is 0 if the change is
    verified, 1 if not, 3 if a person has to decide.
    """
    if inside := os.environ.pop(INSIDE, ""):
        return _make_inside(Path(inside))
    if sign is not None and file is None:
        raise UsageError(
            "--sign signs a file, and no file is named", "add -o receipt.json"
        )
    from goalrunner.receipts.pages import receipt_facts, receipt_junit, receipt_markdown
    from goalrunner.receipts.signing import check_key, sign_file

    receipt_file = ResultFile(file) if file is not None else None
    comment_file = ResultFile(comment, option="--comment") if comment else None
    junit_file = ResultFile(junit, option="--junit") if junit else None
    if sign is not None:
        check_key(sign)
    settings: dict[str, Any] = {
        "success_criteria": criterion,
        "validators": validator,
        "workspace.allow": allow,
        "judge.model": judge,
        "budget.tokens": tokens,
        "budget.cost_usd": cost,
    }
    if objective_from is not None:
        settings["objective"] = _text_of(objective_from)
    statement = _verified(_request(goal, base, head, settings))
    if isinstance(statement, int):
        return statement
    text, predicate = statement.json_text(), statement.predicate
    if receipt_file is not None:
        receipt_file.write(text)
    if comment_file is not None:
        comment_file.write(receipt_markdown(predicate))
    if junit_file is not None:
        junit_file.write(receipt_junit(predicate))
    if sign is not None and file is not None:
        sign_file(file, sign)
    output.say(text if json else output.terminal_text(receipt_facts(predicate)))
    return _EXIT_CODES[predicate.result]


def _text_of(path: Path) -> str:
    """Return the objective in a file. Raise UsageError."""
    try:
        text = path.read_bytes()[:_LONGEST_TEXT].decode(errors="replace").strip()
    except OSError as error:
        raise UsageError(
            f"--objective-from {path}: {error.strerror}", "name a file"
        ) from error
    if not text:
        raise UsageError(f"--objective-from {path} is empty", "write the objective")
    return text


def _request(
    goal: str | None, base: str | None, head: str | None, settings: dict[str, Any]
) -> ReceiptRequest:
    """Return what is to be verified. Raise UsageError."""
    from goalrunner.receipts.change_run import ReceiptRequest
    from goalrunner.receipts.revisions import Revisions

    folder = Path(os.path.realpath(Path.cwd()))
    revisions = Revisions(folder, os.environ)
    change = revisions.change(base, head)
    if change.note:
        output.complain(f"Note: {change.note}")
    goal_file = Path(goal) if goal is not None else goals.of_folder()
    if goal is not None and "objective" in settings:
        raise UsageError("a goal file has its own objective", "remove --objective-from")
    # The text of a pull request replaces the goal file that was found.
    if goal is None and "objective" in settings:
        goal_file = None
    chosen = {key: value for key, value in settings.items() if value}
    return ReceiptRequest(
        root=os.path.realpath(revisions.root),
        workspace=str(folder),
        base=change.base.commit,
        head=change.head.commit,
        goal_file=os.path.realpath(goal_file) if goal_file is not None else "",
        settings=chosen,
    )


def _verified(request: ReceiptRequest) -> Statement | int:
    """Verify a change in a new copy; return the exit code if that failed.

    Raise EnvironmentFailed if a copy is not possible here.
    """
    from goalrunner.app.decisions import cancel_run
    from goalrunner.copies.copy_pruning import discard_copy
    from goalrunner.copies.entering import goal_command, inner_command, make_copy
    from goalrunner.receipts.statement import read_statement
    from goalrunner.records.run_folder import RunFolder
    from goalrunner.records.run_search import new_run_id

    home = runs.home()
    run = RunFolder.create(home, new_run_id(home, "receipt"))
    try:
        workspace = Path(request.workspace)
        clone = _why_clone(request)
        copy = make_copy(run, workspace, home, os.environ, clone=clone)
        request.write(copy)
        program = goal_command(["receipt"])
        with closing(inner_command(copy, home, program, os.environ)) as inner:
            done = inner.run()
        discard_copy(copy)
    except BaseException:
        run.remove()
        raise
    if done.stdout:
        statement = read_statement(done.stdout, "the result")
        if statement.predicate.result == "blocked":
            # Its copy is gone, so the run cannot go on after a decision.
            cancel_run(run, "a receipt does not wait for a decision")
        return statement
    # The process in the copy has printed the error.
    if not run.events.exists():
        run.remove()
    return done.returncode or int(ExitCode.FAILED)


def _why_clone(request: ReceiptRequest) -> str:
    """Return why the copy must be a clone; empty if it need not.

    The goal of the base is not read yet, so that of the work tree tells.
    """
    from goalrunner.app.preflight import why_clone

    settings = dict(request.settings)
    file = Path(request.goal_file) if request.goal_file else None
    if file is None:
        settings |= {"objective": "a receipt", "workspace.path": request.workspace}
    try:
        return why_clone(goals.resolved(file, settings))
    except GoalError:
        # The goal of the base may be valid.
        return ""


def _make_inside(folder: Path) -> int:
    """Verify the change in this copy, for the command outside."""
    from goalrunner.app.run_options import RunOptions
    from goalrunner.copies.inside import copy_options
    from goalrunner.copies.run_copy import RunCopy
    from goalrunner.receipts.change_run import ChangeCheck, ReceiptRequest
    from goalrunner.system.watchdog import end_with_parent

    end_with_parent(0)
    copy = RunCopy(folder)
    run_options = RunOptions(home=runs.home(), copy=copy_options(copy))
    statement = ChangeCheck(ReceiptRequest.read(copy), run_options).verify()
    output.say(statement.json_text())
    return 0


def verify(
    receipt: Annotated[Path, argument("FILE", "A receipt.")],
    signers: Annotated[
        File,
        option("FILE", "The signers that count, as ssh-keygen(1) describes the file."),
    ] = None,
    head: Annotated[
        str, option("REV", "The commit that it must be about; default: HEAD.")
    ] = "HEAD",
    rerun: Annotated[
        bool, options.flag("--rerun", "Verify the change again, and compare.")
    ] = False,
    json: options.Json = False,
) -> int:
    """Check offline that a receipt is intact and about the commit here.

    The signature is `FILE.sig`. The exit code is 0 if the receipt is complete, about
    these files, and signed by one of the signers, if these are named; else 1. With
    --rerun, the results must be the same again.
    """
    from goalrunner.receipts.pages import finding_facts
    from goalrunner.receipts.verification import check_receipt, compared_receipts

    checked = check_receipt(receipt, signers=signers, head=head)
    if rerun and checked.is_valid:
        first = checked.statement.predicate
        if signers is None and "validators" in first.goal.options:
            # Its author chose the commands, which would run here.
            raise UsageError(
                "--rerun would run commands that the receipt names, and its signer is "
                "not known",
                "name the signers that you trust: --signers FILE",
            )
        second = _verified(_same_request(first, head))
        if isinstance(second, int):
            return second
        finding = compared_receipts(first, second.predicate)
        checked = replace(checked, findings=(*checked.findings, finding))
    if json:
        rows = [asdict(finding) for finding in checked.findings]
        output.say({"valid": checked.is_valid, "findings": rows})
    else:
        output.say(output.terminal_text(finding_facts(checked.findings)))
    return 0 if checked.is_valid else 1


def _same_request(predicate: Predicate, head: str) -> ReceiptRequest:
    """Return the request of a receipt, for the commit that has its files here."""
    from goalrunner.receipts.change_run import ReceiptRequest
    from goalrunner.receipts.revisions import Revisions

    revisions = Revisions(Path.cwd(), os.environ)
    # Raise an error if the base is not here, before anything is copied.
    revisions.commit(predicate.base.commit)
    root = Path(os.path.realpath(revisions.root))
    return ReceiptRequest.again(predicate, root, revisions.commit(head))
