"""A launcher that starts everything in a sandbox, and programs that the sandbox hides."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from goalrunner.core.ports import HIDDEN, Completion, Launcher, LaunchOptions
from goalrunner.system.bubblewrap import SandboxPolicy
from goalrunner.system.child import NOT_EXECUTABLE, NOT_FOUND, unstartable
from goalrunner.system.launcher import tail_of
from goalrunner.system.sandbox_view import is_visible


@dataclass(frozen=True)
class SandboxedLauncher:
    """The port `Launcher` in a sandbox."""

    inner: Launcher
    policy: SandboxPolicy

    async def launch(self, argv: Sequence[str], **options: Unpack[LaunchOptions]) -> Completion:
        """See `goalrunner.core.ports.Launcher`."""
        cwd, env, output = options["cwd"], options["env"], options["output"]
        if (missing := unstartable(argv, cwd, env)) is not None:
            output.touch(mode=0o600)
            return Completion(missing.exit_code, 0.0, timed_out=False, output=output, error=missing.reason)
        shared, errors = options.pop("shared", ()), options.get("errors") or output
        confined = self.policy.confined(argv, cwd, shared)
        done = await self.inner.launch(confined, **options)
        if done.exit_code and self.policy.sandbox.failure(done.exit_code, _first_bytes(errors)):
            # Nothing can be mounted over a socket that was removed in the meantime.
            again = self.policy.confined(argv, cwd, shared)
            done = await self.inner.launch(again, **options) if again != confined else done
        if "bwrap" in done.survivors:  # the sandbox's own first process, which stays while any other one is in it
            at = done.survivors.index("bwrap")
            done = replace(done, survivors=(*done.survivors[:at], *done.survivors[at + 1 :]))
        if not done.exit_code or done.error:
            return done
        why = unstarted(self.policy, done.exit_code, errors, argv=argv, cwd=cwd, env=env)
        if not why:
            return done
        # A command that never ran has no exit code.
        started = done.exit_code if done.exit_code in _NOT_STARTED else NOT_FOUND
        return replace(done, exit_code=started if HIDDEN in why else None, error=why)


def unstarted(
    policy: SandboxPolicy, exit_code: int, errors: Path, *, argv: Sequence[str], cwd: Path, env: Mapping[str, str]
) -> str:
    """Return why a sandboxed command never ran, or which program it did not find because it is hidden; else empty.

    `errors` is the file with its stderr.
    """
    why = policy.sandbox.failure(exit_code, _first_bytes(errors))
    if why.startswith("execvp"):
        return f"{argv[0]}: {HIDDEN}"
    if why:
        return f"the sandbox could not be set up: {why}"
    program = _hidden_program(errors, policy, cwd, env) if exit_code in _NOT_STARTED else ""
    return f"{program}: {HIDDEN}" if program else ""


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4_096)
    except OSError:
        return b""


_NOT_STARTED = (NOT_EXECUTABLE, NOT_FOUND)  # exit codes of a shell or of env that could not start a program

_MISSING = re.compile(r"([^\s:'\"`‘’]+)['\"`’]?: (?:command )?(?:not found|No such file or directory)")
"""The messages of shells and env about a program, or about the interpreter of a script."""


def _hidden_program(errors: Path, policy: SandboxPolicy, cwd: Path, env: Mapping[str, str]) -> str:
    """Return the path of a program that was not found in the sandbox and exists outside of it; else empty."""
    names = reversed(_MISSING.findall(tail_of(errors)))
    found = (cwd / name if "/" in name else shutil.which(name, path=env.get("PATH", os.defpath)) for name in names)
    return hidden_path([str(path) for path in found if path is not None and os.access(path, os.X_OK)], policy, cwd)


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
    path = Path(os.fsdecode(first[2:].split()[0])) if first.startswith(b"#!") and first[2:].split() else None
    return path if path is not None and path.is_absolute() and os.access(path, os.X_OK) else None
