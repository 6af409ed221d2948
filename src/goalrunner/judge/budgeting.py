"""How much of a model's context a text takes, and who gets how much of it. Owns the estimate and the shares; cuts by them.

The estimate needs no tokenizer. Every byte has a price by its kind, so that prices add up exactly: the parts of a prompt
never cost more together than one by one. Against the tokenizers of GPT-4 and GPT-4o it is 10 to 20 % high on prose,
code, diffs and test output, about right on listings of files, twice too high on Chinese and Cyrillic, and too low, by
as much as half, on hashes and base64.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

TOKEN = 20
"""The price of one token. Prices are whole numbers: twentieths of a token."""

LEAST_EVIDENCE = 500
"""Tokens that the evidence needs beside the goal; with less an audit makes no sense."""

OVERHEAD = 20
"""Tokens for what a provider puts around the two messages."""

SECOND_LOOK = 2
"""What a judge that asks for whole observations gets for them: this many times the tokens of the prompt itself."""

CHEAPEST = 5
"""Price of the cheapest character."""


def _price(byte: int) -> int:
    if byte >= 0xF0:
        return 20  # the first of four: emoji and rare signs, some 2.5 tokens
    if byte >= 0x80:
        return 10
    character = chr(byte)
    if character.islower() or character == " ":
        return CHEAPEST
    if character.isupper():
        return 8
    return 12 if character.isdigit() else 10 if character == "\n" else 13


_PRICES = bytes(_price(byte) for byte in range(256))


def price(text: str) -> int:
    """What a text takes, in twentieths of a token. The price of two texts together is the sum of theirs."""
    return sum(_priced(text))


def tokens(text: str) -> int:
    """What a text takes, in tokens, rounded up."""
    return -(-price(text) // TOKEN)


def beginning(text: str, room: int) -> str:
    """The longest beginning that costs at most `room`."""
    within = text[: max(0, room) // CHEAPEST]
    data = within.encode("utf-8", "replace")
    kept = bisect_right(list(accumulate(data.translate(_PRICES))), room)
    return within[: len(data[:kept].decode("utf-8", "ignore"))]


def ending(text: str, room: int) -> str:
    """The longest ending that costs at most `room`."""
    longest = max(0, room) // CHEAPEST
    within = text[len(text) - longest :] if longest < len(text) else text
    data = within.encode("utf-8", "replace")
    kept = bisect_right(list(accumulate(reversed(data.translate(_PRICES)))), room)
    count = len(data[len(data) - kept :].decode("utf-8", "ignore"))
    return within[len(within) - count :]


def _priced(text: str) -> bytes:
    return text.encode("utf-8", "replace").translate(_PRICES)
