"""The commands that come next after a run, and the lines of its message."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from goalrunner.core.errors import LIMIT_OPTIONS, listed, raised
from goalrunner.reports.figures import RUNNING, Summary
from goalrunner.reports.layout import Fact

if TYPE_CHECKING:
    from goalrunner.core.events import RunStarted
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.core.run_state import RunState

_WRONG_KEYS = {
    "validator_missing": "--validator, or validators",
    "baseline_green": "validators or baseline",
    "environment_failed": "[workspace]",
    "model_not_found": "--model or --judge, GOAL_MODEL or GOAL_JUDGE, or the model",
    "impossible": "objective, success_criteria or validators",
}
"""The keys to correct after failures that are mostly errors in the goal file, which a resumed run does not read again."""
_OF_OUTCOME = {"run_id", "status", "stop_reason", "message", "iterations", "limits", "duration", "protected_changes"}
_NOT_EDITABLE = "; not editable)"
_NAMED = 3
"""Paths that a command names."""
_REPLACED = ("goal approve ", "goal answer ", "goal resume ")


def origin_of(source: RunStarted | RunState) -> dict[str, Any]:
    """Return values for a summary that are in the first events of a run, but not in its outcome.

    `handed` are the parts that a program passed; the command line cannot resume a run that has some.
    """
    unmatched = [note for note in source.notes if note.startswith(("protect: ", "editable: "))]
    ended = getattr(source, "round_ended", False)
    return {"goal_file": source.goal_file, "handed": list(source.handed), "round_ended": ended, "unmatched": unmatched}


def summary_of(outcome: GoalOutcome, origin: Mapping[str, Any] | None = None) -> Summary:
    """Return the values of an outcome's summary that its figures and commands depend on."""
    from goalrunner.core.summary import spend_of

    by_judge = outcome.verdict is not None and outcome.verdict.source == "judge"
    values = {
        **outcome.model_dump(mode="json", include=_OF_OUTCOME),
        **spend_of(outcome.usage),
        "approvals": [vars(item) for item in outcome.approvals if item.decision == "waiting"],
        "open_questions": list(outcome.questions),
        "criteria_total": max(len(outcome.verdict.criteria), 1) if outcome.verdict and by_judge else 0,
        **(origin or {}),
    }
    return Summary(values)


def next_steps(summary: Summary) -> Iterator[Fact]:
    """Yield a line for each command; none after a complete run."""
    run = summary.text("run_id")
    if run and summary.status != "complete":
        for label, command in list(_commands(summary)) or [("details", f"goal show {run}")]:
            yield Fact(label, command, whole=True)


def message_lines(message: str) -> Iterator[Fact]:
    """Yield the lines of a message, without those that `next_steps` replaces.

    The first is a sentence; later ones are mostly commands, and are not wrapped.
    """
    lines = [line for line in message.splitlines() if line.strip()]
    yield from (Fact("", line, whole=index > 0) for index, line in enumerate(lines) if not line.startswith(_REPLACED))


def _commands(summary: Summary) -> Iterator[tuple[str, str]]:
    run, file, reason = summary.text("run_id"), shlex.quote(summary.text("goal_file")), summary.text("stop_reason")
    if summary.status == RUNNING:
        yield "follow", f"goal watch {run}"
        return
    has_file = bool(summary.text("goal_file"))
    early = has_file and summary.status == "failed" and not summary.integer("iterations")
    is_wrong = has_file and (reason in ("impossible", "baseline_green") or (early and reason in _WRONG_KEYS))
    if reason != "cancelled" and not is_wrong and not summary.texts("handed"):
        yield from _going_on(summary)
    # The goal of a run is fixed, so a wider `editable` needs a new run.
    changes = summary.texts("protected_changes")
    if paths := [line.rpartition(" (")[0] for line in changes if line.endswith(_NOT_EDITABLE)]:
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        start = f", then: goal run {file}" if has_file else ""
        yield "or allow", f"editable = [..., {listed(paths[:_NAMED])}]{more} in [workspace]{start}"
    keys = "[critic]" if summary.text("message").startswith("the critic ") else _WRONG_KEYS.get(reason, "")
    if is_wrong and (reason != "environment_failed" or keys in summary.text("message")):
        yield "correct", f"{keys} in {file}"
    if early or is_wrong:
        yield "start over", f"goal run {file}"
    if summary.values.get("round_ended") is True:
        yield "changes", f"goal diff {run}"
    if summary.integer("criteria_total"):
        yield "evidence", f"goal show {run} --evidence"


def _going_on(summary: Summary) -> Iterator[tuple[str, str]]:
    run, questions = summary.text("run_id"), summary.texts("open_questions")
    for identifier in summary.waiting:
        yield "accept", f"goal approve {run} {identifier}"
        yield "reject", f'goal deny {run} {identifier} --reason "..."'
    if questions:
        yield "answer", f'goal answer {run} "..."'
    if questions or summary.waiting:
        yield "then", f"goal resume {run}"
    elif summary.text("stop_reason") != "baseline_green":  # the goal of a run is fixed
        for options in _raised(summary):
            yield "no limit" if options.endswith(" inf") else "continue", f"goal resume {run} {options}".rstrip()


def _raised(summary: Summary) -> list[str]:
    """Return the options of `goal resume` that raise the limit which stopped the run."""
    limits, reason = summary.numbers("limits"), summary.text("stop_reason")
    limit = limits.get(reason)
    if reason == "max_iterations" and limit:
        return [raised("max_iterations", limit, summary.integer("iterations"))]
    if reason == "timeout" and limit:
        return [raised("timeout", limit)]
    if reason in ("stalled", "impossible", "denied"):
        return ['--note "..."']
    if reason != "budget_exhausted":
        return [""]
    options: list[str] = []
    for name, used, is_unknown in (
        ("tokens", summary.tokens or 0, summary.integer("uncounted_calls")),
        ("cost_usd", summary.number("known_cost_usd") or 0.0, summary.number("cost_usd") is None),
    ):
        limit = limits.get(name)
        if limit and used >= limit:
            return [raised(name, limit, used)]
        if limit and is_unknown:  # count what is known, or lift the limit
            options += [f"--allow-unenforced {name}", f"{LIMIT_OPTIONS[name]} inf"]
    return options or [""]
