"""The files of a fleet, in any store that fsspec knows: a folder, S3, GCS, Azure."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from goalrunner.core.errors import GoalError, UsageError, one_line
from goalrunner.fleet.database import shown_url

try:
    import fsspec
except ImportError as error:
    raise UsageError(
        "a fleet needs the packages of the extra `fleet`",
        "install them: pip install 'goalrunner[fleet]'",
    ) from error

T = TypeVar("T")


class StoreUnavailable(GoalError):
    """The store does not answer, or is full."""


class FileLost(GoalError):
    """The store can be used, and does not have a file that it should have."""


_PAUSE = 1.0
_LONGEST_PAUSE = 30.0


def patiently(work: Callable[[], T], patience: float) -> T:
    """Return what `work` returns; while it raises StoreUnavailable, try again.

    After so many seconds, raise it.
    """
    until = time.monotonic() + patience
    pause = _PAUSE
    while True:
        try:
            return work()
        except StoreUnavailable:
            if time.monotonic() > until:
                raise
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


@dataclass(frozen=True)
class FleetStore:
    """A folder of a store, by its URL: `file:///shared/goals`, `s3://bucket/goals`."""

    url: str

    def put(self, source: Path, key: str) -> None:
        """Store a file under a key, which is whole or not there at all.

        Raise StoreUnavailable.
        """

        def write(system: Any, folder: str) -> None:
            target = f"{folder}/{key}"
            if not self._is_local:
                # A store of objects shows only whole ones.
                system.put_file(str(source), target)
                return
            # A disk that is not mounted is no empty store.
            system.ls(folder)
            # A reader, or a process that is killed here, must not leave half a file.
            unfinished = f"{target}.new"
            system.makedirs(target.rpartition("/")[0], exist_ok=True)
            system.put_file(str(source), unfinished)
            system.mv(unfinished, target)

        self._use(write, f"{key} cannot be stored")

    def get(self, key: str, target: Path) -> None:
        """Write the file of a key to a path. Raise StoreUnavailable and FileLost."""
        try:
            self._use(
                lambda system, folder: system.get_file(f"{folder}/{key}", str(target)),
                f"{key} cannot be read",
            )
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            # The same error comes from a store that is gone as a whole.
            self._try_out()
            raise FileLost(
                f"the store {shown_url(self.url)} has lost {key}",
                "restore it, or submit the goal again",
            ) from error

    def names(self, folder: str) -> set[str]:
        """Return the names of the files in a folder of the store; none if it is gone.

        Raise StoreUnavailable.
        """

        def list_files(system: Any, top: str) -> set[str]:
            try:
                paths = system.ls(f"{top}/{folder}", detail=False)
            except FileNotFoundError:
                return set()
            return {str(path).rpartition("/")[2] for path in paths}

        return self._use(list_files, f"{folder} cannot be listed")

    def try_out(self) -> None:
        """Make the folder, and write, read and remove a file there.

        Raise StoreUnavailable if that fails.
        """

        def make(system: Any, folder: str) -> None:
            if self._is_local:
                system.makedirs(folder, exist_ok=True)

        self._use(make, "it cannot be made")
        self._try_out()

    def _try_out(self) -> None:
        key = f"try-out-{os.urandom(4).hex()}"
        with tempfile.NamedTemporaryFile() as file:
            self.put(Path(file.name), key)
        self._use(
            lambda system, folder: system.cat_file(f"{folder}/{key}"),
            "a new file cannot be read",
        )
        self.remove(key)

    def remove(self, key: str) -> None:
        """Remove a file, or all files below a folder; a missing one is no error.

        Raise StoreUnavailable.
        """

        def delete(system: Any, folder: str) -> None:
            # Another process may have removed it.
            if system.exists(f"{folder}/{key}"):
                system.rm(f"{folder}/{key}", recursive=True)

        self._use(delete, f"{key} cannot be removed")

    @property
    def _is_local(self) -> bool:
        return "://" not in self.url or self.url.startswith("file:")

    def _use(self, work: Callable[[Any, str], T], problem: str) -> T:
        try:
            # Files of other processes must not be missing because of a cache.
            system, folder = fsspec.core.url_to_fs(
                self.url, use_listings_cache=False, skip_instance_cache=True
            )
            return work(system, folder.rstrip("/"))
        except ImportError as error:
            raise UsageError(
                f"the store {shown_url(self.url)} needs a package: {error}",
                "install the package of that store: s3fs, gcsfs, adlfs",
            ) from error
        # Each kind of store has errors of its own; all of them mean the same here.
        except Exception as error:
            reason = one_line(str(error) or type(error).__name__)
            raise StoreUnavailable(
                f"the store {shown_url(self.url)}: {problem}: {reason}",
                "check that it exists, has space, and that its credentials are valid",
            ) from error
