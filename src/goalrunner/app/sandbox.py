"""The sandbox of a run: which one, what it hides, and what is started in it."""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import socket
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from goalrunner.app.models import workspace_of
from goalrunner.app.pruning import checkouts_of
from goalrunner.checking.checkout import ROOM, ROOM_TMP
from goalrunner.core.errors import GoalFileError, UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.process_ports import Confinement, Jail, Launcher
from goalrunner.goalfile import all_presets
from goalrunner.records.run_folder import goal_home
from goalrunner.snapshots.ignore_rules import literal
from goalrunner.system.environment import inside, shown
from goalrunner.system.sandbox import Choice, JailedLauncher, choose
from goalrunner.system.sandbox_view import Cell, Room, hidden_in

NONE = "none"
"""The name of no jail at all."""


@dataclass(frozen=True)
class Place:
    """Where a run happens. `home` is GOAL_HOME; paths are without links."""

    workspace: Path
    home: Path
    environ: Mapping[str, str]
    secret: Path | None = None
    """The goal file, if commands must not read it."""

    @property
    def user_home(self) -> Path:
        """HOME of whoever started the run."""
        return Path(os.path.realpath(self.environ.get("HOME") or Path.home()))


def place_of(goal: Goal, home: Path, environ: Mapping[str, str]) -> Place:
    """Return where a run of the goal happens."""
    return Place(workspace_of(goal), Path(os.path.realpath(home)), environ)


@dataclass(frozen=True)
class Fenced:
    """How the commands of a run are started: those of the agent, those of the checks, and the environment of both."""

    agent: Launcher
    checks: Launcher
    sandboxed: Callable[[Launcher], Launcher]
    """Puts the commands of the checks into their jail, over another launcher."""
    environ: Mapping[str, str]
    external: Callable[[Iterable[str]], Cell | None]
    """The jail of an external agent that needs these paths below HOME; None: it is in none."""


def chosen_jail(goal: Goal, place: Place) -> Choice:
    """The jail that the goal asks for, tried; no jail where it asks for none, or `auto` finds none.

    Raises UsageError where the goal insists on one, or on no network, and there is none.
    """
    config = goal.workspace
    if config.sandbox == "none":
        if not config.network:
            raise UsageError(
                "network = false needs a sandbox: nothing else keeps a command from the network",
                'write [workspace] sandbox = "auto", or remove network = false',
            )
        return Choice(None)
    choice = _exposed(place) or choose(place.environ, (place.workspace,), network=config.network)
    if choice.jail is None and not config.network:
        raise UsageError(f"network = false cannot be kept: {choice.why}", f"{choice.remedy}, or remove network = false")
    if choice.jail is None and config.sandbox != "auto":
        raise UsageError(
            f'sandbox = "{config.sandbox}" does not work here: {choice.why}',
            f'{choice.remedy}, or write sandbox = "auto" to go on without',
        )
    return choice


def refuse_unfenced(goal: Goal, place: Place) -> None:
    """Raise UsageError where the jail that the goal asks for does not work, or what it must hide is not known."""
    if chosen_jail(goal, place).jail is not None:
        _hidden(goal, place)


def sandbox_notes(goal: Goal, place: Place, *, has_own_agent: bool = False) -> tuple[str, ...]:
    """What was chosen and what it does not do, for the first lines of a run.

    `has_own_agent` says that the calling program handed in the conversation, whose commands are in no sandbox.
    """
    config = goal.workspace
    if config.sandbox == "none":
        return ()
    choice = chosen_jail(goal, place)
    if choice.jail is None:
        return (f"no sandbox: {choice.why}; commands run as you; to have one, {choice.remedy}",)
    if has_own_agent:
        return (f"sandbox: {choice.jail.name} confines the validators alone: the calling program made the agent",)
    held = "no network for the validators" if goal.agent.external else "no network"
    net = "the network is open" if config.network else held
    notes = [f"sandbox: {choice.jail.name}; commands write the workspace and a /tmp of their own alone; {net}"]
    if goal.agent.external and not config.network:
        notes.append(f"network = false holds for the validators alone: {goal.agent.use} must reach its model")
    return tuple(notes)


def agent_cell(goal: Goal, place: Place, own: Path, paths: Iterable[str], *, logins: bool = True) -> Cell | None:
    """The jail of an external agent that needs these `paths` below HOME; None: it is in none.

    Its /tmp and its HOME lie in the folder `own`. Without `logins` it finds none of the paths, and what it writes there
    stays in `own`. Raises UsageError like `chosen_jail`.
    """
    jail = chosen_jail(goal, place).jail
    return None if jail is None else _agents_cell(jail, place, own, _within(goal, place), tuple(paths), logins=logins)


