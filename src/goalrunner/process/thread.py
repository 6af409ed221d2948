"""A call that can be waited for with a deadline. Owns the thread, which never keeps the program from ending."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call in a daemon thread and give what it gives; what it raises is raised here.

    Cancelling the wait leaves the thread to itself: Python cannot end one. The loop's own executor is not used, because
    closing the loop would wait for it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def tell(value: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((value, error))

    def work() -> None:
        value: Any = None
        failure: BaseException | None = None
        try:
            value = context.run(function, *arguments)
        except BaseException as error:
            # Handed over to the waiting side, which raises it.
            failure = error
        # The loop may be closed by now: nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, value, failure)

    threading.Thread(target=work, name="goal-thread", daemon=True).start()
    value, error = await done
    if error is not None:
        raise error
    return value
