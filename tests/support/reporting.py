"""An external agent as the loop meets it: what it really does, and what it reports. Speaks no protocol, starts no agent.

Between the two there need be no connection at all: that is what tests of it are about.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.agent_ports import Message, Recorder, RoundReply, ToolResult
from goalrunner.system.change_clock import ChangeClock

NAME = "mimic"


@dataclass(frozen=True)
class Does:
    """A command line that it really runs in the workspace, and says nothing of."""

    line: str


@dataclass(frozen=True)
class Says:
    """A tool result that it reports, true or not."""

    command: str
    output: str = ""
    facts: tuple[str, ...] = ("exit 0",)
    tool: str = "shell"
    path: str | None = None


@dataclass(frozen=True)
class Leaves:
    """Names of processes that were found, and ended, when its turn was over."""

    names: tuple[str, ...]


Deed = Does | Says | Leaves | str
"""A text is what it says in the end."""


class ReportingAgent:
    """The port `Conversation`: plays a list of deeds a round, and fails loudly when they are used up."""

    def __init__(self, workspace: Path, *rounds: Sequence[Deed]) -> None:
        self._workspace = workspace
        self._rounds = list(rounds)
        self.messages: list[Message] = []
        self._clock = ChangeClock()

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Play the next round."""
        assert self._rounds, "the agent has no more rounds"
        self._tell({"role": "user", "content": prompt}, recorder)
        text = "I am done: everything works."
        left: tuple[str, ...] = ()
        for number, deed in enumerate(self._rounds.pop(0)):
            match deed:
                case Does():
                    subprocess.run(
                        ["sh", "-c", deed.line],
                        cwd=self._workspace,
                        check=False,
                        capture_output=True,
                    )
                    # A model takes longer than a tick of the clock of file times.
                    self._clock.note()
                    self._clock.after_changes()
                case Says():
                    await self._report(f"call-{number}", deed, recorder)
                case Leaves():
                    left = deed.names
                case str():
                    text = deed
        self._tell({"role": "assistant", "content": text}, recorder)
        return RoundReply(text, "answered", 1, left)

    def checkpoint(self) -> object:
        """How much was said."""
        return len(self.messages)

    def restore(self, checkpoint: object) -> None:
        """Forget the rest."""
        assert isinstance(checkpoint, int)
        del self.messages[checkpoint:]

    async def _report(self, identifier: str, said: Says, recorder: Recorder) -> None:
        recorder.tool_called(identifier, said.tool, said.command)
        result = ToolResult(
            tool_call_id=identifier,
            tool=said.tool,
            command=said.command,
            facts=said.facts,
            output=said.output.encode(),
            path=said.path,
            reported_by=NAME,
        )
        await recorder.tool_result(result)

    def _tell(self, message: Message, recorder: Recorder) -> None:
        self.messages.append(message)
        recorder.message(message)
