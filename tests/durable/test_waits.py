"""A run that waits for the usage limit of its agent to reset: killed, interrupted, cancelled and resumed meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.command_line import start
from tests.support.durable_goal import Goal
from tests.support.external import program

pytestmark = pytest.mark.slow

AGENT = """
number = rounds()
state = Path(os.environ["STATE"])
(state / f"turn-{number}.json").write_text(json.dumps({"asked": asked, "prompt": prompt}))
say("system", subtype="init", session_id=f"s{number}", claude_code_version="2.1.332")
if number == 1:
    resets = time.time() + float((state / "seconds").read_text())
    say("rate_limit_event", rate_limit_info={"status": "rejected", "resetsAt": resets, "rateLimitType": "five_hour"})
    said = "You've hit your 5-hour limit"
    say("result", subtype="success", is_error=True, api_error_status=429, result=said, total_cost_usd=0,
        model_usage_since_last_result={})
    sys.exit(1)
Path("done").write_text("3")
say("assistant", message={"content": [{"type": "text", "text": "It is done."}]})
used = {"opus": {"inputTokens": 10, "outputTokens": 5, "costUSD": 0.5}}
say("result", subtype="success", is_error=False, result="It is done.", total_cost_usd=0.5,
    model_usage_since_last_result=used)
"""
FILE = """
objective = "make done hold a 3"
validator = "grep -q 3 done"
agent = "limited"
timeout = "1m"
[agents.limited]
argv = {argv}
resume = {resume}
stream = "claude"
reports = {{ tokens = "turn", cost_usd = "turn" }}
env = {{ STATE = "{state}" }}
"""
HOUR = 3600.0


@pytest.fixture
def limited(goal: Goal) -> Goal:
    """A goal whose agent is used up in its first turn, and does the work in its second."""
    argv = list(program(goal.root, AGENT))
    resume = [*argv, "--resume", "{session}"]
    goal.write(
        FILE.format(argv=json.dumps(argv), resume=json.dumps(resume), state=goal.root)
    )
    return goal


def resets_after(goal: Goal, seconds: float) -> None:
    (goal.root / "seconds").write_text(str(seconds))


def turn(goal: Goal, number: int) -> dict[str, Any]:
    """What the agent was given at one of its starts."""
    given: dict[str, Any] = json.loads((goal.root / f"turn-{number}.json").read_text())
    return given


def events(goal: Goal) -> list[str]:
    about = ("work_failed", "wait_started", "wait_ended", "run_resumed", "run_ended")
    return [
        record.event.type for record in goal.records() if record.event.type in about
    ]


def test_a_run_waits_until_the_limit_resets(limited: Goal) -> None:
    resets_after(limited, 3)
    ended = limited.run()
    assert ended.code == 0, ended
    assert "waiting" in ended.out
    assert "usage limit, five hours, until " in ended.out
    assert "over after " in ended.out
    assert turn(limited, 2) == turn(limited, 1)  # nothing was done in the first turn
    outcome = limited.outcome()
    assert 1 < outcome["waited"] <= 3
    assert (outcome["iterations"], outcome["usage"]["agent"]["cost_usd"]) == (1, 0.5)
    prompts = [message for message in limited.chat() if message["role"] == "user"]
    assert len(prompts) == 1


def test_a_run_that_is_killed_while_it_waits_waits_on(limited: Goal) -> None:
    resets_after(limited, 8)
    died = limited.run(kill=("after", wait_began(limited)))
    assert died.code == -9
    ended = limited.resume()
    assert ended.code == 0, ended
    assert events(limited) == [
        "work_failed",
        "wait_started",
        "run_resumed",
        "wait_ended",
        "run_ended",
    ]
    until = next(
        record.event.until
        for record in limited.records()
        if record.event.type == "wait_started"
    )
    over = next(
        record.at for record in limited.records() if record.event.type == "wait_ended"
    )
    # The log has times in whole milliseconds, rounded down.
    millisecond = timedelta(milliseconds=1)
    assert datetime.fromisoformat(over) + millisecond > datetime.fromisoformat(until)
    assert limited.outcome()["waited"] > 1


def wait_began(goal: Goal) -> int:
    """Return the place of the beginning of the wait in the log of such a run; the goal is then as before."""
    process = waiting(goal, HOUR)
    place = goal.number_of("wait_started")
    process.kill()
    process.communicate()
    (goal.root / "rounds").unlink()
    resets_after(goal, 8)
    return place


def test_the_usage_of_a_run_that_is_killed_while_it_waits_is_known(
    limited: Goal,
) -> None:
    process = waiting(limited, HOUR)
    process.kill()
    process.communicate()
    lost = json.loads(limited.command("status", "--json").out)
    assert (lost["status"], lost["cost_usd"], lost["uncounted_calls"]) == (
        "lost",
        0.0,
        0,
    )
    assert "waiting" not in limited.command("list").out


def waiting(goal: Goal, seconds: float) -> subprocess.Popen[str]:
    """Return a real `goal run` that waits."""
    resets_after(goal, seconds)
    process = start(
        "run", "goal.toml", cwd=goal.root, env={"GOAL_HOME": str(goal.home)}
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for summary in (goal.home / "runs").glob("*/summary.json"):
            if json.loads(summary.read_text()).get("waits_for"):
                return process
        time.sleep(0.02)
    raise AssertionError(process.communicate())


def test_a_wait_is_shown_and_can_be_interrupted_and_skipped(limited: Goal) -> None:
    process = waiting(limited, 5 * HOUR)
    shown = json.loads(limited.command("status", "--json").out)
    assert (shown["status"], shown["waits_for"]) == (
        "running",
        "usage limit, five hours",
    )
    assert datetime.fromisoformat(shown["resume_at"]) > datetime.now(UTC)
    assert "waiting: usage limit, five hours, until " in limited.command("status").out
    assert "waiting" in limited.command("list").out
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "try again  at " in out
    assert f"continue   goal resume {limited.folder.name}\n" in out
    outcome = limited.outcome()
    assert (outcome["status"], outcome["stop_reason"]) == ("cancelled", "interrupted")
    assert outcome["resume_at"] == shown["resume_at"]
    ended = limited.resume("--wait", "0")
    assert ended.code == 0, ended
    assert limited.outcome()["resume_at"] == ""


def test_a_run_that_waits_can_be_cancelled_from_another_terminal(limited: Goal) -> None:
    process = waiting(limited, 5 * HOUR)
    assert limited.command("cancel", limited.folder.name, "--yes").code == 0
    process.communicate(timeout=30)
    assert limited.outcome()["stop_reason"] == "cancelled"
    assert limited.resume().code == 2


def test_a_run_that_does_not_wait_ends_and_says_when_to_try_again(
    limited: Goal,
) -> None:
    resets_after(limited, 5 * HOUR)
    ended = limited.run("--wait", "0")
    assert ended.code == 4
    assert "try again  at " in ended.out
    assert "5-hour limit" in ended.out
    outcome = limited.outcome()
    assert outcome["message"].splitlines()[-1].startswith("the limit resets at ")
    assert datetime.fromisoformat(outcome["resume_at"]) > datetime.now(UTC)
