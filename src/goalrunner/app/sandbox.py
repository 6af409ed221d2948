"""The sandbox of a run: its choice, what it hides, what is started in it, and its check by `goal doctor`."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from goalrunner.app.location import RunLocation, checkouts_of, workspace_of
from goalrunner.checking.checkout import ROOM, ROOM_TMP
from goalrunner.core.errors import GoalError, GoalFileError, UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.process_ports import Confinement, Launcher
from goalrunner.goalfile import all_presets
from goalrunner.records.run_folder import goal_home
from goalrunner.system.bubblewrap import SandboxPolicy, WritableRoot
from goalrunner.system.environment import inside, shown
from goalrunner.system.launcher import SHELL, ProcessLauncher
from goalrunner.system.sandbox import Choice, SandboxedLauncher, choose
from goalrunner.system.sandbox_view import private_paths

NONE = "none"
"""The name of no sandbox at all."""


@dataclass(frozen=True)
class Sandbox:
    """The sandbox of a run, chosen once. Without one, `choice.sandbox` is None and commands run as the user."""

    goal: Goal
    location: RunLocation
    choice: Choice
    hides: tuple[Path, ...] = ()
    """GOAL_HOME, the default GOAL_HOME, and the logins of all agents."""

    @property
    def name(self) -> str:
        """The name of the sandbox; "none" if there is none."""
        return NONE if self.choice.sandbox is None else self.choice.sandbox.name

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of commands."""
        return self.location.environ if self.choice.sandbox is None else inside(self.location.environ)

    def notes(self, *, has_own_agent: bool = False) -> tuple[str, ...]:
        """Return what was chosen and what it does not do, for the first lines of a run.

        `has_own_agent` says that the calling program made the conversation, whose commands are in no sandbox.
        """
        config, choice = self.goal.workspace, self.choice
        if config.sandbox == "none":
            return ()
        if choice.sandbox is None:
            return (f"no sandbox: {choice.why}; commands run as you; to use one, {choice.remedy}",)
        if has_own_agent:
            return (f"sandbox: {choice.sandbox.name} confines only the validators: the calling program made the agent",)
        held = "no network for the validators" if self.goal.agent.external else "no network"
        net = "the network is open" if config.network else held
        notes = [f"sandbox: {choice.sandbox.name}; commands write only the workspace and a private /tmp; {net}"]
        if self.goal.agent.external and not config.network:
            notes.append(f"network = false applies only to the validators: {self.goal.agent.use} must reach its model")
        return tuple(notes)

    def launcher(self, inner: Launcher, run_id: str, *, checks: bool) -> Launcher:
        """Return what starts commands of the agent, or of the `checks`, in the sandbox, over another launcher."""
        if self.choice.sandbox is None:
            return inner
        own, workspace = self.own_folder(run_id), self.location.workspace
        roots = [WritableRoot(workspace, own / ("checks-tmp" if checks else "agent-tmp"))]
        if checks:
            roots.insert(0, WritableRoot(own / ROOM, own / ROOM_TMP, (workspace,)))
        within = Confinement(
            hidden=self._hidden,
            emptied=self._emptied,
            readable=shown(self.location.environ),
            network=self.goal.workspace.network,
        )
        return SandboxedLauncher(inner, SandboxPolicy(self.choice.sandbox, tuple(roots), within))

    def own_folder(self, run_id: str) -> Path:
        """Return the folder of what commands of a run write outside of the workspace."""
        return Path(os.path.realpath(checkouts_of(self.location.home, run_id)))

    @property
    def _hidden(self) -> tuple[Path, ...]:
        return tuple(filter(Path.exists, self.hides))

    @property
    def _emptied(self) -> tuple[Path, ...]:
        return (self.location.secret,) if self.location.secret else ()

    def agent_policy(self, own: Path, paths: Iterable[str], *, logins: bool = True) -> SandboxPolicy | None:
        """Return the policy of an external agent that needs these `paths` below HOME; None without a sandbox.

        The agent writes the workspace, and a /tmp and a HOME in the folder `own`. Of the user's HOME it sees its programs,
        git's configuration and the paths, where its login and its sessions are: it can write these, because a login that
        it renews must be there the next time. Without `logins` it finds none of the paths. Its network is open.
        """
        if self.choice.sandbox is None:
            return None
        environ, user = self.location.environ, self.location.user_home
        theirs = tuple(Path(os.path.realpath(user / path)) for path in paths)
        programs = (*shown(environ, user), *(user / name for name in (".gitconfig", ".config/git")))
        inner = Confinement(
            # The folder of the program itself must be there for it to start.
            writable=theirs if logins else tuple(path for path in theirs if path in programs),
            readable=programs,
            hidden=tuple(path for path in self._hidden if path not in theirs),
            emptied=self._emptied,
            home=(user, own / "agent-home"),
        )
        return SandboxPolicy(self.choice.sandbox, (WritableRoot(self.location.workspace, own / "agent-tmp"),), inner)


