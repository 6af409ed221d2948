"""Where a run happens, its clock, and the person who started it."""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import socket
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from goalrunner.core.goal import Goal
from goalrunner.snapshots.git import ask_git
from goalrunner.snapshots.ignore_rules import literal

CHECKOUTS = "checkouts"
"""The folder of clean checkouts in GOAL_HOME."""

_GIT_TIMEOUT = 10.0
_STREAMS = (1, 2)
"""Descriptors of stdout and stderr."""


def workspace_of(goal: Goal) -> Path:
    """Return the workspace, absolute and without links."""
    return Path(goal.workspace.path or Path.cwd()).resolve()


def checkouts_of(home: Path, run_id: str) -> Path:
    """Return the folder of a run's checkouts."""
    return home / CHECKOUTS / run_id


@dataclass(frozen=True)
class RunLocation:
    """Where a run happens. `home` is GOAL_HOME; paths are without links."""

    workspace: Path
    home: Path
    environ: Mapping[str, str]
    secret: Path | None = None
    """The goal file, if commands must not read it."""

    @property
    def user_home(self) -> Path:
        """The user's HOME."""
        return Path(os.path.realpath(self.environ.get("HOME") or Path.home()))


def location_of(goal: Goal, home: Path, environ: Mapping[str, str], goal_file: Path | None = None) -> RunLocation:
    """Return where a run of the goal happens. `goal_file` is the file that the goal was read from."""
    return RunLocation(workspace_of(goal), Path(os.path.realpath(home)), environ, secret_goal_file(goal, goal_file))


def secret_goal_file(goal: Goal, goal_file: Path | None) -> Path | None:
    """Return the goal file that commands in a sandbox must not read, without links; None if there is no such file.

    A file whose content is in the repository is no secret, and a validator that names the file must be able to read it.
    """
    if goal_file is None or not any(spec.hidden for spec in goal.validators):
        return None
    path = Path(os.path.realpath(goal_file))
    if not path.is_file() or any(path.name in (spec.run or "") for spec in goal.validators):
        return None
    return None if _is_in_repository(path) else path


def _is_in_repository(path: Path) -> bool:
    ask = partial(ask_git, path.parent, environ=os.environ, timeout=_GIT_TIMEOUT)
    try:
        code, digest, _ = ask("hash-object", "--stdin", stdin=path.read_bytes())
    except OSError:
        return False
    return code == 0 and ask("cat-file", "-e", digest.decode().strip())[0] == 0


def runner_outputs(workspace: Path, record: Path | None, streams: Iterable[int] = _STREAMS) -> tuple[str, ...]:
    """Return a .gitignore pattern for each file in the workspace that the runner writes: `record`, stdout, stderr."""
    written = [*([Path(os.path.realpath(record))] if record else []), *_files_of(streams)]
    inside = {path.relative_to(workspace) for path in written if path.is_relative_to(workspace)}
    return tuple(sorted("/" + os.fsdecode(literal(os.fsencode(path))) for path in inside))


def _files_of(streams: Iterable[int]) -> Iterator[Path]:
    for number in streams:
        with contextlib.suppress(OSError, ValueError):
            status = os.fstat(number)
            if stat.S_ISREG(status.st_mode):
                path = _path_of(number)
                if os.path.samestat(status, path.stat()):
                    yield path


def _path_of(number: int) -> Path:
    command = getattr(fcntl, "F_GETPATH", None)  # on macOS
    if command is None:
        return Path(f"/proc/self/fd/{number}").readlink()
    found = fcntl.fcntl(number, command, bytes(1024))
    return Path(os.fsdecode(found.partition(b"\0")[0])).resolve()


class SystemClock:
    """The machine's clocks, as the port `Clock`."""

    def now(self) -> datetime:
        """Return the time of day in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        return time.monotonic()


def person() -> str:
    """Return who types here: user@host."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # an id without a name, as containers have
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
