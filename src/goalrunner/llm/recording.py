"""Recording a run's replies for a scripted model."""

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
    """A file that every answered reply is appended to, agent's and judge's alike; durable line by line.

    `redact` replaces secrets in every text before it is written. The file is opened once: what is put at its path later,
    such as a link, is never written to. Raises UsageError when the file cannot be made or already holds something: nothing
    is ever recorded over.
    """

    def __init__(self, path: Path | str, *, redact: Callable[[str], str] | None = None) -> None:
        self.path = Path(path)
        self._redact = redact or (lambda text: text)
        self._lock = threading.Lock()
        self._file = self._create()
        weakref.finalize(self, os.close, self._file)

    def record(self, account: Account, reply: Reply) -> None:
        """Append one reply. Raises RecordError when the line cannot be written whole."""
        line = json.dumps(self._line(account, reply), ensure_ascii=True, allow_nan=False).encode() + b"\n"
        with self._lock:
            self._append(line)

    def _line(self, account: Account, reply: Reply) -> dict[str, Any]:
        usage = reply.usage
        line: dict[str, Any] = {"account": account, "text": self._clean(reply.text)}
        if reply.tool_calls:
            line["tool_calls"] = [
                {"id": call.id, "name": self._clean(call.name), "arguments": self._clean(call.arguments)}
                for call in reply.tool_calls
            ]
        line["usage"] = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_usd": usage.cost_usd,
        }
        line["finish_reason"] = reply.finish_reason
        return line

    def _clean(self, text: str) -> str:
        # A lone surrogate is no text: a JSON reader would refuse the whole line for it.
        return self._redact(text).encode("utf-8", "replace").decode("utf-8")

    def _create(self) -> int:
        target = os.path.realpath(self.path)
        try:
            # Without O_NONBLOCK, opening a pipe waits for its reader.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(target, flags, 0o666)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            self._check(os.fstat(descriptor))
            _sync_folder(Path(target).parent)
        except OSError as error:
            os.close(descriptor)
            raise self._unwritable(error) from error
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"the recording {self.path} is no regular file", "Name a file.")
        if found.st_size > 0:
            raise UsageError(f"{self.path} already holds a recording", "Name another file, or remove this one first.")

    def _unwritable(self, error: OSError) -> UsageError:
        return UsageError(
            f"the recording {self.path} cannot be written: {error.strerror or error}",
            "Name a file in a folder that exists and may be written to.",
        )

    def _append(self, line: bytes) -> None:
        try:
            known = os.fstat(self._file)
            if not os.path.samestat(known, os.stat(self.path)):  # noqa: PTH116
                raise RecordError(f"the recording {self.path} was replaced by another file during the run")
            # On a full disk a part is written, and no error raised.
            if os.write(self._file, line) != len(line):
                os.ftruncate(self._file, known.st_size)
                raise RecordError(
                    f"the recording {self.path} could not be written whole at byte {known.st_size}: is the disk full?"
                )
            os.fsync(self._file)
        except OSError as error:
            raise RecordError(f"the recording {self.path} cannot be written: {error.strerror or error}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
