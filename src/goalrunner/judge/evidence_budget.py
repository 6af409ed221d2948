"""Which observations the judge sees, and how much of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from goalrunner.core.observation import RESPONSE, Claim, Observation, Trail
from goalrunner.judge.excerpt import TOKEN, fence, price
from goalrunner.judge.rendering import LEAST, claim_block, deliverable_response, index_line, observation_block
from goalrunner.judge.text_matching import LEFT_OUT, readable

Item = Observation | Claim

NOTHING = "(nothing has been observed)"

_BETWEEN = price("\n\n")
_LONGEST_CLAIM = 80 * TOKEN
_COUNTED = 60 * TOKEN
_WORTH_GROWING = 100 * TOKEN
_EDITS = frozenset({"edit_file", "write_file"})
_DIFFS = ("git diff", "git show", "diff ")


def render_trail(
    trail: Trail,
    *,
    nonce: str,
    room: int,
    deliverable: Literal["workspace", "response"] = "workspace",
    stale: Mapping[str, str] | None = None,
) -> str:
    """Return the trail, oldest first, at a price of at most `room`. The authors of its texts must not know `nonce`.

    What an audit needs most comes first: the response, the validators' last results, the last change, the last claim; then
    the rest, newest first. No item is shown that is older than one for which there is no room.
    """
    response = deliverable_response(trail, deliverable)
    items = _shown(trail, response)
    if not items:
        return NOTHING
    view = _View(trail, items, nonce, stale or {}, room)
    # A part of the room is reserved for the list of what is left out.
    index = _COUNTED + room // 8
    view.room -= index
    observations = [at for at, item in enumerate(items) if isinstance(item, Observation)]
    claims = [at for at, item in enumerate(items) if isinstance(item, Claim)]
    for at, allowance in _shares(items, response, room):
        view.place(at, allowance)
    for rest in (observations, claims):
        for at in reversed(rest):
            if at not in view.placed and not view.place(at, max(LEAST, view.allowance(items[at]))):
                break
    left_out = _left_out([item for at, item in enumerate(items) if at not in view.placed], index, nonce, view.stale)
    view.room += index - sum(price(block) + _BETWEEN for block in left_out)
    view.grow()
    return "\n\n".join([*left_out, *(view.placed[at] for at in sorted(view.placed))])


def _shown(trail: Trail, response: Observation | None) -> list[Item]:
    """Return the items without earlier responses and without the claim that repeats the response."""
    repeated = readable(trail.read(response)).strip() if response else None
    shown: list[Item] = []
    for item in trail.items:
        if isinstance(item, Observation):
            is_shown = item is response or item.source != RESPONSE
        else:
            is_shown = repeated is None or readable(trail.read(item)).strip() != repeated
        shown += [item] if is_shown else []
    return shown


def _shares(items: Sequence[Item], response: Observation | None, room: int) -> list[tuple[int, int]]:
    """Return the positions of the items that an audit needs most, each with its share of the room."""
    results: dict[str, int] = {}
    change = claim = found = None
    for at, item in enumerate(items):
        if isinstance(item, Claim):
            claim = at
        elif item is response:
            found = at
        elif item.source.startswith("validator ") and not item.reported_by:
            results[item.source] = at
        elif item.source in _EDITS or item.command.lstrip().startswith(_DIFFS):
            change = at
    each = room // 4 // max(1, len(results))
    shares = [
        (found, room // 2),
        *((at, each) for at in sorted(results.values())),
        (change, room // 6),
        (claim, room // 10),
    ]
    return [(at, share) for at, share in shares if at is not None]


class _View:
    """The room that is left, and the blocks in it by their place in the trail."""

    def __init__(self, trail: Trail, items: Sequence[Item], nonce: str, stale: Mapping[str, str], room: int) -> None:
        self._trail = trail
        self._items = items
        self._nonce = nonce
        self._total = room
        self.stale = stale
        self.room = room
        self.placed: dict[int, str] = {}

    def allowance(self, item: Item) -> int:
        """Return the most that an item may take of the rest of the room."""
        if isinstance(item, Claim):
            return min(_LONGEST_CLAIM, self.room // 4)
        return min(self.room // 8, self._total // 16 if item.id in self.stale else self._total)

    def place(self, at: int, allowance: int) -> bool:
        """Place an item if there is room; return whether there is."""
        allowance = min(max(allowance, LEAST), self.room - _BETWEEN)
        item = self._items[at]
        text = self._trail.read(item) if allowance > 0 else ""
        if isinstance(item, Observation):
            block = observation_block(item, text, allowance, self._nonce, self.stale)
        else:
            block = claim_block(item, text, allowance, self._nonce)
        taken = price(block) + _BETWEEN
        if allowance <= 0 or taken > self.room:
            return False
        self.placed[at] = block
        self.room -= taken
        return True

    def grow(self) -> None:
        """Give the rest of the room to shortened blocks, newest first; claims and stale observations come last."""

        def is_minor(at: int) -> bool:
            item = self._items[at]
            return isinstance(item, Claim) or item.id in self.stale

        for at in sorted(sorted(self.placed, reverse=True), key=is_minor):
            if LEFT_OUT.search(self.placed[at]) and self.room > _WORTH_GROWING:
                self.room += price(self.placed[at]) + _BETWEEN
                self.place(at, self.room)


def _left_out(items: Sequence[Item], room: int, nonce: str, stale: Mapping[str, str]) -> list[str]:
    """Return the note about items that are not shown: how many, and as many observations by id as there is room for."""
    observations = [item for item in items if isinstance(item, Observation)]
    claims = len(items) - len(observations)
    counts = []
    if observations:
        first, last = observations[0].id, observations[-1].id
        counts.append(
            f"{_counted(len(observations), 'observation')} ({first if first == last else f'{first} to {last}'})"
        )
    if claims:
        counts.append(_counted(claims, "claim"))
    if not counts:
        return []
    note = f"({' and '.join(counts)} left out)"
    room -= price(note + fence("index", "", nonce)) + _COUNTED // 2
    listed: set[str] = set()
    for item in sorted(observations, key=lambda item: (item.id in stale, -int(item.id[1:]))):
        room -= price(index_line(item, stale) + "\n")
        if room < 0:
            break
        listed.add(item.id)
    if not listed:
        return [note]
    more = len(observations) - len(listed)
    lines = [f"[… {more:,} more not listed …]"] if more else []
    lines += [index_line(item, stale) for item in observations if item.id in listed]
    return [f"{note}\n{fence('index', chr(10).join(lines), nonce)}"]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} older {noun}{'' if number == 1 else 's'}"
