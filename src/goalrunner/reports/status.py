"""The status of a run: `goal status`, its last lines, the labels that weaken its result, and the commands that come next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from goalrunner.core.errors import listed, ways_on
from goalrunner.reports import figures
from goalrunner.reports.figures import LOST, RUNNING, UNREADABLE, Summary, redacted_line
from goalrunner.reports.layout import (
    TAIL,
    Fact,
    Line,
    Tone,
    facts,
    home_path,
    known,
    model_name,
    one_line,
    output_lines,
)

if TYPE_CHECKING:
    from goalrunner.core.outcome import ApprovalRow, GoalOutcome
    from goalrunner.core.run_state import RunState
    from goalrunner.core.verdict import ValidatorResult

_MEANINGS = {
    "checks changed": "Validators used the agent's version, which a person or `allow` accepted, or which no rule protects.",
    "not verified": "The agent changed these protected files; validators used the originals.",
    "needs ignored files": "Validators pass only with these files, which appeared during the run and which git ignores.",
    "dependencies changed": "Installed packages differ from those at the start of the run.",
    "validators changed files": "A validator rewrote these files, as `ruff --fix` does; the workspace was not changed.",
    "more tests skipped": "More tests were skipped than at the start of the run.",
    "no test summary": "A test runner printed a summary at the start of the run and does not print one now.",
    "tests filtered": "The validator itself selects tests, with `-k` or `--testmon` for example.",
    "fewer tests": "Fewer tests ran than at the start of the run.",
    "flaky": "These validators passed and failed on the same files; another run decided.",
    "not isolated": "A Python validator ran in the process of the program that started the run.",
    "self-judged": "Agent and judge are the same model.",
    "goal changed": "The goal file is not the one that the session began with; `goal show` shows the goal of this run.",
    "start not recorded": "The agent had worked before the run began; `git diff` shows whether it changed tests.",
    "rests on reports": "There is no validator: the evidence is what the agent reports about its own work.",
    "unguarded approval": "No sandbox confined the agent, so one of its commands could have given the approval.",
    "hidden checks readable": "The agent could read what the hidden validators check.",
    "unasked actions": "The agent did something without the approval that the goal requires.",
}
_WRONG_KEYS = {
    "validator_missing": "--validator, or validators",
    "baseline_green": "validators or baseline",
    "environment_failed": "[workspace]",
    "agent_failed": "[agent] command",
    "model_not_found": "--model or --judge, GOAL_MODEL or GOAL_JUDGE, or the model",
    "impossible": "objective, success_criteria or validators",
}
"""The keys to correct after failures that are mostly errors in the goal file, which a resumed run does not read again."""
_OF_OUTCOME = {"run_id", "status", "stop_reason", "message", "iterations", "limits", "duration", "protected_changes"}
_NOT_EDITABLE = "; not editable)"
_NAMED = 3
"""Paths that a command names."""
_REPLACED = ("goal approve ", "goal answer ", "goal resume ")
_UNMATCHED = ("protect: ", "editable: ")
"""Beginnings of notes about patterns that match no file."""
_REVERTED = 5
"""Most paths in the command that restores unverified files."""
_TAIL = 5
"""Lines of a failed validator's output that a status shows."""
_TONES: dict[str, Tone] = {
    "complete": "good",
    "capped": "bad",
    "failed": "bad",
    "blocked": "warn",
    "cancelled": "warn",
}


def label_lines(labels: Sequence[str], approvals: Sequence[ApprovalRow] = ()) -> Iterator[Fact]:
    """Yield each label, its meaning, and who approved it and when."""
    for label in sorted(labels, key=lambda label: label.startswith("not verified")):
        yield Fact("note", label, "warn")
        if meaning := _MEANINGS.get(label.partition(":")[0]):
            yield Fact("", meaning)
        for one in approvals:
            if one.action == label and one.decision == "approved":
                said = figures.decision_text(one.decision, one.by, guarded=one.guarded)
                yield Fact("", f"{one.id} was {said} at {figures.moment(one.decided_at)}.")


def status_lines(summary: Summary, now: datetime, folder: str = "") -> Iterator[Line]:
    """Yield state, rounds, verdict, limits and spend of a run."""
    yield from known({"run": summary.text("run_id"), "goal": summary.text("objective"), "status": _status(summary)})
    if summary.status != "complete":
        yield from message_lines(summary.text("message"))
    readable = summary.text("status") != UNREADABLE
    if readable:
        yield from _progress(summary)
        yield from _setting(summary, now)
    yield from known({"folder": home_path(folder)}, whole=True)
    if readable:
        yield from next_steps(summary)


