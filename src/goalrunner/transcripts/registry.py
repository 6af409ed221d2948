"""Choosing the reader of a file by its content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from goalrunner.core.errors import UsageError
from goalrunner.core.observation import Trail
from goalrunner.transcripts import goal_run, openai_chat
from goalrunner.transcripts.source import Source

Deliverable = Literal["workspace", "response"]


@dataclass(frozen=True)
class Format:
    """A kind of transcript: what people call it, whether a file is of it, and how it is read."""

    name: str
    recognises: Callable[[Source], bool]
    read: Callable[[Source, Deliverable], Trail]


FORMATS: tuple[Format, ...] = (
    Format(goal_run.NAME, goal_run.recognises, goal_run.read),
    Format(openai_chat.NAME, openai_chat.recognises, openai_chat.read),
)
"""Tried in this order; the first that recognises a file reads it, and what it cannot read is an error."""


def read_transcript(path: Path | str, *, deliverable: Deliverable = "workspace") -> Trail:
    """The trail of a saved transcript, or of a run's folder.

    Raises UsageError, naming file, line and the formats that are understood; RecordError where a run's own log or
    artifacts are damaged.
    """
    path = Path(path)
    source = Source(path / "transcript.jsonl" if path.is_dir() else path)
    return _format(source).read(source, deliverable)


def check_format(path: Path) -> None:
    """Look whether a file is a transcript at all. Raises UsageError where it cannot be read or its format is not known."""
    _format(Source(path))


def _format(source: Source) -> Format:
    if not source.is_binary:
        for known in FORMATS:
            if known.recognises(source):
                return known
    names = "; ".join(known.name for known in FORMATS)
    raise UsageError(f"{source.path}: the format of this transcript is not known", f"Understood are: {names}.")