def choose_sandbox(goal: Goal, location: RunLocation) -> Sandbox:
    """Choose and try the sandbox of a goal; there is none if the goal asks for none, or `auto` finds none.

    Raise UsageError if the goal needs one, or no network, and no sandbox works, or what it must hide is not known.
    """
    config = goal.workspace
    if config.sandbox == "none":
        if not config.network:
            raise UsageError(
                "network = false needs a sandbox",
                'write [workspace] sandbox = "auto", or remove network = false',
            )
        return Sandbox(goal, location, Choice(None))
    choice = _exposed(location) or choose(location.environ, (location.workspace,), network=config.network)
    if choice.sandbox is not None:
        return Sandbox(goal, location, choice, _hidden(goal, location))
    if not config.network:
        raise UsageError(
            f"network = false cannot be enforced: {choice.why}", f"{choice.remedy}, or remove network = false"
        )
    if config.sandbox != "auto":
        raise UsageError(
            f'sandbox = "{config.sandbox}" does not work here: {choice.why}',
            f'{choice.remedy}, or write sandbox = "auto" to continue without one',
        )
    return Sandbox(goal, location, choice)


def _hidden(goal: Goal, location: RunLocation) -> tuple[Path, ...]:
    usual = goal_home({name: value for name, value in location.environ.items() if name != "GOAL_HOME"})
    homes = (location.home, Path(os.path.realpath(usual)))
    try:
        presets = all_presets(goal.agents, location.environ)
    except GoalFileError as error:
        raise UsageError(
            f"the sandbox hides the logins of all agents, and one of them cannot be read:\n{error.message}",
            "correct that file, or remove it",
        ) from error
    logins = (path for preset in presets.values() for path in preset.home)
    return (*dict.fromkeys(homes), *private_paths(location.user_home, logins))


def _exposed(location: RunLocation) -> Choice | None:
    """Return why no sandbox helps: what it must hide lies in the workspace, which the agent can write."""
    for path, what in (
        (location.user_home, "your home folder"),
        (location.home, "GOAL_HOME, where goal keeps its runs"),
    ):
        if path.is_relative_to(location.workspace):
            why = f"{path}, {what}, lies in the workspace {location.workspace}, which commands can write"
            return Choice(None, why, "name another workspace: --workspace DIR")
    return None


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
        policy = replace(self.sandbox, location=location).agent_policy(own.resolve(), self.paths, logins=False)
        return inner if policy is None else SandboxedLauncher(inner, policy)

    def sees(self, path: str) -> bool:
        """Return whether the agent can read a path, with its logins."""
        return asyncio.run(self._sees(path))

    async def _sees(self, path: str) -> bool:
        bare = ProcessLauncher()
        try:
            with tempfile.TemporaryDirectory(prefix="goal-doctor-", ignore_cleanup_errors=True) as made:
                policy = self.sandbox.agent_policy(Path(made, "own").resolve(), self.paths)
                launcher = bare if policy is None else SandboxedLauncher(bare, policy)
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
        if choice.sandbox is not None:
            return Check(
                _NAME, "good", f"{choice.sandbox.name} works here; a goal with [workspace] sandbox uses it"
            ), None
        why = f"{choice.why}; only a goal with [workspace] sandbox needs it"
        return Check(_NAME, "note", why, choice.remedy), None
    try:
        sandbox = choose_sandbox(goal, RunLocation(folder, goal_home(environ).resolve(), environ))
    except GoalError as error:
        return Check(_NAME, "bad", error.message, error.hint), None
    choice = sandbox.choice
    if choice.sandbox is None:
        return Check(_NAME, "note", f"{choice.why}; the goal runs without a sandbox", choice.remedy), None
    who = ", and the agent runs in it" if goal.agent.external else ""
    return Check(_NAME, "good", f"{choice.sandbox.name} works here{who}"), SandboxProbe(sandbox)
