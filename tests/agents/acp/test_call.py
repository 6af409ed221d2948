"""Tool calls of ACP agents: every report can be recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goalrunner.agents.acp_call import AcpCall
from goalrunner.agents.acp_turn import chosen

WORDS = st.text(max_size=8) | st.sampled_from(
    ["\ud800", "\0", "diff", "content", "completed", "execute", "edit"]
)
KEYS = st.sampled_from(
    [
        "type",
        "path",
        "text",
        "content",
        "oldText",
        "command",
        "output",
        "exit_code",
        "kind",
        "x",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = ("kind", "status", "title", "content", "locations", "rawInput", "rawOutput")
UPDATES = st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, JSON))


@settings(deadline=None)
@given(st.lists(UPDATES, max_size=3))
def test_nothing_that_is_reported_of_a_call_does_harm(updates: list[Any]) -> None:
    call = AcpCall("c", Path("/w"))

    for update in updates:
        call.update(update)

    assert "\n".join(
        (call.kind, call.command, call.output, call.preview, *call.facts)
    ).encode()
    assert call.effect in (None, "shell", "write")
    assert len(call.facts) == 1


@settings(deadline=None)
@given(JSON)
def test_nothing_that_is_asked_or_answered_does_harm(value: Any) -> None:
    assert chosen({"params": {"options": value}}, "allow_once") is None
    assert chosen(value, "reject_once") is None


def made(**update: Any) -> AcpCall:
    call = AcpCall("c", Path("/w"))
    call.update(update)
    return call


@pytest.mark.parametrize(
    ("update", "facts"),
    [
        ({"status": "completed", "rawOutput": {"exit_code": 0}}, ("exit 0",)),
        ({"status": "failed", "rawOutput": {"exitCode": 2}}, ("exit 2",)),
        ({"status": "completed", "rawOutput": {"metadata": {"exit": 1}}}, ("exit 1",)),
        (
            {"status": "completed", "rawOutput": {"metadata": {"exit_code": 1}}},
            ("exit 1",),
        ),
        ({"status": "completed", "rawOutput": {"exit_status": 1}}, ("exit 1",)),
        ({"status": "completed", "rawOutput": {"exit": 1}}, ("exit 1",)),
        ({"status": "completed", "rawOutput": {"exit_code": True}}, ("completed",)),
        ({"status": "completed", "rawOutput": {"exit_code": "0"}}, ("completed",)),
        ({"status": "failed"}, ("error",)),
        ({"status": "in_progress"}, ("interrupted",)),
        ({"status": "brand new"}, ("interrupted",)),
    ],
)
def test_facts_are_what_it_says_of_the_end(
    update: dict[str, Any], facts: tuple[str, ...]
) -> None:
    assert made(**update).facts == facts


@pytest.mark.parametrize(
    ("update", "output"),
    [
        (
            {
                "content": [
                    {"type": "content", "content": {"type": "text", "text": "a"}}
                ],
                "rawOutput": "b",
            },
            "a",
        ),
        ({"rawOutput": "b"}, "b"),
        ({"rawOutput": {"stdout": "out\n", "stderr": "err\n"}}, "out\nerr\n"),
        ({"rawOutput": {"output": "both", "stdout": "out"}}, "both"),
        ({"rawOutput": {"odd": 1}}, '{"odd": 1}'),
        ({"content": [{"type": "terminal", "terminalId": "t"}, 3, None]}, ""),
        ({}, ""),
    ],
)
def test_the_output_is_what_it_shows_or_else_what_its_tool_gave(
    update: dict[str, Any], output: str
) -> None:
    assert made(**update).output == output


def test_a_path_outside_of_the_workspace_stays_whole() -> None:
    inside = made(
        kind="read",
        locations=[
            {"path": "/w/a/b"},
            {"path": "/w/../etc/passwd"},
            {"path": "/w/a/b"},
        ],
    )

    assert inside.command == "a/b, /w/../etc/passwd"


@pytest.mark.parametrize(
    ("title", "command"),
    [
        ("`ls -l`", "ls -l"),
        ("```\nls -l\n```", "ls -l"),
        ("`a`b`", "a`b"),
        ("ls `pwd`", "ls `pwd`"),
    ],
)
def test_a_title_in_ticks_is_what_stands_between_them(title: str, command: str) -> None:
    call = AcpCall("c", Path("/w"))

    call.update({"kind": "execute", "title": title})

    assert call.command == command


def test_an_output_that_is_nested_too_deep_to_be_written_is_none() -> None:
    nested: list[Any] = []
    for _ in range(20_000):
        nested = [nested]
    call = AcpCall("c", Path("/w"))

    call.update({"rawOutput": nested})

    assert call.output == ""
