"""The whole outputs of a run, stored by their hashes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from goalrunner.core.errors import RecordError, record_errors
from goalrunner.core.observation import ArtifactRef
from goalrunner.records.event_log import EventLog
from goalrunner.records.files import sync_folder
from goalrunner.records.redaction import Redactor

_CHUNK = 1 << 20
# Files and folders that are flushed at the same time.
_MOST_SYNCS = 8


class ArtifactStore:
    """The outputs of a run, in a folder by their hashes.

    A file is `<folder>/<first two of the hash>/<hash>`, mode 0600.
    """

    def __init__(
        self, folder: Path, redactor: Redactor, log: EventLog | None = None
    ) -> None:
        """Use a folder, which need not exist.

        With a `log`, artifacts become durable before the next event that waits for the
        disk; else at once.
        """
        self._folder = folder
        self._redactor = redactor
        # Open files that are not flushed yet, with their folders.
        self._pending: list[tuple[int, Path]] = []
        self._lock = Lock()
        self._waits = log is None
        if log is not None:
            log.sync_first(self.sync)

    def sync(self) -> None:
        """Make all artifacts durable. Raise RecordError if the disk refuses."""
        with self._lock:
            pending, self._pending = self._pending, []
        if not pending:
            return
        folders = {self._folder, *(folder for _, folder in pending)}
        try:
            # All at once: the disk does it in one go, which is several times faster.
            with (
                record_errors(f"cannot write {self._folder}"),
                ThreadPoolExecutor(_MOST_SYNCS) as threads,
            ):
                syncs = [threads.submit(os.fsync, handle) for handle, _ in pending]
                syncs += [threads.submit(sync_folder, folder) for folder in folders]
                for sync in syncs:
                    sync.result()
        finally:
            for handle, _ in pending:
                os.close(handle)

    def put(self, data: bytes) -> ArtifactRef:
        """Store bytes, secrets replaced; the same bytes twice are one file.

        Raise RecordError.
        """
        pieces = (data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK))
        return self._store(self._redactor.chunks(pieces))

    def adopt(
        self, path: Path, hurried: Callable[[], bool] = lambda: False
    ) -> ArtifactRef:
        """Store a file's content, secrets replaced, and remove the file.

        As soon as `hurried()` is true, the remaining content is left out, with the
        omission marked. Raise RecordError.
        """
        with record_errors(f"cannot take over {path}"):
            # A link or a pipe in its place is refused.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(handle, "rb") as file:  # noqa: PTH123 - a handle
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise RecordError(
                        f"cannot take over {path}: it is not a regular file"
                    )
                ref = self._store(self._content(file, hurried))
            path.unlink()
        return ref

    def read(self, ref: ArtifactRef) -> bytes:
        path = self.path(ref)
        with record_errors(f"artifact {path} cannot be read", ""):
            data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != ref.sha256:
            raise RecordError(
                f"artifact {path} is damaged: its content does not match its name"
            )
        return data

    def ends(self, ref: ArtifactRef, each: int) -> tuple[bytes, bytes]:
        if ref.size <= 2 * each:
            return self.read(ref), b""
        path = self.path(ref)
        with (
            record_errors(f"artifact {path} cannot be read", ""),
            path.open("rb") as file,
        ):
            head = file.read(each)
            file.seek(-each, os.SEEK_END)
            return head, file.read(each)

    def path(self, ref: ArtifactRef) -> Path:
        """Return the path of the bytes."""
        return self._folder / ref.sha256[:2] / ref.sha256

    def _content(self, file: BinaryIO, hurried: Callable[[], bool]) -> Iterator[bytes]:
        """Yield the content of a file without secrets, in pieces: memory is bounded.

        Once `hurried()` is true, yield only how much of it is left out.
        """
        content = _HurriedReader(file, hurried)
        yield from self._redactor.chunks(content.chunks(), is_cut=content.is_cut)
        if content.is_cut():
            text = (
                f"\n[... {content.unread:,} bytes and more left out because the run "
                "was interrupted ...]\n"
            )
            yield text.encode()

    def _store(self, chunks: Iterable[bytes]) -> ArtifactRef:
        """Write chunks to a file and name it by its hash."""
        digest = hashlib.sha256()
        size = 0
        with (
            record_errors(f"cannot keep an output in {self._folder}"),
            contextlib.ExitStack() as stack,
        ):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".new-", dir=self._folder)
            new = Path(name)
            stack.callback(new.unlink, missing_ok=True)
            stack.callback(os.close, handle)
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                unwritten = memoryview(chunk)
                while unwritten:
                    unwritten = unwritten[os.write(handle, unwritten) :]
            ref = ArtifactRef(sha256=digest.hexdigest(), size=size)
            path = self.path(ref)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            # A file that has the name already may be one that a power cut has damaged.
            new.replace(path)
            stored = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            with self._lock:
                self._pending.append((stored, path.parent))
            if self._waits:
                self.sync()
        return ref


@dataclass
class _HurriedReader:
    """Reads a file until `hurried()` is true. `unread` are the bytes after that."""

    file: BinaryIO
    hurried: Callable[[], bool]
    unread: int = 0

    def chunks(self) -> Iterator[bytes]:
        while chunk := self.file.read(_CHUNK):
            yield chunk
            size = os.fstat(self.file.fileno()).st_size
            self.unread = size - self.file.tell()
            if self.is_cut() and self.hurried():
                return

    def is_cut(self) -> bool:
        """Return whether a part of the file was not read."""
        return self.unread > 0
