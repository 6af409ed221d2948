"""Items of OpenAI's Responses API, and what contains them: rollouts of Codex; trajectories of mini-swe-agent, SWE-agent, ATIF."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from goalrunner.core.messages import at, block_text, exit_fact, items, parsed, text
from goalrunner.core.observation import source_of
from goalrunner.core.trail_builder import TrailBuilder
from goalrunner.transcripts import RowReader
from goalrunner.transcripts.chat import ChatReader
from goalrunner.transcripts.source import TranscriptSource

_CALL = re.compile(
    r"(?:function|custom_tool|local_shell|shell|apply_patch|computer|tool_search)_call(_output)?"
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
_AT_PROVIDER = frozenset(
    {"mcp_call", "code_interpreter_call", "file_search_call", "web_search_call"}
)
"""Calls of tools that run at the provider: their items contain the result."""
_IGNORED = re.compile(
    r"reasoning|item_reference|mcp_\w+|image_generation_call|ghost_snapshot|compaction(?:_\w+)?|other"
)
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


class ResponsesReader(RowReader):
    """Items of OpenAI's Responses API."""

    DESCRIPTION = "items of OpenAI's Responses API: a JSON array, a request or response with them, or JSON Lines"
    keys = frozenset({"", "input", "output", "items", "data"})

    def is_typical(self, row: dict[str, Any]) -> bool:
        kind = text(row.get("type"))
        if kind == "message":
            return "model" not in row and isinstance(row.get("role"), str)
        return (
            bool(_CALL.fullmatch(kind))
            or kind in _AT_PROVIDER
            or (kind == "reasoning" and "summary" in row)
        )

    def is_valid(self, row: Any) -> bool:
        kind = _kind(row) if isinstance(row, dict) else ""
        if kind == "message":
            known = all(
                at(block, "type") in _BLOCKS for block in items(row.get("content"))
            )
            return known and row.get("role") in _ROLES
        return bool(
            kind in _AT_PROVIDER or _CALL.fullmatch(kind) or _IGNORED.fullmatch(kind)
        )

    def add(self, row: Any) -> None:
        add_item(self.trail, row)


def _kind(item: dict[str, Any]) -> str:
    return text(item.get("type")) or (
        "message" if isinstance(item.get("role"), str) else ""
    )


def add_item(trail: TrailBuilder, item: dict[str, Any]) -> None:
    """Add an item of the Responses API to a trail."""
    kind = _kind(item)
    if kind == "message" and item.get("role") == "user":
        trail.user(block_text(item.get("content")))
    elif kind == "message" and item.get("role") == "assistant":
        trail.claimed(block_text(item.get("content")))
    elif kind in _AT_PROVIDER:
        _add_at_provider(trail, kind, item)
    elif found := _CALL.fullmatch(kind):
        identifier = text(item.get("call_id")) or text(item.get("id"))
        if found[1]:
            trail.result(
                identifier,
                *_output(item.get("output"), shell=trail.tool(identifier) in _SHELLS),
            )
        else:
            _add_call(trail, kind.removesuffix("_call"), identifier, item)


def _output(output: Any, *, shell: bool) -> tuple[str, tuple[str, ...]]:
    """Return the text of a result, and the exit code that a shell reports: in a table, or in front of the output."""
    if (
        isinstance(output, list)
        and output
        and all(isinstance(at(one, "stdout"), str) for one in output)
    ):
        printed = "\n".join(
            text(one["stdout"]) + text(one.get("stderr")) for one in output
        )
        return printed, exit_fact(at(output[-1], "outcome", "exit_code"))
    found = block_text(output)
    table = parsed(found) if shell else None
    if isinstance(at(table, "output"), str):
        return text(at(table, "output")), exit_fact(at(table, "metadata", "exit_code"))
    head = "\n".join(found.partition("\nOutput:")[0].splitlines()[:8])
    code = _EXIT.search(head) if shell else None
    return found, exit_fact(int(code[1])) if code else ()


def _add_call(
    trail: TrailBuilder, kind: str, identifier: str, item: dict[str, Any]
) -> None:
    """Add the item of a call."""
    if kind in ("function", "custom_tool"):
        arguments = (
            parsed(item.get("arguments")) if kind == "function" else item.get("input")
        )
        name = text(item.get("name"))
        waits = name == "wait" and at(arguments, "ids") is not None  # for other agents
        trail.called(identifier, name, arguments, summary=waits)
        return
    given = item.get("operation") or item.get("action") or item.get("arguments") or {}
    commands = [line for line in items(at(given, "commands")) if isinstance(line, str)]
    trail.called(
        identifier, kind, {"command": "\n".join(commands)} if commands else given
    )


