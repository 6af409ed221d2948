"""The descriptions of exit codes, and processes that lost every mark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from goalrunner.system.child import describe_signal, describe_status


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exit 0"), (1, "exit 1"), (128, "exit 128"), (137, "exit 137: SIGKILL"), (143, "exit 143: SIGTERM"),
        (145, "exit 145"), (255, "exit 255"), (-9, "killed by SIGKILL"), (-40, "killed by signal 40"),
    ],
)  # fmt: skip
def test_a_signal_is_named_also_where_a_shell_or_a_sandbox_gives_it_on(status: int, words: str) -> None:
    assert describe_status(status) == words


def test_nothing_killed_a_process_that_ended_by_itself() -> None:
    assert [describe_signal(0), describe_signal(137)] == ["", ""]
    assert describe_signal(-15) == "killed by SIGTERM"


ADOPTS = pytest.mark.skipif(sys.platform != "linux", reason="adoption is Linux's")

PROGRAM = """
import asyncio, os, resource, subprocess, sys
from pathlib import Path
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.system.watchdog import claim_adopted

def start(seconds, **options):
    return subprocess.Popen(["sleep", seconds], **options)

async def main(folder, claims):
    before = start("31", start_new_session=True)
    if claims:
        claim_adopted()
    helper = start("32", process_group=0)
    same_session = start("33")
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


@ADOPTS
def test_an_adopted_process_without_a_mark_is_ended_and_nothing_else(tmp_path: Path) -> None:
    assert run(tmp_path, "claims") == "0 ('sleep',) [True, True, True]\n"


@ADOPTS
def test_without_a_claim_children_of_the_program_are_left_alone(tmp_path: Path) -> None:
    assert run(tmp_path, "none") == "0 () [True, True, True]\n"
