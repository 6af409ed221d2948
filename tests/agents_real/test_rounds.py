"""Real agents over rounds: one conversation, what is reported of it, and what is left when it is cut."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from goalrunner.errors import AgentError, AgentNotSignedIn
from goalrunner.rehearsal import Rehearsal, fail, run, say
from tests.agents_real.stage import Sleepers, Stage, bodies
from tests.support.agents import MemoryRecorder

pytestmark = [pytest.mark.agents, pytest.mark.timeout(90)]

RESULT = {"codex": ("exit 3",), "opencode": ("exit 3",)}
"""What each says of a command that exits with 3; the others say only that it failed, or not even that."""

ASIDE = {"gemini": 15}
"""Tokens of what an agent asks a model besides, before each round."""


async def test_two_rounds_are_one_conversation(stage: Stage, recorder: MemoryRecorder) -> None:
    script = [
        run("echo hi > a.txt; echo made; exit 3", text="I begin."),
        say("First is done."),
        run("cat a.txt", text="Again."),
        say("Second is done."),
    ]
    with Rehearsal(script) as server:
        talk = stage.conversation(server)
        first = await talk.send("create a.txt", recorder)
        second = await talk.send("and now read it", recorder)
    assert (first.text, second.text) == ("First is done.", "Second is done.")
    assert (stage.workspace / "a.txt").read_text() == "hi\n"
    assert server.played == 4
    assert not server.exhausted
    said = [str(message["content"]) for message in recorder.messages]
    assert said == [
        "create a.txt",
        "I begin.",
        "First is done.",
        "and now read it",
        "Again.",
        "Second is done.",
    ]
    made, read = recorder.results
    assert "echo hi > a.txt" in made.command
    assert "cat a.txt" in read.command
    assert {made.reported_by, read.reported_by} == {stage.name}
    assert made.facts in (RESULT.get(stage.name, ("error",)), ())
    assert b"made" in recorder.outputs[0]
    assert b"hi" in recorder.outputs[1]
    assert len({session.id for session in recorder.sessions}) == 1
    assert all(ran.ending == "exit 0" for ran in recorder.runs)


async def test_what_is_used_is_counted_once(stage: Stage, recorder: MemoryRecorder) -> None:
    answers = [run("true"), say("one"), run("true"), say("two")]
    script = [replace(answer, usage=(1000, 7)) for answer in answers]
    with Rehearsal(script) as server:
        talk = stage.conversation(server)
        counted = []
        for prompt in ("first", "second"):
            before = len(recorder.usages)
            await talk.send(prompt, recorder)
            counted.append(sum(used.tokens for _, used in recorder.usages[before:]))
    aside = ASIDE.get(stage.name, 0)
    assert counted == [2 * 1007 + aside] * 2
    costs = {used.cost_usd is None for _, used in recorder.usages}
    # The rehearsal's model is on no price list: opencode reports no dollars for it, which is no price and not a free one.
    assert costs == {"cost_usd" not in stage.preset.reports or stage.name == "opencode"}
    if stage.name == "claude":
        spent = [used.cost_usd for _, used in recorder.usages if used.cost_usd]
        assert spent[0] == pytest.approx(spent[1])


async def test_an_error_is_no_answer(stage: Stage, recorder: MemoryRecorder) -> None:
    with Rehearsal([fail(400, "your credit balance is too low")]) as server, pytest.raises(AgentError) as failed:
        await stage.conversation(server).send("hello", recorder)
    assert "credit balance is too low" in failed.value.message.lower()
    assert not isinstance(failed.value, AgentNotSignedIn)


async def test_a_prompt_may_be_long(stage: Stage, recorder: MemoryRecorder) -> None:
    lines = [f"line {number} of a long task" for number in range(10_500)]
    prompt = "\n".join([*lines, "the very last word is persimmon"])
    assert len(prompt) > 240_000
    with Rehearsal([say("Read.")]) as server:
        reply = await stage.conversation(server).send(prompt, recorder)
        asked = bodies(server)
    assert reply.text == "Read."
    assert all(words in asked for words in ("line 4500 of a long task", "the very last word is persimmon"))


async def test_nobody_is_left_of_a_round_that_is_cut(stage: Stage, recorder: MemoryRecorder) -> None:
    sleepers = Sleepers.new()
    with Rehearsal([run(sleepers.command)]) as server:
        turn = asyncio.ensure_future(stage.conversation(server).send("sleep", recorder))
        started = asyncio.ensure_future(sleepers.until(2))
        await asyncio.wait((turn, started), return_when=asyncio.FIRST_COMPLETED)
        assert started.done(), turn.exception() or turn.result()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert sleepers.alive() == []
