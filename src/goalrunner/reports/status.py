"""The status of a run: `goal status`, its last lines, the labels that weaken its result, and the commands that come next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.core.errors import RESETS, RESUMED_THERE, quoted_list, some, ways_on
from goalrunner.core.labels import EXPLANATIONS, Label, label_in
from goalrunner.core.run_summary import (
    LOST,
    RUNNING,
    UNREADABLE,
    RunSummary,
)
from goalrunner.reports import figures
from goalrunner.reports.figures import redacted_line
from goalrunner.reports.layout import (
    TAIL,
    Fact,
    ReportLine,
    Tone,
    facts,
    nonempty_facts,
    output_lines,
)
from goalrunner.reports.short_forms import (
    home_path,
    model_name,
)
from goalrunner.reports.terminal_text import (
    cut,
    printable_line,
)

if TYPE_CHECKING:
    from goalrunner.core.outcome import ApprovalRow, GoalOutcome
    from goalrunner.core.run_state import RunState
    from goalrunner.core.verdict import ValidatorResult

_OF_THE_FILE = ("validator_missing", "model_not_found")
"""Reasons of failures before round 1 that are errors in the goal file, which a resumed run does not read again."""
_NOT_EDITABLE = "; not editable)"
_NAMED = 3
"""Paths that a command names."""
_GONE = 5
"""Paths that are gone or reverted and that are named."""
_REPLACED = (
    "goal approve ",
    "goal answer ",
    "goal resume ",
    RESUMED_THERE,
    RESETS,
)
_UNMATCHED = ("protect: ", "editable: ")
"""Beginnings of notes about patterns that match no file."""
_MISSING_LINES = 5
"""Lines of what is missing that a status shows."""
_LONGEST_ACTION = 120
_TONES: dict[str, Tone] = {
    "complete": "good",
    "capped": "bad",
    "failed": "bad",
    "blocked": "warn",
    "cancelled": "warn",
}


_RESTORABLE = (Label.TESTS_REMOVED, Label.CHECKS_DIFFER)
"""The result rests on the originals, which a command can restore."""
_FIRST = (Label.PROTECTED_CHANGED,)
"""`protected_lines` shows these."""
_OF_CHECKS = (Label.CHECKS_CHANGED, Label.CHECKS_DIFFER)
"""They name changed checks of a complete run."""
_CURED = (Label.NOTHING_CHANGED, Label.PASSED_BEFORE)
"""The checks show nothing of the work, and the last lines say what would."""


def label_lines(
    labels: Sequence[str],
    approvals: Sequence[ApprovalRow] = (),
    cured: Sequence[Label] = (),
    hidden: Sequence[Label] = (),
) -> Iterator[Fact]:
    """Yield each label, its meaning, the cure of those in `cured`, and who approved it and when; none of `hidden`."""
    shown = [text for text in labels if label_in(text) not in hidden]
    for text in sorted(shown, key=lambda text: label_in(text) in _RESTORABLE):
        yield Fact("note", text, "warn")
        if label := label_in(text):
            yield Fact("", label.meaning)
            if label in cured:
                yield Fact("", EXPLANATIONS[label].cure)
        for one in approvals:
            if one.action == text and one.decision == "approved":
                said = figures.decision_text(one.decision, one.by, guarded=one.guarded)
                yield Fact(
                    "", f"{one.id} was {said} at {figures.moment(one.decided_at)}."
                )


def naming_lines(summary: RunSummary) -> Iterator[ReportLine]:
    """Yield the id, the goal and the workspace of a run, for a question about it."""
    yield from nonempty_facts(
        {"run": summary.run_id, "goal": printable_line(summary.objective)}
    )
    yield from nonempty_facts({"workspace": home_path(summary.workspace)}, whole=True)


def status_lines(
    summary: RunSummary, now: datetime, folder: str = "", doing: str = ""
) -> Iterator[ReportLine]:
    """Yield state, rounds, verdict, limits and spend of a run; `doing` is as in `status_text`."""
    yield from nonempty_facts(
        {
            "run": summary.run_id,
            "goal": summary.objective,
            "status": status_text(summary, now, doing),
        }
    )
    yield from protected_lines(summary)
    if summary.status != "complete":
        yield from message_lines(summary.message)
    if summary.status != UNREADABLE:
        yield from progress_lines(summary)
        yield from _setting(summary, now)
    yield from nonempty_facts({"folder": home_path(folder)}, whole=True)
    if summary.status != UNREADABLE:
        yield from next_steps(summary)


def status_text(summary: RunSummary, now: datetime, doing: str = "") -> str:
    """Return the status of a run with its reason, its current step, or what it waits for.

    `doing` is what an active run does at this moment, if that is known.
    """
    if summary.status == LOST:
        return f"{LOST}: its process has ended unexpectedly; everything that it recorded is kept"
    if summary.waits_for:
        return f"waiting: {summary.waits_for}, until {figures.time_ahead(summary.resume_at, now)}"
    if summary.status == RUNNING and (summary.waiting or summary.asks):
        return "waiting for you"
    if summary.status == RUNNING:
        step = doing or summary.current_step
        return f"{RUNNING}: {step}" if step else RUNNING
    reason = (summary.stop_reason or "").replace("_", " ")
    return f"{summary.status} ({reason})" if reason else summary.status


def progress_lines(summary: RunSummary) -> Iterator[ReportLine]:
    """Yield how far a run is: rounds, verdict, checks, and what waits for a person."""
    limit = summary.max_iterations
    yield Fact(
        "rounds",
        f"{summary.checked_rounds}{', no limit' if limit is None else f' of {limit}'}",
    )
    yield Fact("verdict", _verdict(summary))
    if summary.derived_criteria:
        first, *others = summary.derived_criteria
        yield from facts(
            "criteria", [f"{first} (derived by the judge)", *others], whole=True
        )
    if summary.missing:
        yield from output_lines("missing", summary.missing, _MISSING_LINES)
    checks = []
    for check in summary.validators:
        mark = "✓" if check.get("passed") is True else "✗"
        checks.append(f"{mark} {check.get('name', '?')}  {check.get('summary', '')}")
    yield from facts("checks", checks)
    yield from gone_lines(summary.run_id, summary.gone_or_reverted)
    for identifier, action in summary.waiting.items():
        yield Fact(
            "waits",
            f"{identifier} {cut(printable_line(action), _LONGEST_ACTION)}",
            tone="warn",
        )
    for question in summary.open_questions:
        yield Fact("question", question, tone="warn")


def _verdict(summary: RunSummary) -> str:
    if summary.score is None:
        return "none yet" if summary.status == RUNNING else "none"
    parts = [
        figures.score(summary.score),
        "complete" if summary.complete else "not complete",
    ]
    if total := summary.criteria_total:
        parts.append(
            f"{summary.criteria_satisfied} of {figures.count(total, 'criterion', 'criteria')}"
        )
    return " · ".join(parts)


def _setting(summary: RunSummary, now: datetime) -> Iterator[ReportLine]:
    judge = model_name(summary.judge_model) or "none; the validators decide"
    yield from nonempty_facts(
        {"agent": model_name(summary.agent_model), "judge": judge}
    )
    yield from label_lines(summary.labels, hidden=_FIRST)
    is_open = summary.status in (RUNNING, LOST)
    yield from nonempty_facts(
        {
            "limits": figures.limits(summary.limits),
            "spent": figures.spend(summary),
            "redacted": redacted_line(summary.redacted),
            "workspace": home_path(summary.workspace),
            "started": _when(summary.started_at, now),
            "updated" if is_open else "ended": _when(
                summary.updated_at if is_open else summary.finished_at, now
            ),
        }
    )


def _when(moment: str, now: datetime) -> str:
    return " · ".join(filter(None, (figures.moment(moment), figures.age(moment, now))))


def closing_lines(
    outcome: GoalOutcome, state: RunState | None = None, copy: str = "", shown: str = ""
) -> Iterator[ReportLine]:
    """Yield status and figures; unless complete the message, what is missing, and the commands that come next.

    `state` is that of the run, if it is known; `copy` is the path of a copy of the outcome, if there is one; `shown` is
    what the last line about the judge says is missing.
    """
    yield Fact(
        outcome.status.value,
        figures_text(outcome, state),
        _TONES.get(outcome.status.value, "plain"),
    )
    by_agent = [
        f"{name} · {' · '.join(figures.spent(usage))}"
        for name, usage in outcome.agent_usage.items()
    ]
    yield from facts("agents", by_agent)
    summary = summary_of(outcome, state)
    yield from protected_lines(summary)
    if not outcome.passed:
        yield from message_lines(outcome.message)
        yield from _missing_lines(outcome, state, shown)
        unmatched = (
            [note for note in state.notes if note.startswith(_UNMATCHED)]
            if state
            else []
        )
        yield from (Fact("note", note, "warn") for note in unmatched)
    yield from gone_lines(outcome.run_id, outcome.gone_or_reverted)
    yield from label_lines(outcome.labels, outcome.approvals, _CURED, _FIRST)
    if outcome.passed:
        yield from _changed_check_lines(outcome)
    yield from nonempty_facts({"redacted": redacted_line(outcome.redacted)})
    for path in (f"{outcome.run_path}/outcome.json" if outcome.run_path else "", copy):
        if path:
            yield Fact("", home_path(path), whole=True)
    yield from next_steps(summary)
    yield from _uses_of_the_change(outcome, state)


def _uses_of_the_change(outcome: GoalOutcome, state: RunState | None) -> Iterator[Fact]:
    """Yield the commands that show the change of a complete run and make a branch of it; without a commit, a patch."""
    if not (outcome.passed and outcome.changes and outcome.changes.files):
        return
    from goalrunner.snapshots.ignore_rules import Start  # slow, and not for a list

    start = state.base if state is not None else None
    folder = outcome.run_path
    has_no_commit = folder and Start(Path(folder, "start")).commit == ""
    is_in_git = start is not None and start.repository and not has_no_commit
    use = "--branch NAME" if is_in_git else "--patch"
    if state is not None and state.isolated:
        yield Fact("apply", f"goal apply {outcome.run_id}", whole=True)
    yield Fact("changes", f"goal diff {outcome.run_id}", whole=True)
    yield Fact("keep", f"goal export {outcome.run_id} {use}", whole=True)


def _changed_check_lines(outcome: GoalOutcome) -> Iterator[Fact]:
    """Yield the command that restores the files of `checks differ`, or shows what a label does not name."""
    is_all_named = True
    for text in outcome.labels:
        label = label_in(text)
        if label is Label.CHECKS_DIFFER:
            paths = text.partition(": ")[2].split(", ")
            # A label names only the first of many paths.
            is_named = set(paths) <= set(outcome.differing)
            is_all_named = is_all_named and is_named
            if is_named:
                options = " ".join(f"--path {shlex.quote(path)}" for path in paths)
                yield Fact("", "To put the originals back:")
                yield Fact("", f"goal restore {outcome.run_id} 0 {options}", whole=True)
        elif label is Label.TESTS_REMOVED:
            is_all_named = False
    if not is_all_named:
        yield Fact("", "To see what changed in the checks:")
        yield Fact("", f"goal diff {outcome.run_id}", whole=True)


def _missing_lines(
    outcome: GoalOutcome, state: RunState | None, shown: str
) -> Iterator[ReportLine]:
    """Yield what the last verdict misses, unless it is shown already, and the output of the validators that failed."""
    has_ended = state is not None and state.round > 0 and outcome.status != RUNNING
    failed = (
        [result for result in state.validators if not result.passed]
        if state and has_ended
        else []
    )
    verdict = outcome.verdict
    if (
        verdict is not None
        and verdict.missing not in ("", shown)
        and (verdict.source == "judge" or not failed)
    ):
        yield from output_lines("missing", verdict.missing)
    for result in failed:
        yield from output_lines("validator", _failure_text(result), TAIL, "bad")


def _failure_text(result: ValidatorResult) -> str:
    """Return the remark on a failed validator, and its output unless the remark contains all of it."""
    head, feedback = f"{result.name}: {result.remark}", result.feedback.strip("\n")
    is_contained = "\n" not in feedback and printable_line(feedback) in printable_line(
        result.remark
    )
    return head if is_contained else f"{head}\n{feedback}"


def figures_text(outcome: GoalOutcome, state: RunState | None = None) -> str:
    """Return rounds, time, tokens, dollars and changes: "2 rounds · 3 min 12 s · 41,210 tokens · $0.21"."""
    summary = summary_of(outcome, state)
    rounds = figures.count(summary.checked_rounds, "round")
    return " · ".join(
        [rounds, figures.spend(summary), *figures.diff_stat(outcome.changes)]
    )


def summary_of(outcome: GoalOutcome, state: RunState | None = None) -> RunSummary:
    """Return the figures of an outcome; `state` adds what the commands that come next depend on."""
    summary = RunSummary.of_outcome(outcome)
    if state is not None:
        summary.goal_file = state.goal_file
        summary.handed = list(state.handed)
        summary.round = state.round
        summary.round_ended = state.round_ended
        summary.unenforced = list(state.plan.unenforced)
    return summary


def next_steps(summary: RunSummary) -> Iterator[Fact]:
    """Yield a line for each command; none after a complete run."""
    if summary.run_id and summary.status != "complete":
        now = datetime.now(UTC)
        can_resume = summary.status != RUNNING and summary.stop_reason != "cancelled"
        if can_resume and _is_ahead(summary.resume_at, now):
            yield Fact("try again", f"at {figures.time_ahead(summary.resume_at, now)}")
        for label, command in list(_commands(summary)) or [
            ("details", f"goal show {summary.run_id}")
        ]:
            yield Fact(label, command, whole=True)


def _is_ahead(when: str, now: datetime) -> bool:
    """Return whether an ISO 8601 time is after now."""
    try:
        return bool(when) and datetime.fromisoformat(when) > now
    except (TypeError, ValueError):
        return False


def protected_lines(summary: RunSummary) -> Iterator[Fact]:
    """Yield which protected files a run left changed or deleted in the workspace, and the command that restores them.

    Of a complete run, labels may say it already.
    """
    is_open = summary.status in (RUNNING, LOST, UNREADABLE)
    is_said = any(label_in(text) in _OF_CHECKS for text in summary.labels)
    if summary.left_changed and not is_open and not (summary.complete and is_said):
        names = some([printable_line(path) for path in summary.left_changed], _GONE)
        text = f"protected files are still changed in the workspace: {names}"
        yield Fact("files", text, "warn")
        yield Fact(
            "", restoring_command(summary.run_id, summary.left_changed), whole=True
        )


def gone_lines(run_id: str, paths: Sequence[str]) -> Iterator[Fact]:
    """Yield which files of the start are gone or reverted, and the command that restores them; none without paths."""
    if paths:
        yield Fact("files", gone_text(paths), "warn")
        yield Fact("", restoring_command(run_id, paths), whole=True)


def gone_text(paths: Sequence[str]) -> str:
    """Return which files with uncommitted content at the start are gone or reverted."""
    names = some([printable_line(path) for path in paths], _GONE)
    return f"gone or reverted since the start, and not committed then: {names}"


def restoring_command(run_id: str, paths: Sequence[str]) -> str:
    """Return the command that restores the first of these paths as they were at the start."""
    options = " ".join(f"--path {shlex.quote(path)}" for path in paths[:_GONE])
    return f"goal restore {run_id} 0 {options}"


def message_lines(message: str) -> Iterator[Fact]:
    """Yield the lines of a message, without those that `next_steps` replaces.

    The first is a sentence; later ones are mostly commands, and are not wrapped.
    """
    lines = [line for line in message.splitlines() if line.strip()]
    yield from (
        Fact("", line, whole=index > 0)
        for index, line in enumerate(lines)
        if not line.startswith(_REPLACED)
    )


def _commands(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """Yield the commands that come next, each with its label."""
    run, file = summary.run_id, shlex.quote(summary.goal_file)
    if summary.status == RUNNING:
        yield from _decisions(summary)
        yield "follow", f"goal watch {run}"
        return
    if never_began(summary):
        yield "start over", f"goal run {file}" if summary.goal_file else "goal run"
        return
    needs_other_goal = _needs_other_goal(summary)
    if summary.stop_reason != "cancelled" and not needs_other_goal:
        yield from _ways_on(summary)
    # The goal of a run is fixed, so a wider `editable` needs a new run.
    changes = summary.protected_changes
    if paths := [
        line.rpartition(" (")[0] for line in changes if line.endswith(_NOT_EDITABLE)
    ]:
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        start = f", then: goal run {file}" if summary.goal_file else ""
        yield (
            "or allow",
            f"editable = [..., {quoted_list(paths[:_NAMED])}]{more} in [workspace]{start}",
        )
    if needs_other_goal:
        yield "correct", f"the goal in {file}"
    if needs_other_goal or _failed_early(summary):
        yield "start over", f"goal run {file}"
    if summary.round_ended:
        yield "changes", f"goal diff {run}"
    if summary.criteria_total:
        yield "evidence", f"goal show {run} --evidence"


def never_began(summary: RunSummary) -> bool:
    """Return whether the process was killed before the run began. Its summary is the first one, or has no workspace."""
    worked = bool(summary.round or summary.round_ended or summary.iterations)
    return (
        summary.status == LOST
        and not worked
        and not (summary.workspace and summary.updated_at)
    )


def _failed_early(summary: RunSummary) -> bool:
    return (
        bool(summary.goal_file)
        and summary.status == "failed"
        and not summary.iterations
    )


def _needs_other_goal(summary: RunSummary) -> bool:
    """Return whether the goal file is to be corrected, so that a new run is needed."""
    if summary.goal_file and summary.stop_reason in ("impossible", "baseline_green"):
        return True
    return _failed_early(summary) and summary.stop_reason in _OF_THE_FILE


def _decisions(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """Yield the commands that decide what waits for a person."""
    run = summary.run_id
    for identifier in summary.waiting:
        yield "accept", f"goal approve {run} {identifier}"
        yield "reject", f'goal deny {run} {identifier} --reason "..."'
    if summary.open_questions:
        yield "answer", f'goal answer {run} "..."'


def _ways_on(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """Yield the commands with which the run goes on."""
    yield from _decisions(summary)
    if summary.stop_reason == "baseline_green":  # the goal of a run is fixed
        return
    label = "then" if summary.open_questions or summary.waiting else "continue"
    if summary.handed:
        # Its own program says how it goes on, except after a decision.
        if summary.open_questions or summary.waiting:
            yield label, RESUMED_THERE
        return
    for command in resuming(summary):
        yield "no limit" if command.endswith(" inf") else label, command


def resuming(summary: RunSummary) -> list[str]:
    """Return `goal resume` with the options that the run needs to go on: a command for each way."""
    reason, unknown = summary.stop_reason or "", []
    if summary.uncounted_calls and "tokens" not in summary.unenforced:
        unknown.append("tokens")
    if summary.cost_usd is None and "cost_usd" not in summary.unenforced:
        unknown.append("cost_usd")
    used = {
        "max_iterations": summary.iterations,
        "timeout": summary.duration,
        "tokens": summary.tokens or 0,
        "cost_usd": summary.known_cost_usd,
    }
    note = '--note "..."' if reason in ("stalled", "impossible", "denied") else ""
    ways = ways_on(summary.limits, used, reason, unknown) or [""]
    return [
        " ".join(filter(None, ("goal resume", summary.run_id, way, note)))
        for way in ways
    ]
