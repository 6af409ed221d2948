"""Permission requests: the decision, the answer, and the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.errors import ApprovalDenied, ApprovalPending
from goalrunner.core.observation import UNASKED
from tests.support.acp_bench import AcpBench

ONCE, EVER, NO = "allow_once", "allow_always", "reject_once"


def execute(command: str, **more: Any) -> dict[str, Any]:
    return {
        "toolCallId": "c1",
        "kind": "execute",
        "title": f"`{command}`",
        "status": "pending",
        **more,
    }


def asking(
    call: dict[str, Any], *kinds: str, command: str = "echo did > done"
) -> list[Any]:
    """Asks, and does it where that is allowed."""
    return [
        "ask",
        call,
        list(kinds or (EVER, ONCE, NO)),
        [["shell", command]],
        [["say", "as you wish"]],
    ]


def chosen(name: str) -> dict[str, str]:
    return {"outcome": "selected", "optionId": f"o-{name}"}


async def test_leave_is_given_once_though_it_is_offered_for_ever(
    tmp_path: Path,
) -> None:
    bench = AcpBench(tmp_path, [asking(execute("echo did > done")), ["say", "done"]])
    _, recorder = await bench.play()

    assert bench.outcomes() == [chosen(ONCE)]
    assert [(kind, text) for _, kind, text, _ in recorder.asked] == [
        ("shell", "echo did > done")
    ]
    assert recorder.facts() == [("execute", "echo did > done", ("exit 0",))]
    name = recorder.asked[0][0]
    assert recorder.trail.index("asked shell echo did > done") < recorder.trail.index(
        f"called {name} execute echo did > done"
    )
    assert recorder.results[0].tool_call_id == name


async def test_a_denial_is_answered_recorded_and_part_of_the_next_prompt(
    tmp_path: Path,
) -> None:
    bench = AcpBench(
        tmp_path,
        [asking(execute("echo did > done")), ["end", "cancelled"]],
        [["say", "ok"]],
    )
    recorder, talk = bench.recorder(), bench.conversation()
    recorder.answers = ["The owner denied it."]

    reply = await talk.send("do it", recorder)
    await talk.send("again", recorder)
    await talk.close()

    assert reply.text == "as you wish"
    assert bench.outcomes() == [chosen(NO)]
    assert not (bench.workspace / "done").exists()
    assert recorder.facts() == [("execute", "echo did > done", ("denied",))]
    assert bench.prompts()[1] == "echo did > done: The owner denied it.\n\nagain"


async def test_a_denial_that_ends_the_run_is_answered_and_raised(
    tmp_path: Path,
) -> None:
    bench = AcpBench(tmp_path, [asking(execute("rm -r x")), ["until_cancelled"]])
    recorder, talk = bench.recorder(), bench.conversation()
    recorder.answers = [ApprovalDenied("a1 was denied", "a1", "No.")]

    with pytest.raises(ApprovalDenied):
        await talk.send("do it", recorder)

    assert bench.outcomes() == [chosen(NO)]
    assert len(bench.seen("session/cancel")) == 1
    assert recorder.facts() == [("execute", "rm -r x", ("denied",))]


async def test_what_waits_for_a_person_ends_turn_and_process_and_nothing_of_it_is_done(
    tmp_path: Path,
) -> None:
    bench = AcpBench(tmp_path, [asking(execute("echo did > done"))])
    recorder, talk = bench.recorder(), bench.conversation()
    recorder.answers = [ApprovalPending("a1 waits")]

    with pytest.raises(ApprovalPending):
        await talk.send("do it", recorder)

    assert bench.outcomes() == [{"outcome": "cancelled"}]
    assert len(bench.seen("session/cancel")) == 1
    assert not (bench.workspace / "done").exists()
    assert recorder.results == []
    assert [run.ending for run in recorder.runs] == ["exit 0"]


async def test_the_same_action_has_the_same_name_in_another_process(
    tmp_path: Path,
) -> None:
    bench = AcpBench(
        tmp_path,
        [asking(execute("echo did"))],
        [
            asking({**execute("echo did"), "toolCallId": "c77"}),
            asking(execute("echo other")),
        ],
    )
    first, second = bench.recorder(), bench.recorder()

    for recorder in (first, second):
        talk = bench.conversation()
        await talk.send("do it", recorder)
        await talk.close()

    ((name, *_),) = first.asked
    assert [asked[0] == name for asked in second.asked] == [True, False]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            {
                "kind": "execute",
                "title": "run tests",
                "rawInput": {"command": "pytest -q"},
            },
            "shell",
            "pytest -q",
        ),
        (
            {"kind": "execute", "rawInput": {"command": ["sh", "-c", "a b"]}},
            "shell",
            "sh -c 'a b'",
        ),
        (
            {"kind": "fetch", "title": "x", "rawInput": {"url": "https://a.b/c"}},
            "shell",
            "fetch https://a.b/c",
        ),
        (
            {"kind": "switch_mode", "title": "Leave plan mode"},
            "shell",
            "Leave plan mode",
        ),
        ({"kind": "brand_new", "title": "deploy"}, "shell", "deploy"),
        ({"title": "mcp: deploy"}, "shell", "mcp: deploy"),
        ({}, "shell", "other"),
        (
            {
                "kind": "read",
                "title": "Read a",
                "rawInput": {"command": ["cat", "a b"]},
            },
            "shell",
            "cat 'a b'",
        ),
        ({"kind": "think", "rawInput": {"cmd": "rm -rf ."}}, "shell", "rm -rf ."),
        (
            {"kind": "delete", "title": "Delete", "locations": [{"path": "/tmp/x"}]},
            "write",
            "/tmp/x",
        ),
        ({"kind": "move", "title": "Rename it"}, "write", "Rename it"),
    ],
)
async def test_what_is_asked_for_goes_by_its_kind(
    tmp_path: Path, call: dict[str, Any], kind: str, text: str
) -> None:
    bench = AcpBench(
        tmp_path, [["ask", {"toolCallId": "c1", **call}, [ONCE, NO], [["say", "ok"]]]]
    )
    _, recorder = await bench.play()

    assert [(asked[1], asked[2]) for asked in recorder.asked] == [(kind, text)]


@pytest.mark.parametrize("kind", ["read", "search", "think"])
async def test_looking_and_thinking_need_no_leave(tmp_path: Path, kind: str) -> None:
    bench = AcpBench(
        tmp_path,
        [["ask", {"toolCallId": "c1", "kind": kind}, [NO, ONCE], [["say", "ok"]]]],
    )
    _, recorder = await bench.play()

    assert recorder.asked == []
    assert bench.outcomes() == [chosen(ONCE)]


async def test_a_write_is_asked_with_its_path_and_its_difference(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "workspace" / "f")
    edit = {
        "toolCallId": "e",
        "kind": "edit",
        "content": [
            {"type": "diff", "path": path, "oldText": None, "newText": "new\n"}
        ],
    }
    bench = AcpBench(tmp_path, [["ask", edit, [ONCE, NO], [["say", "ok"]]]])
    _, recorder = await bench.play()

    assert [asked[1:] for asked in recorder.asked] == [
        ("write", "f", "--- f\n+++ f\n@@ -0,0 +1 @@\n+new\n")
    ]


async def test_earlier_updates_of_a_call_count_in_its_permission_request(
    tmp_path: Path,
) -> None:
    told = ["report", "tool_call", execute("make all")]
    bench = AcpBench(
        tmp_path, [told, ["ask", {"toolCallId": "c1"}, [ONCE, NO], [["say", "ok"]]]]
    )
    _, recorder = await bench.play()

    assert [asked[2] for asked in recorder.asked] == ["make all"]


@pytest.mark.parametrize(
    ("guarded", "kinds", "outcome"),
    [
        (True, (EVER, NO), chosen(NO)),
        (False, (EVER, NO), chosen(EVER)),
        (True, (EVER, "reject_always"), chosen("reject_always")),
        (True, (EVER,), {"outcome": "cancelled"}),
        (False, ("brand_new",), {"outcome": "cancelled"}),
    ],
)
async def test_leave_for_ever_is_given_only_where_nothing_is_to_be_asked(
    tmp_path: Path, guarded: bool, kinds: tuple[str, ...], outcome: dict[str, str]
) -> None:
    bench = AcpBench(tmp_path, [asking(execute("echo did > done"), *kinds)])
    await bench.play(guarded=guarded)

    assert bench.outcomes() == [outcome]
    assert (bench.workspace / "done").exists() is (outcome == chosen(EVER))


async def test_before_a_prompt_nothing_is_allowed(tmp_path: Path) -> None:
    early = ["ask", execute("rm -r /"), [ONCE, NO], [["shell", "echo did > done"]]]
    bench = AcpBench(tmp_path, [["say", "ok"]], before={"session/new": [early]})
    _, recorder = await bench.play()

    assert bench.outcomes() == [{"outcome": "cancelled"}]
    assert recorder.asked == []


def waits(kind: str, words: str, /) -> bool:
    """A person is to decide on whatever is pushed, and on every file."""
    return kind == "write" or "push" in words


async def test_what_it_did_unasked_although_a_person_was_to_decide_is_marked(
    tmp_path: Path,
) -> None:
    edit = {
        "toolCallId": "e",
        "kind": "edit",
        "locations": [{"path": "/x"}],
        "status": "completed",
    }
    steps = [
        ["shell", "echo push"],
        ["shell", "echo it", "c2"],
        ["shell", "exit push", "c3"],
    ]
    bench = AcpBench(tmp_path, [*steps, ["report", "tool_call", edit], ["say", "done"]])
    _, recorder = await bench.play(waits=waits)

    told = {command: facts for _, command, facts in recorder.facts()}
    assert told["echo push"] == ("exit 0", UNASKED)
    assert told["echo it"] == ("exit 0",)
    assert told["/x"] == ("completed", UNASKED)
    assert UNASKED in told["exit push"], "a command that failed has run"


async def test_what_it_asked_for_is_not_marked(tmp_path: Path) -> None:
    bench = AcpBench(
        tmp_path, [asking(execute("echo push"), command="echo push"), ["say", "done"]]
    )
    _, recorder = await bench.play(waits=waits)

    assert recorder.facts() == [("execute", "echo push", ("exit 0",))]


async def test_a_call_that_was_refused_by_the_agent_itself_was_not_done(
    tmp_path: Path,
) -> None:
    call = {
        "toolCallId": "e",
        "kind": "edit",
        "locations": [{"path": "/x"}],
        "status": "failed",
    }
    bench = AcpBench(tmp_path, [["report", "tool_call", call], ["say", "done"]])
    _, recorder = await bench.play(waits=waits)

    assert recorder.facts() == [("edit", "/x", ("error",))]


CONFIRM = {
    "toolCallId": "confirmation-1",
    "kind": "other",
    "title": "Confirm Agent Actions",
    "status": "pending",
}


@pytest.mark.parametrize("denied", [False, True])
async def test_leave_that_is_asked_without_a_word_is_for_what_is_under_way(
    tmp_path: Path, denied: bool
) -> None:
    """As OpenHands asks: a call is under way, and leave is asked under another name that tells nothing."""
    begun = {
        "toolCallId": "c1",
        "kind": "execute",
        "status": "in_progress",
        "rawInput": {"command": "echo did > done"},
    }
    done = ["shell", "echo did > done", "c1", False]
    bench = AcpBench(
        tmp_path,
        [
            ["report", "tool_call", begun],
            ["ask", CONFIRM, [ONCE, NO], [done], []],
            ["say", "ok"],
        ],
    )
    recorder, talk = bench.recorder(), bench.conversation()
    recorder.answers = ["The owner denied it."] if denied else []

    await talk.send("do it", recorder)
    await talk.close()

    assert recorder.asked[0][1:3] == ("shell", "echo did > done")
    assert bench.outcomes() == [chosen(NO if denied else ONCE)]
    assert (bench.workspace / "done").exists() is not denied
    assert recorder.facts()[0] == (
        "execute",
        "echo did > done",
        ("denied",) if denied else ("exit 0",),
    )


async def test_one_that_tells_what_it_asks_for_is_asked_for_alone(
    tmp_path: Path,
) -> None:
    begun = {
        "toolCallId": "c0",
        "kind": "execute",
        "status": "in_progress",
        "rawInput": {"command": "make"},
    }
    bench = AcpBench(
        tmp_path, [["report", "tool_call", begun], asking(execute("echo did > done"))]
    )
    _, recorder = await bench.play()

    assert [text for _, _, text, _ in recorder.asked] == ["echo did > done"]
