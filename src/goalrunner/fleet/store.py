"""The files of a fleet, in any store that fsspec knows: a folder, S3, GCS, Azure."""

from __future__ import annotations

import os
import tempfile
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
    """The store does not answer, is full, or does not have what it should have."""


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
            unfinished = f"{target}.new"
            system.makedirs(target.rpartition("/")[0], exist_ok=True)
            system.put_file(str(source), unfinished)
            system.mv(unfinished, target)

        self._use(write, f"{key} cannot be stored")

    def get(self, key: str, target: Path) -> None:
        """Write the file of a key to a path. Raise StoreUnavailable."""
        self._use(
            lambda system, folder: system.get_file(f"{folder}/{key}", str(target)),
            f"{key} cannot be read",
        )

    def try_out(self) -> None:
        """Write, read and remove a file. Raise StoreUnavailable if that fails."""
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
