"""A run as one HTML page that works offline: its data from the log, and the templates that show them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
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
    Observation,
    Snapshot,
    TranscriptRef,
)
from goalrunner.core.outcome import Usage
from goalrunner.core.state_outcome import outcome_of
from goalrunner.core.verdict import GoalVerdict, ValidatorResult, verdict_of
from goalrunner.exports.diff_html import diff_html
from goalrunner.exports.templates import rendered
from goalrunner.reports import figures
from goalrunner.reports.layout import Fact, ReportLine, StepLine, printable
from goalrunner.reports.narrative import Narrative
from goalrunner.reports.patches import FileDiff, files_of
from goalrunner.reports.status import closing_lines
from goalrunner.reports.steps import LONGEST_WORDS

_DIFF = 4_000
"""Most lines of diffs that a page shows. Half of them are divided among the rounds."""
_LONGEST = 4_000
"""Most bytes of each end of an output that a page shows."""
_OUTPUTS = 1_600_000
"""Bytes of outputs that a page shows, divided among its steps; an output that the verdict cites may have more."""
_OPEN = 5
"""If a run has at most so many rounds, all of them are unfolded."""

_FAILED_COUNT = re.compile(
    r"\b(\d{1,9}) (?:failed|failing|errors?)\b|\b(?:failures|errors)=(\d{1,9})\b"
)
"""What a summary of a test runner reports of failures: "2 failed, 1 error", "failures=1"."""

_Words = Callable[[TranscriptRef], str]
_Ends = Callable[[ArtifactRef, int], tuple[bytes, bytes]]


class Excerpt(NamedTuple):
    """The two ends of an output, and how much is left out between them: "12,000 bytes"."""

    head: str
    gap: str = ""
    tail: str = ""


@dataclass
class PageEntry:
    """A line of a round, with the observation that it is about and an excerpt of its output."""

    line: ReportLine
    observation: Observation | None = None
    output: Excerpt | None = None
    is_hidden: bool = False
    """Whether it is of a hidden validator, whose output is not shown, because an agent could read the page."""


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
    """Whether the run has a judge. Without one, the score only repeats whether the validators passed."""
    results: tuple[ValidatorResult, ...] = ()
    changes: list[str] = field(default_factory=list)
    files: list[FileDiff] = field(default_factory=list)
    lines_left_out: int = 0

    @property
    def used(self) -> list[str]:
        """Tokens and dollars of this round; empty if there are none."""
        usage = self.total.since(self.before)
        return (
            list(figures.spent(usage)) if usage.tokens or usage.known_cost_usd else []
        )

    @property
    def failing(self) -> int | None:
        """Tests that failed; a failed validator that does not count them is one. None if no validator ran."""
        return sum(map(_failing_tests, self.results)) if self.results else None

    @property
    def values(self) -> dict[str, tuple[float, str]]:
        """The value and its text for each chart, without unknown values, which are not 0."""
        tokens, cost = figures.spent(self.total)
        found: dict[str, tuple[float, str]] = {}
        if self.number and self.verdict and self.is_judged:
            found["Score"] = self.verdict.score, figures.score(self.verdict.score)
        if self.number and self.total.known_cost_usd:
            found["Cost"] = self.total.known_cost_usd, cost
        if self.number and self.total.tokens:
            found["Tokens"] = self.total.tokens, tokens
        if self.failing is not None:
            found["Failing tests"] = self.failing, f"{self.failing:,}"
        return found


def _failing_tests(result: ValidatorResult) -> int:
    """Return how many tests failed: as the test runner reports it, else 1 for the validator itself."""
    if result.passed:
        return 0
    if result.tests_failed:
        return result.tests_failed
    counts = (word or keyed for word, keyed in _FAILED_COUNT.findall(result.summary))
    return sum(map(int, counts)) or 1


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

        `words` reads a message of the transcript, `ends` the two ends of an artifact: see `ArtifactStore.ends`.
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
        self._read_outputs(ends)
        ended = self.outcome.model_copy(update={"labels": (), "run_path": ""})
        visible = tuple(result for result in state.validators if not result.hidden)
        self.closing = list(
            closing_lines(ended, state.model_copy(update={"validators": visible}))
        )
        self.criteria = [
            list(same)
            for _, same in groupby(rows, key=lambda row: (row.kind, row.criterion))
        ]
        self.shown_ids = {
            one.observation.id
            for part in self.rounds
            for one in part.entries
            if one.observation
        }

    def _add(self, record: Record) -> None:
        event, lines = record.event, self._narrative.lines_of(record)
        if isinstance(event, events.GoalCreated | events.RunStarted):
            self.opening += [line for line in lines if isinstance(line, Fact)]
            return
        usage = self._narrative.state.total if self._narrative.state else Usage()
        if (
            isinstance(event, events.RoundStarted)
            and event.round != self.rounds[-1].number
        ):  # else it was resumed
            self.rounds.append(Round(event.round, record.elapsed, usage))
        here = self.rounds[-1]
        here.seconds, here.total = record.elapsed - here.began, usage
        here.is_judged = self._has_judge
        if isinstance(
            event, events.RoundStarted | events.RunEnded
        ):  # the heading of the round says the rest
            lines = [
                line for line in lines if isinstance(line, Fact) and line.tone == "warn"
            ]
        entries = [PageEntry(line) for line in lines]
        match event:
            case events.RoundFinished():
                here.changes = figures.diff_stat(event.changes)
                if self._narrative.message and entries:
                    entries[0].observation = event.response
                    data = (
                        self._words(self._narrative.message)
                        .strip()
                        .encode(errors="replace")
                    )
                    if (
                        b"\n" in data or len(data) > LONGEST_WORDS
                    ):  # else its line shows it whole
                        entries[0].output = _excerpt(
                            (data[:_LONGEST], data[_LONGEST:][-_LONGEST:]), len(data)
                        )
            case events.ToolResultRecorded() | events.QuestionAnswered():
                entries[0].observation = event.observation
            case events.BaselineTaken() | events.ValidatorsFinished():
                self._add_results(here, event, entries)
            case events.VerdictRecorded():
                here.verdict = event.verdict
        here.entries += entries

    @property
    def _has_judge(self) -> bool:
        return (
            self._narrative.state is not None
            and "judge" in self._narrative.state.models
        )

    def _add_results(
        self,
        here: Round,
        event: events.BaselineTaken | events.ValidatorsFinished,
        entries: Sequence[PageEntry],
    ) -> None:
        here.results = event.results
        if isinstance(event, events.ValidatorsFinished):
            decided = verdict_of(
                event.results, event.refusal or ", ".join(event.leaked)
            )
            here.verdict = None if decided.complete and self._has_judge else decided
        known = {item.id: item for item in events.observations_of(event)}
        for entry, result in zip(entries, event.results, strict=False):
            entry.observation, entry.is_hidden = (
                known.get(result.observation),
                result.hidden,
            )
            if result.hidden and isinstance(entry.line, StepLine):
                entry.line = replace(entry.line, remark=result.summary)

    def is_cited(self, entry: PageEntry) -> bool:
        """Return whether the evidence names the observation of a line."""
        return entry.observation is not None and entry.observation.id in self.cited

    def _read_outputs(self, ends: _Ends) -> None:
        """Read the outputs of the steps, and unfold the rounds that matter most."""
        for part in self.rounds:
            part.is_open = (
                len(self.rounds) <= _OPEN
                or part is self.rounds[-1]
                or any(map(self.is_cited, part.entries))
            )
        entries = [entry for part in self.rounds for entry in part.entries]
        usual = min(_LONGEST, _OUTPUTS // (2 * max(len(entries), 1)))
        for entry in entries:
            output = (
                entry.observation.output
                if entry.observation and not entry.is_hidden
                else None
            )
            if output and output.size:
                try:
                    entry.output = _excerpt(
                        ends(output, _LONGEST if self.is_cited(entry) else usual),
                        output.size,
                    )
                except RecordError as error:
                    entry.output = Excerpt(
                        f"The output cannot be read: {error.message}"
                    )

    def steps(self) -> list[tuple[int | None, tuple[Snapshot, Snapshot]]]:
        """Return the snapshots before and after each round that changed something; None: the whole run."""
        history = self.snapshots.history
        ended = [number for number in history.ends if number in history.starts]
        pairs = [
            (number, self.snapshots.both(number)) for number in (None, *ended) if ended
        ]
        return [
            (number, pair) for number, pair in pairs if pair[0].tree != pair[1].tree
        ]

    def add_patches(self, patches: Iterable[tuple[int | None, str]]) -> None:
        """Add the patches of rounds; None is the whole run's."""
        rounds = {part.number: part for part in self.rounds}
        for number, text in patches:
            most = _DIFF // 2 if number is None else max(_DIFF // 2 // len(rounds), 10)
            target = self if number is None else rounds[number]
            target.files, target.lines_left_out = files_of(text, most)


