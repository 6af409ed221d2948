"""A namespace with overlay mounts and processes of its own.

A holder process keeps it; a launcher starts commands in it.
"""

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
from goalrunner.snapshots.file_times import is_overlay
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
"""Seconds for processes that end by themselves when their command ends."""
_NO_FOLDER = 125
"""Exit code of `env` if the working folder cannot be entered."""
_CAP_SYS_ADMIN = 21
"""The number of the capability to mount."""
_HOLD = """\
trap '' HUP INT QUIT TERM PIPE
echo ready
exec >/dev/null 2>&1
while "$1"; [ $? -gt 128 ]; do :; done
exit 0
"""
"""The first process of the namespace, a shell that ends when stdin is closed.

It reaps every child while it waits for one. `$1` is `cat`; one that a check has killed
is started again.
"""
_ALLOW = "on Ubuntu: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"


def find_tools(environ: Mapping[str, str], roots: Sequence[Path]) -> dict[str, str]:
    """Return the programs that make a namespace, outside of `roots`.

    Raise EnvironmentFailed if one is missing.
    """
    if sys.platform != "linux":
        raise EnvironmentFailed("overlays need Linux")
    path = {"PATH": f"{environ.get('PATH', os.defpath)}:{SYSTEM_PATH}"}
    tools: dict[str, str] = {}
    for name in ("unshare", "nsenter", "mount", "umount", "cat", "env"):
        program = program_outside(name, path, roots)
        if program is None:
            raise EnvironmentFailed(
                f"{name} is not installed",
                "install util-linux and coreutils",
            )
        tools[name] = str(program)
    return tools


def is_privileged() -> bool:
    """Return whether this process is root and may mount.

    Then no user namespace is needed. In a container, root often may not mount.
    """
    status = Path("/proc/self/status").read_text()
    match = re.search(r"^CapEff:\s*(\w+)", status, re.MULTILINE)
    if os.geteuid() != 0 or match is None:
        return False
    return bool(int(match[1], 16) >> _CAP_SYS_ADMIN & 1)


def mount_points() -> list[Path]:
    """Return every mount point."""
    partitions = psutil.disk_partitions(all=True)
    return [Path(partition.mountpoint) for partition in partitions]


class OverlayMount(NamedTuple):
    """One overlay."""

    root: Path
    """The folder that it covers, and its lowest layer."""
    folder: Path
    """It has the upper layer `u`, the work folder `w`, the layer `p`, and empty folders
    `l` and `s`."""
    between: Path | None = None
    """A layer above `p`, if there is one."""


