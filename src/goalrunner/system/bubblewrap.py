"""The command line of bubblewrap, its filter of system calls, and programs that it hides."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import assert_never

from goalrunner.core.process_ports import Confinement
from goalrunner.system.launcher import SHELL
from goalrunner.system.sandbox_view import TMP, Cell, Mount, mounts, tops

_X32 = 0x4000_0000
"""Bit of a call by the third way of an x86-64 kernel, with the same numbers."""

_CALLS: dict[str, dict[int, tuple[int, ...]]] = {
    "x86_64": {0xC000_003E: (248, 249, 250, 248 | _X32, 249 | _X32, 250 | _X32), 0x4000_0003: (286, 287, 288)},
    "aarch64": {0xC000_00B7: (217, 218, 219), 0x4000_0028: (309, 310, 311)},
}
"""By the kernel's machine, and the kind of a program there: add_key, request_key, keyctl."""

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _KIND_AT = 0, 4
_ALLOW, _REFUSE = 0x7FFF_0000, 0x0005_0000 | errno.EPERM


def program(machine: str) -> bytes:
    """The filter for a machine as `uname -m` names it; empty for one that is not known."""
    kinds = _CALLS.get(machine)
    if kinds is None:
        return b""
    code: list[tuple[int, int, int, int]] = []
    for kind, numbers in kinds.items():
        code += [(_LOAD, 0, 0, _KIND_AT), (_EQUAL, 0, len(numbers) + 3, kind), (_LOAD, 0, 0, _NUMBER_AT)]
        # To the refusal behind the others and the permission.
        code += [(_EQUAL, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
        code += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in code)


def filter_path() -> str:
    """A path under which a process of this user can open the filter as long as this one lives; empty where there is none."""
    return _path_of(os.getpid())


@cache
def _path_of(process: int) -> str:
    made = program(platform.machine())
    if not made:
        return ""
    file = os.memfd_create("goal-syscalls", os.MFD_CLOEXEC)
    os.write(file, made)
    return f"/proc/{process}/fd/{file}"


_ROOT_KEEPS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")
"""Of root's capabilities: what tar and package managers use. With DAC_READ_SEARCH, files would be opened past every mount."""

_PROC_READ_ONLY = (
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/proc/fs",
    "/proc/asound",
    "/proc/mtrr",
)
_PROC_HIDDEN = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats")

_OWN_WORDS = b"bwrap: "

_OPENING = (
    '{ command exec 9<"$0"; } 2>/dev/null || '
    '{ echo "bwrap: the filter of system calls cannot be opened" >&2; exit 1; }; exec "$@"'
)


@dataclass(frozen=True)
class Bubblewrap:
    """The program `program`, which nobody but the machine's owner can have put there."""

    program: Path
    own_users: bool = False
    """Whether a namespace of users must be asked for, as for a root that may do little."""

    @property
    def name(self) -> str:
        """ "bwrap"."""
        return "bwrap"

    def confine(self, argv: Sequence[str], *, cwd: Path, within: Confinement) -> tuple[str, ...]:
        """See `goalrunner.core.process_ports.Jail`."""
        words = [str(self.program), "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        words += ["--unshare-user"] if self.own_users else []
        words += [] if within.network else ["--unshare-net"]
        words += ["--cap-drop", "ALL"]
        if os.geteuid() == 0 and not self.own_users:
            words += [word for name in _ROOT_KEEPS for word in ("--cap-add", f"CAP_{name}")]
        return (*_filtered(words), *_laid_out(within), "--chdir", str(cwd), "--", *argv)

    def failure(self, exit_code: int | None, said: bytes) -> str:
        """See `goalrunner.core.process_ports.Jail`."""
        if exit_code != 1 or not said.startswith(_OWN_WORDS):
            return ""
        return said.removeprefix(_OWN_WORDS).partition(b"\n")[0].decode(errors="replace").strip()


def _filtered(words: list[str]) -> list[str]:
    """With the filter of system calls, which bwrap reads from an open file: a shell opens it, and becomes bwrap."""
    path = filter_path()
    return [SHELL, "-c", _OPENING, path, *words, "--seccomp", "9"] if path else words


def _laid_out(within: Confinement) -> Iterator[str]:
    laid = mounts(within)
    for mount in laid:
        yield from _words(mount)
        if mount.path == _ROOT:
            yield from ("--dev", "/dev", "--proc", "/proc", *_kernel())
        if mount.path == TMP:
            # A mount point is never another's to rename: nothing that a command does in its /tmp leads a later mount astray.
            for path in tops(laid):
                yield from ("--tmpfs", str(path))
    for mount in laid:
        if mount.kind == "hidden" and mount.is_folder and mount.path in within.hidden:
            yield from ("--remount-ro", str(mount.path))


def _kernel() -> Iterator[str]:
    """What root may write of /proc although it has no capabilities, as the owner of the files; bwrap itself leaves it open."""
    if os.geteuid() != 0:
        return
    for name in _PROC_READ_ONLY:
        if Path(name).exists():
            yield from ("--ro-bind", name, name)
    for name in _PROC_HIDDEN:
        if Path(name).exists():
            yield from ("--ro-bind", os.devnull, name)


def _words(mount: Mount) -> tuple[str, ...]:
    match mount.kind:
        case "hidden" if mount.is_folder:
            return ("--tmpfs", str(mount.path))
        case "hidden":
            return ("--ro-bind", os.devnull, str(mount.path))
        case "readable":
            return ("--ro-bind", str(mount.source), str(mount.path))
        case "writable":
            return ("--bind", str(mount.source), str(mount.path))
        case _:
            assert_never(mount.kind)


_ROOT = Path("/")


NOT_STARTED = (126, 127)
"""Exit codes of whoever was to start a program and could not: a shell, or env."""

_TAIL = 4_000
"""Bytes at the end of what was printed that are looked at."""

_LINE = 1_000
"""Bytes of the first line of a script."""

_NOT_FOUND = re.compile(r"([^\s:'\"`‘’]+)['\"`’]?: (?:command )?(?:not found|No such file or directory)")
"""As shells and env say it of a program, or of the interpreter of a script."""


def hidden_program(said: Path, cell: Cell, cwd: Path, env: Mapping[str, str]) -> str:
    """The path of a program that was missed in the jail and is there outside of it; empty where there is none.

    `said` is the file with what the command printed, which ended with an exit code of NOT_STARTED.
    """
    within = cell.within_at(cwd)
    for name in reversed(_NOT_FOUND.findall(_tail(said))):
        path = cwd / name if "/" in name else shutil.which(name, path=env.get("PATH", os.defpath))
        if path is not None and os.access(path, os.X_OK):
            out_of_view = [one for one in (Path(path), _interpreter(Path(path))) if one and not in_view(one, within)]
            if out_of_view:
                return str(out_of_view[0])
    return ""


def hidden_path(paths: Sequence[str], cell: Cell, cwd: Path) -> str:
    """Return the first of some absolute paths, or the interpreter of a script among them, that a jail does not show.

    Paths that do not exist outside of the jail either are passed over.
    """
    within = cell.within_at(cwd)
    for path in map(Path, paths):
        for one in (path, _interpreter(path)):
            if one is not None and one.exists() and not in_view(one, within):
                return str(one)
    return ""


def in_view(path: Path, within: Confinement) -> bool:
    """Whether a confined command finds what lies at an absolute path, and what a link there leads to."""
    laid = mounts(within)
    for spelled in (Path(os.path.normpath(path)), Path(os.path.realpath(path))):
        innermost = [mount for mount in laid if spelled.is_relative_to(mount.path)][-1]
        there = innermost.source / spelled.relative_to(innermost.path)
        if innermost.kind == "hidden" or not os.path.lexists(there):
            return False
    return True


def _interpreter(script: Path) -> Path | None:
    """Who runs a script, where that is somebody who is there; None for what is no script."""
    try:
        with script.open("rb") as file:
            words = file.readline(_LINE).split() if file.read(2) == b"#!" else []
    except OSError:
        return None
    path = Path(os.fsdecode(words[0])) if words else None
    return path if path is not None and path.is_absolute() and os.access(path, os.X_OK) else None


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            return file.read(_TAIL).decode(errors="replace")
    except OSError:
        return ""
