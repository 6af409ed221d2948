"""A tool call of an ACP agent, as far as the agent has described it."""

from __future__ import annotations

import hashlib
import os
import shlex
from pathlib import Path
from typing import Any, Literal

from goalrunner.agents.json_lines import exit_code, first
from goalrunner.agents.line_events import changed_lines
from goalrunner.agents.text_diff import unified
from goalrunner.agents.turn import LONGEST_MESSAGE, Arrival
from goalrunner.core.errors import shortened
from goalrunner.core.messages import at, block_text, items, text

DONE, FAILED = "completed", "failed"
"""The statuses of a call that has ended."""
DESCRIBING = ("content", "locations", "rawInput")
"""Keys that describe an action.

A permission request of OpenHands has none of them, and an id of no reported call.
"""

# https://agentclientprotocol.com/protocol/tool-calls
_FREE, _WRITING = ("read", "search", "think"), ("edit", "delete", "move")
_KINDS = (*_FREE, *_WRITING, "execute", "fetch", "switch_mode", "other")
_FIELDS = ("kind", "status", "title", "content", "locations", "rawInput", "rawOutput")
# The protocol has no fields for these, so each agent has names of its own.
_EXIT_CODES = (
    *("exit_code", "exitCode", "exit_status", "exit"),
    *("metadata.exit", "metadata.exit_code", "metadata.exitCode"),
)
_OUTPUTS = ("formatted_output", "aggregated_output", "output", "text", "error")
_PATHS = ("file_path", "path", "filePath")


class AcpCall:
    """A tool call. Paths are relative to `workspace`."""

    def __init__(self, call_id: str, workspace: Path) -> None:
        self.id = call_id
        self.recorded_as = ""
        """The id of the call in the log; empty if it is not recorded."""
        self.closed = False
        self.arrival: Arrival | None = None
        """Of its first report, or of the answer that allowed it; None if it had ended
        before."""
        self._workspace = workspace
        self._fields: dict[str, Any] = {}

    def update(self, update: Any) -> None:
        """Add the fields of a report about the call.

        That is a `tool_call`, a `tool_call_update`, or the call of a permission
        request.
        """
        # A report contains only the fields that have changed.
        for name in _FIELDS:
            if at(update, name) is not None:
                self._fields[name] = update[name]

    @property
    def kind(self) -> str:
        """One of the protocol's kinds; "other" for anything else."""
        kind = self._fields.get("kind")
        # Later versions of the protocol may have more kinds.
        return kind if isinstance(kind, str) and kind in _KINDS else "other"

    @property
    def status(self) -> str:
        """The status that the agent reports.

        "pending", "in_progress", "completed", "failed" or another text.
        """
        return text(self._fields.get("status")) or "pending"

    @property
    def has_ended(self) -> bool:
        """Whether the agent has reported its end."""
        return self.status in (DONE, FAILED)

    @property
    def effect(self) -> Literal["shell", "write"] | None:
        """The permission that the call needs.

        Unknown kinds, and reads with a command line, count as commands.
        """
        if self.kind in _FREE:
            return "shell" if self._command_line() else None
        return "write" if self.kind in _WRITING else "shell"

    @property
    def command(self) -> str:
        """The command line or the paths, or else the title."""
        title, paths = self._title(), self._paths()
        # Approval rules treat it like a program of that name.
        if self.kind == "fetch":
            return f"fetch {title}"
        if self.effect == "shell":
            return title or paths or self.kind
        return paths or title or self.kind

    @property
    def facts(self) -> tuple[str, ...]:
        """How the call ended, as the agent reports it."""
        if not self.has_ended:
            return ("interrupted",)
        code = exit_code(first(self._fields.get("rawOutput"), *_EXIT_CODES))
        if code is not None:
            return (f"exit {code}",)
        return ("error",) if self.status == FAILED else ("completed",)

    @property
    def output(self) -> str:
        """Its content, or else its raw output."""
        blocks = map(self._block, items(self._fields.get("content")))
        content = "\n".join(filter(None, blocks))
        if content:
            return content
        raw = self._fields.get("rawOutput")
        for name in _OUTPUTS:
            output = text(at(raw, name))
            if output:
                return output
        streams = text(at(raw, "stdout")) + text(at(raw, "stderr"))
        return streams or block_text(raw)

    @property
    def preview(self) -> str:
        """The diff of a write, truncated."""
        if self.effect != "write":
            return ""
        diff = "".join(map(self._block, self._diffs()))
        return shortened(diff, LONGEST_MESSAGE)

    @property
    def change(self) -> str:
        """How many lines a write adds and removes: "+4 −1".

        Empty if that is not reported.
        """
        return changed_lines([_texts(diff) for diff in self._diffs()])

    @property
    def action(self) -> str:
        """An id of the action.

        It stays the same in a new process of the agent, unlike the agent's own ids, so
        that a decision of a person holds after a resume.
        """
        described = "\0".join((str(self.effect), self.command, self.preview))
        digest = hashlib.sha256(described.encode()).hexdigest()
        return f"{self.effect}-{digest[:16]}"

    def _title(self) -> str:
        """Return the command line or the URL, or else the title without backquotes."""
        url = text(at(self._fields.get("rawInput"), "url"))
        subject = self._command_line() or url
        if subject.strip():
            return subject
        title = text(self._fields.get("title")).strip()
        # Some agents mark a command line as Markdown does.
        if title.startswith("`") and title.endswith("`"):
            return title.strip("`").strip()
        return title

    def _command_line(self) -> str:
        command = first(self._fields.get("rawInput"), "command", "cmd")
        # Codex reports the words of the command.
        if isinstance(command, list) and all(isinstance(word, str) for word in command):
            command = shlex.join(command)
        line = text(command)
        return line if line.strip() else ""

    def _paths(self) -> str:
        """Return the paths of the call, joined by commas."""
        places = (*items(self._fields.get("locations")), *self._diffs())
        values = [at(place, "path") for place in places]
        values += [at(self._fields.get("rawInput"), name) for name in _PATHS]
        # A dict keeps the order and drops what several fields repeat.
        paths: dict[str, None] = {}
        for path in map(text, values):
            if path:
                paths[self._relative(path)] = None
        return ", ".join(paths)

    def _relative(self, path: str) -> str:
        is_inside = os.path.normpath(path).startswith(f"{self._workspace}{os.sep}")
        # A path outside stays absolute, so that a person who decides sees it.
        return os.path.relpath(path, self._workspace) if is_inside else path

    def _diffs(self) -> list[Any]:
        blocks = items(self._fields.get("content"))
        return [block for block in blocks if at(block, "type") == "diff"]

    def _block(self, block: Any) -> str:
        """Return the text of a block of content."""
        if at(block, "type") == "diff":
            old, new = _texts(block)
            return unified(old, new, self._relative(text(at(block, "path")))).text
        if at(block, "type") == "content":
            return text(first(block, "content.text", "content.resource.text"))
        return ""


def _texts(diff: Any) -> tuple[str, str]:
    """Return the old and the new text of a diff."""
    return text(at(diff, "oldText")), text(at(diff, "newText"))
