"""Copying a file that a check wrote into the live workspace."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path
from typing import BinaryIO

from goalrunner.wholefile import open_folder

_IN_THE_WAY = (errno.ENOTDIR, errno.EISDIR, errno.ELOOP)
"""A file, a folder or a link stands where the path needs something else."""

_MODES = 0o777
"""Bits of the mode that are copied: never those that let a program run as another user."""


def copy_into(source: Path, root: Path, path: str) -> bool:
    """Copy the file at `path` below `source` to the same path below `root`; return False if that cannot be done.

    Neither path is followed through a link, and only a regular file is read. The file is written under another name and
    renamed, so a link, a pipe or a device that stands there is replaced and never written to. Raise OSError.
    """
    *folders, name = path.split("/")
    with contextlib.ExitStack() as opened:
        try:
            here = open_folder(source, folders)
            opened.callback(os.close, here)
            file = opened.enter_context(open(_readable(name, here), "rb"))
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return False
            there = open_folder(root, folders, make=True)
            opened.callback(os.close, there)
            _replace(file, name, there)
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                return False
            raise
    return True


def _readable(name: str, folder: int) -> int:
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)


def _replace(file: BinaryIO, name: str, folder: int) -> None:
    aside = f".goal-{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(aside, flags, 0o600, dir_fd=folder), "wb") as sink:
            shutil.copyfileobj(file, sink)
            os.fchmod(sink.fileno(), os.fstat(file.fileno()).st_mode & _MODES)
        os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside, dir_fd=folder)
        raise
