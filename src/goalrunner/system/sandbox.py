"""Choosing a sandbox that works here, and launchers that start everything in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from goalrunner.core.errors import AgentNotInstalled
from goalrunner.core.process_ports import HIDDEN, Completion, Confinement, Connection, Connector, Jail, Launcher
from goalrunner.system.bubblewrap import NOT_STARTED, Bubblewrap, hidden_program
from goalrunner.system.child import NOT_FOUND, NotStarted, refusal
from goalrunner.system.launcher import program_outside
from goalrunner.system.sandbox_view import Cell

_SETTINGS = (
    ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000"),
    ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "an AppArmor profile for bwrap that allows userns, or sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
"""Below /proc/sys: a setting, the value that forbids, and what lifts it."""

_CONTAINER = "in a container, --security-opt seccomp=unconfined (and apparmor=unconfined)"
"""Where no setting says no, a filter of system calls does."""


def allowing(settings: Path = Path("/proc/sys")) -> str:
    """What to do so that bubblewrap may work here."""
    found = [lift for name, forbids, lift in _SETTINGS if _value(settings / name) == forbids]
    return f"let this user make namespaces: {'; '.join(found or [_CONTAINER])}"


def _value(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


_PATIENCE = 20.0
"""Seconds that a trial may take."""

INSTALL = "install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap)"


@dataclass(frozen=True)
class Choice:
    """A jail that was seen to work, or None; then why there is none, and what would help."""

    jail: Jail | None
    why: str = ""
    remedy: str = ""


def choose(environ: Mapping[str, str], writable: Sequence[Path], *, network: bool = True) -> Choice:
    """Try the jails of this system. No program is taken from `writable`, which an agent can write."""
    if sys.platform != "linux":
        return Choice(None, "bubblewrap runs on Linux alone", "run it in a container or a virtual machine")
    program = program_outside("bwrap", environ, writable)
    if program is None:
        return Choice(None, "bwrap is not on PATH", INSTALL)
    return _tried(program, network)


@cache
def _tried(program: Path, network: bool) -> Choice:
    why = ""
    for jail in (Bubblewrap(program), Bubblewrap(program, own_users=True)):
        wrong = trial(jail, network=network)
        if not wrong:
            return Choice(jail)
        why = why or wrong
    return Choice(None, f"{program} fails ({why})", allowing())


def trial(jail: Jail, *, network: bool) -> str:
    """Run a command in a real confinement; gives why that does not work, or an empty text."""
    with tempfile.TemporaryDirectory(prefix="goal-jail-") as made:
        own, other = Path(os.path.realpath(made), "own"), Path(os.path.realpath(made), "other")
        own.mkdir()
        other.mkdir()
        argv = jail.confine(
            ["/bin/sh", "-c", 'echo > made && ! (echo > "$1/made")', "sh", str(other)],
            cwd=own,
            within=Confinement(writable=(own,), readable=(other,), network=network),
        )
        try:
            done = subprocess.run(
                argv, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if (other / "made").exists():
            return "what must not be written can be"
        if done.returncode == 0 and (own / "made").exists():
            return ""
        said = done.stderr.decode(errors="replace").strip().removeprefix("bwrap: ")
        return said.partition("\n")[0] or f"exit {done.returncode}"


def unstartable(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> NotStarted | None:
    """Why `argv` cannot be started in `cwd`; None where it can."""
    program = argv[0] if argv else ""
    if not program or not cwd.is_dir():
        return refusal(argv, cwd, FileNotFoundError())
    found = cwd / program if "/" in program else shutil.which(program, path=env.get("PATH", os.defpath))
    if found is None or not Path(found).exists():
        return refusal(argv, cwd, FileNotFoundError())
    if not os.access(found, os.X_OK) or Path(found).is_dir():
        return refusal(argv, cwd, PermissionError())
    return None


_FIRST_BYTES = 4_096
_NOT_SET_UP = "the sandbox could not be set up"


@dataclass(frozen=True)
class JailedLauncher:
    """The port `Launcher` in a cell."""

    inner: Launcher
    cell: Cell

    async def launch(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: Path,
        timeout: float | None = None,
        stdin: bytes | None = None,
        errors: Path | None = None,
        shared: Sequence[Path] = (),
    ) -> Completion:
        """See `goalrunner.core.process_ports.Launcher`."""
        if (missing := unstartable(argv, cwd, env)) is not None:
            output.touch(mode=0o600)
            return Completion(missing.exit_code, 0.0, timed_out=False, output=output, error=missing.reason)
        confined = self.cell.confined(argv, cwd, shared)
        launch = partial(
            self.inner.launch, cwd=cwd, env=env, output=output, timeout=timeout, stdin=stdin, errors=errors
        )
        done = await launch(confined)
        if done.exit_code and self.cell.jail.failure(done.exit_code, _first_bytes(errors or output)):
            # Whoever listened somewhere may be gone by now, and nothing can be laid over a socket that is not there.
            again = self.cell.confined(argv, cwd, shared)
            done = await launch(again) if again != confined else done
        done = replace(done, survivors=_without_first(done.survivors))
        if not done.exit_code or done.error:
            return done
        why = unstarted(self.cell, done.exit_code, errors or output, argv=argv, cwd=cwd, env=env)
        if not why:
            return done
        # What never ran has no exit code of its own that anybody could expect.
        started = done.exit_code if done.exit_code in NOT_STARTED else NOT_FOUND
        return replace(done, exit_code=started if HIDDEN in why else None, error=why)


def unstarted(cell: Cell, exit_code: int, said: Path, *, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> str:
    """Why a confined command never ran, or did not find its program, which the jail hides; else empty.

    `said` is the file with what it printed on stderr.
    """
    why = cell.jail.failure(exit_code, _first_bytes(said))
    if why.startswith("execvp"):
        return f"{argv[0]}: {HIDDEN}"
    if why:
        return f"{_NOT_SET_UP}: {why}"
    program = hidden_program(said, cell, cwd, env) if exit_code in NOT_STARTED else ""
    return f"{program}: {HIDDEN}" if program else ""


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_FIRST_BYTES)
    except OSError:
        return b""


def _without_first(names: tuple[str, ...], own: str = "bwrap") -> tuple[str, ...]:
    """Without the jail's own first process, which stays as long as somebody is left in it."""
    at = names.index(own) if own in names else len(names)
    return (*names[:at], *names[at + 1 :])


