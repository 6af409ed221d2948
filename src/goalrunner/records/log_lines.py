"""The lines of a log, their hashes, and the conversion of earlier schemas."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from goalrunner.core.errors import RecordError
from goalrunner.records.run_folder import sync_folder

_STOPS = {"baseline_differs": "environment_failed"}


def as_current(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event of a record before schema 1.4 with the fields that the current schema has."""
    new = dict(event)
    if isinstance(plan := new.get("plan"), dict):
        new["plan"] = {key: value for key, value in plan.items() if key != "clean_proof"}
    match new.get("type"):
        case "run_started":
            new.pop("goal_seals", None)  # keyed hashes of secrets, until schema 1.4
        case "proof_finished":
            return _checked_again(new)
        case "baseline_taken":
            # It names another content: results of then and now are never compared.
            new.pop("content", None)
        case "validators_finished":
            new.pop("content", None)
            new["protected_changes"] = new.pop("touched", [])
            if drift := new.pop("drift", None):
                new["refusal"] = f"the checks changed {', '.join(map(str, drift))}"
        case "completed" | "blocked" | "capped" | "cancelled" | "failed" as kind:
            return _ended(kind, new)
        case _:
            pass
    return new


def _ended(kind: str, old: dict[str, Any]) -> dict[str, Any]:
    """Return one of the five kinds of endings that logs had until schema 1.4."""
    reason = old.get("stop_reason", {"completed": "satisfied", "cancelled": "interrupted"}.get(kind))
    return {
        "type": "run_ended",
        "stop_reason": _STOPS.get(str(reason), reason),
        "message": old.get("reason", old.get("result_ref", "")),
        "signal": old.get("signal"),
    }


def _checked_again(proof: dict[str, Any]) -> dict[str, Any]:
    """Return the second run of the validators, in a clean checkout, as a run of the validators."""
    results = proof.get("results", [])
    hidden = {result.get("observation") for result in results if result.get("hidden")}
    observations = proof.get("observations", [])
    red = any(not result.get("passed") for result in results)
    return {
        "type": "validators_finished",
        "round": proof.get("round"),
        "results": results,
        "observations": [item for item in observations if item.get("id") not in hidden],
        "concealed": [item for item in observations if item.get("id") in hidden],
        "refusal": "" if proof.get("passed") or red else proof.get("feedback") or "the clean checkout proved nothing",
    }


def encode(value: Any) -> bytes:
    """Return a JSON value as a line without its newline; lone surrogates become U+FFFD.

    Raise RecordError for what JSON cannot express, NaN included.
    """
    try:
        return json.dumps(_whole(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"cannot write a record: {error}") from error


def without_surrogates(text: str) -> str:
    """Return the text with U+FFFD for lone surrogates."""
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


_LENGTH = 16
"""Hexadecimal digits of a link."""


def link(line: bytes) -> str:
    """Return the link to a line (without its newline) that the next line holds; the first line holds `link(b"")`."""
    return hashlib.sha256(line).hexdigest()[:_LENGTH]


BEGINNING = link(b"")


_BLOCK = 1 << 16

_flush = getattr(os, "fdatasync", os.fsync)
"""Flush data and length, without the times of change, which is several times faster. (macOS has only fsync.)"""


class AppendFile:
    """An open file, mode 0600. `torn` is the number of bytes that were cut from its end when it was opened, `is_dirty` whether
    something in it is not durable yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_dirty = True  # an earlier process may have been killed before its last wait for the disk
        self._broken = ""
        self._handle = -1
        try:
            new = not path.exists()
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            self._size = os.fstat(self._handle).st_size
            if new:
                os.fsync(self._handle)
                sync_folder(path.parent)
                self.is_dirty = False
            self.torn = self._cut_tail()
        except OSError as error:
            self.close()
            raise RecordError(f"cannot open {path}: {error.strerror}", "check GOAL_HOME and its permissions") from error

    @property
    def size(self) -> int:
        """The number of bytes, all of them in whole lines."""
        return self._size

    def append(self, line: bytes, *, wait: bool = True) -> int:
        """Write a line (given without its newline) and return its offset. Raise RecordError, the file unchanged.

        It is durable when this returns, or with `wait=False` when `sync` has been called.
        """
        self._check()
        offset = self._size
        data = memoryview(line + b"\n")
        try:
            while data:
                data = data[os.write(self._handle, data) :]  # a full disk writes less, and fails only the next time
            if wait:
                _flush(self._handle)
        except OSError as error:
            self._take_back(offset)
            raise RecordError(
                f"cannot write {self.path}: {error.strerror} at byte {offset}",
                "free some space; earlier records are intact",
            ) from error
        self._size = offset + len(line) + 1
        self.is_dirty = not wait
        return offset

    def sync(self) -> None:
        """Make all lines durable. Raise RecordError if the disk refuses."""
        try:
            if self.is_dirty:
                _flush(self._handle)
        except OSError as error:
            self._broken = f"its last lines cannot be made durable: {error.strerror}"
            raise RecordError(f"cannot write {self.path}: {error.strerror}", "free some space") from error
        self.is_dirty = False

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes as they are in the file; fewer at the end. Raise RecordError."""
        try:
            return os.pread(self._handle, length, offset)
        except OSError as error:
            raise RecordError(f"cannot read {self.path}: {error.strerror} at byte {offset}") from error

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _check(self) -> None:
        if self._handle < 0:
            raise RecordError(f"cannot write {self.path}: it is closed")
        now = os.fstat(self._handle)
        if now.st_nlink == 0 or not self.path.exists():
            raise RecordError(f"cannot write {self.path}: it was removed while the run was writing it")
        if self._broken or now.st_size != self._size:
            raise RecordError(f"cannot write {self.path}: {self._broken or 'another program has changed it'}")

    def _take_back(self, offset: int) -> None:
        try:
            os.ftruncate(self._handle, offset)
        except OSError as error:
            self._broken = f"a line was cut at byte {offset} and cannot be removed: {error.strerror}"
        with contextlib.suppress(OSError):
            os.fsync(self._handle)

    def _cut_tail(self) -> int:
        end = self._size
        while end > 0:
            start = max(0, end - _BLOCK)
            newline = os.pread(self._handle, end - start, start).rfind(b"\n")
            end = start + newline + 1
            if newline >= 0:
                break
        torn = self._size - end
        if torn:
            os.ftruncate(self._handle, end)
            os.fsync(self._handle)
            self._size = end
        return torn
