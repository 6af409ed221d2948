"""What a round costs beside what it cannot do without: its commands and its calls of the models."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.bench.measuring import GOAL, hold, pairs, process_seconds, remark, run_process
from tests.bench.rounds import CAPPED, SHELL, VALIDATOR, endless_server, write_goal

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

FEW, MANY = 2, 22
"""Rounds of the two runs whose difference is measured: what start and end cost is the same in both."""

KEY = {"OPENAI_API_KEY": "none"}

BARE = """
import os, subprocess, sys, time
os.environ.update(
    LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS="true", LITELLM_MODE="PRODUCTION"
)
import litellm
litellm.disable_aiohttp_transport = True  # as in a run
base, shell, validator, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])

def call(model):
    messages = [{"role": "system", "content": "You write notes."}, {"role": "user", "content": "Write notes."}]
    litellm.completion(model=model, messages=messages, api_base=base, api_key="none")

def commands():
    for command in (shell, validator):
        subprocess.run(["sh", "-c", command], check=True, capture_output=True)

def one():
    call("openai/agent"), call("openai/agent"), call("openai/judge")
    commands()

one(), one()
began = time.perf_counter()
for _ in range(rounds):
    one()
print((time.perf_counter() - began) / rounds)
"""
"""The bare work of a round, without anybody who drives, records or checks it; prints seconds a round."""


def test_a_round_costs_at_most_twice_its_commands_and_bare_calls(tmp_path: Path) -> None:
    with endless_server() as server:
        few = write_goal(tmp_path / "few", FEW, agent="openai/agent", judge="openai/judge", api_base=server.base_url)
        many = write_goal(tmp_path / "many", MANY, agent="openai/agent", judge="openai/judge", api_base=server.base_url)

        def a_round() -> float:
            longer = process_seconds([GOAL, "run", str(many)], codes=(CAPPED,), env=KEY)
            shorter = process_seconds([GOAL, "run", str(few)], codes=(CAPPED,), env=KEY)
            return (longer - shorter) / (MANY - FEW)

        def bare() -> float:
            arguments = [server.base_url, SHELL, VALIDATOR, str(MANY - FEW)]
            return float(run_process([sys.executable, "-c", BARE, *arguments], cwd=tmp_path / "few").stdout)

        measured = pairs(a_round, bare, 5)
    hold("a round / its commands and bare calls", measured)
    remark("a round", [1000 * seconds for seconds in measured.first], "ms")
    remark("its commands and bare calls", [1000 * seconds for seconds in measured.second], "ms")
