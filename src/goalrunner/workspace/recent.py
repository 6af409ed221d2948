"""A few answers about what never changes. Owns how many are kept: a tree of a large workspace takes megabytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """Answers by the id of what they are about, the `size` that were asked for last."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[str, T] = OrderedDict()

    async def get(self, id_: str, ask: Callable[[str], Awaitable[T]]) -> T:
        """The answer that is kept, or the one that `ask(id_)` gives now. What `ask` raises is not kept."""
        if id_ not in self._kept:
            self._kept[id_] = await ask(id_)
        answer = self._kept[id_]
        self._kept.move_to_end(id_)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return answer

    def forget(self) -> None:
        """Ask again, whatever it is."""
        self._kept.clear()
