"""A call in a thread can be left behind: neither its loop nor the program waits for it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from textwrap import dedent

import pytest

from goalrunner.system.event_loop import in_thread


async def test_it_gives_what_the_call_gives_and_raises_what_it_raises() -> None:
    assert await in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 7, 0)


def test_a_program_ends_while_a_call_goes_on() -> None:
    program = dedent("""\
        import asyncio, time
        from goalrunner.system.event_loop import in_thread

        async def main():
            try:
                await asyncio.wait_for(in_thread(time.sleep, 60), 0.1)
            except TimeoutError:
                print("out of time")

        asyncio.run(main())
        """)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "out of time\n", "")


async def test_a_call_without_a_waiter_raises_nothing() -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(in_thread(asyncio.run, asyncio.sleep(0.05)), 0.01)
    await asyncio.sleep(0.2)
