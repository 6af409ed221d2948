"""How one observation or claim is shown to the judge. Owns its form; how much of it is shown is decided elsewhere.

An observation is a heading, `[o12] shell (exit 0)`, then its command and its output, each between fences. The heading of
one that no longer counts says so and why. What the agent said is marked as a claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from goalrunner.judge.budgeting import TOKEN, beginning, price
from goalrunner.judge.excerpt import excerpt
from goalrunner.judge.facts import plain_fact
from goalrunner.judge.fencing import fence
from goalrunner.judge.normalisation import folded
from goalrunner.model.observation import RESPONSE, Claim, Observation, Trail

LEAST = 150 * TOKEN
"""What the smallest block costs at most: the heading, the fences, and a few words of command and output."""

_SOURCE = 20 * TOKEN
_REPORTED_SOURCE = 8 * TOKEN
_REPORTER = 6 * TOKEN
"""Of one that is reported: its source, whose word it is, and the words between take no more than a source alone."""
_FACTS = 35 * TOKEN
_REASON = 25 * TOKEN
_COMMAND = 250 * TOKEN
_LINE = 20 * TOKEN
_NO_BRACKETS = str.maketrans("()[]<>", "      ")


def deliverable_response(trail: Trail, deliverable: Literal["workspace", "response"]) -> Observation | None:
    """The response that is judged: the last one, where the response is the deliverable."""
    if deliverable == "response":
        for item in reversed(trail.items):
            if isinstance(item, Observation) and item.source == RESPONSE:
                return item
    return None


def observation_block(item: Observation, text: str, room: int, nonce: str, stale: Mapping[str, str]) -> str:
    """An observation with its output `text`, at a price of at most `room` where that is not below LEAST."""
    parts = [heading(item, stale).replace(nonce, "fence")]
    text = text.strip("\r\n")
    output = fence("output", "", nonce) if text else "(no output)"
    left = room - price(f"{parts[0]}\n{output}")
    if item.command:
        left -= price(fence("command", "", nonce)) + TOKEN // 2
        command = excerpt(item.command, min(_COMMAND, left // 3), nonce)
        left -= price(command)
        parts.append(fence("command", command, nonce, harmless=True))
    shown = excerpt(text, left, nonce) if text else ""
    parts.append(fence("output", shown, nonce, harmless=True) if shown.strip() else "(no output)")
    return "\n".join(parts)


def claim_block(item: Claim, text: str, room: int, nonce: str) -> str:
    """What the agent said, at a price of at most `room` where that is not below LEAST."""
    title = f"claim of the agent (round {item.round}), no evidence\n"
    shown = excerpt(text.strip(), room - price(title + fence("claim", "", nonce)), nonce)
    return title + fence("claim", shown, nonce, harmless=True)


def heading(item: Observation, stale: Mapping[str, str]) -> str:
    """The observation's heading on one line. A source comes from a model too: no brackets, or it could show facts."""
    source = _line(_without_brackets(item.source), _REPORTED_SOURCE if item.reported_by else _SOURCE)
    facts = beginning(", ".join(_line(plain_fact(fact), _FACTS) for fact in item.facts), _FACTS)
    reason = f" - stale: {_stale_reason(stale[item.id])}" if item.id in stale else ""
    reported = f", reported by {_line(_without_brackets(item.reported_by), _REPORTER)}" if item.reported_by else ""
    return f"[{item.id}] {source}{reported}{f' ({facts})' if facts else ''}{reason}"


def index_line(item: Observation, stale: Mapping[str, str]) -> str:
    """An observation in a list of those that are not shown. No heading: it begins with the bare id."""
    facts = f" ({_line(', '.join(map(plain_fact, item.facts)), _LINE)})" if item.facts else ""
    command = f": {_line(item.command, _LINE)}" if item.command else ""
    marked = " - stale" if item.id in stale else ""
    reported = f", reported by {_line(item.reported_by, _REPORTER)}" if item.reported_by else ""
    return f"{item.id} {_line(item.source, _LINE)}{reported}{facts}{marked}{command}"


def _stale_reason(reason: str) -> str:
    """A file's name may stand in it, and the agent names files."""
    return _line(_without_brackets(reason), _REASON) or "something changed after it"


def _without_brackets(text: str) -> str:
    # Folded first: a full-width bracket becomes a plain one by it.
    return folded(text).translate(_NO_BRACKETS)


def _line(text: str, room: int) -> str:
    line = folded(text).encode("utf-8", "replace").decode()
    if price(line) <= room:
        return line
    return beginning(line, room - price("…")) + "…"
