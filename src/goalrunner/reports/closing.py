"""The last lines of a run: how it ended, what is missing, and what comes next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.core.labels import Label, label_in
from goalrunner.core.run_summary import RUNNING, RunSummary
from goalrunner.reports import figures
from goalrunner.reports.layout import (
    Fact,
    ReportLine,
    Tone,
    facts,
    nonempty_facts,
    output_lines,
)
from goalrunner.reports.next_steps import message_lines, next_steps
from goalrunner.reports.result_notes import (
    SHOWN_BY_PATHS,
    gone_lines,
    label_lines,
    protected_lines,
    restoring_all_command,
)
from goalrunner.reports.short_forms import home_path
from goalrunner.reports.terminal_text import printable_line

if TYPE_CHECKING:
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.core.run_state import RunState
    from goalrunner.core.verdict import ValidatorResult

# Notes about patterns that match no file; they may explain a red result.
_UNMATCHED = ("protect: ", "editable: ")
# With these labels the checks show nothing of the work; the last lines say what would.
_CURED = (Label.NOTHING_CHANGED, Label.PASSED_BEFORE)
_TONES: dict[str, Tone] = {
    "complete": "good",
    "capped": "bad",
    "failed": "bad",
    "blocked": "warn",
    "cancelled": "warn",
}


def closing_lines(
    outcome: GoalOutcome,
    state: RunState | None = None,
    copy: str = "",
    shown_missing: str = "",
) -> Iterator[ReportLine]:
    """Yield the last lines of a run.

    `state` is that of the run, if it is known; `copy` is the path of a copy of the
    outcome, if there is one; `shown_missing` is what the last line about the judge says
    is missing, which is not repeated.
    """
    status = outcome.status.value
    figures_of_run = figures_text(outcome, state)
    yield Fact(status, figures_of_run, _TONES.get(status, "plain"))
    spends = []
    for name, usage in outcome.agent_usage.items():
        spends.append(" · ".join([name, *figures.spent(usage)]))
    yield from facts("agents", spends)
    summary = summary_of(outcome, state)
    yield from protected_lines(summary)
    if not outcome.passed:
        yield from _reasons(outcome, state, shown_missing)
    yield from gone_lines(outcome.run_id, outcome.gone_or_reverted)
    yield from label_lines(outcome.labels, outcome.approvals, _CURED, SHOWN_BY_PATHS)
    if outcome.passed:
        yield from _changed_check_lines(outcome)
    yield from nonempty_facts({"redacted": figures.redacted_line(outcome.redacted)})
    if outcome.run_path:
        outcome_file = f"{outcome.run_path}/outcome.json"
        yield Fact("", home_path(outcome_file), whole=True)
    if copy:
        yield Fact("", home_path(copy), whole=True)
    yield from next_steps(summary)
    yield from _uses_of_the_change(outcome, state)


def _reasons(
    outcome: GoalOutcome, state: RunState | None, shown_missing: str
) -> Iterator[ReportLine]:
    """Yield why a run is not complete."""
    yield from message_lines(outcome.message)
    yield from _missing_lines(outcome, state, shown_missing)
    notes = state.notes if state is not None else ()
    for note in notes:
        if note.startswith(_UNMATCHED):
            yield Fact("note", note, "warn")


def _missing_lines(
    outcome: GoalOutcome, state: RunState | None, shown_missing: str
) -> Iterator[ReportLine]:
    """Yield what the last verdict misses, and the output of failed validators."""
    red_results: list[ValidatorResult] = []
    # Before the end of a round, the results are those of the baseline.
    if state is not None and state.round > 0 and outcome.status != RUNNING:
        red_results = [result for result in state.validators if not result.passed]
    verdict = outcome.verdict
    missing = verdict.missing if verdict is not None else ""
    is_by_judge = verdict is not None and verdict.source == "judge"
    # Without a judge, a verdict only repeats the output of the validators.
    if missing not in ("", shown_missing) and (is_by_judge or not red_results):
        yield from output_lines("missing", missing)
    for result in red_results:
        yield from output_lines("validator", _failure_text(result), tone="bad")


def _failure_text(result: ValidatorResult) -> str:
    """Return a failed validator with its remark, and its output if that says more."""
    head = f"{result.name}: {result.remark}"
    output = result.feedback.strip("\n")
    is_one_line = "\n" not in output
    if is_one_line and printable_line(output) in printable_line(result.remark):
        return head
    return f"{head}\n{output}"


def _changed_check_lines(outcome: GoalOutcome) -> Iterator[Fact]:
    """Yield the commands that restore changed checks, or show them."""
    has_unnamed_files = False
    for text in outcome.labels:
        label = label_in(text)
        if label is Label.TESTS_REMOVED:
            has_unnamed_files = True
        if label is not Label.CHECKS_DIFFER:
            continue
        paths = text.partition(": ")[2].split(", ")
        # A label names only the first of many paths.
        if set(paths) <= set(outcome.differing):
            yield Fact("", "To put the originals back:")
            command = restoring_all_command(outcome.run_id, paths)
            yield Fact("", command, whole=True)
        else:
            has_unnamed_files = True
    if has_unnamed_files:
        yield Fact("", "To see what changed in the checks:")
        yield Fact("", f"goal diff {outcome.run_id}", whole=True)


def _uses_of_the_change(outcome: GoalOutcome, state: RunState | None) -> Iterator[Fact]:
    """Yield the commands that show the change of a complete run, and keep it."""
    if not (outcome.passed and outcome.changes and outcome.changes.files):
        return
    run_id = outcome.run_id
    # The workspace is unchanged until the copy is applied.
    if state is not None and state.isolated:
        yield Fact("apply", f"goal apply {run_id}", whole=True)
    yield Fact("changes", f"goal diff {run_id}", whole=True)
    # A branch needs a commit to begin at; a patch can always be written.
    option = "--branch NAME" if _began_at_commit(outcome, state) else "--patch"
    yield Fact("keep", f"goal export {run_id} {option}", whole=True)


def _began_at_commit(outcome: GoalOutcome, state: RunState | None) -> bool:
    start = state.base if state is not None else None
    if start is None or not start.repository:
        return False
    if not outcome.run_path:
        return True
    # A slow import, which only a complete run with changes needs.
    from goalrunner.snapshots.ignore_rules import Start

    return Start(Path(outcome.run_path, "start")).commit != ""


def figures_text(outcome: GoalOutcome, state: RunState | None = None) -> str:
    """Return the figures of a run: "2 rounds · 3 min 12 s · 41,210 tokens"."""
    summary = summary_of(outcome, state)
    rounds = figures.count(summary.checked_rounds, "round")
    changes = figures.diff_stat(outcome.changes)
    return " · ".join([rounds, figures.spend(summary), *changes])


def summary_of(outcome: GoalOutcome, state: RunState | None = None) -> RunSummary:
    """Return the figures of an outcome.

    `state` adds what the commands that come next depend on.
    """
    summary = RunSummary.of_outcome(outcome)
    if state is not None:
        summary.goal_file = state.goal_file
        summary.handed = list(state.handed)
        summary.round = state.round
        summary.round_ended = state.round_ended
        summary.unenforced = list(state.plan.unenforced)
    return summary
