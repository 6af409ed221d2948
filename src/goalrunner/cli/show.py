"""`goal show`: what happened in a run, told again from its log."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.cli import output

if TYPE_CHECKING:
    from goalrunner.model.observation import TranscriptRef
    from goalrunner.runs import RunFolder


def show_run(reference: str | None, *, path: bool = False, json: bool = False) -> int:
    """Print what happened in a run, or its folder's path, or path, summary and outcome as JSON; gives exit code 0."""
    from goalrunner import runs
    from goalrunner.errors import UsageError

    if path and json:
        raise UsageError("--path and --json cannot be combined", "--json contains the path")
    folder = runs.find_run(runs.goal_home(os.environ), reference)
    if path:
        output.say(f"{folder.path}\n")
    elif json:
        from goalrunner.reports.outcome import json_text

        output.say(json_text(_values(folder)))
    else:
        _tell(folder)
    return 0


def _values(folder: RunFolder) -> dict[str, Any]:
    return {
        "path": str(folder.path),
        "summary": _json(folder.summary),
        "outcome": _json(folder.outcome),
    }


def _json(path: Path) -> Any:
    """A JSON file's value; None where it is not there (yet) or cannot be read."""
    from json import loads

    try:
        return loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _tell(folder: RunFolder) -> None:
    from goalrunner.eventlog import read_records
    from goalrunner.reports.show import show_text
    from goalrunner.reports.summary import LOST, Summary
    from goalrunner.runs import read_summary

    for piece in show_text(
        read_records(folder.events),
        folder=str(folder.path),
        has_outcome=lambda: os.path.isfile(folder.outcome),  # noqa: PTH113 - never raises
        lost=lambda: Summary(read_summary(folder)).status == LOST,
        words=lambda message: _words(folder.transcript, message),
        columns=output.columns(sys.stdout),
    ):
        output.say(piece)


def _words(transcript: Path, message: TranscriptRef) -> str:
    """A message's text; nothing where the transcript is damaged, which is for `goal verify` to say."""
    from goalrunner.errors import RecordError
    from goalrunner.eventlog import read_message
    from goalrunner.model.dialogue import text_of

    try:
        return text_of(read_message(transcript, message).get("content"))
    except RecordError:
        return ""
