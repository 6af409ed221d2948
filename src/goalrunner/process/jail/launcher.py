"""A launcher that starts everything in a cell. Owns what is said of it; another launcher starts and ends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from goalrunner.ports import Completion, Launcher
from goalrunner.ports.launcher import HIDDEN
from goalrunner.process.jail.cell import Cell
from goalrunner.process.jail.sight import NOT_STARTED, hidden_program
from goalrunner.process.jail.startable import unstartable
from goalrunner.process.leader import NOT_FOUND

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
        """See `goalrunner.ports.Launcher`."""
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
