"""Whether what a run said of itself is what its log folds to. Owns the comparison; reads no file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from goalrunner.model.evidence import EvidenceRow
from goalrunner.model.usage import Usage
from goalrunner.state import RunState
from goalrunner.state.outcome import outcome_of, summary_of

_FIRST = ("status", "iterations", "verdict")


def outcome_differs(state: RunState, rows: Sequence[EvidenceRow], outcome: dict[str, Any]) -> str:
    """The first field of an outcome that the log does not bear out, in words; empty when all of them hold.

    Fields that only one of them has are of another version. The run's folder may have been moved.
    """
    ours = {**outcome_of(state).model_dump(mode="json"), "evidence": [row.model_dump(mode="json") for row in rows]}
    del ours["run_path"], ours["schema_version"]
    if outcome.get("schema_version") == "1.0":
        ours["usage"] = {account: _before(usage) for account, usage in state.usage.items()}
    if not outcome.get("evidence"):
        del ours["evidence"]
    return _first_difference(ours, outcome)


def summary_differs(state: RunState, summary: dict[str, Any]) -> str:
    """The same of a summary."""
    ours = json.loads(json.dumps(summary_of(state)))
    if "uncounted_calls" not in summary:
        judge = state.usage.get("judge", Usage())
        ours |= {"tokens": state.total.tokens, "cost_usd": state.total.cost_usd, "judge_tokens": judge.tokens}
    return _first_difference(ours, summary)


def _before(usage: Usage) -> dict[str, Any]:
    """Usage as outcomes of schema 1.0 had it: 0 where nothing was known."""
    values = usage.model_dump(mode="json")
    return values | {"input_tokens": usage.input_tokens or 0, "output_tokens": usage.output_tokens or 0}


def _first_difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    shared = [key for key in ours if key in theirs]
    for key in sorted(shared, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST)):
        found = _difference(key, ours[key], theirs[key])
        if found:
            return found
    absent = [key for key in _FIRST if key in ours and key not in theirs]
    return f"it has no {absent[0]}" if absent else ""


def _difference(place: str, ours: Any, theirs: Any) -> str:
    match ours, theirs:
        case dict(), dict():
            shared = [key for key in ours if key in theirs]
            found = (_difference(f"{place}.{key}", ours[key], theirs[key]) for key in shared)
            return next(filter(None, found), "")
        case list(), list() if len(ours) == len(theirs):
            pairs = enumerate(zip(ours, theirs, strict=True))
            return next(filter(None, (_difference(f"{place}[{index}]", *pair) for index, pair in pairs)), "")
        case _:
            same = ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool)
            return "" if same else f"{place} is {_short(theirs)}, and {_short(ours)} by the log"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"
