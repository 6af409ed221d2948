"""The parsers of the built-in agents read what the real programs print. The samples are theirs, shortened."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from goalrunner.agents.external_agents import BUILT_IN, parser_class
from goalrunner.agents.output_reader import Reader
from goalrunner.agents.parser import (
    CallFinished,
    CallStarted,
    Failed,
    SessionStarted,
    StreamEvent,
    Text,
    TextDelta,
    UsageReported,
)
from goalrunner.core.errors import Outage

SAMPLES = Path(__file__).parent / "samples"

NAMES = ("claude", "codex", "gemini", "opencode", "qwen")


def events(name: str, sample: str) -> list[StreamEvent]:
    """Return the events of a sample."""
    stream = Reader(name)
    data = (SAMPLES / f"{name}_{sample}.jsonl").read_bytes()
    return [*stream.feed(data), *stream.feed(b"", final=True)]


def texts(found: list[StreamEvent]) -> list[str]:
    """What it said, pieces joined up to the next call."""
    said = [""]
    for one in found:
        match one:
            case Text(text=text):
                said += [text, ""]
            case TextDelta(text=text):
                said[-1] += text
            case CallStarted() | CallFinished():
                said.append("")
            case _:
                pass
    return [text for text in said if text]


def plain(value: object) -> object:
    """Return a value as JSON has it."""
    if isinstance(value, Outage):
        fields = {
            **dataclasses.asdict(value),
            "resets_at": value.resets_at and value.resets_at.isoformat(),
        }
        return {name: one for name, one in fields.items() if one}
    return value


@pytest.mark.parametrize(
    ("sample", "expected"), json.loads((SAMPLES / "events.json").read_text()).items()
)
def test_every_event_of_a_sample_is_as_recorded(
    sample: str, expected: list[list[object]]
) -> None:
    """The file holds the type of each event, and its fields that are not the default."""
    found = [
        [
            type(event).__name__,
            {
                field.name: plain(getattr(event, field.name))
                for field in dataclasses.fields(event)
                if field.compare and getattr(event, field.name) != field.default
            },
        ]
        for event in events(*sample.split("_", 1))
    ]
    assert found == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_round_is_read(name: str) -> None:
    found = events(name, "round")
    assert texts(found) == ["I begin.", "Done."]
    (result,) = [one for one in found if isinstance(one, CallFinished)]
    called = [one for one in found if isinstance(one, CallStarted)]
    assert all(one.id == result.id for one in called)
    command = [
        text for text in (result.command, *(one.command for one in called)) if text
    ]
    assert all("echo hi > a.txt; echo made; exit 3" in one for one in command)
    assert command
    assert "made" in result.output
    assert result.exit_code == (3 if name in ("codex", "opencode") else None)
    assert not [one for one in found if isinstance(one, Failed)]
    assert sum(
        one.input + one.output for one in found if isinstance(one, UsageReported)
    ) == (45 if name == "gemini" else 30)


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_round_is_of_the_same_session(name: str) -> None:
    first, second = (
        {one.id for one in events(name, sample) if isinstance(one, SessionStarted)}
        for sample in ("round", "resume")
    )
    assert len(first) == 1
    assert first == second


@pytest.mark.parametrize("name", NAMES)
def test_totals_are_marked_as_such(name: str) -> None:
    (first, *_), (second, *_) = (
        [one for one in events(name, sample) if isinstance(one, UsageReported)]
        for sample in ("round", "resume")
    )
    assert first.cumulative == (second.input == 2 * first.input)


@pytest.mark.parametrize(
    ("name", "sample"),
    [
        *((name, "wrong_key") for name in (*NAMES, "openhands")),
        ("claude", "no_key"),
        ("codex", "no_key"),
        ("qwen", "no_key"),
    ],
)
def test_a_wrong_or_missing_key_is_known_by_its_words(name: str, sample: str) -> None:
    preset = parser_class(name).preset
    broke = [one.message for one in events(name, sample) if isinstance(one, Failed)]
    assert any(word.lower() in broke[-1].lower() for word in preset.denied), broke


def test_an_attempt_that_is_tried_again_is_said_but_not_the_end() -> None:
    broke = [
        one.message for one in events("codex", "retrying") if isinstance(one, Failed)
    ]
    assert broke[0].startswith("Reconnecting... 1/5")
    assert not [one for one in events("claude", "retrying") if isinstance(one, Failed)]


def test_a_wrong_key_that_is_tried_on_and_on_ends_the_round() -> None:
    """At the third try: a login that has run out is renewed after a first refusal."""
    found = events("claude", "gateway")
    (broke,) = [one for one in found if isinstance(one, Failed)]
    assert broke == Failed("authentication_failed", ends=True, obstacle="sign_in")
    assert found.index(broke) == 1
    assert any(word in broke.message for word in parser_class("claude").preset.denied)


def test_openhands_is_read_between_its_other_words() -> None:
    found = events("openhands", "round")
    assert texts(found) == ["Done."]
    (called,) = [one for one in found if isinstance(one, CallStarted)]
    (result,) = [one for one in found if isinstance(one, CallFinished)]
    assert (called.tool, called.command) == ("terminal", "echo hi > a.txt; echo made")
    assert (result.id, result.output, result.exit_code, result.failed) == (
        called.id,
        "made",
        0,
        False,
    )
    assert [one.id for one in found if isinstance(one, SessionStarted)] == [
        "cbb919a0ff9b4ff995a7d4a8b7816e14"
    ]


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_preset_says_what_to_type(name: str) -> None:
    preset = parser_class(name).preset
    assert preset.install
    assert preset.sign_in
    assert preset.version[0] == preset.argv[0]
    assert "{session}" in preset.resume


def read(name: str, line: dict[str, object]) -> StreamEvent:
    """The only event of a line."""
    (event,) = Reader(name).feed(f"{json.dumps(line)}\n".encode())
    return event


def claude_call(tool: str, **given: object) -> StreamEvent:
    block = {"type": "tool_use", "id": "t1", "name": tool, "input": given}
    return read("claude", {"type": "assistant", "message": {"content": [block]}})


def test_an_edit_is_read_with_the_lines_that_it_adds_and_removes() -> None:
    edit = {"old_string": "a\nb\nc", "new_string": "a\nB\nB\nc"}
    assert claude_call("Edit", file_path="/w/a.py", **edit) == CallStarted(
        "t1", "Edit", "/w/a.py", "+2 −1"
    )
    several = claude_call(
        "MultiEdit",
        file_path="/w/a.py",
        edits=[edit, {"old_string": "", "new_string": "x"}],
    )
    assert several == CallStarted("t1", "MultiEdit", "/w/a.py", "+3 −1")
    assert claude_call("Read", file_path="/w/a.py") == CallStarted(
        "t1", "Read", "/w/a.py"
    )
    assert claude_call("Edit", file_path="/w/a.py", old_string=1) == CallStarted(
        "t1", "Edit", "/w/a.py"
    )


def test_codex_is_read_with_the_files_that_it_changed_and_the_server_of_a_tool() -> (
    None
):
    changes = [
        {"path": "/w/a.py", "kind": "update"},
        {"path": "/w/b.py", "kind": "add"},
    ]
    changed = {
        "id": "i1",
        "type": "file_change",
        "changes": changes,
        "status": "completed",
    }
    assert read("codex", {"type": "item.completed", "item": changed}) == CallFinished(
        "i1", tool="file_change", command="/w/a.py, /w/b.py"
    )
    asked = {
        "id": "i2",
        "type": "mcp_tool_call",
        "server": "github",
        "tool": "get_issue",
        "arguments": {"number": 3},
    }
    assert read("codex", {"type": "item.started", "item": asked}) == CallStarted(
        "i2", "mcp__github__get_issue", '{"number": 3}'
    )
