"""The reader of trajectories of mini-swe-agent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from goalrunner.core.messages import at, block_text, exit_fact, items, text
from goalrunner.transcripts.chat import ChatReader
from goalrunner.transcripts.responses import add_item
from goalrunner.transcripts.source import TranscriptSource


class MiniSweAgentReader(ChatReader):
    """Trajectories of mini-swe-agent.

    A user message is the output of a command if it has an exit code.
    """

    DESCRIPTION = "trajectory of mini-swe-agent (JSON)"
    reporter = "mini-swe-agent"
    _OUTPUT = re.compile(r"<returncode>(-?\d{1,10})</returncode>")
    _ACTION = re.compile(r"```(?:mswea_bash_command|bash)\s*\n(.*?)\n```", re.DOTALL)
    _ROLES = ("system", "developer", "user", "assistant", "tool", "exit")

    def matches(self, source: TranscriptSource) -> bool:
        trajectory_format = text(source.members.get("trajectory_format"))
        if trajectory_format.startswith("mini-swe-agent"):
            return True
        # Versions without the name of the format write their own version.
        info = source.members.get("info")
        if at(info, "mini_version") or at(info, "mini_swe_agent_version"):
            return True
        return super().matches(source)

    def is_typical(self, row: dict[str, Any]) -> bool:
        return row.get("role") in ("user", "tool") and self._exit_fact(row) != ()

    def is_valid(self, row: Any) -> bool:
        # With models of the Responses API, rows are its responses and outputs.
        return (
            at(row, "role") in self._ROLES
            or at(row, "object") == "response"
            or at(row, "type") == "function_call_output"
        )

    def add(self, row: Mapping[str, Any], *, claims: bool = False) -> None:
        match row.get("role"):
            case "tool":
                self._add_output(text(row.get("tool_call_id")), "content", row)
            case "user" if self._exit_fact(row):
                self._add_output("", "content", row)
            case "user":
                # A template of the program, with the task in it.
                self.trail.user()
            case "exit":
                self.trail.claimed(block_text(row.get("content")))
            case "assistant":
                super().add(row)
                self._add_actions(row)
            case "system" | "developer":
                super().add(row)
            case _ if row.get("object") == "response":
                for item in items(row.get("output")):
                    if isinstance(item, dict):
                        add_item(self.trail, item)
            case _:
                self._add_output(text(row.get("call_id")), "output", row)

    def _add_output(self, identifier: str, key: str, row: Mapping[str, Any]) -> None:
        """Add the output of a command, which is the member `key`."""
        has_failed = at(row, "extra", "exception_info")
        facts = ("error",) if has_failed else self._exit_fact(row)
        self.trail.result(identifier, block_text(row.get(key)), facts, tool="bash")

    def _add_actions(self, row: Mapping[str, Any]) -> None:
        """Add the commands in a message, which are one call of the shell."""
        # Calls of tools were added with the message.
        if row.get("tool_calls"):
            return
        actions = items(at(row, "extra", "actions"))
        commands = [at(action, "command") for action in actions]
        commands = [command for command in commands if isinstance(command, str)]
        if not commands:
            commands = self._ACTION.findall(block_text(row.get("content")))
        if commands:
            self.trail.called("", "bash", {"command": "\n".join(commands)})

    def _exit_fact(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the exit code of a message that is the output of a command, as a fact.

        Empty for other messages.
        """
        output = block_text(row.get("content")) or block_text(row.get("output"))
        exit_line = self._OUTPUT.match(output)
        written_code = int(exit_line[1]) if exit_line else None
        return exit_fact(at(row, "extra", "returncode"), written_code)
