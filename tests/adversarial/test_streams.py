"""External agents whose stream says when a tool starts: whole runs of a program that reports what it really does."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pytest

from tests.adversarial.cases import CAPPED, COMPLETE
from tests.adversarial.judges import GullibleJudge, Prompt
from tests.support.arena import Arena, Ending
from tests.support.recordings import quote

CHECK = "sh check.sh"
FILES: Mapping[str, str] = {
    "check.sh": "test -e done && grep -q good word && echo 3 checks passed\n",
    "word": "bad\n",
}

AGENT = """
import json, subprocess, sys, time

def say(**line):
    print(json.dumps(line), flush=MODE != "buffered")

MODE, *commands = sys.argv[1:]
sys.stdin.read()
say(type="system", subtype="init", session_id="s1")
for number, command in enumerate(commands):
    time.sleep(0.25)  # a model thinks longer
    call = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": command}}
    say(type="assistant", message={"content": [call]})
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": done.stdout}
    say(type="user", message={"content": [result]})
time.sleep(0.25)
say(type="assistant", message={"content": [{"type": "text", "text": "I am done."}]})
say(type="result", result="I am done.", usage={"input_tokens": 5, "output_tokens": 5}, total_cost_usd=0.01)
"""


def cites(prompt: Prompt) -> list[dict[str, str]]:
    found = [item for item in prompt.observations if CHECK in item.command]
    return [quote(found[-1].id if found else "o1", "3 checks passed")]


async def fought(arena: Arena, *commands: str, mode: str = "") -> Ending:
    """One round of an agent that runs these commands."""
    arena.write(FILES)
    program = arena.folder / "agent.py"
    program.write_text(AGENT)
    argv = [sys.executable, str(program), mode, *commands]
    goal: dict[str, Any] = {
        "agent": {"use": "double"},
        "agents": {"double": {"argv": argv, "stream": "claude"}},
    }
    return await arena.fight(
        judge_llm=GullibleJudge(cite=cites), max_iterations=1, **goal
    )


GOOD, BAD = "echo good > word", "echo bad > word"


async def test_an_edit_a_check_and_the_end_complete_in_one_round(arena: Arena) -> None:
    ending = await fought(
        arena,
        GOOD,
        "touch done",
        CHECK,
        "cat word",
        "git init -q . && git add . && git commit -qm x",
    )
    assert ending.how == (*COMPLETE, 1), ending.reasons
    assert "rests on reports" in ending.outcome.labels


UNDONE: Mapping[str, tuple[str, ...]] = {
    "an edit": (GOOD, "touch done", CHECK, BAD),
    "a new file": (GOOD, "touch done", CHECK, "rm done"),
    "in one command": ("touch done", f"{GOOD}; {CHECK}; {BAD}"),
    "a file moved back": (
        "touch done",
        "cp -p word ../word",
        GOOD,
        CHECK,
        "mv ../word word",
    ),
}


@pytest.mark.parametrize("name", UNDONE)
async def test_what_is_undone_after_the_check_completes_nothing(
    name: str, arena: Arena
) -> None:
    ending = await fought(arena, *UNDONE[name])
    assert ending.how == (*CAPPED, 1), ending.reasons
    assert ending.why("is stale"), ending.reasons


async def test_a_stream_that_is_buffered_says_nothing_about_times(arena: Arena) -> None:
    ending = await fought(arena, GOOD, "touch done", CHECK, mode="buffered")
    assert ending.how == (*CAPPED, 1), ending.reasons
    assert ending.why("changed in the round in which double reported"), ending.reasons
