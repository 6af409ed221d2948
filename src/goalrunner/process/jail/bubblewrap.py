"""bubblewrap as the port `Jail`. Owns its command line; starts nothing.

Mount, process, IPC and host-name namespaces of its own, and one of the network where none is wanted. No capability by
which root could undo them, and no call that reaches the kernel's keyrings. `--die-with-parent` is left out on purpose: with
it, whoever outlives the command would be gone before anybody could say its name. Our own marks, sweep and guardian end
them, as without a jail. `--new-session` is left out because the launcher starts every command in a session of its own,
without a terminal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from goalrunner.ports import Confinement
from goalrunner.process.jail.mounts import TMP, Mount, mounts, tops
from goalrunner.process.jail.syscalls import filter_path
from goalrunner.process.program import SHELL

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
        """See `goalrunner.ports.Jail`."""
        words = [str(self.program), "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        words += ["--unshare-user"] if self.own_users else []
        words += [] if within.network else ["--unshare-net"]
        words += ["--cap-drop", "ALL"]
        if os.geteuid() == 0 and not self.own_users:
            words += [word for name in _ROOT_KEEPS for word in ("--cap-add", f"CAP_{name}")]
        return (*_filtered(words), *_laid_out(within), "--chdir", str(cwd), "--", *argv)

    def failure(self, exit_code: int | None, said: bytes) -> str:
        """See `goalrunner.ports.Jail`."""
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