@dataclass(frozen=True)
class JailedConnector:
    """The port `Connector` in a cell."""

    inner: Connector
    cell: Cell

    def connect(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], errors: Path
    ) -> AbstractAsyncContextManager[Connection]:
        """See `core.process_ports.Connector`. Raises AgentNotInstalled, and RecordError where its /tmp cannot be made."""
        if (missing := unstartable(argv, cwd, env)) is not None:
            raise AgentNotInstalled(missing.reason)
        begun = self.inner.connect(self.cell.confined(argv, cwd), cwd=cwd, env=env, errors=errors)
        return _jailed(begun, partial(unstarted, self.cell, said=errors, argv=argv, cwd=cwd, env=env))


@asynccontextmanager
async def _jailed(
    begun: AbstractAsyncContextManager[Connection], why: Callable[[int], str]
) -> AsyncIterator[Connection]:
    async with begun as connection:
        yield _Jailed(connection, why)


class _Jailed:
    """A connection to a process in a cell, which may hide its program. `why` is asked with its exit code."""

    def __init__(self, connection: Connection, why: Callable[[int], str]) -> None:
        self._connection = connection
        self._why = why

    async def read(self) -> bytes:
        return await self._connection.read()

    async def write(self, data: bytes) -> None:
        await self._connection.write(data)

    def mark(self) -> None:
        self._connection.mark()

    async def sweep(self, helpers: Collection[str] = ()) -> tuple[str, ...]:
        return await self._connection.sweep(helpers)

    def paused(self) -> AbstractContextManager[None]:
        return self._connection.paused()

    @property
    def exit_code(self) -> int | None:
        return self._connection.exit_code

    @property
    def obstacle(self) -> str:
        return self._why(self.exit_code) if self.exit_code else ""
