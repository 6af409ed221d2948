"""One process of an ACP agent: its sessions, their usage, and the errors for its failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goalrunner.agents.external_agents import ExternalAgent, program_of
from goalrunner.agents.external_chat import (
    NOT_STARTED,
    failed,
    first_lines,
    known_failure,
    last_lines,
    not_installed,
    not_signed_in,
)
from goalrunner.agents.jsonrpc import Peer, Refusal
from goalrunner.agents.parser import UsageReported, at, first, items, number, text
from goalrunner.agents.turn import usage_delta
from goalrunner.core import VERSION
from goalrunner.core.agent_ports import AgentRun
from goalrunner.core.agent_preset import BudgetName, Scope
from goalrunner.core.errors import AgentError
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import HIDDEN
from goalrunner.system.child import describe_status
from goalrunner.system.connection import ProcessConnection
from goalrunner.system.launcher import tail_of

PROTOCOL_VERSION = 1
PATIENCE = 120.0
"""Seconds for a response outside of a turn. At its start, an agent may be downloaded or start servers."""
CANCELLED: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}
"""The response to a permission request that is neither allowed nor rejected."""

_AUTH_REQUIRED = -32000
_LONGEST_ID = 1_000
_LARGEST_OWN_CODE = 128
"""Larger exit codes stand for a signal in a shell or sandbox."""


class ProtocolError(Exception):
    """The agent breaks the protocol, or speaks another version of it."""


class AcpProcess:
    """One process of an agent."""

    def __init__(
        self,
        agent: ExternalAgent,
        connection: ProcessConnection,
        peer: Peer,
        output: Path,
        errors: Path,
    ) -> None:
        self.connection = connection
        self.peer = peer
        self._agent = agent
        self._output, self._errors = output, errors
        self._hello: Any = None
        self._notes: dict[str, None] = {}
        self._began = time.monotonic()

    async def open_session(self, earlier: str) -> tuple[str, bool]:
        """Resume the session `earlier`, or open a new one. Return the session's id, and whether it was resumed.

        Raise ProtocolError, Refusal, TimeoutError and ConnectionError.
        """
        if self._hello is None:
            self._hello = await self._initialize()
        can = at(self._hello, "agentCapabilities")
        methods = []
        if isinstance(at(can, "sessionCapabilities", "resume"), dict):
            methods.append("session/resume")
        if at(can, "loadSession") is True:
            methods.append("session/load")
        place: dict[str, Any] = {"cwd": str(self._agent.workspace), "mcpServers": []}
        for method in methods if earlier else ():
            try:
                await self._ask(method, {**place, "sessionId": earlier})
            except (Refusal, TimeoutError):
                continue
            return earlier, True
        try:
            answer = await self._ask("session/new", place)
        except Refusal as refusal:
            login = self._login() if refusal.code == _AUTH_REQUIRED else ""
            if not login:
                raise
            await self._ask("authenticate", {"methodId": login})
            answer = await self._ask("session/new", place)
        name = at(answer, "sessionId")
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_ID:
            raise ProtocolError("it opened a session without a usable id")
        return name, False

    async def _initialize(self) -> Any:
        hello = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
            "clientInfo": {"name": "goal", "title": "goal", "version": VERSION},
        }
        answer = await self._ask("initialize", hello)
        version = at(answer, "protocolVersion")
        if version != PROTOCOL_VERSION:
            raise ProtocolError(f"it speaks version {version} of the protocol, not {PROTOCOL_VERSION}")
        return answer

    def _login(self) -> str:
        """Return a sign-in method whose variables are all set; empty if there is none."""
        for method in items(at(self._hello, "authMethods")):
            names = [text(at(one, "name")) for one in items(at(method, "vars")) if at(one, "optional") is not True]
            if at(method, "type") == "env_var" and names and all(self._agent.env.get(name) for name in names):
                return text(at(method, "id"))
        return ""

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        async with asyncio.timeout(PATIENCE):
            return await self.peer.request(method, params, self.reject)

    async def reject(self, message: dict[str, Any]) -> None:
        """Handle a message outside of a turn: nothing is recorded, and nothing is allowed."""
        match message.get("method"):
            case "session/request_permission":
                self.peer.answer(message, CANCELLED)
            case "initialize":
                raise ProtocolError("it repeats its input, as cat does")
            case "session/update":
                pass
            case _:
                self.peer.refuse(message)

    def add_note(self, note: str) -> None:
        """Add a note to the record of the process, unless it is empty."""
        if note:
            self._notes[note] = None

    def failure(self, message: str) -> AgentError:
        """Return the error for a failure, with the end of stderr."""
        how = "" if self.connection.exit_code is None else self._ending
        return failed(self._agent, message, how, tail_of(self._errors))

    async def explain(self, error: Exception) -> AgentError:
        """Return the error for an exception of `open_session` or of a prompt."""
        if isinstance(error, Refusal) and error.code == _AUTH_REQUIRED:
            return not_signed_in(self._agent, str(error))
        why = str(error) or f"it did not answer within {PATIENCE:g} s"
        if isinstance(error, ConnectionError):
            for _ in range(50):  # the exit code may be known a moment later
                if self.connection.exit_code is not None:
                    why = "" if self._hello is not None else f"it ended ({self._ending}) without an answer"
                    break
                await asyncio.sleep(0.01)
        code = self.connection.exit_code
        if self._hello is not None:
            return self.failure(why)
        return self._not_acp(why) if 0 <= (code or 0) <= _LARGEST_OWN_CODE else self.failure("")

    def _not_acp(self, why: str) -> AgentError:
        """Return the error for a program that does not speak the protocol. A known cause takes precedence."""
        agent, obstacle, code = self._agent, self.connection.obstacle, self.connection.exit_code
        errors = tail_of(self._errors)
        if HIDDEN in obstacle or code in NOT_STARTED:
            return not_installed(agent, obstacle or last_lines(errors))
        if obstacle:
            return AgentError(f"the agent {agent.name} cannot be started: {obstacle}", "goal doctor checks the agent")
        if known := known_failure(agent, why if code is None else "", self._ending, errors):
            return known
        program = program_of(agent.preset.acp)
        name = f"{agent.name} ({Path(program).name})" if program else agent.name
        words = last_lines(errors) or first_lines(tail_of(self._output))
        said = f"; it printed:\n{words}" if words else ""
        hint = 'write the whole command that starts ACP, such as command = ["my-agent", "--acp"], or use = "command"'
        if agent.preset.argv:
            hint = f'write protocol = "command", or update it: {agent.preset.install or "see its manual"}'
        return AgentError(f"the agent {name} does not speak ACP: {why}{said}", hint)

    @property
    def _ending(self) -> str:
        code = self.connection.exit_code
        return "still running" if code is None else describe_status(code)

    def record(self) -> AgentRun:
        """Return the record of the process after its end."""
        duration = time.monotonic() - self._began
        return AgentRun(self._agent.name, self._ending, duration, self._output, self._errors, "; ".join(self._notes))


def chosen(request: Any, *kinds: str) -> dict[str, Any] | None:
    """Return the response that selects the first of `kinds` that the agent offers; None if it offers none of them."""
    options = items(at(request, "params", "options"))
    names = {text(at(option, "kind")): at(option, "optionId") for option in reversed(options)}
    found = next((names[kind] for kind in kinds if isinstance(names.get(kind), str)), None)
    return None if found is None else {"outcome": {"outcome": "selected", "optionId": found}}


Tokens = tuple[int, int]
"""Input tokens, including cached and reasoning tokens, and output tokens."""

_METRICS = "openhands.dev/metrics"
_NAMES = (("inputTokens", "input_tokens"), ("outputTokens", "output_tokens"), ("totalTokens", "total_tokens"))


class AcpUsage:
    """Counts the usage of an ACP session. `scopes` says whether reported amounts are of a turn or of the session."""

    def __init__(self, scopes: Mapping[BudgetName, Scope], total: Usage | None = None) -> None:
        known = total or Usage()
        self.total = known if known.cost_usd is not None else known.model_copy(update={"cost_usd": 0.0})
        """The session's usage, as far as the agent reports totals."""
        self._cumulative_tokens = scopes.get("tokens") == "session"
        self._cumulative_dollars = scopes.get("cost_usd") != "turn"
        self._promises_tokens = "tokens" in scopes
        self._tokens: Tokens | None = None
        self._dollars: float | None = None

    def update(self, params: Any) -> None:
        """Count the usage in the parameters of a `session/update`: add amounts of a turn, keep the last total."""
        meta = at(params, "_meta")
        metrics = at(meta, "field_meta", _METRICS) or at(meta, _METRICS) or at(params, "update", "_meta", _METRICS)
        amount = number(at(metrics, "cost"))
        if at(params, "update", "sessionUpdate") == "usage_update":
            cost = at(params, "update", "cost")
            amount = number(at(cost, "amount")) if at(cost, "currency") == "USD" else None
        if amount is not None:
            self._dollars = amount + (0.0 if self._cumulative_dollars else self._dollars or 0.0)
        # Qwen Code reports the tokens of one call, OpenHands those of the session.
        tokens = _counted(at(params, "update", "_meta", "usage")) or _counted(metrics)
        if tokens is not None:
            given, made = (0, 0) if self._cumulative_tokens else self._tokens or (0, 0)
            self._tokens = (given + tokens[0], made + tokens[1])

    def end_turn(self, response: Any) -> Usage:
        """Return the usage of the turn that ended with this response. Amounts that were not reported are unknown."""
        tokens, self._tokens = _of_response(response) or self._tokens, None
        dollars, self._dollars = self._dollars, None
        used, cost = Usage(), None
        if tokens is not None:
            report = UsageReported(*tokens, cost=0.0, cumulative=self._cumulative_tokens, dollars=False)
            kept = {"cost_usd": self.total.cost_usd, "known_cost_usd": self.total.known_cost_usd}
            used, after = usage_delta(report, self.total)
            self.total = after.model_copy(update=kept)
        if dollars is not None:
            report = UsageReported(cost=dollars, cumulative=self._cumulative_dollars, tokens=False)
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
    rows = [_counted(at(row, "token_count")) or (0, 0) for row in items(at(quota, "model_usage"))]
    by_model = (sum(row[0] for row in rows), sum(row[1] for row in rows))
    return by_model if sum(by_model) > sum(total or (0, 0)) else total


def _counted(usage: Any) -> Tokens | None:
    """Return the input and output tokens; None if neither is reported. The rest of a total counts as input."""
    given, made, total = (number(first(usage, *names)) for names in _NAMES)
    if given is None and made is None:
        return None
    return int(max((total or 0) - (made or 0), given or 0)), int(made or 0)
