"""One turn of an ACP agent, recorded while it happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from goalrunner.agents.acp_call import DESCRIBING, AcpCall
from goalrunner.agents.acp_process import CANCELLED, AcpProcess
from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.agents.turn import (
    LONGEST_CALL_ID,
    LONGEST_COMMAND,
    Arrival,
    Turn,
)
from goalrunner.core.agent_ports import Recorder
from goalrunner.core.errors import ApprovalDenied, shortened
from goalrunner.core.messages import at, items, text
from goalrunner.core.observation import UNASKED
from goalrunner.system.change_clock import change_time

NO_SINGLE_PERMISSION = (
    "The agent offers no way to allow this once, "
    "and each action needs its own permission here."
)
TOO_LONG = "It is too long to be reviewed. Put it into a file, in parts, and run that."
LONGEST_ACTION = 100_000
"""Characters of a command that can be approved."""

Rule = Callable[[Literal["shell", "write"], str], bool]
"""Returns whether an action needs a decision, by its kind and its command."""


@dataclass(frozen=True)
class Permissions:
    """How the permission requests of an agent are answered."""

    guarded: bool
    """Whether each permission is for one action, never for all later ones."""
    waits: Rule


def chosen(request: Any, *kinds: str) -> dict[str, Any] | None:
    """Return the response that selects the first of `kinds` that the agent offers.

    Return None if it offers none of them.
    """
    ids_by_kind: dict[str, Any] = {}
    for option in items(at(request, "params", "options")):
        # Of several options of one kind, the first one counts.
        ids_by_kind.setdefault(text(at(option, "kind")), at(option, "optionId"))
    for kind in kinds:
        option_id = ids_by_kind.get(kind)
        if isinstance(option_id, str):
            return {"outcome": {"outcome": "selected", "optionId": option_id}}
    return None


class AcpTurn(Turn):
    """Records the messages during a prompt.

    `denials` belong into the next prompt: a permission response has no text.
    """

    def __init__(
        self,
        agent: ExternalAgent,
        session: str,
        process: AcpProcess,
        recorder: Recorder,
        messages: list[dict[str, Any]],
        permissions: Permissions,
    ) -> None:
        super().__init__(agent.name, recorder, messages)
        self.denials: list[str] = []
        self._workspace = agent.workspace
        self._session = session
        self._process = process
        self._permissions = permissions
        # The agent's ids of calls about which it has asked.
        self._asked: set[str] = set()
        self._calls: dict[str, AcpCall] = {}

    async def handle(self, message: Mapping[str, Any]) -> None:
        """Handle a request or notification.

        Raise ApprovalPending and ApprovalDenied.
        """
        method = message.get("method")
        params = at(message, "params")
        is_ours = at(params, "sessionId") == self._session
        if method == "session/update":
            if is_ours:
                await self._update(at(params, "update"))
        elif method == "session/request_permission":
            call_id = at(params, "toolCall", "toolCallId")
            if is_ours and isinstance(call_id, str):
                await self._permission(message)
            else:
                self._process.answer(message, CANCELLED)
        else:
            # No file system and no terminal was offered.
            self._process.refuse(message)

    @property
    def has_open_call(self) -> bool:
        """Whether a call has not ended.

        It may be announced only, or wait for a permission.
        """
        return any(not call.closed for call in self._calls.values())

    async def close(self) -> None:
        """Record the calls that have not ended as interrupted."""
        self.flush()
        for call in self._calls.values():
            if call.recorded_as and not call.closed:
                await self._record(call, ("interrupted",))

    async def _update(self, update: Any) -> None:
        kind = at(update, "sessionUpdate")
        if kind == "agent_message_chunk":
            self.say(text(at(update, "content", "text")))
            return
        call_id = at(update, "toolCallId")
        if kind in ("tool_call", "tool_call_update") and isinstance(call_id, str):
            await self._update_call(call_id, update)

    async def _update_call(self, call_id: str, update: Any) -> None:
        is_new = call_id not in self._calls
        call = self._call(call_id)
        if call.closed:
            return
        call.update(update)
        if is_new and not call.has_ended:
            call.arrival = Arrival(self._process.connection.silent_at)
        has_begun = call.status == "in_progress" or call.has_ended
        if has_begun and not call.recorded_as:
            await self._begin(call, call_id[:LONGEST_CALL_ID])
        if call.has_ended:
            await self._record(call, call.facts)

    async def _permission(self, request: Mapping[str, Any]) -> None:
        """Answer a permission request. Raise ApprovalPending and ApprovalDenied."""
        calls = self._asked_about(at(request, "params", "toolCall"))
        # These calls are not labelled as done without asking.
        self._asked.update(call.id for call in calls)
        actions = {call.action: call for call in calls if call.effect is not None}
        if not actions:
            # What has no effect needs no decision.
            answer = chosen(request, "allow_once", "allow_always") or CANCELLED
            self._process.answer(request, answer)
            return
        allowing = ["allow_once"]
        if not self._permissions.guarded:
            allowing.append("allow_always")
        allowed = chosen(request, *allowing)
        for name, call in actions.items():
            denial = ending = None
            try:
                denial = await self._decided(name, call)
            except ApprovalDenied as error:
                denial, ending = error.reply, error
            except BaseException:
                # The decision is pending, and the agent must not wait for it.
                self._process.answer(request, CANCELLED)
                raise
            if denial is None and allowed is None:
                denial = NO_SINGLE_PERMISSION
            # The agent waits for the answer, so the tool has not started yet.
            call.arrival = Arrival(change_time())
            # Recorded under the id of its approval.
            await self._begin(call, name)
            if denial is not None:
                await self._deny(request, call, denial)
                if ending is not None:
                    raise ending
                return
        self._process.answer(request, allowed)

    async def _decided(self, name: str, call: AcpCall) -> str | None:
        """Return why an action is denied; None if it is allowed."""
        if len(call.command) > LONGEST_ACTION or call.effect is None:
            return TOO_LONG
        return await self.recorder.permit(name, call.effect, call.command, call.preview)

    async def _deny(
        self, request: Mapping[str, Any], call: AcpCall, denial: str
    ) -> None:
        """Record a denied action, and answer its permission request."""
        self.denials.append(f"{shortened(call.command, LONGEST_COMMAND)}: {denial}")
        await self._end(call, ("denied",), f"{denial}\n")
        answer = chosen(request, "reject_once", "reject_always") or CANCELLED
        self._process.answer(request, answer)

    def _asked_about(self, asked: Any) -> list[AcpCall]:
        """Return the calls of a permission request.

        One that describes no action may be about the running calls.
        """
        call_id = asked["toolCallId"]
        is_described = call_id in self._calls or any(
            at(asked, key) for key in DESCRIBING
        )
        call = self._call(call_id)
        call.update(asked)
        if is_described or not self._permissions.guarded or call.kind != "other":
            return [call]
        others = [other for other in self._calls.values() if not other.closed]
        begun = [other for other in others if other.recorded_as]
        running = [other for other in begun if other.id not in self._asked]
        return [*running, call]

    def _call(self, call_id: str) -> AcpCall:
        return self._calls.setdefault(call_id, AcpCall(call_id, self._workspace))

    async def _begin(self, call: AcpCall, name: str) -> None:
        # The text before a call is a message of its own.
        self.flush()
        call.recorded_as = name
        self.arrival = call.arrival
        await self.start(name, call.kind, call.command)

    async def _record(self, call: AcpCall, facts: tuple[str, ...]) -> None:
        """Record the end of a call, labelled if it was done without asking."""
        # An action that failed was not done.
        is_unasked = call.id not in self._asked and "error" not in facts
        effect = call.effect
        if is_unasked and effect and self._permissions.waits(effect, call.command):
            facts = (*facts, UNASKED)
        await self._end(call, facts, call.output)

    async def _end(self, call: AcpCall, facts: tuple[str, ...], output: str) -> None:
        call.closed = True
        await self.finish(
            call.recorded_as,
            facts,
            output,
            tool=call.kind,
            command=call.command,
            change=call.change,
        )
