"""Rounds with an ACP agent as a real process: the record, and every kind of failure."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from goalrunner.agents.acp_conversation import AcpConversation
from goalrunner.core.agent_ports import Closing, Conversation, Resumable, Unfinished
from goalrunner.core.errors import AgentError, AgentNotSignedIn, AgentRefused, Outage
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.system.change_clock import change_time
from goalrunner.system.processes import entry
from tests.support.acp_bench import NAME, AcpBench


async def test_a_round_is_one_prompt_whose_words_and_calls_are_recorded(
    tmp_path: Path,
) -> None:
    bench = AcpBench(
        tmp_path,
        [
            ["say", "I "],
            ["say", "look."],
            ["shell", "echo out; exit 3"],
            ["say", "Done."],
        ],
    )
    reply, recorder = await bench.play()

    assert (reply.text, reply.reason, reply.left) == ("Done.", "answered", ())
    assert [message["content"] for message in recorder.messages] == [
        "do it",
        "I look.",
        "Done.",
    ]
    assert recorder.texts == ["I ", "look.", "Done."]
    assert recorder.facts() == [("execute", "echo out; exit 3", ("exit 3",))]
    assert recorder.outputs == [b"out\n"]
    assert {result.reported_by for result in recorder.results} == {NAME}
    assert [message["params"]["cwd"] for message in bench.seen("session/new")] == [
        str(bench.workspace)
    ]
    assert recorder.trail.index(
        "called c1 execute echo out; exit 3"
    ) < recorder.trail.index("result c1 exit 3")


def test_it_is_all_that_a_run_can_make_use_of(tmp_path: Path) -> None:
    talk = AcpBench(tmp_path, []).conversation()

    assert isinstance(talk, Resumable)
    assert isinstance(talk, Closing)
    taken: Conversation = talk
    assert taken.messages == []


async def test_later_rounds_go_on_in_the_same_process_and_session(
    tmp_path: Path,
) -> None:
    bench = AcpBench(tmp_path, [["say", "one"]], [["say", "two"]])
    recorder, talk = bench.recorder(), bench.conversation()

    await talk.send("first", recorder)
    reply = await talk.send("second", recorder)
    await talk.close()

    assert reply.text == "two"
    assert bench.prompts() == ["first", "second"]
    assert len({message["pid"] for message in bench.seen()}) == 1
    assert len(recorder.sessions) == 1
    assert [run.ending for run in recorder.runs] == ["exit 0"]


async def test_what_it_wrote_is_kept_as_it_came(tmp_path: Path) -> None:
    bench = AcpBench(
        tmp_path, [["raw", "a banner"], ["complain", "a warning"], ["say", "hi"]]
    )
    _, recorder = await bench.play()

    ((output, errors),) = recorder.written
    assert b"a banner\n" in output
    assert errors == b"a warning\n"


async def test_the_client_offers_no_files_and_no_terminals_and_says_so(
    tmp_path: Path,
) -> None:
    asks = [
        ["request", "fs/read_text_file", {"path": "/etc/passwd"}],
        ["request", "_its/own", {}],
        ["say", "ok"],
    ]
    bench = AcpBench(tmp_path, asks)
    await bench.play()

    (hello,) = bench.seen("initialize")
    assert hello["params"]["clientCapabilities"] == {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    }
    assert [
        message["error"]["code"] for message in bench.seen() if "error" in message
    ] == [-32601, -32601]


DOLLAR = {"amount": 1.0, "currency": "USD"}

NOISE: dict[str, list[Any]] = {
    "banners": [
        ["raw", "Welcome!"],
        ["raw", ""],
        ["raw", "{"],
        ["raw", "[1, 2]"],
        ["raw", "null"],
    ],
    "depth": [["raw", "[" * 200_000]],
    "bytes": [
        ["raw", '{"jsonrpc": "2.0", "method": "session/update", "x": "\xff\xfe"}']
    ],
    "surrogates": [
        [
            "raw",
            '{"method": "session/update", "params": {"sessionId": "\\ud800", "update": {}}}',
        ]
    ],
    "answers": [
        ["raw", '{"id": 999, "result": {}}'],
        ["raw", '{"id": [1], "result": {}}'],
        ["raw", '{"id": true}'],
    ],
    "updates": [
        ["report", "what_is_this", {"content": [1]}],
        ["report", "agent_message_chunk", {"content": 3}],
    ],
    "calls": [["report", "tool_call", {"toolCallId": 3}], ["report", "tool_call", {}]],
    "notifications": [
        ["raw", '{"method": "session/what"}'],
        ["raw", '{"method": 3, "id": 3}'],
    ],
    "others": [
        [
            "raw",
            '{"method": "session/update", "params": {"sessionId": "x", "update": {"sessionUpdate": "a"}}}',
        ]
    ],
    "permissions": [
        [
            "raw",
            '{"id": "p", "method": "session/request_permission", "params": {"options": 3}}',
        ]
    ],
    "usage": [["report", "usage_update", {"cost": {"amount": "much", "currency": 3}}]],
    "stderr": [["flood", 3]],
}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
async def test_noise_is_survived(tmp_path: Path, noise: list[Any]) -> None:
    bench = AcpBench(
        tmp_path, [*noise, ["say", "still here"]], before={"initialize": noise[:1]}
    )
    reply, recorder = await bench.play()

    assert reply.text == "still here"
    assert recorder.results == []


@pytest.mark.bench
async def test_a_line_of_64_megabytes_is_a_message_like_any_other(
    tmp_path: Path,
) -> None:
    bench = AcpBench(tmp_path, [["big", 64], ["say", "that was it"]])
    reply, recorder = await bench.play()

    assert reply.text == "that was it"
    assert [len(output) for output in recorder.outputs] == [64 << 20]


async def test_half_a_surrogate_pair_is_recorded_as_a_replacement(
    tmp_path: Path,
) -> None:
    update = '{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a\\ud800b"}}'
    words = (
        '{"method": "session/update", "params": {"sessionId": "s", "update": '
        + update
        + "}}"
    )
    bench = AcpBench(
        tmp_path, [["raw", words]], answers={"session/new": {"sessionId": "s"}}
    )
    reply, _ = await bench.play()

    assert reply.text == "a?b"


async def test_a_tool_starts_after_all_that_was_read_before_its_first_report(
    tmp_path: Path,
) -> None:
    """A call that is reported only at its end may have started at any time."""
    ended = {
        "toolCallId": "c2",
        "kind": "execute",
        "status": "completed",
        "title": "make",
    }
    bench = AcpBench(
        tmp_path,
        [["shell", "touch made", "c1"], ["report", "tool_call", ended], ["say", "bye"]],
    )
    before = change_time()
    _, recorder = await bench.play()

    first, second = recorder.results
    made = (bench.workspace / "made").stat().st_ctime_ns
    assert first.started is not None
    assert before <= first.started <= made
    assert second.started is None


async def test_an_update_alone_opens_a_call_and_an_open_one_is_closed_as_interrupted(
    tmp_path: Path,
) -> None:
    begun = {
        "toolCallId": "c2",
        "kind": "execute",
        "status": "in_progress",
        "title": "make",
    }
    bench = AcpBench(
        tmp_path,
        [
            ["shell", "true", "c1", False],
            ["report", "tool_call", begun],
            ["say", "bye"],
        ],
    )
    _, recorder = await bench.play()

    assert recorder.facts() == [
        ("execute", "true", ("exit 0",)),
        ("execute", "make", ("interrupted",)),
    ]


async def test_an_edit_is_recorded_with_its_path_and_its_diff(tmp_path: Path) -> None:
    bench = AcpBench(tmp_path)
    path = str(bench.workspace / "a" / "b.py")
    edit = {
        "toolCallId": "e",
        "kind": "edit",
        "status": "completed",
        "title": "Write b.py",
        "locations": [{"path": path}],
        "content": [
            {"type": "diff", "path": path, "oldText": "x = 1\n", "newText": "x = 2\n"}
        ],
    }
    bench = AcpBench(tmp_path, [["report", "tool_call", edit]])
    reply, recorder = await bench.play()

    assert reply.text == ""
    assert recorder.facts() == [("edit", "a/b.py", ("completed",))]
    assert recorder.outputs == [
        b"--- a/b.py\n+++ a/b.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    ]


@pytest.mark.parametrize(
    ("steps", "said", "ending"),
    [
        (
            [["complain", "boom: out of cheese"], ["die", 3]],
            "failed (exit 3): boom: out of cheese",
            "it has ended",
        ),
        (
            [["killed"]],
            "failed (killed by SIGKILL): it printed no message",
            "it has ended",
        ),
        ([["end", "refusal"]], "failed: it refuses to go on", "it refuses to go on"),
        (
            [["say", "hm"], ["end", "cancelled"]],
            "failed: it reports a cancelled turn",
            "it reports a cancelled turn",
        ),
        (
            [["refuse", -32603, "Internal error: overloaded"]],
            "failed: Internal error: overloaded",
            "Internal error",
        ),
        (
            [["raw", '{"id": 3, "error": "just text"}']],
            "failed: just text",
            "just text",
        ),
        (
            [["end", "end_turn"]],
            "failed: it ended its turn without a message (end_turn)",
            "it ended its turn",
        ),
        (
            [["say", "API Error: 400 too long"]],
            "failed: API Error: 400 too long",
            "API Error: 400 too long",
        ),
    ],
)
async def test_a_turn_that_is_no_answer_is_interrupted_in_the_agents_own_words(
    tmp_path: Path, steps: list[Any], said: str, ending: str
) -> None:
    reply, recorder = await AcpBench(tmp_path, steps).play()

    assert reply.reason == "interrupted"
    assert reply.text == ("hm" if steps[0] == ["say", "hm"] else "")
    assert reply.ending.startswith(ending)
    assert type(reply.failure) is AgentError
    assert said in reply.failure.message
    assert len(recorder.runs) == 1, "its process is over, and told of"


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        ({"code": 429, "message": "Rate limit exceeded"}, "limit", "429 rate limit"),
        (
            {"code": -32603, "message": "x", "data": {"errorKind": "rate_limit"}},
            "limit",
            "rate limit",
        ),
        (
            {"code": -32603, "message": "x", "data": {"errorKind": "server_error"}},
            "overload",
            "server error",
        ),
        (
            {"code": -32603, "message": "x", "data": {"statusCode": 529}},
            "overload",
            "529 overloaded",
        ),
        (
            {
                "code": -32603,
                "message": "x",
                "data": {"codex_error_info": "usage_limit_exceeded"},
            },
            "limit",
            "usage limit",
        ),
        (
            {
                "code": -32603,
                "message": "x",
                "data": {
                    "codex_error_info": {
                        "http_connection_failed": {"http_status_code": 503}
                    }
                },
            },
            "overload",
            "503 server error",
        ),
    ],
)
async def test_a_typed_error_that_passes_is_an_outage(
    tmp_path: Path, error: dict[str, Any], kind: str, reason: str
) -> None:
    bench = AcpBench(
        tmp_path,
        [["say", error["message"]], ["raw", json.dumps({"id": 3, "error": error})]],
    )
    recorder = bench.recorder()

    with pytest.raises(AgentError) as caught:
        await bench.conversation().send("do it", recorder)

    assert caught.value.outage == Outage(kind, reason)  # type: ignore[arg-type]
    assert recorder.usages == [("agent", Usage())]


async def test_an_outage_after_a_call_leaves_the_usage_unknown(tmp_path: Path) -> None:
    begun = {
        "toolCallId": "c",
        "kind": "execute",
        "status": "in_progress",
        "title": "make",
    }
    error = {"id": 3, "error": {"code": 429, "message": "Rate limit exceeded"}}
    bench = AcpBench(
        tmp_path, [["report", "tool_call", begun], ["raw", json.dumps(error)]]
    )
    recorder = bench.recorder()

    with pytest.raises(AgentError):
        await bench.conversation().send("do it", recorder)

    assert recorder.facts() == [("execute", "make", ("interrupted",))]
    assert [usage.uncounted_calls for _, usage in recorder.usages] == [1]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("billing_error", AgentRefused),
        ("model_not_found", AgentRefused),
        ("authentication_failed", AgentNotSignedIn),
    ],
)
async def test_a_typed_error_that_stays_is_raised(
    tmp_path: Path, kind: str, error: type[AgentError]
) -> None:
    refused = {
        "id": 3,
        "error": {"code": -32603, "message": "no", "data": {"errorKind": kind}},
    }
    bench = AcpBench(tmp_path, [["raw", json.dumps(refused)]])

    with pytest.raises(error) as caught:
        await bench.conversation().send("do it", bench.recorder())

    assert caught.value.outage is None


@pytest.mark.parametrize(
    ("reason", "ending", "note"),
    [
        ("max_tokens", "max_tokens", ""),
        ("max_turn_requests", "max_turn_requests", ""),
        ("something_new", "", "it ended its turn with the reason something_new"),
        (None, "", "it ended its turn with the reason (none)"),
    ],
)
async def test_other_reasons_to_stop_are_said(
    tmp_path: Path, reason: str | None, ending: str, note: str
) -> None:
    bench = AcpBench(tmp_path, [["say", "so far"], ["end", reason]])
    reply, recorder = await bench.play()

    assert (reply.text, reply.reason, reply.ending) == (
        "so far",
        "interrupted" if ending else "answered",
        ending,
    )
    assert [run.note for run in recorder.runs] == [note]


async def test_a_call_that_was_open_when_it_crashed_is_closed(tmp_path: Path) -> None:
    begun = {
        "toolCallId": "c",
        "kind": "execute",
        "status": "in_progress",
        "title": "make",
    }
    bench = AcpBench(tmp_path, [["report", "tool_call", begun], ["die", 1]])
    reply, recorder = await bench.play()

    assert reply.reason == "interrupted"
    assert recorder.facts() == [("execute", "make", ("interrupted",))]


@pytest.mark.parametrize("method", ["initialize", "session/new", "prompt"])
async def test_a_missing_login_is_not_signed_in(tmp_path: Path, method: str) -> None:
    error = {"code": -32000, "message": "Authentication required"}
    answers = {} if method == "prompt" else {method: {"error": error}}
    bench = AcpBench(
        tmp_path, [["refuse", -32000, "Authentication required"]], answers=answers
    )

    with pytest.raises(AgentNotSignedIn, match="Authentication required") as failure:
        await bench.conversation().send("do it", bench.recorder())

    assert failure.value.hint == "run double login"


async def test_another_version_of_the_protocol_is_refused(tmp_path: Path) -> None:
    bench = AcpBench(tmp_path, [], answers={"initialize": {"protocolVersion": 2}})

    with pytest.raises(AgentError, match="speaks version 2 of the protocol, not 1"):
        await bench.conversation().send("do it", bench.recorder())


@pytest.mark.slow
async def test_an_agent_that_listens_no_more_is_lost(tmp_path: Path) -> None:
    bench = AcpBench(tmp_path, [], after={"session/new": [["deafen"]]})

    reply = await bench.conversation().send(
        "more than a pipe holds" * 10_000, bench.recorder()
    )

    assert "no longer reads its input" in str(reply.failure)


async def test_a_cancelled_turn_is_cancelled_at_the_agent_and_ends(
    tmp_path: Path,
) -> None:
    bench = AcpBench(tmp_path, [["until_cancelled"]])
    recorder, talk = bench.recorder(), bench.conversation()
    turn = asyncio.create_task(talk.send("do it", recorder))
    await until(Path(f"{bench.script}.hung").exists)

    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn

    assert len(bench.seen("session/cancel")) == 1
    assert [run.ending for run in recorder.runs] == ["exit 0"]


async def in_another_process(
    bench: AcpBench,
) -> tuple[AcpConversation, Any, Unfinished]:
    """A conversation of one round, taken up where another process left it."""
    talk = bench.conversation()
    await talk.send("first", recorder := bench.recorder())
    await talk.close()
    session = recorder.sessions[-1]
    left = Unfinished(session=session)
    later, afterwards = bench.conversation(), bench.recorder()
    later.load(recorder.messages, left, afterwards)
    return later, afterwards, left


@pytest.mark.parametrize(
    ("capabilities", "method"),
    [
        ({"loadSession": True}, "session/load"),
        ({"sessionCapabilities": {"resume": {}}}, "session/resume"),
    ],
)
async def test_another_process_goes_on_in_the_same_session_where_the_agent_can(
    tmp_path: Path, capabilities: dict[str, Any], method: str
) -> None:
    replayed: dict[str, Any] = {"before": {method: [["say", "an old word"]]}}
    bench = AcpBench(
        tmp_path,
        [["say", "one"]],
        [["say", "two"]],
        capabilities=capabilities,
        **replayed,
    )
    talk, recorder, left = await in_another_process(bench)

    reply = await talk.resume_turn("", left, recorder)
    await talk.close()

    assert left.session is not None
    assert reply.text == "two"
    assert [message["params"]["sessionId"] for message in bench.seen(method)] == [
        left.session.id
    ]
    assert bench.prompts()[1].startswith(
        "The run was interrupted in the middle of your turn."
    )
    assert [message["content"] for message in recorder.messages][1:] == ["two"]
    assert recorder.texts == ["two"], "what it replays is not said once more"


@pytest.mark.parametrize(
    "script",
    [
        {},
        {
            "capabilities": {"loadSession": True},
            "answers": {"session/load": {"error": {"code": 1, "message": "no"}}},
        },
        {
            "capabilities": {"loadSession": True},
            "before": {"session/load": [["die", 1]]},
        },
    ],
    ids=["cannot", "refuses", "dies"],
)
async def test_a_lost_session_is_replaced_by_a_new_one_with_the_history_in_the_prompt(
    tmp_path: Path, script: dict[str, Any]
) -> None:
    bench = AcpBench(tmp_path, [["say", "one"]], [["say", "two"]], **script)
    talk, recorder, left = await in_another_process(bench)

    reply = await talk.send("second", recorder)
    await talk.close()

    assert reply.text == "two"
    told = bench.prompts()[1]
    assert told.index("> first") < told.index("> one") < told.index("second")
    assert recorder.messages[0] == {"role": "user", "content": "second"}
    assert left.session is not None
    assert recorder.sessions[-1].id != left.session.id
    assert recorder.runs[-1].note == (
        "its session could not be resumed; a new one began, with the history in its prompt"
    )


async def test_calls_that_another_process_saw_begin_are_closed(tmp_path: Path) -> None:
    bench = AcpBench(tmp_path, [["say", "one"]], [["say", "two"]])
    talk, recorder, left = await in_another_process(bench)

    await talk.resume_turn(
        "", Unfinished({}, {"c9": ("Bash", "make")}, left.session), recorder
    )
    await talk.close()

    assert [(result.tool_call_id, result.facts) for result in recorder.results] == [
        ("c9", ("interrupted",))
    ]


async def test_the_chat_of_another_run_stands_in_the_first_prompt(
    tmp_path: Path,
) -> None:
    bench = AcpBench(tmp_path, [["say", "one"]])
    recorder, talk = bench.recorder(), bench.conversation()

    talk.adopt_history(
        [
            {"role": "user", "content": "earlier"},
            {"role": "assistant", "content": "was done"},
        ],
        recorder,
    )
    await talk.send("now", recorder)
    await talk.close()

    assert "> was done" in bench.prompts()[0]


async def test_after_a_crash_the_next_turn_has_a_process_of_its_own(
    tmp_path: Path,
) -> None:
    bench = AcpBench(tmp_path, [["say", "half"], ["die", 1]], [["say", "whole"]])
    recorder, talk = bench.recorder(), bench.conversation()

    half = await talk.send("do it", recorder)
    reply = await talk.send("go on", recorder)
    await talk.close()

    assert (half.text, half.reason) == ("half", "interrupted")
    assert reply.text == "whole"
    assert "> half" in bench.prompts()[1]


@pytest.mark.skipif(
    sys.platform != "linux", reason="the sweep of descendants is Linux's"
)
async def test_what_it_leaves_running_is_ended_and_named_and_its_helpers_are_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "workspace").mkdir()
    helper, left, both = (tmp_path / name for name in ("helper", "left", "both"))
    bench = AcpBench(
        tmp_path,
        [
            ["spawn", f"echo $$ > {left}; touch {both}; exec sleep 600"],
            ["wait_for", str(both)],
            ["say", "served"],
        ],
        [["say", "again"]],
        before={
            "session/new": [
                ["spawn", f"echo $$ > {helper}; exec sleep 600"],
                ["wait_for", str(helper)],
            ]
        },
    )
    recorder, talk = bench.recorder(), bench.conversation()

    reply = await talk.send("do it", recorder)

    assert reply.left in (("sleep",), ("sh",))
    assert not alive(left)
    assert alive(helper)
    assert (await talk.send("more", recorder)).left == ()
    await talk.close()
    assert not alive(helper)


async def test_closing_twice_does_nothing_and_nothing_is_left_to_close_at_first(
    tmp_path: Path,
) -> None:
    bench = AcpBench(tmp_path, [["say", "one"]])
    recorder, talk = bench.recorder(), bench.conversation()

    await talk.close()
    await talk.send("do it", recorder)
    await talk.close()
    await talk.close()

    assert len(recorder.runs) == 1


def test_its_session_is_one_of_its_own(tmp_path: Path) -> None:
    talk = AcpBench(tmp_path, []).conversation()

    talk.load(
        [],
        Unfinished(session=AgentSession(agent="another", id="x")),
        AcpBench(tmp_path, []).recorder(),
    )

    assert talk._earlier == ""


def alive(path: Path) -> bool:
    one = entry(int(path.read_text()))
    return one is not None and one.living


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_what_comes_after_the_end_of_a_turn_belongs_to_none_but_its_cost(
    tmp_path: Path,
) -> None:
    late = [
        ["end", "end_turn"],
        ["say", "late"],
        ["shell", "true"],
        ["report", "usage_update", {"cost": DOLLAR}],
    ]
    late.append(["touch", "late"])
    bench = AcpBench(tmp_path, [["say", "one"], *late], [["say", "two"]])
    recorder, talk = bench.recorder(), bench.conversation()

    await talk.send("first", recorder)
    await until((bench.workspace / "late").exists)
    reply = await talk.send("second", recorder)
    await talk.close()

    assert reply.text == "two"
    assert recorder.texts == ["one", "two"]
    assert recorder.results == []
    assert [usage.cost_usd for _, usage in recorder.usages] == [None, 1.0]


@pytest.mark.slow
async def test_an_agent_that_asks_on_and_on_and_reads_nothing_is_given_up(
    tmp_path: Path,
) -> None:
    line = '{"id": "q", "method": "what/is"}'
    bench = AcpBench(tmp_path, [["raw", "\n".join([line] * 30_000)], ["hang"]])

    reply = await bench.conversation().send("do it", bench.recorder())

    assert "reads no responses" in str(reply.failure)


async def test_an_action_too_long_to_be_reviewed_is_denied(tmp_path: Path) -> None:
    call = {"toolCallId": "c", "kind": "execute", "title": "x" * 100_001}
    bench = AcpBench(
        tmp_path,
        [
            ["ask", call, ["allow_once", "reject_once"], [["shell", "touch done"]]],
            ["say", "a"],
        ],
    )
    _, recorder = await bench.play()

    assert not (bench.workspace / "done").exists()
    assert recorder.asked == []
    assert [result.facts for result in recorder.results] == [("denied",)]
    assert len(recorder.results[0].command) < 5_000


async def test_a_key_in_the_environment_is_a_way_to_sign_in(tmp_path: Path) -> None:
    methods = [
        {"id": "browser", "name": "Browser"},
        {
            "id": "key",
            "name": "Key",
            "type": "env_var",
            "vars": [{"name": "DOUBLE_KEY"}],
        },
    ]
    answers = {
        "initialize": {"protocolVersion": 1, "authMethods": methods},
        "session/new": {
            "error": {"code": -32000, "message": "Authentication required"}
        },
    }
    bench = AcpBench(tmp_path, [["say", "in"]], answers=answers)

    with pytest.raises(AgentNotSignedIn):
        await bench.conversation(env={"DOUBLE_KEY": "k"}).send(
            "do it", bench.recorder()
        )
    with pytest.raises(AgentNotSignedIn):
        await bench.conversation().send("do it", bench.recorder())

    assert [message["params"] for message in bench.seen("authenticate")] == [
        {"methodId": "key"}
    ]
    assert len(bench.seen("session/new")) == 3


@pytest.mark.parametrize("closes", [False, True])
async def test_a_turn_that_failed_before_anything_was_done_is_repeated(
    tmp_path: Path, *, closes: bool
) -> None:
    bench = AcpBench(tmp_path, [["refuse", 529, "overloaded"]], [["say", "done"]])
    recorder, talk = bench.recorder(), bench.conversation()

    with pytest.raises(AgentError):
        await talk.send("do it", recorder)
    if closes:  # as before a wait
        await talk.close()
    reply = await talk.resume_turn("", Unfinished(), recorder)
    await talk.close()

    assert reply.text == "done"
    assert bench.prompts() == ["do it", "do it"]
    assert [message["content"] for message in recorder.messages] == ["do it", "done"]
    assert len({message["pid"] for message in bench.seen()}) == 2


async def test_a_turn_that_failed_in_its_middle_goes_on_in_another_process(
    tmp_path: Path,
) -> None:
    bench = AcpBench(
        tmp_path, [["say", "half"], ["refuse", 529, "overloaded"]], [["say", "whole"]]
    )
    recorder, talk = bench.recorder(), bench.conversation()

    with pytest.raises(AgentError):
        await talk.send("do it", recorder)
    await talk.close()
    reply = await talk.resume_turn("", Unfinished(), recorder)
    await talk.close()

    assert reply.text == "whole"
    assert "The run was interrupted in the middle of your turn" in bench.prompts()[1]
