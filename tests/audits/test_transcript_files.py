"""The transcripts in folders, and the goal file of each."""

from __future__ import annotations

import json
from pathlib import Path

from goalrunner.audits.transcript_files import find_transcripts, goal_beside
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
        str(path.relative_to(tmp_path)) for path in find_transcripts([str(tmp_path)])
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
