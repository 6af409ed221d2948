"""One record as one line: ASCII JSON without a newline. Owns the encoding; writes no file."""

from __future__ import annotations

import json
from typing import Any

from goalrunner.errors import RecordError


def encode(value: Any) -> bytes:
    """A JSON value as a line, without its newline. Lone surrogates become U+FFFD: no reader takes them.

    Raises RecordError for what JSON cannot say, NaN included.
    """
    try:
        return json.dumps(_whole(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"cannot write a record: {error}") from error


def without_surrogates(text: str) -> str:
    """The text with U+FFFD for lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _whole(value: Any) -> Any:
    match value:
        case str():
            return without_surrogates(value)
        case dict():
            return {_whole(key): _whole(item) for key, item in value.items()}
        case list() | tuple():
            return [_whole(item) for item in value]
        case _:
            return value
