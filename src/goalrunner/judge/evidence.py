"""The text of the evidence in the judge's prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from goalrunner.core.observation import RESPONSE, Claim, Observation, Trail
from goalrunner.judge.excerpt import excerpt, fenced
from goalrunner.judge.fences import fence, inert
from goalrunner.judge.plain_text import folded
from goalrunner.judge.prices import TOKEN, beginning, price_in_bytes
from goalrunner.judge.text_matching import LEFT_OUT

Item = Observation | Claim
Stale = Mapping[str, str]
"""The ids of observations that no longer count, each with the reason."""

NOTHING = "(nothing has been observed)"

SMALLEST_BLOCK = 150 * TOKEN
"""The room in which any block fits, if only by its shortest form.

That is the heading, the fences, and a few words of command and output.
"""

# Room for the parts of a heading, and for other parts of a block.
_SOURCE = 20 * TOKEN
_REPORTED_SOURCE, _REPORTER = 8 * TOKEN, 6 * TOKEN
_NAMES = 12 * TOKEN
_FACTS = 35 * TOKEN
_REASON = 25 * TOKEN
# A here-document in a command may be as long as an output.
_COMMAND = 250 * TOKEN
_LINE = 20 * TOKEN
# Claims are no evidence, so a few sentences are enough.
_CLAIM = 80 * TOKEN
_COUNTED = 60 * TOKEN
# Rendering a block again for a few more words costs time and shows nothing.
_WORTH_GROWING = 100 * TOKEN
_BETWEEN = price_in_bytes("\n\n")
# The last change shows the work; its output may be the diff itself.
_EDITS = frozenset({"edit_file", "write_file"})
_DIFFS = ("git diff", "git show", "diff ")
_NO_BRACKETS = str.maketrans("()[]<>", "      ")
_COMMA = re.compile(r"\s*,(?!\d)")


def plain_fact(fact: str) -> str:
    """Return a fact on one line that does not look like several facts.

    "1,234 bytes" keeps its comma.
    """
    return _COMMA.sub(";", " ".join(without_brackets(fact).split()))


def without_brackets(text: str) -> str:
    """Return a text on one line that cannot look like facts or a heading."""
    # Folding turns full-width brackets into plain ones.
    return folded(text).translate(_NO_BRACKETS)


def shortened_line(text: str, room: int) -> str:
    """Return a text on one line at a price of at most `room`."""
    # No provider takes half of a surrogate pair.
    line = folded(text).encode("utf-8", "replace").decode()
    if price_in_bytes(line) <= room:
        return line
    return beginning(line, room - price_in_bytes("…")) + "…"


def deliverable_response(
    trail: Trail, deliverable: Literal["workspace", "response"]
) -> Observation | None:
    """Return the last response if the response is the deliverable, else None."""
    if deliverable != "response":
        return None
    for item in reversed(trail.items):
        if isinstance(item, Observation) and item.source == RESPONSE:
            return item
    return None


def observation_block(
    item: Observation, text: str, room: int, nonce: str, stale: Stale
) -> str:
    """Return an observation with its output `text`.

    The price is at most `room`, or SMALLEST_BLOCK if that is more.
    """
    parts = [heading(item, stale).replace(nonce, "fence")]
    if item.command:
        # A third at most, so that the output gets the larger part.
        command_room = min(_COMMAND, (room - price_in_bytes(parts[0])) // 3)
        parts.append(fenced("command", item.command, command_room, nonce))
    around = "\n".join([*parts, fence("output", "", nonce)])
    output = excerpt(text.strip("\r\n"), room - price_in_bytes(around), nonce)
    parts.append(fence("output", output, nonce) if output.strip() else "(no output)")
    return "\n".join(parts)


def claim_block(item: Claim, text: str, room: int, nonce: str) -> str:
    """Return a claim of the agent.

    The price is at most `room`, or SMALLEST_BLOCK if that is more.
    """
    title = f"claim of the agent (round {item.round}), no evidence\n"
    return title + fenced("claim", text.strip(), room - price_in_bytes(title), nonce)


def heading(item: Observation, stale: Stale) -> str:
    """Return the observation's heading on one line.

    Brackets in names are removed: they could look like facts.
    """
    source_room = _REPORTED_SOURCE if item.reported_by else _SOURCE
    line = f"[{item.id}] {_named(item.source, source_room)}"
    if item.reported_by:
        line += f", reported by {_named(item.reported_by, _REPORTER)}"
    if item.facts:
        facts = [shortened_line(plain_fact(fact), _FACTS) for fact in item.facts]
        line += f" ({beginning(', '.join(facts), _FACTS)})"
    if item.names:
        line += f" {shortened_line(' '.join(item.names), _NAMES)}"
    if item.id in stale:
        # A reason may name files, and the agent chooses their names.
        reason = _named(stale[item.id], _REASON) or "something changed after it"
        line += f" - stale: {reason}"
    return line


def _named(text: str, room: int) -> str:
    return shortened_line(without_brackets(text), room)


def index_line(item: Observation, stale: Stale) -> str:
    """Return a line for the list of observations that do not fit.

    Unlike a heading it begins with the bare id.
    """
    line = heading(item, stale).replace("[", "", 1).replace("]", "", 1)
    if not item.command:
        return line
    return f"{line}: {shortened_line(item.command, _LINE)}"


def render_trail(
    trail: Trail,
    *,
    nonce: str,
    room: int,
    deliverable: Literal["workspace", "response"] = "workspace",
    stale: Stale | None = None,
) -> str:
    """Return the trail, oldest first, at a price of at most `room`.

    The authors of its texts must not know `nonce`. Room is given first to the response,
    the validators' last results, the last change and the last claim; then to the other
    items, newest first. If one of them does not fit, older ones of its kind are left
    out.
    """
    response = deliverable_response(trail, deliverable)
    items = _audited(trail, response)
    if not items:
        return NOTHING
    view = _View(trail, items, nonce, stale or {}, room)
    # A part of the room is reserved for the list of what is left out.
    index_room = _COUNTED + room // 8
    view.room -= index_room
    # No item may take all of the room.
    for position in _important(items, response):
        view.place(position, view.room // 3)
    view.place_newest(Observation, room)
    view.place_newest(Claim, _CLAIM)
    index = _index(view.omitted(), index_room, nonce, view.stale)
    view.room += index_room - sum(price_in_bytes(block) + _BETWEEN for block in index)
    view.grow()
    blocks = [view.placed[position] for position in sorted(view.placed)]
    return "\n\n".join([*index, *blocks])


def _audited(trail: Trail, response: Observation | None) -> list[Item]:
    """Return the items that an audit is about.

    Earlier responses, and the claim that repeats the response, are left out.
    """
    items: list[Item] = []
    for item in trail.items:
        is_response = isinstance(item, Observation) and item.source == RESPONSE
        if is_response and item is not response:
            continue
        if item is response and items and isinstance(items[-1], Claim):
            items.pop()
        items.append(item)
    return items


def _important(items: Sequence[Item], response: Observation | None) -> list[int]:
    """Return the positions of the items that an audit needs most."""
    results: dict[str, int] = {}
    last: dict[str, int] = {}
    for position, item in enumerate(items):
        if isinstance(item, Claim):
            last["claim"] = position
        elif item is response:
            last["response"] = position
        # A reported result is the agent's own word.
        elif item.source.startswith("validator ") and not item.reported_by:
            results[item.source] = position
        elif item.source in _EDITS or item.command.lstrip().startswith(_DIFFS):
            last["change"] = position
    positions = [
        last.get("response"),
        *results.values(),
        last.get("change"),
        last.get("claim"),
    ]
    return [position for position in positions if position is not None]


class _View:
    """The blocks of the items that fit, by their position, and the remaining room."""

    def __init__(
        self, trail: Trail, items: Sequence[Item], nonce: str, stale: Stale, room: int
    ) -> None:
        self._trail = trail
        self._items = items
        self._nonce = nonce
        self.stale = stale
        self.room = room
        self.placed: dict[int, str] = {}

    def _newest(self, kind: type[Item]) -> list[int]:
        """Return the positions of all observations, or of all claims, newest first."""
        positions = range(len(self._items) - 1, -1, -1)
        return [one for one in positions if isinstance(self._items[one], kind)]

    def place_newest(self, kind: type[Item], most: int) -> None:
        """Place the other items of a kind, newest first, until one does not fit."""
        for position in self._newest(kind):
            if position in self.placed:
                continue
            # Older items get room as well, and shortened ones grow at the end.
            if not self.place(position, min(most, self.room // 8)):
                return

    def place(self, position: int, allowance: int) -> bool:
        """Place an item at a price of at most `allowance`. Return whether it fits."""
        allowance = min(max(allowance, SMALLEST_BLOCK), self.room - _BETWEEN)
        if allowance <= 0:
            return False
        item = self._items[position]
        text = self._trail.read(item)
        if isinstance(item, Observation):
            block = observation_block(item, text, allowance, self._nonce, self.stale)
        else:
            block = claim_block(item, text, allowance, self._nonce)
        price = price_in_bytes(block) + _BETWEEN
        # The smallest block may cost more than its allowance.
        if price > self.room:
            return False
        self.placed[position] = block
        self.room -= price
        return True

    def omitted(self) -> list[Item]:
        """Return the items that did not fit."""
        items = enumerate(self._items)
        return [item for position, item in items if position not in self.placed]

    def grow(self) -> None:
        """Give the remaining room to shortened blocks.

        Observations first, newest first.
        """
        for position in self._newest(Observation) + self._newest(Claim):
            is_shortened = LEFT_OUT.search(self.placed.get(position, "")) is not None
            if is_shortened and self.room > _WORTH_GROWING:
                self.room += price_in_bytes(self.placed[position]) + _BETWEEN
                self.place(position, self.room)


def _index(items: Sequence[Item], room: int, nonce: str, stale: Stale) -> list[str]:
    """Return the note about items that do not fit; an empty list if there are none.

    Their number, and a list of as many observations as fit.
    """
    observations = [item for item in items if isinstance(item, Observation)]
    claims = len(items) - len(observations)
    counts: list[str] = []
    if observations:
        ids = dict.fromkeys([observations[0].id, observations[-1].id])
        number = _counted(len(observations), "observation")
        counts.append(f"{number} ({' to '.join(ids)})")
    if claims:
        counts.append(_counted(claims, "claim"))
    if not counts:
        return []
    note = f"({' and '.join(counts)} left out)"
    room -= price_in_bytes(note + fence("index", "", nonce)) + _COUNTED // 2
    lines: list[str] = []
    for item in reversed(observations):
        line = index_line(item, stale)
        room -= price_in_bytes(line + "\n")
        if room < 0:
            break
        lines.insert(0, line)
    if not lines:
        return [note]
    unlisted = len(observations) - len(lines)
    if unlisted:
        lines.insert(0, f"[… {unlisted:,} more not listed …]")
    listed = inert("\n".join(lines), nonce)
    return [f"{note}\n{fence('index', listed, nonce)}"]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} older {noun}{'' if number == 1 else 's'}"
