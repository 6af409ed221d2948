"""A machine without /bin/sh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from goalrunner.core.ports import Completion


class Shellless:
    """The port `Launcher` there: a program that is named by its path is not found."""

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
        on_start: Callable[[Callable[[], float]], None] | None = None,
    ) -> Completion:
        """127, in the words of `goalrunner.system`."""
        return Completion(
            127, 0.0, timed_out=False, output=output, error=f"{argv[0]}: not found"
        )
