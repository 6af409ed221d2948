"""The reader of items of OpenAI's Responses API."""

from __future__ import annotations

import re
from typing import Any

from goalrunner.core.messages import at, block_text, exit_fact, items, parsed, text
from goalrunner.core.trail_builder import TrailBuilder
from goalrunner.transcripts.row_reader import RowReader

_CALL = re.compile(
    r"(?:function|custom_tool|local_shell|shell|apply_patch|computer|tool_search)"
    r"_call(_output)?"
)
_ROLES = ("system", "developer", "user", "assistant")
_BLOCKS = (
    "text",
    "input_text",
    "output_text",
    "refusal",
    "input_image",
    "input_file",
    "input_audio",
)
# Calls of tools that run at the provider: their items contain the result.
_AT_PROVIDER = frozenset(
    {"mcp_call", "code_interpreter_call", "file_search_call", "web_search_call"}
)
# Items that contain neither words for the user nor a call with a result.
_IGNORED = re.compile(
    r"reasoning|item_reference|mcp_\w+|image_generation_call|ghost_snapshot"
    r"|compaction(?:_\w+)?|other"
)
# Tools whose output begins with the exit code. Another tool may print such a line.
_SHELLS = frozenset(
    {
        "shell",
        "shell_command",
        "exec_command",
        "local_shell",
        "write_stdin",
        "container.exec",
    }
)
_EXIT = re.compile(
    r"^(?:Exit code:|Process exited with code) (-?\d{1,10})$", re.MULTILINE
)
# Lines before the output of a command in which the exit code is looked for.
_HEAD_LINES = 8


class ResponsesReader(RowReader):
    """Items of OpenAI's Responses API."""

    DESCRIPTION = (
        "items of OpenAI's Responses API: a JSON array, "
        "a request or response with them, or JSON Lines"
    )
    keys = frozenset({"", "input", "output", "items", "data"})

    def is_typical(self, row: dict[str, Any]) -> bool:
        kind = text(row.get("type"))
        if kind == "message":
            # With a model it is a response of Anthropic's API.
            return "model" not in row and isinstance(row.get("role"), str)
        if kind == "reasoning":
            return "summary" in row
        return kind in _AT_PROVIDER or bool(_CALL.fullmatch(kind))

    def is_valid(self, row: Any) -> bool:
        kind = _kind(row) if isinstance(row, dict) else ""
        if kind == "message":
            blocks = items(row.get("content"))
            are_known = all(at(block, "type") in _BLOCKS for block in blocks)
            return are_known and row.get("role") in _ROLES
        if kind in _AT_PROVIDER:
            return True
        return bool(_CALL.fullmatch(kind) or _IGNORED.fullmatch(kind))

    def add(self, row: Any) -> None:
        add_item(self.trail, row)


def _kind(item: dict[str, Any]) -> str:
    kind = text(item.get("type"))
    # The API accepts messages without a type.
    if not kind and isinstance(item.get("role"), str):
        return "message"
    return kind


def add_item(trail: TrailBuilder, item: dict[str, Any]) -> None:
    """Add an item of the Responses API to a trail."""
    kind = _kind(item)
    if kind == "message":
        if item.get("role") == "user":
            trail.user(block_text(item.get("content")))
        elif item.get("role") == "assistant":
            trail.claimed(block_text(item.get("content")))
        return
    if kind in _AT_PROVIDER:
        _add_call_at_provider(trail, kind, item)
        return
    call_kind = _CALL.fullmatch(kind)
    if not call_kind:
        return
    identifier = text(item.get("call_id")) or text(item.get("id"))
    is_result = bool(call_kind[1])
    if is_result:
        is_shell = trail.tool(identifier) in _SHELLS
        output, facts = _output_and_facts(item.get("output"), is_shell=is_shell)
        trail.result(identifier, output, facts)
    else:
        _add_call(trail, kind.removesuffix("_call"), identifier, item)


def _output_and_facts(output: Any, *, is_shell: bool) -> tuple[str, tuple[str, ...]]:
    """Return the text of a result, and the exit code that a shell reports as a fact."""
    if _is_list_of_commands(output):
        printed = [text(one["stdout"]) + text(one.get("stderr")) for one in output]
        exit_code = at(output[-1], "outcome", "exit_code")
        return "\n".join(printed), exit_fact(exit_code)
    output_text = block_text(output)
    if not is_shell:
        return output_text, ()
    # Older versions of Codex write the result as JSON with the exit code in it.
    table = parsed(output_text)
    if isinstance(at(table, "output"), str):
        exit_code = at(table, "metadata", "exit_code")
        return text(at(table, "output")), exit_fact(exit_code)
    # Newer ones write the exit code before the output, which may imitate it.
    before_output, heading, _ = f"\n{output_text}".partition("\nOutput:")
    if not heading:
        return output_text, ()
    head = "\n".join(before_output.splitlines()[:_HEAD_LINES])
    exit_line = _EXIT.search(head)
    return output_text, exit_fact(int(exit_line[1])) if exit_line else ()


def _is_list_of_commands(output: Any) -> bool:
    """Return whether an output has one entry with `stdout` for each command."""
    if not isinstance(output, list) or not output:
        return False
    return all(isinstance(at(one, "stdout"), str) for one in output)


def _add_call(
    trail: TrailBuilder, kind: str, identifier: str, item: dict[str, Any]
) -> None:
    """Add the item of a call."""
    if kind in ("function", "custom_tool"):
        is_function = kind == "function"
        arguments = parsed(item.get("arguments")) if is_function else item.get("input")
        name = text(item.get("name"))
        # Codex waits with this tool for other agents; the result is their report.
        is_report = name == "wait" and at(arguments, "ids") is not None
        trail.called(identifier, name, arguments, summary=is_report)
        return
    action = item.get("operation") or item.get("action") or item.get("arguments") or {}
    commands = [line for line in items(at(action, "commands")) if isinstance(line, str)]
    arguments = {"command": "\n".join(commands)} if commands else action
    trail.called(identifier, kind, arguments)


def _add_call_at_provider(trail: TrailBuilder, kind: str, item: dict[str, Any]) -> None:
    """Add a call with its result.

    The code of a code interpreter is the agent's, its outputs are not.
    """
    code = item.get("code")
    arguments: Any = {"code": code}
    if not code:
        arguments = (
            parsed(item.get("arguments")) or item.get("action") or item.get("queries")
        )
    results = (
        item.get("output")
        or item.get("outputs")
        or item.get("results")
        or item.get("error")
    )
    tool = text(item.get("name")) or kind.removesuffix("_call")
    trail.called("", tool, arguments or "")
    if isinstance(results, list):
        texts = [text(at(one, "logs")) or block_text([one]) for one in results]
        results = "\n".join(texts)
    has_failed = bool(item.get("error")) or item.get("status") == "failed"
    trail.result("", block_text(results), ("error",) if has_failed else ())
