"""The transcripts in folders, and the goal file of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goalrunner.audits.transcript_files import find_transcripts, goal_beside
from goalrunner.core.errors import UsageError
from goalrunner.core.observation import Claim
from goalrunner.transcripts import read_transcript
from tests.transcripts.sessions import SESSIONS


def test_a_folder_has_the_transcripts_below_it_and_folders_that_are_one(
    tmp_path: Path,
) -> None:
    talk = tmp_path / "talk" / "events"
    talk.mkdir(parents=True)
    for number, row in enumerate(SESSIONS["openhands"].text.splitlines()):
        (talk / f"event-{number:05}-a.json").write_text(row)
    (tmp_path / "talk" / "base_state.json").write_text("{}")
    for name in (
        "deep/er/chat.jsonl",
        "a.eval",
        "notes.md",
        ".hidden/chat.json",
        "goal.toml",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps([]))
    names = [
        str(path.relative_to(tmp_path))
        for path in find_transcripts([str(tmp_path)]).paths
    ]
    assert names == ["a.eval", "deep/er/chat.jsonl", "talk"]


def test_the_goal_of_a_transcript_is_beside_it(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for name in ("a.toml", "goal.toml", "run/goal.toml"):
        (tmp_path / name).write_text("")
    places = {
        name: goal_beside(tmp_path / name) for name in ("a.json", "b.json", "run")
    }
    assert {name: str(path.relative_to(tmp_path)) for name, path in places.items()} == {
        "a.json": "a.toml",
        "b.json": "goal.toml",
        "run": "run/goal.toml",
    }


def harbor_job(folder: Path) -> Path:
    """The folder of a job of Harbor with one trial."""
    trial = folder / "job" / "fix-add__abc"
    files = {
        "job/config.json": {"job_name": "job", "agents": [{"name": "claude-code"}]},
        "job/result.json": {"id": "1", "stats": {"n_trials": 1}},
        "job/fix-add__abc/config.json": {"task": {"path": "tasks/fix-add"}},
        "job/fix-add__abc/result.json": {"task_name": "fix-add", "verifier_result": {}},
        "job/fix-add__abc/verifier/ctrf.json": {"results": {"tests": [{"name": "a"}]}},
        "job/fix-add__abc/artifacts/manifest.json": [{"source": "/app"}],
    }
    for name, value in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(value))
    (trial / "agent").mkdir()
    (trial / "agent" / "trajectory.json").write_text(SESSIONS["atif"].text)
    return folder / "job"


def test_json_of_no_known_format_in_a_folder_is_skipped(tmp_path: Path) -> None:
    files = find_transcripts([str(harbor_job(tmp_path))])
    assert [path.name for path in files.paths] == ["trajectory.json"]
    assert files.from_folders == {*files.paths}
    assert {path.name for path in files.skipped} == {
        "config.json",
        "result.json",
        "ctrf.json",
        "manifest.json",
    }
    assert {*files.skipped.values()} == {"the format is not known"}


def test_damaged_files_and_named_files_are_not_skipped(tmp_path: Path) -> None:
    job = harbor_job(tmp_path)
    trajectory = job / "fix-add__abc" / "agent" / "trajectory.json"
    trajectory.write_text(SESSIONS["atif"].text[:-9])
    named = job / "config.json"
    files = find_transcripts([str(job), str(named)])
    assert files.paths == [trajectory, named]
    trajectory.unlink()
    with pytest.raises(UsageError, match="no transcript was found"):
        find_transcripts([str(job)])


def row(kind: str, content: object, **fields: object) -> str:
    """A line of a session of Claude Code."""
    message = {"role": kind, "content": content}
    return json.dumps({"type": kind, "message": message, "sessionId": "s", **fields})


@pytest.mark.parametrize("place", ["agent-a1.jsonl", "s/subagents/agent-a1.jsonl"])
def test_the_file_of_a_sub_agent_belongs_to_its_session(
    tmp_path: Path, place: str
) -> None:
    inner = {"isSidechain": True, "agentId": "a1"}
    tests = {
        "type": "tool_use",
        "id": "t",
        "name": "Bash",
        "input": {"command": "make"},
    }
    task = {"type": "tool_use", "id": "d", "name": "Task", "input": {"prompt": "Do."}}
    path = {"file_path": "src/app.py", "content": "x = 1"}
    edit = {"type": "tool_use", "id": "e", "name": "Write", "input": path}
    session = [
        row("user", "Make it work."),
        row("assistant", [tests]),
        row(
            "user", [{"type": "tool_result", "tool_use_id": "t", "content": "3 passed"}]
        ),
        row("assistant", [task]),
        row(
            "user",
            [{"type": "tool_result", "tool_use_id": "d", "content": "I did it."}],
            toolUseResult={"agentId": "a1"},
        ),
        row("assistant", [{"type": "text", "text": "Done."}]),
    ]
    done = {"type": "tool_result", "tool_use_id": "e", "content": "written"}
    of_agent = [
        row("user", "Do.", **inner),
        row("assistant", [edit], **inner),
        row("user", [done], **inner),
    ]
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "s.jsonl").write_text("\n".join(session) + "\n")
    (tmp_path / place).write_text("\n".join(of_agent) + "\n")
    files = find_transcripts([str(tmp_path)])
    assert files.paths == [tmp_path / "s.jsonl"]
    assert files.skipped == {tmp_path / place: "a sub-agent of the session s"}
    trail = read_transcript(tmp_path / "s.jsonl")
    # The order of the calls shows that the sub-agent changed the file after the tests.
    assert trail.stale == {"o1": "src/app.py changed after o1"}
    claims = [trail.read(item) for item in trail.items if isinstance(item, Claim)]
    assert claims == ["written", "I did it.", "Done."]
    (tmp_path / place).write_text("\n".join(of_agent[:2]) + "\n\0\n" + of_agent[2])
    partial = read_transcript(tmp_path / "s.jsonl").partial
    assert partial.startswith("agent-a1.jsonl: line 3 (not valid JSON")


def test_the_current_folder_has_transcripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chat.json").write_text(SESSIONS["openai-chat"].text)
    monkeypatch.chdir(tmp_path)
    assert find_transcripts(["."]).paths == [Path("chat.json")]
