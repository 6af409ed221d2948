"""Opening or loading a session of an ACP agent, and what its stop reasons mean."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from goalrunner import __version__
from goalrunner.agents.acp_calls import CANCELLED, at, items, one_line, text
from goalrunner.agents.failure import NOT_STARTED, first_lines, last_lines, not_installed, recognised
from goalrunner.agents.invocation import ExternalAgent, program_of
from goalrunner.agents.jsonrpc import Hear, Peer, Refusal
from goalrunner.core.errors import AgentError, AgentSpeaksOtherwise

PROTOCOL_VERSION = 1
AUTH_REQUIRED = -32000
_NOT_UNDERSTOOD = (-32700, -32601, -32602)
"""No JSON, no such method, other parameters: what servers of other protocols say."""
LONGEST_ID = 1_000
PATIENCE = 120.0
"""Seconds that an agent has to answer before it works: it may have to be fetched, or to start servers of its own."""


class NotAnAgent(Exception):
    """What was started does not keep to the protocol, or speaks another version of it; the text says how that shows."""


class Speechless(NotAnAgent):
    """It does not speak the protocol at all."""


@dataclass(frozen=True)
class Opened:
    """A session. `known`: it is an earlier one, and the agent remembers it."""

    id: str
    known: bool


class Greeting:
    """What an agent said of itself, and the sessions that it can open. `env` is its environment."""

    def __init__(self, peer: Peer, answer: Any, env: Mapping[str, str], patience: float) -> None:
        self._peer = peer
        self._env = env
        self._patience = patience
        self._can = at(answer, "agentCapabilities")
        self._logins = items(at(answer, "authMethods"))

    async def open(self, workspace: Path, earlier: str) -> Opened:
        """The earlier session where it has a name and the agent can; else a new one. Raises Refusal, ConnectionError."""
        place: dict[str, Any] = {"cwd": str(workspace), "mcpServers": []}
        for method in self._ways_back() if earlier else ():
            try:
                await self._ask(method, {**place, "sessionId": earlier})
            except (Refusal, TimeoutError):
                continue
            return Opened(earlier, known=True)
        answer = await self._new(place)
        name = at(answer, "sessionId")
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_ID:
            raise NotAnAgent("it opened a session without an id that can be used")
        return Opened(name, known=False)

    def _ways_back(self) -> Sequence[str]:
        found = []
        if isinstance(at(self._can, "sessionCapabilities", "resume"), dict):
            found.append("session/resume")
        if at(self._can, "loadSession") is True:
            found.append("session/load")
        return found

    async def _new(self, place: Mapping[str, Any]) -> Any:
        try:
            return await self._ask("session/new", place)
        except Refusal as refusal:
            login = self._login() if refusal.code == AUTH_REQUIRED else ""
            if not login:
                raise
        await self._ask("authenticate", {"methodId": login})
        return await self._ask("session/new", place)

    def _login(self) -> str:
        """A way to sign in for which all is there: the variables that hold a key."""
        for method in self._logins:
            names = [text(at(one, "name")) for one in items(at(method, "vars")) if at(one, "optional") is not True]
            if at(method, "type") == "env_var" and names and all(self._env.get(name) for name in names):
                return text(at(method, "id"))
        return ""

    async def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        async with asyncio.timeout(self._patience):
            return await self._peer.ask(method, params, deaf(self._peer))


async def greet(peer: Peer, env: Mapping[str, str], patience: float = PATIENCE) -> Greeting:
    """Say hello. Raises NotAnAgent, Refusal, ConnectionError."""
    not_heard = deaf(peer)

    async def hear(message: dict[str, Any]) -> None:
        if message.get("method") == "initialize":
            raise Speechless("it repeats what it is told, as cat does")
        await not_heard(message)

    offered = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    hello = {
        "protocolVersion": PROTOCOL_VERSION,
        "clientCapabilities": offered,
        "clientInfo": {"name": "goal", "title": "goal", "version": __version__},
    }
    try:
        async with asyncio.timeout(patience):
            answer = await peer.ask("initialize", hello, hear)
    except TimeoutError:
        raise Speechless(f"it did not answer within {patience:g} s") from None
    except Refusal as refusal:
        if refusal.code in _NOT_UNDERSTOOD:
            raise Speechless(f"it does not understand the first request of the protocol ({refusal})") from None
        raise
    version = at(answer, "protocolVersion")
    if not isinstance(version, int):
        raise Speechless("its first answer is one of another protocol, if of any")
    if version != PROTOCOL_VERSION:
        raise NotAnAgent(f"it speaks version {version} of the protocol, not {PROTOCOL_VERSION}")
    return Greeting(peer, answer, env, patience)


def deaf(peer: Peer) -> Hear:
    """For what comes outside of a turn: nothing is recorded, and nothing is allowed."""

    async def hear(message: Mapping[str, Any]) -> None:
        if message.get("method") == "session/request_permission":
            peer.answer(message, CANCELLED)
        elif message.get("method") != "session/update":
            peer.refuse(message)

    return hear


_HEAD = 4_000
"""Bytes at the beginning of its output that are looked at."""


def speechless(agent: ExternalAgent, why: str, exit_code: int | None, output: Path, errors: str) -> AgentError:
    """It never answered our first request as an agent does. `why`: how that shows; `errors` are its last words on stderr.

    Its key, its login and whatever its preset has a hint for come first: a program that ends at once may well have said so.
    """
    if exit_code in NOT_STARTED:
        return not_installed(agent, last_lines(errors))
    known = recognised(agent, "", f"exit {exit_code}", errors) if exit_code else None
    if known is not None:
        return known
    words = last_lines(errors) or first_lines(_head_of(output))
    said = f"; it printed:\n{words}" if words else ""
    return AgentSpeaksOtherwise(f"the agent {_named(agent)} does not speak ACP: {why}{said}", _hint(agent))


def _hint(agent: ExternalAgent) -> str:
    words = 'name all words with which it speaks ACP, such as command = ["my-agent", "--acp"]'
    if agent.preset.argv:
        update = f"update it: {agent.preset.install}" if agent.preset.install else words
        return f'write protocol = "command", or {update}'
    return f'{words}; a program that takes its prompt on stdin is use = "command"'


def _named(agent: ExternalAgent) -> str:
    program = program_of(agent.preset.acp)
    return f"{agent.name} ({Path(program).name})" if program else agent.name


def _head_of(path: Path) -> str:
    """What it printed on stdout that was no message."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).decode("utf-8", "replace").replace("\0", "")
    except OSError:
        return ""
    return "\n".join(line for line in head.splitlines() if not line.startswith("{"))