def _status(summary: Summary) -> str:
    status, reason, step = summary.status, summary.text("stop_reason"), summary.text("current_step")
    if status == LOST:
        return f"{LOST}: process {summary.integer('pid')} has ended unexpectedly; everything that it recorded is kept"
    if status == RUNNING:
        return f"{RUNNING}: {step}" if step else RUNNING
    return f"{status} ({reason.replace('_', ' ')})" if reason else status


def _progress(summary: Summary) -> Iterator[Line]:
    rounds, limit = summary.rounds, summary.number("max_iterations")
    yield Fact("rounds", f"{rounds} of {int(limit)}" if limit is not None else f"{rounds}, no limit")
    value = summary.number("score")
    if value is None:
        yield Fact("verdict", "none yet" if summary.status == RUNNING else "none")
    else:
        parts = [figures.score(value), "complete" if summary.values.get("complete") is True else "not complete"]
        if total := summary.integer("criteria_total"):
            parts.append(f"{summary.integer('criteria_satisfied')} of {figures.count(total, 'criterion', 'criteria')}")
        yield Fact("verdict", " · ".join(parts))
    if derived := summary.texts("derived_criteria"):
        yield from facts("criteria", [f"{derived[0]} (derived by the judge)", *derived[1:]], whole=True)
    if summary.text("missing"):
        yield from output_lines("missing", summary.text("missing"), _TAIL)
    checks = [
        f"{'✓' if check.get('passed') is True else '✗'} {check.get('name', '?')}  {check.get('summary', '')}"
        for check in summary.tables("validators")
    ]
    yield from facts("checks", checks)
    for identifier, action in summary.waiting.items():
        yield Fact("waits", f"{identifier} {action}", tone="warn")
        if summary.status == RUNNING:
            yield Fact("", "Answer at the terminal in which the run was started.")
    yield from (Fact("question", question, tone="warn") for question in summary.texts("open_questions"))


def _setting(summary: Summary, now: datetime) -> Iterator[Line]:
    judge = model_name(summary.text("judge_model")) or "none; the validators decide"
    yield from known({"agent": model_name(summary.text("agent_model")), "judge": judge})
    yield from label_lines(summary.texts("labels"))
    last = ("updated", "updated_at") if summary.status in (RUNNING, LOST) else ("ended", "finished_at")
    times = [(label, summary.text(key)) for label, key in (("started", "started_at"), last)]
    yield from known(
        {
            "limits": figures.limits(summary.numbers("limits")),
            "spent": summary.spend,
            "redacted": redacted_line(summary.numbers("redacted")),
            "workspace": home_path(summary.text("workspace")),
            **{label: f"{figures.moment(when)} · {figures.age(when, now)}".rstrip(" ·") for label, when in times},
        }
    )


def closing_lines(
    outcome: GoalOutcome, state: RunState | None = None, copy: str = "", shown: str = ""
) -> Iterator[Line]:
    """Yield status and figures; unless complete the message, what is missing, and the commands that come next.

    `state` is that of the run, if it is known; `copy` is the path of a copy of the outcome, if there is one; `shown` is
    what the last line about the judge says is missing.
    """
    yield Fact(outcome.status.value, figures_text(outcome, state), _TONES.get(outcome.status.value, "plain"))
    if not outcome.passed:
        yield from message_lines(outcome.message)
        ended = state is not None and state.round > 0 and outcome.status != RUNNING
        red = [result for result in state.validators if not result.passed] if state and ended else []
        verdict = outcome.verdict
        by_judge = verdict is not None and (verdict.source == "judge" or not red)
        if verdict is not None and by_judge and verdict.missing not in ("", shown):
            # A run that was stopped within a round has only the validators' results of a round before.
            older = state.counted if state and verdict.source == "validators" and state.counted < state.round else 0
            yield from output_lines(f"round {older}" if older > 0 else "missing", verdict.missing)
        for result in red:
            yield from output_lines("validator", _red_text(result), TAIL, "bad")
        unmatched = [note for note in state.notes if note.startswith(_UNMATCHED)] if state else []
        yield from (Fact("note", note, "warn") for note in unmatched)
    yield from label_lines(outcome.labels, outcome.approvals)
    if outcome.passed and any(label.startswith("not verified") for label in outcome.labels):
        options = " ".join(f"--path {shlex.quote(path)}" for path in outcome.differing[:_REVERTED])
        if options:
            yield Fact("", "To put the originals back:")
            yield Fact("", f"goal restore {outcome.run_id} 0 {options}", whole=True)
    yield from known({"redacted": redacted_line(outcome.redacted)})
    for path in (f"{outcome.run_path}/outcome.json" if outcome.run_path else "", copy):
        if path:
            yield Fact("", home_path(path), whole=True)
    yield from next_steps(summary_of(outcome, state))


