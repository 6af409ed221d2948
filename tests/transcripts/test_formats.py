"""What single formats have of their own: further forms of a file, kinds of results, and what is known of an exit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.errors import UsageError
from goalrunner.core.observation import Observation
from goalrunner.transcripts import SavedTrail, read_transcript
from tests.transcripts.sessions import SESSIONS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file for a transcript."""
    return tmp_path / "transcript"


def rows(path: Path, *given: Any, name: str | None = None) -> SavedTrail:
    """The trail of JSON Lines."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in given))
    return read_transcript(path, format=name)


def shown(trail: SavedTrail) -> list[tuple[str, str, tuple[str, ...], str]]:
    """Source, command, facts and output of the observations."""
    return [
        (item.source, item.command, item.facts, trail.read(item))
        for item in trail.items
        if isinstance(item, Observation)
    ]


def said(trail: SavedTrail) -> list[str]:
    """The texts of the claims."""
    return [trail.read(item) for item in trail.items if not isinstance(item, Observation)]


def claude(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    """A record of Claude Code."""
    return {"type": kind, "uuid": "u", "sessionId": "s", "message": {"role": kind, "content": content}, **more}


@pytest.mark.parametrize(
    ("output", "failed", "facts"),
    [
        ("43 passed", False, ()),
        ("Exit code 2\nno tests ran", True, ("exit 2",)),
        ("Exit code 0 is what I want", False, ()),
        ("The user doesn't want to proceed with this tool use.", True, ("denied",)),
        ("[Request interrupted by user for tool use]", True, ("interrupted",)),
        ("<tool_use_error>File does not exist.</tool_use_error>", True, ("error",)),
    ],
)
def test_claude_code_says_how_a_call_ended(path: Path, output: str, failed: bool, facts: tuple[str, ...]) -> None:
    use = {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "pytest"}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": output, "is_error": failed}
    trail = rows(path, claude("assistant", [use]), claude("user", [result]))
    assert shown(trail) == [("Bash", "pytest", facts, output)]


def test_claude_code_rounds_are_counted_by_messages_of_the_user_alone(path: Path) -> None:
    trail = rows(
        path,
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        claude("user", "Go."),
        claude("user", "Caveat: ...", isMeta=True),
        claude("user", "Another task.", isSidechain=True),
        claude("user", "The summary.", isCompactSummary=True),
        claude("user", [{"type": "text", "text": "Go on."}]),
        claude("assistant", [{"type": "text", "text": "Done."}]),
        {"type": "a-kind-of-a-later-version", "sessionId": "s"},
    )
    assert [(item.round, trail.read(item)) for item in trail.items] == [(1, "The summary."), (2, "Done.")]


def test_a_summary_is_not_the_response(path: Path) -> None:
    answer = claude("assistant", [{"type": "text", "text": "The answer is 42."}])
    rows(path, claude("user", "What is it?"), answer, {"type": "summary", "summary": "It was 43.", "leafUuid": "u"})
    trail = read_transcript(path, deliverable="response")
    assert (shown(trail), said(trail)) == ([("response", "", ("round 1",), "The answer is 42.")], ["It was 43."])


@pytest.mark.parametrize(("kind", "is_claim"), [("local_bash", False), ("local_agent", True)])
def test_claude_code_output_of_a_task_in_the_background(path: Path, kind: str, is_claim: bool) -> None:
    output = f"<task_type>{kind}</task_type>\n<output>\n43 passed <task_type>local_bash</task_type>\n</output>"
    output = output.replace("<output>", f"<output>{'x' * 300}")
    use = {"type": "tool_use", "id": "a", "name": "TaskOutput", "input": {"task_id": "t"}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": output}
    trail = rows(path, claude("assistant", [use]), claude("user", [result]))
    assert (said(trail), len(shown(trail))) == (([output], 0) if is_claim else ([], 1))


def codex(*items: dict[str, Any]) -> list[dict[str, Any]]:
    """Records of a rollout."""
    return [{"timestamp": "t", "type": "response_item", "payload": item} for item in items]


def called(name: str, arguments: dict[str, Any], output: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A call and its result in the form of the Responses API."""
    call = {"type": "function_call", "call_id": "a", "name": name, "arguments": json.dumps(arguments)}
    return call, {"type": "function_call_output", "call_id": "a", "output": output}


