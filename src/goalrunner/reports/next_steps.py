"""The commands that come next after a run, or while it waits."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime

from goalrunner.core.errors import RESETS, RESUMED_THERE, quoted_list, ways_on
from goalrunner.core.run_summary import LOST, RUNNING, RunSummary
from goalrunner.reports import figures
from goalrunner.reports.layout import Fact
from goalrunner.reports.terminal_text import join_nonempty

# Reasons of failures before round 1 that are errors in the goal file, which a resumed
# run does not read again.
_OF_THE_FILE = ("validator_missing", "model_not_found")
_NOT_EDITABLE = "; not editable)"
# Paths that a command names.
_NAMED = 3
# Lines of a message that begin like this repeat what `next_steps` says.
_REPLACED = (
    "goal approve ",
    "goal answer ",
    "goal resume ",
    RESUMED_THERE,
    RESETS,
)


def next_steps(summary: RunSummary) -> Iterator[Fact]:
    """Yield a line for each command; none after a complete run."""
    if not summary.run_id or summary.status == "complete":
        return
    now = datetime.now(UTC)
    can_resume = summary.status != RUNNING and summary.stop_reason != "cancelled"
    if can_resume and _is_ahead(summary.resume_at, now):
        yield Fact("try again", f"at {figures.time_ahead(summary.resume_at, now)}")
    commands = list(_commands(summary))
    if not commands:
        commands = [("details", f"goal show {summary.run_id}")]
    for label, command in commands:
        yield Fact(label, command, whole=True)


def message_lines(message: str) -> Iterator[Fact]:
    """Yield the lines of a run's message, without those that `next_steps` replaces."""
    lines = [line for line in message.splitlines() if line.strip()]
    for index, line in enumerate(lines):
        if line.startswith(_REPLACED):
            continue
        # The first line is a sentence; later ones are mostly commands.
        yield Fact("", line, whole=index > 0)


def _is_ahead(when: str, now: datetime) -> bool:
    """Return whether an ISO 8601 time is after now."""
    try:
        return bool(when) and datetime.fromisoformat(when) > now
    # TypeError: the time has no zone, and cannot be compared with `now`.
    except (TypeError, ValueError):
        return False


def _commands(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """Yield the commands that come next, each with its label."""
    run_id = summary.run_id
    goal_file = shlex.quote(summary.goal_file)
    if summary.status == RUNNING:
        yield from _decisions(summary)
        yield "follow", f"goal watch {run_id}"
        return
    if never_began(summary):
        yield "start over", f"goal run {goal_file}" if summary.goal_file else "goal run"
        return
    if _has_lost_copy(summary):
        if summary.round_ended:
            yield "apply", f"goal apply {run_id} --incomplete"
            yield "changes", f"goal diff {run_id}"
        yield "start over", f"goal run {goal_file}" if summary.goal_file else "goal run"
        return
    needs_other_goal = _needs_other_goal(summary)
    if summary.stop_reason != "cancelled" and not needs_other_goal:
        yield from _ways_on(summary)
    yield from _wider_editable(summary)
    if needs_other_goal:
        yield "correct", f"the goal in {goal_file}"
    if needs_other_goal or _failed_early(summary):
        yield "start over", f"goal run {goal_file}"
    if summary.round_ended:
        yield "changes", f"goal diff {run_id}"
    if summary.criteria_total:
        yield "evidence", f"goal show {run_id} --evidence"


def _has_lost_copy(summary: RunSummary) -> bool:
    """Return whether a run cannot be resumed, because its copy was removed."""
    if not (summary.isolated and summary.path):
        return False
    # The path of a damaged summary can be any text, and os.path.exists never raises.
    record = os.path.join(summary.path, "copy", "copy.json")  # noqa: PTH118
    return not os.path.exists(record)  # noqa: PTH110


def _wider_editable(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """Yield the key that allows changes outside of `editable`, if there were any."""
    paths = []
    for change in summary.protected_changes:
        if change.endswith(_NOT_EDITABLE):
            paths.append(change.rpartition(" (")[0])
    if not paths:
        return
    key = f"editable = [..., {quoted_list(paths[:_NAMED])}]"
    if len(paths) > _NAMED:
        key += f" and {len(paths) - _NAMED} more"
    text = f"{key} in [workspace]"
    # The goal of a run is fixed, so a wider `editable` needs a new run.
    if summary.goal_file:
        text += f", then: goal run {shlex.quote(summary.goal_file)}"
    yield "or allow", text


def never_began(summary: RunSummary) -> bool:
    """Return whether the process was killed before the run began."""
    if summary.status != LOST:
        return False
    if summary.round or summary.round_ended or summary.iterations:
        return False
    # The first summary of a run has no time, an unreadable one no workspace.
    return not (summary.workspace and summary.updated_at)


def _failed_early(summary: RunSummary) -> bool:
    """Return whether a run with a goal file failed before round 1 was checked."""
    has_failed = summary.status == "failed" and not summary.iterations
    return has_failed and bool(summary.goal_file)


def _needs_other_goal(summary: RunSummary) -> bool:
    """Return whether the goal file is to be corrected, which needs a new run."""
    if summary.goal_file and summary.stop_reason in ("impossible", "baseline_green"):
        return True
    return _failed_early(summary) and summary.stop_reason in _OF_THE_FILE


def _decisions(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """Yield the commands that decide what waits for a person."""
    run_id = summary.run_id
    for identifier in summary.waiting:
        yield "accept", f"goal approve {run_id} {identifier}"
        yield "reject", f'goal deny {run_id} {identifier} --reason "..."'
    if summary.open_questions:
        yield "answer", f'goal answer {run_id} "..."'


def _ways_on(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """Yield the commands with which the run goes on."""
    yield from _decisions(summary)
    # A resumed run would have the same baseline: its goal is fixed.
    if summary.stop_reason == "baseline_green":
        return
    waits_for_person = bool(summary.open_questions or summary.waiting)
    label = "then" if waits_for_person else "continue"
    if summary.handed:
        # Its own program says how it goes on, except after a decision.
        if waits_for_person:
            yield label, RESUMED_THERE
        return
    for command in resuming(summary):
        yield "no limit" if command.endswith(" inf") else label, command


def resuming(summary: RunSummary) -> list[str]:
    """Return `goal resume` with the options that the run needs to go on.

    Several commands are alternatives.
    """
    reason = summary.stop_reason or ""
    unknown = []
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
    ways = ways_on(summary.limits, used, reason, unknown) or [""]
    # Without new information the agent would do the same again.
    needs_note = reason in ("stalled", "impossible", "denied")
    note = '--note "..."' if needs_note else ""
    commands = []
    for options in ways:
        command = join_nonempty(" ", "goal resume", summary.run_id, options, note)
        commands.append(command)
    return commands
