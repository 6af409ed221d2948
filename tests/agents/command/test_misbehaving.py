"""Agents that misbehave: the record is complete, no process is left, and the next round runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from goalrunner.agents.agent_errors import not_installed
from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.agents.output_reader import growing_file
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import AgentError, AgentNotSignedIn, BudgetExhausted
from goalrunner.core.ports import HIDDEN
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.system.processes import entry
from tests.support.agents import MemoryRecorder
from tests.support.external import conversation, preset

pytestmark = pytest.mark.timeout(90)


async def reached(recorder: MemoryRecorder, step: str) -> None:
    """Until that is on record."""
    while not any(one.startswith(step) for one in recorder.trail):
        await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    one = entry(pid)
    return one is not None and one.living


HANGING = """
import subprocess
child = subprocess.Popen(["sleep", "8642"], start_new_session=True)
Path("pids").write_text(f"{os.getpid()} {child.pid}")
say("session", id="s-1")
say("delta", text="I wa")
say("call", id="1", tool="Bash", command="sleep")
time.sleep(8642)
"""


STUBBORN = """
import subprocess
child = subprocess.Popen(["sleep", "8642"], start_new_session=True)
Path("pids").write_text(f"{os.getpid()} {child.pid}")
say("session", id="s-1")
say("call", id="1", tool="Bash", command="make")
say("retry", why="authentication_failed", attempt=1)
say("retry", why="authentication_failed", attempt=2)
time.sleep(8642)
"""


async def test_a_failure_that_no_other_try_can_mend_ends_the_round_at_once(
    tmp_path: Path, recorder: MemoryRecorder
) -> None:
    """The agent itself would never end: what is awaited here is that it is ended."""
    chosen = preset(tmp_path, STUBBORN)
    talk = conversation(tmp_path, chosen)
    with pytest.raises(
        AgentNotSignedIn,
        match=r"ended, because retrying could not help.*authentication_failed",
    ) as failed:
        await talk.send("do it", recorder)
    assert failed.value.hint == chosen.sign_in
    assert not any(alive(int(pid)) for pid in (tmp_path / "pids").read_text().split())
    assert [ran.ending for ran in recorder.runs] == [
        "ended, because retrying could not help"
    ]
    assert [(one.command, one.facts) for one in recorder.results] == [
        ("make", ("interrupted",))
    ]


@pytest.mark.parametrize("times", [1, 2])
async def test_a_cut_round_leaves_no_process_and_is_recorded(
    tmp_path: Path, recorder: MemoryRecorder, times: int
) -> None:
    talk = conversation(tmp_path, preset(tmp_path, HANGING, resumes=True))
    task = asyncio.ensure_future(talk.send("do it", recorder))
    await reached(recorder, "called 1")
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [alive(int(pid)) for pid in (tmp_path / "pids").read_text().split()] == [
        False,
        False,
    ]
    assert [message["content"] for message in recorder.messages] == ["do it", "I wa"]
    assert [(one.tool_call_id, one.facts) for one in recorder.results] == [
        ("1", ("interrupted",))
    ]
    assert recorder.usages == []  # what it used is estimated when the run is resumed
    assert [run.ending for run in recorder.runs] == ["cut"]
    assert b"I wa" in recorder.written[0][0]
    (tmp_path / "agent.py").write_text(
        'import sys; print(\'{"type": "text", "text": "\' + sys.argv[2] + \'"}\')'
    )
    assert (await talk.send("go on", recorder)).text == "s-1"


async def test_what_it_says_is_heard_while_it_works(
    tmp_path: Path, recorder: MemoryRecorder
) -> None:
    body = """
    say("text", text="working")
    while not Path("heard").exists():
        time.sleep(0.01)
    say("text", text="done")
    """
    task = asyncio.ensure_future(
        conversation(tmp_path, preset(tmp_path, body)).send("do it", recorder)
    )
    await reached(recorder, "message assistant")
    (tmp_path / "heard").touch()
    assert (await task).text == "done"


@pytest.mark.parametrize(
    "body",
    [
        "sys.stderr.write('x' * 5_000_000)\nsay('text', text='ok')",
        "sys.stdout.write('x' * 5_000_000 + '\\n')\nsay('text', text='ok')",
        "sys.stdout.buffer.write(b'\\xff\\0\\xfe' * 999 + b'\\n')\nsys.stdout.flush()\nsay('text', text='ok')",
        "print('[' * 50_000)\nsay('text', text='ok')",
        "say('result', id='1', tool='x', output='y' * 5_000_000)\nsay('text', text='ok')",
        "say('result', id='never called', output='y')\nsay('usage', input='many', output=-1)\nsay('text', text='ok')",
        "say('text', text='ok')\nsys.stdout.write('{\"type\": \"te')",
        "say('text', text='ok')\nos.close(1); os.close(2)",
        "say('session', id='--dangerous')\nsay('session', id={'a': 1})\nsay('text', text='ok')",
        "for n in range(2000): say('call', id=str(n), tool='x')\nsay('text', text='ok')",
    ],
)
async def test_odd_output_costs_nothing_but_itself(
    tmp_path: Path, recorder: MemoryRecorder, body: str
) -> None:
    talk = conversation(tmp_path, preset(tmp_path, body))
    assert (await talk.send("do it", recorder)).text == "ok"
    assert [run.ending for run in recorder.runs] == ["exit 0"]


@pytest.mark.parametrize("said", ["", "half"])
async def test_a_crash_interrupts_the_turn(
    tmp_path: Path, recorder: MemoryRecorder, said: str
) -> None:
    body = f"say('text', text={said!r})\nos.kill(os.getpid(), 9)"
    reply = await conversation(tmp_path, preset(tmp_path, body)).send("do it", recorder)
    assert (reply.text, reply.reason, reply.ending) == (
        said,
        "interrupted",
        "killed by SIGKILL",
    )
    assert (reply.failure is None) == bool(said)


async def test_an_agent_that_never_stops_printing_is_cut(
    tmp_path: Path, recorder: MemoryRecorder
) -> None:
    body = (
        "say('text', text='begun')\nwhile True: sys.stdout.write('x' * 100_000 + '\\n')"
    )
    reply = await conversation(
        tmp_path, preset(tmp_path, body), ProcessLauncher(3_000_000)
    ).send("do it", recorder)
    assert (reply.text, reply.reason) == ("begun", "interrupted")
    assert "output limit of 3 MB" in reply.ending
    assert isinstance(reply.failure, AgentError)


async def test_no_round_begins_without_a_budget(tmp_path: Path) -> None:
    recorder = MemoryRecorder(tmp_path, budget=0)
    with pytest.raises(BudgetExhausted):
        await conversation(tmp_path, Preset(argv=("touch ran",))).send(
            "do it", recorder
        )
    assert not (tmp_path / "ran").exists()
    assert recorder.messages == []


async def test_the_chat_of_another_run_stands_in_the_first_prompt(
    tmp_path: Path, recorder: MemoryRecorder
) -> None:
    talk = conversation(tmp_path, Preset(argv=("cat",)))
    earlier: list[dict[str, Any]] = [
        {"role": "user", "content": "before"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "a result"},
        {"role": "assistant", "content": [{"type": "text", "text": "an answer"}]},
    ]
    talk.adopt_history(earlier, recorder)
    told = (await talk.send("now", recorder)).text
    assert "> before" in told
    assert "> an answer" in told
    assert [message["content"] for message in recorder.messages][:3] == [
        "before",
        "an answer",
        "now",
    ]


async def test_a_file_is_read_to_its_end_when_its_writer_is_gone(
    tmp_path: Path,
) -> None:
    path, over = tmp_path / "f", asyncio.get_running_loop().create_future()
    path.write_bytes(b"a" * 3_000_000)
    length = 0
    async for piece in growing_file(path, over):
        length += len(piece.data)
        if not over.done():
            with path.open("ab") as file:
                file.write(b"more")
            over.set_result(None)
    assert length == 3_000_004


async def test_a_file_that_never_comes_gives_nothing(tmp_path: Path) -> None:
    over = asyncio.get_running_loop().create_future()
    over.set_result(None)
    assert [piece async for piece in growing_file(tmp_path / "none", over)] == []


def test_a_program_that_only_a_sandbox_hides_is_not_to_be_installed_again(
    tmp_path: Path,
) -> None:
    agent = ExternalAgent(
        "double", Preset(install="npm install -g double"), tmp_path, {}
    )
    hidden = not_installed(agent, f"double: {HIDDEN}")
    assert hidden.hint is not None
    assert "sandbox" in hidden.hint
    assert "npm" not in hidden.hint
    assert not_installed(agent, "double: not found").hint == "npm install -g double"


async def test_a_failure_that_its_preset_knows_comes_with_what_to_type(
    tmp_path: Path, recorder: MemoryRecorder
) -> None:
    known = preset(
        tmp_path, 'say("error", message="cannot be used with ROOT privileges")'
    )
    known = known.model_copy(
        update={"hints": {"root privileges": "run it as another user"}}
    )
    reply = await conversation(tmp_path, known).send("do it", recorder)
    assert reply.failure is not None
    assert reply.failure.hint == "run it as another user"


@pytest.mark.parametrize("is_ending", [True, False])
async def test_lines_of_one_write_are_a_buffer_only_if_the_program_ends_then(
    tmp_path: Path, is_ending: bool
) -> None:
    path = tmp_path / "output"
    path.write_bytes(b"call\nresult\n")
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    pieces = growing_file(path, over)
    first = asyncio.ensure_future(anext(pieces))
    # Read while the program still runs.
    await asyncio.sleep(0.12)
    if is_ending:
        over.set_result(None)
    else:
        with path.open("ab") as file:
            file.write(b"later\n")
    assert (await first).arrival.whole is not is_ending
    await pieces.aclose()
