"""Whole runs with real agents: they end complete by proof alone, and failed with the line that helps."""

from __future__ import annotations

import time

import pytest

from goalrunner.rehearsal import Rehearsal, fail, run, say
from tests.agents_real.stage import Stage

pytestmark = [pytest.mark.agents, pytest.mark.timeout(120)]


async def test_a_run_goes_on_until_its_check_is_green(stage: Stage) -> None:
    script = [
        say("It is all done, believe me."),
        run("echo 3 > done", text="Then I write it."),
        say("Now it is done."),
    ]
    with Rehearsal(script) as server:
        outcome, events = await stage.run(server)
    assert (outcome.status, outcome.iterations) == ("complete", 2), outcome.message
    assert outcome.models["agent"] == stage.name
    assert outcome.usage["agent"].input_tokens >= 30
    (result,) = [event.observation for event in events if event.type == "tool_result_recorded"]
    assert result.reported_by == stage.name
    assert server.played == 3


async def test_each_retry_may_begin_afresh(stage: Stage) -> None:
    script = [say("It is done."), run("echo 3 > done"), say("Now it is done.")]
    with Rehearsal(script, fresh=True) as server:
        outcome, events = await stage.run(server, preserve_context=False)
    assert (outcome.status, outcome.iterations) == ("complete", 2), outcome.message
    sessions = {event.session.id for event in events if event.type == "session_opened" and event.session.id}
    assert len(sessions) == 2


async def test_a_wrong_key_fails_the_run_in_its_first_round(stage: Stage) -> None:
    with Rehearsal([say("never")], api_key="another") as server:
        outcome, _ = await stage.run(server)
    assert (outcome.status, outcome.exit_code, outcome.iterations) == ("failed", 4, 0)
    assert stage.preset.sign_in in outcome.message
    assert f"the agent {stage.name} has no valid key" in outcome.message


async def test_a_server_that_never_works_ends_the_run_at_its_deadline(stage: Stage) -> None:
    began = time.monotonic()
    with Rehearsal([fail(500, "the machine is broken")]) as server:
        outcome, _ = await stage.run(server, timeout=10)
        took = time.monotonic() - began
    assert outcome.status in ("failed", "capped"), outcome.message
    assert not (stage.workspace / "done").exists()
    # Whoever goes on trying is ended: the deadline, the grace, and what a run takes besides.
    assert took < 25
