"""Processes that lost every mark: ended in the program `goal`, left alone in a program that uses the library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="adoption is Linux's")

PROGRAM = """
import asyncio, os, resource, subprocess, sys
from pathlib import Path
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.system.adopted import as_helper, claim_adopted

def start(environ, seconds):
    return subprocess.Popen(["sleep", seconds], env=environ, start_new_session=True)

async def main(folder, claims):
    before = start(dict(os.environ), "31")
    if claims:
        claim_adopted()
    helper = start(as_helper(os.environ), "32")
    same_session = subprocess.Popen(["sleep", "33"])
    # A process may raise its limit again up to the hard one, which is how it loses the last mark.
    _, hard = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
    limit = "unlimited" if hard == resource.RLIM_INFINITY else hard
    unmark = f"/usr/bin/prlimit --pid $$ --msgqueue={limit}:{limit}"
    line = f"setsid env -i /bin/sh -c '{unmark}; /bin/sleep 30 & exit 0'; sleep 0.2"
    done = await ProcessLauncher().launch(
        ["/bin/sh", "-c", line], cwd=folder, env={"PATH": os.environ["PATH"]}, output=folder / "output"
    )
    alive = [one.poll() is None for one in (before, helper, same_session)]
    print(done.exit_code, done.survivors, alive)
    for one in (before, helper, same_session):
        one.kill()
    subprocess.run(["pkill", "-P", str(os.getpid())])

asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "claims"))
"""


def run(folder: Path, mode: str) -> str:
    program = [sys.executable, "-c", PROGRAM, str(folder), mode]
    return subprocess.run(program, env=dict(os.environ), capture_output=True, text=True, timeout=60, check=True).stdout


def test_an_adopted_process_without_a_mark_is_ended_and_nothing_else(tmp_path: Path) -> None:
    assert run(tmp_path, "claims") == "0 ('sleep',) [True, True, True]\n"


def test_without_a_claim_children_of_the_program_are_left_alone(tmp_path: Path) -> None:
    assert run(tmp_path, "none") == "0 () [True, True, True]\n"
