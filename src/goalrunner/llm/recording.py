"""Recording the replies of a run for a scripted model."""

from __future__ import annotations

import json
import os
import stat
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from goalrunner.core.errors import RecordError, UsageError
from goalrunner.core.events import Account
from goalrunner.llm.transport import Reply


class Tape:
    """A file to which each reply is appended, the agent's and the judge's; each line is on disk when `record` returns.

    `redact` replaces secrets in every text before it is written. The file is opened once, so what is put at its path later,
    such as a link, is never written to. Raises UsageError if the file cannot be created or is not empty.
    """

    def __init__(self, path: Path | str, *, redact: Callable[[str], str] = str) -> None:
        self.path = Path(path)
        self._redact = redact
        self._lock = threading.Lock()
        self._file = self._open()
        weakref.finalize(self, os.close, self._file)

    def record(self, account: Account, reply: Reply) -> None:
        """Append one reply. Raise RecordError if the line cannot be written whole."""
        usage = reply.usage
        line: dict[str, Any] = {"account": account, "text": self._clean(reply.text)}
        if reply.tool_calls:
            line["tool_calls"] = [
                {"id": call.id, "name": self._clean(call.name), "arguments": self._clean(call.arguments)}
                for call in reply.tool_calls
            ]
        line["usage"] = usage.model_dump(include={"input_tokens", "output_tokens", "cost_usd"})
        line["finish_reason"] = reply.finish_reason
        data = json.dumps(line, ensure_ascii=True, allow_nan=False).encode() + b"\n"
        try:
            with self._lock:
                self._append(data)
        except OSError as error:
            raise RecordError(f"the recording {self.path} cannot be written: {error.strerror or error}") from error

    def _clean(self, text: str) -> str:
        # A JSON reader would refuse the whole line for a lone surrogate.
        return self._redact(text).encode("utf-8", "replace").decode("utf-8")

    def _open(self) -> int:
        target = Path(os.path.realpath(self.path))
        try:
            # Without O_NONBLOCK, opening a pipe waits for its reader.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(target, flags, 0o666)
            try:
                self._check(os.fstat(descriptor))
                folder = os.open(target.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise UsageError(
                f"the recording {self.path} cannot be written: {error.strerror or error}",
                "Name a file in a folder that exists and is writable.",
            ) from error
        return descriptor

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"the recording {self.path} is not a regular file", "Name a file.")
        if found.st_size > 0:
            raise UsageError(f"{self.path} already holds a recording", "Name another file, or remove this one.")

    def _append(self, line: bytes) -> None:
        known = os.fstat(self._file)
        if not os.path.samestat(known, os.stat(self.path)):  # noqa: PTH116
            raise RecordError(f"the recording {self.path} was replaced by another file during the run")
        # On a full disk a part is written, without an error.
        if os.write(self._file, line) != len(line):
            os.ftruncate(self._file, known.st_size)
            raise RecordError(
                f"the recording {self.path} could not be written whole at byte {known.st_size}: is the disk full?"
            )
        os.fsync(self._file)
