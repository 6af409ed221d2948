"""Reading the output of an agent as events, by rules over its JSON lines."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from goalrunner.agents.stream_events import (
    Broke,
    Called,
    Happening,
    Lines,
    Noise,
    Piece,
    Reported,
    Returned,
    Said,
    SessionNamed,
)
from goalrunner.core.agent_preset import Preset, StreamRule

_HALF: Final = re.compile("[\ud800-\udfff]")
_LARGEST: Final = 10**15
"""No honest count of tokens is larger."""


class _Missing:
    pass


MISSING: Final = _Missing()


def found(value: Any, path: str) -> Any:
    """What stands at the path, MISSING where nothing does. A number names an item of a list; "" is the value itself."""
    for key in path.split(".") if path else ():
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isascii() and key.isdigit() and len(key) < 7 and int(key) < len(value):
            value = value[int(key)]
        else:
            return MISSING
    return value


def first(value: Any, paths: Iterable[str]) -> Any:
    """The first of several that is there and says something; MISSING where none is."""
    values = (found(value, path) for path in paths)
    return next((one for one in values if one is not MISSING and one is not None), MISSING)


def holds(value: Any, conditions: Mapping[str, str | int | bool | tuple[str, ...]]) -> bool:
    """Whether each path has the value that is wanted, or one of several. True is not 1."""
    return all(_is(found(value, path), wanted) for path, wanted in conditions.items())


def _is(value: Any, wanted: str | int | bool | tuple[str, ...]) -> bool:
    options = wanted if isinstance(wanted, tuple) else (wanted,)
    return any(type(value) is type(option) and value == option for option in options)


def text_at(value: Any, paths: Iterable[str]) -> str:
    """What is found as text that can be encoded; blocks of text are joined, other things written as JSON; else ""."""
    return _text(first(value, paths))


def _text(value: Any) -> str:
    if value is MISSING:
        return ""
    if isinstance(value, list) and value and all(isinstance(found(block, "text"), str) for block in value):
        value = "\n".join(block["text"] for block in value)
    return clean(value) if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    """A value that was read from JSON as JSON again; empty for one that is nested too deep to be written."""
    try:
        return clean(json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError):
        return ""


def clean(text: str) -> str:
    """The text without halves of characters, which nothing could write."""
    # Searched, and not encoded and decoded: a text may be of 64 MB.
    return text if text.isascii() or _HALF.search(text) is None else _HALF.sub("?", text)


def count_at(value: Any, paths: Iterable[str]) -> int:
    """A count, 0 where there is none."""
    return int(_number(first(value, paths)) or 0)


def total_at(value: Any, paths: Iterable[str]) -> int:
    """The sum of what stands at all the paths."""
    return sum(int(_number(found(value, path)) or 0) for path in paths)


def dollars_at(value: Any, paths: Iterable[str]) -> float | None:
    """An amount; None where there is none."""
    return _number(first(value, paths))


def exit_code_at(value: Any, paths: Iterable[str]) -> int | None:
    """An exit code; None where there is none."""
    code = first(value, paths)
    return code if type(code) is int and -_LARGEST < code < _LARGEST else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value <= _LARGEST else None  # which NaN is not, nor infinity


_NOISE = 2_000
"""Characters of a line that is not understood that are looked at."""


class Stream(Protocol):
    """Makes happenings of output."""

    def feed(self, piece: bytes) -> Iterator[Happening]:
        """What more of the output says."""
        ...

    def end(self) -> Iterator[Happening]:
        """What was still open when it ended."""
        ...


def stream_of(preset: Preset) -> Stream:
    """The reader for an agent's output."""
    return JsonStream(preset) if preset.stream == "json" else TextStream()


