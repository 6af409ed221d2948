"""Messages to an agent made with the protocol's own library, checked against its schema."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from goalrunner.core.agent_ports import Unfinished
from goalrunner.core.outcome import Usage
from tests.support.acp_bench import AcpBench

COMMAND = (
    sys.executable,
    str(Path(__file__).parents[2] / "support" / "acp_library_agent.py"),
)


@pytest.mark.slow
async def test_an_agent_made_with_the_library_is_driven_and_taken_up_again(
    tmp_path: Path,
) -> None:
    bench = AcpBench(tmp_path)
    recorder, talk = bench.recorder(), bench.conversation(COMMAND)

    reply = await talk.send("this", recorder)
    await talk.close()

    assert reply.text == "heard this"
    assert recorder.facts() == [("execute", "true", ("exit 0",))]
    told = Usage(
        input_tokens=10, output_tokens=2, cost_usd=None, calls=1, uncounted_calls=1
    )
    assert [usage for _, usage in recorder.usages] == [told]
    later, afterwards = bench.conversation(COMMAND), bench.recorder()
    later.load(recorder.messages, Unfinished(session=recorder.sessions[-1]), afterwards)
    await later.send("more", afterwards)
    await later.close()
    assert afterwards.texts == ["heard more"]
    assert afterwards.sessions[-1].id == "library-session"


async def test_it_gets_a_denial_and_a_cancellation(tmp_path: Path) -> None:
    bench = AcpBench(tmp_path)
    recorder, talk = bench.recorder(), bench.conversation(COMMAND)
    recorder.answers = ["no"]

    await talk.send("this", recorder)
    turn = asyncio.create_task(talk.send("wait", recorder))
    async with asyncio.timeout(20):
        while not any("wait" in text for text in recorder.texts):
            await asyncio.sleep(0.01)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn

    assert recorder.facts() == [("execute", "true", ("denied",))]
    assert len(recorder.runs) == 1
