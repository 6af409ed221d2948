"""The entry of the Stop hook in a settings file of Claude Code."""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path
from typing import Any

from goalrunner.core.errors import UsageError, os_errors
from goalrunner.records.files import write_whole

EVENTS = ("UserPromptSubmit", "Stop")
"""The first records how the workspace is before the agent works; the second checks what it did."""
_OURS = re.compile(r"(?:^|[/\s'\"])(?:goal|goalrunner)['\"]? hook claude\b")


class Settings:
    """A settings file; `text` is its content, empty if there is no file. Raise UsageError if it cannot be edited.

    A file that is changed is written with its own indentation, and keeps all other keys and values in their order.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        hint = "correct it, or use the other file: --local"
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is not changed, because it is no regular file", hint)
        try:
            text = path.read_bytes().decode("utf-8") if path.exists() else ""
            self.text = text if text.strip() else ""
            self._table = json.loads(self.text or "{}")
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"{path} is not changed, because it cannot be read as JSON: {error}", hint) from None
        hooks = self._table.get("hooks", {}) if isinstance(self._table, dict) else None
        if not isinstance(hooks, dict) or any(not isinstance(hooks.get(event, []), list) for event in EVENTS):
            raise UsageError(f'{path} is not changed: "hooks" is not an object of lists in it', hint)

    def installed(self, command: str, timeout: int) -> str:
        """Return the text with the hook, in place of an earlier one; `timeout` is in seconds."""
        entry = {"hooks": [{"type": "command", "command": command, "timeout": timeout}]}
        rest = self._without()
        hooks = dict(rest.get("hooks", {}))
        return self._written({**rest, "hooks": hooks | {event: [*hooks.get(event, []), entry] for event in EVENTS}})

    def uninstalled(self) -> str:
        """Return the text without the hook, and without the objects that only it was in."""
        return self._written(self._without())

    def _without(self) -> dict[str, Any]:
        """Return the table without our entries, and without the list and the object that only they were in."""
        before = self._table.get("hooks", {})
        kept = {event: [entry for entry in before.get(event, []) if not _is_ours(entry)] for event in EVENTS}
        hooks = {name: kept.get(name, found) for name, found in before.items() if kept.get(name) != [] or not found}
        table = {**self._table, "hooks": hooks}
        if not hooks and (before or "hooks" not in self._table):
            del table["hooks"]
        return table

    def _written(self, table: dict[str, Any]) -> str:
        """Return a table as text: the text of the file if it has the same content, and none for an empty table."""
        if table == self._table:
            return self.text
        indent = re.search(r"\n([ \t]+)\S", self.text)
        return json.dumps(table, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n" if table else ""

    def diff(self, new: str) -> str:
        name = str(self.path)
        rows = difflib.unified_diff(self.text.splitlines(keepends=True), new.splitlines(keepends=True), name, name)
        return "".join(row if row.endswith("\n") else f"{row}\n" for row in rows)

    def write(self, new: str) -> None:
        """Write a text; remove the file if it is empty. Raise UsageError."""
        with os_errors(f"{self.path} cannot be written", "", UsageError):
            if new:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(self.path.resolve(), new.encode(), mode=0o666)
            else:
                self.path.resolve().unlink()


def _is_ours(entry: Any) -> bool:
    hooks = entry.get("hooks") if isinstance(entry, dict) else None
    commands = [hook.get("command") for hook in hooks if isinstance(hook, dict)] if isinstance(hooks, list) else []
    return bool(commands) and all(isinstance(one, str) and _OURS.search(one) for one in commands)
