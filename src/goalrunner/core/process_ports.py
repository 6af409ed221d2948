"""Protocols of child processes and sandboxes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypedDict

HIDDEN = "not found in the sandbox"
"""What is said of a program that is there, and not in view of the jail that it was to be started in."""


@dataclass(frozen=True)
class Completion:
    """A child process that is over. `exit_code` is None when a signal ended it; `output` holds stdout and stderr."""

    exit_code: int | None
    duration: float
    timed_out: bool
    output: Path
    error: str = ""
    """Why it could not be started or was cut, in words; empty when it ran to its own end."""
    survivors: tuple[str, ...] = ()
    """Command names of the processes that it left behind and that were ended with it."""


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
        """Run `argv` to its end, its deadline (seconds) or cancellation; then end every process that it started.

        `env` is the whole environment. stdout and stderr go to the file `output` as they come, or stderr to the file
        `errors`. `shared` are files and folders outside of the workspace that it reads or writes for the runner: where
        commands are confined, those and no others of the runner's stay in view. Never raises for what the command
        does: a program that is missing gives `exit_code=127` and the reason in `error`.
        """
        ...


class Connection(Protocol):
    """A child process that is talked to, through its stdin and stdout."""

    async def read(self) -> bytes:
        """What it has written since, as soon as there is something; empty when it writes no more."""
        ...

    async def write(self, data: bytes) -> None:
        """Give it all of `data`. Raises ConnectionError when it does not listen any more."""
        ...

    def mark(self) -> None:
        """A round begins: who lives now belongs to the agent itself."""
        ...

    async def sweep(self, helpers: Collection[str] = ()) -> tuple[str, ...]:
        """End every process below it that began after `mark` in a group of its own; gives their names.

        Processes of the names in `helpers` stay, and their children, though not who is below these.
        """
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Stop it and every process below it while the context is open, so that none of them can change a file."""
        ...

    @property
    def exit_code(self) -> int | None:
        """Its exit code, minus the number for a signal; None while it runs."""
        ...

    @property
    def obstacle(self) -> str:
        """Why its program could not be started, where it has ended and what confines it knows; else empty."""
        ...


class Connector(Protocol):
    """Starts a child process that is talked to, and leaves nobody behind."""

    def connect(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], errors: Path
    ) -> AbstractAsyncContextManager[Connection]:
        """Within it, the process runs; at its end everybody is ended. stderr goes to the file `errors`.

        Raises AgentNotInstalled where the program cannot be started.
        """
        ...


@dataclass(frozen=True)
class Confinement:
    """What a confined command may see and do. Paths are absolute and without links; what is not there counts for nothing.

    The deeper of two paths wins; on the same one `writable` is stronger than `readable`, and that than `hidden`. All
    that is named nowhere can be read, and not written.
    """

    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    """Stays in view where it lies in something hidden, or in /tmp."""
    hidden: tuple[Path, ...] = ()
    """Folders are empty, files as well."""
    emptied: tuple[Path, ...] = ()
    """Regular files that are there and hold nothing."""
    tmp: Path | None = None
    """Stands as /tmp; None: an empty one that goes with the command."""
    home: tuple[Path, Path] | None = None
    """A home folder, and what stands in its place."""
    network: bool = True
    """False: it reaches no other machine, and nothing that listens on this one."""


