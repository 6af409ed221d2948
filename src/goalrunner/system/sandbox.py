"""Commands that run in a sandbox."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from goalrunner.core.ports import HIDDEN, Completion, Launcher, LaunchOptions
from goalrunner.system.bubblewrap import Bubblewrap
from goalrunner.system.child import NOT_EXECUTABLE, NOT_FOUND, unstartable
from goalrunner.system.launcher import tail_of
from goalrunner.system.sandbox_view import (
    Confinement,
    is_visible,
    make_ready,
    real_path,
)


@dataclass(frozen=True)
class WritableRoot:
    """A folder in which commands may write everything.

    `tmp` is mounted as their /tmp; it lies in no such folder.
    """

    folder: Path
    tmp: Path | None = None
    sees: tuple[Path, ...] = ()
    """Folders that stay visible to its commands, wherever they lie."""


@dataclass(frozen=True)
class SandboxPolicy:
    """What commands may see and write.

    A command writes the root in which it starts; one that starts elsewhere, none.
    `within` holds for all of them.
    """

    sandbox: Bubblewrap
    roots: tuple[WritableRoot, ...]
    within: Confinement

    def confined(
        self, argv: Sequence[str], cwd: Path, shared: Sequence[Path] = ()
    ) -> tuple[str, ...]:
        """Return the command line that runs `argv` in `cwd` of the sandbox.

        Raise RecordError if its /tmp cannot be made.
        """
        within = self.confinement_at(cwd, shared)
        make_ready(within)
        return self.sandbox.confine(argv, cwd=real_path(cwd), within=within)

    def confinement_at(self, cwd: Path, shared: Sequence[Path] = ()) -> Confinement:
        """Return what a command that starts in `cwd` may see and write."""
        folder = real_path(cwd)
        writable = [*self.within.writable, *map(real_path, shared)]
        for root in self.roots:
            if folder.is_relative_to(root.folder):
                return replace(
                    self.within,
                    writable=(*writable, root.folder),
                    readable=(*self.within.readable, *root.sees),
                    tmp=root.tmp,
                )
        return replace(
            self.within,
            writable=tuple(writable),
            readable=(*self.within.readable, folder),
            tmp=None,
        )


# Exit codes of a shell or of env that could not start a program.
_NOT_STARTED = (NOT_EXECUTABLE, NOT_FOUND)


@dataclass(frozen=True)
class SandboxedLauncher:
    """The port `Launcher` in a sandbox."""

    inner: Launcher
    policy: SandboxPolicy

    async def launch(
        self, argv: Sequence[str], **options: Unpack[LaunchOptions]
    ) -> Completion:
        """See `goalrunner.core.ports.Launcher`."""
        cwd, env, output = options["cwd"], options["env"], options["output"]
        missing = unstartable(argv, cwd, env)
        if missing is not None:
            output.touch(mode=0o600)
            return Completion(
                missing.exit_code,
                0.0,
                timed_out=False,
                output=output,
                error=missing.reason,
            )
        errors = options.get("errors") or output
        completion = await self._launch_confined(argv, errors, options)
        completion = _without_sandbox_process(completion)
        if not completion.exit_code or completion.error:
            return completion
        code = completion.exit_code
        reason = unstarted(self.policy, code, errors, argv=argv, cwd=cwd, env=env)
        if not reason:
            return completion
        # A command that never ran has no exit code.
        exit_code = None
        if HIDDEN in reason:
            exit_code = code if code in _NOT_STARTED else NOT_FOUND
        return replace(completion, exit_code=exit_code, error=reason)

    async def _launch_confined(
        self, argv: Sequence[str], errors: Path, options: LaunchOptions
    ) -> Completion:
        shared = options.pop("shared", ())
        confined = self.policy.confined(argv, options["cwd"], shared)
        completion = await self.inner.launch(confined, **options)
        if not _failure(completion.exit_code, errors):
            return completion
        # Nothing can be mounted over a socket that was removed in the meantime.
        again = self.policy.confined(argv, options["cwd"], shared)
        if again == confined:
            return completion
        return await self.inner.launch(again, **options)


def _without_sandbox_process(completion: Completion) -> Completion:
    """Return a completion without the first process of the sandbox as a survivor.

    That process stays while any other one is in the sandbox.
    """
    survivors = list(completion.survivors)
    if "bwrap" not in survivors:
        return completion
    survivors.remove("bwrap")
    return replace(completion, survivors=tuple(survivors))


def unstarted(
    policy: SandboxPolicy,
    exit_code: int,
    errors: Path,
    *,
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
) -> str:
    """Return why a sandboxed command never ran, or which program the sandbox hid.

    Empty if neither is the case. `errors` is the file with its stderr.
    """
    failure = _failure(exit_code, errors)
    if failure.startswith("execvp"):
        return f"{argv[0]}: {HIDDEN}"
    if failure:
        return f"the sandbox could not be set up: {failure}"
    if exit_code not in _NOT_STARTED:
        return ""
    program = _hidden_program(errors, policy, cwd, env)
    return f"{program}: {HIDDEN}" if program else ""


def _failure(exit_code: int | None, errors: Path) -> str:
    """Return why bubblewrap did not start a command; empty if it did."""
    first_line = _first_bytes(errors).partition(b"\n")[0]
    program, _, reason = first_line.partition(b": ")
    # A command that prints the same and exits alike is taken for one that never ran.
    if exit_code != 1 or program != b"bwrap":
        return ""
    return reason.decode(errors="replace").strip()


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4_096)
    except OSError:
        return b""


# The messages of shells and env about a program, or about the interpreter of a script.
_MISSING = re.compile(
    r"([^\s:'\"`‘’]+)['\"`’]?: (?:command )?(?:not found|No such file or directory)"
)


def _hidden_program(
    errors: Path, policy: SandboxPolicy, cwd: Path, env: Mapping[str, str]
) -> str:
    """Return the path of a program that the sandbox hides; empty if there is none.

    It was not found in the sandbox and exists outside of it.
    """
    search_path = env.get("PATH", os.defpath)
    programs = []
    # The last message is about the program that made the command fail.
    for name in reversed(_MISSING.findall(tail_of(errors))):
        path = str(cwd / name) if "/" in name else shutil.which(name, path=search_path)
        if path is not None and os.access(path, os.X_OK):
            programs.append(path)
    return hidden_path(programs, policy, cwd)


def hidden_path(paths: Sequence[str], policy: SandboxPolicy, cwd: Path) -> str:
    """Return the first of some absolute paths that the sandbox hides.

    The interpreters of scripts among them count, too. Paths that do not exist outside
    of the sandbox either are passed over. Empty if none is hidden.
    """
    within = policy.confinement_at(cwd)
    for path in map(Path, paths):
        for program in (path, _interpreter(path)):
            if program is None or not program.exists():
                continue
            if not is_visible(program, within):
                return str(program)
    return ""


def _interpreter(script: Path) -> Path | None:
    """Return the interpreter of a script if it exists, else None."""
    first_line = _first_bytes(script).split(b"\n")[0]
    words = first_line.removeprefix(b"#!").split()
    if not first_line.startswith(b"#!") or not words:
        return None
    path = Path(os.fsdecode(words[0]))
    is_program = path.is_absolute() and os.access(path, os.X_OK)
    return path if is_program else None
