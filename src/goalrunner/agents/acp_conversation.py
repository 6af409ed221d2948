"""An agent that speaks the Agent Client Protocol: one process for all rounds."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from typing import Any

from goalrunner.agents.acp_process import AcpProcess, Handler, Refusal
from goalrunner.agents.acp_turn import AcpTurn, Rule
from goalrunner.agents.external_agents import ExternalAgent, invocation
from goalrunner.agents.external_chat import (
    LONGEST_ENDING,
    NEW_SESSION,
    SHORT_ANSWER,
    ExternalConversation,
    denied,
    ends_run,
    not_installed,
    not_signed_in,
    with_history,
)
from goalrunner.agents.parser import UsageReported, at, first, items, number, text
from goalrunner.agents.silence import LifeSigns, watched
from goalrunner.agents.turn import usage_delta
from goalrunner.core.agent_ports import Recorder, RoundReply
from goalrunner.core.agent_preset import BudgetName, Scope
from goalrunner.core.errors import AgentNotInstalled, GoalError, RecordError, one_line
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.system.connection import ProcessConnector

CANCELLING = 1.0
"""Seconds that an agent has to end a cancelled turn."""

_API_ERROR = re.compile(r"\W*api error\b", re.IGNORECASE)
"""The beginning of a turn's only message if the agent's model failed."""


class AcpConversation(ExternalConversation):
    """An ACP agent as a conversation. Implements the port `Closing` as well.

    `command` is the agent's command with placeholders. If `guarded`, each permission is for one action, never for all
    later ones. `waits` returns whether an action needs approval.
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
        self._guarded = guarded
        self._waits = waits
        self._stack = AsyncExitStack()
        self._process: AcpProcess | None = None
        self._recorder: Recorder | None = None
        self._session = ""
        """The id of the open session; empty if there is none."""
        self._earlier = ""
        """The id of the session to resume; empty if there is none."""
        self._remembers = True
        """Whether the agent's session contains the chat."""
        self._usage = AcpUsage(agent.preset.acp_reports)
        self._recorded_total: Usage | None = None
        self._denials: list[str] = []
        """Denials of the last turn, for the next prompt."""

    def _continue(self, session: AgentSession) -> None:
        self._earlier = session.id
        self._usage = AcpUsage(self.agent.preset.acp_reports, session.total)

    def paused(self) -> AbstractContextManager[None]:
        return (
            self._process.connection.paused()
            if self._process is not None
            else nullcontext()
        )

    async def close(self) -> None:
        """End the agent's processes; a later round resumes the session."""
        process, recorder = self._process, self._recorder
        self._process = None
        self._session, self._earlier = "", self._session or self._earlier
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
            except BaseException:  # the turn must not continue unrecorded
                await self.close()
                raise

    async def _round(self, prompt: str, recorder: Recorder, *, cut: bool) -> RoundReply:
        process = await self._opened(recorder)
        message = "\n\n".join([*self._denials, prompt])
        self._denials.clear()
        before, sent = self._add_prompt(message, recorder), message
        if not self._remembers:
            sent = with_history(before, message, by_another=self.follows_another)
        self._remembers = True
        turn = AcpTurn(
            self.agent,
            self._session,
            process,
            recorder,
            self.messages,
            self._guarded,
            self._waits,
        )

        async def late(message: dict[str, Any]) -> None:
            if at(message, "params", "update", "sessionUpdate") == "usage_update":
                self._usage.update(at(message, "params"))
            await process.reject(message)

        async def handle(message: dict[str, Any]) -> None:
            if at(message, "params", "sessionId") == self._session:
                self._usage.update(at(message, "params"))
            await turn.handle(message)

        with suppress(ConnectionError):  # the prompt raises it again
            await process.catch_up(
                late
            )  # of messages after the last turn, only usage counts
        process.connection.mark()
        refused = ""
        signs = LifeSigns(
            written=process.written,
            processor_time=process.connection.processor_time,
            is_waiting=lambda: turn.has_open_call,
        )
        try:
            async with watched(self.agent.idle_timeout, signs):
                response = await self._prompt(process, sent, handle)
        except (Refusal, ConnectionError) as error:
            explained = await process.explain(error)
            await turn.close()
            refused = str(error)
            said = (
                "" if turn.text.strip() in refused else turn.text
            )  # some agents print the error as a message too
            has_worked = bool(said or turn.calls) or not ends_run(explained)
            recorder.usage("agent", self._usage.end_turn({}, has_worked=has_worked))
            if ends_run(explained):
                raise explained from error
            await self.close()
            ending = one_line(str(error) or explained.message, LONGEST_ENDING)
            return RoundReply(said, "interrupted", 1, failure=explained, ending=ending)
        finally:
            with suppress(RecordError):
                await turn.close()
            self._denials += turn.denials
            if turn.calls or turn.text.strip() not in refused:
                self._unanswered = ""
        return await self._settled(process, response, turn)

    async def _opened(self, recorder: Recorder) -> AcpProcess:
        """Return the process with an open session. Raise AgentError."""
        process = self._process or await self._start(recorder)
        if self._session:
            return process
        earlier, self._earlier = self._earlier, ""
        try:
            try:
                self._session, resumed = await process.open_session(earlier)
            except ConnectionError:
                if not earlier:
                    raise
                # Some agents crash on a session that they no longer know.
                await self.close()
                process = await self._start(recorder)
                self._session, resumed = await process.open_session("")
        except (Refusal, TimeoutError, ConnectionError) as error:
            raise await process.explain(error) from error
        self._remembers = resumed or not self.messages
        if not resumed:
            self._usage = AcpUsage(self.agent.preset.acp_reports)
            process.add_note(NEW_SESSION if earlier else "")
        self._record_session(recorder)
        return process

    async def _start(self, recorder: Recorder) -> AcpProcess:
        """Start the process, which ends when `_stack` is closed. Raise AgentNotInstalled."""
        agent, self._recorder = self.agent, recorder
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
        """Return the response to a prompt. If waiting for it is interrupted, cancel the agent's turn."""
        params = {
            "sessionId": self._session,
            "prompt": [{"type": "text", "text": prompt}],
        }
        try:
            return await process.request("session/prompt", params, handler)
        except (Refusal, ConnectionError):
            raise
        except BaseException:
            with suppress(ConnectionError, Refusal, TimeoutError):
                async with asyncio.timeout(CANCELLING):
                    process.notify("session/cancel", {"sessionId": self._session})
                    await process.result(process.reject)
            raise

    async def _settled(
        self, process: AcpProcess, response: Any, turn: AcpTurn
    ) -> RoundReply:
        """Return the reply of the ended turn. Raise AgentNotSignedIn if the agent says that it is signed out."""
        turn.recorder.usage("agent", self._usage.end_turn(response))
        if self._usage.total != self._recorded_total:
            self._record_session(turn.recorder)
        left = await process.connection.sweep(self.agent.preset.helpers)
        said, worked, refused = turn.text, bool(turn.calls), bool(turn.denials)
        if not worked and len(said) <= SHORT_ANSWER and denied(self.agent, said):
            raise not_signed_in(self.agent, said)
        reason = one_line(text(at(response, "stopReason")), 60)
        ending = ""
        if reason == "refusal":
            ending = "it refuses to go on"
        elif reason == "cancelled" and not refused:
            ending = "it reports a cancelled turn, but the runner did not cancel it"
        elif said and not worked and _API_ERROR.match(said):
            ending, said = said, ""
        elif not (said or worked or refused):  # it may have worked without reports
            ending = f"it ended its turn without a message ({reason or 'no reason'})"
        if ending:
            failure = process.failure(ending)
            if ends_run(failure):
                raise failure
            return RoundReply(
                said, "interrupted", 1, left, failure, one_line(ending, LONGEST_ENDING)
            )
        if reason in ("max_turn_requests", "max_tokens"):  # a limit of the agent
            return RoundReply(said, "interrupted", 1, left, ending=reason)
        if reason not in ("end_turn", "cancelled"):
            process.add_note(f"it ended its turn with the reason {reason or '(none)'}")
        return RoundReply(said, "answered", 1, left)

    def _record_session(self, recorder: Recorder) -> None:
        self._recorded_total = self._usage.total
        recorder.session(
            AgentSession(
                agent=self.agent.name,
                id=text(self._session),
                total=self._recorded_total,
            )
        )


