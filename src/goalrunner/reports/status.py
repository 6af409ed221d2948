"""The status of a run: `goal status`, its last lines, and the labels that weaken its result."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goalrunner.reports import figures
from goalrunner.reports.figures import LOST, RUNNING, UNREADABLE, Summary, redacted_line
from goalrunner.reports.layout import TAIL, Fact, Line, Tone, facts, home_path, model_name, one_line, output_lines
from goalrunner.reports.next_steps import message_lines, next_steps, summary_of

if TYPE_CHECKING:
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.core.verdict import ValidatorResult

_MEANINGS = {
    "checks changed": "The agent's version of these tests or settings was accepted, by a person or by `allow`.",
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


def label_lines(labels: Sequence[str]) -> Iterator[Fact]:
    """Yield each label and its meaning."""
    for label in sorted(labels, key=lambda label: label.startswith("not verified")):
        yield Fact("note", label, "warn")
        if meaning := _MEANINGS.get(label.partition(":")[0]):
            yield Fact("", meaning)


def status_lines(summary: Summary, now: datetime, folder: str = "") -> Iterator[Line]:
    """Yield state, rounds, verdict, limits and spend of a run."""
    yield Fact("run", summary.text("run_id"))
    if summary.text("objective"):
        yield Fact("goal", summary.text("objective"))
    yield Fact("status", _status(summary))
    if summary.status != "complete":
        yield from message_lines(summary.text("message"))
    readable = summary.text("status") != UNREADABLE
    if readable:
        yield from _progress(summary)
        yield from _setting(summary, now)
    if folder:
        yield Fact("folder", home_path(folder), whole=True)
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
    rounds, limit = summary.integer("iterations"), summary.number("max_iterations")
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
        (check.get("passed"), check.get("name", "?"), check.get("summary", ""))
        for check in summary.tables("validators")
    ]
    yield from facts("checks", [f"{'✓' if passed is True else '✗'} {name}  {said}" for passed, name, said in checks])
    for identifier, action in summary.waiting.items():
        yield Fact("waits", f"{identifier} {action}", tone="warn")
        if summary.status == RUNNING:
            yield Fact("", "Answer at the terminal in which the run was started.")
    yield from (Fact("question", question, tone="warn") for question in summary.texts("open_questions"))


def _setting(summary: Summary, now: datetime) -> Iterator[Line]:
    if summary.text("agent_model"):
        yield Fact("agent", model_name(summary.text("agent_model")))
    yield Fact("judge", model_name(summary.text("judge_model")) or "none; the validators decide")
    yield from label_lines(summary.texts("labels"))
    yield Fact("limits", figures.limits(summary.numbers("limits")))
    yield Fact("spent", summary.spend)
    if redacted := redacted_line(summary.numbers("redacted")):
        yield Fact("redacted", redacted)
    if summary.text("workspace"):
        yield Fact("workspace", home_path(summary.text("workspace")))
    last = ("updated", "updated_at") if summary.status in (RUNNING, LOST) else ("ended", "finished_at")
    for label, key in (("started", "started_at"), last):
        when = summary.text(key)
        yield Fact(label, " · ".join(filter(None, (figures.moment(when), figures.age(when, now)))))


def closing_lines(
    outcome: GoalOutcome,
    copy: str = "",
    red: Sequence[ValidatorResult] = (),
    shown: str = "",
    origin: Mapping[str, Any] | None = None,
) -> Iterator[Line]:
    """Yield status and figures; unless complete the message, what is missing, and the commands that come next.

    `copy` is the path of a copy of the outcome, if there is one; `red` are the validators that failed last; `shown` is
    what the last line about the judge says is missing; `origin` is the result of `origin_of`.
    """
    yield Fact(outcome.status.value, figures_text(outcome), _TONES.get(outcome.status.value, "plain"))
    if not outcome.passed:
        yield from message_lines(outcome.message)
        verdict = outcome.verdict
        by_judge = verdict is not None and (verdict.source == "judge" or not red)
        if verdict is not None and by_judge and verdict.missing not in ("", shown):
            yield from output_lines("missing", verdict.missing)
        for result in red:
            yield from output_lines("validator", _red_text(result), TAIL, "bad")
        yield from (Fact("note", note, "warn") for note in (origin or {}).get("unmatched", ()))
    yield from label_lines(outcome.labels)
    if outcome.passed and any(label.startswith("not verified") for label in outcome.labels):
        options = " ".join(f"--path {shlex.quote(path)}" for path in outcome.differing[:_REVERTED])
        if options:
            yield Fact("", "To put the originals back:")
            yield Fact("", f"goal restore {outcome.run_id} 0 {options}", whole=True)
    if outcome.redacted:
        yield Fact("redacted", redacted_line(outcome.redacted))
    for path in (f"{outcome.run_path}/outcome.json" if outcome.run_path else "", copy):
        if path:
            yield Fact("", home_path(path), whole=True)
    yield from next_steps(summary_of(outcome, origin))


def _red_text(result: ValidatorResult) -> str:
    """Return the remark on a failed validator, and its output unless the remark contains all of it."""
    head, feedback = f"{result.name}: {result.remark}", result.feedback.strip("\n")
    is_shown = "\n" not in feedback and one_line(feedback) in one_line(result.remark)
    return head if is_shown else f"{head}\n{feedback}"


def figures_text(outcome: GoalOutcome) -> str:
    """Return rounds, time, tokens, dollars and changes: "2 rounds · 3 min 12 s · 41,210 tokens · $0.21"."""
    rounds = figures.count(outcome.iterations, "round")
    return " · ".join([rounds, summary_of(outcome).spend, *figures.diff_stat(outcome.changes)])
