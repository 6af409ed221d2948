"""One round of an external agent against a scripted server."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from goalrunner.agents.acp_conversation import AcpConversation
from goalrunner.agents.command import CommandConversation
from goalrunner.agents.invocation import ExternalAgent, pinned
from goalrunner.app.sandbox_check import Box, Check
from goalrunner.core.agent_ports import AgentRun, Recorded, RoundReply, ToolResult
from goalrunner.core.agent_preset import Preset, Protocol
from goalrunner.core.errors import AgentError, AgentNotInstalled, AgentSpeaksOtherwise, GoalError
from goalrunner.core.events import Account
from goalrunner.core.observation import Observation
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.ports import Message
from goalrunner.rehearsal import Pointed, Rehearsal, pointed, run, say
from goalrunner.system.connection import ProcessConnector
from goalrunner.system.environment import child_environment
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.system.sandbox import JailedConnector, JailedLauncher
from goalrunner.system.sandbox_view import Cell


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


PATIENCE = 120.0
"""Seconds for the round; the slowest agents take ten."""

_NAME = "a round"
_KEY = "goal-doctor-rehearsal"
_FILE, _WORDS, _ANSWER = "goal-doctor.txt", "it works", "The file is written."
_PROMPT = f"Write the words '{_WORDS}' into the file {_FILE}."
_THEIRS = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")


_WALLS = 'fit it into the sandbox (home = [...] of its preset, folders in PATH), or write [workspace] sandbox = "none"'

UNTRIED = Check(_NAME, "note", "not tried: it cannot be pointed at a scripted server")


@dataclass(frozen=True)
class Subject:
    """Who is tried. `env` is what preset and goal add to the environment."""

    name: str
    preset: Preset
    env: Mapping[str, str]
    protocol: Protocol = "command"
    folder: Path = Path()
    """The goal's workspace, from which no agent is started."""

    @property
    def command(self) -> tuple[str, ...]:
        """What is started."""
        return self.preset.acp if self.protocol == "acp" else self.preset.argv

    def promises(self, kind: str) -> bool:
        """Whether this is to be found in its output: by the preset's rules, or as the protocol has it."""
        if self.protocol == "acp":
            return kind == "session" or (kind == "usage" and "tokens" in self.preset.acp_reports)
        return any(rule.kind == kind for rule in self.preset.rules)


def trial_check(subject: Subject, environ: Mapping[str, str], box: Box | None = None) -> Check:
    """What came of the round, in `box` where there is one; a note where the agent cannot be pointed at a server."""
    if not (subject.preset.wire and subject.command):
        return UNTRIED
    found, asked = asyncio.run(_tried(subject, environ, box))
    if box is not None and found.state == "bad" and asyncio.run(_tried(subject, environ, None))[0].state == "good":
        return Check(_NAME, "bad", f"{found.said}; outside of the sandbox it works", found.remedy or _WALLS)
    if subject.protocol == "acp" and found.state == "bad" and not (asked or found.remedy):
        # A preset says how its command is pointed at a server; what speaks ACP may take another way.
        return Check(_NAME, "note", f"{found.said} (it may not have taken the server's address)")
    return found


async def _tried(subject: Subject, environ: Mapping[str, str], box: Box | None) -> tuple[Check, bool]:
    """What came of it, and whether the server was ever asked."""
    server = Rehearsal([run(f"printf '%s' '{_WORDS}' > {_FILE}"), say(_ANSWER)])
    found = await _round(subject, environ, box, server)
    return found, bool(server.requests)


