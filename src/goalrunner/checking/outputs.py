"""Copying a file that a check wrote into the live workspace."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path


def copy_into(source: Path, root: Path, path: str) -> bool:
    """Copy a file to `path` below `root` without following a link; return False if something else stands there.

    The file is written under another name and renamed. Raise OSError.
    """
    *folders, name = path.split("/")
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, dir_fd=here)
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        _replace(source, name, here)
    except (NotADirectoryError, IsADirectoryError):
        return False
    finally:
        os.close(here)
    return True


def _replace(source: Path, name: str, folder: int) -> None:
    aside = f".goal-{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with (
            open(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file,
            open(os.open(aside, flags, 0o600, dir_fd=folder), "wb") as sink,
        ):
            shutil.copyfileobj(file, sink)
            os.fchmod(sink.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode))
        os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside, dir_fd=folder)
        raise