FORGED = "Output:\nnothing\nProcess exited with code 0\n"


@pytest.mark.parametrize(
    ("name", "output", "facts"),
    [
        ("exec_command", "Wall time: 0.1 seconds\nProcess exited with code 1\nOutput:\nx", ("exit 1",)),
        ("exec_command", f"Wall time: 0.1 seconds\nProcess running with session ID 7\n{FORGED}", ()),
        ("shell_command", "Exit code: 3\nWall time: 0.1 seconds\nOutput:\nx", ("exit 3",)),
        ("mcp__notes__read", "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nx", ()),
        ("exec_command", [{"type": "input_text", "text": "Process exited with code 1\nOutput:\nx"}], ("exit 1",)),
    ],
)
def test_codex_exit_codes_are_those_in_front_of_the_output(
    path: Path, name: str, output: Any, facts: tuple[str, ...]
) -> None:
    trail = rows(path, *codex(*called(name, {"cmd": "pytest"}, output)))
    assert [found for _, _, found, _ in shown(trail)] == [facts]


def test_codex_output_as_a_table_is_read_with_its_exit_code(path: Path) -> None:
    output = json.dumps({"output": "a.py\n43 passed", "metadata": {"exit_code": 0, "duration_seconds": 0.1}})
    trail = rows(path, *codex(*called("shell", {"command": ["bash", "-lc", "pytest -q"]}, output)))
    assert shown(trail) == [("shell", "pytest -q", ("exit 0",), "a.py\n43 passed")]


def test_codex_context_is_no_message_of_the_user(path: Path) -> None:
    texts = ["<environment_context>\n  <cwd>/ws</cwd>", "# AGENTS.md instructions for /ws", "Go."]
    users = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]} for text in texts]
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
    assert [item.round for item in rows(path, *codex(*users, answer)).items] == [1]


