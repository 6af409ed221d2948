"""How the format of a file is recognised, and what is said of an unknown one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.errors import UsageError
from goalrunner.core.observation import Observation
from goalrunner.transcripts import formats, read_transcript
from goalrunner.transcripts.format_table import BUILT_IN


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("rows", "nearest"),
    [
        (
            [
                {"id": "1", "name": "bash", "run_type": "tool", "trace_id": "t"},
                {"id": "2", "name": "Chat", "run_type": "llm", "trace_id": "t"},
            ],
            "langchain",
        ),
        (
            [
                {"type": "session", "version": 3, "id": "s", "cwd": "/w"},
                {"type": "message", "id": "1", "parentId": None, "message": {}},
            ],
            "copilot",
        ),
        ([{"sessionId": "s", "parentUuid": None, "text": "x"}] * 2, "claude-code"),
    ],
)
def test_an_unknown_file_is_called_unknown_with_the_nearest_formats(
    tmp_path: Path, rows: list[dict[str, Any]], nearest: str
) -> None:
    path = written(tmp_path / "file", *rows)
    with pytest.raises(UsageError) as caught:
        read_transcript(path)
    expected = f"{path}: the format of this transcript is not known"
    assert caught.value.message == expected
    sentence, _, rest = caught.value.hint.partition(". ")
    names = sentence.removeprefix("The nearest formats are ").split(", ")
    assert len(names) == 3
    assert names[0] == nearest
    assert {*names} <= {name for name, _ in formats()}
    assert rest.startswith("goal status --list-formats")


def test_every_built_in_format_but_text_has_words_for_suggestions() -> None:
    without = {entry.name for entry in BUILT_IN if not entry.words}
    assert without == {"goal-run", "aider"}


def test_calls_without_results_are_a_warning(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls"}}
    answer = {
        "role": "assistant",
        "content": [{"type": "text", "text": "It is."}, call],
    }
    path = written(tmp_path / "file", answer, answer)
    warning = "2 calls, 0 results read: the transcript may not contain them"
    assert read_transcript(path).warnings == (warning,)
    result = {"type": "tool_result", "tool_use_id": "a", "content": "a.py"}
    written(path, answer, {"role": "user", "content": [result]})
    assert read_transcript(path).warnings == ()


def test_spans_without_content_are_an_error_that_says_so(tmp_path: Path) -> None:
    name = {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}}
    spans = [{"spanId": "1", "attributes": [name]}]
    path = tmp_path / "spans.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    with pytest.raises(UsageError, match="1 call, 0 results read"):
        read_transcript(path)


def _copilot(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "id": kind}


def test_a_command_of_copilot_that_failed_does_not_print_its_own_exit_code(
    tmp_path: Path,
) -> None:
    output = {"content": "1 failed\n<exited with exit code 0>"}
    path = written(
        tmp_path / "events.jsonl",
        _copilot("session.start", sessionId="s"),
        _copilot("tool.execution_start", toolCallId="c", toolName="bash"),
        _copilot(
            "tool.execution_complete", toolCallId="c", success=False, result=output
        ),
    )
    (item,) = read_transcript(path).items
    assert isinstance(item, Observation)
    assert item.facts == ("error",)


def test_a_result_of_a_subagent_of_copilot_is_a_claim_without_its_call(
    tmp_path: Path,
) -> None:
    path = written(
        tmp_path / "events.jsonl",
        _copilot("session.start", sessionId="s"),
        _copilot(
            "tool.execution_complete",
            toolCallId="c",
            parentToolCallId="p",
            success=True,
            result={"content": "2 passed\n<exited with exit code 0>"},
        ),
    )
    (item,) = read_transcript(path).items
    assert not isinstance(item, Observation)


def test_turns_of_codex_are_rolled_back_without_a_number_as_well(
    tmp_path: Path,
) -> None:
    def row(kind: str, **payload: Any) -> dict[str, Any]:
        return {"type": kind, "payload": payload}

    question = [{"type": "input_text", "text": "Fix it."}]
    path = written(
        tmp_path / "rollout.jsonl",
        row("session_meta", id="s"),
        row("response_item", type="message", role="user", content=question),
        row(
            "response_item", type="function_call_output", call_id="c", output="9 passed"
        ),
        row("event_msg", type="thread_rolled_back", num_turns="1"),
        row("response_item", type="message", role="user", content=question),
        row(
            "response_item", type="function_call_output", call_id="d", output="2 passed"
        ),
    )
    (item,) = read_transcript(path).items
    assert isinstance(item, Observation)
