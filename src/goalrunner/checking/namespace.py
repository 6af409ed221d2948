"""A namespace with overlay mounts and processes of its own, kept by a holder process, and a launcher into it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import NamedTuple, Unpack

import psutil

from goalrunner.core.errors import EnvironmentFailed
from goalrunner.core.ports import Completion, Launcher, LaunchOptions
from goalrunner.system import processes
from goalrunner.system.child import NOT_EXECUTABLE, NOT_FOUND
from goalrunner.system.launch_tags import VARIABLE, starting
from goalrunner.system.launcher import SHELL, program_outside

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_READY = b"ready\n"
_PATIENCE = 30.0
"""Seconds for the mounts, and for the processes to be gone at the end."""
_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""
_PARTING = 0.05
"""Seconds for processes that are about to end by themselves when their command ends."""
_NO_FOLDER = 125
"""Exit code of `env` if the working folder cannot be entered."""
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
_ALLOW = "on Ubuntu: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"


def find_tools(environ: Mapping[str, str], roots: Sequence[Path]) -> dict[str, str]:
    """Return the programs that make a namespace, outside of `roots`. Raise EnvironmentFailed if one is missing."""
    if sys.platform != "linux":
        raise EnvironmentFailed("overlays need Linux")
    path = {"PATH": f"{environ.get('PATH', os.defpath)}:{SYSTEM_PATH}"}
    found = {}
    for name in ("unshare", "nsenter", "mount", "umount", "cat", "env"):
        program = program_outside(name, path, roots)
        if program is None:
            raise EnvironmentFailed(
                f"{name} is not installed", "install util-linux and coreutils"
            )
        found[name] = str(program)
    return found


def is_privileged() -> bool:
    """Return whether this process is root and may mount, so that no user namespace is needed."""
    found = re.search(
        r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE
    )
    # 21 is CAP_SYS_ADMIN.
    return os.geteuid() == 0 and found is not None and bool(int(found[1], 16) >> 21 & 1)


def mount_points() -> list[Path]:
    """Return every mount point."""
    return [Path(one.mountpoint) for one in psutil.disk_partitions(all=True)]


class OverlayMount(NamedTuple):
    """One overlay. `folder` has the upper layer `u`, the work folder `w`, the layer `p`, and empty `l` and `s`."""

    root: Path
    """The folder that it covers, and its lowest layer."""
    folder: Path
    between: Path | None = None
    """A layer above `p`, if there is one."""


class Namespace:
    """A mount namespace and a process namespace.

    A holder process keeps the namespaces. It reads a pipe of this process, so it ends with this process even on
    SIGKILL, and with it every process of the namespace.
    """

    def __init__(
        self, mounts: Sequence[OverlayMount], tools: Mapping[str, str]
    ) -> None:
        self._mounts = mounts
        self._tools = tools
        self.own_words = os.fsencode(f"{tools['env']}: ")
        """Prefix of the messages of `env` itself."""
        self._users = not is_privileged()
        self._holder: subprocess.Popen[bytes] | None = None
        self.running = 0
        """The number of commands that run."""
        self.first = 0
        """The process id of the first process in the namespace."""

    def open(self) -> None:
        """Start the holder and mount. Raise EnvironmentFailed if that is not possible here."""
        environ = {"PATH": SYSTEM_PATH, "LC_ALL": "C"}
        environ |= {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}
        with starting:
            self._holder = holder = subprocess.Popen(
                self._command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                cwd="/",
                env=environ,
                process_group=0,
            )
        printed = _read_until_ready(holder)
        if printed.endswith(_READY) and (first := processes.children(holder.pid)):
            self.first = first[0]
            return
        holder.kill()
        self.close()
        message = (
            printed.decode(errors="replace").strip() or "the namespace ended at once"
        )
        lines = [
            line.strip()
            for line in message.splitlines()
            if "dmesg(1)" not in line and "--help" not in line
        ]
        if lines and lines[-1].startswith("unshare:"):
            why = f"namespaces are not permitted here ({lines[-1].removeprefix('unshare:').strip()})"
            raise EnvironmentFailed(why, _ALLOW)
        raise EnvironmentFailed(
            f"the overlay could not be mounted ({lines[-1] if lines else message})"
        )

    def close(self) -> None:
        """End every process of the namespace. Raise EnvironmentFailed if one cannot be ended."""
        holder, self._holder = self._holder, None
        if holder is None:
            return
        for stream in (holder.stdin, holder.stdout):
            if stream is not None:
                with contextlib.suppress(
                    OSError
                ):  # it is closed all the same, and the processes have to be waited for
                    stream.close()
        try:
            holder.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            holder.kill()
            holder.wait()
            why, hint = (
                "a process of a check cannot be ended",
                "see `ps`; it may wait for a disk",
            )
            raise EnvironmentFailed(why, hint) from None

    @property
    def alive(self) -> bool:
        """Return whether the first process runs. A process that is ending has no executable any more."""
        if self._holder is None or self._holder.poll() is not None:
            return False
        try:
            return bool(os.readlink(f"/proc/{self.first}/exe"))
        except OSError:
            return False

    def entering(self, argv: Sequence[str], folder: Path) -> list[str]:
        """Return the command line that runs `argv` in a folder of the namespace."""
        words = [
            self._tools["nsenter"],
            "--target",
            str(self.first),
            "--mount",
            "--pid",
        ]
        words += ["--user", "--preserve-credentials"] if self._users else []
        # `env` enters the folder inside of the namespace, where its links may have other targets.
        return [
            *words,
            "--",
            self._tools["env"],
            f"--chdir={folder}",
            "--",
            *map(self._reachable, argv),
        ]

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

    async def end_rest(self) -> None:
        """End the processes that commands left behind, unless another command runs."""
        for signal, seconds in ((None, _PARTING), (SIGTERM, _GRACE), (SIGKILL, _GRACE)):
            for one in self._left() if signal else ():
                processes.send_signal(one.pid, signal or SIGKILL)
            deadline = time.monotonic() + seconds
            while (left := self._left()) and time.monotonic() < deadline:  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0.002)
            if not left:
                return

    def _left(self) -> list[processes.Process]:
        if self._holder is None or self.running:
            return []
        found = processes.family([self.first]).values()
        return [one for one in found if one.living and one.session != os.getsid(0)]

    def _command(self) -> list[str]:
        unshare, cat = self._tools["unshare"], self._tools["cat"]
        own_processes = ["--pid", "--fork", "--kill-child", "--mount-proc"]
        mount, umount = self._tools["mount"], self._tools["umount"]
        # The lower layers are bound first: a mount covers what lies below it, and a path may have a meaning in the options.
        binds = [(one.root, one.folder / "l") for one in self._mounts]
        binds += [
            (one.between, one.folder / "s")
            for one in self._mounts
            if one.between is not None
        ]
        lines = [
            [mount, "-i", "--bind", str(source), str(target)]
            for source, target in binds
        ]
        for one in self._mounts:
            layers = "p:l" if one.between is None else "s:p:l"
            options = f"lowerdir={layers},upperdir=u,workdir=w,userxattr"
            lines.append(["cd", str(one.folder)])
            lines.append(
                [mount, "-i", "-t", "overlay", "-o", options, "overlay", str(one.root)]
            )
        lines += [["cd", "/"], *([umount, "-i", str(target)] for _, target in binds)]
        mounting = "\n".join(["set -e", *map(shlex.join, lines)])
        private = ["--mount", "--propagation", "private"]
        if not self._users:
            return [
                unshare,
                *private,
                *own_processes,
                SHELL,
                "-c",
                f"{mounting}\n{_HOLD}",
                "hold",
                cat,
            ]
        # The second user namespace has the caller's ids. nsenter can only enter a mount namespace that belongs to it.
        ids = [f"--map-user={os.geteuid()}", f"--map-group={os.getegid()}"]
        second = shlex.join(
            [
                unshare,
                "--user",
                *ids,
                "--mount",
                *own_processes,
                SHELL,
                "-c",
                _HOLD,
                "hold",
                cat,
            ]
        )
        return [
            unshare,
            "--user",
            "--map-root-user",
            *private,
            SHELL,
            "-c",
            f"{mounting}\nexec {second}",
        ]


@dataclass(frozen=True)
class NamespaceLauncher:
    """The port `Launcher` in a namespace. When its last command returns, the processes that are left are ended."""

    inner: Launcher
    namespace: Namespace

    async def launch(
        self, argv: Sequence[str], **options: Unpack[LaunchOptions]
    ) -> Completion:
        """See `goalrunner.core.ports.Launcher`. Raise EnvironmentFailed if the namespace is gone."""
        cwd = options["cwd"]
        if not cwd.is_dir():  # it may exist inside alone; then PWD is set by `env`
            options["cwd"] = Path("/")
            options["env"] = {
                name: value for name, value in options["env"].items() if name != "PWD"
            }
        self.namespace.running += 1
        try:
            done = await self.inner.launch(
                self.namespace.entering(argv, cwd.absolute()), **options
            )
        finally:
            self.namespace.running -= 1
        await self.namespace.end_rest()
        if not self.namespace.alive:
            raise EnvironmentFailed(
                "the check environment ended while a check ran", "start the run again"
            )
        return self._never_ran(done, options.get("errors") or options["output"])

    def _never_ran(self, done: Completion, printed: Path) -> Completion:
        """Return the completion with the message of `env` as its error if the command could not be started."""
        if done.exit_code not in (_NO_FOLDER, NOT_EXECUTABLE, NOT_FOUND):
            return done
        words = self.namespace.own_words
        with printed.open("rb") as file:
            line = file.readline()
        if not line.startswith(words):
            return done
        os.truncate(printed, 0)
        why = line.removeprefix(words).decode(errors="replace").strip()
        return replace(
            done,
            exit_code=NOT_FOUND if done.exit_code == NOT_FOUND else NOT_EXECUTABLE,
            error=why,
        )


def _read_until_ready(holder: subprocess.Popen[bytes]) -> bytes:
    """Return what the holder prints until it is ready, or ends."""
    assert holder.stdout is not None
    printed, part, deadline = b"", b"x", time.monotonic() + _PATIENCE
    poll = select.poll()
    poll.register(holder.stdout, select.POLLIN)
    while (
        part
        and not printed.endswith(_READY)
        and (left := deadline - time.monotonic()) > 0
    ):
        if poll.poll(left * 1000):
            part = os.read(holder.stdout.fileno(), 4096)
            printed += part
    return printed
