"""Child processes, as the loop needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


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


class Launcher(Protocol):
    """Starts child processes and leaves nobody behind."""

    async def launch(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: Path,
        timeout: float | None = None,
        stdin: bytes | None = None,
    ) -> Completion:
        """Run `argv` to its end, its deadline (seconds) or cancellation; then end every process that it started.

        `env` is the whole environment. stdout and stderr go to the file `output` as they come. Never raises for
        what the command does: a program that is missing gives `exit_code=127` and the reason in `error`.
        """
        ...
