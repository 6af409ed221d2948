"""The copy of one run: its folder, its record, and what keeps it apart from other
copies.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from goalrunner.app.run_options import moved_path
from goalrunner.core.errors import WorkspaceBusy
from goalrunner.records.removal import remove
from goalrunner.records.run_folder import (
    COPY_RECORD,
    RunFolder,
    read_json,
    write_json,
)
from goalrunner.records.run_summaries import read_summary

PORTS = 10
"""The ports of one copy: GOAL_PORT and the nine after it."""
_FIRST_PORT = 20_000
_LAST_PORT = 32_000  # ports from 32768 on are given to outgoing connections on Linux


@dataclass(frozen=True)
class CloneRecord:
    """Where a copy that is no overlay has the folders of the workspace's tree."""

    places: Mapping[str, str]
    """The folder in the copy for each folder of the workspace's tree."""
    objects: tuple[str, ...]
    """The folders of the live repositories from which the clone reads objects."""
    why: str
    """Why there is no overlay, for people."""


@dataclass(frozen=True)
class CopyRecord:
    """What a resumed run needs to enter its copy again."""

    workspace: str
    root: str
    """The folder that is copied: the repository of the workspace, else the
    workspace.
    """
    layers: str
    """The folder of the upper layers: the copy's own, or one on another file system;
    the copy's own for a clone.
    """
    bases: tuple[str, ...] = ()
    """The folders of the frozen bases, for `root` and for the folder of its repository
    if that lies elsewhere.
    """
    shared: tuple[str, ...] = ()
    """Ignored paths, relative to `root`; a folder ends with a slash. An overlay has
    those of the live tree, and a clone none.
    """
    redirects: bool = False
    """Whether the overlays note renamed folders of the base, as those of root can."""
    slot: int | None = None
    """The number of the copy among those of `root` when it was last entered."""
    clone: CloneRecord | None = None
    """Where it lies, if the copy is a clone and no overlay."""

    def layer(self, number: int) -> Path:
        """Return the folder of one overlay.

        It has the upper layer `u`, the work folder `w`, and the mount points `b` and
        `l`.
        """
        return Path(self.layers, f"layer-{number}")


@dataclass(frozen=True)
class RunCopy:
    """The folder of a copy in the folder of its run. The paths in it need not exist."""

    folder: Path

    @classmethod
    def of(cls, run: RunFolder) -> RunCopy:
        """Return the copy of a run, which may have none."""
        return cls(run.copy)

    @property
    def exists(self) -> bool:
        """Whether the run has a copy: its record is written last."""
        return self._record.is_file()

    @property
    def store(self) -> Path:
        """The snapshot store of this copy: its own index and lock, and the objects of
        the workspace's store.
        """
        return self.folder / "store"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    @property
    def _record(self) -> Path:
        return self.folder / COPY_RECORD

    def read(self) -> CopyRecord:
        """Return the record. Raise RecordError if it is missing or damaged."""
        record: CopyRecord = read_json(self._record, CopyRecord)
        return record

    def write(self, record: CopyRecord) -> None:
        """Save the record. Raise RecordError."""
        write_json(self._record, asdict(record))

    def discard(self) -> None:
        """Remove the copy: first its record, so that a half removed copy is none.

        Raise OSError.
        """
        # They may lie on another file system, which only the record names.
        layers = Path(self.read().layers)
        self._record.unlink()
        remove(layers)
        remove(self.folder)

    def lock(self) -> int:
        """Lock the copy and return the handle, which a program started by exec
        inherits.

        Raise WorkspaceBusy if another process works in the copy.
        """
        self.folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(
            self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600
        )
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            run = self.folder.parent.name
            raise WorkspaceBusy(
                f"the copy of run {run} is in use by another process",
                f"goal watch {run} follows it; goal cancel {run} ends it",
            ) from error
        os.set_inheritable(handle, True)
        return handle


def has_unfinished_turn(run: RunFolder) -> bool:
    """Return whether a run ended during a turn of its agent.

    What that turn changed is in the copy, and in no snapshot.
    """
    return str(read_summary(run).get("current_step")).startswith("round-")


def is_in_memory(folder: Path) -> bool:
    """Return whether a folder is on a file system in memory."""
    partitions = psutil.disk_partitions(all=True)
    above = [
        partition
        for partition in partitions
        if Path(os.path.realpath(folder)).is_relative_to(partition.mountpoint)
    ]
    # The longest mount point is that of the file system with the folder.
    nearest = max(above, key=lambda partition: len(partition.mountpoint), default=None)
    return nearest is not None and nearest.fstype in ("tmpfs", "ramfs")


def take_slot(slots: Path, preferred: int | None = None) -> tuple[int, int]:
    """Return the lowest free number of a copy, from 0, and the handle that holds it
    while the process lives.

    A resumed copy gets the number it had, if that is free. Raise OSError.
    """
    slots.mkdir(mode=0o700, parents=True, exist_ok=True)
    numbers = [] if preferred is None else [preferred]
    # A lock on a file, and no list of numbers: the kernel frees that of a killed run.
    for number in (*numbers, *range(10_000)):
        handle = os.open(
            slots / str(number), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600
        )
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        os.set_inheritable(handle, True)
        return number, handle
    raise OSError(f"all slots in {slots} are in use")


def free_ports(slot: int) -> int:
    """Return the first of ten adjacent TCP ports that are free on the loopback address
    now; 0 if there are none.

    The search begins at another place for each slot, so that copies that start at once
    differ.
    """
    blocks = range(_FIRST_PORT, _LAST_PORT, PORTS)
    for offset in range(len(blocks)):
        first = blocks[(slot + offset) % len(blocks)]
        if all(_is_free(port) for port in range(first, first + PORTS)):
            return first
    return 0


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def copy_environment(
    copy: RunCopy, record: CopyRecord, slot: int, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment variables of a command in the copy."""
    run = copy.folder.parent.name
    if record.clone is not None:
        environ = _environment_inside(record.clone, environ)
    # Docker Compose allows no other characters in the name of a project.
    name = re.sub(r"[^a-z0-9_-]+", "-", Path(record.workspace).name.lower()).strip("-")
    return {
        **environ,
        "GOAL_SLOT": str(slot),
        "GOAL_PORT": str(free_ports(slot)),
        "TMPDIR": str(copy.temporary),
        "COMPOSE_PROJECT_NAME": f"{name or 'goal'}-{run[:4]}",
    }


def _environment_inside(
    clone: CloneRecord, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables with the paths of the clone for those of the workspace.

    An activated environment of the workspace would import the person's own code.
    """
    inside: dict[str, str] = {}
    for name, value in environ.items():
        paths = [_path_inside(clone, path) for path in value.split(os.pathsep)]
        inside[name] = os.pathsep.join(paths)
    return inside


def _path_inside(clone: CloneRecord, text: str) -> str:
    if not text.startswith("/"):
        return text
    # The workspace may be known by a link to it.
    for path in (text, os.path.realpath(text)):
        moved = moved_path(path, clone.places)
        if moved != path:
            return moved
    return text
