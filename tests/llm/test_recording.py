"""Recording: redacted, whole, and never over another recording."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.errors import RecordError, UsageError
from goalrunner.core.outcome import Usage
from goalrunner.llm import Reply, ToolCall, new_tape
from goalrunner.llm.scripted import read_script


def test_a_reply_is_one_line_without_secrets(tmp_path: Path) -> None:
    tape = new_tape(
        tmp_path / "tape.jsonl", redact=lambda text: text.replace("hush", "[redacted]")
    )
    calls = (ToolCall("call_1", "shell", '{"command": "echo hush"}'),)
    tape(
        "agent",
        Reply(
            "hush é",
            calls,
            Usage(input_tokens=3, output_tokens=2, cost_usd=None, calls=1),
            "tool_calls",
        ),
    )
    assert (tmp_path / "tape.jsonl").read_text(encoding="ascii") == (
        '{"account": "agent", "text": "[redacted] \\u00e9", '
        '"tool_calls": [{"id": "call_1", "name": "shell", "arguments": "{\\"command\\": \\"echo [redacted]\\"}"}], '
        '"usage": {"input_tokens": 3, "output_tokens": 2, "cost_usd": null}, "finish_reason": "tool_calls"}\n'
    )


@given(st.text(st.characters()), st.text(st.characters()))
def test_any_text_is_played_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, text: str, arguments: str
) -> None:
    path = tmp_path_factory.mktemp("tape") / "tape.jsonl"
    tape = new_tape(path)
    tape("judge", Reply(text, (ToolCall("i", "n", arguments),), Usage(), "stop"))
    (line,) = read_script(path)
    (call,) = line.tool_calls
    sound = [value.encode("utf-8", "replace").decode() for value in (text, arguments)]
    assert [line.text, call.text] == sound


def test_another_recording_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_text("{}\n", encoding="utf-8")
    with pytest.raises(UsageError) as raised:
        new_tape(path)
    assert (
        str(raised.value)
        == f"{path} exists and is not an empty file\nName another file for the recording."
    )
    assert path.read_text(encoding="utf-8") == "{}\n"


def test_an_empty_file_may_be_recorded_to(tmp_path: Path) -> None:
    (tmp_path / "tape.jsonl").touch()
    tape = new_tape(tmp_path / "tape.jsonl")
    tape("agent", Reply("a", (), Usage(), "stop"))
    assert json.loads((tmp_path / "tape.jsonl").read_bytes())["text"] == "a"


def test_a_missing_folder_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError,
        match=r"cannot be written: cannot open .*: No such file or directory",
    ):
        new_tape(tmp_path / "gone" / "tape.jsonl")


def test_a_recording_that_vanished_is_an_error(tmp_path: Path) -> None:
    tape = new_tape(tmp_path / "tape.jsonl")
    (tmp_path / "tape.jsonl").unlink()
    with pytest.raises(RecordError, match="it was removed"):
        tape("agent", Reply("a", (), Usage(), "stop"))


def test_a_link_at_the_path_of_a_recording_is_not_written_through(
    tmp_path: Path,
) -> None:
    tape = new_tape(tmp_path / "tape.jsonl")
    (tmp_path / "victim").write_text("precious\n")
    (tmp_path / "tape.jsonl").unlink()
    (tmp_path / "tape.jsonl").symlink_to("victim")
    with pytest.raises(RecordError, match="it was removed"):
        tape("agent", Reply("a", (), Usage(), "stop"))
    assert (tmp_path / "victim").read_text() == "precious\n"


def test_a_link_that_the_user_gave_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("tape.jsonl")
    new_tape(tmp_path / "link")("agent", Reply("a", (), Usage(), "stop"))
    assert json.loads((tmp_path / "tape.jsonl").read_bytes())["text"] == "a"


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is not an empty file"):
        new_tape(tmp_path / "pipe")
