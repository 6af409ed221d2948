"""One turn of an ACP agent: its tool calls, its permission requests, and their record."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from goalrunner.agents.acp_process import CANCELLED, AcpProcess
from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.agents.file_tools import unified
from goalrunner.agents.parser import (
    at,
    block_text,
    changed_lines,
    exit_code,
    first,
    items,
    text,
)
from goalrunner.agents.turn import (
    LONGEST_CALL_ID,
    LONGEST_COMMAND,
    LONGEST_MESSAGE,
    Arrival,
    Turn,
)
from goalrunner.core.agent_ports import Recorder
from goalrunner.core.errors import ApprovalDenied, shortened
from goalrunner.core.observation import UNASKED
from goalrunner.system.change_clock import change_time

NO_SINGLE_PERMISSION = "The agent offers no way to allow this once, and each action needs its own permission here."
TOO_LONG = "It is too long to be reviewed. Put it into a file, in parts, and run that."
LONGEST_ACTION = 100_000
"""Characters of a command that can be approved."""

_FREE, _WRITING = ("read", "search", "think"), ("edit", "delete", "move")
_KINDS = (*_FREE, *_WRITING, "execute", "fetch", "switch_mode", "other")
_DONE, _FAILED = "completed", "failed"
_FIELDS = ("kind", "status", "title", "content", "locations", "rawInput", "rawOutput")
_DESCRIBING = ("content", "locations", "rawInput")
"""Keys that describe an action. A permission request of OpenHands has none of them, and an id of no known call."""
_EXIT_CODES = (
    *("exit_code", "exitCode", "exit_status", "exit"),
    *("metadata.exit", "metadata.exit_code", "metadata.exitCode"),
)
_OUTPUTS = ("formatted_output", "aggregated_output", "output", "text", "error")

Rule = Callable[[Literal["shell", "write"], str], bool]
"""Returns whether an action, given by its kind and its command, needs a decision."""


class AcpCall:
    """A tool call, as far as the agent has described it. Paths are relative to `workspace`."""

    def __init__(self, call_id: str, workspace: Path) -> None:
        self.id = call_id
        self.recorded_as = ""
        """The id of the call in the log; empty if it is not recorded."""
        self.closed = False
        self.arrival: Arrival | None = None
        """Of its first report, or of the answer that allowed it; None if it had ended before."""
        self._workspace = workspace
        self._known: dict[str, Any] = {}

    def update(self, update: Any) -> None:
        """Add the fields of a `tool_call`, a `tool_call_update`, or the call of a permission request."""
        self._known.update(
            {name: update[name] for name in _FIELDS if at(update, name) is not None}
        )

    @property
    def kind(self) -> str:
        """One of the protocol's kinds; "other" for anything else."""
        kind = self._known.get("kind")
        return kind if isinstance(kind, str) and kind in _KINDS else "other"

    @property
    def status(self) -> str:
        """The status that the agent reports: "pending", "in_progress", "completed", "failed" or another."""
        return text(self._known.get("status")) or "pending"

    @property
    def effect(self) -> Literal["shell", "write"] | None:
        """The permission that the call needs. Unknown kinds, and reads with a command line, count as commands."""
        if self.kind in _FREE:
            return "shell" if self._command_line() else None
        return "write" if self.kind in _WRITING else "shell"

    @property
    def command(self) -> str:
        """The command line or the paths, or else the title."""
        if self.kind == "fetch":  # approval rules treat it like a program of that name
            return f"fetch {self._title()}"
        said = (
            self._title() if self.effect == "shell" else self._paths() or self._title()
        )
        return said or self._paths() or self.kind

    @property
    def facts(self) -> tuple[str, ...]:
        """How the call ended, as the agent reports it."""
        if self.status not in (_DONE, _FAILED):
            return ("interrupted",)
        raw = self._known.get("rawOutput")
        code = exit_code(first(raw, *_EXIT_CODES))
        if code is not None:
            return (f"exit {code}",)
        return ("error",) if self.status == _FAILED else ("completed",)

    @property
    def output(self) -> str:
        """Its content, or else its raw output."""
        shown = "\n".join(
            filter(None, map(self._block, items(self._known.get("content"))))
        )
        if shown:
            return shown
        raw = self._known.get("rawOutput")
        said = next(filter(None, (text(at(raw, name)) for name in _OUTPUTS)), "")
        return (
            said or text(at(raw, "stdout")) + text(at(raw, "stderr")) or block_text(raw)
        )

    @property
    def preview(self) -> str:
        """The diff of a write, truncated."""
        diff = "".join(map(self._block, self._diffs()))
        return shortened(diff, LONGEST_MESSAGE) if self.effect == "write" else ""

    @property
    def change(self) -> str:
        """How many lines a write adds and removes: "+4 −1"; empty if that is not reported."""
        return changed_lines(
            [
                (text(at(one, "oldText")), text(at(one, "newText")))
                for one in self._diffs()
            ]
        )

    @property
    def action(self) -> str:
        """An id of the action that stays the same in a new process of the agent, unlike the agent's own ids."""
        digest = hashlib.sha256(
            "\0".join((str(self.effect), self.command, self.preview)).encode()
        ).hexdigest()
        return f"{self.effect}-{digest[:16]}"

    def _title(self) -> str:
        given = self._command_line() or text(at(self._known.get("rawInput"), "url"))
        if given.strip():
            return given
        title = text(self._known.get("title")).strip()
        return (
            title.strip("`").strip()
            if title.startswith("`") and title.endswith("`")
            else title
        )

    def _command_line(self) -> str:
        command = first(self._known.get("rawInput"), "command", "cmd")
        if isinstance(command, list) and all(isinstance(word, str) for word in command):
            command = shlex.join(command)
        return text(command) if text(command).strip() else ""

    def _paths(self) -> str:
        named = [
            at(one, "path")
            for one in (*items(self._known.get("locations")), *self._diffs())
        ]
        named += [
            at(self._known.get("rawInput"), name)
            for name in ("file_path", "path", "filePath")
        ]
        return ", ".join(
            dict.fromkeys(self._relative(path) for path in map(text, named) if path)
        )

    def _relative(self, path: str) -> str:
        inside = os.path.normpath(path).startswith(f"{self._workspace}{os.sep}")
        return os.path.relpath(path, self._workspace) if inside else path

    def _diffs(self) -> list[Any]:
        return [
            one
            for one in items(self._known.get("content"))
            if at(one, "type") == "diff"
        ]

    def _block(self, one: Any) -> str:
        if at(one, "type") == "diff":
            old, new = text(at(one, "oldText")), text(at(one, "newText"))
            return unified(old, new, self._relative(text(at(one, "path")))).text
        return (
            text(first(one, "content.text", "content.resource.text"))
            if at(one, "type") == "content"
            else ""
        )


