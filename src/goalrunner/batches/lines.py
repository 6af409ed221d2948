"""The lines about a batch in a pipe or a log: its beginning, its events, its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from goalrunner.batches.history import (
    BatchEvent,
    BatchResumed,
    BatchState,
    BatchStopped,
    EntryEnded,
    EntryIntegrated,
    EntrySkipped,
    EntryStarted,
)
from goalrunner.batches.plan import BatchLimits
from goalrunner.batches.rows import BatchMoment, BatchRow, batch_totals
from goalrunner.batches.table import TONES, total_facts
from goalrunner.core.errors import ways_on
from goalrunner.reports import figures
from goalrunner.reports.layout import Fact, facts
from goalrunner.reports.terminal_text import join_nonempty

# Runs whose commands are named at the end of a batch.
_NAMED_RUNS = 5
_UNSUCCESSFUL = ("capped", "blocked", "failed", "lost")
# A fleet queues these again; a capped one would reach its limit again at once.
_RETRIED = ("blocked", "failed")
# Characters of a commit's id that are shown.
_SHORT_COMMIT = 12


def first_facts(moment: BatchMoment) -> Iterator[Fact]:
    """Yield the first line: id, goals, jobs and limits."""
    state = moment.state
    parts = [
        state.plan.batch_id,
        *_size(moment),
        *_limits(moment),
    ]
    yield Fact(state.plan.kind, " · ".join(parts), "bold")


def _size(moment: BatchMoment) -> list[str]:
    state: BatchState = moment.state
    if state.plan.kind == "group":
        return [figures.count(len(state.entries), "run")]
    goals = figures.count(len(state.entries), "goal")
    if moment.in_fleet:
        return [goals, "on the fleet"]
    return [goals, figures.count(state.jobs, "job")]


def _limits(moment: BatchMoment) -> Iterator[str]:
    limits: BatchLimits = moment.state.limits
    if limits.cost_usd is not None:
        yield figures.dollars(limits.cost_usd)
    if limits.tokens is not None:
        yield figures.count(limits.tokens, "token")
    if limits.until is not None:
        yield f"until {figures.time_ahead(limits.until, moment.now)}"
    if limits.max_failures is not None:
        yield f"at most {figures.count(limits.max_failures, 'failure')}"


def event_fact(event: BatchEvent, row: BatchRow | None) -> Fact:
    """Return the line of an event; `row` is that of its entry, if it has one."""
    match event:
        case BatchStopped(reason=reason, cancelled=cancelled):
            label = "cancelled" if cancelled else "stopped"
            return Fact(label, reason, TONES[label])
        case BatchResumed():
            return Fact("resumed", figures.count(event.jobs, "job"))
    assert row is not None, "all other events are about an entry"
    match event:
        case EntryStarted(run_id=run_id):
            label = "started" if row.entry.starts == 1 else "continued"
            return Fact(label, f"{row.name}: run {run_id}")
        case EntryEnded(status=status, stopped=stopped):
            word = "stopped" if stopped else status
            return Fact(word, f"{row.name}: {_end(row)}", TONES.get(word, "plain"))
        case EntrySkipped(reason=reason):
            return Fact("skipped", f"{row.name}: {reason}", TONES["skipped"])
        case EntryIntegrated(branch=branch, commit=commit, reason=reason):
            if commit:
                place = f"on {branch} as {commit[:_SHORT_COMMIT]}"
                return Fact("applied", f"{row.name}: {place}", "good")
            return Fact("left out", f"{row.name}: {reason}", "warn")


def _end(row: BatchRow) -> str:
    """Return what a run that ended used, its score, and why it is not complete."""
    summary = row.summary
    if not summary.run_id:
        return row.remark
    parts = [figures.count(row.rounds, "round"), figures.elapsed(row.seconds)]
    if summary.score is not None:
        parts.append(f"score {figures.score(summary.score)}")
    if summary.has_spent:
        parts.append(figures.spent(summary)[1])
    return join_nonempty(" · ", *parts, row.remark)


def wait_fact(row: BatchRow) -> Fact:
    """Return the line of a run that begins to wait."""
    return Fact("waits", f"{row.name}: {row.remark} · run {row.run_id}", "warn")


def closing_facts(moment: BatchMoment, rows: Sequence[BatchRow]) -> Iterator[Fact]:
    """Yield the last lines: the result, the totals, and the commands that come next."""
    state = moment.state
    result = f"{state.complete} of {len(state.entries)} complete"
    if state.needed != len(state.entries):
        result += f", {state.needed} needed"
    stop = state.stopped
    if stop is not None:
        result += f" · {stop.reason}"
    status = moment.status
    yield Fact(status, result, TONES.get(status, "bad"))
    yield from total_facts(moment, rows)
    if state.branch:
        number = sum(bool(entry.commit) for entry in state.entries.values())
        verified = figures.count(number, "verified change")
        yield Fact("branch", f"{state.branch} with {verified}")
    if not state.is_success:
        yield from _next_commands(moment, rows)


def _next_commands(moment: BatchMoment, rows: Sequence[BatchRow]) -> Iterator[Fact]:
    batch_id = moment.state.plan.batch_id
    all_runs = f"goal list --batch {batch_id}"
    if moment.in_fleet:
        all_runs = f"goal fleet status --batch {batch_id}"
    if moment.is_driven:
        yield Fact("follow", f"goal watch {batch_id}", whole=True)
        if moment.in_fleet:
            yield Fact("status", all_runs, whole=True)
            yield Fact("cancel", f"goal fleet cancel --batch {batch_id}", whole=True)
        return
    if moment.in_fleet:
        retried = [row.run_id for row in rows if row.word in _RETRIED and row.run_id]
        commands = map("goal fleet retry {}".format, retried[:_NAMED_RUNS])
        yield from facts("again", commands, whole=True)
    elif _can_go_on(moment, rows):
        options = _raised_limits(moment, rows)
        command = join_nonempty(" ", f"goal batch --resume {batch_id}", options)
        yield Fact("continue", command, whole=True)
    # The others go on with the batch, or never began.
    run_ids = []
    for row in rows:
        if row.word in _UNSUCCESSFUL and row.summary.run_id:
            run_ids.append(row.run_id)
    yield from facts(
        "details", map("goal show {}".format, run_ids[:_NAMED_RUNS]), whole=True
    )
    if len(run_ids) > _NAMED_RUNS:
        yield Fact("all runs", all_runs, whole=True)


def _can_go_on(moment: BatchMoment, rows: Sequence[BatchRow]) -> bool:
    """Return whether a resumed batch has something to do; it retries what failed."""
    if moment.status in ("cancelled", "lost"):
        # A resume at least records how the runs of a lost batch have ended.
        return moment.status == "lost"
    # One that was skipped would be skipped again, if nothing else goes on.
    is_done = ("complete", "capped", "blocked", "cancelled", "skipped")
    return any(row.is_outdated or row.word not in is_done for row in rows)


def _raised_limits(moment: BatchMoment, rows: Sequence[BatchRow]) -> str:
    """Return the options without which a limit would stop the batch again at once."""
    limits = moment.state.limits
    spent = batch_totals(rows).spent
    ways = ways_on(
        {"tokens": limits.tokens, "cost_usd": limits.cost_usd},
        {"tokens": spent.tokens or 0, "cost_usd": spent.known_cost_usd},
        reason="",
        unknown=(),
    )
    options = ways[:1]
    if limits.until and datetime.fromisoformat(limits.until) <= moment.now:
        options.append("--until TIME")
    failures = sum(row.word in _UNSUCCESSFUL for row in rows)
    if limits.max_failures is not None and failures >= limits.max_failures:
        # With the same number, the batch would stop again at once.
        options.append(f"--max-failures {2 * failures}")
    return " ".join(options)
