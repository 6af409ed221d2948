"""The sandbox of a run, and what its commands may see and write."""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import socket
import stat
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from goalrunner.core.errors import GoalFileError, UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.ports import Launcher
from goalrunner.goalfile.agents import all_presets
from goalrunner.records.removal import clear
from goalrunner.records.run_folder import CHECKS, RUNS, RunFolder, goal_home
from goalrunner.records.writer_lock import has_writer
from goalrunner.snapshots.git import ask_git
from goalrunner.snapshots.ignore_rules import literal
from goalrunner.system.bubblewrap import Choice, choose
from goalrunner.system.sandbox import SandboxedLauncher, SandboxPolicy, WritableRoot
from goalrunner.system.sandbox_environment import (
    private_paths,
    sandbox_environment,
    visible_paths,
)
from goalrunner.system.sandbox_view import Confinement

# The folder in GOAL_HOME for what commands in a sandbox write outside of the workspace.
TEMPORARY = "tmp"


def workspace_of(goal: Goal) -> Path:
    """Return the workspace, absolute and without links."""
    return Path(goal.workspace.path or Path.cwd()).resolve()


def clear_leftovers(home: Path) -> None:
    """Remove the temporary files of runs that no process drives, in the background.

    Never raise.
    """
    with contextlib.suppress(OSError):
        folders = list((home / TEMPORARY).iterdir())
        ended = [path.name for path in folders if not _is_driven(home, path.name)]
        if ended:
            threading.Thread(
                target=clear_temporary,
                args=(home, *ended),
                name="goal-leftovers",
                daemon=True,
            ).start()


def _is_driven(home: Path, run_id: str) -> bool:
    """Return whether a process drives the run, or the check, of that id."""
    return any(
        has_writer(RunFolder(home / kind / run_id).events) for kind in (RUNS, CHECKS)
    )


def clear_temporary(home: Path, *run_ids: str) -> None:
    """Remove the temporary files of runs that are over. Never raise."""
    for run_id in run_ids:
        with contextlib.suppress(OSError):
            clear(home / TEMPORARY / run_id)


def secret_goal_file(goal: Goal, goal_file: Path | None) -> Path | None:
    """Return the goal file that commands in a sandbox must not read, without links.

    None if there is no such file. A file whose content is in the repository is no
    secret, and a validator that names the file must be able to read it.
    """
    if goal_file is None or not any(spec.hidden for spec in goal.validators):
        return None
    path = Path(os.path.realpath(goal_file))
    if not path.is_file():
        return None
    for spec in goal.validators:
        if path.name in (spec.run or ""):
            return None
    ask = partial(ask_git, path.parent, environ=os.environ, timeout=10.0)
    with contextlib.suppress(OSError):
        code, digest, _ = ask("hash-object", "--stdin", stdin=path.read_bytes())
        if code == 0 and ask("cat-file", "-e", digest.decode().strip())[0] == 0:
            return None
    return path


def runner_outputs(
    workspace: Path, record: Path | None, streams: Iterable[int] = (1, 2)
) -> tuple[str, ...]:
    """Return a .gitignore pattern for each file that the runner writes.

    These are files of the workspace: `record`, and those that stdout and stderr are
    redirected to.
    """
    written = [Path(os.path.realpath(record))] if record else []
    for number in streams:
        # A stream may be closed, or its file removed.
        with contextlib.suppress(OSError, ValueError):
            path = _path_of(number)
            status = os.fstat(number)
            if stat.S_ISREG(status.st_mode) and os.path.samestat(status, path.stat()):
                written.append(path)
    patterns: set[str] = set()
    for path in written:
        if path.is_relative_to(workspace):
            name = literal(os.fsencode(path.relative_to(workspace)))
            patterns.add("/" + os.fsdecode(name))
    return tuple(sorted(patterns))


def _path_of(descriptor: int) -> Path:
    """Return the path of an open file. Raise OSError."""
    get_path = getattr(fcntl, "F_GETPATH", None)
    if get_path is None:
        return Path(f"/proc/self/fd/{descriptor}").readlink()
    # macOS has no /proc. 1024 is its PATH_MAX.
    name = fcntl.fcntl(descriptor, get_path, bytes(1024))
    return Path(os.fsdecode(name.partition(b"\0")[0])).resolve()


