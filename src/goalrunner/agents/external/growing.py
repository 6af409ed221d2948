"""A file that another process writes, read as it grows. Owns the waiting; knows nothing of what is in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

_PIECE = 1 << 20
_LOOK = 0.05
"""Seconds between two looks."""


async def grown(path: Path, over: asyncio.Future[Any]) -> AsyncGenerator[bytes, None]:
    """What is written into the file, piece by piece, until `over` is done and all of it is read.

    A file that never comes gives nothing. Memory is bounded by one piece.
    """
    file = None
    try:
        while True:
            last = over.done()
            if file is None and path.exists():
                file = path.open("rb")
            while file is not None and (piece := file.read(_PIECE)):
                yield piece
                await asyncio.sleep(0)  # a flood holds nobody else up
            if last:
                return
            await asyncio.wait((over,), timeout=_LOOK)
    finally:
        if file is not None:
            file.close()
