"""Starting commands with a deadline and a limit on their output."""

from __future__ import annotations

import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.core.errors import record_errors
from goalrunner.core.ports import Completion
from goalrunner.system.child import ChildProcess, NotStarted, describe_signal, started
from goalrunner.system.watchdog import Watchdog

# By its path: PATH may begin with a folder of the workspace, in which an agent can
# create a program `sh`.
SHELL = "/bin/sh"
OUTPUT_LIMIT = 256_000_000
"""Bytes of output after which a command is ended."""
GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""
# Seconds between two looks at the size of the output.
_POLL = 0.1
_TAIL = 4_000


@contextmanager
def opened_sink(path: Path) -> Iterator[int]:
    """Open a new, empty output file. Raise RecordError."""
    # Appending, so that two writers never overwrite each other.
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW
    with record_errors(f"cannot write {path}"):
        sink = os.open(path, flags, 0o600)
    try:
        yield sink
    finally:
        os.close(sink)


def tail_of(path: Path, most: int = _TAIL) -> str:
    """Return the last `most` bytes of a file as text; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - most, 0))
            data = file.read(most)
    except OSError:
        return ""
    # The cut may have gone through a character of UTF-8.
    if size > most:
        data = data.lstrip(bytes(range(0x80, 0xC0)))
    return data.decode(errors="replace").replace("\0", "")


@dataclass(frozen=True)
class ProcessLauncher:
    """The port `Launcher` on this machine. `output_limit` in bytes, `grace` in seconds.

    With `marked` False, its processes have no tag in their environment; something else
    must then end all of them. They end with this program, even if it is killed.
    """

    output_limit: int = OUTPUT_LIMIT
    grace: float = GRACE
    marked: bool = True
    watchdog: Watchdog = field(default_factory=Watchdog, repr=False, compare=False)

    def close(self) -> None:
        self.watchdog.close()

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
        """See `goalrunner.core.ports.Launcher`.

        Raise RecordError if `output` or `errors` cannot be written.
        """
        began = time.monotonic()
        with ExitStack() as files:
            sinks = [files.enter_context(opened_sink(output))]
            if errors is not None:
                sinks.append(files.enter_context(opened_sink(errors)))
            process = started(
                argv,
                cwd=cwd,
                env=env,
                streams=(_source(stdin, files), sinks[0], sinks[-1]),
                watchdog=self.watchdog,
                grace=self.grace,
                marked=self.marked,
            )
            try:
                async with process as child:
                    if on_start is not None:
                        on_start(child.processor_time)
                    cut_reason = await self._until_end(child, sinks, timeout)
                    duration = time.monotonic() - began
            except NotStarted as refusal:
                return Completion(
                    refusal.exit_code,
                    time.monotonic() - began,
                    timed_out=False,
                    output=output,
                    error=refusal.reason,
                )
            # Output may have been written after the last look at its size.
            for sink in sinks:
                if self._is_over_limit(sink):
                    cut_reason = cut_reason or self._limit_reason
                    os.truncate(sink, self.output_limit)
        error = cut_reason or _lost_or_killed(child.status)
        return Completion(
            exit_code=None if error else child.status,
            duration=duration,
            timed_out=cut_reason.startswith("timed out"),
            output=output,
            error=error,
            survivors=child.survivors,
        )

    async def _until_end(
        self, child: ChildProcess, sinks: Sequence[int], timeout: float | None
    ) -> str:
        """Wait for the end of the child and return why it must be ended.

        Empty if it ended by itself.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not await child.wait(max(0.0, min(_POLL, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                return f"timed out after {timeout:g} s"
            if any(map(self._is_over_limit, sinks)):
                return self._limit_reason
        return ""

    def _is_over_limit(self, sink: int) -> bool:
        return os.fstat(sink).st_size > self.output_limit

    @property
    def _limit_reason(self) -> str:
        return f"output limit of {self.output_limit / 1_000_000:g} MB"


def _source(stdin: bytes | None, files: ExitStack) -> int:
    """Return an open file with the input of a command."""
    if not stdin:
        # Not an empty file, which `rg` would search instead of the current folder.
        return subprocess.DEVNULL
    # A file rather than a pipe, so that a child that does not read never blocks the
    # runner.
    file = files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    file.write(stdin)
    file.seek(0)
    return file.fileno()


def _lost_or_killed(status: int | None) -> str:
    """Return why a status is no exit code; empty if it is one."""
    return "its exit status was lost" if status is None else describe_signal(status)


def program_outside(
    name: str, environ: Mapping[str, str], folders: Iterable[Path]
) -> Path | None:
    """Return the first program of that name on PATH outside of `folders`, or None.

    It neither lies nor is linked within them.
    """
    roots = [Path(os.path.realpath(folder)) for folder in folders]
    for entry in environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(entry, name)
        # The method of Path raises errors for some invalid names.
        is_file = path.is_absolute() and os.path.isfile(path)  # noqa: PTH113
        if not is_file or not os.access(path, os.X_OK):
            continue
        # A link outside may lead into a folder, and a link inside may lead out of it.
        places = (path.resolve(), path.parent.resolve())
        if not any(place.is_relative_to(root) for place in places for root in roots):
            return path
    return None