def person() -> str:
    """Return the user of this process: user@host."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # an id without a name, as containers have
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


NONE = "none"  # the name if there is no sandbox


@dataclass(frozen=True)
class Sandbox:
    """The sandbox of a run, chosen once.

    Without one, `choice.sandbox` is None and commands run as the user. Paths are
    absolute and without links.
    """

    goal: Goal
    workspace: Path
    home: Path  # GOAL_HOME
    outer_environ: Mapping[str, str]  # the environment of `goal` itself
    choice: Choice
    secret: Path | None = None  # a goal file that commands must not read
    # GOAL_HOME, the default GOAL_HOME, and the logins of all agents.
    hides: tuple[Path, ...] = ()
    # Folders in GOAL_HOME that commands may nevertheless read.
    shows: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """The name of the sandbox; "none" if there is none."""
        return NONE if self.choice.sandbox is None else self.choice.sandbox.name

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of commands."""
        if self.choice.sandbox is None:
            return self.outer_environ
        return sandbox_environment(self.outer_environ)

    def notes(self, *, has_own_agent: bool = False) -> tuple[str, ...]:
        """Return notes for people about the sandbox.

        `has_own_agent`: the calling program made the conversation.
        """
        config, choice = self.goal.workspace, self.choice
        if config.sandbox == "none":
            return ()
        if choice.sandbox is None:
            note = (
                f"no sandbox: {choice.why}; commands run as you; to use one, "
                f"{choice.remedy}"
            )
            return (note,)
        if has_own_agent:
            note = (
                f"sandbox: {choice.sandbox.name} confines only the validators: the "
                "calling program made the agent"
            )
            return (note,)
        is_external = self.goal.agent.external
        network = "no network for the validators" if is_external else "no network"
        if config.network:
            network = "the network is open"
        note = (
            f"sandbox: {choice.sandbox.name}; commands write only the workspace and a "
            f"private /tmp; {network}"
        )
        if config.network or not is_external:
            return (note,)
        exception = (
            "network = false applies only to the validators: "
            f"{self.goal.agent.use} must reach its model"
        )
        return (note, exception)

    def launcher(self, inner: Launcher, run_id: str, *, checks: bool) -> Launcher:
        """Return a launcher that starts commands in the sandbox.

        They are commands of the agent, or of the `checks`.
        """
        if self.choice.sandbox is None:
            return inner
        # Files of the agent in /tmp must not affect the checks.
        name = "checks-tmp" if checks else "agent-tmp"
        root = WritableRoot(self.workspace, self.own_folder(run_id) / name)
        confinement = Confinement(
            hidden=tuple(filter(Path.exists, self.hides)),
            emptied=self._emptied,
            readable=(*visible_paths(self.outer_environ), *self.shows),
            network=self.goal.workspace.network,
        )
        return SandboxedLauncher(
            inner, SandboxPolicy(self.choice.sandbox, (root,), confinement)
        )

    @property
    def _emptied(self) -> tuple[Path, ...]:
        return (self.secret,) if self.secret else ()

    def own_folder(self, run_id: str) -> Path:
        """Return the folder for writes of a run's commands outside of the workspace."""
        return Path(os.path.realpath(self.home / TEMPORARY / run_id))

    def agent_policy(self, folder: Path, paths: Iterable[str]) -> SandboxPolicy | None:
        """Return the policy of an external agent; None without a sandbox.

        The agent can write the workspace, and a /tmp and a HOME in `folder`. Of the
        user's HOME it sees its programs, git's configuration and `paths`. These contain
        its login and its sessions, and it can write them, so that a renewed login is
        kept. Its network is open.
        """
        if self.choice.sandbox is None:
            return None
        home = _user_home(self.outer_environ)
        agent_paths = tuple(Path(os.path.realpath(home / path)) for path in paths)
        # The logins of other agents stay hidden.
        hidden = [path for path in self.hides if path not in agent_paths]
        git_settings = [home / name for name in (".gitconfig", ".config/git")]
        confinement = Confinement(
            writable=agent_paths,
            readable=(
                *visible_paths(self.outer_environ, home),
                *git_settings,
                *self.shows,
            ),
            hidden=tuple(filter(Path.exists, hidden)),
            emptied=self._emptied,
            home=(home, folder / "agent-home"),
        )
        root = WritableRoot(self.workspace, folder / "agent-tmp")
        return SandboxPolicy(self.choice.sandbox, (root,), confinement)


def choose_sandbox(
    goal: Goal, home: Path, environ: Mapping[str, str], goal_file: Path | None = None
) -> Sandbox:
    """Choose and try the sandbox of a goal; there may be none.

    Raise UsageError if the goal needs one and none works.
    """
    config, plain = goal.workspace, no_sandbox(goal, home, environ, goal_file)
    workspace, home, choice = plain.workspace, plain.home, plain.choice
    if config.sandbox != "none":
        choice = choose(environ, (workspace,), network=config.network)
        for path, what in (
            (_user_home(environ), "your home folder"),
            (home, "GOAL_HOME, where goal keeps its runs"),
        ):
            # No sandbox can hide a folder of the workspace from commands.
            if path.is_relative_to(workspace):
                why = (
                    f"{path}, {what}, lies in the workspace {workspace}, which "
                    "commands can write"
                )
                choice = Choice(None, why, "name another workspace: --workspace DIR")
                break
    if choice.sandbox is not None:
        return replace(plain, choice=choice, hides=_hidden(goal, home, environ))
    if not config.network:
        why = f"network = false needs a sandbox: {choice.why}"
        raise UsageError(why, f"{choice.remedy}, or remove network = false")
    if config.sandbox == "bwrap":
        raise UsageError(
            f'sandbox = "bwrap" does not work here: {choice.why}',
            f'{choice.remedy}, or write sandbox = "auto" to continue without one',
        )
    return replace(plain, choice=choice)


def no_sandbox(
    goal: Goal, home: Path, environ: Mapping[str, str], goal_file: Path | None = None
) -> Sandbox:
    """Return the location of a run whose commands run as the user."""
    choice = Choice(None, "the goal has none", 'write [workspace] sandbox = "auto"')
    secret = secret_goal_file(goal, goal_file)
    return Sandbox(
        goal, workspace_of(goal), Path(os.path.realpath(home)), environ, choice, secret
    )


def _user_home(environ: Mapping[str, str]) -> Path:
    return Path(os.path.realpath(environ.get("HOME") or Path.home()))


def _hidden(goal: Goal, home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the paths that commands in a sandbox do not see."""
    # Other runs of the user are in the default GOAL_HOME.
    without_home = dict(environ)
    without_home.pop("GOAL_HOME", None)
    default_home = Path(os.path.realpath(goal_home(without_home)))
    try:
        presets = all_presets(goal.agents, environ)
    except GoalFileError as error:
        raise UsageError(
            "the sandbox hides the logins of all agents, and one of them cannot be "
            f"read:\n{error.message}",
            "correct that file, or remove it",
        ) from error
    logins = (path for preset in presets.values() for path in preset.home)
    homes = dict.fromkeys((home, default_home))
    return (*homes, *private_paths(_user_home(environ), logins))
