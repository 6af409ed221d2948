"""Readers of saved transcripts: their base class, and the choice of the reader by content."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

from goalrunner.core.errors import UsageError, nearest, quoted_list
from goalrunner.core.observation import FORGEABLE, Observation, Trail
from goalrunner.core.trail_builder import Deliverable, TrailBuilder
from goalrunner.transcripts.source import HINT, STDIN_NAME, TextStore, TranscriptSource

__all__ = [
    "READER_GROUP",
    "RowReader",
    "SavedTrail",
    "TranscriptReader",
    "check_format",
    "formats",
    "read_transcript",
]

READER_GROUP = "goalrunner.transcripts"
"""The entry-point group in which other packages register readers: modules, or objects like one."""

_RUN = "goal-run"
_BUILT_IN = {
    _RUN: "events:GoalRunReader",
    "claude-code": "chat:ClaudeCodeReader",
    "codex": "trajectories:CodexReader",
    "openhands": "events:OpenHandsReader",
    "openhands-v0": "events:OpenHandsV0Reader",
    "gemini": "chat:GeminiReader",
    "qwen": "chat:QwenReader",
    "opencode": "chat:OpenCodeReader",
    "mini-swe-agent": "trajectories:MiniSweAgentReader",
    "swe-agent": "trajectories:SweAgentReader",
    "atif": "trajectories:AtifReader",
    "acp": "events:AcpReader",
    "inspect": "chat:InspectReader",
    "openai-responses": "trajectories:ResponsesReader",
    "anthropic": "chat:AnthropicReader",
    "openai-chat": "chat:OpenAIChatReader",
}
"""Name of the format -> module and class, in the order of trial. Registered formats are tried before the last."""


_SAMPLED = 64


@dataclass(frozen=True)
class SavedTrail(Trail):
    """The trail of a saved transcript."""

    format: str = ""
    partial: str = ""
    """What is missing in the transcript; empty if nothing is missing. A partial transcript is never judged complete."""

    @property
    def forgeable(self) -> tuple[str, ...]:
        """The ids of observations whose output may be the content of a file that the agent wrote."""
        found = (item for item in self.items if isinstance(item, Observation))
        return tuple(
            item.id
            for item in found
            if any(fact.startswith(FORGEABLE) for fact in item.facts)
        )


class TranscriptReader(Protocol):
    """Reads one transcript of one format."""

    DESCRIPTION: str

    def matches(self, source: TranscriptSource) -> bool:
        """Return whether the first records are of the format."""

    def read(self, source: TranscriptSource, deliverable: Deliverable) -> Trail:
        """Return the trail. Raise UsageError with file and line if it cannot be read."""


class RowReader:
    """Reads one transcript. A subclass recognises the rows of its format and adds each to `trail`."""

    DESCRIPTION: ClassVar[str]
    HAS_PARTS: ClassVar[bool] = False
    """Whether a file may have several conversations, one of which is selected by FILE#NAME."""
    reporter: ClassVar[str] = "the agent"
    fault: ClassVar[str] = "a record of this format"
    """The rest of the message "not ..." for a row that cannot be read."""
    keys: ClassVar[frozenset[str]] = frozenset({""})
    """Members of the outer object whose elements are rows; "" stands for the lines or elements of the file."""

    def __init__(self) -> None:
        texts = TextStore()
        self.trail = TrailBuilder(self.reporter, texts.add, texts.read)

    def matches(self, source: TranscriptSource) -> bool:
        """Return whether one of the first rows is one that only this format has."""
        rows = (record.value for record in source.sample if record.key in self.keys)
        return any(
            isinstance(row, dict) and self.is_typical(row)
            for row in islice(rows, _SAMPLED)
        )

    def is_typical(self, row: dict[str, Any]) -> bool:
        """Return whether only this format has such a row."""
        return self.is_valid(row)

    def is_valid(self, row: Any) -> bool:
        """Return whether a row can be read."""
        raise NotImplementedError

    def read(self, source: TranscriptSource, deliverable: Deliverable) -> Trail:
        """Return the trail. Raise UsageError with the place if a row cannot be read."""
        for row in self.rows(source):
            if not self.is_valid(row):
                raise source.here(f"not {self.fault}")
            self.add(row)
        self.end()
        return self.trail.finish(deliverable)

    def rows(self, source: TranscriptSource) -> Iterator[Any]:
        """Yield the rows of the transcript."""
        return (record.value for record in source.records() if record.key in self.keys)

    def add(self, row: Any) -> None:
        """Add a valid row to the trail."""
        raise NotImplementedError

    def end(self) -> None:
        """Add what is left after the last row."""


