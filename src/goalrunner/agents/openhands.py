"""OpenHands: its preset, and the parser of its output. Checked with version 1.16."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goalrunner.agents.parser import AgentParser, SessionStarted, StreamEvent, at, call, failure, items, message, result
from goalrunner.core.agent_preset import Preset

_OPTIONS = ("--headless", "--json", "--override-with-envs", "--always-approve", "{args}")
_SESSION = "Conversation ID:"
"""Words after which its session id is printed, after the last line of JSON."""


class OpenHands(AgentParser):
    """OpenHands. It does not report its usage."""

    preset = Preset(
        # The length of a command line is limited, so the prompt is a file.
        argv=("openhands", *_OPTIONS, "-f", "{prompt_file}"),
        resume=("openhands", *_OPTIONS, "--resume", "{session}", "-f", "{prompt_file}"),
        acp=("openhands", "acp", "{args}"),
        stream="openhands",
        # If tmux is installed, its commands run in a terminal that it keeps between rounds.
        helpers=("tmux: server",),
        acp_reports={"tokens": "session", "cost_usd": "session"},
        keys=("LLM_API_KEY",),
        login=(".openhands/agent_settings.json",),
        home=(".openhands",),
        version=("openhands", "--version"),
        install="uv tool install openhands --python 3.12",
        sign_in="run openhands and set it up; for its command line, exporting LLM_MODEL and LLM_API_KEY is enough",
        denied=("authenticationerror", "incorrect api key", "invalid_api_key", "llm_api_key", "llmauthenticationerror"),
    )

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        match line.get("kind"):
            case "MessageEvent" if line.get("source") == "agent":
                yield from message(line, "llm_message.content")
            case "ActionEvent":
                for block in items(line.get("thought")):
                    if at(block, "type") == "text":
                        yield from message(block, "text")
                yield call(line, "tool_call_id", "tool_name", "action.command", "action.path", "action")
            case "ObservationEvent":
                yield result(
                    line,
                    "tool_call_id",
                    "observation.content",
                    tool=("tool_name",),
                    code="observation.exit_code",
                    failed="observation.is_error",
                )
            case "AgentErrorEvent":
                yield result(line, "tool_call_id", "error", tool=("tool_name",))
            case "ConversationErrorEvent":
                yield failure(line, "detail", "code")

    def other(self, line: str) -> StreamEvent:
        name = line.removeprefix(_SESSION).split() if line.startswith(_SESSION) else []
        return SessionStarted(name[0]) if name else super().other(line)