def _red_text(result: ValidatorResult) -> str:
    """Return the remark on a failed validator, and its output unless the remark contains all of it."""
    head, feedback = f"{result.name}: {result.remark}", result.feedback.strip("\n")
    is_shown = "\n" not in feedback and one_line(feedback) in one_line(result.remark)
    return head if is_shown else f"{head}\n{feedback}"


def figures_text(outcome: GoalOutcome, state: RunState | None = None) -> str:
    """Return rounds, time, tokens, dollars and changes: "2 rounds · 3 min 12 s · 41,210 tokens · $0.21"."""
    summary = summary_of(outcome, state)
    is_early = outcome.passed and not summary.rounds
    rounds = "before round 1" if is_early else figures.count(summary.rounds, "round")
    return " · ".join([rounds, summary.spend, *figures.diff_stat(outcome.changes)])


def summary_of(outcome: GoalOutcome, state: RunState | None = None) -> Summary:
    """Return the values of an outcome's summary that its figures and commands depend on; most commands need the state."""
    from goalrunner.core.summary import spend_of

    by_judge = outcome.verdict is not None and outcome.verdict.source == "judge"
    values = {
        **outcome.model_dump(mode="json", include=_OF_OUTCOME),
        **spend_of(outcome.usage),
        "approvals": [vars(item) for item in outcome.approvals if item.decision == "waiting"],
        "open_questions": list(outcome.questions),
        "criteria_total": max(len(outcome.verdict.criteria), 1) if outcome.verdict and by_judge else 0,
    }
    if state is not None:
        values |= {"goal_file": state.goal_file, "handed": list(state.handed), "round_ended": state.round_ended}
        values |= {"unenforced": list(state.plan.unenforced), "round": state.round}
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
    keys = "[critic]" if summary.text("message").startswith("the critic ") else _WRONG_KEYS.get(reason, "")
    is_named = keys in summary.text("message")  # an agent also fails for other reasons
    is_early_error = early and reason in _WRONG_KEYS and (reason != "agent_failed" or is_named)
    is_wrong = has_file and (reason in ("impossible", "baseline_green") or is_early_error)
    if reason != "cancelled" and not is_wrong and not summary.texts("handed"):
        yield from _going_on(summary)
    # The goal of a run is fixed, so a wider `editable` needs a new run.
    changes = summary.texts("protected_changes")
    if paths := [line.rpartition(" (")[0] for line in changes if line.endswith(_NOT_EDITABLE)]:
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        start = f", then: goal run {file}" if has_file else ""
        yield "or allow", f"editable = [..., {listed(paths[:_NAMED])}]{more} in [workspace]{start}"
    if is_wrong and (reason != "environment_failed" or is_named):
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
    if summary.text("stop_reason") != "baseline_green":  # the goal of a run is fixed
        going_on = "then" if questions or summary.waiting else "continue"
        for command in resuming(summary):
            yield "no limit" if command.endswith(" inf") else going_on, command


def resuming(summary: Summary) -> list[str]:
    """Return `goal resume` with the options that the run needs to go on: a command for each way."""
    reason, unknown = summary.text("stop_reason"), list[str]()
    names = {"max_iterations": "iterations", "timeout": "duration", "tokens": "tokens", "cost_usd": "known_cost_usd"}
    used = {limit: summary.number(name) or 0 for limit, name in names.items()}
    # summary.json does not say which budgets count only what is known.
    if reason == "budget_exhausted" or "unenforced" in summary.values:
        is_unknown = {"tokens": summary.integer("uncounted_calls"), "cost_usd": summary.number("cost_usd") is None}
        unknown = [name for name in is_unknown if is_unknown[name] and name not in summary.texts("unenforced")]
    ways = ways_on(summary.numbers("limits"), used, reason, unknown) or [""]
    note = '--note "..."' if reason in ("stalled", "impossible", "denied") else ""
    return [" ".join(filter(None, ("goal resume", summary.text("run_id"), way, note))) for way in ways]
