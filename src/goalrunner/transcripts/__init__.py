"""Readers of saved transcripts, one class for each format.

`source` finds the JSON records of a file, folder or pipe, and `row_reader` has the base
class of the readers. The other modules are named for the program or the API whose
transcripts they read; `agent_streams` reads what agents print in runs, by the parsers
of `goalrunner.agents`. A new format: a subclass of `RowReader` in a module named for
its program, and a row in `format_table`; another package registers its reader in the
entry-point group `goalrunner.transcripts`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from goalrunner.core.errors import UsageError, nearest, quoted_list
from goalrunner.core.observation import FORGEABLE, Observation, Trail
from goalrunner.core.trail_builder import Deliverable
from goalrunner.transcripts.agent_streams import registered_stream_readers
from goalrunner.transcripts.format_table import BUILT_IN, GOAL_RUN, nearest_formats
from goalrunner.transcripts.source import HINT, STDIN_NAME, TranscriptSource

__all__ = [
    "READER_GROUP",
    "NoTranscript",
    "SavedTrail",
    "TranscriptReader",
    "check_format",
    "formats",
    "read_transcript",
    "reason_to_skip",
]

READER_GROUP = "goalrunner.transcripts"
"""The entry-point group in which other packages register readers."""


class NoTranscript(UsageError):
    """JSON of no known format, or one in which an agent neither did nor said anything.

    In a folder, such a file is not a damaged transcript.
    """


@dataclass(frozen=True)
class SavedTrail(Trail):
    """The trail of a saved transcript."""

    format: str = ""
    partial: str = ""
    """What is missing in the transcript; empty if nothing is missing.

    A partial transcript is never judged complete.
    """

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is doubtful about the transcript as a whole, in words."""
        return (_no_results(self.unanswered),) if self.unanswered else ()

    @property
    def forgeable(self) -> tuple[str, ...]:
        """The ids of observations that may print a file that the agent wrote."""
        identifiers = []
        for item in self.items:
            if not isinstance(item, Observation):
                continue
            if any(fact.startswith(FORGEABLE) for fact in item.facts):
                identifiers.append(item.id)
        return tuple(identifiers)


class TranscriptReader(Protocol):
    """Reads one transcript of one format."""

    @property
    def DESCRIPTION(self) -> str:  # noqa: N802 - a constant of most readers
        """The format in a few words."""

    def matches(self, source: TranscriptSource) -> bool:
        """Return whether the first records are of the format."""

    def read(self, source: TranscriptSource, deliverable: Deliverable) -> Trail:
        """Return the trail. Raise UsageError with file and line on invalid records."""


def read_transcript(
    path: Path | str,
    *,
    deliverable: Deliverable = "workspace",
    format: str | None = None,  # noqa: A002 - the name of the option
) -> SavedTrail:
    """Return the trail of a saved transcript, a run's folder or standard input ("-").

    Without `format`, it is recognised by the content. `FILE#NAME` selects one
    conversation of a file with several. Raise UsageError with file, line and format;
    RecordError if a run's own log or artifacts are damaged.

    >>> import json
    >>> from pathlib import Path
    >>> from goalrunner import read_transcript
    >>> chat = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    >>> written = Path("chat.json").write_text(json.dumps(chat))
    >>> read_transcript("chat.json").format
    'openai-chat'
    """
    source = _source(path)
    name, reader = _choose_reader(source, format)
    if source.part and not getattr(reader, "HAS_PARTS", False):
        raise source.error(
            f"a transcript of the format {name} has one conversation, "
            f"so #{source.part} names none"
        )
    trail = _read(source, name, reader, deliverable)
    return SavedTrail(
        items=trail.items,
        read=trail.read,
        said=trail.said,
        stale=trail.stale,
        unanswered=trail.unanswered,
        format=name,
        # Known only now: the source finds what it lacks while it is read.
        partial=source.partial,
    )


def _read(
    source: TranscriptSource,
    name: str,
    reader: TranscriptReader,
    deliverable: Deliverable,
) -> Trail:
    """Return the trail of one reader; its errors name the format."""
    try:
        trail = reader.read(source, deliverable)
    except UsageError as error:
        failure = error
    except RecursionError:
        failure = source.error_here("the JSON is nested too deeply")
    else:
        # A run that was stopped before its first round has an empty transcript.
        if trail.items or name == GOAL_RUN:
            return trail
        reasons = ["the transcript contains nothing that an agent did or said"]
        if trail.unanswered:
            reasons.append(_no_results(trail.unanswered))
        if source.partial:
            reasons.append(source.partial)
        message = f"{source.name}  {'; '.join(reasons)}"
        # What is missing in a damaged file may be what the agent did.
        is_whole = len(reasons) == 1
        error_class = NoTranscript if is_whole else UsageError
        failure = error_class(message, HINT)
    # The format may have been recognised wrongly, which explains the error.
    hint = f"It was read as {name} ({reader.DESCRIPTION}). {failure.hint}"
    raise type(failure)(failure.message, hint) from None


