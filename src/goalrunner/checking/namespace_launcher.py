"""A launcher that starts its commands in a namespace, and ends what each of them leaves behind."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGTERM
from typing import Unpack

from goalrunner.checking.namespace import GRACE, Namespace, send_signal
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.core.process_ports import Completion, Launcher, LaunchOptions
from goalrunner.system.child import NOT_EXECUTABLE, NOT_FOUND
from goalrunner.system.launcher import opened_sink

_PARTING = 0.05
"""Seconds for processes that are about to end by themselves when their command ends."""
_OWN_WORDS = b"nsenter: "


@dataclass(frozen=True)
class NamespaceLauncher:
    """The port `Launcher` in a namespace. What commands left behind has ended when the last of them returns."""

    inner: Launcher
    namespace: Namespace

    async def launch(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: Path,
        **options: Unpack[LaunchOptions],
    ) -> Completion:
        """See `goalrunner.core.process_ports.Launcher`. Raise EnvironmentFailed if the namespace is gone."""
        folder = self.namespace.located(cwd.absolute())
        if (done := _unstartable(argv, cwd, folder, output)) is not None:
            return done
        self.namespace.began()
        outside, env = _outside(cwd, dict(env))
        try:
            done = await self.inner.launch(
                self.namespace.entering(argv, folder),
                cwd=outside,
                env=env,
                output=output,
                **options,
            )
            names = await self._swept()
        finally:
            self.namespace.ended()
        if not self.namespace.alive:
            raise EnvironmentFailed("the check environment ended while a check ran", "start the run again")
        done = replace(done, survivors=(*done.survivors, *names))
        return self._never_ran(done, argv, folder, options.get("errors") or output)

    async def _swept(self) -> tuple[str, ...]:
        """End what the command, and others beside it, left behind; return the names."""
        if not await self._remaining(_PARTING):
            return ()
        found = self.namespace.left()
        send_signal(found, SIGTERM)
        await self._remaining(GRACE)
        return tuple(one.name for one in found)

    async def _remaining(self, seconds: float) -> bool:
        """Return whether processes are left after that time; return at once when none is left."""
        deadline = time.monotonic() + seconds
        while (found := self.namespace.left()) and time.monotonic() < deadline:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.002)
        return bool(found)

    def _never_ran(self, done: Completion, argv: Sequence[str], folder: str, said: Path) -> Completion:
        """Replace the words of nsenter, where the program could not be started, by those of any other launcher."""
        if done.exit_code not in (NOT_EXECUTABLE, NOT_FOUND) or not _begins(said, _OWN_WORDS):
            own, _, why = done.error.partition(": ")
            is_own = done.exit_code == NOT_EXECUTABLE and own.endswith("/nsenter")
            return replace(done, error=f"{argv[0]}: {why}") if is_own else done
        os.truncate(said, 0)
        program = argv[0]
        there = f"{self.namespace.view}{program}" if program.startswith("/") else f"{folder}/{program}"
        if done.exit_code == NOT_EXECUTABLE:
            return replace(done, error=f"{program}: permission denied")
        missing = "its interpreter is missing" if "/" in program and os.path.exists(there) else "not found"
        return replace(done, error=f"{program}: {missing}")


def _unstartable(argv: Sequence[str], cwd: Path, folder: str, output: Path) -> Completion | None:
    """Return the completion of a command without a program or a folder to start in."""
    if argv and argv[0] and Path(folder).is_dir():
        return None
    with opened_sink(output):
        what = "is no folder" if Path(folder).exists() else "does not exist"
    if not argv or not argv[0]:
        return Completion(NOT_FOUND, 0.0, timed_out=False, output=output, error="there is no command to run")
    return Completion(NOT_EXECUTABLE, 0.0, timed_out=False, output=output, error=f"the folder {cwd} {what}")


def _outside(cwd: Path, env: dict[str, str]) -> tuple[Path, dict[str, str]]:
    """Return a folder outside of the namespace for the start, and an environment with a PWD that is right inside."""
    if cwd.is_dir():
        return cwd, env
    return Path("/"), {name: value for name, value in env.items() if name != "PWD"}


def _begins(path: Path, words: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(words)) == words
    except OSError:
        return False
