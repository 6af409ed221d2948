"""Recordings for scripted models, written where a test needs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def agent(text: str = "", *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A reply of the agent: text, tool calls, and whatever a recording may say besides (usage, delay, error)."""
    return {"account": "agent", "text": text, "tool_calls": list(calls), **more}


def shell(command: str) -> dict[str, Any]:
    """A call of the shell tool."""
    return {"name": "shell", "arguments": {"command": command}}


def write_file(path: str, content: str) -> dict[str, Any]:
    """A call of the write_file tool."""
    return {"name": "write_file", "arguments": {"path": path, "content": content}}


def judge(
    *criteria: tuple[str, list[dict[str, str]]], missing: str = "", **more: Any
) -> dict[str, Any]:
    """A reply of the judge: each criterion with its citations; without any it is not satisfied."""
    entries = [
        {
            "criterion": name,
            "satisfied": bool(evidence),
            "evidence": evidence,
            "missing": "" if evidence else missing,
        }
        for name, evidence in criteria
    ]
    complete = all(entry["satisfied"] for entry in entries)
    verdict = {
        "criteria": entries,
        "score": 1.0 if complete else 0.3,
        "complete": complete,
        "missing": "" if complete else missing,
    }
    return {"account": "judge", "text": json.dumps(verdict), **more}


def review(
    *accepted: tuple[list[str], str], refused: dict[str, str] | None = None
) -> dict[str, Any]:
    """A review of changed checks by the judge: names of changes with a quote for them, and others with a reason."""
    answer = {
        "accepted": [{"items": items, "quote": words} for items, words in accepted],
        "refused": [
            {"items": [item], "why": why} for item, why in (refused or {}).items()
        ],
    }
    return {"account": "judge", "text": json.dumps(answer)}


def quote(observation: str, words: str) -> dict[str, str]:
    """A citation of an output."""
    return {"observation": observation, "quote": words}


def fact(observation: str, words: str) -> dict[str, str]:
    """A citation of a heading."""
    return {"observation": observation, "fact": words}


def recording(path: Path, *replies: dict[str, Any]) -> str:
    """Write the replies; gives the name of the model that plays them."""
    path.write_text(
        "".join(json.dumps(reply) + "\n" for reply in replies), encoding="utf-8"
    )
    return f"scripted/{path}"
