"""Opening: how a conversation with an agent begins, or is taken up again. Owns the handshake; prompts nobody.

`session/resume` and `session/load` are best effort. An agent may offer neither, or fail at it; then its memory begins
afresh. What it replays of an old session is not heard: all of it is in the log already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner import __version__
from goalrunner.agents.acp.peer import Hear, Peer, Refusal
from goalrunner.agents.acp.permission import CANCELLED
from goalrunner.agents.acp.reading import at, items, text

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
