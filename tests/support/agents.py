"""Doubles for the rooms of agents and validators: a scripted model, a recorder in memory, a validation context."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from goalrunner.core.agent_ports import Message, Recorded, RoundReply, ToolResult
from goalrunner.core.errors import BudgetExhausted, ModelError
from goalrunner.core.events import Account, AgentRan
from goalrunner.core.observation import ArtifactRef, Observation
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.ports import ValidationContext
from goalrunner.llm import LLM, Reply, ToolCall, ToolSpec

ONE_CALL = Usage(input_tokens=10, output_tokens=5, calls=1)


def call(name: str, identifier: str = "call_1", **arguments: Any) -> ToolCall:
    """A well-formed tool call."""
    return ToolCall(identifier, name, json.dumps(arguments))


def said(text: str, usage: Usage = ONE_CALL) -> Reply:
    """A reply without tool calls."""
    return Reply(text, (), usage, "stop")


def asked(*calls: ToolCall, text: str = "") -> Reply:
    """A reply with tool calls."""
    return Reply(text, calls, ONE_CALL, "tool_calls")


class ScriptedModel(LLM):
    """Plays replies and errors in order; fails loudly when they are used up. `requests` holds each chat it was sent."""

    def __init__(
        self,
        *script: Reply | ModelError | Callable[[], Reply],
        window: int | None = None,
    ) -> None:
        super().__init__("test/agent")
        self._script = list(script)
        self._window = window
        self.requests: list[list[Message]] = []
        self.tools: list[tuple[str, ...]] = []

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        on_text: Callable[[str], None] | None = None,
        **_: Any,
    ) -> Reply:
        """The next of the script."""
        self.requests.append([json.loads(json.dumps(message)) for message in messages])
        self.tools.append(tuple(tool.name for tool in tools))
        assert self._script, "the scripted model has no more replies"
        step = self._script.pop(0)
        if isinstance(step, ModelError):
            self.usage = self.usage + Usage(retries=2)
            raise step
        reply = step if isinstance(step, Reply) else step()
        if on_text and reply.text:
            on_text(reply.text)
        self.usage = self.usage + reply.usage
        return reply

    def context_window(self) -> int | None:
        """As it was made."""
        return self._window


class MemoryRecorder:
    """The port `Recorder` in memory. `trail` holds what happened, in order, as short words."""

    def __init__(self, folder: Path, budget: int | None = None) -> None:
        self._numbers = itertools.count(1)
        self._folder = folder
        self._budget = budget
        self.messages: list[Message] = []
        self.results: list[ToolResult] = []
        self.outputs: list[bytes] = []
        self.usages: list[tuple[Account, Usage]] = []
        self.sessions: list[AgentSession] = []
        self.runs: list[AgentRan] = []
        self.written: list[tuple[bytes, ...]] = []
        self.texts: list[str] = []
        self.trail: list[str] = []

    def message(self, message: Message) -> None:
        """Keep it."""
        self.messages.append(dict(message))
        self.trail.append(f"message {message['role']}")

    def user_said(self, text: str) -> None:
        """Keep it."""
        self.trail.append(f"user said {text}")

    async def permit(
        self, tool_call_id: str, kind: str, text: str, preview: str = ""
    ) -> str | None:
        """Everything is allowed."""
        return None

    def tool_called(self, tool_call_id: str, tool: str, summary: str) -> None:
        """Keep the intent."""
        self.trail.append(f"called {tool_call_id} {tool} {summary}")

    async def tool_result(self, result: ToolResult) -> Recorded:
        """Keep and number the result; a file is read and removed."""
        output = result.output
        if isinstance(output, Path):
            data = output.read_bytes()
            output.unlink()
        else:
            data = output
        self.results.append(result)
        self.outputs.append(data)
        self.trail.append(f"result {result.tool_call_id} {result.summary}")
        observation = Observation(
            id=f"o{len(self.results)}",
            source=result.tool or "?",
            facts=result.facts,
            command=result.command,
            round=1,
            output=ArtifactRef(sha256=hashlib.sha256(data).hexdigest(), size=len(data)),
        )
        return Recorded(observation, data)

    def usage(self, account: Account, usage: Usage) -> None:
        """Keep it."""
        self.usages.append((account, usage))
        self.trail.append("usage")

    def session(self, session: AgentSession) -> None:
        """Keep it."""
        self.sessions.append(session)
        self.trail.append("session")

    async def agent_ran(self, ran: AgentRan, output: Path, errors: Path) -> None:
        """Keep it, and what it wrote."""
        self.runs.append(ran)
        kept = (
            path.read_bytes() if path.exists() else b"" for path in (output, errors)
        )
        self.written.append(tuple(kept))
        self.trail.append(f"ran {ran.ending}")

    def audit_failed(
        self,
        kind: Literal["parse", "transport", "authentication"],
        detail: str,
        answer: str = "",
    ) -> None:
        """Agents have no audits."""
        raise AssertionError(f"an agent reported a failed audit: {kind} {detail}")

    streams_text = True

    def text(self, delta: str) -> None:
        """Keep it."""
        self.texts.append(delta)

    def check_budget(self, account: Account = "agent") -> None:
        """Raises after as many checks as there is budget."""
        self.trail.append("budget")
        if self._budget is not None:
            if not self._budget:
                raise BudgetExhausted("the budget is spent")
            self._budget -= 1

    def scratch(self, suffix: str = "") -> Path:
        """A fresh path in the folder."""
        return self._folder / f"{next(self._numbers)}{suffix}"


class Chat:
    """A conversation that only has messages."""

    def __init__(self, *messages: Message) -> None:
        self.messages: Sequence[Message] = list(messages)

    async def send(self, prompt: str, recorder: object) -> RoundReply:
        """Never: a validator does not drive the agent."""
        raise AssertionError("a validator sent a prompt")

    def checkpoint(self) -> object:
        """Never."""
        raise AssertionError("a validator took a checkpoint")

    def restore(self, checkpoint: object) -> None:
        """Never."""
        raise AssertionError("a validator restored a checkpoint")


def validation(
    workspace: Path, scratch: Path, *, response: str = "done", objective: str = "Do it."
) -> ValidationContext:
    """A context of round 2 of the run k3f9-do-it, whose scratch files lie in `scratch`."""
    numbers = itertools.count(1)
    return ValidationContext(
        run_id="k3f9-do-it",
        iteration=2,
        objective=objective,
        workspace=workspace,
        response=response,
        conversation=Chat(
            {"role": "user", "content": objective},
            {"role": "assistant", "content": response},
        ),
        scratch=lambda suffix: scratch / f"{next(numbers)}{suffix}",
    )