def read_transcript(
    path: Path | str,
    *,
    deliverable: Deliverable = "workspace",
    format: str | None = None,  # noqa: A002 - the name of the option
) -> SavedTrail:
    """Return the trail of a saved transcript, of a run's folder, or of standard input ("-").

    Without `format`, it is recognised by the content. One conversation of a file with several is `FILE#NAME`. Raise
    UsageError with file, line and format; RecordError if a run's own log or artifacts are damaged.
    """
    source = _source(path)
    name, reader = _chosen(source, format)
    if source.part and not getattr(reader, "HAS_PARTS", False):
        raise source.error(
            f"a transcript of the format {name} has one conversation, so #{source.part} names none"
        )
    try:
        trail = reader.read(source, deliverable)
        if not trail.items and name != _RUN:
            raise source.error(
                "the transcript contains nothing that an agent did or said"
            )
    except (UsageError, RecursionError) as error:
        why = (
            error
            if isinstance(error, UsageError)
            else source.here("the JSON is nested too deeply")
        )
        raise UsageError(
            why.message, f"It was read as {name} ({reader.DESCRIPTION}). {why.hint}"
        ) from None
    return SavedTrail(
        trail.items,
        trail.read,
        trail.said,
        trail.stale,
        format=name,
        partial=source.partial,
    )


def formats() -> list[tuple[str, str]]:
    """Return the name and the description of each format."""
    return [(name, reader.DESCRIPTION) for name, reader in _readers()]


def check_format(path: Path) -> None:
    """Raise UsageError if a file cannot be read or is not a transcript."""
    _chosen(_source(path), None)


def _source(path: Path | str) -> TranscriptSource:
    file, sign, part = str(path).rpartition("#")
    if (
        sign
        and file != STDIN_NAME
        and not os.path.lexists(path)
        and os.path.lexists(file)
    ):
        return TranscriptSource(file, part=part)
    run = Path(path) / "transcript.jsonl"
    return TranscriptSource(run if os.path.lexists(run) else path)


def _chosen(source: TranscriptSource, name: str | None) -> tuple[str, TranscriptReader]:
    if name is not None:
        known = dict(_readers())
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near}?" if near else f"valid: {', '.join(known)}"
            raise UsageError(
                f"{quoted_list([name])} is not a format of transcripts", hint
            )
        return name, known[name]
    for found, reader in _readers():
        if reader.matches(source):
            return found, reader
    raise UsageError(f"{source.name}: the format of this transcript is not known", HINT)


def _readers() -> Iterator[tuple[str, TranscriptReader]]:
    *first, last = _BUILT_IN.items()
    for name, place in first:
        yield name, _built_in(place)
    yield from _registered()
    yield last[0], _built_in(last[1])


def _built_in(place: str) -> TranscriptReader:
    module, name = place.split(":")
    return cast(
        "TranscriptReader",
        getattr(import_module(f"goalrunner.transcripts.{module}"), name)(),
    )


def _registered() -> Iterator[tuple[str, TranscriptReader]]:
    """Yield the readers of other packages. Raise UsageError if one of them cannot be imported."""
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=READER_GROUP), key=lambda point: point.name):
        if point.name not in _BUILT_IN:
            try:
                loaded = point.load()
            except Exception as error:
                hint = f"repair or uninstall the package that registers it in the entry-point group {READER_GROUP}"
                raise UsageError(
                    f"the reader {point.name} cannot be imported from {point.value}: {error}",
                    hint,
                ) from error
            yield point.name, loaded
