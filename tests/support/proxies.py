"""A proxy in front of a server of the tests, which can be stopped."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.postgres import free_port

_PROXY = """\
import asyncio, sys
async def pipe(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()
async def connected(reader, writer):
    try:
        other = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    except OSError:
        return writer.close()
    await asyncio.gather(pipe(reader, other[1]), pipe(other[0], writer))
async def main():
    async with await asyncio.start_server(connected, "127.0.0.1", int(sys.argv[1])) as s:
        print("ready", flush=True)
        await s.serve_forever()
asyncio.run(main())
"""


@contextmanager
def proxy(port: int) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A proxy in front of a port, and its own port."""
    own_port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-c", _PROXY, str(own_port), str(port)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process, own_port
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