def _no_results(calls: int) -> str:
    noun = "call" if calls == 1 else "calls"
    return f"{calls:,} {noun}, 0 results read: the transcript may not contain them"


def formats() -> list[tuple[str, str]]:
    """Return the name and the description of each format."""
    return [(name, reader.DESCRIPTION) for name, reader in _readers()]


def check_format(path: Path) -> None:
    """Raise UsageError if a file cannot be read or is not a transcript."""
    _choose_reader(_source(path), None)


def reason_to_skip(path: Path) -> str:
    """Return why a file in a folder is not a transcript of its own; empty if it is one.

    A file that is damaged is one: its audit says what is wrong.
    """
    source = _source(path)
    try:
        _, reader = _choose_reader(source, None)
    except NoTranscript:
        return "the format is not known"
    except UsageError:
        return ""
    find_parent = getattr(reader, "parent_session", None)
    parent = find_parent(source) if find_parent else ""
    return f"a sub-agent of the session {parent}" if parent else ""


def _source(path: Path | str) -> TranscriptSource:
    file, sign, part = str(path).rpartition("#")
    # The name of a file may contain the sign; an existing file wins.
    names_part = sign and file != STDIN_NAME and not os.path.lexists(path)
    if names_part and os.path.lexists(file):
        return TranscriptSource(file, part=part)
    run_transcript = Path(path) / "transcript.jsonl"
    if os.path.lexists(run_transcript):
        return TranscriptSource(run_transcript)
    return TranscriptSource(path)


def _choose_reader(
    source: TranscriptSource, name: str | None
) -> tuple[str, TranscriptReader]:
    """Return the format of this name, or the first one that matches the source."""
    if name is not None:
        return name, _reader_named(name)
    for format_name, reader in _readers():
        if reader.matches(source):
            return format_name, reader
    names = nearest_formats(source)
    hint = f"The nearest formats are {', '.join(names)}. {HINT}" if names else HINT
    message = f"{source.name}: the format of this transcript is not known"
    # What is not JSON at all may be a transcript that was overwritten.
    error_class = NoTranscript if source.sample else UsageError
    raise error_class(message, hint)


def _reader_named(name: str) -> TranscriptReader:
    for entry in BUILT_IN:
        if entry.name == name:
            return _built_in(entry.reader)
    # Finding the readers of other packages takes long.
    readers = dict(_readers())
    if name in readers:
        return readers[name]
    similar = nearest(name, readers)
    valid = ", ".join(readers)
    hint = f"did you mean {similar}?" if similar else f"valid: {valid}"
    raise UsageError(f"{quoted_list([name])} is not a format of transcripts", hint)


def _readers() -> Iterator[tuple[str, TranscriptReader]]:
    *specific, general = BUILT_IN
    for entry in specific:
        yield entry.name, _built_in(entry.reader)
    yield from _registered()
    yield from registered_stream_readers()
    yield general.name, _built_in(general.reader)


def _built_in(class_path: str) -> TranscriptReader:
    module_name, class_name = class_path.split(":")
    module = import_module(f"goalrunner.transcripts.{module_name}")
    return cast("TranscriptReader", getattr(module, class_name)())


def _registered() -> Iterator[tuple[str, TranscriptReader]]:
    """Yield the readers of other packages. Raise UsageError on a failed import."""
    # Slow to import, and not needed if a built-in reader matches.
    from importlib.metadata import entry_points

    built_in_names = {entry.name for entry in BUILT_IN}
    for point in sorted(entry_points(group=READER_GROUP), key=lambda point: point.name):
        if point.name in built_in_names:
            continue
        try:
            reader = point.load()
        # Importing a package of someone else can raise anything.
        except Exception as error:
            raise UsageError(
                f"the reader {point.name} cannot be imported from {point.value}: "
                f"{error}",
                "repair or uninstall the package that registers it in the "
                f"entry-point group {READER_GROUP}",
            ) from error
        yield point.name, reader
