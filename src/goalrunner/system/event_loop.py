"""Waiting in the event loop for files and threads."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


async def ready(file: int, seconds: float, *, to_write: bool = False) -> None:
    """Wait until an open file can be read, or written, but at most that long."""
    loop = asyncio.get_running_loop()
    is_ready = asyncio.Event()
    if to_write:
        add, remove = loop.add_writer, loop.remove_writer
    else:
        add, remove = loop.add_reader, loop.remove_reader
    add(file, is_ready.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await is_ready.wait()
    finally:
        # The file may have been closed meanwhile.
        with contextlib.suppress(OSError, ValueError):
            remove(file)


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call `function` in a daemon thread; return its result or raise its exception.

    Cancelling the wait leaves the thread running, because Python cannot end it.
    """
    # The executor of the event loop is not used: closing the loop would wait for it.
    done: Future[tuple[Any, BaseException | None]] = Future()
    # From now on it cannot be cancelled, so setting the result never fails.
    done.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def work() -> None:
        value, failure = None, None
        try:
            value = context.run(function, *arguments)
        except BaseException as error:
            failure = error
        done.set_result((value, failure))

    threading.Thread(target=work, name="goal-thread", daemon=True).start()
    value, error = await asyncio.wrap_future(done)
    if error is not None:
        raise error
    return value
