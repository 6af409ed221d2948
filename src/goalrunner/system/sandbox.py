"""The sandbox of bubblewrap: its command lines, a launcher that starts everything in it, and programs that it hides."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Unpack

from goalrunner.core.ports import HIDDEN, Completion, Launcher, LaunchOptions
from goalrunner.system.child import NOT_EXECUTABLE, NOT_FOUND, unstartable
from goalrunner.system.launcher import SHELL, program_outside, tail_of
from goalrunner.system.sandbox_view import (
    TMP,
    Confinement,
    is_visible,
    make_ready,
    mounts,
    real_path,
    tops,
)

_X32 = 0x4000_0000  # the bit of a call through the x32 interface of an x86-64 kernel, which has the same numbers

_CALLS: dict[str, dict[int, tuple[int, ...]]] = {
    "x86_64": {
        0xC000_003E: (248, 249, 250, 248 | _X32, 249 | _X32, 250 | _X32),
        0x4000_0003: (286, 287, 288),
    },
    "aarch64": {0xC000_00B7: (217, 218, 219), 0x4000_0028: (309, 310, 311)},
}
"""The numbers of add_key, request_key and keyctl, by machine and by the audit architecture of a program."""

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _KIND_AT = 0, 4
_ALLOW, _REFUSE = 0x7FFF_0000, 0x0005_0000 | errno.EPERM


def seccomp_filter(machine: str) -> bytes:
    """Return the seccomp filter for a machine as `uname -m` names it; empty for an unknown one."""
    kinds = _CALLS.get(machine)
    if kinds is None:
        return b""
    code: list[tuple[int, int, int, int]] = []
    for kind, numbers in kinds.items():
        code += [
            (_LOAD, 0, 0, _KIND_AT),
            (_EQUAL, 0, len(numbers) + 3, kind),
            (_LOAD, 0, 0, _NUMBER_AT),
        ]
        # Each jumps over the rest and the permission to the refusal.
        code += [
            (_EQUAL, len(numbers) - at, 0, number) for at, number in enumerate(numbers)
        ]
        code += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in code)


@cache
def filter_path() -> str:
    """Return a path under which processes of this user can open the filter while this program runs; empty without one."""
    code = seccomp_filter(platform.machine())
    if not code:
        return ""
    file = os.memfd_create("goal-syscalls", os.MFD_CLOEXEC)
    os.write(file, code)
    return f"/proc/{os.getpid()}/fd/{file}"


_ROOT_KEEPS = (
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETUID",
)
"""The capabilities of root that tar and package managers need. DAC_READ_SEARCH would open files past every mount."""

_PROC = {
    **{
        f"/proc/{name}": f"/proc/{name}"
        for name in ("sys", "sysrq-trigger", "irq", "bus", "fs", "asound", "mtrr")
    },
    **{
        f"/proc/{name}": os.devnull
        for name in ("kcore", "keys", "timer_list", "sched_debug", "latency_stats")
    },
}
"""The parts of /proc that are read-only or hidden, with what is shown in their place."""

_OPENING = (
    '{ command exec 9<"$0"; } 2>/dev/null || '
    '{ echo "bwrap: the filter of system calls cannot be opened" >&2; exit 1; }; exec "$@"'
)


@dataclass(frozen=True)
class Bubblewrap:
    """Builds command lines that start a command in a sandbox of bubblewrap, the program `program`.

    Processes in the sandbox stay visible from outside, so that they are ended like all others.
    """

    name = "bwrap"
    program: Path
    own_users: bool = False  # whether to ask for a user namespace, as for a root with few capabilities

    def confine(
        self, argv: Sequence[str], *, cwd: Path, within: Confinement
    ) -> tuple[str, ...]:
        """Return the command line that runs `argv` in the folder `cwd` of the sandbox."""
        words = [
            str(self.program),
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup-try",
        ]
        words += ["--unshare-user"] if self.own_users else []
        words += [] if within.network else ["--unshare-net"]
        words += ["--cap-drop", "ALL"]
        if os.geteuid() == 0 and not self.own_users:
            words += [
                word for name in _ROOT_KEEPS for word in ("--cap-add", f"CAP_{name}")
            ]
        if path := filter_path():
            # bwrap reads the filter from an open file: a shell opens it and then becomes bwrap.
            words = [SHELL, "-c", _OPENING, path, *words, "--seccomp", "9"]
        return (*words, *_laid_out(within), "--chdir", str(cwd), "--", *argv)


def _laid_out(within: Confinement) -> Iterator[str]:
    laid = mounts(within)
    for mount in laid:
        if mount.kind == "hidden" and mount.is_folder:
            yield from ("--tmpfs", str(mount.path))
        else:
            option = "--bind" if mount.kind == "writable" else "--ro-bind"
            yield from (
                option,
                os.devnull if mount.kind == "hidden" else str(mount.source),
                str(mount.path),
            )
        if mount.path == Path("/"):
            yield from ("--dev", "/dev", "--proc", "/proc")
            # Root could write these even without capabilities; bwrap leaves them open.
            for path, source in _PROC.items() if os.geteuid() == 0 else ():
                if Path(path).exists():
                    yield from ("--ro-bind", source, path)
        if mount.path == TMP:
            # A mount point cannot be renamed: no command can lead a later mount in /tmp astray.
            yield from (word for path in tops(laid) for word in ("--tmpfs", str(path)))
    for mount in laid:
        if mount.kind == "hidden" and mount.is_folder and mount.path in within.hidden:
            yield from ("--remount-ro", str(mount.path))


@dataclass(frozen=True)
class WritableRoot:
    """A folder in which commands may write everything. `tmp` is mounted as their /tmp; it lies in no such folder."""

    folder: Path
    tmp: Path | None = None
    sees: tuple[
        Path, ...
    ] = ()  # folders that stay visible to its commands, wherever they lie


@dataclass(frozen=True)
class SandboxPolicy:
    """What commands may see and write. A command writes the root in which it starts; one that starts elsewhere, none.

    `within` holds for all of them.
    """

    sandbox: Bubblewrap
    roots: tuple[WritableRoot, ...]
    within: Confinement

    def confined(
        self, argv: Sequence[str], cwd: Path, shared: Sequence[Path] = ()
    ) -> tuple[str, ...]:
        """Return the command line that runs `argv` in `cwd` of the sandbox. Raise RecordError if its /tmp cannot be made."""
        within = self.confinement_at(cwd, shared)
        make_ready(within)
        return self.sandbox.confine(argv, cwd=real_path(cwd), within=within)

    def confinement_at(self, cwd: Path, shared: Sequence[Path] = ()) -> Confinement:
        """Return what a command that starts in `cwd` may see and write."""
        here = real_path(cwd)
        root = next(
            (root for root in self.roots if here.is_relative_to(root.folder)), None
        )
        return replace(
            self.within,
            writable=(
                *self.within.writable,
                *map(real_path, shared),
                *((root.folder,) if root else ()),
            ),
            readable=(*self.within.readable, *(root.sees if root else (here,))),
            tmp=root.tmp if root else None,
        )


_NOT_STARTED = (
    NOT_EXECUTABLE,
    NOT_FOUND,
)  # exit codes of a shell or of env that could not start a program


@dataclass(frozen=True)
class SandboxedLauncher:
    """The port `Launcher` in a sandbox."""

    inner: Launcher
    policy: SandboxPolicy

    async def launch(
        self, argv: Sequence[str], **options: Unpack[LaunchOptions]
    ) -> Completion:
        """See `goalrunner.core.ports.Launcher`."""
        cwd, env, output = options["cwd"], options["env"], options["output"]
        if (missing := unstartable(argv, cwd, env)) is not None:
            output.touch(mode=0o600)
            return Completion(
                missing.exit_code,
                0.0,
                timed_out=False,
                output=output,
                error=missing.reason,
            )
        shared, errors = options.pop("shared", ()), options.get("errors") or output
        confined = self.policy.confined(argv, cwd, shared)
        done = await self.inner.launch(confined, **options)
        if _failure(done.exit_code, errors):
            # Nothing can be mounted over a socket that was removed in the meantime.
            again = self.policy.confined(argv, cwd, shared)
            done = (
                await self.inner.launch(again, **options) if again != confined else done
            )
        if (
            "bwrap" in done.survivors
        ):  # the sandbox's own first process, which stays while any other one is in it
            at = done.survivors.index("bwrap")
            done = replace(
                done, survivors=(*done.survivors[:at], *done.survivors[at + 1 :])
            )
        if not done.exit_code or done.error:
            return done
        why = unstarted(
            self.policy, done.exit_code, errors, argv=argv, cwd=cwd, env=env
        )
        if not why:
            return done
        # A command that never ran has no exit code.
        started = done.exit_code if done.exit_code in _NOT_STARTED else NOT_FOUND
        return replace(done, exit_code=started if HIDDEN in why else None, error=why)


def unstarted(
    policy: SandboxPolicy,
    exit_code: int,
    errors: Path,
    *,
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
) -> str:
    """Return why a sandboxed command never ran, or which program it did not find because it is hidden; else empty.

    `errors` is the file with its stderr.
    """
    if why := _failure(exit_code, errors):
        return (
            f"{argv[0]}: {HIDDEN}"
            if why.startswith("execvp")
            else f"the sandbox could not be set up: {why}"
        )
    program = (
        _hidden_program(errors, policy, cwd, env) if exit_code in _NOT_STARTED else ""
    )
    return f"{program}: {HIDDEN}" if program else ""


def _failure(exit_code: int | None, errors: Path) -> str:
    """Return why bubblewrap did not start a command; empty if it did. A command that prints the same never ran."""
    kind, _, why = _first_bytes(errors).partition(b"\n")[0].partition(b": ")
    return (
        why.decode(errors="replace").strip()
        if (exit_code, kind) == (1, b"bwrap")
        else ""
    )


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4_096)
    except OSError:
        return b""


_MISSING = re.compile(
    r"([^\s:'\"`‘’]+)['\"`’]?: (?:command )?(?:not found|No such file or directory)"
)
"""The messages of shells and env about a program, or about the interpreter of a script."""


def _hidden_program(
    errors: Path, policy: SandboxPolicy, cwd: Path, env: Mapping[str, str]
) -> str:
    """Return the path of a program that was not found in the sandbox and exists outside of it; else empty."""
    names = reversed(_MISSING.findall(tail_of(errors)))
    found = (
        cwd / name
        if "/" in name
        else shutil.which(name, path=env.get("PATH", os.defpath))
        for name in names
    )
    return hidden_path(
        [str(path) for path in found if path is not None and os.access(path, os.X_OK)],
        policy,
        cwd,
    )


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
    first = _first_bytes(script).split(b"\n")[0]
    path = (
        Path(os.fsdecode(first[2:].split()[0]))
        if first.startswith(b"#!") and first[2:].split()
        else None
    )
    return (
        path
        if path is not None and path.is_absolute() and os.access(path, os.X_OK)
        else None
    )


_ALLOW_NAMESPACES = (
    "allow this user to create namespaces: an AppArmor profile for bwrap with userns, sysctl user.max_user_namespaces=15000, "
    "or in a container --security-opt seccomp=unconfined (and apparmor=unconfined)"
)

INSTALL = "install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap)"


@dataclass(frozen=True)
class Choice:
    """A sandbox that was tried and works, or None with the reason and the remedy."""

    sandbox: Bubblewrap | None
    why: str = ""
    remedy: str = ""


def choose(
    environ: Mapping[str, str], writable: Sequence[Path], *, network: bool = True
) -> Choice:
    """Try the sandboxes of this system. No program is taken from `writable`, which an agent can write."""
    if sys.platform != "linux":
        return Choice(
            None,
            "bubblewrap runs on Linux alone",
            "run it in a container or a virtual machine",
        )
    program = program_outside("bwrap", environ, writable)
    if program is None:
        return Choice(None, "bwrap is not on PATH", INSTALL)
    return _tried(program, network)


@cache
def _tried(program: Path, network: bool) -> Choice:
    reasons = []
    with tempfile.TemporaryDirectory(prefix="goal-sandbox-") as made:
        folder = real_path(Path(made))
        within = Confinement(readable=(folder,), network=network)
        for sandbox in (Bubblewrap(program), Bubblewrap(program, own_users=True)):
            try:
                argv = sandbox.confine(
                    [SHELL, "-c", "! (echo > made)"], cwd=folder, within=within
                )
                done = subprocess.run(
                    argv,
                    env={},
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=20,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                reasons.append(str(error))
                continue
            if not done.returncode:
                return Choice(sandbox)
            message = (
                done.stderr.decode(errors="replace")
                .strip()
                .removeprefix("bwrap: ")
                .partition("\n")[0]
            )
            is_open = (folder / "made").exists()
            reasons.append(
                "it lets commands write read-only folders"
                if is_open
                else message or f"exit {done.returncode}"
            )
    return Choice(None, f"{program} fails ({reasons[0]})", _ALLOW_NAMESPACES)
