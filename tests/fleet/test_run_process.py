"""The process of a run ends itself when it hangs, and only then."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """\
import asyncio, re, time
from goalrunner.fleet.run_process import unless_hung

async def waits():
    await asyncio.sleep(0.1)
    await asyncio.to_thread(time.sleep, 2.5)

async def blocks():
    await asyncio.sleep(0.1)
    time.sleep(60)

async def holds_the_interpreter():
    re.match(r"(a+)+b", "a" * 60)

asyncio.run(unless_hung({work}(), 1.0))
"""


def ended(work: str) -> subprocess.CompletedProcess[str]:
    program = _PROGRAM.format(work=work)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50
    )


def test_a_process_that_waits_for_long_is_not_ended() -> None:
    done = ended("waits")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "work", ["blocks", pytest.param("holds_the_interpreter", marks=pytest.mark.slow)]
)
def test_a_process_that_hangs_says_where_and_ends(work: str) -> None:
    done = ended(work)
    assert done.returncode == 1
    # It says so at the beginning of a line, as the worker looks for it.
    assert done.stderr.startswith("Timeout (")
    assert f"in {work}" in done.stderr
