"""The receipt as a document: an in-toto Statement v1 about a commit and its tree.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from goalrunner.core.errors import UsageError
from goalrunner.core.field_types import Frozen

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
# A type is a name and need not lead to a page; this one belongs to the project alone.
PREDICATE_TYPE: Final = "https://pypi.org/project/goalrunner/receipt/v1"

COMMIT, TREE = "gitCommit", "gitTree"
"""The names of the digests, as the specification of in-toto lists them."""


ProofKind = Literal["fail to pass", "criteria", "no regression", "none"]
"""What shows that a change does what it is for, the strongest kind first."""

PROOF_MEANINGS: Final[Mapping[ProofKind, str]] = {
    "fail to pass": "tests or validators fail without the change, and pass with it",
    "criteria": "the judge cites evidence for each criterion; no test shows it",
    "no regression": "what passed before still passes; no test shows what changed",
    "none": "the change is not verified",
}

ReceiptResult = Literal["complete", "not complete", "blocked", "failed"]

GoalRevision = Literal["base", "head", ""]
"""The revision whose goal file was read; empty: neither has it, or there is none."""

RequiredProof = Literal["fail to pass", ""]
"""The kind of proof without which a change is not verified; empty: any."""


class _Part(Frozen):
    # The names of in-toto are in this form; an unknown field is an error.
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class Subject(_Part):
    """What the statement is about, by its digest."""

    name: str
    digest: Mapping[str, str]


class CheckedRevision(_Part):
    """One side of the change."""

    commit: str = ""
    """Empty for files of a work tree that no commit has."""
    tree: str


class CheckedGoal(_Part):
    """The goal by which the change was checked."""

    sha256: str
    """Of the goal as it was resolved, in TOML, with its workspace relative to the
    repository."""
    objective: str
    success_criteria: tuple[str, ...] = ()
    file: str = ""
    """The goal file, relative to the repository; empty: there was none."""
    revision: GoalRevision = ""
    workspace: str = "."
    """Relative to the repository."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """What the command line said of the goal, by dotted key."""


class CheckedValidator(_Part):
    """A validator, with its results on base and head."""

    name: str
    command: str
    base: str
    """"passed", or why it did not pass; empty: it did not run."""
    head: str
    summary: str = ""
    """Of the head: "43 passed"."""


class CheckedTest(_Part):
    """One test, with its ending on each side of the change."""

    validator: str
    test: str
    change: str
    """"fail to pass", "pass to pass", "vacuous", "weakened", "deleted", ..."""
    base: str
    head_source: str
    """The source of the head with the checks of the base."""
    head_checks: str
    """The checks of the head on the source of the base."""
    head: str
    moved_to: str = ""


class CitedEvidence(_Part):
    """A piece of evidence for a criterion."""

    observation: str
    source: str = ""
    command: str = ""
    quote: str = ""
    fact: str = ""
    stale: str = ""


class CheckedCriterion(_Part):
    """A criterion, and what the judge cited for it."""

    criterion: str
    satisfied: bool
    missing: str = ""
    citations: tuple[CitedEvidence, ...] = ()


class Predicate(_Part):
    """What was verified about the change, and how."""

    result: ReceiptResult
    reason: str = ""
    """What is missing; empty for a complete receipt."""
    proof: ProofKind = "none"
    required_proof: RequiredProof = ""
    base: CheckedRevision
    head: CheckedRevision
    goal: CheckedGoal
    validators: tuple[CheckedValidator, ...] = ()
    tests: tuple[CheckedTest, ...] = ()
    criteria: tuple[CheckedCriterion, ...] = ()
    labels: tuple[str, ...] = ()
    """What weakens the result."""
    environment: Mapping[str, str] = Field(default_factory=dict)
    """The check environment, the system, and the versions of programs."""
    judge: str = ""
    """The model of the judge; empty: there was none."""
    run_id: str
    started_at: str
    """ISO 8601, UTC."""
    finished_at: str
    """ISO 8601, UTC."""

    @property
    def proof_text(self) -> str:
        """The proof, and what it means."""
        return f"{self.proof}: {PROOF_MEANINGS[self.proof]}"


class Statement(_Part):
    """An in-toto Statement v1 with the predicate of a receipt."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(
        default=STATEMENT_TYPE, alias="_type"
    )
    subject: tuple[Subject, ...]
    predicate_type: Literal["https://pypi.org/project/goalrunner/receipt/v1"] = (
        PREDICATE_TYPE
    )
    predicate: Predicate

    def json_text(self) -> str:
        """Return the document as JSON."""
        values = self.model_dump(mode="json", by_alias=True)
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def make_statement(predicate: Predicate) -> Statement:
    """Return the statement about the head of a change."""
    head = predicate.head
    # A rebase or a squash gives the same files another commit, so both are subjects.
    subjects = [Subject(name="tree", digest={TREE: head.tree})]
    if head.commit:
        subjects.insert(0, Subject(name="commit", digest={COMMIT: head.commit}))
    return Statement(subject=tuple(subjects), predicate=predicate)


def read_statement(text: str | bytes, name: str) -> Statement:
    """Return the statement in a JSON text. Raise UsageError if it is not one."""
    try:
        values = json.loads(text)
    # Thousands of nested brackets raise RecursionError in the parser of Python 3.11.
    except (ValueError, RecursionError):
        raise UsageError(
            f"{name} is not JSON, so it is not a receipt",
            "goal receipt -o receipt.json makes one",
        ) from None
    kind = _text(values, "predicateType")
    if _text(values, "_type") != STATEMENT_TYPE or kind != PREDICATE_TYPE:
        raise UsageError(
            f"{name} is not a receipt: its predicate type is {kind or 'missing'}",
            "goal receipt -o receipt.json makes one",
        )
    try:
        return Statement.model_validate(values)
    except ValidationError as error:
        # The first one is enough: most of the others follow from it.
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        raise UsageError(
            f"{name} is not a valid receipt: {place}: {problem['msg']}"
        ) from None


def _text(values: Any, name: str) -> str:
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, str) else ""


def digest_of(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal digits."""
    # A path that is not UTF-8 is in the text as surrogates.
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