class TextStream:
    """Everything is the agent's text."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes) -> Iterator[Happening]:
        """One piece."""
        text = self._decoder.decode(piece)
        if text:
            yield Piece(text)

    def end(self) -> Iterator[Happening]:
        """A character that was cut."""
        rest = self._decoder.decode(b"", final=True)
        if rest:
            yield Piece(rest)


class JsonStream:
    """A JSON object a line, read by the rules of a preset. What no rule knows is passed over."""

    def __init__(self, preset: Preset) -> None:
        self._rules = preset.rules
        self._named_after = preset.session_after.strip()
        self._tells_cost = any("cost" in rule.fields for rule in preset.rules if rule.kind == "usage")
        self._lines = Lines()

    def feed(self, piece: bytes) -> Iterator[Happening]:
        """The happenings of each whole line."""
        # A line has no name here, and what it held has none when the next one is read: either may be of 64 MB.
        for value in map(self._value, self._lines.feed(piece)):
            yield from self._happenings(value)
            del value

    def end(self) -> Iterator[Happening]:
        """A last line without its newline."""
        for value in map(self._value, self._lines.end()):
            yield from self._happenings(value)

    def _value(self, line: str | None) -> dict[str, Any] | Noise | SessionNamed | None:
        """What one line holds, nothing of an empty one; None is one that was too long."""
        if line is None:
            return Noise(f"[a line of more than {self._lines.longest // 1_000_000} MB was passed over]")
        said = line.strip("\ufeff\0 \t\r\n")
        if not said:
            return None
        value = _object(said)
        return self._words(clean(said[:_NOISE])) if value is None else value

    def _happenings(self, value: dict[str, Any] | Noise | SessionNamed | None) -> Iterator[Happening]:
        match value:
            case Noise() | SessionNamed():
                yield value
            case dict():
                for rule in self._rules:
                    yield from self._apply(rule, value)

    def _words(self, said: str) -> Noise | SessionNamed:
        """A line that is no JSON: noise, but where the session is named in words."""
        after = said.removeprefix(self._named_after).split() if said.startswith(self._named_after) else []
        return SessionNamed(after[0]) if self._named_after and after else Noise(said)

    def _apply(self, rule: StreamRule, line: dict[str, Any]) -> Iterator[Happening]:
        if not holds(line, rule.when):
            return
        if not rule.each:
            items: list[Any] = [line]
        else:
            listed = found(line, rule.each)
            items = listed if isinstance(listed, list) else [listed] if isinstance(listed, dict) else []
        for item in items:
            if holds(item, rule.where):
                happening = self._happening(rule, item, line)
                if happening is not None:
                    yield happening

    def _happening(self, rule: StreamRule, item: Any, line: dict[str, Any]) -> Happening | None:
        fields = rule.fields
        text = {name: text_at(item, fields[name]) for name in fields if name in _TEXTS}
        match rule.kind:
            case "session":
                return SessionNamed(text["id"]) if text.get("id") else None
            case "text":
                return Said(text["text"]) if text.get("text") else None
            case "delta":
                return Piece(text["text"]) if text.get("text") else None
            case "call":
                return Called(text.get("id", ""), text.get("tool", ""), text.get("command", ""))
            case "result":
                return Returned(
                    id=text.get("id", ""),
                    output=text.get("output", ""),
                    exit_code=exit_code_at(item, fields.get("exit_code", ())),
                    failed=_truth(first(item, fields.get("failed", ()))),
                    tool=text.get("tool", ""),
                    command=text.get("command", ""),
                )
            case "usage":
                return self._reported(rule, item)
            case "error":
                return Broke(text.get("message", "") or as_json(line)[:_NOISE], rule.ends)

    def _reported(self, rule: StreamRule, item: Any) -> Reported | None:
        fields = rule.fields
        if all(first(item, paths) is MISSING for paths in fields.values()):
            return None
        # Where another line tells the dollars, this one adds none; where none does, they are unknown.
        elsewhere = self._tells_cost and "cost" not in fields
        return Reported(
            input=count_at(item, fields.get("input", ())) + total_at(item, fields.get("cached", ())),
            output=count_at(item, fields.get("output", ())),
            cost=0.0 if elsewhere else dollars_at(item, fields.get("cost", ())),
            cumulative=rule.cumulative,
            tokens=bool({"input", "output", "cached"} & fields.keys()),
            dollars=not elsewhere,
        )


_TEXTS = frozenset({"id", "text", "tool", "command", "output", "message"})


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _truth(value: Any) -> bool:
    """Whether a flag says that something failed: true, or a word for it."""
    if isinstance(value, str):
        return value.lower() in ("true", "error", "failed", "failure", "cancelled", "canceled")
    return value is not MISSING and value is not None and bool(value)
