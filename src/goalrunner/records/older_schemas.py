"""Events of logs before schema 1.4, in the form of the current schema."""

from __future__ import annotations

from typing import Any

_STOPS = {"baseline_differs": "environment_failed"}


def as_current(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event of a record before schema 1.4 with the fields that the current schema has."""
    new = dict(event)
    if isinstance(plan := new.get("plan"), dict):
        new["plan"] = {key: value for key, value in plan.items() if key != "clean_proof"}
    match new.get("type"):
        case "run_started":
            new.pop("goal_seals", None)  # keyed hashes of secrets, until schema 1.4
        case "proof_finished":
            return _checked_again(new)
        case "baseline_taken":
            # It names another content: results of then and now are never compared.
            new.pop("content", None)
        case "validators_finished":
            new.pop("content", None)
            new["protected_changes"] = new.pop("touched", [])
            if drift := new.pop("drift", None):
                new["refusal"] = f"the checks changed {', '.join(map(str, drift))}"
        case "completed" | "blocked" | "capped" | "cancelled" | "failed" as kind:
            return _ended(kind, new)
        case _:
            pass
    return new


def _ended(kind: str, old: dict[str, Any]) -> dict[str, Any]:
    """Return one of the five kinds of endings that logs had until schema 1.4."""
    reason = old.get("stop_reason", {"completed": "satisfied", "cancelled": "interrupted"}.get(kind))
    return {
        "type": "run_ended",
        "stop_reason": _STOPS.get(str(reason), reason),
        "message": old.get("reason", old.get("result_ref", "")),
        "signal": old.get("signal"),
    }


def _checked_again(proof: dict[str, Any]) -> dict[str, Any]:
    """Return the second run of the validators, in a clean checkout, as a run of the validators."""
    results = proof.get("results", [])
    hidden = {result.get("observation") for result in results if result.get("hidden")}
    observations = proof.get("observations", [])
    red = any(not result.get("passed") for result in results)
    return {
        "type": "validators_finished",
        "round": proof.get("round"),
        "results": results,
        "observations": [item for item in observations if item.get("id") not in hidden],
        "concealed": [item for item in observations if item.get("id") in hidden],
        "refusal": "" if proof.get("passed") or red else proof.get("feedback") or "the clean checkout proved nothing",
    }
