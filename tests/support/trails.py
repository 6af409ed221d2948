"""Trails made by hand: observations and claims with their texts."""

from __future__ import annotations

from typing import Any

from goalrunner.core.observation import Claim, Observation, Trail
from goalrunner.judge.prices import TOKEN, price_in_bytes


def seen(
    number: int,
    output: str,
    *,
    source: str = "shell",
    facts: tuple[str, ...] = (),
    command: str = "",
    round_: int = 1,
    **more: Any,
) -> tuple[Observation, str]:
    """An observation and its output; `more` are other fields of it."""
    return Observation(
        id=f"o{number}",
        source=source,
        facts=facts,
        command=command,
        round=round_,
        **more,
    ), output


def said(text: str, round_: int = 1) -> tuple[Claim, str]:
    """A claim and its text."""
    return Claim(round=round_), text


def trail(*pairs: tuple[Observation | Claim, str]) -> Trail:
    """A trail of them, in order."""
    texts = {id(item): text for item, text in pairs}
    items = tuple(item for item, _ in pairs)

    def read(item: Observation | Claim) -> str:
        # The items are held here as well, so that no identity is ever given twice.
        assert any(item is known for known in items)
        return texts[id(item)]

    return Trail(items=items, read=read)


def tokens(text: str) -> int:
    """The tokens of a text by the judge's estimate, rounded up."""
    return -(-price_in_bytes(text) // TOKEN)
