"""Choosing the reader of a file by its content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from goalrunner.core.errors import UsageError
from goalrunner.core.observation import Trail
from goalrunner.transcripts import goal_run, openai_chat
from goalrunner.transcripts.source import HINT, Deliverable, Source

_Reader = Callable[[Source, Deliverable], Trail]

_FORMATS: tuple[tuple[Callable[[Source], bool], _Reader], ...] = (
    (goal_run.matches, goal_run.read),
    (openai_chat.matches, openai_chat.read),
)
"""The first format that matches a file reads it; what it cannot read is an error."""


def read_transcript(path: Path | str, *, deliverable: Deliverable = "workspace") -> Trail:
    """Return the trail of a saved transcript, or of a run's folder.

    Raise UsageError with file, line and the supported formats; RecordError if a run's own log or artifacts are damaged.
    """
    path = Path(path)
    source = Source(path / "transcript.jsonl" if path.is_dir() else path)
    return _reader(source)(source, deliverable)


def check_format(path: Path) -> None:
    """Raise UsageError if a file cannot be read or is not a transcript."""
    _reader(Source(path))


def _reader(source: Source) -> _Reader:
    if not source.is_binary:
        for matches, read in _FORMATS:
            if matches(source):
                return read
    raise UsageError(f"{source.path}: the format of this transcript is not known", HINT)