def _excerpt(ends: tuple[bytes, bytes], size: int) -> Excerpt:
    head, tail = (
        printable(part.decode(errors="replace").expandtabs(4)).strip("\n")
        for part in ends
    )
    left_out = size - sum(map(len, ends))
    return Excerpt(head, f"{left_out:,} bytes" if left_out > 0 else "", tail)


class Chart(NamedTuple):
    """A line over the rounds: the number of each, its value and text. `top` is the value at the upper edge."""

    title: str
    points: list[tuple[int, float, str]]
    top: tuple[float, str]
    first: int
    last: int


def _add_charts(pages: Sequence[RunPage]) -> None:
    """Add the charts of each run, all drawn to one scale: score, cost or else tokens, and failing tests."""
    values = [
        (page, part.number, part.values) for page in pages for part in page.rounds
    ]
    spend = "Cost" if any("Cost" in found for _, _, found in values) else "Tokens"
    titles = ("Score", spend, "Failing tests")
    numbers = [number for _, number, found in values if found.keys() & set(titles)]
    for title in titles:
        drawn = [
            (page, number, *found[title])
            for page, number, found in values
            if title in found
        ]
        for page in pages:
            points = [point[1:] for point in drawn if point[0] is page]
            if points:
                top = (
                    (1.0, "1.00")
                    if title == "Score"
                    else max(point[2:] for point in drawn)
                )
                page.charts.append(
                    Chart(title, points, top, min(numbers), max(numbers))
                )


def page_text(pages: Sequence[RunPage]) -> str:
    """Return the page of one run, or of two runs side by side. It has one stylesheet and no script."""
    _add_charts(pages)
    return rendered(
        Path(__file__).with_name("report.html.j2"), pages=pages, diff_html=diff_html
    )
