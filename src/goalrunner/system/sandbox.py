"""Choosing a sandbox that works here, launchers that start everything in it, and programs that it hides."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Unpack

from goalrunner.core.errors import AgentNotInstalled
from goalrunner.core.process_ports import HIDDEN, Completion, Confinement, Launcher, LaunchOptions
from goalrunner.system.bubblewrap import Bubblewrap, SandboxPolicy
from goalrunner.system.child import NOT_EXECUTABLE, NOT_FOUND, NotStarted, refusal
from goalrunner.system.connection import ProcessConnection, ProcessConnector
from goalrunner.system.launcher import SHELL, program_outside
from goalrunner.system.sandbox_view import is_visible

_SETTINGS = (
    ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000"),
    ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "an AppArmor profile for bwrap that allows userns, or sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
"""Below /proc/sys: a setting, the value that forbids namespaces, and what allows them."""

_CONTAINER = "in a container, --security-opt seccomp=unconfined (and apparmor=unconfined)"
"""If no setting forbids namespaces, a filter of system calls does."""


def how_to_allow(settings: Path = Path("/proc/sys")) -> str:
    """Return what to do so that bubblewrap works here."""
    found = [lift for name, forbids, lift in _SETTINGS if _value(settings / name) == forbids]
    return f"allow this user to create namespaces: {'; '.join(found or [_CONTAINER])}"


def _value(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


_TRIAL_TIMEOUT = 20.0
"""Seconds."""

INSTALL = "install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap)"


@dataclass(frozen=True)
class Choice:
    """A sandbox that was tried and works, or None with the reason and the remedy."""

    sandbox: Bubblewrap | None
    why: str = ""
    remedy: str = ""


def choose(environ: Mapping[str, str], writable: Sequence[Path], *, network: bool = True) -> Choice:
    """Try the sandboxes of this system. No program is taken from `writable`, which an agent can write."""
    if sys.platform != "linux":
        return Choice(None, "bubblewrap runs on Linux alone", "run it in a container or a virtual machine")
    program = program_outside("bwrap", environ, writable)
    if program is None:
        return Choice(None, "bwrap is not on PATH", INSTALL)
    return _tried(program, network)


@cache
def _tried(program: Path, network: bool) -> Choice:
    why = ""
    for sandbox in (Bubblewrap(program), Bubblewrap(program, own_users=True)):
        wrong = trial(sandbox, network=network)
        if not wrong:
            return Choice(sandbox)
        why = why or wrong
    return Choice(None, f"{program} fails ({why})", how_to_allow())


def trial(sandbox: Bubblewrap, *, network: bool) -> str:
    """Run a command in a sandbox; return why that does not work, or an empty text."""
    with tempfile.TemporaryDirectory(prefix="goal-sandbox-") as made:
        own, other = Path(os.path.realpath(made), "own"), Path(os.path.realpath(made), "other")
        own.mkdir()
        other.mkdir()
        argv = sandbox.confine(
            [SHELL, "-c", 'echo > made && ! (echo > "$1/made")', "sh", str(other)],
            cwd=own,
            within=Confinement(writable=(own,), readable=(other,), network=network),
        )
        try:
            done = subprocess.run(
                argv, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL_TIMEOUT, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if (other / "made").exists():
            return "it lets commands write read-only folders"
        if done.returncode == 0 and (own / "made").exists():
            return ""
        said = done.stderr.decode(errors="replace").strip().removeprefix("bwrap: ")
        return said.partition("\n")[0] or f"exit {done.returncode}"


def unstartable(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> NotStarted | None:
    """Return why `argv` cannot be started in `cwd`, or None if it can."""
    program = argv[0] if argv else ""
    if not program or not cwd.is_dir():
        return refusal(argv, cwd, FileNotFoundError())
    found = cwd / program if "/" in program else shutil.which(program, path=env.get("PATH", os.defpath))
    if found is None or not Path(found).exists():
        return refusal(argv, cwd, FileNotFoundError())
    if not os.access(found, os.X_OK) or Path(found).is_dir():
        return refusal(argv, cwd, PermissionError(0, "permission denied"))
    return None


@dataclass(frozen=True)
class SandboxedLauncher:
    """The port `Launcher` in a sandbox."""

    inner: Launcher
    policy: SandboxPolicy

    async def launch(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: Path,
        **options: Unpack[LaunchOptions],
    ) -> Completion:
        """See `goalrunner.core.process_ports.Launcher`."""
        if (missing := unstartable(argv, cwd, env)) is not None:
            output.touch(mode=0o600)
            return Completion(missing.exit_code, 0.0, timed_out=False, output=output, error=missing.reason)
        shared, said = options.pop("shared", ()), options.get("errors") or output
        confined = self.policy.confined(argv, cwd, shared)
        launch = partial(self.inner.launch, cwd=cwd, env=env, output=output, **options)
        done = await launch(confined)
        if done.exit_code and self.policy.sandbox.failure(done.exit_code, _first_bytes(said)):
            # Nothing can be mounted over a socket that was removed in the meantime.
            again = self.policy.confined(argv, cwd, shared)
            done = await launch(again) if again != confined else done
        done = replace(done, survivors=_without_first(done.survivors))
        if not done.exit_code or done.error:
            return done
        why = unstarted(self.policy, done.exit_code, said, argv=argv, cwd=cwd, env=env)
        if not why:
            return done
        # A command that never ran has no exit code of its own.
        started = done.exit_code if done.exit_code in _NOT_STARTED else NOT_FOUND
        return replace(done, exit_code=started if HIDDEN in why else None, error=why)


@dataclass(frozen=True)
class SandboxedConnector:
    """A `Connector` in a sandbox."""

    inner: ProcessConnector
    policy: SandboxPolicy

    @asynccontextmanager
    async def connect(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], errors: Path
    ) -> AsyncIterator[ProcessConnection]:
        """See `Connector`. Raise AgentNotInstalled, or RecordError if its /tmp cannot be made."""
        if (missing := unstartable(argv, cwd, env)) is not None:
            raise AgentNotInstalled(missing.reason)
        confined = self.policy.confined(argv, cwd)
        async with self.inner.connect(confined, cwd=cwd, env=env, errors=errors) as connection:
            connection.explain = partial(unstarted, self.policy, said=errors, argv=argv, cwd=cwd, env=env)
            yield connection


def unstarted(
    policy: SandboxPolicy, exit_code: int, said: Path, *, argv: Sequence[str], cwd: Path, env: Mapping[str, str]
) -> str:
    """Return why a sandboxed command never ran, or which program it did not find because it is hidden; else empty.

    `said` is the file with what it printed on stderr.
    """
    why = policy.sandbox.failure(exit_code, _first_bytes(said))
    if why.startswith("execvp"):
        return f"{argv[0]}: {HIDDEN}"
    if why:
        return f"the sandbox could not be set up: {why}"
    program = _hidden_program(said, policy, cwd, env) if exit_code in _NOT_STARTED else ""
    return f"{program}: {HIDDEN}" if program else ""


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4_096)
    except OSError:
        return b""


def _without_first(names: tuple[str, ...], own: str = "bwrap") -> tuple[str, ...]:
    """Leave out the sandbox's own first process, which stays while any other process is in it."""
    at = names.index(own) if own in names else len(names)
    return (*names[:at], *names[at + 1 :])


