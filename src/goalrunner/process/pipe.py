"""The two pipes to a child that is talked to. Owns reading and writing them without ever blocking the program.

A pipe is read only when somebody asks and written only as fast as the child takes it, so neither side can fill this
program's memory.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

_PIECE = 64 * 1024
_LOOK = 0.2
"""Seconds between two looks at whether the child lives: another process may hold its end of the pipe open."""


class Pipes:
    """stdin and stdout of a child. `over` says whether the child has ended."""

    def __init__(self) -> None:
        self.child_stdin, self._sink = os.pipe()
        self._source, self.child_stdout = os.pipe()
        self._ours = [self._sink, self._source]
        self._theirs = [self.child_stdin, self.child_stdout]
        for one in self._ours:
            os.set_blocking(one, False)

    def hand_over(self) -> None:
        """The child has its own ends now."""
        _close(self._theirs)

    def close(self) -> None:
        """Close whatever is open. Closing twice does nothing."""
        _close(self._theirs)
        _close(self._ours)

    def hang_up(self) -> None:
        """Nothing more will be written: the child sees the end of its input."""
        if self._sink in self._ours:
            self._ours.remove(self._sink)
            os.close(self._sink)

    async def read(self, over: Callable[[], bool]) -> bytes:
        """What there is, as soon as there is something; empty at the end."""
        loop = asyncio.get_running_loop()
        while self._source in self._ours:
            ended = over()  # asked first: what it wrote before its end is then there to be read
            try:
                data = os.read(self._source, _PIECE)
            except BlockingIOError:
                if ended:
                    return b""
                await _ready(loop.add_reader, loop.remove_reader, self._source)
            else:
                await asyncio.sleep(0)  # a child that never stops writing leaves the others their turn
                return data
        return b""

    async def write(self, data: bytes, over: Callable[[], bool]) -> None:
        """Give all of it. Raises ConnectionError when nobody listens any more."""
        loop = asyncio.get_running_loop()
        rest = memoryview(data)
        while rest:
            if self._sink not in self._ours:
                raise ConnectionError("the pipe is closed")
            try:
                rest = rest[os.write(self._sink, rest) :]
            except BlockingIOError:
                if over():
                    raise ConnectionError("the process has ended") from None
                await _ready(loop.add_writer, loop.remove_writer, self._sink)


async def _ready(add: Callable[..., object], remove: Callable[[int], object], pipe: int) -> None:
    """Wait until the pipe can be read or written, or it is time to look at the child."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    add(pipe, _settle, ready)
    try:
        await asyncio.wait((ready,), timeout=_LOOK)
    finally:
        with suppress(OSError, ValueError):
            remove(pipe)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _close(pipes: list[int]) -> None:
    while pipes:
        os.close(pipes.pop())
