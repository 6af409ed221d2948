"""The text of the evidence in the judge's prompt: which observations and claims it contains, and how much of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from goalrunner.core.observation import RESPONSE, Claim, Observation, Trail
from goalrunner.judge.excerpt import (
    TOKEN,
    beginning,
    excerpt,
    fence,
    fenced,
    inert,
    price_in_bytes,
)
from goalrunner.judge.text_matching import LEFT_OUT, folded

Item = Observation | Claim
Stale = Mapping[str, str]
"""The ids of observations that no longer count, each with the reason."""

NOTHING = "(nothing has been observed)"

LEAST = 150 * TOKEN
"""The most that the smallest block costs: the heading, the fences, and a few words of command and output."""

_SOURCE = 20 * TOKEN
_REPORTED_SOURCE, _REPORTER = 8 * TOKEN, 6 * TOKEN
_NAMES = 12 * TOKEN
_FACTS = 35 * TOKEN
_REASON = 25 * TOKEN
_COMMAND = 250 * TOKEN
_LINE = 20 * TOKEN
_CLAIM = 80 * TOKEN
_COUNTED = 60 * TOKEN
_WORTH_GROWING = 100 * TOKEN
_BETWEEN = price_in_bytes("\n\n")
_EDITS = frozenset({"edit_file", "write_file"})
_DIFFS = ("git diff", "git show", "diff ")
_NO_BRACKETS = str.maketrans("()[]<>", "      ")
_COMMA = re.compile(r"\s*,(?!\d)")


def plain_fact(fact: str) -> str:
    """Return a fact on one line that does not look like several facts. "1,234 bytes" keeps its comma."""
    return _COMMA.sub(";", " ".join(without_brackets(fact).split()))


def without_brackets(text: str) -> str:
    """Return a text on one line that cannot look like facts or a heading."""
    # Folding turns full-width brackets into plain ones.
    return folded(text).translate(_NO_BRACKETS)


def shortened_line(text: str, room: int) -> str:
    """Return a text on one line at a price of at most `room`."""
    line = folded(text).encode("utf-8", "replace").decode()
    return (
        line
        if price_in_bytes(line) <= room
        else beginning(line, room - price_in_bytes("…")) + "…"
    )


def deliverable_response(
    trail: Trail, deliverable: Literal["workspace", "response"]
) -> Observation | None:
    """Return the last response if the response is the deliverable, else None."""
    responses = (
        item
        for item in reversed(trail.items)
        if isinstance(item, Observation) and item.source == RESPONSE
    )
    return next(responses, None) if deliverable == "response" else None


def observation_block(
    item: Observation, text: str, room: int, nonce: str, stale: Stale
) -> str:
    """Return an observation with its output `text`, at a price of at most `room`, or of LEAST."""
    parts = [heading(item, stale).replace(nonce, "fence")]
    if item.command:
        parts.append(
            fenced(
                "command",
                item.command,
                min(_COMMAND, (room - price_in_bytes(parts[0])) // 3),
                nonce,
            )
        )
    left = room - price_in_bytes("\n".join([*parts, fence("output", "", nonce)]))
    output = excerpt(text.strip("\r\n"), left, nonce)
    parts.append(fence("output", output, nonce) if output.strip() else "(no output)")
    return "\n".join(parts)


def claim_block(item: Claim, text: str, room: int, nonce: str) -> str:
    """Return a claim of the agent, at a price of at most `room`, or of LEAST."""
    title = f"claim of the agent (round {item.round}), no evidence\n"
    return title + fenced("claim", text.strip(), room - price_in_bytes(title), nonce)


def heading(item: Observation, stale: Stale) -> str:
    """Return the observation's heading on one line. Brackets in names are removed: they could look like facts."""
    parts = [
        f"[{item.id}] {_named(item.source, _REPORTED_SOURCE if item.reported_by else _SOURCE)}"
    ]
    if item.reported_by:
        parts.append(f", reported by {_named(item.reported_by, _REPORTER)}")
    if item.facts:
        parts.append(
            f" ({beginning(', '.join(shortened_line(plain_fact(fact), _FACTS) for fact in item.facts), _FACTS)})"
        )
    if item.names:
        parts.append(f" {shortened_line(' '.join(item.names), _NAMES)}")
    if item.id in stale:
        # A reason may name files, and the agent chooses their names.
        parts.append(
            f" - stale: {_named(stale[item.id], _REASON) or 'something changed after it'}"
        )
    return "".join(parts)


def _named(text: str, room: int) -> str:
    return shortened_line(without_brackets(text), room)


def index_line(item: Observation, stale: Stale) -> str:
    """Return a line for the list of observations that are not shown. Unlike a heading it begins with the bare id."""
    command = f": {shortened_line(item.command, _LINE)}" if item.command else ""
    return f"{heading(item, stale).replace('[', '', 1).replace(']', '', 1)}{command}"


