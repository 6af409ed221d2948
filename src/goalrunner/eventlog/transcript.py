"""The chat of a run, whole: one message a line. Owns offsets and hashes; interprets no message."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from goalrunner.errors import RecordError
from goalrunner.eventlog.append import AppendFile
from goalrunner.eventlog.line import encode
from goalrunner.model.observation import TranscriptRef
from goalrunner.ports import Message
from goalrunner.redaction import Redactor


class TranscriptFile:
    """The port `Transcript` over a file, secrets replaced. The run's log holds the lock for it. Raises RecordError."""

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self._redactor = redactor
        self._file = AppendFile(path)

    def append(self, message: Message) -> TranscriptRef:
        """Write one message durably and say where it stands."""
        line = encode(self._redactor.json(dict(message)))
        offset = self._file.append(line)
        return TranscriptRef(offset=offset, length=len(line), sha256=hashlib.sha256(line).hexdigest())

    def read(self, ref: TranscriptRef) -> Message:
        """Read one message back. Raises RecordError when it is not what was written."""
        return _checked(self._file.read(ref.offset, ref.length), ref, self._file.path)

    def close(self) -> None:
        """Give the file back; closing twice does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_message(path: Path, ref: TranscriptRef) -> Message:
    """One message of a transcript that nobody writes. Raises RecordError when it is not what was written."""
    try:
        with path.open("rb") as file:
            file.seek(ref.offset)
            line = file.read(ref.length)
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error
    return _checked(line, ref, path)


def read_messages(path: Path) -> Iterator[Message]:
    """Every message of a transcript in order; half a line at its end does not count. Raises RecordError for damage."""
    offset = 0
    try:
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield _message(line, offset, path)
                offset += len(line)
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error


def _checked(line: bytes, ref: TranscriptRef, path: Path) -> Message:
    if len(line) != ref.length or hashlib.sha256(line).hexdigest() != ref.sha256:
        raise RecordError(f"{path}: the message at byte {ref.offset} is not what was written")
    return _message(line, ref.offset, path)


def _message(line: bytes, offset: int, path: Path) -> Message:
    try:
        message: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: the message at byte {offset} is damaged: {error}") from error
    if not isinstance(message, dict):
        raise RecordError(f"{path}: the message at byte {offset} is damaged: it is no object")
    return message
