"""The content of a page about one run, read from its log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from goalrunner.app.run_snapshots import RunSnapshots
from goalrunner.core import events
from goalrunner.core.errors import RecordError, UsageError
from goalrunner.core.events import Record
from goalrunner.core.evidence_index import EvidenceIndex
from goalrunner.core.observation import (
    ArtifactRef,
    EvidenceRow,
    Observation,
    Snapshot,
    TranscriptRef,
)
from goalrunner.core.outcome import Usage
from goalrunner.core.run_state import RunState
from goalrunner.core.state_outcome import outcome_of
from goalrunner.core.verdict import GoalVerdict, ValidatorResult, verdict_of
from goalrunner.reports import figures
from goalrunner.reports.closing import closing_lines
from goalrunner.reports.layout import Fact, ReportLine, StepLine
from goalrunner.reports.narrative import Narrative
from goalrunner.reports.patches import FileDiff, files_of
from goalrunner.reports.steps import LONGEST_WORDS
from goalrunner.reports.terminal_text import printable

# Most lines of diffs that a page shows. Half of them are divided among the rounds.
_MOST_DIFF_LINES = 4_000
_LEAST_DIFF_LINES = 10
# Most bytes of each end of an output that a page shows.
_LONGEST_END = 4_000
# Bytes of outputs that a page shows, divided among its steps; an output that the
# verdict cites may have more.
_ALL_OUTPUTS = 1_600_000
# If a run has at most so many rounds, all of them are unfolded.
_MOST_OPEN = 5

# What a summary of a test runner reports of failures: "2 failed, 1 error",
# "failures=1".
_FAILED_COUNT = re.compile(
    r"\b(\d{1,9}) (?:failed|failing|errors?)\b|\b(?:failures|errors)=(\d{1,9})\b"
)

_Words = Callable[[TranscriptRef], str]
_Ends = Callable[[ArtifactRef, int], tuple[bytes, bytes]]


class Excerpt(NamedTuple):
    """The two ends of an output."""

    head: str
    gap: str = ""
    """How much is left out between them: "12,000 bytes"."""
    tail: str = ""


def _excerpt(ends: tuple[bytes, bytes], size: int) -> Excerpt:
    head, tail = map(_plain_text, ends)
    omitted = size - sum(map(len, ends))
    return Excerpt(head, f"{omitted:,} bytes" if omitted > 0 else "", tail)


def _plain_text(data: bytes) -> str:
    text = data.decode(errors="replace").expandtabs(4)
    return printable(text).strip("\n")


@dataclass
class PageEntry:
    """A line of a round, with its observation and an excerpt of the output."""

    line: ReportLine
    observation: Observation | None = None
    output: Excerpt | None = None
    is_hidden: bool = False
    """Whether it is of a hidden validator.

    Its output is not shown, because an agent could read the page.
    """


@dataclass
class Round:
    """One round; number 0 is the time before the first one."""

    number: int
    began: float = 0.0
    before: Usage = field(default_factory=Usage)
    total: Usage = field(default_factory=Usage)
    """Used by the run at the end of the round."""
    seconds: float = 0.0
    entries: list[PageEntry] = field(default_factory=list)
    is_open: bool = False
    verdict: GoalVerdict | None = None
    is_judged: bool = False
    """Whether the run has a judge.

    Without one, the score only repeats whether the validators passed.
    """
    results: tuple[ValidatorResult, ...] = ()
    changes: list[str] = field(default_factory=list)
    files: list[FileDiff] = field(default_factory=list)
    lines_left_out: int = 0

    @property
    def used(self) -> list[str]:
        """Tokens and dollars of this round; empty if there are none."""
        usage = self.total.since(self.before)
        if not usage.tokens and not usage.known_cost_usd:
            return []
        return list(figures.spent(usage))

    @property
    def failing(self) -> int | None:
        """Tests that failed; None if no validator ran.

        A failed validator that does not count them is one.
        """
        return sum(map(_failing_tests, self.results)) if self.results else None

    @property
    def values(self) -> dict[str, tuple[float, str]]:
        """The value and its text for each chart.

        Unknown values are left out, because they are not 0.
        """
        tokens, cost = figures.spent(self.total)
        values: dict[str, tuple[float, str]] = {}
        if self.number and self.verdict and self.is_judged:
            score = self.verdict.score
            values["Score"] = score, figures.score(score)
        if self.number and self.total.known_cost_usd:
            values["Cost"] = self.total.known_cost_usd, cost
        if self.number and self.total.tokens:
            values["Tokens"] = self.total.tokens, tokens
        if self.failing is not None:
            values["Failing tests"] = self.failing, f"{self.failing:,}"
        return values


def _failing_tests(result: ValidatorResult) -> int:
    """Return how many tests failed, as the test runner reports it.

    A validator that failed without a report is one.
    """
    if result.passed:
        return 0
    if result.tests_failed:
        return result.tests_failed
    counts = _FAILED_COUNT.findall(result.summary)
    return sum(int(before or after) for before, after in counts) or 1


class Chart(NamedTuple):
    """A line over the rounds."""

    title: str
    points: list[tuple[int, float, str]]
    """The number of each round, its value and text."""
    top: tuple[float, str]
    """The value at the upper edge."""
    first: int
    last: int


class RunPage:
    """One run as a page shows it."""

    def __init__(
        self,
        records: Iterable[Record],
        *,
        words: _Words,
        ends: _Ends,
        run_path: str = "",
    ) -> None:
        """Read the records, once. Raise UsageError if there are none.

        `words` reads a message of the transcript, `ends` the two ends of an artifact:
        see `ArtifactStore.ends`.
        """
        self.opening: list[Fact] = []
        self.rounds = [Round(0)]
        self.charts: list[Chart] = []
        self.files: list[FileDiff] = []
        """The files that the run changed, from its start to its end."""
        self.lines_left_out = 0
        self.diff_problem = ""
        """Why there are no diffs."""
        evidence = EvidenceIndex()
        self._narrative = Narrative(words=words)
        self._words = words
        for record in records:
            self._add(record)
            evidence.add(record)
        state = self._narrative.state
        if state is None:
            raise UsageError(
                f"the log of run {Path(run_path).name} has no events",
                "goal list shows the runs",
            )
        self.snapshots = RunSnapshots(
            state.goal.run_id, state.workspace, evidence.history
        )
        rows = evidence.rows(state)
        self.outcome = outcome_of(state, run_path, evidence=rows)
        self.cited = {row.observation for row in rows}
        if not self.rounds[0].entries:
            del self.rounds[0]
        self._open_rounds()
        self._read_outputs(ends)
        self.closing = self._closing_lines(state)
        self.criteria = _rows_by_criterion(rows)
        self.shown_ids = {
            entry.observation.id for entry in self._entries() if entry.observation
        }

    def _closing_lines(self, state: RunState) -> list[ReportLine]:
        # The page shows labels and results of hidden validators in its own places.
        outcome = self.outcome.model_copy(update={"labels": (), "run_path": ""})
        visible = tuple(result for result in state.validators if not result.hidden)
        state = state.model_copy(update={"validators": visible})
        return list(closing_lines(outcome, state))

    def _add(self, record: Record) -> None:
        event = record.event
        lines = list(self._narrative.lines_of(record))
        if isinstance(event, events.GoalCreated | events.RunStarted):
            self.opening += [line for line in lines if isinstance(line, Fact)]
            return
        usage = self._narrative.state.total if self._narrative.state else Usage()
        # A resumed round begins again with the same number.
        number = self.rounds[-1].number
        if isinstance(event, events.RoundStarted) and event.round != number:
            self.rounds.append(Round(event.round, record.elapsed, usage))
        part = self.rounds[-1]
        part.seconds = record.elapsed - part.began
        part.total = usage
        part.is_judged = self._has_judge
        if isinstance(event, events.RoundStarted | events.RunEnded):
            # The heading of the round says the rest.
            lines = list(filter(_is_warning, lines))
        entries = [PageEntry(line) for line in lines]
        match event:
            case events.RoundFinished():
                part.changes = figures.diff_stat(event.changes)
                if self._narrative.message and entries:
                    entries[0].observation = event.response
                    entries[0].output = self._message_excerpt(self._narrative.message)
            case events.ToolResultRecorded() | events.QuestionAnswered():
                entries[0].observation = event.observation
            case events.BaselineTaken() | events.ValidatorsFinished():
                self._add_results(part, event, entries)
            case events.VerdictRecorded():
                part.verdict = event.verdict
        part.entries += entries

    def _message_excerpt(self, message: TranscriptRef) -> Excerpt | None:
        """Return the agent's message; None if its line shows it whole."""
        data = self._words(message).strip().encode(errors="replace")
        if b"\n" not in data and len(data) <= LONGEST_WORDS:
            return None
        head, remainder = data[:_LONGEST_END], data[_LONGEST_END:]
        return _excerpt((head, remainder[-_LONGEST_END:]), len(data))

    @property
    def _has_judge(self) -> bool:
        state = self._narrative.state
        return state is not None and "judge" in state.models

    def _add_results(
        self,
        part: Round,
        event: events.BaselineTaken | events.ValidatorsFinished,
        entries: Sequence[PageEntry],
    ) -> None:
        """Add the results of validators to a round and to its lines."""
        part.results = event.results
        if isinstance(event, events.ValidatorsFinished):
            refusal = event.refusal or ", ".join(event.leaked)
            verdict = verdict_of(event.results, refusal)
            # The judge decides about green validators.
            is_open = verdict.complete and self._has_judge
            part.verdict = None if is_open else verdict
        observations = {item.id: item for item in events.observations_of(event)}
        for entry, result in zip(entries, event.results, strict=False):
            entry.observation = observations.get(result.observation)
            entry.is_hidden = result.hidden
            if result.hidden and isinstance(entry.line, StepLine):
                entry.line = replace(entry.line, remark=result.summary)

    def is_cited(self, entry: PageEntry) -> bool:
        """Return whether the evidence names the observation of a line."""
        return entry.observation is not None and entry.observation.id in self.cited

    def _entries(self) -> Iterator[PageEntry]:
        for part in self.rounds:
            yield from part.entries

    def _open_rounds(self) -> None:
        """Unfold the rounds that matter most."""
        are_few = len(self.rounds) <= _MOST_OPEN
        for part in self.rounds:
            is_last = part is self.rounds[-1]
            is_cited = any(map(self.is_cited, part.entries))
            part.is_open = are_few or is_last or is_cited

    def _read_outputs(self, ends: _Ends) -> None:
        """Read the outputs of the steps."""
        number = max(len(list(self._entries())), 1)
        usual_length = min(_LONGEST_END, _ALL_OUTPUTS // (2 * number))
        for entry in self._entries():
            if entry.observation is None or entry.is_hidden:
                continue
            output = entry.observation.output
            if output is None or not output.size:
                continue
            length = _LONGEST_END if self.is_cited(entry) else usual_length
            try:
                entry.output = _excerpt(ends(output, length), output.size)
            except RecordError as error:
                text = f"The output cannot be read: {error.message}"
                entry.output = Excerpt(text)

    def steps(self) -> list[tuple[int | None, tuple[Snapshot, Snapshot]]]:
        """Return the snapshots around each round that changed something.

        None as the number stands for the whole run, which comes first.
        """
        history = self.snapshots.history
        rounds = [number for number in history.ends if number in history.starts]
        if not rounds:
            return []
        steps = []
        for number in (None, *rounds):
            before, after = self.snapshots.both(number)
            if before.tree != after.tree:
                steps.append((number, (before, after)))
        return steps

    def add_patches(self, patches: Iterable[tuple[int | None, str]]) -> None:
        """Add the patches of rounds; None is the whole run's."""
        rounds = {part.number: part for part in self.rounds}
        half = _MOST_DIFF_LINES // 2
        for number, text in patches:
            if number is None:
                self.files, self.lines_left_out = files_of(text, half)
            else:
                part = rounds[number]
                most_lines = max(half // len(rounds), _LEAST_DIFF_LINES)
                part.files, part.lines_left_out = files_of(text, most_lines)


def _is_warning(line: ReportLine) -> bool:
    return isinstance(line, Fact) and line.tone == "warn"


def _rows_by_criterion(rows: Iterable[EvidenceRow]) -> list[list[EvidenceRow]]:
    groups = groupby(rows, key=lambda row: (row.kind, row.criterion))
    return [list(group) for _, group in groups]