def render_trail(
    trail: Trail,
    *,
    nonce: str,
    room: int,
    deliverable: Literal["workspace", "response"] = "workspace",
    stale: Stale | None = None,
) -> str:
    """Return the trail, oldest first, at a price of at most `room`. The authors of its texts must not know `nonce`.

    Room is given first to the response, the validators' last results, the last change and the last claim; then to the
    rest, newest first. If an item of the rest does not fit, older ones of its kind are left out.
    """
    response = deliverable_response(trail, deliverable)
    items = _shown(trail, response)
    if not items:
        return NOTHING
    view = _View(trail, items, nonce, stale or {}, room)
    # A part of the room is reserved for the list of what is left out.
    index = _COUNTED + room // 8
    view.room -= index
    for at in _important(items, response):
        view.place(at, view.room // 3)
    for kind, most in ((Observation, room), (Claim, _CLAIM)):
        for at in view.newest(kind):
            if at not in view.placed and not view.place(at, min(most, view.room // 8)):
                break
    left_out = _left_out(
        [item for at, item in enumerate(items) if at not in view.placed],
        index,
        nonce,
        view.stale,
    )
    view.room += index - sum(price_in_bytes(block) + _BETWEEN for block in left_out)
    view.grow()
    return "\n\n".join([*left_out, *(view.placed[at] for at in sorted(view.placed))])


def _shown(trail: Trail, response: Observation | None) -> list[Item]:
    """Return the items without earlier responses and without the claim that repeats the response."""
    items = [
        item
        for item in trail.items
        if item is response or isinstance(item, Claim) or item.source != RESPONSE
    ]
    before = items.index(response) - 1 if response is not None else -1
    return [
        item
        for at, item in enumerate(items)
        if at != before or not isinstance(item, Claim)
    ]


def _important(items: Sequence[Item], response: Observation | None) -> list[int]:
    """Return the positions of the items that an audit needs most."""
    results: dict[str, int] = {}
    last: dict[str, int] = {}
    for at, item in enumerate(items):
        if isinstance(item, Claim):
            last["claim"] = at
        elif item is response:
            last["response"] = at
        elif item.source.startswith("validator ") and not item.reported_by:
            results[item.source] = at
        elif item.source in _EDITS or item.command.lstrip().startswith(_DIFFS):
            last["change"] = at
    found = [
        last.get("response"),
        *results.values(),
        last.get("change"),
        last.get("claim"),
    ]
    return [at for at in found if at is not None]


class _View:
    """The blocks that are shown, by their position in the trail, and the room that is left."""

    def __init__(
        self, trail: Trail, items: Sequence[Item], nonce: str, stale: Stale, room: int
    ) -> None:
        self._trail = trail
        self._items = items
        self._nonce = nonce
        self.stale = stale
        self.room = room
        self.placed: dict[int, str] = {}

    def newest(self, kind: type[Item]) -> list[int]:
        """Return the positions of all observations, or of all claims, newest first."""
        return [
            at
            for at in reversed(range(len(self._items)))
            if isinstance(self._items[at], kind)
        ]

    def place(self, at: int, allowance: int) -> bool:
        """Place an item at a price of at most `allowance`, if it fits. Return whether it does."""
        allowance = min(max(allowance, LEAST), self.room - _BETWEEN)
        if allowance <= 0:
            return False
        item = self._items[at]
        text = self._trail.read(item)
        if isinstance(item, Observation):
            block = observation_block(item, text, allowance, self._nonce, self.stale)
        else:
            block = claim_block(item, text, allowance, self._nonce)
        taken = price_in_bytes(block) + _BETWEEN
        if taken > self.room:
            return False
        self.placed[at] = block
        self.room -= taken
        return True

    def grow(self) -> None:
        """Give the rest of the room to shortened blocks, observations first, newest first."""
        for at in self.newest(Observation) + self.newest(Claim):
            if LEFT_OUT.search(self.placed.get(at, "")) and self.room > _WORTH_GROWING:
                self.room += price_in_bytes(self.placed[at]) + _BETWEEN
                self.place(at, self.room)


def _left_out(items: Sequence[Item], room: int, nonce: str, stale: Stale) -> list[str]:
    """Return the note about items that are not shown: their number, and a list of as many observations as fit."""
    observations = [item for item in items if isinstance(item, Observation)]
    counts = []
    if observations:
        ids = dict.fromkeys([observations[0].id, observations[-1].id])
        counts.append(
            f"{_counted(len(observations), 'observation')} ({' to '.join(ids)})"
        )
    if len(items) > len(observations):
        counts.append(_counted(len(items) - len(observations), "claim"))
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
    if more := len(observations) - len(lines):
        lines.insert(0, f"[… {more:,} more not listed …]")
    return [f"{note}\n{fence('index', inert(chr(10).join(lines), nonce), nonce)}"]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} older {noun}{'' if number == 1 else 's'}"