class Namespace:
    """A mount namespace and a process namespace.

    A holder process keeps the namespaces. It reads a pipe of this process, so it ends
    with this process even on SIGKILL, and with it every process of the namespace.
    """

    def __init__(
        self,
        mounts: Sequence[OverlayMount],
        tools: Mapping[str, str],
    ) -> None:
        self._mounts = mounts
        self._tools = tools
        self.env_prefix = os.fsencode(f"{tools['env']}: ")
        """Prefix of the messages of `env` itself."""
        # A user may mount only in a user namespace of its own.
        self._needs_users = not is_privileged()
        """Whether a user namespace is needed."""
        self._holder: subprocess.Popen[bytes] | None = None
        self.running = 0
        """The number of commands that run."""
        self.first = 0
        """The process id of the first process in the namespace."""

    def open(self) -> None:
        """Start the holder and mount. Raise EnvironmentFailed if that fails."""
        environ = {"PATH": SYSTEM_PATH, "LC_ALL": "C"}
        # With it, a later command ends the processes of a runner that was killed.
        if VARIABLE in os.environ:
            environ[VARIABLE] = os.environ[VARIABLE]
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
        children = processes.children(holder.pid) if printed.endswith(_READY) else []
        if children:
            self.first = children[0]
            return
        holder.kill()
        self.close()
        roots = [mount.root for mount in self._mounts]
        raise _not_opened(printed.decode(errors="replace").strip(), roots)

    def close(self) -> None:
        """End every process of the namespace.

        Raise EnvironmentFailed if one cannot be ended.
        """
        holder, self._holder = self._holder, None
        if holder is None:
            return
        for stream in (holder.stdin, holder.stdout):
            if stream is not None:
                # After an error it is closed nevertheless, and the processes have to be
                # waited for.
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            holder.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            holder.kill()
            holder.wait()
            raise EnvironmentFailed(
                "a process of a check cannot be ended",
                "see `ps`; it may wait for a disk",
            ) from None

    @property
    def alive(self) -> bool:
        """Return whether the first process runs."""
        if self._holder is None or self._holder.poll() is not None:
            return False
        # A process that is ending has no executable any more.
        try:
            return bool(os.readlink(f"/proc/{self.first}/exe"))
        except OSError:
            return False

    def entering(self, argv: Sequence[str], folder: Path) -> list[str]:
        """Return the command line that runs `argv` in a folder of the namespace."""
        enter = [
            self._tools["nsenter"],
            "--target",
            str(self.first),
            "--mount",
            "--pid",
        ]
        if self._needs_users:
            enter += ["--user", "--preserve-credentials"]
        # `env` enters the folder inside of the namespace, where its links may have
        # other targets.
        change_folder = [self._tools["env"], f"--chdir={folder}"]
        return [*enter, "--", *change_folder, "--", *map(self._reachable, argv)]

    def _reachable(self, word: str) -> str:
        """Return a copy of an open file that this process offers in /proc.

        Another /proc is mounted inside. The sandbox names its filter of system calls in
        this way.
        """
        if not word.startswith(f"/proc/{os.getpid()}/fd/"):
            return word
        handle, copy = tempfile.mkstemp(dir=self._mounts[0].folder)
        with open(word, "rb") as source, open(handle, "wb") as target:
            shutil.copyfileobj(source, target)
        return copy

    async def end_rest(self) -> None:
        """End the processes that commands left behind, unless another command runs."""
        if await self._has_no_rest(_PARTING):
            return
        for signal in (SIGTERM, SIGKILL):
            for process in self._rest():
                processes.send_signal(process.pid, signal)
            if await self._has_no_rest(_GRACE):
                return

    async def _has_no_rest(self, seconds: float) -> bool:
        """Wait until no process is left; return False if one is left at the end."""
        deadline = time.monotonic() + seconds
        # No event tells that a process of another parent has ended.
        while self._rest():
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(0.002)
        return True

    def _rest(self) -> list[processes.Process]:
        """Return the processes that commands left behind."""
        if self._holder is None or self.running:
            return []
        family = processes.family([self.first]).values()
        session = os.getsid(0)
        return [
            process
            for process in family
            if process.living and process.session != session
        ]

    def _command(self) -> list[str]:
        """Return the command line of the holder."""
        unshare = self._tools["unshare"]
        hold = ["hold", self._tools["cat"]]
        own_mounts = ["--mount", "--propagation", "private"]
        own_processes = ["--pid", "--fork", "--kill-child", "--mount-proc"]
        script = self._mount_script()
        if not self._needs_users:
            run = [SHELL, "-c", f"{script}\n{_HOLD}", *hold]
            return [unshare, *own_mounts, *own_processes, *run]
        # The second user namespace has the caller's ids. nsenter can only enter a mount
        # namespace that belongs to it.
        ids = [f"--map-user={os.geteuid()}", f"--map-group={os.getegid()}"]
        second_namespace = [unshare, "--user", *ids, "--mount", *own_processes]
        second = shlex.join([*second_namespace, SHELL, "-c", _HOLD, *hold])
        first_namespace = [unshare, "--user", "--map-root-user", *own_mounts]
        return [*first_namespace, SHELL, "-c", f"{script}\nexec {second}"]

    def _mount_script(self) -> str:
        """Return the lines of a shell that mount the overlays."""
        mount = [self._tools["mount"], "-i"]
        # The lower layers are bound first: a mount covers what lies below it, and a
        # path may have a meaning in the options.
        binds = [(overlay.root, overlay.folder / "l") for overlay in self._mounts]
        for overlay in self._mounts:
            if overlay.between is not None:
                binds.append((overlay.between, overlay.folder / "s"))
        lines = [
            [*mount, "--bind", str(source), str(target)] for source, target in binds
        ]
        for overlay in self._mounts:
            layers = "p:l" if overlay.between is None else "s:p:l"
            options = f"lowerdir={layers},upperdir=u,workdir=w,userxattr"
            root = str(overlay.root)
            lines.append(["cd", str(overlay.folder)])
            lines.append([*mount, "-t", "overlay", "-o", options, "overlay", root])
        # A mounted overlay keeps its layers, so the binds are not needed any more.
        lines.append(["cd", "/"])
        for _, target in binds:
            lines.append([self._tools["umount"], "-i", str(target)])
        return "\n".join(["set -e", *map(shlex.join, lines)])


