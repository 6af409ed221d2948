"""Whether rounds end the same: the comparison of a round with the ones before it."""

from __future__ import annotations

import re

from goalrunner.model.verdict import GoalVerdict
from goalrunner.state.changes import with_fields
from goalrunner.state.run_state import RunState, Stall

_NUMBER = r"\d+(?:[.,]\d+)?"
_VARYING = (
    (re.compile(r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"), "<time>"),
    # In names of files, as npm writes its logs: 2026-11-22T20_14_47_323Z
    (re.compile(r"(?<!\d)\d{4}-?\d{2}-?\d{2}[T_-]\d{2}[_.-]?\d{2}[_.-]?\d{2}(?:[_.-]\d{1,9}(?!\d))?Z?"), "<time>"),
    (re.compile(r"\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(rf"\b{_NUMBER}\s?(?:ns|us|µs|ms|s|secs?|seconds?|mins?|minutes?|m|h)\b"), "<duration>"),
    (re.compile(r"(?:/private)?(?:/var/folders|/var/tmp|/tmp|/dev/shm)(?:/[^\s:'\"()\[\]]*)?"), "<temporary>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"), "<id>"),
    (re.compile(r"\b(pid|process|port|seed|thread)([ =:#]+)\d+", re.IGNORECASE), r"\1\2<number>"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=localhost:)\d+|(?<=\[::1\]:)\d+"), "<number>"),
)
"""What varies by itself between two runs of the same check."""


def normalised(text: str) -> str:
    """Return a text without durations, times, temporary paths, addresses and ids, its lines in a fixed order."""
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return "\n".join(sorted(" ".join(line.split()) for line in text.splitlines() if line.strip()))


def stalled(state: RunState) -> RunState:
    """Compare the round with the two kinds of rounds before it: same content, same results, same things missing.

    Rounds that alternate between two states count like rounds that stay the same.
    """
    if state.verdict is None or state.verdict.complete or state.snapshot is None:
        return with_fields(state, stall=Stall())
    checks = tuple((item.name, item.passed, item.reason, item.exit_code) for item in state.validators)
    key = repr((state.content or state.snapshot.id, checks, _missing(state.verdict)))
    last = state.stall
    rounds = last.rounds + 1 if key in (last.key, last.before) else 1
    before = last.before if key == last.key else last.key
    return with_fields(state, stall=Stall(key=key, before=before, rounds=rounds))


def _missing(verdict: GoalVerdict) -> object:
    """Return what is missing, without what varies by itself: the words of a judge do, the criteria do not."""
    if verdict.source == "judge" and verdict.criteria:
        return tuple((item.criterion, item.satisfied) for item in verdict.criteria)
    return normalised(verdict.missing)
