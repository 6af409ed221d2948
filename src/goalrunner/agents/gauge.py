"""How full a model's context window is, learnt from what its provider counts. Pure; shortens nothing."""

from __future__ import annotations

FULL, AFTERWARDS = 0.9, 0.6
"""Parts of the window: shortened at the one, down to the other, so that it happens seldom."""

_LONGEST_ANSWER = 8_000
"""Tokens that are left free for the answer, or a quarter of a small window."""

_TELLING = 1_000
"""Characters below which a chat says little of how many tokens one is."""


class Gauge:
    """Tokens a character, and what follows from it."""

    def __init__(self) -> None:
        self._density: float | None = None

    @property
    def knows(self) -> bool:
        """Whether anything was learnt yet."""
        return self._density is not None

    def weigh(self, characters: int, tokens: int) -> None:
        """Learn from a chat of so many characters, which the provider counted as so many tokens."""
        if tokens and characters > _TELLING:
            self._density = min(max(tokens / characters, 0.1), 2.0)

    def target(self, characters: int, window: int) -> int | None:
        """To how many characters a chat is to be shortened for a window of so many tokens; None: it has room."""
        if self._density is None:
            return None
        room = window - min(_LONGEST_ANSWER, window // 4)
        return int(room * AFTERWARDS / self._density) if characters * self._density > room * FULL else None