def plain_reason(message: str, roots: Sequence[Path]) -> str:
    """Return why overlays of `roots` were not mounted, from a message of mount(8).

    It has no words of its own for too many overlays on each other.
    """
    if "wrong fs type" in message and any(map(is_overlay, roots)):
        return "the workspace lies on overlays already, and the kernel permits two"
    return message


def _not_opened(message: str, roots: Sequence[Path]) -> EnvironmentFailed:
    """Return the error for what the holder printed before it ended."""
    lines = [
        line.strip()
        for line in message.splitlines()
        if "dmesg(1)" not in line and "--help" not in line
    ]
    reason = lines[-1] if lines else message or "the namespace ended at once"
    if reason.startswith("unshare:"):
        reason = reason.removeprefix("unshare:").strip()
        return EnvironmentFailed(
            f"namespaces are not permitted here ({reason})",
            _ALLOW,
        )
    reason = plain_reason(reason, roots)
    return EnvironmentFailed(f"the overlay could not be mounted ({reason})")


@dataclass(frozen=True)
class NamespaceLauncher:
    """The port `Launcher` in a namespace.

    When its last command returns, the processes that are left are ended.
    """

    inner: Launcher
    namespace: Namespace

    async def launch(
        self,
        argv: Sequence[str],
        **options: Unpack[LaunchOptions],
    ) -> Completion:
        """See `goalrunner.core.ports.Launcher`.

        Raise EnvironmentFailed if the namespace is gone.
        """
        cwd = options["cwd"]
        # It may exist in the namespace alone; then `env` sets PWD.
        if not cwd.is_dir():
            options["cwd"] = Path("/")
            options["env"] = {
                name: value for name, value in options["env"].items() if name != "PWD"
            }
        command = self.namespace.entering(argv, cwd.absolute())
        self.namespace.running += 1
        try:
            completion = await self.inner.launch(command, **options)
        finally:
            self.namespace.running -= 1
        await self.namespace.end_rest()
        if not self.namespace.alive:
            raise EnvironmentFailed(
                "the check environment ended while a check ran",
                "start the run again",
            )
        printed = options.get("errors") or options["output"]
        return self._with_start_error(completion, printed)

    def _with_start_error(self, completion: Completion, printed: Path) -> Completion:
        """Return the completion, with the message of `env` as its error.

        It has one if the command could not be started. `printed` is the file with it.
        """
        if completion.exit_code not in (_NO_FOLDER, NOT_EXECUTABLE, NOT_FOUND):
            return completion
        with printed.open("rb") as file:
            line = file.readline()
        # A command itself may have one of these exit codes.
        if not line.startswith(self.namespace.env_prefix):
            return completion
        os.truncate(printed, 0)
        message = line.removeprefix(self.namespace.env_prefix)
        is_missing = completion.exit_code == NOT_FOUND
        return replace(
            completion,
            exit_code=NOT_FOUND if is_missing else NOT_EXECUTABLE,
            error=message.decode(errors="replace").strip(),
        )


def _read_until_ready(holder: subprocess.Popen[bytes]) -> bytes:
    """Return what the holder prints until it is ready, ends, or takes too long."""
    assert holder.stdout is not None
    deadline = time.monotonic() + _PATIENCE
    poll = select.poll()
    poll.register(holder.stdout, select.POLLIN)
    printed = b""
    while not printed.endswith(_READY):
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            break
        if poll.poll(seconds * 1000):
            part = os.read(holder.stdout.fileno(), 4096)
            if not part:
                break
            printed += part
    return printed
