"""A namespace with overlay mounts of its own, kept by a holder process, and the processes that run in it."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from signal import SIGKILL, Signals

from goalrunner.checking.upper_layer import SYSTEM_PATH, Mount, Tools, filesystem, mount_commands, privileged
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.system import process_table
from goalrunner.system.adopted import as_helper
from goalrunner.system.launcher import SHELL
from goalrunner.system.process_table import VARIABLE, unmarked

_READY = b"ready\n"
_PATIENCE = 30.0
"""Seconds for the mounts, and for the processes to be gone at the end."""
GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""
_LINKS = 40
"""Symbolic links in one path, as in the kernel."""
_HOLD = """\
trap '' HUP INT QUIT TERM PIPE
echo ready
exec >/dev/null 2>&1
while "$1"; [ $? -gt 128 ]; do :; done
exit 0
"""
"""The first process of the namespace: a shell reaps every child while it waits for one. It ends when stdin is closed.

`$1` is `cat`; one that a check has killed is started again.
"""
_NOT_PERMITTED = "namespaces are not permitted here"
_ALLOW = "on Ubuntu: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"


class Namespace:
    """A mount namespace, with a process namespace where /proc can be mounted.

    A holder process keeps it. The holder reads a pipe of this process, so it ends with this process even on SIGKILL,
    and with it every process of the namespace.
    """

    def __init__(self, mounts: Sequence[Mount], tools: Tools) -> None:
        self._mounts = mounts
        self._tools = tools
        self._users = not privileged()
        self._holder: subprocess.Popen[bytes] | None = None
        self._running = 0
        self.own_processes = False
        """Whether it has a process namespace."""
        self.first = 0
        """The process id of the first process in the namespace."""

    def open(self) -> None:
        """Start the holder and mount. Raise EnvironmentFailed if that is not possible here."""
        said = ""
        for own_processes in (True, False):
            said = self._start(own_processes)
            if not said:
                return
            if "mount /proc failed" not in said:
                break
        why = _reason(said, self._mounts)
        raise EnvironmentFailed(why, _ALLOW if why.startswith(_NOT_PERMITTED) else "")

    def close(self) -> None:
        """End every process of the namespace. Raise EnvironmentFailed if one cannot be ended."""
        holder, self._holder = self._holder, None
        if holder is None:
            return
        for stream in (holder.stdin, holder.stdout):
            if stream is not None:
                stream.close()
        try:
            holder.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            holder.kill()
            holder.wait()
            raise EnvironmentFailed(
                "a process of a check cannot be ended", "see `ps`; it may wait for a disk"
            ) from None

    @property
    def alive(self) -> bool:
        """Return whether the first process runs; the memory of one that is about to end is gone."""
        if self._holder is None or self._holder.poll() is not None:
            return False
        try:
            return bool(os.readlink(f"/proc/{self.first}/exe"))
        except OSError:
            return False

    @property
    def view(self) -> str:
        """The root folder as processes in the namespace see it."""
        return f"/proc/{self.first}/root"

    def entering(self, argv: Sequence[str], folder: str) -> list[str]:
        """Return the command line that runs `argv` in the namespace; `folder` lies in `view`."""
        words = [str(self._tools.nsenter), "--target", str(self.first), "--mount", f"--wd={folder}"]
        words += ["--user", "--preserve-credentials"] if self._users else []
        words += ["--pid"] if self.own_processes else []
        return [*words, "--", *(map(self._reachable, argv) if self.own_processes else argv)]

    def _reachable(self, word: str) -> str:
        """Return a copy of an open file that this process offers in /proc: another /proc is mounted inside.

        The sandbox names its filter of system calls in this way.
        """
        if not word.startswith(f"/proc/{os.getpid()}/fd/"):
            return word
        sink, copy = tempfile.mkstemp(dir=self._mounts[0].folder)
        with open(word, "rb") as file, open(sink, "wb") as target:
            shutil.copyfileobj(file, target)
        return copy

    def located(self, path: Path) -> str:
        """Return `path` in `view`, with every symbolic link followed as inside the namespace."""
        waiting = [part for part in reversed(path.parts) if part != "/"]
        here: list[str] = []
        links = 0
        while waiting:
            name = waiting.pop()
            if name == "..":
                here[-1:] = []
                continue
            try:
                target = os.readlink("/".join((self.view, *here, name)))
            except OSError:
                here.append(name)
                continue
            links += 1
            if links > _LINKS:
                break
            here = [] if target.startswith("/") else here
            waiting += [part for part in reversed(target.split("/")) if part not in ("", ".")]
        return "/".join((self.view, *here))

    def began(self) -> None:
        """Note that a command starts."""
        self._running += 1

    def left(self) -> list[process_table.Process]:
        """Return the processes of the namespace that commands left behind; none while another command runs."""
        if not self.own_processes or self._holder is None or self._running > 1:
            return []
        found = process_table.family([self.first]).values()
        return [one for one in found if one.living and one.session != self._holder.pid]

    def ended(self) -> None:
        """Note that a command has ended, and end with SIGKILL what is left behind."""
        deadline = time.monotonic() + GRACE
        while (found := self.left()) and time.monotonic() < deadline:
            send_signal(found, SIGKILL)
            time.sleep(0.002)
        self._running -= 1

    def _start(self, own_processes: bool) -> str:
        """Start the holder; return what it printed if it failed."""
        environ = {"PATH": SYSTEM_PATH, "LC_ALL": "C"}
        environ |= {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}
        with unmarked():
            holder = subprocess.Popen(
                self._command(own_processes),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                cwd="/",
                env=as_helper(environ),
                start_new_session=True,
            )
        self._holder = holder
        said = _heard(holder)
        if said.endswith(_READY):
            first = process_table.children(holder.pid) if own_processes else [holder.pid]
            if first:
                self.first, self.own_processes = first[0], own_processes
                return ""
        holder.kill()
        self.close()
        return said.decode(errors="replace").strip() or "the namespace ended at once"

    def _command(self, own_processes: bool) -> list[str]:
        unshare, cat = str(self._tools.unshare), str(self._tools.cat)
        processes = ["--pid", "--fork", "--kill-child", "--mount-proc"] if own_processes else []
        mounting = "set -e\n" + "\n".join(mount_commands(self._mounts, self._tools))
        if not self._users:
            return [
                unshare,
                "--mount",
                "--propagation",
                "private",
                *processes,
                SHELL,
                "-c",
                f"{mounting}\n{_HOLD}",
                "hold",
                cat,
            ]
        # The second user namespace has the caller's ids. It needs mounts of its own: nsenter enters what belongs to it.
        ids = [f"--map-user={os.geteuid()}", f"--map-group={os.getegid()}"]
        second = shlex.join([unshare, "--user", *ids, "--mount", *processes, SHELL, "-c", _HOLD, "hold", cat])
        first = [unshare, "--user", "--map-root-user", "--mount", "--propagation", "private"]
        return [*first, SHELL, "-c", f"{mounting}\nexec {second}"]


def send_signal(processes: Sequence[process_table.Process], number: Signals) -> None:
    """Send a signal to processes; one that is gone is passed over."""
    for one in processes:
        with contextlib.suppress(OSError):
            os.kill(one.pid, number)


def _heard(holder: subprocess.Popen[bytes]) -> bytes:
    """Return what the holder prints until it is ready, or ends."""
    assert holder.stdout is not None
    said = b""
    poll = select.poll()
    poll.register(holder.stdout, select.POLLIN)
    deadline = time.monotonic() + _PATIENCE
    while not said.endswith(_READY) and (left := deadline - time.monotonic()) > 0:
        if poll.poll(left * 1000):
            part = os.read(holder.stdout.fileno(), 4096)
            if not part:
                break
            said += part
    return said


def _reason(said: str, mounts: Sequence[Mount]) -> str:
    """Return in one sentence why the namespace could not be set up, from what the programs printed."""
    lines = [line.strip() for line in said.splitlines() if "dmesg(1)" not in line and "--help" not in line]
    last = lines[-1] if lines else said
    if "overlay" not in last:
        if last.startswith("unshare:"):
            return f"{_NOT_PERMITTED} ({last.removeprefix('unshare:').strip()})"
        return f"the mounts failed ({last})"
    if "unknown filesystem" in last:
        return "this kernel has no overlay filesystem"
    if filesystem(mounts[0].folder) == "overlay":
        return f"{mounts[0].folder.parents[1]} lies on an overlay, which cannot hold the upper layer of another one"
    stacked = next((mount.root for mount in mounts if filesystem(mount.root) == "overlay"), None)
    if stacked is not None:
        return f"{stacked} lies on an overlay already, and Linux stacks two overlays at most"
    return f"the overlay could not be mounted ({last})"
