"""Which jail works here. Owns the trial, made once in each process, and the words for a machine that has none."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from goalrunner.ports import Confinement, Jail
from goalrunner.process.jail.bubblewrap import Bubblewrap
from goalrunner.process.jail.permission import allowing
from goalrunner.process.program import program_outside

_PATIENCE = 20.0
"""Seconds that a trial may take."""

INSTALL = "install bubblewrap (apt-get install bubblewrap, dnf install bubblewrap)"


@dataclass(frozen=True)
class Choice:
    """A jail that was seen to work, or None; then why there is none, and what would help."""

    jail: Jail | None
    why: str = ""
    remedy: str = ""


def choose(environ: Mapping[str, str], writable: Sequence[Path], *, network: bool = True) -> Choice:
    """Try the jails of this system. No program is taken from `writable`, which an agent can write."""
    if sys.platform != "linux":
        return Choice(None, "bubblewrap runs on Linux alone", "run it in a container or a virtual machine")
    program = program_outside("bwrap", environ, writable)
    if program is None:
        return Choice(None, "bwrap is not on PATH", INSTALL)
    return _tried(program, network)


@cache
def _tried(program: Path, network: bool) -> Choice:
    why = ""
    for jail in (Bubblewrap(program), Bubblewrap(program, own_users=True)):
        wrong = trial(jail, network=network)
        if not wrong:
            return Choice(jail)
        why = why or wrong
    return Choice(None, f"{program} fails ({why})", allowing())


def trial(jail: Jail, *, network: bool) -> str:
    """Run a command in a real confinement; gives why that does not work, or an empty text."""
    with tempfile.TemporaryDirectory(prefix="goal-jail-") as made:
        own, other = Path(os.path.realpath(made), "own"), Path(os.path.realpath(made), "other")
        own.mkdir()
        other.mkdir()
        argv = jail.confine(
            ["/bin/sh", "-c", 'echo > made && ! (echo > "$1/made")', "sh", str(other)],
            cwd=own,
            within=Confinement(writable=(own,), readable=(other,), network=network),
        )
        try:
            done = subprocess.run(
                argv, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if (other / "made").exists():
            return "what must not be written can be"
        if done.returncode == 0 and (own / "made").exists():
            return ""
        said = done.stderr.decode(errors="replace").strip().removeprefix("bwrap: ")
        return said.partition("\n")[0] or f"exit {done.returncode}"
