"""The command lines of bubblewrap, which start a command in a sandbox."""

from __future__ import annotations

import errno
import os
import platform
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from goalrunner.system.launcher import SHELL, program_outside
from goalrunner.system.sandbox_view import TMP, Confinement, mounts, real_path, tops

# The bit of a call through the x32 interface of an x86-64 kernel, which has the same
# numbers.
_X32 = 0x4000_0000

# The numbers of add_key, request_key and keyctl, by machine and by the audit
# architecture of a program. All processes of a user share the keyrings of the kernel,
# and bwrap does not separate them.
_CALLS: dict[str, dict[int, tuple[int, ...]]] = {
    "x86_64": {
        0xC000_003E: (248, 249, 250, 248 | _X32, 249 | _X32, 250 | _X32),
        0x4000_0003: (286, 287, 288),
    },
    "aarch64": {0xC000_00B7: (217, 218, 219), 0x4000_0028: (309, 310, 311)},
}

# Instructions, offsets and results of a classic BPF filter for seccomp.
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_ALLOW, _REFUSE = 0x7FFF_0000, 0x0005_0000 | errno.EPERM


def seccomp_filter(machine: str) -> bytes:
    """Return the seccomp filter for a machine as `uname -m` names it.

    Empty for an unknown one.
    """
    architectures = _CALLS.get(machine)
    if architectures is None:
        return b""
    # Code, jump if true, jump if false, operand.
    code: list[tuple[int, int, int, int]] = []
    for architecture, numbers in architectures.items():
        code.append((_LOAD, 0, 0, _ARCHITECTURE_AT))
        # Another architecture jumps over this block.
        code.append((_EQUAL, 0, len(numbers) + 3, architecture))
        code.append((_LOAD, 0, 0, _NUMBER_AT))
        for index, number in enumerate(numbers):
            # A match jumps over the other numbers and the permission to the refusal.
            code.append((_EQUAL, len(numbers) - index, 0, number))
        code.append((_RETURN, 0, 0, _ALLOW))
        code.append((_RETURN, 0, 0, _REFUSE))
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


@cache
def filter_path() -> str:
    """Return a path under which processes of this user can open the filter.

    It exists while this program runs. Empty without a filter.
    """
    code = seccomp_filter(platform.machine())
    if not code:
        return ""
    file = os.memfd_create("goal-syscalls", os.MFD_CLOEXEC)
    os.write(file, code)
    return f"/proc/{os.getpid()}/fd/{file}"


# The capabilities of root that tar and package managers need. DAC_READ_SEARCH would
# open files past every mount.
_ROOT_CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETUID",
)

# The parts of /proc that are read-only or hidden. Root could write and read them even
# without capabilities; bwrap leaves them open.
_READ_ONLY_PROC = ("sys", "sysrq-trigger", "irq", "bus", "fs", "asound", "mtrr")
_HIDDEN_PROC = ("kcore", "keys", "timer_list", "sched_debug", "latency_stats")

_OPENING = (
    '{ command exec 9<"$0"; } 2>/dev/null || '
    '{ echo "bwrap: the filter of system calls cannot be opened" >&2; exit 1; }; '
    'exec "$@"'
)


@dataclass(frozen=True)
class Bubblewrap:
    """Builds command lines that start a command in a sandbox of bubblewrap.

    `program` is its path. Processes in the sandbox stay visible from outside, so that
    they are ended like all others.
    """

    name = "bwrap"
    program: Path
    own_users: bool = False
    """Whether to ask for a user namespace, as for a root with few capabilities."""

    def confine(
        self, argv: Sequence[str], *, cwd: Path, within: Confinement
    ) -> tuple[str, ...]:
        """Return the command line that runs `argv` in `cwd` of the sandbox."""
        words = [
            str(self.program),
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup-try",
        ]
        if self.own_users:
            words.append("--unshare-user")
        if not within.network:
            words.append("--unshare-net")
        words += ["--cap-drop", "ALL"]
        if os.geteuid() == 0 and not self.own_users:
            for name in _ROOT_CAPABILITIES:
                words += ["--cap-add", f"CAP_{name}"]
        filter_file = filter_path()
        if filter_file:
            # bwrap reads the filter from an open file: a shell opens it and then
            # becomes bwrap.
            words = [SHELL, "-c", _OPENING, filter_file, *words, "--seccomp", "9"]
        return (*words, *_mount_options(within), "--chdir", str(cwd), "--", *argv)


def _mount_options(within: Confinement) -> Iterator[str]:
    ordered_mounts = mounts(within)
    for mount in ordered_mounts:
        if mount.kind == "hidden" and mount.is_folder:
            yield from ("--tmpfs", str(mount.path))
        elif mount.kind == "hidden":
            yield from ("--ro-bind", os.devnull, str(mount.path))
        else:
            option = "--bind" if mount.kind == "writable" else "--ro-bind"
            yield from (option, str(mount.source), str(mount.path))
        if mount.path == Path("/"):
            yield from ("--dev", "/dev", "--proc", "/proc")
            yield from _proc_options()
        if mount.path == TMP:
            # A mount point cannot be renamed: no command can lead a later mount in /tmp
            # astray.
            for path in tops(ordered_mounts):
                yield from ("--tmpfs", str(path))
    # Made read-only last, because mounts inside of them need mount points.
    for mount in ordered_mounts:
        if mount.kind == "hidden" and mount.is_folder and mount.path in within.hidden:
            yield from ("--remount-ro", str(mount.path))


def _proc_options() -> Iterator[str]:
    if os.geteuid() != 0:
        return
    for name in (*_READ_ONLY_PROC, *_HIDDEN_PROC):
        path = f"/proc/{name}"
        source = os.devnull if name in _HIDDEN_PROC else path
        if Path(path).exists():
            yield from ("--ro-bind", source, path)


_ALLOW_NAMESPACES = (
    "allow this user to create namespaces: an AppArmor profile for bwrap with userns, "
    "sysctl user.max_user_namespaces=15000, "
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
    """Try the sandboxes of this system.

    No program is taken from `writable`, which an agent can write.
    """
    if sys.platform != "linux":
        return Choice(
            None,
            "bubblewrap runs on Linux alone",
            "run it in a container or a virtual machine",
        )
    program = program_outside("bwrap", environ, writable)
    if program is None:
        return Choice(None, "bwrap is not on PATH", INSTALL)
    return _first_working(program, network)


@cache
def _first_working(program: Path, network: bool) -> Choice:
    reasons = []
    with tempfile.TemporaryDirectory(prefix="goal-sandbox-") as name:
        folder = real_path(Path(name))
        for sandbox in (Bubblewrap(program), Bubblewrap(program, own_users=True)):
            reason = _trial(sandbox, folder, network=network)
            if not reason:
                return Choice(sandbox)
            reasons.append(reason)
    return Choice(None, f"{program} fails ({reasons[0]})", _ALLOW_NAMESPACES)


def _trial(sandbox: Bubblewrap, folder: Path, *, network: bool) -> str:
    """Return why a sandbox does not work; empty if it does.

    It works if a command starts and cannot write a read-only folder.
    """
    within = Confinement(readable=(folder,), network=network)
    command = [SHELL, "-c", "! (echo > made)"]
    try:
        finished = subprocess.run(
            sandbox.confine(command, cwd=folder, within=within),
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if not finished.returncode:
        return ""
    if (folder / "made").exists():
        return "it lets commands write read-only folders"
    message = finished.stderr.decode(errors="replace").strip()
    first_line = message.removeprefix("bwrap: ").partition("\n")[0]
    return first_line or f"exit {finished.returncode}"
