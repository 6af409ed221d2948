"""The commands that come next, and what labels mean."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goalrunner.reports.line import Fact
from goalrunner.reports.summary import RUNNING, Summary

if TYPE_CHECKING:
    from goalrunner.core.events import RunStarted
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.core.run_state import RunState


_MESSAGE_ROWS = 12
_BEFORE_ROUND_1 = ("validator_missing", "environment_failed", "baseline_green", "model_not_found")
"""Failures before round 1 that are mostly errors in the goal file, which a run that is resumed does not read again."""
_OPTIONS = {
    "[agent] model": "--model, GOAL_MODEL",
    "[judge] model": "--judge, GOAL_JUDGE",
    "validators": "--validator",
}
"""Options and variables that override a key of the goal file; which of them was used is not recorded."""
_PATTERNS = ("protect: ", "editable: ")
_REPLACED = ("goal approve ", "goal answer ", "goal resume ")


@dataclass(frozen=True)
class Origin:
    """What is known of a run beside its outcome."""

    goal_file: str = ""
    handed: bool = False
    """Whether a program made parts of it, so that the command line cannot resume it."""
    round_ended: bool = False
    """Whether the agent has ended a turn, so that there may be changes to show."""
    unmatched: tuple[str, ...] = ()
    """Warnings about patterns that match no file."""


def origin_of(source: RunStarted | RunState) -> Origin:
    """Return what the first events say."""
    unmatched = tuple(note for note in source.notes if note.startswith(_PATTERNS))
    return Origin(source.goal_file, bool(source.handed), getattr(source, "round_ended", False), unmatched)


@dataclass(frozen=True)
class Ending:
    """What the commands depend on."""

    run_id: str
    status: str
    stop_reason: str = ""
    rounds: int = 0
    limits: Mapping[str, float | None] = field(default_factory=dict)
    tokens: int = 0
    tokens_unknown: bool = False
    """Whether more tokens were used than are known."""
    cost: float = 0.0
    cost_unknown: bool = False
    waiting: Sequence[str] = ()
    """Ids of the approvals that wait."""
    has_questions: bool = False
    by_judge: bool = False
    message: str = ""
    origin: Origin = Origin()


def of_outcome(outcome: GoalOutcome, origin: Origin) -> Ending:
    """Return what the commands after this outcome depend on."""
    used = list(outcome.usage.values())
    return Ending(
        outcome.run_id,
        str(outcome.status),
        str(outcome.stop_reason or ""),
        outcome.iterations,
        outcome.limits,
        sum(usage.tokens for usage in used),
        any(usage.uncounted_calls for usage in used),
        sum(usage.known_cost_usd for usage in used),
        any(usage.cost_usd is None for usage in used),
        [item.id for item in outcome.approvals if item.decision == "waiting"],
        bool(outcome.questions),
        outcome.verdict is not None and outcome.verdict.source == "judge",
        outcome.message,
        origin,
    )


def of_summary(summary: Summary, waiting: Sequence[str]) -> Ending:
    """Return the same for a summary, in which `waiting` are the approvals that wait."""
    return Ending(
        summary.text("run_id"),
        summary.status,
        summary.text("stop_reason"),
        summary.integer("iterations"),
        {key: summary.limit(key) for key in ("max_iterations", "timeout", "tokens", "cost_usd")},
        summary.tokens or 0,
        bool(summary.uncounted),
        summary.known_cost_usd,
        summary.cost_usd is None,
        waiting,
        bool(summary.texts("open_questions")),
        message=summary.text("message"),
        origin=Origin(
            summary.text("goal_file"), bool(summary.texts("handed")), summary.values.get("round_ended") is True
        ),
    )


def next_steps(ending: Ending) -> Iterator[Fact]:
    """Yield a line for each command; none after a complete run."""
    if not ending.run_id or ending.status == "complete":
        return
    for label, command in list(_commands(ending)) or [("details", f"goal show {ending.run_id}")]:
        yield Fact(label, command, whole=True)


def message_lines(message: str) -> Iterator[Fact]:
    """Yield the lines of a message, without those that `next_steps` replaces.

    The first is a sentence; later ones are mostly commands, and are not wrapped.
    """
    lines = [line for line in message.splitlines() if line.strip()]
    for index, line in enumerate(lines):
        if not line.startswith(_REPLACED):
            yield Fact("", line, whole=index > 0, rows=_MESSAGE_ROWS)


def _commands(ending: Ending) -> Iterator[tuple[str, str]]:
    run, file = ending.run_id, ending.origin.goal_file
    if ending.status == RUNNING:
        yield "follow", f"goal watch {run}"
        return
    early = ending.status == "failed" and bool(file) and not ending.rounds
    is_wrong = bool(file) and (ending.stop_reason == "impossible" or (early and ending.stop_reason in _BEFORE_ROUND_1))
    if ending.stop_reason != "cancelled" and not is_wrong and not ending.origin.handed:
        yield from _going_on(ending)
    if is_wrong and (keys := _wrong_keys(ending)):
        options = _OPTIONS.get(keys)
        place = f"{keys} in {shlex.quote(file)}"
        yield ("correct", f"{options}, or {place}") if options else ("edit", f"{shlex.quote(file)}: {keys}")
    if early or is_wrong:
        yield "start over", f"goal run {shlex.quote(file)}"
    if ending.origin.round_ended:
        yield "changes", f"goal diff {run}"
    if ending.by_judge:
        yield "evidence", f"goal show {run} --evidence"


def _wrong_keys(ending: Ending) -> str:
    """Return the keys of the goal file that are to be corrected; empty if the cause may be somewhere else."""
    match ending.stop_reason:
        case "validator_missing":
            return "validators"
        case "baseline_green":
            return "validators or baseline"
        case "environment_failed":
            return "[workspace]" if "[workspace]" in ending.message else ""
        case "model_not_found":
            return "[judge] model" if "[judge]" in ending.message else "[agent] model"
        case "impossible":
            return "objective, success_criteria or validators"
        case _:
            return ""


def _going_on(ending: Ending) -> Iterator[tuple[str, str]]:
    resume = f"goal resume {ending.run_id}"
    for identifier in ending.waiting:
        yield "accept", f"goal approve {ending.run_id} {identifier}"
        yield "reject", f'goal deny {ending.run_id} {identifier} --reason "..."'
    if ending.has_questions:
        yield "answer", f'goal answer {ending.run_id} "..."'
    if ending.waiting or ending.has_questions:
        yield "then", resume
    elif ending.stop_reason != "baseline_green":  # the goal of a run is fixed
        for label, options in _raised(ending):
            yield label, f"{resume} {options}".rstrip()


def _raised(ending: Ending) -> Iterator[tuple[str, str]]:
    """Yield the options of `goal resume` that raise the limit which stopped the run."""
    rounds, timeout, tokens, cost = (
        ending.limits.get(key) for key in ("max_iterations", "timeout", "tokens", "cost_usd")
    )
    match ending.stop_reason:
        case "max_iterations" if rounds:
            yield "continue", f"--max-iterations {2 * max(int(rounds), ending.rounds)}"
        case "timeout" if timeout:
            yield "continue", f"--timeout {_duration(2 * timeout)}"
        case "budget_exhausted" if tokens and ending.tokens >= tokens:
            yield "continue", f"--tokens {2 * max(ending.tokens, int(tokens))}"
        case "budget_exhausted" if cost and ending.cost >= cost:
            yield "continue", f"--cost {2 * max(ending.cost, cost):.4g}"
        case "budget_exhausted":
            # What was used is unknown: count what is known, or lift the limit.
            if not (tokens and ending.tokens_unknown) and not (cost and ending.cost_unknown):
                yield "continue", ""
            if tokens and ending.tokens_unknown:
                yield "continue", "--allow-unenforced tokens"
                yield "no limit", "--tokens inf"
            if cost and ending.cost_unknown:
                yield "continue", "--allow-unenforced cost_usd"
                yield "no limit", "--cost inf"
        case "stalled" | "impossible" | "denied":
            yield "continue", '--note "..."'
        case _:
            yield "continue", ""


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:g}"


_MEANINGS = {
    "checks changed": "The agent's version of these tests or settings was accepted, by a person or by `allow`.",
    "not verified": "The agent changed these protected files; validators used the originals. To put the originals back:",
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
    "rests on reports": "There is no validator: the evidence is what the agent reports about its own work.",
    "unguarded approval": "No sandbox confined the agent, so one of its commands could have given the approval.",
    "hidden checks readable": "The agent could read what the hidden validators check.",
    "unasked actions": "The agent did something without the approval that the goal requires.",
}


def label_lines(labels: Sequence[str], *, restores: bool = False) -> Iterator[Fact]:
    """Yield each label and its meaning. `restores`: the command that restores unverified files comes next."""
    for label in sorted(labels, key=lambda label: label.startswith("not verified")):
        yield Fact("note", label, "warn")
        meaning = _MEANINGS.get(label.partition(":")[0], "")
        if label.startswith("not verified") and not restores:
            meaning = meaning.partition(" To put")[0]
        if meaning:
            yield Fact("", meaning)
