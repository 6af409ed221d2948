"""Tool calls that an ACP agent reports, and permissions that it asks for."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import shlex
from pathlib import Path
from typing import Any, Literal

from goalrunner.agents.stream import clean


def at(value: Any, *path: str) -> Any:
    """What stands at a path of keys; None where there is nothing."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def text(value: Any) -> str:
    """A string that can be written anywhere; empty for what is none."""
    return clean(value) if isinstance(value, str) else ""


def items(value: Any) -> list[Any]:
    """A list; empty for what is none."""
    return value if isinstance(value, list) else []


def count(value: Any) -> int | None:
    """A number of things; None for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def as_text(value: Any) -> str:
    """A string as it is, anything else as JSON; empty for nothing, and for what is nested too deep to be written."""
    if value is None or isinstance(value, str):
        return text(value)
    try:
        return json.dumps(value, ensure_ascii=True, indent=1)
    except RecursionError:
        return ""


def one_line(value: str, longest: int = 200) -> str:
    """For people."""
    line = " ".join(value.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


KINDS = frozenset("read edit delete move search execute think fetch switch_mode other".split())  # noqa: SIM905
OPEN, DONE, FAILED = frozenset({"in_progress"}), "completed", "failed"

_FREE = frozenset({"read", "search", "think"})
_WRITING = frozenset({"edit", "delete", "move"})
_EXIT_CODES = (
    ("exit_code",),
    ("exitCode",),
    ("exit_status",),
    ("exit",),
    ("metadata", "exit"),
    ("metadata", "exit_code"),
)
_OUTPUTS = (("formatted_output",), ("aggregated_output",), ("output",), ("stdout",), ("text",), ("error",))
_MOST_DIFF_LINES = 20_000


class Call:
    """A tool call: what is known of it so far. `workspace` is what its paths are told relative to."""

    def __init__(self, identifier: str, workspace: Path) -> None:
        self.id = identifier
        self.recorded_as = ""
        """The id under which it is in the log; empty: it is not."""
        self.closed = False
        self._workspace = workspace
        self._known: dict[str, Any] = {}

    def learn(self, update: Any) -> None:
        """Take in a `tool_call`, a `tool_call_update`, or the call that a permission is asked for."""
        for name in ("kind", "status", "title", "content", "locations", "rawInput", "rawOutput"):
            if at(update, name) is not None:
                self._known[name] = update[name]

    def forget(self) -> None:
        """It is over, and what it gave is recorded."""
        self.closed = True
        self._known.clear()

    @property
    def kind(self) -> str:
        """One of the protocol's kinds; "other" for anything else."""
        kind = self._known.get("kind")
        return kind if isinstance(kind, str) and kind in KINDS else "other"

    @property
    def status(self) -> str:
        """ "pending", "in_progress", "completed", "failed", or what else it says."""
        return text(self._known.get("status")) or "pending"

    @property
    def effect(self) -> Literal["shell", "write"] | None:
        """What it needs leave for: None for looking and thinking. An unknown kind may be anything, a command too.

        A command line is one whatever kind the agent gives it: looking is what it says that the command does.
        """
        if self.kind in _FREE:
            return "shell" if self._command_line() else None
        return "write" if self.kind in _WRITING else "shell"

    @property
    def command(self) -> str:
        """The command line, or the paths; else its title."""
        if self.kind == "fetch":  # as the program of that name would be called, so that it is known to use the network
            return f"fetch {self._said()}"
        said = self._said() if self.effect == "shell" else self._paths() or self._said()
        return said or self._paths() or self.kind

    @property
    def facts(self) -> tuple[str, ...]:
        """How it ended, by its own account. A command that failed has run; a call that failed has not."""
        if self.status not in (DONE, FAILED):
            return ("interrupted",)
        code = self._exit_code()
        if code is not None:
            return (f"exit {code}",)
        return ("error",) if self.status == FAILED else ("completed",)

    @property
    def output(self) -> str:
        """What it gave."""
        shown = "\n".join(filter(None, map(self._block, items(self._known.get("content")))))
        return shown or self._raw_output()

    @property
    def diff(self) -> str:
        """What it would change, where it says."""
        return "".join(self._diff(one) for one in items(self._known.get("content")) if at(one, "type") == "diff")

    def _said(self) -> str:
        given = self._command_line() or text(at(self._known.get("rawInput"), "url"))
        if given.strip():
            return given
        title = text(self._known.get("title")).strip()
        ticks = min(len(title) - len(title.lstrip("`")), len(title) - len(title.rstrip("`")), len(title) // 2)
        return title[ticks : len(title) - ticks].strip()

    def _command_line(self) -> str:
        asked = self._known.get("rawInput")
        command = at(asked, "command") or at(asked, "cmd")
        if isinstance(command, list) and all(isinstance(word, str) for word in command):
            return text(shlex.join(command))
        return text(command) if text(command).strip() else ""

    def _paths(self) -> str:
        named = [text(at(one, "path")) for one in items(self._known.get("locations"))]
        named += [text(at(one, "path")) for one in items(self._known.get("content")) if at(one, "type") == "diff"]
        named += [text(at(self._known.get("rawInput"), name)) for name in ("file_path", "path", "filePath")]
        return ", ".join(dict.fromkeys(self._relative(path) for path in named if path))

    def _relative(self, path: str) -> str:
        inside = os.path.normpath(path).startswith(f"{self._workspace}{os.sep}")
        return os.path.relpath(path, self._workspace) if inside else path

    def _exit_code(self) -> int | None:
        raw = self._known.get("rawOutput")
        for path in _EXIT_CODES:
            found = at(raw, *path)
            if isinstance(found, int) and not isinstance(found, bool) and -1_000 < found < 100_000:
                return found
        return count(at(raw, "metadata", "exitCode"))

    def _raw_output(self) -> str:
        raw = self._known.get("rawOutput")
        if isinstance(raw, dict):
            said = [found for path in _OUTPUTS if isinstance(found := at(raw, *path), str) and found]
            errors = at(raw, "stderr")
            if said:
                return text(said[0]) + (text(errors) if said[0] == at(raw, "stdout") else "")
        return as_text(raw)

    def _block(self, one: Any) -> str:
        match at(one, "type"):
            case "content":
                return text(at(one, "content", "text")) or text(at(one, "content", "resource", "text"))
            case "diff":
                return self._diff(one)
            case _:
                return ""

    def _diff(self, one: Any) -> str:
        path = self._relative(text(at(one, "path")))
        old, new = text(at(one, "oldText")).splitlines(True), text(at(one, "newText")).splitlines(True)
        if len(old) + len(new) > _MOST_DIFF_LINES:
            return f"--- {path}\n+++ {path}\n[{len(old):,} lines become {len(new):,}]\n"
        lines = difflib.unified_diff(old, new, path, path)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    @property
    def summary(self) -> str:
        """One line for people."""
        return one_line(self.command)


CANCELLED: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}
"""The turn is over: nobody decides any more."""


def allowed(request: Any, *, guarded: bool) -> dict[str, Any] | None:
    """The answer that lets it happen this once; None where it offers none.

    An agent that offers nothing but leave for ever gets that where nothing in this run is to be asked again (`guarded`).
    """
    return _chosen(request, ("allow_once",) if guarded else ("allow_once", "allow_always"))


def rejected(request: Any) -> dict[str, Any]:
    """The answer that forbids it, this once where that is offered."""
    return _chosen(request, ("reject_once", "reject_always")) or CANCELLED


def identity(kind: str, words: str, preview: str) -> str:
    """An action's name, the same in another process and session, where the agent's own ids are others."""
    said = "\0".join((kind, words, preview))
    return f"{kind}-{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def _chosen(request: Any, kinds: tuple[str, ...]) -> dict[str, Any] | None:
    offered = items(at(request, "params", "options"))
    for kind in kinds:
        for option in offered:
            name = at(option, "optionId")
            if at(option, "kind") == kind and isinstance(name, str):
                return {"outcome": {"outcome": "selected", "optionId": name}}
    return None
