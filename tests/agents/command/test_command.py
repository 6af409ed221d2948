"""Rounds with a command agent: the record, the session, and failures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goalrunner.core.agent_ports import Unfinished
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import AgentError, AgentNotInstalled, AgentNotSignedIn
from goalrunner.core.outcome import AgentSession, Usage
from tests.support.agents import MemoryRecorder
from tests.support.external import conversation, preset

pytestmark = pytest.mark.timeout(60)


async def test_a_round_is_recorded_as_it_happens(
    tmp_path: Path, recorder: MemoryRecorder
) -> None:
    chosen = preset(
        tmp_path,
        """
        print("banner: welcome")
        say("session", id="s-1")
        say("text", text="I look.")
        say("call", id="c1", tool="Bash", command="ls")
        say("result", id="c1", output="a.py", exit_code=0)
        say("call", id="c2", tool="Edit", command="a.py")
        say("result", id="c2", output="no such text", failed=True)
        say("call", id="c3", tool="Bash", command="sleep 9")
        say("usage", input=10, cached=5, output=7, cost=0.25)
        say("text", text="Done: " + prompt)
        print("to stderr", file=sys.stderr)
        """,
    )
    reply = await conversation(tmp_path, chosen).send("do it", recorder)
    assert (reply.text, reply.reason) == ("Done: do it", "answered")
    assert [message["content"] for message in recorder.messages] == [
        "do it",
        "I look.",
        "Done: do it",
    ]
    told = [
        (one.tool, one.command, one.facts, one.reported_by, one.writes)
        for one in recorder.results
    ]
    assert told == [
        ("Bash", "ls", ("exit 0",), "double", False),
        ("Edit", "a.py", ("error",), "double", False),
        ("Bash", "sleep 9", ("interrupted",), "double", False),
    ]
    assert recorder.outputs == [b"a.py", b"no such text", b""]
    assert recorder.usages == [
        ("agent", Usage(input_tokens=15, output_tokens=7, cost_usd=0.25, calls=1))
    ]
    assert recorder.sessions == [AgentSession(agent="double", id="s-1")]
    (written,) = recorder.written
    assert written[0].startswith(b"banner: welcome\n")
    assert written[1] == b"to stderr\n"


async def test_another_process_goes_on_in_the_session(
    tmp_path: Path, recorder: MemoryRecorder
) -> None:
    chosen = preset(
        tmp_path, 'say("text", text=json.dumps([asked, prompt]))', resumes=True
    )
    talk = conversation(tmp_path, chosen)
    cut = {"c7": ("Bash", "make all"), "c8": ("Read", "")}
    left = Unfinished(cut=cut, session=AgentSession(agent="double", id="s-9"))
    talk.load([{"role": "user", "content": "one"}], left, recorder)
    reply = await talk.resume_turn("", left, recorder)
    words, prompt = json.loads(reply.text)
    assert words == ["--resume", "s-9"]
    assert prompt.startswith("The run was interrupted")
    assert [
        (one.tool_call_id, one.tool, one.command, one.facts) for one in recorder.results
    ] == [
        ("c7", "Bash", "make all", ("interrupted",)),
        ("c8", "Read", "", ("interrupted",)),
    ]


async def test_without_a_session_what_was_said_stands_in_the_prompt(
    tmp_path: Path, recorder: MemoryRecorder
) -> None:
    chosen = preset(
        tmp_path,
        'say("text", text="answer to " + prompt[-3:])\nopen("got", "w").write(prompt)',
    )
    talk = conversation(tmp_path, chosen)
    await talk.send("one", recorder)
    await talk.send("two", recorder)
    told = (tmp_path / "got").read_text()
    assert "> one" in told
    assert "> answer to one" in told
    assert told.endswith("\n\ntwo")
    assert [
        message["content"] for message in recorder.messages if message["role"] == "user"
    ] == ["one", "two"]


async def test_a_session_that_the_agent_lost_is_replaced_by_a_fresh_one(
    tmp_path: Path, recorder: MemoryRecorder
) -> None:
    chosen = preset(
        tmp_path,
        """
        if asked:
            print("No conversation found with session ID: " + asked[1], file=sys.stderr)
            sys.exit(1)
        say("session", id=f"s-{rounds()}")
        say("text", text=prompt)
        """,
        resumes=True,
    )
    talk = conversation(tmp_path, chosen)
    await talk.send("one", recorder)
    reply = await talk.send("two", recorder)
    assert "> one" in reply.text
    assert [session.id for session in recorder.sessions] == ["s-1", "", "s-2"]
    assert [bool(run.note) for run in recorder.runs] == [False, True, False]


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ('say("error", message="401 Unauthorized")', AgentNotSignedIn, "401"),
        (
            'say("text", text="Please run double login")',
            AgentNotSignedIn,
            "run double login",
        ),
        (
            'print("invalid api key", file=sys.stderr); sys.exit(1)',
            AgentNotSignedIn,
            "invalid api key",
        ),
        ("sys.exit(127)", AgentNotInstalled, "cannot be started"),
    ],
)
async def test_what_the_next_turn_cannot_change_is_an_error(
    tmp_path: Path,
    recorder: MemoryRecorder,
    body: str,
    kind: type[AgentError],
    said: str,
) -> None:
    with pytest.raises(AgentError) as caught:
        await conversation(tmp_path, preset(tmp_path, body)).send("do it", recorder)
    assert type(caught.value) is kind
    assert said in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("body", "text", "ending", "said"),
    [
        (
            'say("error", message="context too long")',
            "",
            "context too long",
            "context too long",
        ),
        (
            'say("text", text="fixed")\nsay("error", message="overloaded")',
            "fixed",
            "overloaded",
            "overloaded",
        ),
        (
            'say("text", text="overloaded")\nsay("error", message="overloaded")',
            "",
            "overloaded",
            "overloaded",
        ),
        (
            'say("usage", input=0, output=0)',
            "",
            "could not be parsed",
            "could not be parsed",
        ),
        ('print("Error: boom", file=sys.stderr)', "", "boom", "Error: boom"),
        ('say("call", id="1", tool="x")\nsys.exit(3)', "", "exit 3", "exit 3"),
        ('say("text", text="done")\nsys.exit(3)', "done", "exit 3", ""),
    ],
)
async def test_another_failure_interrupts_the_turn(
    tmp_path: Path,
    recorder: MemoryRecorder,
    body: str,
    text: str,
    ending: str,
    said: str,
) -> None:
    reply = await conversation(tmp_path, preset(tmp_path, body)).send("do it", recorder)
    assert (reply.reason, reply.text) == ("interrupted", text)
    assert ending in reply.ending
    assert said in (reply.failure.message if reply.failure else "")


async def test_an_error_that_work_follows_is_none(
    tmp_path: Path, recorder: MemoryRecorder
) -> None:
    chosen = preset(
        tmp_path, 'say("error", message="reconnecting 1/5")\nsay("text", text="done")'
    )
    assert (await conversation(tmp_path, chosen).send("do it", recorder)).text == "done"


async def test_a_silent_script_is_an_agent(
    tmp_path: Path, recorder: MemoryRecorder
) -> None:
    talk = conversation(tmp_path, Preset(argv=("cat > told",)))
    reply = await talk.send("do it", recorder)
    assert (reply.text, (tmp_path / "told").read_text()) == ("", "do it")
    assert [message["content"] for message in recorder.messages] == ["do it"]


async def test_plain_text_is_the_answer(
    tmp_path: Path, recorder: MemoryRecorder
) -> None:
    reply = await conversation(tmp_path, Preset(argv=("echo one; echo two",))).send(
        "do it", recorder
    )
    assert reply.text == "one\ntwo\n"
    assert recorder.usages == [("agent", Usage.unknown())]


USED_UP = """
number = rounds()
Path(os.environ["STATE"], f"prompt-{number}").write_text(prompt)
say("session", id=f"s-{number}")
if number == 1:
    WORK
    say("error", message="401 Unauthorized")
    sys.exit(1)
say("text", text=json.dumps(asked))
"""


@pytest.mark.parametrize(
    ("work", "resumed", "prompt"),
    [
        ("pass", [], "do it"),
        (
            'say("text", text="half of it")',
            ["--resume", "s-1"],
            "The run was interrupted",
        ),
    ],
)
async def test_a_turn_that_did_nothing_is_repeated_and_another_goes_on(
    tmp_path: Path, recorder: MemoryRecorder, work: str, resumed: list[str], prompt: str
) -> None:
    talk = conversation(
        tmp_path, preset(tmp_path, USED_UP.replace("WORK", work), resumes=True)
    )
    with pytest.raises(AgentError):
        await talk.send("do it", recorder)
    reply = await talk.resume_turn("", Unfinished(), recorder)
    assert json.loads(reply.text) == resumed
    assert (tmp_path / "prompt-2").read_text().startswith(prompt)
    prompts = [
        message["content"] for message in recorder.messages if message["role"] == "user"
    ]
    assert len(prompts) == 1 + (prompt != "do it")
