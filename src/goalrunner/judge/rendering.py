"""How observations, claims and facts are shown to the judge."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from goalrunner.core.observation import FORGEABLE, RESPONSE, Claim, Observation, Trail
from goalrunner.judge.excerpt import TOKEN, beginning, excerpt, fence, price
from goalrunner.judge.text_matching import folded

_NO_BRACKETS = str.maketrans("()[]<>", "      ")
_COMMA = re.compile(r"\s*,(?!\d)")
_BETWEEN = re.compile(r"\s*,\s+")
_EXIT = re.compile(r"exit(?:ed)?(?:[ _-]?(?:code|status))?(?: with)?(?: code| status)?(?: ?[:=])? ?(-?\d+)")


def plain_fact(fact: str) -> str:
    """Return a fact as it is shown: one line that cannot pass for several facts. "1,234 bytes" keeps its comma."""
    return _COMMA.sub(";", " ".join(_without_brackets(fact).split()))


def is_fact(observation: Observation, cited: str) -> bool:
    """Return whether the words are a fact of the observation, or several: alone, or as they stand in its heading.

    The fact that an output may be forged is a warning, not evidence.
    """
    facts = [fact for fact in observation.facts if not fact.startswith(FORGEABLE)]
    known = {_comparable(form) for fact in facts for form in (fact, plain_fact(fact))}
    text = folded(cited).casefold().removeprefix(f"[{observation.id}]").strip()
    # `[o1] shell (exit 0)` is "exit 0".
    names = (observation.source, observation.reported_by)
    source, reporter = (_without_brackets(name).strip().casefold() for name in names)
    for head in (f"{source}, reported by {reporter}", source):
        if source and text.startswith(f"{head} (") and text.endswith(")"):
            text = text[len(head) :]
    splits = ([text], _BETWEEN.split(text.strip(" ()")), text.strip(" ()").split(","))
    return any(all(_comparable(part) in known for part in parts) for parts in splits)


def _comparable(fact: str) -> str:
    text = folded(fact).strip("()").strip().casefold()
    code = _EXIT.fullmatch(text)
    return f"exit {code[1]}" if code else text


LEAST = 150 * TOKEN
"""The most that the smallest block costs: the heading, the fences, and a few words of command and output."""

_SOURCE = 20 * TOKEN
_REPORTED_SOURCE = 8 * TOKEN
_REPORTER = 6 * TOKEN
_NAMES = 12 * TOKEN
"""A reported source and its reporter together take no more than a source alone."""
_FACTS = 35 * TOKEN
_REASON = 25 * TOKEN
_COMMAND = 250 * TOKEN
_LINE = 20 * TOKEN


def deliverable_response(trail: Trail, deliverable: Literal["workspace", "response"]) -> Observation | None:
    """Return the last response if the response is the deliverable, else None."""
    responses = (item for item in reversed(trail.items) if isinstance(item, Observation) and item.source == RESPONSE)
    return next(responses, None) if deliverable == "response" else None


def observation_block(item: Observation, text: str, room: int, nonce: str, stale: Mapping[str, str]) -> str:
    """Return an observation with its output `text`, at a price of at most `room`, or of LEAST."""
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
    """Return a claim of the agent, at a price of at most `room`, or of LEAST."""
    title = f"claim of the agent (round {item.round}), no evidence\n"
    shown = excerpt(text.strip(), room - price(title + fence("claim", "", nonce)), nonce)
    return title + fence("claim", shown, nonce, harmless=True)


def heading(item: Observation, stale: Mapping[str, str]) -> str:
    """Return the observation's heading on one line. Models name sources: without brackets they cannot look like facts."""
    source = _line(_without_brackets(item.source), _REPORTED_SOURCE if item.reported_by else _SOURCE)
    facts = beginning(", ".join(_line(plain_fact(fact), _FACTS) for fact in item.facts), _FACTS)
    # A reason may name files, and the agent chooses their names.
    why = _line(_without_brackets(stale.get(item.id, "")), _REASON) or "something changed after it"
    reason = f" - stale: {why}" if item.id in stale else ""
    names = _line("".join(f" {name}" for name in item.names), _NAMES)
    return f"[{item.id}] {source}{_reporter(item)}{f' ({facts})' if facts else ''}{names}{reason}"


def index_line(item: Observation, stale: Mapping[str, str]) -> str:
    """Return a line for the list of observations that are not shown. Unlike a heading it begins with the bare id."""
    facts = f" ({_line(', '.join(map(plain_fact, item.facts)), _LINE)})" if item.facts else ""
    command = f": {_line(item.command, _LINE)}" if item.command else ""
    marked = " - stale" if item.id in stale else ""
    return f"{item.id} {_line(item.source, _LINE)}{_reporter(item)}{facts}{marked}{command}"


def _reporter(item: Observation) -> str:
    return f", reported by {_line(_without_brackets(item.reported_by), _REPORTER)}" if item.reported_by else ""


def _without_brackets(text: str) -> str:
    # Folding turns full-width brackets into plain ones.
    return folded(text).translate(_NO_BRACKETS)


def _line(text: str, room: int) -> str:
    line = folded(text).encode("utf-8", "replace").decode()
    return line if price(line) <= room else beginning(line, room - price("…")) + "…"


_LONGEST = 40 * TOKEN
_MOST = 3
_FAILING = re.compile(r"exit [1-9]|red$|timed out|ended by|crashed|not found|invalid result", re.IGNORECASE)


def why_stale(observation: Observation, stale: Mapping[str, str]) -> str:
    """Return why an observation no longer counts, without a full stop; empty if it is fresh."""
    if observation.id not in stale:
        return ""
    return " ".join(stale[observation.id].split()).rstrip(". ") or f"something changed after {observation.id}"


def remedy(observations: Sequence[Observation], stale: Mapping[str, str]) -> str:
    """Return what to run again, and why: `Run pytest -q again: src/a.py changed after o12.`"""
    sentences = []
    for item in observations:
        what = _line(item.command, _LONGEST) or item.source
        verb = "Run" if item.path is None or item.reported_by else "Look at"
        # A reported observation counts only if its whole round left the files as they were.
        alone = ", in a round that changes no file" if item.reported_by else ""
        sentences.append(f"{verb} {what} again{alone}: {why_stale(item, stale)}.")
    return " ".join(list(dict.fromkeys(sentences))[:_MOST])


def is_failure(observation: Observation) -> bool:
    """Return whether the facts of an observation show a failure."""
    return any(_FAILING.match(fact) for fact in observation.facts)