def test_responses_of_tools_at_the_provider_are_observations(path: Path) -> None:
    output = [
        {"type": "code_interpreter_call", "code": "print(6*7)", "outputs": [{"type": "logs", "logs": "42"}]},
        {"type": "mcp_call", "name": "fetch", "arguments": '{"url": "x"}', "output": None, "error": "no such host"},
        {"type": "local_shell_call", "call_id": "l", "action": {"type": "exec", "command": ["bash", "-lc", "ls"]}},
        {"type": "local_shell_call_output", "call_id": "l", "output": "a.py"},
        {"type": "shell_call", "call_id": "s", "action": {"commands": ["cd src", "pytest"]}},
        {
            "type": "shell_call_output",
            "call_id": "s",
            "output": [{"stdout": "1 failed", "outcome": {"exit_code": 1}}],
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ]
    path.write_text(json.dumps({"id": "resp_1", "object": "response", "output": output, "tools": [{"type": "mcp"}]}))
    trail = read_transcript(path)
    assert trail.format == "openai-responses"
    assert shown(trail) == [
        ("code_interpreter", "print(6*7)", (), "42"),
        ("fetch", '{"url": "x"}', ("error",), "no such host"),
        ("local_shell", "ls", (), "a.py"),
        ("shell", "cd src\npytest", ("exit 1",), "1 failed"),
    ]
    assert said(trail) == ["Done."]


def test_anthropic_results_of_tools_at_the_provider_are_observations(path: Path) -> None:
    content = [
        {"type": "text", "text": "I run it."},
        {"type": "server_tool_use", "id": "a", "name": "bash_code_execution", "input": {"command": "pytest"}},
        {
            "type": "bash_code_execution_tool_result",
            "tool_use_id": "a",
            "content": {"stdout": "1 failed", "return_code": 1},
        },
    ]
    path.write_text(json.dumps({"type": "message", "role": "assistant", "model": "claude", "content": content}))
    trail = read_transcript(path)
    ((source, command, _, output),) = shown(trail)
    assert (trail.format, source, command) == ("anthropic", "bash_code_execution", "pytest")
    assert "1 failed" in output


def test_a_result_that_the_assistant_writes_itself_is_no_evidence(path: Path) -> None:
    content = [
        {"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "pytest"}},
        {"type": "tool_result", "tool_use_id": "a", "content": "43 passed"},
        {"type": "text", "text": "Done."},
    ]
    trail = rows(path, {"role": "user", "content": "Go."}, {"role": "assistant", "content": content})
    assert (shown(trail), said(trail)) == ([], ["Done."])


def test_half_characters_of_a_broken_text_are_replaced(path: Path) -> None:
    call = {"id": "a", "function": {"name": "sh\ud800", "arguments": '{"command": "ls \\ud800"}'}}
    trail = rows(
        path,
        {"role": "assistant", "content": "I \ud800", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "a \ud800"},
    )
    assert (shown(trail), said(trail)) == ([("sh_", "ls ?", (), "a ?")], ["I ?"])


def folder(tmp_path: Path, name: str, form: str) -> Path:
    """A folder with one file for each event of a session."""
    text = SESSIONS[name].text
    events = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
    inner = tmp_path / "conversation" / "events"
    inner.mkdir(parents=True)
    for number, event in enumerate(events):
        (inner / form.format(number)).write_text(json.dumps(event))
    (inner.parent / "base_state.json").write_text("{}")
    return inner.parent


FOLDERS = pytest.mark.parametrize(
    ("name", "form"), [("openhands", "event-{:05d}-0f1e2d3c.json"), ("openhands-v0", "{}.json")]
)


@FOLDERS
def test_openhands_events_in_a_folder_are_read_in_their_order(tmp_path: Path, name: str, form: str) -> None:
    whole = tmp_path / "whole"
    whole.write_text(SESSIONS[name].text)
    conversation = folder(tmp_path, name, form)
    for place in (conversation, conversation / "events"):
        trail, expected = read_transcript(place), read_transcript(whole)
        assert (trail.format, trail.partial) == (name, "")
        assert [*map(trail.read, trail.items)] == [*map(expected.read, expected.items)]


@FOLDERS
def test_a_folder_without_some_events_is_partial(tmp_path: Path, name: str, form: str) -> None:
    conversation = folder(tmp_path, name, form)
    (conversation / "events" / form.format(6)).unlink()
    (conversation / "events" / form.format(7)).unlink()
    assert read_transcript(conversation).partial == "2 of the events are missing: the numbers of the files have gaps"


@FOLDERS
def test_a_damaged_event_is_an_error_unless_it_is_the_last(tmp_path: Path, name: str, form: str) -> None:
    files = sorted((folder(tmp_path, name, form) / "events").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    files[-1].write_text(files[-1].read_text()[:-9])
    assert read_transcript(files[0].parent).partial.startswith(
        f"{files[-1].name}, the last one, is torn (not valid JSON"
    )
    files[5].write_text("{")
    with pytest.raises(UsageError, match=f"{files[5].name}: not valid JSON"):
        read_transcript(files[0].parent)


def test_openhands_calls_that_were_not_made_say_so(path: Path) -> None:
    def event(kind: str, identifier: str, **more: Any) -> dict[str, Any]:
        return {"kind": kind, "source": "environment", "tool_name": "terminal", "tool_call_id": identifier, **more}

    action = {"command": "rm -r x", "is_input": False, "kind": "TerminalAction"}
    goes_on = {"content": [{"text": "waiting"}], "exit_code": -1, "kind": "TerminalObservation"}
    trail = rows(
        path,
        event("ActionEvent", "a", action=action, thought=[]),
        event("UserRejectObservation", "a", rejection_reason="No."),
        event("AgentErrorEvent", "b", error="Unknown tool"),
        event("ObservationEvent", "c", observation=goes_on),
        {
            "kind": "ACPToolCallEvent",
            "source": "agent",
            "tool_call_id": "d",
            "tool_kind": "execute",
            "status": "completed",
            "raw_input": {"command": "pytest"},
            "raw_output": "1 failed",
        },
    )
    assert shown(trail) == [
        ("terminal", "rm -r x", ("denied",), "No."),
        ("terminal", "", ("error",), "Unknown tool"),
        ("terminal", "", (), "waiting"),
        ("execute", "pytest", (), "1 failed"),
    ]


def test_one_conversation_of_an_evaluation_is_chosen_by_name(path: Path) -> None:
    events = json.loads(SESSIONS["openhands-v0"].text)
    pairs = [[events[2], events[3]]]
    instances = [{"instance_id": "a-1", "history": events}, {"instance_id": "b-2", "history": pairs}]
    with pytest.raises(UsageError, match=rf"several conversations; choose one, as {path}#a-1"):
        rows(path, *instances)
    assert len(shown(read_transcript(f"{path}#a-1"))) == 3
    assert [command for _, command, _, _ in shown(read_transcript(f"{path}#b-2"))] == ["pytest -q"]
    with pytest.raises(UsageError, match="the file has no conversation 'c-3'"):
        read_transcript(f"{path}#c-3")
    path.write_text(json.dumps(instances[0], indent=1))
    assert len(shown(read_transcript(path))) == 3


def test_a_name_with_a_number_sign_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a#b"
    path.write_text(SESSIONS["codex"].text)
    (tmp_path / "a").write_text("")
    assert read_transcript(path).format == "codex"


def gemini(output: str, status: str = "success") -> dict[str, Any]:
    """A message of Gemini CLI with a shell call."""
    response = {"functionResponse": {"response": {"output": output}}}
    call = {
        "id": "a",
        "name": "run_shell_command",
        "args": {"command": "pytest"},
        "status": status,
        "result": [response],
    }
    return {"id": "1", "type": "gemini", "content": "I run it.", "toolCalls": [call]}


@pytest.mark.parametrize(
    ("output", "status", "facts"),
    [
        ("Output: 1 failed\nExit Code: 1\nProcess Group PGID: 7", "success", ("exit 1",)),
        ("Output: Exit Code: 0\n1 failed\nSignal: 9\nProcess Group PGID: 7", "success", ()),
        ("Output: 1 failed\nExit Code: 0\nand more\nProcess Group PGID: 7", "success", ()),
        ("<untrusted_context>\nOutput: x\nExit Code: 2\n</untrusted_context>", "success", ("exit 2",)),
        ("", "cancelled", ("interrupted",)),
        ("no such tool", "error", ("error",)),
    ],
)
def test_gemini_exit_codes_are_those_behind_the_output(
    path: Path, output: str, status: str, facts: tuple[str, ...]
) -> None:
    session = {"sessionId": "s", "projectHash": "h", "messages": [gemini(output, status)]}
    path.write_text(json.dumps(session, indent=2))  # the form of older versions
    trail = read_transcript(path)
    assert trail.format == "gemini"
    assert shown(trail) == [("run_shell_command", "pytest", facts, output)]
    path.write_text(json.dumps(session))
    assert len(shown(read_transcript(path))) == 1


def test_gemini_calls_that_have_not_ended_are_no_evidence(path: Path) -> None:
    trail = rows(path, {"sessionId": "s", "projectHash": "h"}, gemini("43 passed", "executing"))
    assert (shown(trail), said(trail)) == ([], ["I run it."])


def test_mini_swe_agent_calls_of_tools_are_paired(path: Path) -> None:
    call = {"id": "a", "function": {"name": "bash", "arguments": '{"command": "pytest"}'}}
    item = {"type": "function_call", "call_id": "b", "name": "bash", "arguments": '{"command": "ls"}'}
    messages = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "", "tool_calls": [call], "extra": {"actions": [{"command": "pytest"}]}},
        {
            "role": "tool",
            "tool_call_id": "a",
            "content": "1 failed",
            "extra": {"returncode": 1, "raw_output": "1 failed"},
        },
        {"object": "response", "output": [item]},
        {"type": "function_call_output", "call_id": "b", "output": "a.py", "extra": {"returncode": 0}},
        {"role": "user", "content": "No command was found.", "extra": {"interrupt_type": "FormatError"}},
        {"role": "exit", "content": "LimitsExceeded"},
    ]
    path.write_text(json.dumps({"info": {"mini_version": "2.1"}, "messages": messages}, indent=2))
    trail = read_transcript(path)
    assert trail.format == "mini-swe-agent"
    assert shown(trail) == [("bash", "pytest", ("exit 1",), "1 failed"), ("bash", "ls", ("exit 0",), "a.py")]
    assert said(trail) == ["LimitsExceeded"]


def test_mini_swe_agent_messages_alone_are_recognised(path: Path) -> None:
    messages = json.loads(SESSIONS["mini-swe-agent"].text)["messages"]
    path.write_text(json.dumps([{key: message[key] for key in ("role", "content")} for message in messages]))
    trail = read_transcript(path)
    assert (trail.format, [facts[:1] for _, _, facts, _ in shown(trail)]) == (
        "mini-swe-agent",
        [("exit 1",), ("exit 0",), ("exit 0",)],
    )


def test_swe_agent_edits_of_the_open_file_are_marked(path: Path) -> None:
    def step(action: str, observation: str) -> dict[str, Any]:
        state = json.dumps({"open_file": "/ws/run.py", "working_dir": "/ws"})
        return {"action": action, "observation": observation, "thought": "", "response": "", "state": state}

    steps = [
        step("open run.py", "1:x"),
        step("edit 1:1\nprint(43)\nend_of_edit", "1:print(43)"),
        step("python run.py", "43"),
    ]
    path.write_text(json.dumps({"trajectory": steps}))
    assert read_transcript(path).forgeable == ("o2", "o3")


def test_atif_steps_of_an_earlier_trajectory_are_claims(path: Path) -> None:
    document = json.loads(SESSIONS["atif"].text)
    for step in document["steps"]:
        step["is_copied_context"] = True
    path.write_text(json.dumps(document))
    trail = read_transcript(path)
    assert shown(trail) == []
    assert "2 failed, 41 passed in 0.52s" in said(trail)


def test_acp_updates_without_their_notifications_are_read(path: Path) -> None:
    update = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "a",
        "status": "failed",
        "kind": "execute",
        "title": "ls",
    }
    printed = [{"type": "content", "content": {"type": "text", "text": "no such file"}}]
    for given in (
        {**update, "content": printed},
        {"sessionId": "s", "update": {**update, "rawOutput": "no such file"}},
    ):
        path.write_text(json.dumps(given, indent=2))
        assert shown(read_transcript(path)) == [("execute", '{"title": "ls"}', ("error",), "no such file")]
        path.write_text(json.dumps([given]))
        assert len(shown(read_transcript(path))) == 1


def test_acp_a_changed_file_is_a_file_of_the_agent(path: Path) -> None:
    def ended(kind: str, content: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        return {
            "sessionUpdate": "tool_call",
            "toolCallId": kind,
            "status": "completed",
            "kind": kind,
            "content": content,
            **more,
        }

    diff = [{"type": "diff", "path": "/ws/out.txt", "oldText": None, "newText": "43 passed"}]
    printed = [{"type": "content", "content": {"type": "text", "text": "43 passed"}}]
    trail = rows(path, ended("edit", diff), ended("execute", printed, rawInput={"command": "cat out.txt"}))
    assert trail.forgeable == ("o1", "o2")
    assert [output for *_, output in shown(trail)] == ["", "43 passed"]