_SAID = {
    "refusal": "it refuses to go on",
    "cancelled": "it says that its turn was cancelled, and nobody here did that",
}

_API_ERROR = re.compile(r"\W*api error\b", re.IGNORECASE)
"""How an agent begins its only message that tells a failure of its model's as if it were an answer."""


def failure_of(response: Any, *, said: str, worked: bool, denied: bool) -> str:
    """Why a turn is no answer, in words; empty where it is one. After a denial an agent may well give up its turn."""
    reason = _reason(response)
    if reason in _SAID and not (reason == "cancelled" and denied):
        return _SAID[reason]
    if said and not worked and _API_ERROR.match(said):
        return said
    if not (said or worked or denied):
        return f"it ended its turn without a word ({reason})" if reason else "it ended its turn without a word"
    return ""


def note_of(response: Any) -> str:
    """What people must be told of the end of a turn that is an answer; empty for an ordinary one."""
    match _reason(response):
        case "end_turn" | "cancelled":
            return ""
        case "max_tokens":
            return "its last answer was cut at the limit of its tokens"
        case "max_turn_requests":
            return "its turn was cut at its own limit of model calls"
        case "":
            return "it gave no reason for the end of its turn"
        case other:
            return f"it ended its turn for a reason that is not known here: {other}"


def ending_of(response: Any) -> Literal["answered", "max_steps"]:
    """In the runner's own words. What was cut in the middle has more to do."""
    return "max_steps" if _reason(response) in ("max_turn_requests", "max_tokens") else "answered"


def _reason(response: Any) -> str:
    return one_line(text(at(response, "stopReason")), 60)
