"""What the end of a turn amounts to. Owns the meaning of stop reasons; an unknown one is an end like any other."""

from __future__ import annotations

import re
from typing import Any, Literal

from goalrunner.agents.acp.reading import at, one_line, text

_SAID = {
    "refusal": "it refuses to go on",
    "cancelled": "it says that its turn was cancelled, and nobody here did that",
}

_API_ERROR = re.compile(r"\W*api error\b", re.IGNORECASE)
"""How an agent begins its only message that tells a failure of its model's as if it were an answer."""


def failure_of(response: Any, *, said: str, worked: bool, denied: bool) -> str:
    """Why a turn is no answer, in words; empty where it is one. After a denial an agent may well give up its turn."""
    reason = _reason(response)
    if reason in _SAID and not (reason == "cancelled" and denied):
        return _SAID[reason]
    if said and not worked and _API_ERROR.match(said):
        return said
    if not (said or worked or denied):
        return f"it ended its turn without a word ({reason})" if reason else "it ended its turn without a word"
    return ""


def note_of(response: Any) -> str:
    """What people must be told of the end of a turn that is an answer; empty for an ordinary one."""
    match _reason(response):
        case "end_turn" | "cancelled":
            return ""
        case "max_tokens":
            return "its last answer was cut at the limit of its tokens"
        case "max_turn_requests":
            return "its turn was cut at its own limit of model calls"
        case "":
            return "it gave no reason for the end of its turn"
        case other:
            return f"it ended its turn for a reason that is not known here: {other}"


def ending_of(response: Any) -> Literal["answered", "max_steps"]:
    """In the runner's own words. What was cut in the middle has more to do."""
    return "max_steps" if _reason(response) in ("max_turn_requests", "max_tokens") else "answered"


def _reason(response: Any) -> str:
    return one_line(text(at(response, "stopReason")), 60)
