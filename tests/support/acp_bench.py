"""A scripted ACP agent in a folder of its own, and a conversation with it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from goalrunner.agents.acp_conversation import AcpConversation
from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.core.agent_ports import RoundReply
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import ApprovalDenied, ApprovalPending
from goalrunner.system.connection import ProcessConnector
from tests.support.agents import MemoryRecorder

PROGRAM = Path(__file__).with_name("acp_agent.py")
NAME = "double"


class AcpBench:
    """`script` is what the double does; `seen()` what it was sent."""

    def __init__(self, folder: Path, *prompts: list[Any], **script: Any) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self.script = folder / "script.json"
        self.script.write_text(json.dumps({"prompts": prompts, **script}))
        self.connector = ProcessConnector()
        self.preset = Preset(sign_in="run double login", install="pip install double")

    @property
    def command(self) -> tuple[str, ...]:
        return (sys.executable, str(PROGRAM), str(self.script))

    def conversation(
        self, command: tuple[str, ...] = (), **settings: Any
    ) -> AcpConversation:
        agent = ExternalAgent(
            name=NAME,
            preset=self.preset,
            workspace=self.workspace,
            env={"PATH": os.environ["PATH"], **settings.pop("env", {})},
            idle_timeout=settings.pop("idle_timeout", None),
        )
        rules = {"waits": lambda kind, words: False, **settings}
        return AcpConversation(agent, command or self.command, self.connector, **rules)

    def recorder(self) -> AskedRecorder:
        return AskedRecorder(Path(tempfile.mkdtemp(dir=self.folder)))

    async def play(self, **settings: Any) -> tuple[RoundReply, AskedRecorder]:
        """Return what one round answers, of a conversation that is closed then, and what it recorded."""
        recorder, talk = self.recorder(), self.conversation(**settings)
        reply = await talk.send("do it", recorder)
        await talk.close()
        return reply, recorder

    def seen(self, method: str = "") -> list[dict[str, Any]]:
        """The messages that it was sent, or those of one method."""
        path = self.script.with_suffix(".seen")
        lines = path.read_text().splitlines() if path.exists() else []
        messages = [json.loads(line) for line in lines]
        return [
            message
            for message in messages
            if not method or message.get("method") == method
        ]

    def prompts(self) -> list[str]:
        return [
            message["params"]["prompt"][0]["text"]
            for message in self.seen("session/prompt")
        ]

    def outcomes(self) -> list[Any]:
        """How it was answered that asked for leave."""
        return [
            message["result"]["outcome"]
            for message in self.seen()
            if "outcome" in (message.get("result") or {})
        ]


class AskedRecorder(MemoryRecorder):
    """A recorder that is asked for leave: `answers` are given in turn, then everything is allowed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.asked: list[tuple[str, str, str, str]] = []
        self.answers: list[str | ApprovalPending | ApprovalDenied | None] = []

    async def permit(
        self, tool_call_id: str, kind: str, text: str, preview: str = ""
    ) -> str | None:
        self.asked.append((tool_call_id, kind, text, preview))
        self.trail.append(f"asked {kind} {text}")
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def facts(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """Of each result: tool, command, facts."""
        return [(result.tool, result.command, result.facts) for result in self.results]
