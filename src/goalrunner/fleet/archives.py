"""The folder of a run as archives: each has what is new since the one before it."""

from __future__ import annotations

import contextlib
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.core.errors import RecordError, record_errors

_LEFT_OUT = ("scratch", "tmp")
"""Folders of a home that only a running process needs."""
_LOCK = ".lock"

Stamps = dict[str, tuple[int, int]]
"""By path: what tells that a file has changed, its size and the time of its change."""


@dataclass
class ArchiveWriter:
    """Writes the archives of one folder, one after another."""

    folder: Path
    archived: Stamps = field(default_factory=dict)
    """The files that were archived and stored, as they were then."""

    def write(self, archive: Path) -> Stamps:
        """Write what is new or changed to an archive. Raise RecordError.

        Return what is to be added to `archived` when the archive is stored.
        """
        written: Stamps = {}
        with (
            record_errors(f"cannot write {archive}", "free some space"),
            tarfile.open(archive, "w:gz", compresslevel=1) as tar,
        ):
            for name, stamp in self.files():
                if self.archived.get(name) == stamp:
                    continue
                # A temporary file may be gone.
                with contextlib.suppress(FileNotFoundError):
                    tar.add(self.folder / name, name, recursive=False)
                    written[name] = stamp
        return written

    def files(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the path and the stamp of each file as it is now."""
        for top, folders, names in os.walk(self.folder):
            folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
            for file_name in sorted(names):
                if file_name.endswith(_LOCK):
                    continue
                path = Path(top, file_name)
                try:
                    status = path.lstat()
                except FileNotFoundError:
                    continue
                # A pipe or a device is no record, and cannot be extracted.
                is_file = stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
                if not is_file:
                    continue
                name = path.relative_to(self.folder).as_posix()
                yield name, (status.st_size, status.st_mtime_ns)


def extract(archives: Sequence[Path], folder: Path) -> None:
    """Write the files of archives, in their order, into a folder. Raise RecordError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for archive in archives:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter=_inside)  # noqa: S202 - it is filtered
        # A hard link without its file is a KeyError.
        except (OSError, tarfile.TarError, KeyError) as error:
            raise RecordError(
                f"the archive {archive.name} of a run cannot be used: {error}",
                "goal fleet retry RUN begins the run anew",
            ) from error


def _inside(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """Return a member of an archive as it is written. Raise TarError.

    Everyone who can write into the store could have made the archive.
    """
    if member.issym():
        # A link may lead anywhere, as that of a virtual environment to its Python, and
        # no member is written through it.
        return tarfile.tar_filter(member, folder)
    # It refuses devices, and paths and hard links that lead out of the folder. A file
    # would be written through an earlier hard link of its name.
    return tarfile.data_filter(member, folder)
