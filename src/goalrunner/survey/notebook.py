"""What an agent does in a round that belongs to no run. Implements the port `Recorder`; keeps counts, and files in a folder."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Literal, NoReturn

from goalrunner.events import Account
from goalrunner.model.observation import Observation
from goalrunner.model.usage import AgentSession, Usage
from goalrunner.ports import AgentRun, Message, Recorded, ToolResult


class Notebook:
    """`results` counts tool results, `sessions` are those that were named, `spent` is all that was reported."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self.results = 0
        self._observed = itertools.count(1)
        self.sessions: list[AgentSession] = []
        self.spent = Usage()

    def message(self, message: Message) -> None:
        """Nobody reads it."""

    async def permit(
        self, tool_call_id: str, kind: Literal["shell", "write"], text: str, preview: str = ""
    ) -> str | None:
        """All that can be done here may be done."""
        return None

    def tool_called(self, tool_call_id: str, tool: str, summary: str) -> None:
        """Its result tells more."""

    async def tool_result(self, result: ToolResult) -> Recorded:
        """Count it; a call that nothing came of was closed by the runner itself."""
        self.results += "interrupted" not in result.facts
        data = result.output.read_bytes() if isinstance(result.output, Path) else result.output
        return Recorded(Observation(id=f"o{next(self._observed)}", source=result.tool or "tool", round=1), data)

    def usage(self, account: Account, usage: Usage) -> None:
        """Add it."""
        self.spent = self.spent + usage

    def session(self, session: AgentSession) -> None:
        """Keep it, where it has a name."""
        if session.id:
            self.sessions.append(session)

    async def agent_ran(self, ran: AgentRun) -> None:
        """Its files go with the folder."""

    def audit_failed(self, kind: Literal["parse", "transport", "authentication"], detail: str) -> NoReturn:
        """There is no judge."""
        raise AssertionError(detail)

    def text(self, delta: str) -> None:
        """Nobody watches."""

    def check_budget(self) -> None:
        """There is none."""

    def scratch(self, suffix: str = "") -> Path:
        """A fresh path."""
        return self._folder / f"{next(self._numbers)}{suffix}"