def chosen(request: Any, *kinds: str) -> dict[str, Any] | None:
    """Return the response that selects the first of `kinds` that the agent offers; None if it offers none of them."""
    options = items(at(request, "params", "options"))
    names = {
        text(at(option, "kind")): at(option, "optionId") for option in reversed(options)
    }
    found = next(
        (names[kind] for kind in kinds if isinstance(names.get(kind), str)), None
    )
    return (
        None
        if found is None
        else {"outcome": {"outcome": "selected", "optionId": found}}
    )


class AcpTurn(Turn):
    """Records the messages during a prompt. `denials` go into the next prompt: a permission response has no text."""

    def __init__(
        self,
        agent: ExternalAgent,
        session: str,
        process: AcpProcess,
        recorder: Recorder,
        messages: list[dict[str, Any]],
        guarded: bool,
        waits: Rule,
    ) -> None:
        super().__init__(agent.name, recorder, messages)
        self.denials: list[str] = []
        self._workspace = agent.workspace
        self._session = session
        self._process = process
        self._guarded = guarded
        self._waits = waits
        self._asked: set[str] = set()
        self._known: dict[str, AcpCall] = {}

    async def handle(self, message: Mapping[str, Any]) -> None:
        """Handle one request or notification. Raise ApprovalPending and ApprovalDenied."""
        method = message.get("method")
        ours = at(message, "params", "sessionId") == self._session
        if method == "session/update" and ours:
            await self._update(at(message, "params", "update"))
        elif method == "session/request_permission":
            if ours and isinstance(
                at(message, "params", "toolCall", "toolCallId"), str
            ):
                await self._permission(message)
            else:
                self._process.answer(message, CANCELLED)
        elif method != "session/update":
            self._process.refuse(message)

    @property
    def has_open_call(self) -> bool:
        """Whether a call has not ended. It may be announced only, or wait for a permission."""
        return any(not call.closed for call in self._known.values())

    async def close(self) -> None:
        """Record the calls that have not ended as interrupted."""
        self.flush()
        for call in self._known.values():
            if call.recorded_as and not call.closed:
                await self._record(call, ("interrupted",))

    async def _update(self, update: Any) -> None:
        kind, name = at(update, "sessionUpdate"), at(update, "toolCallId")
        if kind == "agent_message_chunk":
            self.say(text(at(update, "content", "text")))
        elif kind in ("tool_call", "tool_call_update") and isinstance(name, str):
            is_new, call = name not in self._known, self._call(name)
            if call.closed:
                return
            call.update(update)
            if is_new and call.status not in (_DONE, _FAILED):
                call.arrival = Arrival(self._process.connection.silent_at)
            if call.status in ("in_progress", _DONE, _FAILED) and not call.recorded_as:
                await self._begin(call, text(name)[:LONGEST_CALL_ID])
            if call.status in (_DONE, _FAILED):
                await self._record(call, call.facts)

    async def _permission(self, request: Mapping[str, Any]) -> None:
        calls = self._asked_about(at(request, "params", "toolCall"))
        self._asked.update(call.id for call in calls)
        actions = {call.action: call for call in calls if call.effect is not None}
        allowing = ("allow_once",) if self._guarded else ("allow_once", "allow_always")
        answer = (
            None
            if actions
            else chosen(request, "allow_once", "allow_always") or CANCELLED
        )
        ending: ApprovalDenied | None = None
        for name, call in actions.items():
            answer = chosen(request, *allowing)
            denial: str | None = TOO_LONG
            try:
                if len(call.command) <= LONGEST_ACTION and call.effect is not None:
                    denial = await self.recorder.permit(
                        name, call.effect, call.command, call.preview
                    )
                    denial = (
                        denial if denial is not None or answer else NO_SINGLE_PERMISSION
                    )
            except ApprovalDenied as error:
                denial, ending = error.reply, error
            except (
                BaseException
            ):  # the decision is pending, and the agent must not wait for it
                self._process.answer(request, CANCELLED)
                raise
            call.arrival = Arrival(change_time())  # the agent waits for the answer
            await self._begin(call, name)  # the id of its approval
            if denial is not None:
                self.denials.append(
                    f"{shortened(call.command, LONGEST_COMMAND)}: {denial}"
                )
                await self._end(call, ("denied",), f"{denial}\n")
                answer = chosen(request, "reject_once", "reject_always") or CANCELLED
                break
        self._process.answer(request, answer)
        if ending is not None:
            raise ending

    def _asked_about(self, asked: Any) -> list[AcpCall]:
        """Return the calls of a permission request. One that describes no action may be about the running calls."""
        name = asked["toolCallId"]
        describes = name in self._known or any(at(asked, key) for key in _DESCRIBING)
        call = self._call(name)
        call.update(asked)
        if describes or not self._guarded or call.kind != "other":
            return [call]
        running = [
            one for one in self._known.values() if one.recorded_as and not one.closed
        ]
        return [*(one for one in running if one.id not in self._asked), call]

    def _call(self, name: str) -> AcpCall:
        return self._known.setdefault(name, AcpCall(name, self._workspace))

    async def _begin(self, call: AcpCall, name: str) -> None:
        self.flush()
        call.recorded_as = name
        self.arrival = call.arrival
        await self.start(name, call.kind, call.command)

    async def _record(self, call: AcpCall, facts: tuple[str, ...]) -> None:
        # Label an action that needed a decision and was done without asking. A failed action was not done.
        silent = (
            call.id not in self._asked
            and call.effect is not None
            and "error" not in facts
        )
        if silent and call.effect and self._waits(call.effect, call.command):
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
