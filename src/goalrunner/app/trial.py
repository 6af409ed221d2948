"""One real round of an agent in a temporary folder."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from goalrunner.app.agents import find_program
from goalrunner.app.external_agent import resolve_agent
from goalrunner.app.run_options import RunOptions
from goalrunner.app.sandbox_check import Check
from goalrunner.app.session import arun
from goalrunner.core.agent_preset import Preset, Protocol
from goalrunner.core.errors import GoalError
from goalrunner.core.events import Record, SessionOpened
from goalrunner.core.goal import AgentConfig, Goal, ValidatorSpec, WorkspaceConfig
from goalrunner.core.outcome import GoalOutcome, GoalStatus, Usage

_NAME = "round"
_FILE, _TEXT = "goal-doctor.txt", "it works"
_TIMEOUT = 300.0
_OUTDATED = "another version of the agent may print other things: check its preset, or report this"
_IN_SANDBOX = 'see what the sandbox hides (home = [...] of the preset, folders in PATH), or write sandbox = "none"'


class _Sessions:
    """An observer that remembers whether the agent named a session."""

    def __init__(self) -> None:
        self.named = False

    def on_record(self, record: Record) -> None:
        """Look for the session."""
        self.named = self.named or isinstance(record.event, SessionOpened)


def try_round(goal: Goal, environ: dict[str, str]) -> tuple[Check, Usage]:
    """Let the goal's agent create a file in a temporary folder, as `goal run` does. Return the result and the usage.

    The folder is kept if the round fails.
    """
    sessions = _Sessions()
    folder = Path(tempfile.mkdtemp(prefix="goal-doctor-")).resolve()
    workspace = folder / "workspace"
    workspace.mkdir()
    try:
        agent = resolve_agent(goal, environ)
        options = RunOptions(environ=environ, home=folder / "home", observers=(sessions,))
        outcome = asyncio.run(arun(_trial_goal(goal, workspace, environ), options))
    except GoalError as error:
        shutil.rmtree(folder, ignore_errors=True)
        return Check(_NAME, "bad", f"the round could not be tried: {error.message}", error.hint), Usage()
    used = sum(outcome.usage.values(), Usage())
    if outcome.status is not GoalStatus.COMPLETE:
        return _failed(outcome, sandboxed=goal.workspace.sandbox != "none"), used
    shutil.rmtree(folder, ignore_errors=True)
    missing = _missing(agent.preset, agent.protocol, used, session=sessions.named) if agent else []
    if missing:
        return Check(_NAME, "bad", f"the file was created, but the agent {' and '.join(missing)}", _OUTDATED), used
    return Check(_NAME, "good", f"the agent created a file in {outcome.duration:.1f} s"), used


def _trial_goal(goal: Goal, workspace: Path, environ: dict[str, str]) -> Goal:
    config = goal.workspace
    return Goal(
        objective=f"Create the file {_FILE} with the text: {_TEXT}",
        validators=(ValidatorSpec(name="file", run=f'test "$(cat {_FILE})" = "{_TEXT}"'),),
        agent=_with_absolute_program(goal, environ),
        agents=goal.agents,
        workspace=WorkspaceConfig(path=str(workspace), sandbox=config.sandbox, network=config.network),
        max_iterations=1,
        timeout=_TIMEOUT,
    )


def _with_absolute_program(goal: Goal, environ: dict[str, str]) -> AgentConfig:
    """Return the agent with the path of a program that lies in the goal's own workspace."""
    agent = goal.agent
    program, path = find_program(agent.command, environ, Path(goal.workspace.path or ".").resolve())
    if not agent.command or "/" not in program or not path:
        return agent
    first, *others = agent.command
    return agent.model_copy(update={"command": (first.replace(program, path, 1), *others)})


def _failed(outcome: GoalOutcome, *, sandboxed: bool) -> Check:
    message, *lines = [line for line in outcome.message.splitlines() if not line.startswith("goal resume")] or [""]
    if outcome.status is GoalStatus.CAPPED and outcome.iterations:
        message = "the agent ended its turn without creating the file"
    hints = lines or ([_IN_SANDBOX] if sandboxed else [])
    return Check(_NAME, "bad", message, "\n".join([*hints, f"goal show {outcome.run_path}"]))


def _missing(preset: Preset, protocol: Protocol, used: Usage, *, session: bool) -> list[str]:
    """Return what the agent should have reported and did not."""
    resumes = protocol == "acp" or any("{session}" in word for word in preset.resume)
    return [
        *(["named no session"] if resumes and not session else []),
        *(["reported no tokens"] if "tokens" in preset.reports_by(protocol) and not used.tokens else []),
    ]
