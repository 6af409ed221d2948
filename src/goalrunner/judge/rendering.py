"""What the judge sees of a run: a bounded text. Owns what is shown, shortened and left out; checks nothing.

Each observation is a heading, `[o12] shell (exit 0)`, then its command and its output. Whatever a model or a program
wrote stands between fences that carry a nonce, made afresh for each audit: nothing written before can close a fence.
Lines that look like a heading or a fence are made inert with `| ` as well. The newest items are shown longest; each
omission says how much was left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

from goalrunner.judge.normalisation import readable
from goalrunner.model.dialogue import RESPONSE
from goalrunner.model.observation import Claim, Observation, Trail

LIMIT = 48_000
"""Characters of the rendered trail; about 12,000 tokens."""

LEFT_OUT = re.compile(r"\[(?:…|\.\.\.) [\d,]+ characters left out (?:…|\.\.\.)\]")
"""The mark of an omission inside a text, as shown and as normalised."""

_LONGEST = 12_000
_SHORTEST = 300
_COMMAND = 1_000
_HEADING = 300
_FORGED = re.compile(
    r"^(?=\W*(?:\[\W*o\W*\d|</?(?:command|output|claim|objective|criteria|constraints)\b))", re.IGNORECASE
)
_NO_BRACKETS = str.maketrans("()[]<>", "      ")
_SUSPECT = re.compile(r"[\[<]")


def deliverable_response(trail: Trail, deliverable: Literal["workspace", "response"]) -> Observation | None:
    """The response that is judged: the last one, where the response is the deliverable."""
    if deliverable == "response":
        for item in reversed(trail.items):
            if isinstance(item, Observation) and item.source == RESPONSE:
                return item
    return None


def render_trail(
    trail: Trail, *, nonce: str, deliverable: Literal["workspace", "response"] = "workspace", limit: int = LIMIT
) -> str:
    """The trail, oldest first, in at most `limit` characters. `nonce` must not be known to whoever wrote the texts."""
    response = deliverable_response(trail, deliverable)
    shown = [item for item in trail.items if _is_shown(item, response)]
    if not shown:
        return "(nothing has been observed)"
    # What is judged has its room first; the rest is filled from the newest on, each item longer than the one before.
    judged = _observation(response, trail, nonce, limit // 2) if response else ""
    said = readable(trail.read(response)).strip() if response else None
    room = limit - len(judged) - _HEADING
    blocks: list[str] = []
    left_out: list[Observation | Claim] = []
    for item in reversed(shown):
        if item is response:
            blocks.append(judged)
        elif left_out:
            left_out.append(item)
        elif said is None or isinstance(item, Observation) or readable(trail.read(item)).strip() != said:
            block = _block(item, trail, nonce, room)
            room -= len(block) + 2
            if room < 0:
                left_out.append(item)
            else:
                blocks.append(block)
    if left_out:
        blocks.append(f"({len(left_out):,} older items left out{_range(left_out)})")
    return "\n\n".join(reversed(blocks))


def shorten(text: str, allowance: int) -> str:
    """Head and tail of a text in about `allowance` characters, the size of the omission between them."""
    if len(text) <= allowance:
        return text
    head = allowance // 3
    tail = allowance - head
    return f"{text[:head]}\n{_mark(len(text) - head - tail)}\n{text[len(text) - tail :]}"


def fence(name: str, text: str, nonce: str, *, inert: bool = True) -> str:
    """A text between fences that it cannot close. `inert=False` leaves every line as it is: for the goal's own words."""
    body = text.replace(nonce, "[fence]")
    if inert:
        body = "\n".join(f"| {line}" if _is_forged(line) else line for line in body.split("\n"))
    return f"<{name} {nonce}>\n{body}\n</{name} {nonce}>"


def _is_forged(line: str) -> bool:
    """Whether a line, however it is spelt in Unicode, looks like a heading or a fence."""
    line = line.strip()[:_HEADING]
    if not line.isascii():
        line = unicodedata.normalize("NFKC", line)
    return _SUSPECT.search(line) is not None and _FORGED.match(line) is not None


def _is_shown(item: Observation | Claim, response: Observation | None) -> bool:
    """An earlier response is neither evidence nor what is judged."""
    return not (isinstance(item, Observation) and item.source == RESPONSE and item is not response)


def _block(item: Observation | Claim, trail: Trail, nonce: str, room: int) -> str:
    allowance = max(_SHORTEST, min(_LONGEST, room // 4))
    if isinstance(item, Observation):
        return _observation(item, trail, nonce, allowance)
    text = _excerpt(trail.read(item).strip(), allowance // 2)
    return f"claim of the agent (round {item.round}), no evidence\n{fence('claim', text, nonce)}"


def _observation(item: Observation, trail: Trail, nonce: str, allowance: int) -> str:
    parts = [_heading(item).replace(nonce, "[fence]")]
    if item.command:
        parts.append(fence("command", shorten(readable(item.command), min(_COMMAND, allowance)), nonce))
    output = _excerpt(trail.read(item).strip("\r\n"), allowance)
    parts.append(fence("output", output, nonce) if output.strip() else "(no output)")
    return "\n".join(parts)


def _heading(item: Observation) -> str:
    """The observation's heading on one line. A source comes from a model too: no brackets, or it could show facts."""
    source = " ".join(item.source.translate(_NO_BRACKETS).split())
    facts = tuple(" ".join(fact.split()) for fact in item.facts)
    return item.model_copy(update={"source": source, "facts": facts}).heading[:_HEADING]


def _excerpt(text: str, allowance: int) -> str:
    """Readable head and tail of a text. A very long one is made readable only where it can be shown."""
    margin = 8 * allowance
    if len(text) <= 2 * margin:
        return shorten(readable(text), allowance)
    head = readable(text[:margin])[: allowance // 3]
    tail = readable(text[-margin:])[-(allowance - allowance // 3) :]
    return f"{head}\n{_mark(len(text) - len(head) - len(tail))}\n{tail}"


def _mark(size: int) -> str:
    return f"[… {size:,} characters left out …]"


def _range(items: Sequence[Observation | Claim]) -> str:
    identifiers = [item.id for item in reversed(items) if isinstance(item, Observation)]
    if not identifiers:
        return ""
    return f": {identifiers[0]}" if len(identifiers) == 1 else f": {identifiers[0]} to {identifiers[-1]}"
