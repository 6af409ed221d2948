"""The reader of trajectories of SWE-agent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from goalrunner.core.messages import at, text
from goalrunner.transcripts.row_reader import RowReader
from goalrunner.transcripts.source import TranscriptSource


class SweAgentReader(RowReader):
    """Trajectories of SWE-agent, `*.traj`.

    The history of messages repeats the steps, so it adds nothing.
    """

    DESCRIPTION = "trajectory of SWE-agent (JSON)"
    reporter = "swe-agent"
    keys = frozenset({"trajectory"})
    # Commands of the editor that write the file that it has open.
    _EDITOR = re.compile(r"(?:edit|append|insert)\b")
    # Commands that name the file that they write.
    _WRITES = re.compile(
        r"(?:create|str_replace_editor (?:create|str_replace|insert)) +(\S+)"
    )
    _TOOL = re.compile(r"[\w.-]+")

    def matches(self, source: TranscriptSource) -> bool:
        for record in source.sample:
            step = record.value
            has_action = at(step, "action") is not None
            has_observation = at(step, "observation") is not None
            if record.key == "trajectory" and has_action and has_observation:
                return True
        return False

    def is_valid(self, row: Any) -> bool:
        has_action = isinstance(at(row, "action"), str)
        return has_action and isinstance(at(row, "observation"), str)

    def rows(self, source: TranscriptSource) -> Iterator[Any]:
        # The task is not a step; it begins the only round.
        self.trail.user()
        return super().rows(source)

    def add(self, row: Any) -> None:
        action = row["action"].strip()
        self.trail.claimed(text(row.get("thought")) or text(row.get("response")))
        # Without an action the format of the answer was wrong, and nothing ran.
        if not action:
            return
        tool = self._TOOL.match(action)
        written_path = self._written_path(action, row.get("state"))
        self.trail.called(
            "",
            tool[0] if tool else "shell",
            {"command": action},
            writes=[written_path] if written_path else [],
        )
        self.trail.result("", text(row["observation"]))

    def _written_path(self, action: str, state: Any) -> str:
        """Return the file that a command of the editor writes; empty for others."""
        write = self._WRITES.match(action)
        if write:
            return write[1]
        return _open_file(state) if self._EDITOR.match(action) else ""


def _open_file(state: Any) -> str:
    """Return the file that the editor has open; empty if it has none."""
    # The state is an object or its JSON text, depending on the version.
    if isinstance(state, str):
        try:
            state = json.loads(state)
        except ValueError:
            return ""
    return text(at(state, "open_file"))
