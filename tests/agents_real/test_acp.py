"""Real agents that speak the Agent Client Protocol: one process over the rounds."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from goalrunner.ports import Closing
from goalrunner.presets import find
from goalrunner.rehearsal import Rehearsal, run, say
from tests.agents_real.programs import FOLDER, installed
from tests.agents_real.stage import Sleepers, Stage
from tests.support.agents import MemoryRecorder

pytestmark = [pytest.mark.agents, pytest.mark.timeout(120)]


@pytest.fixture
def speaker(stage: Stage) -> Stage:
    """The stage of an agent that is driven by ACP."""
    program = find(stage.name, {}, {}).acp[0]
    if not installed(program):
        pytest.skip(f"{program} is not installed, or not in {FOLDER}")
    if stage.name == "gemini":
        # Driven by ACP it does not go by its environment in this.
        settings = stage.root / "home/.gemini/settings.json"
        settings.parent.mkdir()
        settings.write_text('{"security": {"auth": {"selectedType": "vertex-ai"}}}')
    return replace(stage, protocol="acp")


async def test_two_rounds_are_one_conversation(speaker: Stage, recorder: MemoryRecorder) -> None:
    script = [
        run("echo hi > a.txt; echo made", text="I begin."),
        say("First is done."),
        run("cat a.txt", text="Again."),
        say("Second is done."),
    ]
    with Rehearsal(script) as server:
        talk = speaker.conversation(server)
        assert isinstance(talk, Closing)
        try:
            first = await talk.send("create a.txt", recorder)
            second = await talk.send("and now read it", recorder)
        finally:
            await talk.close()
    assert "First is done." in first.text
    assert "Second is done." in second.text
    assert (speaker.workspace / "a.txt").read_text() == "hi\n"
    # Some ask the model for more when all is done, a title for one.
    assert server.played >= 4
    assert {result.reported_by for result in recorder.results} == {speaker.name}
    assert len(recorder.results) == 2
    assert len({session.id for session in recorder.sessions}) == 1


async def test_a_run_goes_on_until_its_check_is_green(speaker: Stage) -> None:
    script = [say("It is all done, believe me."), run("echo 3 > done"), say("Now it is done.")]
    with Rehearsal(script) as server:
        outcome, _ = await speaker.run(server)
    assert (outcome.status, outcome.iterations) == ("complete", 2), outcome.message


async def test_nobody_is_left_of_a_round_that_is_cut(speaker: Stage, recorder: MemoryRecorder) -> None:
    sleepers = Sleepers.new()
    with Rehearsal([run(sleepers.command)]) as server:
        talk = speaker.conversation(server)
        assert isinstance(talk, Closing)
        turn = asyncio.ensure_future(talk.send("sleep", recorder))
        started = asyncio.ensure_future(sleepers.until(2))
        await asyncio.wait((turn, started), return_when=asyncio.FIRST_COMPLETED)
        assert started.done(), turn.exception() or turn.result()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await talk.close()
        assert sleepers.alive() == []