Tokens = tuple[int, int]
"""Input tokens, including cached and reasoning tokens, and output tokens."""

_METRICS = "openhands.dev/metrics"
_NAMES = (
    ("inputTokens", "input_tokens"),
    ("outputTokens", "output_tokens"),
    ("totalTokens", "total_tokens"),
)


class AcpUsage:
    """Counts the usage of an ACP session. `scopes` says whether reported amounts are of a turn or of the session."""

    def __init__(
        self, scopes: Mapping[BudgetName, Scope], total: Usage | None = None
    ) -> None:
        self.total = total or Usage()
        """The session's usage, as far as the agent reports totals."""
        self._tokens_are_totals = scopes.get("tokens") == "session"
        self._dollars_are_totals = scopes.get("cost_usd") != "turn"
        self._promises_tokens = "tokens" in scopes
        self._tokens: Tokens | None = None
        self._dollars: float | None = None

    def update(self, params: Any) -> None:
        """Count the usage in the parameters of a `session/update`: add amounts of a turn, keep the last total."""
        meta = at(params, "_meta")
        metrics = (
            at(meta, "field_meta", _METRICS)
            or at(meta, _METRICS)
            or at(params, "update", "_meta", _METRICS)
        )
        amount = number(at(metrics, "cost"))
        if at(params, "update", "sessionUpdate") == "usage_update":
            cost = at(params, "update", "cost")
            amount = (
                number(at(cost, "amount")) if at(cost, "currency") == "USD" else None
            )
        if amount is not None:
            self._dollars = amount + (
                0.0 if self._dollars_are_totals else self._dollars or 0.0
            )
        # Qwen Code reports the tokens of one call, OpenHands those of the session.
        tokens = _counted(at(params, "update", "_meta", "usage")) or _counted(metrics)
        if tokens is not None:
            given, made = (0, 0) if self._tokens_are_totals else self._tokens or (0, 0)
            self._tokens = (given + tokens[0], made + tokens[1])

    def end_turn(self, response: Any, *, has_worked: bool = True) -> Usage:
        """Return the usage of the turn that ended with this response. Amounts that were not reported are unknown.

        If nothing was reported of a turn in which no model answered, nothing was used.
        """
        if not has_worked and self._tokens is None and self._dollars is None:
            return Usage()
        tokens, self._tokens = _of_response(response) or self._tokens, None
        dollars, self._dollars = self._dollars, None
        used, cost = Usage(), None
        if tokens is not None:
            report = UsageReported(
                *tokens, cost=0.0, cumulative=self._tokens_are_totals, dollars=False
            )
            kept = {
                "cost_usd": self.total.cost_usd,
                "known_cost_usd": self.total.known_cost_usd,
            }
            used, after = usage_delta(report, self.total)
            self.total = after.model_copy(update=kept)
        if dollars is not None:
            report = UsageReported(
                cost=dollars, cumulative=self._dollars_are_totals, tokens=False
            )
            new, self.total = usage_delta(report, self.total)
            cost = new.cost_usd
        return Usage(
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            # If tokens cost nothing, the agent does not know the price of its model.
            cost_usd=None if used.tokens and not cost else cost,
            calls=1,
            uncounted_calls=int(tokens is None or not self._promises_tokens),
        )


def _of_response(response: Any) -> Tokens | None:
    """Return the tokens in the response to a prompt. Rows per model may include helpers that the total omits."""
    quota = at(response, "_meta", "quota")
    total = _counted(at(response, "usage")) or _counted(at(quota, "token_count"))
    rows = [
        _counted(at(row, "token_count")) or (0, 0)
        for row in items(at(quota, "model_usage"))
    ]
    by_model = (sum(row[0] for row in rows), sum(row[1] for row in rows))
    return by_model if sum(by_model) > sum(total or (0, 0)) else total


def _counted(usage: Any) -> Tokens | None:
    """Return the input and output tokens; None if neither is reported. The rest of a total counts as input."""
    given, made, total = (number(first(usage, *names)) for names in _NAMES)
    if given is None and made is None:
        return None
    return int(max((total or 0) - (made or 0), given or 0)), int(made or 0)