def _add_at_provider(trail: TrailBuilder, kind: str, item: dict[str, Any]) -> None:
    """Add a call with its result. A code interpreter's code is the agent's, its outputs are not."""
    given = (
        item.get("code")
        or parsed(item.get("arguments"))
        or item.get("action")
        or item.get("queries")
        or ""
    )
    results = (
        item.get("output")
        or item.get("outputs")
        or item.get("results")
        or item.get("error")
    )
    trail.called(
        "",
        text(item.get("name")) or kind.removesuffix("_call"),
        {"code": given} if item.get("code") else given,
    )
    failed = bool(item.get("error")) or item.get("status") == "failed"
    if isinstance(results, list):
        results = "\n".join(
            text(at(one, "logs")) or block_text([one]) for one in results
        )
    trail.result("", block_text(results), ("error",) if failed else ())


class CodexReader(RowReader):
    """Rollouts of Codex: `~/.codex/sessions/**/rollout-*.jsonl`. Events repeat the items, so they add nothing."""

    DESCRIPTION = "rollout of Codex (JSON Lines)"
    reporter = "codex"
    _KINDS = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
    _CONTEXT = (
        "<environment_context>",
        "<user_instructions>",
        "# AGENTS.md instructions",
        "<permissions",
        "<turn_aborted>",
    )
    """The beginnings of user messages that the program itself wrote."""

    def is_typical(self, row: dict[str, Any]) -> bool:
        return row.get("type") in self._KINDS and isinstance(row.get("payload"), dict)

    def is_valid(self, row: Any) -> bool:
        whole = isinstance(at(row, "type"), str) and "payload" in row
        return whole and (
            row["type"] != "response_item" or isinstance(row["payload"], dict)
        )

    def add(self, row: Any) -> None:
        payload = row["payload"]
        if row["type"] == "compacted":
            self.trail.claimed(text(at(payload, "message")), summary=True)
        elif row["type"] == "response_item":
            context = payload.get("role") == "user" and block_text(
                payload.get("content")
            ).startswith(self._CONTEXT)
            if not context:
                add_item(self.trail, payload)