async def _round(subject: Subject, environ: Mapping[str, str], box: Box | None, server: Rehearsal) -> Check:
    launcher = ProcessLauncher()
    where = f"in the sandbox ({box.name}), against a scripted server" if box else "against a scripted server"
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="goal-doctor-", ignore_cleanup_errors=True) as made:
        rooms = [Path(made, name) for name in ("workspace", "home", "notes")]
        workspace, home, notes = (room.resolve() for room in rooms)
        for room in rooms:
            room.mkdir()
        notebook = Notebook(notes)
        try:
            with server:
                point = pointed(subject.preset, server)
                if point is None:
                    return UNTRIED
                agent = _agent(subject, environ, point, workspace, None if box else home)
                cell = box.cell(home, workspace) if box else None
                _settle(cell.within.home[1] if cell and cell.within.home else home, point)
                async with _conversation(subject, agent, launcher, cell) as conversation:
                    reply = await asyncio.wait_for(conversation.send(_PROMPT, notebook), PATIENCE)
        except TimeoutError:
            return Check(_NAME, "bad", f"{where} it did not end within {PATIENCE:g} s")
        except AgentError as error:
            certain = isinstance(error, AgentNotInstalled | AgentSpeaksOtherwise)
            known = error.hint if certain or error.hint in subject.preset.hints.values() else ""
            return Check(_NAME, "bad", f"{where} it failed: {error.message}", known)
        except GoalError as error:
            return Check(_NAME, "bad", f"it could not be tried: {error.message}", error.hint)
        finally:
            launcher.close()
        return _judged(subject, reply, notebook, workspace, where, time.monotonic() - began)


def _settle(home: Path, point: Pointed) -> None:
    """Write what the agent is to find in its home."""
    for name, text in point.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)


def _agent(
    subject: Subject, environ: Mapping[str, str], point: Pointed, workspace: Path, home: Path | None
) -> ExternalAgent:
    """The agent, pointed at the server. Without a `home` the user's own stands in its place, as a jail shows it."""
    preset, env = subject.preset, child_environment(environ)
    if home is not None:
        cache = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or "/", ".cache"))
        env = {name: value for name, value in env.items() if name not in _THEIRS}
        env |= {"HOME": str(home), "XDG_CACHE_HOME": cache}
    env |= {**dict.fromkeys(preset.keys, _KEY), **subject.env, **point.env}
    preset = pinned(preset, env, subject.folder)
    return ExternalAgent(subject.name, preset, workspace, env, args=point.args)


@asynccontextmanager
async def _conversation(
    subject: Subject, agent: ExternalAgent, launcher: ProcessLauncher, cell: Cell | None
) -> AsyncIterator[CommandConversation | AcpConversation]:
    if subject.protocol == "command":
        yield CommandConversation(agent, JailedLauncher(launcher, cell) if cell else launcher)
        return
    connector = ProcessConnector(launcher.grace, guardian=launcher.guardian)
    jailed = JailedConnector(connector, cell) if cell else connector
    conversation = AcpConversation(agent, agent.preset.acp, jailed, guarded=False)
    try:
        yield conversation
    finally:
        await conversation.close()


def _judged(
    subject: Subject, reply: RoundReply, notebook: Notebook, workspace: Path, where: str, seconds: float
) -> Check:
    """What must be there: the work itself, and what the preset's rules promise to find in the output."""
    file = workspace / _FILE
    missing = [
        what
        for what, is_there in (
            ("the command that it was told to run had no effect", file.is_file() and file.read_text() == _WORDS),
            ("its answer was not found in its output", _ANSWER in reply.text),
            ("no tool result was found in its output", notebook.results or not subject.promises("result")),
            ("no session was found in its output", notebook.sessions or not subject.promises("session")),
            ("no tokens were found in its output", notebook.spent.tokens or not subject.promises("usage")),
        )
        if not is_there
    ]
    if missing:
        said = f"{where} it ended, but {'; '.join(missing)}"
        return Check(
            _NAME, "bad", said, "another version may print other things: mend the rules in [agents.NAME], or report it"
        )
    return Check(_NAME, "good", f"{where}, in {seconds:.1f} s: {_found(subject, notebook.spent)}")


def _found(subject: Subject, usage: Usage) -> str:
    what = ["command run", "answer understood"]
    if subject.promises("session"):
        what.append("session named")
    if subject.promises("usage"):
        what.append(f"{usage.tokens:,} tokens reported")
    return ", ".join(what)
