"""Records a run's replies in the format that a scripted model plays. Owns the file; redacts before it writes."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from goalrunner.errors import RecordError, UsageError
from goalrunner.events import Account
from goalrunner.llm.reply import Reply


class Tape:
    """A file that every answered reply is appended to, agent's and judge's alike; durable line by line.

    `redact` replaces secrets in every text before it is written. Raises UsageError when the file cannot be made or
    already holds something: nothing is ever recorded over.
    """

    def __init__(self, path: Path | str, *, redact: Callable[[str], str] | None = None) -> None:
        self.path = Path(path)
        self._redact = redact or (lambda text: text)
        self._lock = threading.Lock()
        self._create()

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

    def _create(self) -> None:
        try:
            if self.path.exists() and self.path.stat().st_size > 0:
                raise UsageError(
                    f"{self.path} already holds a recording", "Name another file, or remove this one first."
                )
            with self.path.open("ab"):
                pass
            _sync_folder(self.path.parent)
        except OSError as error:
            raise UsageError(
                f"the recording {self.path} cannot be written: {error.strerror or error}",
                "Name a file in a folder that exists and may be written to.",
            ) from error

    def _append(self, line: bytes) -> None:
        descriptor = -1
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
            before = os.fstat(descriptor).st_size
            # On a full disk a part is written, and no error raised.
            if os.write(descriptor, line) != len(line):
                os.ftruncate(descriptor, before)
                raise RecordError(
                    f"the recording {self.path} could not be written whole at byte {before}: is the disk full?"
                )
            os.fsync(descriptor)
        except OSError as error:
            raise RecordError(f"the recording {self.path} cannot be written: {error.strerror or error}") from error
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