class MiniSweAgentReader(ChatReader):
    """Trajectories of mini-swe-agent. A user message is the output of a command if it has an exit code."""

    DESCRIPTION = "trajectory of mini-swe-agent (JSON)"
    reporter = "mini-swe-agent"
    _OUTPUT = re.compile(r"<returncode>(-?\d{1,10})</returncode>")
    _ACTION = re.compile(r"```(?:mswea_bash_command|bash)\s*\n(.*?)\n```", re.DOTALL)
    _ROLES = ("system", "developer", "user", "assistant", "tool", "exit")

    def matches(self, source: TranscriptSource) -> bool:
        if text(source.members.get("trajectory_format")).startswith("mini-swe-agent"):
            return True
        info = source.members.get("info")
        return any(
            at(info, key) for key in ("mini_version", "mini_swe_agent_version")
        ) or super().matches(source)

    def is_typical(self, row: dict[str, Any]) -> bool:
        return row.get("role") in ("user", "tool") and self._code(row) != ()

    def is_valid(self, row: Any) -> bool:
        is_item = (
            at(row, "object") == "response" or at(row, "type") == "function_call_output"
        )
        return at(row, "role") in self._ROLES or is_item

    def add(self, row: Mapping[str, Any], *, claims: bool = False) -> None:
        role, said = row.get("role"), block_text(row.get("content"))
        failed = ("error",) if at(row, "extra", "exception_info") else ()
        if role not in self._ROLES and row.get("object") == "response":
            for item in items(row.get("output")):
                if isinstance(item, dict):
                    add_item(self.trail, item)
        elif role not in self._ROLES:
            output = block_text(row.get("output"))
            self.trail.result(
                text(row.get("call_id")), output, failed or self._code(row), tool="bash"
            )
        elif role == "tool" or (role == "user" and self._code(row)):
            identifier = text(row.get("tool_call_id")) if role == "tool" else ""
            self.trail.result(identifier, said, failed or self._code(row), tool="bash")
        elif role == "exit":
            self.trail.claimed(said)
        elif role == "user":
            self.trail.user()  # a template of the program, with the task in it
        else:
            super().add(row)
            actions = [
                at(action, "command") for action in items(at(row, "extra", "actions"))
            ]
            commands = [
                command for command in actions if isinstance(command, str)
            ] or self._ACTION.findall(said)
            if role == "assistant" and commands and not row.get("tool_calls"):
                self.trail.called("", "bash", {"command": "\n".join(commands)})

    def _code(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the exit code of a message that is the output of a command, as a fact; empty for other messages."""
        found = self._OUTPUT.match(
            block_text(row.get("content")) or block_text(row.get("output"))
        )
        return exit_fact(
            at(row, "extra", "returncode"), int(found[1]) if found else None
        )


class SweAgentReader(RowReader):
    """Trajectories of SWE-agent, `*.traj`; the history of messages repeats the steps."""

    DESCRIPTION = "trajectory of SWE-agent (JSON)"
    reporter = "swe-agent"
    keys = frozenset({"trajectory"})
    _EDITOR = re.compile(r"(?:edit|append|insert)\b")
    _WRITES = re.compile(
        r"(?:create|str_replace_editor (?:create|str_replace|insert)) +(\S+)"
    )

    def matches(self, source: TranscriptSource) -> bool:
        steps = (record.value for record in source.sample if record.key == "trajectory")
        return any(
            at(step, "action") is not None and at(step, "observation") is not None
            for step in steps
        )

    def is_valid(self, row: Any) -> bool:
        return isinstance(at(row, "action"), str) and isinstance(
            at(row, "observation"), str
        )

    def rows(self, source: TranscriptSource) -> Iterator[Any]:
        self.trail.user()
        return super().rows(source)

    def add(self, row: Any) -> None:
        action = row["action"].strip()
        self.trail.claimed(text(row.get("thought")) or text(row.get("response")))
        if not action:  # the format of the answer was wrong, and nothing ran
            return
        found = self._WRITES.match(action)
        written = (
            found[1]
            if found
            else _open_file(row.get("state"))
            if self._EDITOR.match(action)
            else ""
        )
        tool = re.match(r"[\w.-]+", action)
        self.trail.called(
            "",
            tool[0] if tool else "shell",
            {"command": action},
            writes=[written] if written else [],
        )
        self.trail.result("", text(row["observation"]))


def _open_file(state: Any) -> str:
    """Return the file that the editor has open."""
    if isinstance(state, str):
        try:
            state = json.loads(state)
        except ValueError:
            return ""
    return text(at(state, "open_file"))


class AtifReader(RowReader):
    """Trajectories in ATIF, as Harbor writes them. Results of sub-agents and copied steps are claims."""

    DESCRIPTION = "trajectory in ATIF (JSON)"
    keys = frozenset({"steps"})

    def matches(self, source: TranscriptSource) -> bool:
        return text(source.members.get("schema_version")).startswith("ATIF-")

    def rows(self, source: TranscriptSource) -> Iterator[Any]:
        name = text(at(source.members.get("agent"), "name"))
        self.trail.reporter = source_of(name) if name else self.reporter
        return super().rows(source)

    def is_valid(self, row: Any) -> bool:
        return at(row, "source") in ("system", "user", "agent")

    def add(self, row: Any) -> None:
        copied, kind = row.get("is_copied_context") is True, row["source"]
        calls = [
            call for call in items(row.get("tool_calls")) if isinstance(call, dict)
        ]
        if kind == "user" and not copied:
            self.trail.user(block_text(row.get("message")))
        elif kind == "agent":
            self.trail.claimed(block_text(row.get("message")), summary=copied)
        for call in calls:
            given = call.get("arguments") or {}
            self.trail.called(
                text(call.get("tool_call_id")), text(call.get("function_name")), given
            )
        for result in items(at(row, "observation", "results")):
            output, identifier = (
                block_text(at(result, "content")),
                text(at(result, "source_call_id")),
            )
            if not identifier and len(calls) == 1:
                identifier = text(calls[0].get("tool_call_id"))
            # An action of the system, such as a summary of the conversation, is not a result of a tool.
            if copied or kind != "agent" or at(result, "subagent_trajectory_ref"):
                self.trail.claimed(output, summary=True)
            else:
                self.trail.result(identifier, output)
