"""Which observations the judge sees, and how much of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from goalrunner.core.observation import RESPONSE, Claim, Observation, Trail
from goalrunner.judge.excerpt import LEFT_OUT, TOKEN, price
from goalrunner.judge.rendering import LEAST, claim_block, deliverable_response, index_line, observation_block
from goalrunner.judge.text import fence, readable

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
    """The trail, oldest first, at a price of at most `room`. `nonce` must not be known to whoever wrote the texts."""
    shown = _shown(trail, deliverable)
    if not shown:
        return NOTHING
    view = _View(trail, nonce, stale or {}, room, shown)
    view.give_shares(deliverable_response(trail, deliverable))
    view.fill()
    view.say_what_is_left_out()
    view.grow()
    return view.text()


@dataclass
class _View:
    """The room that is left, and the blocks that were placed in it, by their place in the trail."""

    trail: Trail
    nonce: str
    stale: Mapping[str, str]
    room: int
    items: Sequence[Item]
    _placed: dict[int, str] = field(default_factory=dict)
    _left_out: list[str] = field(default_factory=list)
    _total: int = field(init=False)
    _index: int = field(init=False)

    def __post_init__(self) -> None:
        self._total = self.room
        self._index = _COUNTED + self.room // 8
        self.room -= self._index

    def give_shares(self, response: Observation | None) -> None:
        """Place what an audit rests on."""
        observations = [place for place, item in enumerate(self.items) if isinstance(item, Observation)]
        claims = [place for place, item in enumerate(self.items) if isinstance(item, Claim)]
        if response is not None:
            self._place(self.items.index(response), self._total // 2)
        results = _last_results(self.items)
        share = self._total // 4
        for number, place in enumerate(results):
            share -= self._place(place, share // (len(results) - number))
        changes = [place for place in observations if _shows_a_change(self.items[place])]
        for place in changes[-1:]:
            self._place(place, self._total // 6)
        for place in claims[-1:]:
            self._place(place, self._total // 10)

    def fill(self) -> None:
        """Place the rest: observations from the newest on, then claims; where one finds no room, no older one does."""
        for kind in (Observation, Claim):
            for place in range(len(self.items) - 1, -1, -1):
                if isinstance(self.items[place], kind) and place not in self._placed:
                    self._place(place, max(LEAST, self._allowance(self.items[place])))
                    if place not in self._placed:
                        break

    def say_what_is_left_out(self) -> None:
        """Spend what is kept for it on the list of those that found no room; the rest of it is free again."""
        left = [item for place, item in enumerate(self.items) if place not in self._placed]
        self._left_out = _left_out(left, self._index, self.nonce, self.stale)
        self.room += self._index - sum(price(block) + _BETWEEN for block in self._left_out)

    def grow(self) -> None:
        """Give what is left to those that were cut: fresh ones before stale ones, the newest first."""
        places = sorted(self._placed, reverse=True)
        for place in sorted(places, key=lambda place: self._is_claim(place) or self._is_stale(place)):
            block = self._placed[place]
            if LEFT_OUT.search(block) and self.room > _WORTH_GROWING:
                del self._placed[place]
                self.room += price(block) + _BETWEEN
                if not self._place(place, self.room):
                    self._placed[place] = block
                    self.room -= price(block) + _BETWEEN

    def _is_claim(self, place: int) -> bool:
        return isinstance(self.items[place], Claim)

    def _is_stale(self, place: int) -> bool:
        item = self.items[place]
        return isinstance(item, Observation) and item.id in self.stale

    def text(self) -> str:
        """The blocks in their order, after what was left out."""
        return "\n\n".join([*self._left_out, *(self._placed[place] for place in sorted(self._placed))])

    def _allowance(self, item: Item) -> int:
        if isinstance(item, Claim):
            return min(_LONGEST_CLAIM, self.room // 4)
        return min(self.room // 8, self._total // 16 if item.id in self.stale else self._total)

    def _place(self, place: int, allowance: int) -> int:
        """Place an item where there is room; gives what it took."""
        allowance = min(max(allowance, LEAST), self.room - _BETWEEN)
        if place in self._placed or allowance <= 0:
            return 0
        item = self.items[place]
        text = self.trail.read(item)
        if isinstance(item, Observation):
            block = observation_block(item, text, allowance, self.nonce, self.stale)
        else:
            block = claim_block(item, text, allowance, self.nonce)
        taken = price(block) + _BETWEEN
        if taken > self.room:
            return 0
        self._placed[place] = block
        self.room -= taken
        return taken


def _shown(trail: Trail, deliverable: Literal["workspace", "response"]) -> list[Item]:
    """Without earlier responses, which are neither evidence nor what is judged, and the response said twice."""
    response = deliverable_response(trail, deliverable)
    said = readable(trail.read(response)).strip() if response else None
    return [
        item
        for item in trail.items
        if item is response
        or (isinstance(item, Observation) and item.source != RESPONSE)
        or (isinstance(item, Claim) and (said is None or readable(trail.read(item)).strip() != said))
    ]


def _last_results(items: Sequence[Item]) -> list[int]:
    """The places of the validators' last results, each validator's once."""
    last = {
        item.source: place
        for place, item in enumerate(items)
        if isinstance(item, Observation) and item.source.startswith("validator ") and not item.reported_by
    }
    return sorted(last.values())


def _shows_a_change(item: Item) -> bool:
    return isinstance(item, Observation) and (item.source in _EDITS or item.command.lstrip().startswith(_DIFFS))


def _left_out(items: Sequence[Item], room: int, nonce: str, stale: Mapping[str, str]) -> list[str]:
    """What is said of the items that are not shown: how many, and the observations by id as far as there is room."""
    observations = [item for item in items if isinstance(item, Observation)]
    claims = len(items) - len(observations)
    counts = [_counted(len(observations), "observation") + _range(observations)] if observations else []
    counts += [_counted(claims, "claim")] if claims else []
    if not counts:
        return []
    said = f"({' and '.join(counts)} left out)"
    room -= price(said + fence("index", "", nonce)) + _COUNTED // 2
    listed: list[Observation] = []
    newest = observations[::-1]
    for item in sorted(newest, key=lambda item: item.id in stale):
        room -= price(index_line(item, stale) + "\n")
        if room < 0:
            break
        listed.append(item)
    if not listed:
        return [said]
    more = len(observations) - len(listed)
    lines = [f"[… {more:,} more not listed …]"] if more else []
    known = {item.id for item in listed}
    lines += [index_line(item, stale) for item in observations if item.id in known]
    return [f"{said}\n{fence('index', chr(10).join(lines), nonce)}"]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} older {noun}{'' if number == 1 else 's'}"


def _range(items: Sequence[Observation]) -> str:
    return f" ({items[0].id})" if len(items) == 1 else f" ({items[0].id} to {items[-1].id})"
