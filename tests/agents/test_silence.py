"""Turns of external agents that show no sign of life are ended; those that wait for a tool, or work, are not."""

from __future__ import annotations

import asyncio
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from goalrunner.agents.command import CommandConversation
from goalrunner.agents.silence import LifeSigns, watched
from goalrunner.core.activity import Activity, AgentSilent, context_with
from goalrunner.core.errors import TurnCut
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.system.processes import entry
from tests.support.acp_bench import AcpBench
from tests.support.agents import MemoryRecorder
from tests.support.external import agent, preset

pytestmark = pytest.mark.timeout(60)


async def turn(
    folder: Path, body: str, recorder: MemoryRecorder, limit: float = 1.0
) -> str:
    """Let the agent with that source work; return its answer. Raise TurnCut."""
    chosen = preset(folder, body, resumes=True)
    conversation = CommandConversation(
        replace(agent(folder, chosen), idle_timeout=limit), ProcessLauncher()
    )
    return (await conversation.send("do it", recorder)).text


async def test_an_agent_that_falls_silent_is_ended(
    tmp_path: Path, recorder: MemoryRecorder
) -> None:
    body = """
    import subprocess
    child = subprocess.Popen(["sleep", "8642"], start_new_session=True)
    Path("pids").write_text(f"{os.getpid()} {child.pid}")
    say("text", text="fixed")
    time.sleep(8642)
    """
    with pytest.raises(TurnCut, match="no output for 1 s"):
        await turn(tmp_path, body, recorder)
    processes = [entry(int(pid)) for pid in (tmp_path / "pids").read_text().split()]
    assert not any(process is not None and process.living for process in processes)
    assert [message["content"] for message in recorder.messages] == ["do it", "fixed"]
    assert [run.ending for run in recorder.runs] == ["cut"]


async def test_a_call_without_a_result_does_not_keep_a_turn_that_is_over(
    tmp_path: Path, recorder: MemoryRecorder
) -> None:
    call = {
        "type": "tool_use",
        "id": "1",
        "name": "Bash",
        "input": {"command": "sleep 9 &"},
    }
    body = f"""
    say("assistant", message={{"content": [{call}]}})
    say("result", is_error=False, result="done")
    time.sleep(8642)
    """
    chosen = preset(tmp_path, body).model_copy(update={"stream": "claude"})
    silent = replace(agent(tmp_path, chosen), idle_timeout=1.0)
    with pytest.raises(TurnCut, match="no output for 1 s"):
        await CommandConversation(silent, ProcessLauncher()).send("do it", recorder)


WAITING = {
    "an open call": 'say("call", id="1", tool="Bash", command="sleep")\ntime.sleep(1.5)\nsay("result", id="1", output="")\n',
    "a busy child": textwrap.dedent(
        """
        import subprocess
        work = "import time; end = time.monotonic() + 1.5\\nwhile time.monotonic() < end: pass"
        subprocess.run([sys.executable, "-c", work])
        """
    ),
    "progress on stderr": 'for _ in range(6):\n    print(".", file=sys.stderr, flush=True)\n    time.sleep(0.25)\n',
}


@pytest.mark.parametrize("what", WAITING)
async def test_an_agent_that_waits_or_works_is_not_ended(
    what: str, tmp_path: Path, recorder: MemoryRecorder
) -> None:
    assert (
        await turn(tmp_path, WAITING[what] + 'say("text", text="done")', recorder)
        == "done"
    )


class Scene:
    """Signs of life that a test sets."""

    def __init__(self) -> None:
        self.output, self.used, self.waits = 0, 0.0, False
        self.signs = LifeSigns(
            lambda: self.output, lambda: self.used, lambda: self.waits
        )
        self.shown: list[AgentSilent] = []

    def show(self, activity: Activity) -> None:
        assert isinstance(activity, AgentSilent)
        self.shown.append(activity)

    async def sleep(self, limit: float | None, seconds: float) -> str:
        """Return why a turn of that length was cut; empty if it was not."""

        async def work() -> str:
            try:
                async with watched(limit, self.signs):
                    await asyncio.sleep(seconds)
            except TurnCut as cut:
                return str(cut)
            return ""

        return await asyncio.create_task(work(), context=context_with(self.show))


async def test_silence_is_shown_before_it_ends_the_turn() -> None:
    scene = Scene()
    assert await scene.sleep(0.2, 30) == "no output for 0.2 s"
    assert scene.shown
    assert all(one.seconds >= 0.05 and one.limit == 0.2 for one in scene.shown)


async def test_nothing_is_ended_without_a_limit() -> None:
    assert await Scene().sleep(None, 0.05) == ""


async def test_a_timeout_of_the_turn_itself_is_no_silence() -> None:
    with pytest.raises(TimeoutError):
        async with watched(30, Scene().signs):
            raise TimeoutError


async def test_a_silent_turn_of_an_acp_agent_is_cut_and_the_next_one_resumes_the_session(
    tmp_path: Path,
) -> None:
    capabilities = {"loadSession": True}
    bench = AcpBench(
        tmp_path,
        [["say", "fixed"], ["hang"]],
        [["say", "two"]],
        capabilities=capabilities,
    )
    recorder, talk = bench.recorder(), bench.conversation(idle_timeout=1.0)

    with pytest.raises(TurnCut, match="no output for 1 s"):
        await talk.send("first", recorder)
    reply = await talk.send("second", recorder)
    await talk.close()

    assert reply.text == "two"
    assert [message["content"] for message in recorder.messages] == [
        "first",
        "fixed",
        "second",
        "two",
    ]
    assert [
        message["params"]["sessionId"] for message in bench.seen("session/load")
    ] == [recorder.sessions[0].id]


async def test_a_turn_of_an_acp_agent_with_an_open_call_is_not_silent(
    tmp_path: Path,
) -> None:
    bench = AcpBench(tmp_path, [["shell", "sleep 1.5"], ["say", "done"]])
    reply, _ = await bench.play(idle_timeout=1.0)
    assert reply.text == "done"
