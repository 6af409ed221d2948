"""The files that options name for a result."""

from __future__ import annotations

import errno
import os
import re
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path

from goalrunner.core.errors import GoalError, UsageError

_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}
_HINT = "choose another path"


class ResultFile:
    """A file, pipe, device or open file that gets a result.

    It is checked and opened before the run that makes the result.
    """

    def __init__(
        self,
        path: Path,
        inputs: Mapping[str, Path] | None = None,
        option: str = "--output",
        workspaces: Iterable[Path] = (),
    ) -> None:
        """Check and open a file. Raise UsageError if nothing can be written there.

        `inputs` are files that must not be replaced, by description: "the goal file".
        Errors name `option`. A link that leads out of the `workspaces` or the current
        folder is an error: an agent could have made it, to replace another file.
        """
        self._name = f"{option} {path}"
        self.path = path
        self._target = Path(os.path.realpath(path))
        for description, file in (inputs or {}).items():
            if os.path.realpath(file) == str(self._target):
                raise UsageError(
                    f"{self._name} is {description}; the outcome would replace it",
                    "give another path",
                )
        self._handle = _open_stream(path, self._name)
        if self._handle is not None:
            weakref.finalize(self, os.close, self._handle)
            return
        for folder in (Path.cwd(), *(workspace.resolve() for workspace in workspaces)):
            self._refuse_link_out_of(folder)
        self._check_folder()

    def _refuse_link_out_of(self, folder: Path) -> None:
        """Raise UsageError if the path is in a folder, and its target is not."""
        # The folder of the path may be reached by a link of the user, so both forms of
        # the path count.
        paths = (
            Path(os.path.realpath(self.path.parent), self.path.name),
            Path(os.path.abspath(self.path)),  # noqa: PTH100
        )
        is_inside = any(path.is_relative_to(folder) for path in paths)
        if is_inside and not self._target.is_relative_to(folder):
            raise UsageError(
                f"{self._name} leads out of {folder} through a link",
                f"name its target: {self._target}",
            )

    def _check_folder(self) -> None:
        folder = self._target.parent
        if not os.path.isdir(folder):  # noqa: PTH112 - never raises
            raise UsageError(
                f"{self._name}: {folder} is not a folder",
                f"choose another path, or: mkdir -p {folder}",
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(
                f"{self._name}: the folder {folder} may not be written to", _HINT
            )

    @property
    def is_stream(self) -> bool:
        """Whether the text goes to a reader, as with `/dev/stdout`.

        There is no file afterwards.
        """
        return self._handle is not None

    def write(self, content: str | bytes) -> None:
        """Write a text or bytes there. Raise GoalError if that is not possible."""
        if isinstance(content, str):
            content = content.encode("utf-8", errors="replace")
        try:
            if self._handle is None:
                self._write_file(content)
            else:
                with open(self._handle, "wb", closefd=False) as stream:
                    stream.write(content)
        except OSError as error:
            raise GoalError(
                f"{self._name} could not be written: {error.strerror or error}"
            ) from error

    def _write_file(self, data: bytes) -> None:
        from goalrunner.records.files import write_whole

        # An agent may have replaced the folder by a link since it was checked.
        if os.path.realpath(self._target.parent) != str(self._target.parent):
            raise GoalError(
                f"{self._name} could not be written: a folder of its path became a link"
            )
        # The permissions are those of any new file of the user.
        write_whole(self._target, data, mode=0o666)


def _open_stream(path: Path, name: str) -> int | None:
    """Open a pipe, a device, or an open file of this process (`/dev/fd/63`).

    Return None for a file. Raise UsageError.
    """
    descriptor = _DESCRIPTOR.fullmatch(str(path))
    number = int(descriptor[1]) if descriptor else _STANDARD.get(str(path))
    try:
        if number is not None:
            return os.dup(number)
        if path.is_file() or not path.exists():
            return None
        # A terminal that is named must not become that of this process.
        handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        # Only opening a pipe must not wait for its reader.
        os.set_blocking(handle, True)
        return handle
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise UsageError(
                f"{name}: no process reads it",
                f"start its reader first, such as: cat {path} &",
            ) from None
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{name}: {reason}", _HINT) from None
