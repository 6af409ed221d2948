"""Whether a sandbox works here, and what an external agent can see in it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from goalrunner.app.location import RunLocation, workspace_of
from goalrunner.app.sandbox import Sandbox, choose_sandbox
from goalrunner.core.errors import GoalError
from goalrunner.core.goal import Goal
from goalrunner.core.process_ports import Launcher
from goalrunner.records.run_folder import goal_home
from goalrunner.system.launcher import SHELL, ProcessLauncher
from goalrunner.system.sandbox import JailedLauncher, choose

_NAME = "sandbox"
_TIMEOUT = 20.0
"""Seconds for the check of one path."""


@dataclass(frozen=True)
class Check:
    """What was checked, the result, and what to type next. With a `bad` one, the agent cannot be used."""

    name: str
    state: Literal["good", "bad", "note"]
    message: str
    hint: str = ""


@dataclass(frozen=True)
class SandboxProbe:
    """Starts commands in the sandbox of an external agent, which needs `paths` below HOME."""

    sandbox: Sandbox
    paths: tuple[str, ...] = ()

    def launcher(self, inner: Launcher, own: Path, workspace: Path) -> Launcher:
        """Return a launcher that starts programs in the sandbox, in another workspace and without logins."""
        location = replace(self.sandbox.location, workspace=workspace.resolve())
        cell = replace(self.sandbox, location=location).agent_cell(own.resolve(), self.paths, logins=False)
        return inner if cell is None else JailedLauncher(inner, cell)

    def sees(self, path: str) -> bool:
        """Return whether the agent can read a path, with its logins."""
        return asyncio.run(self._sees(path))

    async def _sees(self, path: str) -> bool:
        bare = ProcessLauncher()
        try:
            with tempfile.TemporaryDirectory(prefix="goal-doctor-", ignore_cleanup_errors=True) as made:
                cell = self.sandbox.agent_cell(Path(made, "own").resolve(), self.paths)
                launcher = bare if cell is None else JailedLauncher(bare, cell)
                workspace = self.sandbox.location.workspace
                done = await launcher.launch(
                    [SHELL, "-c", 'test -r "$1"', "sh", path],
                    cwd=workspace if workspace.is_dir() else Path("/"),
                    env=self.sandbox.environ,
                    output=Path(made, "output"),
                    timeout=_TIMEOUT,
                )
                return done.exit_code == 0
        finally:
            bare.close()


def sandbox_check(goal: Goal, environ: Mapping[str, str]) -> tuple[Check, SandboxProbe | None]:
    """Check the sandbox by running a program in it. Return a probe if the goal's agent is sandboxed.

    A missing sandbox is a note unless the goal requires one.
    """
    folder, wanted = workspace_of(goal), goal.workspace.sandbox != "none"
    if not wanted and goal.workspace.network:
        choice = choose(environ, (folder,))
        if choice.jail is not None:
            return Check(_NAME, "good", f"{choice.jail.name} works here; a goal with [workspace] sandbox uses it"), None
        why = f"{choice.why}; only a goal with [workspace] sandbox needs it"
        return Check(_NAME, "note", why, choice.remedy), None
    try:
        sandbox = choose_sandbox(goal, RunLocation(folder, goal_home(environ).resolve(), environ))
    except GoalError as error:
        return Check(_NAME, "bad", error.message, error.hint), None
    choice = sandbox.choice
    if choice.jail is None:
        return Check(_NAME, "note", f"{choice.why}; the goal runs without a sandbox", choice.remedy), None
    who = ", and the agent runs in it" if goal.agent.external else ""
    return Check(_NAME, "good", f"{choice.jail.name} works here{who}"), SandboxProbe(sandbox)
