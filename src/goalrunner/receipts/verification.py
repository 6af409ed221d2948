"""The offline check of a receipt: signature, form, and the commit that is here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from goalrunner.core.errors import UsageError, some
from goalrunner.receipts.comparison import Proof
from goalrunner.receipts.revisions import Revisions
from goalrunner.receipts.signing import check_signers, signature_of, verify_signature
from goalrunner.receipts.statement import (
    COMMIT,
    TREE,
    CheckedTest,
    Predicate,
    RequiredProof,
    Statement,
    read_statement,
)
from goalrunner.reports.short_forms import SHORT_ID

_NOT_SHOWN = (Proof.UNPROVEN, Proof.NOT_KNOWN)
"""What a receipt says of a test about which it does not know enough."""


FindingState = Literal["good", "bad", "note"]
"""A note makes a receipt neither valid nor invalid."""


@dataclass(frozen=True)
class ReceiptFinding:
    """One thing that was checked."""

    about: str
    """"signature", "subject", "base", "result", "proof" or "rerun"."""
    state: FindingState
    text: str


@dataclass(frozen=True)
class CheckedReceipt:
    """A receipt with what its check has found."""

    statement: Statement
    findings: tuple[ReceiptFinding, ...]
    signer: str = ""
    """The identity of a signer that the person trusts; empty for any other."""

    @property
    def is_valid(self) -> bool:
        """Whether nothing is bad, and the change was verified."""
        is_complete = self.statement.predicate.result == "complete"
        return is_complete and all(item.state != "bad" for item in self.findings)

    def with_rerun(self, second: Predicate) -> CheckedReceipt:
        """Return it with what a second check of the same change has found."""
        finding = compared_receipts(self.statement.predicate, second)
        return replace(self, findings=(*self.findings, finding))


def check_receipt(
    file: Path,
    *,
    signers: Path | None = None,
    any_signer: bool = False,
    head: str = "HEAD",
    required_proof: RequiredProof = "",
) -> CheckedReceipt:
    """Check a receipt in the repository around the current folder.

    It must be signed by one of the `signers`; with `any_signer`, it may have another
    signer or none. Raise UsageError if it is not a receipt, if its signature does not
    fit, or without a repository.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}", "name a receipt") from error
    statement = read_statement(content, str(file))
    if signers is not None:
        check_signers(signers)
    signer, problem = _signer(file, signers)
    if problem is None:
        signature = ReceiptFinding("signature", "good", f"signed by {signer}")
    elif any_signer:
        signature = ReceiptFinding("signature", "note", problem.message)
    else:
        text = f"{problem.message}; {problem.remedy}"
        signature = ReceiptFinding("signature", "bad", text)
    base = statement.predicate.base.commit[:SHORT_ID]
    # An author can name a base that has a part of the change already.
    since = ReceiptFinding("base", "note", f"it is about the change since {base} only")
    findings = [signature, *_subject(statement, head), since]
    result = statement.predicate.result
    state: FindingState = "good" if result == "complete" else "bad"
    findings.append(ReceiptFinding("result", state, result))
    findings.append(_proof(statement.predicate, required_proof))
    return CheckedReceipt(statement, tuple(findings), signer)


@dataclass(frozen=True)
class _SignatureProblem:
    """Why the signer of a receipt does not count."""

    message: str
    remedy: str
    """What to do if the receipt is accepted only with a signature."""


def _signer(file: Path, signers: Path | None) -> tuple[str, _SignatureProblem | None]:
    """Return who signed a receipt; empty, with the problem, for an unknown signer.

    Raise UsageError if the signature does not fit.
    """
    signature = signature_of(file)
    if not signature.is_file():
        return "", _SignatureProblem(
            f"not signed (no {signature}): anyone may have written it",
            "its author signs it with --sign KEY, or accept it with --any-signer",
        )
    # An edited receipt is an error and no finding, whatever else is accepted.
    signer = verify_signature(file, signature, signers)
    if signer.identity:
        return signer.identity, None
    # An author of an edited receipt can sign it with another key.
    if signers is None:
        return "", _SignatureProblem(
            "unchanged since it was signed, but no file says which signers you trust",
            "name it: --signers FILE, or gpg.ssh.allowedSignersFile of git",
        )
    return "", _SignatureProblem(
        f"signed with a key that is not in {signers}",
        "add its public key there, if you trust it",
    )


def _proof(predicate: Predicate, required: RequiredProof) -> ReceiptFinding:
    """Return which proof the receipt has, and whether it is what is required."""
    proof = predicate.proof
    state: FindingState = "note"
    if required:
        state = "good" if proof == required else "bad"
    text = predicate.proof_text
    if state == "bad":
        text += f"; {required} is required"
    return ReceiptFinding("proof", state, text)


def _subject(statement: Statement, head: str) -> Iterator[ReceiptFinding]:
    """Yield whether the receipt is about the commit that is checked out."""
    digests: dict[str, str] = {}
    for subject in statement.subject:
        digests.update(subject.digest)
    predicate_head = statement.predicate.head
    # Tools of in-toto look at the subjects, and people at the predicate.
    is_consistent = (
        digests.get(TREE) == predicate_head.tree
        and digests.get(COMMIT, "") == predicate_head.commit
    )
    if not is_consistent:
        yield ReceiptFinding(
            "subject", "bad", "subjects and predicate name different commits"
        )
        return
    revisions = Revisions(Path.cwd(), os.environ)
    commit, tree = revisions.commit(head), revisions.tree_of(head)
    if digests.get(COMMIT) == commit:
        yield ReceiptFinding(
            "subject", "good", f"it is about the commit {commit[:SHORT_ID]}"
        )
    elif digests.get(TREE) == tree:
        # A rebase or a squash without another change keeps the files.
        where = "another commit" if digests.get(COMMIT) else "a work tree"
        text = f"it is about the files of {commit[:SHORT_ID]}, seen in {where}"
        yield ReceiptFinding("subject", "good", text)
    else:
        place = _place_of(digests)
        text = f"it is about other files than those of {head} ({commit[:SHORT_ID]})"
        text += f": {place}"
        yield ReceiptFinding("subject", "bad", text)


def _place_of(digests: Mapping[str, str]) -> str:
    """Return where the files are that a receipt is about, and what to type."""
    if not digests.get(COMMIT):
        return "a work tree with uncommitted files; commit them, and name --head REV"
    subject = digests[COMMIT][:SHORT_ID]
    return f"the commit {subject}; to check that one: --head {subject}"


def compared_receipts(first: Predicate, second: Predicate) -> ReceiptFinding:
    """Return whether a second check of the same change had the same results."""
    problem = ""
    # Another goal may give the same results by chance.
    if first.goal.sha256 != second.goal.sha256:
        problem = "the goal differs"
    elif first.result != second.result:
        problem = f"it is {second.result} now: {second.reason}"
    else:
        names = _differing_tests(first.tests, second.tests)
        if names:
            problem = f"tests have other results: {some(names)}"
    if problem:
        return ReceiptFinding("rerun", "bad", problem)
    return ReceiptFinding("rerun", "good", "the same results")


def _differing_tests(
    first: Sequence[CheckedTest], second: Sequence[CheckedTest]
) -> list[str]:
    """Return the tests that prove something else in the second check."""
    before = {(row.validator, row.test): row.change for row in first}
    after = {(row.validator, row.test): row.change for row in second}
    differing: list[str] = []
    for key in before | after:
        change = before.get(key)
        # A second check may show what the first one did not.
        if change not in (after.get(key), *_NOT_SHOWN):
            differing.append(key[1])
    return differing
