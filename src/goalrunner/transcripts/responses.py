"""Items of OpenAI's Responses API, and rollouts of Codex, which contain them."""

from __future__ import annotations

import re
from typing import Any

from goalrunner.core.messages import at, items, text
from goalrunner.transcripts.row_reader import RowReader, as_text, exit_fact, parsed
from goalrunner.transcripts.trail_builder import TrailBuilder

_CALL = re.compile(r"(?:function|custom_tool|local_shell|shell|apply_patch|computer|tool_search)_call(_output)?")
_ROLES = ("system", "developer", "user", "assistant")
_BLOCKS = ("text", "input_text", "output_text", "refusal", "input_image", "input_file", "input_audio")
_AT_PROVIDER = frozenset({"mcp_call", "code_interpreter_call", "file_search_call", "web_search_call"})
"""Calls of tools that run at the provider: their items contain the result."""
_IGNORED = re.compile(
    r"reasoning|item_reference|mcp_\w+|image_generation_call|ghost_snapshot|compaction(?:_\w+)?|other"
)
_SHELLS = frozenset({"shell", "shell_command", "exec_command", "local_shell", "write_stdin", "container.exec"})
_EXIT = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d{1,10})$", re.MULTILINE)


class Responses(RowReader):
    """Items of OpenAI's Responses API."""

    DESCRIPTION = "items of OpenAI's Responses API: a JSON array, a request or response with them, or JSON Lines"
    keys = frozenset({"", "input", "output", "items", "data"})
    fault = "an item of the Responses API: its kind is not known"

    def is_typical(self, row: dict[str, Any]) -> bool:
        kind = text(row.get("type"))
        if kind == "message":
            return "model" not in row and isinstance(row.get("role"), str)
        return bool(_CALL.fullmatch(kind)) or kind in _AT_PROVIDER or (kind == "reasoning" and "summary" in row)

    def is_valid(self, row: Any) -> bool:
        kind = _kind(row) if isinstance(row, dict) else ""
        if kind == "message":
            known = all(at(block, "type") in _BLOCKS for block in items(row.get("content")))
            return known and row.get("role") in _ROLES
        return bool(kind in _AT_PROVIDER or _CALL.fullmatch(kind) or _IGNORED.fullmatch(kind))

    def add(self, row: Any) -> None:
        add_item(self.trail, row)


def _kind(item: dict[str, Any]) -> str:
    return text(item.get("type")) or ("message" if isinstance(item.get("role"), str) else "")


def add_item(trail: TrailBuilder, item: dict[str, Any]) -> None:
    """Add an item of the Responses API to a trail."""
    kind = _kind(item)
    if kind == "message" and item.get("role") == "user":
        trail.user()
    elif kind == "message" and item.get("role") == "assistant":
        trail.said(as_text(item.get("content")))
    elif kind in _AT_PROVIDER:
        _add_at_provider(trail, kind, item)
    elif found := _CALL.fullmatch(kind):
        identifier = text(item.get("call_id")) or text(item.get("id"))
        if found[1]:
            output = as_text(item.get("output"))
            # The agent's own shell tool reports the exit code in front of the output.
            head = "\n".join(output.partition("\nOutput:")[0].splitlines()[:8])
            code = _EXIT.search(head) if trail.tool(identifier) in _SHELLS else None
            trail.result(identifier, output, exit_fact(int(code[1])) if code else ())
        else:
            _add_call(trail, kind.removesuffix("_call"), identifier, item)


def _add_call(trail: TrailBuilder, kind: str, identifier: str, item: dict[str, Any]) -> None:
    """Add the item of a call."""
    if kind in ("function", "custom_tool"):
        arguments = parsed(item.get("arguments")) if kind == "function" else item.get("input")
        name = text(item.get("name"))
        waits = name == "wait" and at(arguments, "ids") is not None  # for other agents
        trail.called(identifier, name, arguments, summary=waits)
        return
    given = item.get("operation") or item.get("action") or item.get("arguments") or {}
    commands = [line for line in items(at(given, "commands")) if isinstance(line, str)]
    trail.called(identifier, kind, {"command": "\n".join(commands)} if commands else given)


def _add_at_provider(trail: TrailBuilder, kind: str, item: dict[str, Any]) -> None:
    """Add a call with its result. A code interpreter's code is the agent's, its outputs are not."""
    given = item.get("code") or parsed(item.get("arguments")) or item.get("action") or item.get("queries") or ""
    results = item.get("output") or item.get("outputs") or item.get("results") or item.get("error")
    trail.called(
        "", text(item.get("name")) or kind.removesuffix("_call"), {"code": given} if item.get("code") else given
    )
    failed = bool(item.get("error")) or item.get("status") == "failed"
    trail.result("", as_text(results), ("error",) if failed else ())


class Codex(RowReader):
    """Rollouts of Codex: `~/.codex/sessions/**/rollout-*.jsonl`. Events repeat the items, so they add nothing."""

    DESCRIPTION = "rollout of Codex (JSON Lines)"
    reporter = "codex"
    fault = "a record of a Codex rollout: it has no type or no payload"
    _KINDS = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
    _CONTEXT = (
        "<environment_context>",
        "<user_instructions>",
        "# AGENTS.md instructions",
        "<permissions",
        "<turn_aborted>",
    )
    """Begins of messages that the program wrote in the name of the user."""

    def is_typical(self, row: dict[str, Any]) -> bool:
        return row.get("type") in self._KINDS and isinstance(row.get("payload"), dict)

    def is_valid(self, row: Any) -> bool:
        whole = isinstance(at(row, "type"), str) and "payload" in row
        return whole and (row["type"] != "response_item" or isinstance(row["payload"], dict))

    def add(self, row: Any) -> None:
        payload = row["payload"]
        if row["type"] == "compacted":
            self.trail.said(text(at(payload, "message")), summary=True)
        elif row["type"] == "response_item":
            context = payload.get("role") == "user" and as_text(payload.get("content")).startswith(self._CONTEXT)
            if not context:
                add_item(self.trail, payload)
