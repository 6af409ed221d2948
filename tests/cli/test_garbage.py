"""No search for garbage goes through what a command has loaded; a run searches what comes later. In processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

ASK = """
import asyncio, gc, json, sys
from goalrunner.app import session as api
from goalrunner.cli import main

async def arun(*arguments, **options):
    print(json.dumps([before, gc.isenabled(), gc.get_freeze_count() > 10_000]), file=sys.stderr)
    raise SystemExit(0)

def load(*arguments):
    global before
    before = gc.isenabled()

api.arun = arun
from goalrunner.cli import run
run._checked_copy = load
sys.argv = ["goal", "run", "--objective", "Make it.", "--validator", "true", "--model", "openai/gpt-5"]
main.{entry}()
"""


def _seen(entry: str) -> list[bool]:
    """Whether Python collects while it loads, whether it does in the run, and whether what was loaded is passed over."""
    command = [sys.executable, "-c", ASK.replace("{entry}", entry)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    seen: list[bool] = json.loads(ended.stderr.splitlines()[-1])
    return seen


@pytest.mark.slow
def test_a_run_looks_for_garbage_only_in_what_came_after_the_start() -> None:
    assert _seen("program") == [False, True, True]


@pytest.mark.slow
def test_a_process_that_is_not_ours_keeps_its_own_way() -> None:
    assert _seen("main") == [True, True, False]
