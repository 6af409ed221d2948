"""What a round is decided by: the results of validators, and the judge's verdict."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from goalrunner.core.errors import one_line, quoted
from goalrunner.core.field_types import Frozen
from goalrunner.core.observation import ArtifactRef

FEEDBACK_TAIL = 4_000
"""Characters of a validator's output that go back to the agent.

They are the last ones, where test runners put their summary.
"""

_TAIL_OF_NPM = re.compile(
    r"npm (?:error|ERR!)"
    r"(?: \w*| (?:\w+ )?(?:A complete log|This is related to npm|/).*)?"
)
"""Last lines of npm that do not name the cause."""
_ID = re.compile(r"o[1-9][0-9]*", re.IGNORECASE)
_BARE = re.compile(r"exit \d+(?:, expected \d+)?")
_SHOWN = 160
"""Characters of the last line of an output that are shown beside the exit code."""


class ValidationOutcome(Frozen):
    """What a Python validator may return: passed or not, and what to tell the agent.

    (Source: Strands' GoalLoop.)

    >>> from goalrunner import ValidationOutcome
    >>> def short(response):
    ...     words = len(response["content"][0]["text"].split())
    ...     return ValidationOutcome(words <= 50, f"{words} words; at most 50")
    """

    passed: bool = Field(strict=True)
    feedback: str | None = None
    """What is wrong, in words the agent can act on."""
    evidence: tuple[str, ...] = ()
    """What it looked at: ("order:O-104",)."""

    # The arguments are positional as well, as in Strands' GoalLoop.
    def __init__(
        self, /, passed: bool, feedback: str | None = None, evidence: Sequence[str] = ()
    ) -> None:
        fields: dict[str, Any] = {
            "passed": passed,
            "feedback": feedback,
            "evidence": evidence,
        }
        super().__init__(**fields)


class RunnerCount(Frozen):
    """One summary of a test runner in an output."""

    runner: str
    ran: int = Field(ge=0)
    """Tests that passed or failed; for go test: packages."""
    skipped: int = Field(default=0, ge=0)
    """Tests that were skipped, pending, todo or expected to fail."""
    failed: bool = False
    """Whether it reports failures."""
    certain: bool = True
    """Whether it cannot be a part of what a failing test printed."""


class SuiteRecord(Frozen):
    """The tests in the output of a validator, for the comparison with the baseline."""

    counts: tuple[RunnerCount, ...] = ()
    """The summaries, in the order of the output."""
    ended_early: str = ""
    """Test programs that started and printed no result."""
    filters: tuple[str, ...] = ()
    """Options of the validator that select tests: -k."""
    varying: bool = False
    """The selection depends on what changed: --testmon."""
    whole: bool = True
    """Whether the output was read from its beginning."""
    quiet: bool = False
    """The summary may be missing in a green run: `pytest >log || cat log`"""
    proves: bool = False
    """The collected tests explain the exit code of the whole line: no other program of
    it decided."""
    below_threshold: bool = False
    """It is red, no test failed, and a test runner reports that its coverage threshold
    is not reached."""


Ending = Literal["passed", "failed", "skipped", "xfailed", ""]
"""How a test ended; empty: it was collected and did not run."""


class CollectedTests(Frozen):
    """The tests that the runners of a validator collected, by their ids.

    An id is `tests/test_a.py::test_b`.
    """

    endings: Mapping[str, Ending] = Field(default_factory=dict)
    """Every collected test. The file of an id is relative to the workspace."""
    skipped_at: Mapping[str, str] = Field(default_factory=dict)
    """The file in which a test was skipped, by the test's id, where the runner says so;
    relative to the workspace."""
    whole: bool = True
    """Whether no test is missing: no early end, no file that could not be collected, no
    runner without ids."""


NOT_PASSED = "not passed"
"""The summary of a callable that failed without feedback."""


class ValidatorResult(Frozen):
    """One run of one validator, as the runner saw it."""

    name: str = Field(min_length=1)
    passed: bool = Field(strict=True)
    feedback: str = ""
    """The last 4,000 characters of the output, or the callable's feedback."""
    reason: Literal[
        "passed", "red", "timeout", "crashed", "not_found", "invalid_result", "flaky"
    ] = "red"
    command: str = ""
    """The command line, or module:function."""
    exit_code: int | None = None
    """None for callables, and for a command that a signal ended."""
    duration: float = Field(default=0.0, ge=0)
    """Seconds."""
    summary: str = ""
    '''One line for people: "43 passed", "exit 1", "timed out after 5 s"'''
    hidden: bool = False
    """It runs once the others are green and is never shown to the agent."""
    cannot_run: bool = False
    """Its command line cannot work here; only a person can help."""
    steady: bool = False
    """The same content must give the same result."""
    tests_run: int | None = Field(default=None, ge=0)
    """Tests that ran, without skipped ones; None: unknown."""
    tests_failed: int | None = Field(default=None, ge=0)
    """Tests that failed or broke; None: unknown."""
    test_ids: tuple[str, ...] = ()
    """Tests that passed or failed, in records of older runs."""
    suite: SuiteRecord = SuiteRecord()
    # Thousands of ids in each result would make the log large.
    tests: CollectedTests | None = Field(default=None, exclude=True)
    """The collected tests; None if no runner gave ids. The log does not contain
    them."""
    output: ArtifactRef | None = None
    observation: str = ""
    '''The id under which the judge sees it, "o12"'''

    @property
    def is_silent(self) -> bool:
        """Whether it only says that it did not pass, as a callable does with False."""
        says_nothing = self.summary == NOT_PASSED and not self.feedback.strip()
        return says_nothing and not self.passed

    @property
    def remark(self) -> str:
        """One line for people: the summary, and beside a bare exit code the cause."""
        summary = self.summary or self.reason.replace("_", " ")
        if self.passed or not _BARE.fullmatch(summary):
            return summary
        # Most programs print the cause of a failure last.
        for line in reversed(self.feedback.splitlines()):
            cause = " ".join(line.split())
            has_words = any(map(str.isalnum, cause))
            if has_words and not _TAIL_OF_NPM.fullmatch(cause):
                return f"{summary}: {one_line(cause, _SHOWN)}"
        return summary


def identifier_of(text: str) -> str:
    """Return an observation's id from the forms that judges write.

    These are `o12`, `[o12]` and ` O12 `. Another text is returned as it is.
    """
    match = _ID.fullmatch(text.strip().strip("[]").strip())
    return match[0].lower() if match else text


def obstacle_of(results: Sequence[ValidatorResult]) -> str:
    """Return why validators cannot run here, one line each; empty if all can."""
    return "\n".join(
        f"validator {item.name} cannot run here: {item.summary}"
        for item in results
        if item.cannot_run
    )


class Citation(Frozen):
    """An observation and what is quoted from it.

    That is words of its output, or a fact of its heading ("exit 0").
    """

    observation: str
    '''"o12"'''
    quote: str | None = None
    """Verbatim words of the output."""
    fact: str | None = None
    """A fact of the heading, for commands whose success is silent."""

    @property
    def identifier(self) -> str:
        """The observation's id, as far as the judge wrote one."""
        return identifier_of(self.observation)

    # Both at once would leave open which of them the runner has to find.
    @model_validator(mode="after")
    def _one_of_both(self) -> Citation:
        if (self.quote is None) == (self.fact is None):
            raise ValueError("a citation has either a quote or a fact")
        return self


class CriterionVerdict(Frozen):
    """One criterion: satisfied or not, by which evidence, and what is missing."""

    criterion: str = Field(min_length=1)
    satisfied: bool = Field(strict=True)
    evidence: tuple[Citation, ...] = ()
    missing: str = ""


class GoalVerdict(Frozen):
    """Whether the goal is provably complete.

    `missing` is sent to the agent. (Source: OpenHands' goal loop.)

    >>> from goalrunner import GoalVerdict
    >>> GoalVerdict(score=0.4, complete=False, missing="a test").missing
    'a test'
    """

    score: float = Field(ge=0, le=1)
    """Probability that the whole objective is provably done."""
    complete: bool = Field(strict=True)
    missing: str = ""
    """What remains; empty when complete."""
    criteria: tuple[CriterionVerdict, ...] = ()
    blocked: str = ""
    """Why the goal cannot be reached, or needs a person; empty: it can go on."""
    questions: tuple[str, ...] = ()
    """Facts that only a person can give, as questions."""
    source: Literal["judge", "validators", "fallback"] = "judge"
    """fallback: the judge's answers could not be parsed."""

    @model_validator(mode="after")
    def _complete_means_all(self) -> GoalVerdict:
        all_satisfied = all(criterion.satisfied for criterion in self.criteria)
        if self.complete and not all_satisfied:
            raise ValueError("complete beside a criterion that is not satisfied")
        if self.complete and self.blocked:
            raise ValueError("complete and blocked at once")
        return self

    @property
    def cited(self) -> tuple[str, ...]:
        """The ids that it cites, each once."""
        identifiers: list[str] = []
        for criterion in self.criteria:
            identifiers += [citation.identifier for citation in criterion.evidence]
        return tuple(dict.fromkeys(identifiers))


class UnreadAnswer(Frozen):
    """An answer of the judge that could not be read."""

    reason: str
    """In one sentence."""
    text: str = ""
    """Both ends of the answer, secrets replaced."""

    def __str__(self) -> str:
        """Return two lines for people: the reason, and what the judge said."""
        answer = "it said nothing"
        if self.text:
            answer = f"it said: {quoted(one_line(self.text))}"
        return f"the judge's answer could not be read: {self.reason}\n{answer}"


HIDDEN = "a check that is not shown to you failed; go through the objective again"
"""The feedback about a hidden validator."""


def verdict_of(
    results: Sequence[ValidatorResult],
    refusal: str = "",
    protected_changes: Sequence[str] = (),
) -> GoalVerdict:
    """Return the runner's own verdict.

    It is complete if there are validators and all are green. `refusal` says why the
    results do not count. `protected_changes` are files that validators saw in their
    original state.
    """
    parts = _feedback_of(results)
    passed = bool(results) and not parts and not refusal
    if refusal:
        parts.append(refusal)
    elif not results:
        parts.append("no validator has run")
    if not passed:
        parts.append(protected_message(protected_changes))
    return GoalVerdict(
        score=1.0 if passed else 0.0,
        complete=passed,
        missing="\n\n".join(filter(None, parts)),
        source="validators",
    )


def _feedback_of(results: Sequence[ValidatorResult]) -> list[str]:
    """Return the feedback about each red validator."""
    red = [result for result in results if not result.passed]
    parts = [
        f"validator {result.name}: {_summary_and_feedback(result)}"
        for result in red
        if not result.hidden
    ]
    # How many are hidden, and their names, stay unknown to the agent.
    if any(result.hidden for result in red):
        parts.append(HIDDEN)
    return parts


def agent_feedback(
    verdict: GoalVerdict, results: Sequence[ValidatorResult]
) -> str | None:
    """Return the feedback for the agent.

    None if the validators only say that they did not pass.
    """
    are_silent = all(result.is_silent for result in results if not result.passed)
    # The verdict may also have a refusal or protected files, which are feedback beside
    # silent validators.
    is_of_results_only = verdict.missing == verdict_of(results).missing
    if verdict.source == "validators" and are_silent and is_of_results_only:
        return None
    return verdict.missing.strip() or None


_MOST_LISTED = 10
"""Paths in the feedback about protected files."""


def protected_message(lines: Sequence[str]) -> str:
    """Return what the agent reads about files that were checked as at the start.

    Empty if there are none.
    """
    if not lines:
        return ""
    listed = [f"- {line}" for line in lines[:_MOST_LISTED]]
    if len(lines) > _MOST_LISTED:
        listed.append(f"- and {len(lines) - _MOST_LISTED} more")
    message = (
        "The validators ran with the original content of these files, not as you "
        "changed them:"
    )
    return "\n".join([message, *listed])


def _summary_and_feedback(result: ValidatorResult) -> str:
    """Return summary and feedback; the summary only once."""
    summary, feedback = result.summary.strip(), result.feedback.strip()
    first_line = " ".join(feedback.partition("\n")[0].split())
    if first_line.startswith(summary.removesuffix("…")):
        return feedback or summary
    return f"{summary}\n{feedback}".strip()


_NUMBER = r"\d+(?:[.,]\d+)?"
_DATE, _CLOCK = r"\d{4}-\d{2}-\d{2}", r"\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?"
_VARYING = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (rf"\b{_DATE}[T ]{_CLOCK}(?:Z|[+-]\d{{2}}:?\d{{2}})?", "<time>"),
        # In names of files, as npm writes its logs: 2026-11-22T20_14_47_323Z
        (
            (
                r"(?<!\d)\d{4}-?\d{2}-?\d{2}[T_-]\d{2}[_.-]?\d{2}[_.-]?\d{2}"
                r"(?:[_.-]\d{1,9}(?!\d))?Z?"
            ),
            "<time>",
        ),
        (r"\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b", "<time>"),
        (
            rf"\b{_NUMBER}\s?(?:ns|us|µs|ms|s|secs?|seconds?|mins?|minutes?|m|h)\b",
            "<duration>",
        ),
        (
            (
                r"(?:/private)?(?:/var/folders|/var/tmp|/tmp|/dev/shm)"
                r"(?:/[^\s:'\"()\[\]]*)?"
            ),
            "<temporary>",
        ),
        (r"\b0x[0-9a-fA-F]+\b", "<address>"),
        (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<id>"),
        # A hash has both digits and letters; a word or a number is none.
        (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b", "<id>"),
        (r"(?i)\b(pid|process|port|seed|thread)([ =:#]+)\d+", r"\1\2<number>"),
        (
            r"(?<=127\.0\.0\.1:)\d+|(?<=localhost:)\d+|(?<=\[::1\]:)\d+",
            "<number>",
        ),
    )
)
"""Patterns of text that varies between two runs of a check, with replacements."""


def normalised(text: str) -> str:
    """Return a text without what varies by itself, its lines in a fixed order.

    That is durations, times, temporary paths, addresses and ids.
    """
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    # Sorted, because runners in parallel print in any order.
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return "\n".join(sorted(filter(None, lines)))