def fenced(goal: Goal, place: Place, run_id: str, inner: Launcher) -> Fenced:
    """How this run's commands are started. Raises UsageError like `chosen_jail`."""
    jail = chosen_jail(goal, place).jail
    if jail is None:
        return Fenced(inner, inner, lambda launcher: launcher, place.environ, lambda _: None)
    own, workspace = _own(place, run_id), place.workspace
    within = _within(goal, place)
    proof = Room(own / ROOM, own / ROOM_TMP, (workspace,))
    agent = Cell(jail, (Room(workspace, own / "agent-tmp"),), within)
    checks = Cell(jail, (proof, Room(workspace, own / "checks-tmp")), within)
    return Fenced(
        JailedLauncher(inner, agent),
        JailedLauncher(inner, checks),
        lambda launcher: JailedLauncher(launcher, checks),
        inside(place.environ),
        lambda paths: _agents_cell(jail, place, own, within, tuple(paths)),
    )


def _within(goal: Goal, place: Place) -> Confinement:
    """What all commands of a run have in common."""
    return Confinement(
        hidden=_hidden(goal, place),
        emptied=(place.secret,) if place.secret else (),
        readable=shown(place.environ),
        network=goal.workspace.network,
    )


def _agents_cell(
    jail: Jail, place: Place, own: Path, within: Confinement, paths: tuple[str, ...], *, logins: bool = True
) -> Cell:
    """An external agent writes the workspace, and a /tmp and a HOME of its own, which last as long as the run is driven.

    Of the user's HOME it sees its programs and git's configuration, and `paths`, where its login and its sessions are:
    these it can write, because a login that it renews must be there the next time. Its network is open.
    """
    user = place.user_home
    theirs = tuple(Path(os.path.realpath(user / path)) for path in paths)
    programs = (*shown(place.environ, user), *(user / name for name in (".gitconfig", ".config/git")))
    hidden = tuple(path for path in within.hidden if path not in theirs)
    home = (user, own / "agent-home")
    # What a program itself lies in must be there for it to start.
    writable = theirs if logins else tuple(path for path in theirs if path in programs)
    inner = Confinement(writable=writable, readable=programs, hidden=hidden, emptied=within.emptied, home=home)
    return Cell(jail, (Room(place.workspace, own / "agent-tmp"),), inner)


def sandbox_name(goal: Goal, place: Place) -> str:
    """The name of the jail that the run's commands are in; "none" for none."""
    jail = chosen_jail(goal, place).jail
    return NONE if jail is None else jail.name


def _own(place: Place, run_id: str) -> Path:
    return Path(os.path.realpath(checkouts_of(place.home, run_id)))


def _hidden(goal: Goal, place: Place) -> tuple[Path, ...]:
    """GOAL_HOME, the one that is used without it, and where logins lie."""
    usual = goal_home({name: value for name, value in place.environ.items() if name != "GOAL_HOME"})
    homes = [path for path in (place.home, Path(os.path.realpath(usual))) if path.exists()]
    try:
        presets = all_presets(goal.agents, place.environ)
    except GoalFileError as error:
        told = f"the sandbox hides the logins of all agents, and one of them cannot be read:\n{error.message}"
        raise UsageError(told, "mend that file, or remove it") from error
    logins = (path for preset in presets.values() for path in preset.home)
    return (*dict.fromkeys(homes), *hidden_in(place.user_home, logins))


def _exposed(place: Place) -> Choice | None:
    """What no jail can hide, because it lies in what the agent may write."""
    for path, what in ((place.user_home, "your home folder"), (place.home, "GOAL_HOME, where goal keeps its runs")):
        if path.is_relative_to(place.workspace):
            why = f"{path}, {what}, lies in the workspace {place.workspace}, which commands write"
            return Choice(None, why, "name another workspace: --workspace DIR")
    return None


STREAMS = (1, 2)
"""Descriptors of stdout and stderr."""


def own_files(workspace: Path, tape: Path | None, streams: Iterable[int] = STREAMS) -> tuple[str, ...]:
    """A pattern, as in a .gitignore, for each of them that lies in the workspace, which is absolute and without links."""
    written = [*([Path(os.path.realpath(tape))] if tape else []), *_behind(streams)]
    inside = {path.relative_to(workspace) for path in written if path.is_relative_to(workspace)}
    return tuple(sorted("/" + os.fsdecode(literal(os.fsencode(path))) for path in inside))


def _behind(streams: Iterable[int]) -> Iterator[Path]:
    """The regular files that streams lead to, where the system names them."""
    for number in streams:
        with contextlib.suppress(OSError, ValueError):
            seen = os.fstat(number)
            if stat.S_ISREG(seen.st_mode):
                path = _name(number)
                if os.path.samestat(seen, path.stat()):
                    yield path


def _name(number: int) -> Path:
    asking = getattr(fcntl, "F_GETPATH", None)  # on macOS
    if asking is None:
        return Path(f"/proc/self/fd/{number}").readlink()
    told = fcntl.fcntl(number, asking, bytes(1024))
    return Path(os.fsdecode(told.partition(b"\0")[0])).resolve()


class SystemClock:
    """The machine's clocks, as the port `Clock`."""

    def now(self) -> datetime:
        """The time of day in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()


def person() -> str:
    """Who types here: user@host."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # an id without a name, as containers have
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
