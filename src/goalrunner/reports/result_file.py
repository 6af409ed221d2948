"""A file, pipe or device that gets a result: the copy of an outcome, a report, a patch."""

from __future__ import annotations

import errno
import os
import re
import stat
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path

from goalrunner.core.errors import GoalError, UsageError
from goalrunner.records.files import open_folder, write_whole

_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}
_ANOTHER = "choose another path"


class ResultFile:
    """A file, pipe, device or open file that gets a result; checked and opened before the run that makes it."""

    def __init__(
        self,
        path: Path,
        taken: Mapping[str, Path] | None = None,
        option: str = "--output",
        workspaces: Iterable[Path] = (),
    ) -> None:
        """Raise UsageError if nothing can be written there.

        `taken` are files of the run that a copy must not replace, by what they are: "the goal file". Errors name `option`.
        No link leads out of the `workspaces` and of the current folder: an agent could have made it, to replace another file.
        """
        self._name = name = f"{option} {path}"
        self.path = path
        self._target = Path(os.path.realpath(path))
        for what, other in (taken or {}).items():
            if os.path.realpath(other) == str(self._target):
                raise UsageError(f"{name} is {what}; the outcome would replace it", "give another path")
        self._handle = _open_stream(path, name)
        if self._handle is not None:
            weakref.finalize(self, os.close, self._handle)
            return
        named = Path(os.path.realpath(path.parent), path.name), Path(os.path.abspath(path))  # noqa: PTH100
        for folder in (Path.cwd(), *(workspace.resolve() for workspace in workspaces)):
            if any(one.is_relative_to(folder) for one in named) and not self._target.is_relative_to(folder):
                raise UsageError(f"{name} leads out of {folder} through a link", f"name its target: {self._target}")
        folder = self._target.parent
        if not os.path.isdir(folder):  # noqa: PTH112 - never raises
            raise UsageError(f"{name}: {folder} is not a folder", f"choose another path, or: mkdir -p {folder}")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(f"{name}: the folder {folder} may not be written to", _ANOTHER)

    @property
    def is_stream(self) -> bool:
        """Whether the text goes to a reader, as with `/dev/stdout`, and is no file afterwards."""
        return self._handle is not None

    def write(self, content: str | bytes) -> None:
        """Write a text or bytes there. Raise GoalError if that is not possible."""
        data = content.encode("utf-8", errors="replace") if isinstance(content, str) else content
        try:
            if self._handle is None:
                folder = open_folder(Path("/"), self._target.parent.parts[1:])
                try:
                    # With the permissions of any new file of the user.
                    write_whole(Path(self._target.name), data, mode=0o666, folder=folder)
                finally:
                    os.close(folder)
            else:
                with open(self._handle, "wb", closefd=False) as stream:
                    stream.write(data)
        except NotADirectoryError:
            why = "a folder of its path was replaced by a link or a file during the run"
            raise GoalError(f"{self._name} could not be written: {why}") from None
        except OSError as error:
            raise GoalError(f"{self._name} could not be written: {error.strerror or error}") from error


def _open_stream(path: Path, name: str) -> int | None:
    """Open a pipe, a device, or an open file of this process (`/dev/fd/63`). Return None for a file. Raise UsageError."""
    found = _DESCRIPTOR.fullmatch(str(path))
    try:
        if found or str(path) in _STANDARD:
            return os.dup(int(found[1]) if found else _STANDARD[str(path)])
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return None
        handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        os.set_blocking(handle, True)  # only opening a pipe must not wait for its reader
        return handle
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENXIO:
            raise UsageError(f"{name}: no process reads it", f"start its reader first, such as: cat {path} &") from None
        why = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{name}: {why}", _ANOTHER) from None
