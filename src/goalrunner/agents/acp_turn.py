"""One turn of an ACP agent, recorded while its prompt is under way."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from goalrunner.agents.acp_calls import CANCELLED, DONE, FAILED, OPEN, Call, allowed, at, identity, rejected, text
from goalrunner.agents.acp_usage import Meter
from goalrunner.agents.command_turn import handed_on
from goalrunner.agents.jsonrpc import Peer
from goalrunner.agents.stream_events import MESSAGE, Growing, shortened
from goalrunner.core.agent_ports import Recorder, ToolResult
from goalrunner.core.errors import ApprovalDenied
from goalrunner.core.observation import UNASKED

NO_SINGLE_LEAVE = "The agent offers no way to allow this once, and what may happen here is asked each time."
"""Why a call is denied that could only be allowed for ever."""
TOO_LONG = "It is too long for anybody to look at. Put it into a file, in parts, and run that."

LONGEST_ACTION = 100_000
"""Characters of a command that a person, or a rule, can be asked about."""
LONGEST_COMMAND = 4_000
"""Characters of one that are recorded."""
REMEMBERED = 20_000
"""Characters of a message that stay in memory; the transcript has more."""
_LONGEST_ID = 200
_TELLING = ("content", "locations", "rawInput")
"""Where a call says what is to be done; OpenHands asks without any of these, and under a name that no call has."""


class Rule(Protocol):
    """Says whether somebody is to decide on an action before it is done."""

    def __call__(self, kind: Literal["shell", "write"], words: str, /) -> bool: ...


def nothing_waits(kind: Literal["shell", "write"], words: str, /) -> bool:
    """The rule where nobody is to decide on anything."""
    return False


class Turn:
    """Hears what comes during a prompt. `agent` is the name under which its calls are reported."""

    def __init__(
        self,
        agent: str,
        workspace: Path,
        session: str,
        peer: Peer,
        recorder: Recorder,
        meter: Meter,
        *,
        guarded: bool,
        waits: Rule = nothing_waits,
    ) -> None:
        self.denials: list[str] = []
        """What it could not be told, for the protocol has no words for it."""
        self._agent = agent
        self._workspace = workspace
        self._session = session
        self._peer = peer
        self._recorder = recorder
        self._meter = meter
        self._guarded = guarded
        self._waits = waits
        self._asked: set[str] = set()
        self._calls: dict[str, Call] = {}
        self._began: dict[str, float] = {}
        self._text = Growing()
        self._texts: list[str] = []
        self.text = ""
        """The last of its messages."""

    @property
    def calls(self) -> int:
        """How many tool calls it reported."""
        return len(self._calls)

    @property
    def texts(self) -> tuple[str, ...]:
        """Its messages so far, each ended by a tool call or the end of the turn; of long ones the two ends."""
        return tuple(self._texts)

    async def hear(self, message: Mapping[str, Any]) -> None:
        """Take in one request or notification. Raises ApprovalPending and ApprovalDenied."""
        method = message.get("method")
        ours = at(message, "params", "sessionId") == self._session
        if method == "session/update" and ours:
            self._meter.hear(at(message, "params"))
            await self._update(at(message, "params", "update"))
        elif method == "session/request_permission":
            if ours and isinstance(at(message, "params", "toolCall", "toolCallId"), str):
                await self._permission(message)
            else:
                self._peer.answer(message, CANCELLED)
        elif method != "session/update":
            self._peer.refuse(message)

    async def close(self) -> None:
        """The turn is over: calls that were begun and never ended are recorded as such."""
        self._end_text()
        for call in self._calls.values():
            if call.recorded_as and not call.closed:
                await self._record(call, ("interrupted",))

    async def _update(self, update: Any) -> None:
        match at(update, "sessionUpdate"):
            case "agent_message_chunk":
                piece = text(at(update, "content", "text"))
                self._text.add(piece)
                self._recorder.text(piece)
            case "tool_call" | "tool_call_update":
                await self._tool(update)
            case _:  # thoughts, plans, modes, and what later versions may say
                pass

    async def _tool(self, update: Any) -> None:
        name = at(update, "toolCallId")
        if not isinstance(name, str):
            return
        call = self._call(name)
        if call.closed:
            return
        call.learn(update)
        if call.status in (DONE, FAILED):
            self._announce(call, text(name)[:_LONGEST_ID])
            await self._record(call, call.facts)
        elif call.status in OPEN:
            self._announce(call, text(name)[:_LONGEST_ID])

    async def _permission(self, request: Mapping[str, Any]) -> None:
        calls = self._asked_about(at(request, "params", "toolCall"))
        self._asked.update(call.id for call in calls)
        named = {identity(call.effect, call.command, _preview(call)): call for call in calls if call.effect is not None}
        if not named:
            answer = allowed(request, guarded=False)
            self._peer.answer(request, answer or CANCELLED)
            return
        denial: str | None = None
        ending: ApprovalDenied | None = None
        for name, call in named.items():
            try:
                denial = await self._permit(name, call)
            except ApprovalDenied as error:
                denial, ending = error.told, error
            except BaseException:  # nobody decides now; the agent must not wait for it
                self._peer.answer(request, CANCELLED)
                raise
            answer = allowed(request, guarded=self._guarded) if denial is None else None
            if denial is None and answer is None:
                denial = NO_SINGLE_LEAVE
            call.recorded_as = ""  # under this name, its approval is used up now
            self._announce(call, name)
            if denial is not None:
                self.denials.append(f"{shortened(call.command, LONGEST_COMMAND)}: {denial}")
                await self._deny(call, denial)
                break
        self._peer.answer(request, rejected(request) if denial is not None else answer)
        if ending is not None:
            raise ending

    def _asked_about(self, asked: Any) -> list[Call]:
        """The calls that leave is asked for. One that says nothing of itself may stand for those under way as well."""
        name = asked["toolCallId"]
        mute = name not in self._calls and not any(at(asked, key) for key in _TELLING)
        call = self._call(name)
        call.learn(asked)
        if not (self._guarded and mute and call.kind == "other"):
            return [call]
        under_way = [one for one in self._calls.values() if one.recorded_as and not one.closed]
        return [*(one for one in under_way if one.id not in self._asked), call]

    async def _permit(self, name: str, call: Call) -> str | None:
        if call.effect is None:
            return None
        if len(call.command) > LONGEST_ACTION:  # rules must see all of it, and a person too
            return TOO_LONG
        return await self._recorder.permit(name, call.effect, call.command, _preview(call))

    def _call(self, name: str) -> Call:
        known = self._calls.get(name)
        if known is None:
            known = self._calls[name] = Call(name, self._workspace)
        return known

    def _announce(self, call: Call, name: str) -> None:
        if call.recorded_as:
            return
        self._end_text()
        call.recorded_as = name
        self._began[call.id] = time.monotonic()
        self._recorder.tool_called(name, call.kind, call.summary)

    async def _deny(self, call: Call, why: str) -> None:
        """The runner itself said no; what the agent does about it is another matter."""
        await self._close(call, ("denied",), f"{why}\n", 0.0)

    async def _record(self, call: Call, facts: tuple[str, ...]) -> None:
        if self._unasked(call, facts):
            facts = (*facts, UNASKED)
        await self._close(call, facts, call.output, time.monotonic() - self._began[call.id])

    def _unasked(self, call: Call, facts: tuple[str, ...]) -> bool:
        """Whether it did, without asking, what somebody was to decide on. What failed was not done."""
        if call.id in self._asked or call.effect is None or "error" in facts:
            return False
        return self._waits(call.effect, call.command[:LONGEST_ACTION])

    async def _close(self, call: Call, facts: tuple[str, ...], output: str, duration: float) -> None:
        result = ToolResult(
            tool_call_id=call.recorded_as,
            tool=call.kind,
            command=shortened(call.command, LONGEST_COMMAND),
            facts=facts,
            output=handed_on(output, self._recorder),
            duration=duration,
            summary=", ".join(facts),
            writes=False,
            reported_by=self._agent,
        )
        call.forget()
        await self._recorder.tool_result(result)

    def _end_text(self) -> None:
        said = self._text.take()
        if said.strip():
            self.text = said
            self._texts.append(shortened(said, REMEMBERED))
            self._recorder.message({"role": "assistant", "content": said})


def _preview(call: Call) -> str:
    return shortened(call.diff, MESSAGE) if call.effect == "write" else ""
