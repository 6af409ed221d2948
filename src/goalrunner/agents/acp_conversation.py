"""An agent that speaks the Agent Client Protocol: one process for all rounds."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from typing import Any

from goalrunner.agents.acp_peer import Handler, Refusal
from goalrunner.agents.acp_process import AcpProcess
from goalrunner.agents.acp_turn import AcpTurn, Permissions, Rule
from goalrunner.agents.acp_usage import AcpUsage
from goalrunner.agents.agent_errors import (
    LONGEST_ENDING,
    SHORT_ANSWER,
    denied,
    ends_run,
    not_installed,
    not_signed_in,
)
from goalrunner.agents.chat_history import with_history
from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.agents.external_chat import NEW_SESSION, ExternalConversation
from goalrunner.agents.invocation import invocation
from goalrunner.agents.silence import LifeSigns, watched
from goalrunner.core.agent_ports import Recorder, RoundReply
from goalrunner.core.errors import AgentNotInstalled, GoalError, RecordError, one_line
from goalrunner.core.messages import at, text
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.system.connection import ProcessConnector

CANCELLING = 1.0
"""Seconds that an agent has to end a cancelled turn."""

# The beginning of a turn's only message if the agent's model failed. Claude Code prints
# "API Error: 529 ..." and ends its turn as if it had answered.
_API_ERROR = re.compile(r"\W*api error\b", re.IGNORECASE)

# Characters of a reason that an agent gives for the end of its turn.
_LONGEST_REASON = 60


class AcpConversation(ExternalConversation):
    """An ACP agent as a conversation. Implements the port `Closing` as well.

    `command` is the agent's command with placeholders. If `guarded`, each permission is
    for one action, never for all later ones. `waits` returns whether an action needs
    approval.
    """

    def __init__(
        self,
        agent: ExternalAgent,
        command: Sequence[str],
        connector: ProcessConnector,
        *,
        guarded: bool = True,
        waits: Rule,
    ) -> None:
        super().__init__(agent)
        self._command = tuple(command)
        self._connector = connector
        self._permissions = Permissions(guarded, waits)
        self._stack = AsyncExitStack()
        self._process: AcpProcess | None = None
        self._recorder: Recorder | None = None
        # The id of the open session; empty if there is none.
        self._session = ""
        # The id of the session to resume; empty if there is none.
        self._earlier = ""
        # Whether the agent's session contains the chat.
        self._remembers = True
        self._usage = AcpUsage(agent.preset.acp_reports)
        self._recorded_total: Usage | None = None
        # Denials of the last turn, for the next prompt.
        self._denials: list[str] = []

    def _use_session(self, session: AgentSession) -> None:
        self._earlier = session.id
        self._usage = AcpUsage(self.agent.preset.acp_reports, session.total)

    def paused(self) -> AbstractContextManager[None]:
        if self._process is None:
            return nullcontext()
        return self._process.connection.paused()

    async def close(self) -> None:
        """End the agent's processes; a later round resumes the session."""
        process, recorder = self._process, self._recorder
        self._process = None
        self._earlier = self._session or self._earlier
        self._session = ""
        try:
            with suppress(GoalError, OSError):
                await self._stack.aclose()
        finally:
            if process is not None and recorder is not None:
                with suppress(GoalError, OSError):
                    await process.record(recorder)

    def _forget_session(self) -> None:
        self._session = self._earlier = ""
        self._denials.clear()

    @asynccontextmanager
    async def _turn(self, recorder: Recorder) -> AsyncIterator[None]:
        async with super()._turn(recorder):
            try:
                yield
            except BaseException:
                # The agent's turn must not continue unrecorded.
                await self.close()
                raise

    async def _round(self, prompt: str, recorder: Recorder, *, cut: bool) -> RoundReply:
        process = await self._opened(recorder)
        message = self._with_history("\n\n".join([*self._denials, prompt]), recorder)
        self._denials.clear()
        turn = AcpTurn(
            self.agent,
            self._session,
            process,
            recorder,
            self.messages,
            self._permissions,
        )
        await self._catch_up(process)
        # Processes that the agent starts from now on belong to this turn.
        process.connection.mark()
        signs = LifeSigns(
            written=process.written,
            processor_time=process.connection.processor_time,
            is_waiting=lambda: turn.has_open_call,
        )
        refused = ""
        try:
            async with watched(self.agent.idle_timeout, signs):
                handler = self._counting(turn.handle)
                response = await self._prompt(process, message, handler)
        except (Refusal, ConnectionError) as error:
            refused = str(error)
            return await self._broken_off(process, turn, error)
        finally:
            with suppress(RecordError):
                await turn.close()
            self._denials += turn.denials
            if turn.calls or turn.text.strip() not in refused:
                self._unanswered = ""
        return await self._ended(process, response, turn)

    def _with_history(self, message: str, recorder: Recorder) -> str:
        """Add a message to the chat. Return it, preceded by what the agent forgot."""
        before = self._add_prompt(message, recorder)
        if not self._remembers:
            message = with_history(before, message, by_another=self.follows_another)
        self._remembers = True
        return message

    async def _catch_up(self, process: AcpProcess) -> None:
        """Handle what arrived after the last turn: of that, only usage counts."""

        async def late(message: dict[str, Any]) -> None:
            params = at(message, "params")
            if at(params, "update", "sessionUpdate") == "usage_update":
                self._usage.update(params)
            await process.reject(message)

        # If the agent is gone, the prompt raises the same error and explains it.
        with suppress(ConnectionError):
            await process.catch_up(late)

    def _counting(self, handler: Handler) -> Handler:
        """Return a handler that counts the session's usage before it calls another."""

        async def handle(message: dict[str, Any]) -> None:
            params = at(message, "params")
            if at(params, "sessionId") == self._session:
                self._usage.update(params)
            await handler(message)

        return handle

    async def _broken_off(
        self, process: AcpProcess, turn: AcpTurn, error: Refusal | ConnectionError
    ) -> RoundReply:
        """Return the reply of a turn that an error ended.

        Raise AgentError if the run cannot continue.
        """
        explained = await process.explain(error)
        await turn.close()
        # Some agents print the error as a message too.
        answer = "" if turn.text.strip() in str(error) else turn.text
        has_worked = bool(answer or turn.calls) or not ends_run(explained)
        used = self._usage.end_turn({}, has_worked=has_worked)
        turn.recorder.usage("agent", used)
        if ends_run(explained):
            raise explained from error
        await self.close()
        ending = one_line(str(error) or explained.message, LONGEST_ENDING)
        return RoundReply(answer, "interrupted", 1, failure=explained, ending=ending)

    async def _opened(self, recorder: Recorder) -> AcpProcess:
        """Return the process with an open session. Raise AgentError."""
        process = self._process or await self._start(recorder)
        if self._session:
            return process
        earlier = self._earlier
        self._earlier = ""
        try:
            try:
                session = await process.open_session(earlier)
            except ConnectionError:
                if not earlier:
                    raise
                # Some agents crash on a session that they do not have any more.
                await self.close()
                process = await self._start(recorder)
                session = await process.open_session("")
        except (Refusal, TimeoutError, ConnectionError) as error:
            raise await process.explain(error) from error
        self._session = session.id
        self._remembers = session.is_resumed or not self.messages
        if not session.is_resumed:
            self._usage = AcpUsage(self.agent.preset.acp_reports)
            process.add_note(NEW_SESSION if earlier else "")
        self._record_session(recorder)
        return process

    async def _start(self, recorder: Recorder) -> AcpProcess:
        """Start the process, which ends when `_stack` is closed.

        Raise AgentNotInstalled.
        """
        agent = self.agent
        self._recorder = recorder
        argv = invocation(self._command, agent, recorder.scratch).argv
        output, errors = recorder.scratch(".acp.jsonl"), recorder.scratch(".err")
        started = self._connector.connect(
            argv, cwd=agent.workspace, env=agent.env, errors=errors
        )
        try:
            connection = await self._stack.enter_async_context(started)
        except AgentNotInstalled as error:
            raise not_installed(agent, error.message) from error
        self._process = AcpProcess(agent, connection, output, errors)
        self._stack.push_async_callback(self._process.close)
        return self._process

    async def _prompt(self, process: AcpProcess, prompt: str, handler: Handler) -> Any:
        """Return the response to a prompt.

        If waiting for it is interrupted, cancel the agent's turn.
        """
        content = [{"type": "text", "text": prompt}]
        params = {"sessionId": self._session, "prompt": content}
        try:
            return await process.request("session/prompt", params, handler)
        except (Refusal, ConnectionError):
            raise
        except BaseException:
            # Until the turn has ended, the agent may still change files.
            with suppress(ConnectionError, Refusal, TimeoutError):
                async with asyncio.timeout(CANCELLING):
                    process.notify("session/cancel", {"sessionId": self._session})
                    await process.result(process.reject)
            raise

    async def _ended(
        self, process: AcpProcess, response: Any, turn: AcpTurn
    ) -> RoundReply:
        """Return the reply of a turn that the agent ended.

        Raise AgentNotSignedIn if the agent says that it is signed out, and AgentError
        if the turn failed in a way that ends the run.
        """
        turn.recorder.usage("agent", self._usage.end_turn(response))
        # A resumed process continues the totals, and counts only what is new.
        if self._usage.total != self._recorded_total:
            self._record_session(turn.recorder)
        survivors = await process.connection.sweep(self.agent.preset.helpers)
        answer = turn.text
        is_short = len(answer) <= SHORT_ANSWER
        if not turn.calls and is_short and denied(self.agent, answer):
            raise not_signed_in(self.agent, answer)
        reason = one_line(text(at(response, "stopReason")), _LONGEST_REASON)
        fault = _fault_of(reason, turn)
        if fault:
            return self._interrupted(process, answer, fault, survivors)
        if not turn.calls and _API_ERROR.match(answer):
            # The answer is the message of an error, so the reply has no text.
            return self._interrupted(process, "", answer, survivors)
        # A limit of the agent itself.
        if reason in ("max_turn_requests", "max_tokens"):
            return RoundReply(answer, "interrupted", 1, survivors, ending=reason)
        if reason not in ("end_turn", "cancelled"):
            process.add_note(f"it ended its turn with the reason {reason or '(none)'}")
        return RoundReply(answer, "answered", 1, survivors)

    def _interrupted(
        self, process: AcpProcess, answer: str, fault: str, survivors: tuple[str, ...]
    ) -> RoundReply:
        """Return the reply of a turn with a fault.

        Raise AgentError if the run cannot continue.
        """
        failure = process.failure(fault)
        if ends_run(failure):
            raise failure
        ending = one_line(fault, LONGEST_ENDING)
        return RoundReply(answer, "interrupted", 1, survivors, failure, ending)

    def _record_session(self, recorder: Recorder) -> None:
        self._recorded_total = self._usage.total
        recorder.session(
            AgentSession(
                agent=self.agent.name,
                id=text(self._session),
                total=self._recorded_total,
            )
        )


def _fault_of(reason: str, turn: AcpTurn) -> str:
    """Return why a turn ended without success; empty if it did not.

    `reason` is the agent's stop reason.
    """
    if reason == "refusal":
        return "it refuses to go on"
    if reason == "cancelled" and not turn.denials:
        return "it reports a cancelled turn, but the runner did not cancel it"
    # An agent that reports no calls may have worked, so this is no proof of a failure.
    if not (turn.text or turn.calls or turn.denials):
        return f"it ended its turn without a message ({reason or 'no reason'})"
    return ""
