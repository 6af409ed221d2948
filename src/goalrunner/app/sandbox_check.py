"""Whether a sandbox works here, and which one a run of a goal would use."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from goalrunner.app.models import workspace_of
from goalrunner.app.sandbox import Place, agent_cell, chosen_jail
from goalrunner.core.errors import GoalError
from goalrunner.core.goal import Goal
from goalrunner.core.process_ports import Launcher
from goalrunner.records.run_folder import goal_home
from goalrunner.system.environment import inside
from goalrunner.system.launcher import SHELL, ProcessLauncher
from goalrunner.system.sandbox import JailedLauncher, choose
from goalrunner.system.sandbox_view import Cell

State = Literal["good", "bad", "note"]
"""As it should be; not, so that the agent cannot be used; or worth knowing, and no obstacle."""


@dataclass(frozen=True)
class Check:
    """What was looked at, in a word or two; what was found; and the line that mends it."""

    name: str
    state: State
    said: str
    remedy: str = ""


_NAME = "sandbox"
_LOOK = 20.0
"""Seconds for a look at one path."""


@dataclass(frozen=True)
class Box:
    """The sandbox that an external agent of this goal would be in. `name` is the jail's; `paths` lie below HOME."""

    name: str
    goal: Goal
    place: Place
    paths: tuple[str, ...] = ()

    @property
    def environ(self) -> dict[str, str]:
        """What surrounds the agent in there."""
        return inside(self.place.environ)

    def cell(self, own: Path, workspace: Path | None = None, *, logins: bool = False) -> Cell | None:
        """See `agent_cell`; another workspace may stand in place of the goal's."""
        place = self.place if workspace is None else replace(self.place, workspace=workspace.resolve())
        return agent_cell(self.goal, place, own.resolve(), self.paths, logins=logins)

    def launcher(self, inner: Launcher, own: Path, workspace: Path) -> Launcher:
        """One that starts everything in the jail, without anybody's login."""
        cell = self.cell(own, workspace)
        return inner if cell is None else JailedLauncher(inner, cell)

    def sees(self, path: str) -> bool:
        """Whether that path can be read in there, in the goal's own workspace and with the logins in view."""
        return asyncio.run(self._sees(path))

    async def _sees(self, path: str) -> bool:
        bare = ProcessLauncher()
        try:
            with tempfile.TemporaryDirectory(prefix="goal-look-", ignore_cleanup_errors=True) as made:
                cell = self.cell(Path(made, "own"), logins=True)
                launcher = bare if cell is None else JailedLauncher(bare, cell)
                looked = await launcher.launch(
                    [SHELL, "-c", 'test -r "$1"', "sh", path],
                    cwd=self.place.workspace if self.place.workspace.is_dir() else Path("/"),
                    env=self.environ,
                    output=Path(made, "said"),
                    timeout=_LOOK,
                )
                return looked.exit_code == 0
        finally:
            bare.close()


def sandbox_check(goal: Goal, environ: Mapping[str, str]) -> tuple[Check, Box | None]:
    """What was found by running something in one, and the box that the goal's agent is in; None: it is in none.

    None found is an obstacle only where the goal insists on one.
    """
    folder, wanted = workspace_of(goal), goal.workspace.sandbox != "none"
    if not wanted and goal.workspace.network:
        choice = choose(environ, (folder,))
        if choice.jail is not None:
            return Check(_NAME, "good", f"{choice.jail.name} works here; a goal with [workspace] sandbox uses it"), None
        why = f"{choice.why}; only a goal with [workspace] sandbox needs it"
        return Check(_NAME, "note", why, choice.remedy), None
    try:
        place = Place(folder, goal_home(environ).resolve(), environ)
        choice = chosen_jail(goal, place)
    except GoalError as error:
        return Check(_NAME, "bad", error.message, error.hint), None
    if choice.jail is None:
        return Check(_NAME, "note", f"{choice.why}; this goal goes on without", choice.remedy), None
    who = ", and the agent runs in it" if goal.agent.external else ""
    said = f"{choice.jail.name} works here{who}"
    return Check(_NAME, "good", said), Box(choice.jail.name, goal, place)
