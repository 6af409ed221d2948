"""Open connections end with the event loop that they belong to. Owns nothing but that end.

LiteLLM keeps one HTTP client for each loop and closes none of them: each would complain as an unclosed socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import weakref
from collections.abc import AsyncGenerator
from typing import Any

_watched: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = weakref.WeakKeyDictionary()


async def close_with_loop(library: Any) -> None:
    """See to it that LiteLLM's clients of the running loop are closed when `asyncio.run` (or a Runner) ends it."""
    loop = asyncio.get_running_loop()
    if loop in _watched:
        return
    watcher = _close_at_end(library, id(loop))
    _watched[loop] = watcher
    await anext(watcher)


async def _close_at_end(library: Any, loop_id: int) -> AsyncGenerator[None, None]:
    # A loop ends its open async generators as its last act: the one hook that it has.
    try:
        yield
    finally:
        for client in _clients(library, loop_id):
            with contextlib.suppress(Exception):
                await _close(client)


def _clients(library: Any, loop_id: int) -> list[Any]:
    """The cached clients of one loop, taken out of the cache; the loop's id ends their keys."""
    cache = getattr(library, "in_memory_llm_clients_cache", None)
    entries: dict[str, Any] = getattr(cache, "cache_dict", None) or {}
    mine = [key for key in entries if str(key).endswith(f"-{loop_id}")]
    return [entries.pop(key) for key in mine]


async def _close(client: Any) -> None:
    for name in ("aclose", "close"):
        close = getattr(client, name, None)
        if callable(close):
            ended = close()
            if inspect.isawaitable(ended):
                await ended
            return
