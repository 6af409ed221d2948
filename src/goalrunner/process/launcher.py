"""Starts child processes and leaves nobody behind. Owns deadline and size of the output; decides nothing about success."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.ports import Completion
from goalrunner.process.ancestry import adopt_orphans
from goalrunner.process.ending import Ending
from goalrunner.process.guardian import Guardian
from goalrunner.process.leader import Leader, NotStarted, start
from goalrunner.process.mark import Mark
from goalrunner.process.sink import opened_sink
from goalrunner.process.status import killer

OUTPUT_LIMIT = 256_000_000
"""Bytes of output after which a command is taken for a runaway."""

GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""

_LOOK = 0.1
"""Seconds between two looks at the size of the output."""


@dataclass(frozen=True)
class ProcessLauncher:
    """The port `Launcher` on this machine. `output_limit` in bytes, `grace` in seconds.

    `marked` False leaves out the variable that marks its processes, where something else ends all of them.
    What it has started dies with this program, even where that is killed.
    """

    output_limit: int = OUTPUT_LIMIT
    grace: float = GRACE
    marked: bool = True
    guardian: Guardian = field(default_factory=Guardian, repr=False, compare=False)

    def close(self) -> None:
        """Nothing more will be started."""
        self.guardian.close()

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
        """See `goalrunner.ports.Launcher`. Raises RecordError when `output` or `errors` cannot be written."""
        adopt_orphans()
        began = time.monotonic()
        mark = Mark(guard=self.guardian.token) if self.marked else Mark.by_limit()
        self.guardian.watch()
        errors_sink = opened_sink(errors) if errors else nullcontext()
        with opened_sink(output) as sink, errors_sink as second, _source(stdin) as source:
            sinks = (sink, second)
            try:
                leader = start(argv, cwd=cwd, env=env, mark=mark, stdin=source, output=sink, errors=second)
            except NotStarted as refusal:
                duration = time.monotonic() - began
                return Completion(refusal.exit_code, duration, timed_out=False, output=output, error=refusal.reason)
            ending = Ending(leader, mark, self.grace)
            try:
                self.guardian.began(leader.pid, leader.limit)
                cut = await self._until_end(leader, sinks, timeout)
                duration = time.monotonic() - began
                await ending.gently()
            except asyncio.CancelledError:
                await ending.gently()
                raise
            finally:
                ending.now()
                self.guardian.ended(leader.pid)
                status = leader.reap()
            for one in sinks:
                if one is not None and self._flooded(one):
                    cut = cut or self._flood
                    os.truncate(one, self.output_limit)
        error = cut or _error_of(status)
        return Completion(
            exit_code=None if error else status,
            duration=duration,
            timed_out=cut.startswith("timed out"),
            output=output,
            error=error,
            survivors=ending.survivors,
        )

    async def _until_end(self, leader: Leader, sinks: Sequence[int | None], timeout: float | None) -> str:
        """Wait for the leader; gives why it must be cut, or an empty string when it came to its own end."""
        deadline = time.monotonic() + timeout if timeout is not None else math.inf
        while not await leader.wait(max(0.0, min(_LOOK, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                return f"timed out after {timeout:g} s"
            if any(map(self._flooded, sinks)):
                return self._flood
        return ""

    def _flooded(self, sink: int | None) -> bool:
        return sink is not None and os.fstat(sink).st_size > self.output_limit

    @property
    def _flood(self) -> str:
        return f"output limit of {self.output_limit / 1_000_000:g} MB"


def _error_of(status: int | None) -> str:
    if status is None:
        return "its exit status was lost"
    return killer(status)


@contextmanager
def _source(data: bytes | None) -> Iterator[int]:
    """What the child reads: a file, never a pipe, so that a child that does not read holds nobody up."""
    if data is None:
        source = os.open(os.devnull, os.O_RDONLY)
    elif sys.platform == "linux":
        source = os.memfd_create("stdin", os.MFD_CLOEXEC)
    else:
        source, name = tempfile.mkstemp()
        os.unlink(name)  # noqa: PTH108 - there is no Path, only a name
    try:
        if data:
            with open(source, "wb", closefd=False) as file:
                file.write(data)
            os.lseek(source, 0, os.SEEK_SET)
        yield source
    finally:
        os.close(source)
