"""Protocols of child processes and sandboxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypedDict

HIDDEN = "not found in the sandbox"
"""The error about a program that exists, but not inside of the sandbox."""


@dataclass(frozen=True)
class Completion:
    """A child process that has ended. `exit_code` is None if a signal ended it; `output` contains stdout and stderr."""

    exit_code: int | None
    duration: float
    timed_out: bool
    output: Path
    error: str = ""
    """Why it could not be started or was ended; empty if it ended by itself."""
    survivors: tuple[str, ...] = ()
    """Names of processes that it left running; they were ended."""


class LaunchOptions(TypedDict, total=False):
    """The optional arguments of `Launcher.launch`, for launchers that pass them on."""

    timeout: float | None
    stdin: bytes | None
    errors: Path | None
    shared: Sequence[Path]


class Launcher(Protocol):
    """Starts child processes, and ends their descendants with them."""

    async def launch(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: Path,
        timeout: float | None = None,
        stdin: bytes | None = None,
        errors: Path | None = None,
        shared: Sequence[Path] = (),
    ) -> Completion:
        """Run `argv` to its end, its deadline (seconds) or cancellation, then end every process that it started.

        `env` is the whole environment. stdout and stderr go to the file `output` as they come, or stderr to the file
        `errors`. `shared` are files and folders outside of the workspace that it reads or writes for the runner: where
        commands are sandboxed, only these files of the runner are visible. A missing program gives `exit_code=127` and
        the reason in `error`.
        """


@dataclass(frozen=True)
class Confinement:
    """What a sandboxed command may see and write. Paths are absolute and without links; missing ones are ignored.

    The deeper of two paths wins; on the same path `writable` wins over `readable`, and `readable` over `hidden`. All other
    paths can only be read.
    """

    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    """Visible even inside of hidden folders and /tmp."""
    hidden: tuple[Path, ...] = ()
    """Shown as empty folders and files."""
    emptied: tuple[Path, ...] = ()
    """Shown as empty regular files."""
    tmp: Path | None = None
    """Mounted as /tmp; None: an empty one for each command."""
    home: tuple[Path, Path] | None = None
    """A home folder, and the folder that is mounted there."""
    network: bool = True
    """False: no network, not even on this machine."""
