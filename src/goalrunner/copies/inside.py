"""A run in the copy that this process is inside of."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.app.run_options import CopyOptions, moved_path
from goalrunner.checking.namespace import is_privileged, mount_points
from goalrunner.cli import main, output
from goalrunner.copies import INSIDE
from goalrunner.copies.clone import run_setup
from goalrunner.copies.frozen_base import FrozenBase
from goalrunner.copies.new_live_files import NewLiveFiles
from goalrunner.copies.run_copy import (
    CloneRecord,
    CopyRecord,
    RunCopy,
    is_in_memory,
)
from goalrunner.core.errors import UsageError, some
from goalrunner.records.run_folder import RunFolder
from goalrunner.reports.short_forms import home_path

if TYPE_CHECKING:
    from goalrunner.app.run_options import RunOptions
    from goalrunner.core.goal import Goal


def copy_options(copy: RunCopy) -> CopyOptions:
    """Return what differs for a run in this copy.

    Raise UsageError if this process is not inside of it.
    """
    record = copy.read()
    run = RunFolder(copy.folder.parent)
    notes = [
        f"your files stay as they are; goal apply {run.run_id} brings the change here"
    ]
    if record.clone is not None:
        notes += _clone_notes(record, record.clone)
    elif Path(record.root) not in mount_points():
        raise UsageError(
            f"this process is not in the copy of {record.root}", f"unset {INSIDE}"
        )
    elif record.shared:
        notes.append(
            f"ignored files are those of the workspace itself: {some(record.shared)}"
        )
        if foreign := _foreign(record):
            notes.append(
                "in the copy, files of another owner or group cannot be written: "
                f"{some(foreign)}"
            )
    if is_in_memory(Path(record.layers)):
        notes.append(
            "the copy is in memory (tmpfs): "
            "after a restart of this machine, the run cannot be resumed"
        )
    if record.clone is not None:
        return CopyOptions(
            run,
            copy.store,
            notes=tuple(notes),
            objects=tuple(map(Path, record.clone.objects)),
            places=record.clone.places,
        )
    bases = [FrozenBase(Path(folder).resolve()) for folder in record.bases]
    return CopyOptions(
        run,
        copy.store,
        NewLiveFiles(record).hide,
        tuple(notes),
        tuple(base.objects for base in bases),
    )


def _foreign(record: CopyRecord) -> list[str]:
    """Return the shared paths that an ordinary user cannot write in a copy.

    The first write copies a file with its owner and group, and a user namespace has
    those of the user alone: the kernel refuses with EOVERFLOW.
    """
    if is_privileged():
        return []
    user_ids = (os.geteuid(), os.getegid())
    foreign: list[str] = []
    for path in record.shared:
        with contextlib.suppress(OSError):
            info = os.lstat(os.path.join(record.root, path))
            if (info.st_uid, info.st_gid) != user_ids:
                foreign.append(path)
    return foreign


def _clone_notes(record: CopyRecord, clone: CloneRecord) -> Iterator[str]:
    """Yield how a clone differs from the workspace."""
    place = moved_path(record.workspace, clone.places)
    yield f"the run works in a clone, {home_path(place)} ({clone.why})"
    if record.shared:
        yield (
            f"the clone has no ignored files: {some(record.shared)}; "
            "[workspace] setup installs dependencies there"
        )
    yield (
        "absolute paths, such as those in virtual environments, lead to the workspace "
        "and not to the clone"
    )


def set_up(goal: Goal, run_options: RunOptions) -> None:
    """Run the `setup` of a new run in a clone; elsewhere, do nothing.

    Raise EnvironmentFailed if it fails; then the run is removed.
    """
    copy = run_options.copy
    if copy is None or not copy.places or goal.workspace.setup is None:
        return
    output.complain(f"Running setup in the clone: {goal.workspace.setup}")
    try:
        main.wait_for(run_setup(goal, run_options))
    except BaseException:
        copy.folder.remove()  # the run never began
        raise