_NOT_STARTED = (NOT_EXECUTABLE, NOT_FOUND)
"""Exit codes of a shell or of env that could not start a program."""

_TAIL = 4_000
"""Bytes at the end of the output in which the name of the missing program is searched."""

_LINE = 1_000
"""Bytes of the first line of a script."""

_MISSING = re.compile(r"([^\s:'\"`‘’]+)['\"`’]?: (?:command )?(?:not found|No such file or directory)")
"""The messages of shells and env about a program, or about the interpreter of a script."""


def _hidden_program(said: Path, policy: SandboxPolicy, cwd: Path, env: Mapping[str, str]) -> str:
    """Return the path of a program that was not found in the sandbox and exists outside of it; else empty."""
    within = policy.confinement_at(cwd)
    try:
        with said.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            tail = file.read(_TAIL).decode(errors="replace")
    except OSError:
        return ""
    for name in reversed(_MISSING.findall(tail)):
        path = cwd / name if "/" in name else shutil.which(name, path=env.get("PATH", os.defpath))
        if path is not None and os.access(path, os.X_OK):
            hidden = [one for one in (Path(path), _interpreter(Path(path))) if one and not is_visible(one, within)]
            if hidden:
                return str(hidden[0])
    return ""


def hidden_path(paths: Sequence[str], policy: SandboxPolicy, cwd: Path) -> str:
    """Return the first of some absolute paths, or the interpreter of a script among them, that the sandbox hides.

    Paths that do not exist outside of the sandbox either are passed over.
    """
    within = policy.confinement_at(cwd)
    for path in map(Path, paths):
        for one in (path, _interpreter(path)):
            if one is not None and one.exists() and not is_visible(one, within):
                return str(one)
    return ""


def _interpreter(script: Path) -> Path | None:
    """Return the interpreter of a script if it exists; None if the file is no script."""
    try:
        with script.open("rb") as file:
            words = file.readline(_LINE).split() if file.read(2) == b"#!" else []
    except OSError:
        return None
    path = Path(os.fsdecode(words[0])) if words else None
    return path if path is not None and path.is_absolute() and os.access(path, os.X_OK) else None
