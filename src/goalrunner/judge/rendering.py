"""How observations, claims and facts are shown to the judge."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from goalrunner.core.observation import RESPONSE, Claim, Observation, Trail
from goalrunner.judge.excerpt import TOKEN, beginning, excerpt, price
from goalrunner.judge.text import fence, folded

_FACTS_NO_BRACKETS = str.maketrans("()[]<>", "      ")
_COMMA = re.compile(r"\s*,(?!\d)")
_BETWEEN = re.compile(r"\s*,\s+")
_EXIT = re.compile(r"exit(?:ed)?(?:[ _-]?(?:code|status))?(?: with)?(?: code| status)?(?: ?[:=])? ?(-?\d+)")


def plain_fact(fact: str) -> str:
    """A fact as it is shown: one line that cannot pass for more than one fact. "1,234 bytes" keeps its comma."""
    # Folded first: a full-width bracket or comma becomes a plain one by it.
    return _COMMA.sub(";", " ".join(folded(fact).translate(_FACTS_NO_BRACKETS).split()))


def is_fact(observation: Observation, cited: str) -> bool:
    """Whether the words are a fact of the observation, or several: alone, or as they stand in its heading."""
    known = {_comparable(fact) for fact in observation.facts} | {
        _comparable(plain_fact(fact)) for fact in observation.facts
    }
    text = _within_heading(observation, folded(cited).casefold())
    if _comparable(text) in known:
        return True
    return any(all(_comparable(part) in known for part in split) for split in (_BETWEEN.split(text), text.split(",")))


def _within_heading(observation: Observation, text: str) -> str:
    """The words without the rest of the heading: `[o1] shell (exit 0)` is "exit 0"."""
    text = text.removeprefix(f"[{observation.id}]").strip()
    source = _name(observation.source)
    for head in (f"{source}, reported by {_name(observation.reported_by)}", source):
        if source and text.startswith(f"{head} (") and text.endswith(")"):
            text = text[len(head) :]
    return text.strip().strip("()").strip()


def _name(text: str) -> str:
    return folded(text.translate(_FACTS_NO_BRACKETS)).casefold()


def _comparable(fact: str) -> str:
    text = folded(fact).strip("()").strip().casefold()
    code = _EXIT.fullmatch(text)
    return f"exit {code[1]}" if code else text


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


_LONGEST = 40 * TOKEN
_MOST = 3
_FAILING = re.compile(r"exit [1-9]|red$|timed out|ended by|crashed|not found|invalid result", re.IGNORECASE)


def why_stale(observation: Observation, stale: Mapping[str, str]) -> str:
    """Why it no longer counts, without a full stop; empty when it is fresh."""
    if observation.id not in stale:
        return ""
    return " ".join(stale[observation.id].split()).rstrip(". ") or f"something changed after {observation.id}"


def remedy(observations: Sequence[Observation], stale: Mapping[str, str]) -> str:
    """What to run again, and why: `Run pytest -q again: src/a.py changed after o12.`"""
    sentences = dict.fromkeys(_again(observation, stale) for observation in observations)
    return " ".join(list(sentences)[:_MOST])


def is_failure(observation: Observation) -> bool:
    """Whether an observation shows by its facts that something did not work."""
    return any(_FAILING.match(fact) for fact in observation.facts)


def _again(observation: Observation, stale: Mapping[str, str]) -> str:
    line = folded(observation.command) or observation.source
    shown = beginning(line, _LONGEST)
    what = shown if shown == line else f"{shown}…"
    verb = "Run" if observation.path is None or observation.reported_by else "Look at"
    # Nobody watched what is reported: it counts where its whole round left the files as they were.
    alone = ", in a round that changes no file" if observation.reported_by else ""
    return f"{verb} {what} again{alone}: {why_stale(observation, stale)}."
