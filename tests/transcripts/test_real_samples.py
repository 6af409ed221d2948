"""Real transcripts of other programs, if GOAL_TRANSCRIPTS_DIR names a folder of them with its index.jsonl."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.errors import UsageError
from goalrunner.core.observation import Claim, Observation
from goalrunner.transcripts import read_transcript

FOLDER = Path(os.environ.get("GOAL_TRANSCRIPTS_DIR") or "absent")
FORMATS = {
    "claude-code-session": "claude-code",
    "codex-rollout": "codex",
    "gemini-chat": "gemini",
    "qwen-code-chat": "qwen",
    "openhands-events-v1": "openhands",
    "openhands-trajectory-v0": "openhands-v0",
    "openhands-eval-output": "openhands-v0",
    "mini-swe-agent-traj": "mini-swe-agent",
    "swe-agent-traj": "swe-agent",
    "openai-chat": "openai-chat",
    "atif": "atif",
    "acp": "acp",
    "inspect-eval": "inspect",
}
"""Format in the index -> name of the format."""
PARTS = {"inspect-eval": "#1"}


def index() -> list[dict[str, Any]]:
    """The transcripts in the folder, without renderings of them."""
    try:
        rows = [
            json.loads(line)
            for line in (FOLDER / "index.jsonl").read_text().splitlines()
        ]
    except OSError:
        return []
    return [row for row in rows if not row["path"].endswith(".txt")]


def is_empty(row: dict[str, Any]) -> bool:
    """Whether it is a single message of ACP in which an agent neither says nor has done anything."""
    return row["format"] == "acp" and not row["path"].endswith(
        ("agent_message_chunk.json", "more_fields.json")
    )


@pytest.mark.skipif(not index(), reason="no real transcripts: set GOAL_TRANSCRIPTS_DIR")
@pytest.mark.parametrize("row", index(), ids=lambda row: row["path"])
def test_a_real_transcript_is_recognised_and_read(
    row: dict[str, Any], tmp_path: Path
) -> None:
    if row["format"] == "inspect-eval":
        pytest.importorskip("inspect_ai")
    path = tmp_path / "transcript"
    path.write_bytes((FOLDER / row["path"]).read_bytes())
    if is_empty(row):
        with pytest.raises(UsageError):
            read_transcript(path)
        return
    trail = read_transcript(f"{path}{PARTS.get(row['format'], '')}")
    assert (trail.format, trail.partial) == (FORMATS[row["format"]], "")
    texts = {
        kind: [trail.read(item) for item in trail.items if isinstance(item, kind)]
        for kind in (Observation, Claim)
    }
    assert texts[Observation] or texts[Claim]
    assert all(texts[Claim])
