"""Calls of git with a clean environment and a time limit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import (
    Awaitable,
    Coroutine,
    Mapping,
)
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any, TypeVar

from goalrunner.core.errors import WorkspaceError
from goalrunner.system.child_environment import child_environment
from goalrunner.system.launcher import program_outside
from goalrunner.system.processes import send_signal

S = TypeVar("S")
T = TypeVar("T")

# With these, settings of the repository start no program.
_SAFE = (
    "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
    "-c", "core.trustctime=true", "-c", "core.pager=cat", "-c", "credential.helper=",
)  # fmt: skip
_OPTIONS = ("--no-pager", *_SAFE, "-c", "core.quotepath=false")
_TIMEOUT = 900.0
_LONGEST_READ = 60.0
"""Seconds for a command of `read_git`."""
_TIMED_OUT, _MISSING = 124, 127
"""Exit codes, as a shell has them for a program that took too long or is missing."""
_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""


def git_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which git is not influenced by the user's.

    It has no `GIT_*`, keys, global and system configuration, prompts, locks and
    network.
    """
    clean = {
        name: value
        for name, value in child_environment(environ).items()
        if not name.startswith("GIT_")
    }
    return {
        **clean,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        # No missing object is fetched: the repository's own settings could name any
        # program for that.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "",
        # A commit is what its id says: an agent can write these refs and this file.
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": os.devnull,
        "LC_ALL": "C",
    }


def git_program(workspace: Path, environ: Mapping[str, str]) -> str:
    """Return the first git on PATH outside of the workspace.

    Raise WorkspaceError if there is none.
    """
    program = program_outside("git", environ, (workspace,))
    if program is None:
        raise WorkspaceError(
            "git is not on PATH; snapshots of the workspace need it",
            "install git",
        )
    return str(program)


def ask_git(
    folder: Path,
    *arguments: str,
    environ: Mapping[str, str],
    timeout: float,
    workspace: Path | None = None,
    stdin: bytes = b"",
    settings: Mapping[str, str] | None = None,
) -> tuple[int, bytes, bytes]:
    """Return exit code, output and errors of one call in `folder`.

    The code is 127 if git is missing, and 124 after `timeout` seconds. A git inside of
    `workspace` (default: `folder`) is not used. `settings` override those of the
    repository.
    """
    variables = {"GIT_CONFIG_COUNT": str(len(settings or ()))}
    for number, (key, value) in enumerate((settings or {}).items()):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    try:
        answer = subprocess.run(
            [git_program(workspace or folder, environ), *_SAFE, *arguments],
            cwd=folder,
            env={**git_environment(environ), **variables},
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _TIMED_OUT, b"", b"timed out"
    except (OSError, WorkspaceError) as error:
        return _MISSING, b"", str(error).encode()
    return answer.returncode, answer.stdout, answer.stderr


def read_git(
    root: Path, *arguments: str, environ: Mapping[str, str]
) -> tuple[int, str]:
    """Return exit code and output of a command that reads the repository at `root`.

    The output has no white space at its end. Raise WorkspaceError if git is missing, or
    takes longer than a minute.
    """
    code, output, errors = ask_git(
        root, *arguments, environ=environ, timeout=_LONGEST_READ
    )
    if code in (_TIMED_OUT, _MISSING):
        raise WorkspaceError(f"git cannot be used: {os.fsdecode(errors)}")
    return code, os.fsdecode(output).rstrip()


@dataclass(frozen=True)
class Answer:
    """The result of a call."""

    code: int
    output: bytes
    errors: bytes


class GitFailed(WorkspaceError):
    """A call of git failed."""


class Git:
    """Calls git with one private store and the work tree of one workspace."""

    def __init__(
        self,
        store: Path,
        workspace: Path,
        environ: Mapping[str, str],
    ) -> None:
        self.store = store
        self.workspace = workspace
        # A file may have a name such as `:(glob)x`.
        self._environ = {**git_environment(environ), "GIT_LITERAL_PATHSPECS": "1"}
        self._program = git_program(workspace, environ)

    async def run(
        self,
        *arguments: str | bytes,
        stdin: bytes = b"",
        tree: Path | None = None,
        index: Path | None = None,
        repository: Path | None = None,
        objects: Path | None = None,
    ) -> Answer:
        """Make one call.

        `tree` is the work tree and the current folder; without one the call sees only
        the store. `index` and `repository` replace those of the store. `objects` is a
        folder of objects that are read as well. Raise WorkspaceError if git cannot be
        started, GitFailed if it takes too long.
        """
        argv = [self._program, *_OPTIONS, f"--git-dir={repository or self.store}"]
        # Without a work tree, the call cannot touch the workspace.
        if tree:
            argv.append(f"--work-tree={tree}")
        environ = dict(self._environ)
        if index:
            environ["GIT_INDEX_FILE"] = str(index)
        if objects:
            # The variable is a list of paths that may be quoted.
            quoted = str(objects).replace("\\", "\\\\").replace('"', '\\"')
            environ["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = f'"{quoted}"'
        # This command does not support literal paths.
        if arguments[0] == "check-ignore":
            del environ["GIT_LITERAL_PATHSPECS"]
        folder = tree or repository or self.store
        process = await _process([*argv, *arguments], folder, environ)
        try:
            async with asyncio.timeout(_TIMEOUT):
                output, errors = await process.communicate(stdin)
        except TimeoutError as error:
            raise GitFailed(
                f"git {arguments[0]!s} took more than {_TIMEOUT:g} s"
            ) from error
        finally:
            if process.returncode is None:
                await asyncio.shield(_end(process))
        return Answer(process.returncode or 0, output, errors)

    async def ask(self, *arguments: str | bytes, **options: Any) -> bytes:
        """Return the output of a call, with the options of `run`.

        Raise GitFailed with the message of git if it fails.
        """
        answer = await self.run(*arguments, **options)
        if answer.code != 0:
            message = answer.errors.decode("utf-8", "replace").strip()
            raise GitFailed(
                f"git {arguments[0]!s} failed in {self.store}: {message or answer.code}"
            )
        return answer.output


async def both(first: Awaitable[S], second: Awaitable[T]) -> tuple[S, T]:
    """Await two calls side by side and return both results.

    If one fails, the other is cancelled.
    """
    second_task = asyncio.ensure_future(second)
    try:
        return await first, await second_task
    finally:
        second_task.cancel()
        await asyncio.gather(second_task, return_exceptions=True)


async def _process(
    argv: list[str | bytes],
    folder: Path,
    environ: Mapping[str, str],
) -> asyncio.subprocess.Process:
    """Return the process of a call. Raise WorkspaceError if it cannot be started."""
    try:
        return await _started(
            asyncio.create_subprocess_exec(
                *argv,
                cwd=folder,
                env=environ,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                # Ctrl-C at a terminal does not reach a group of its own.
                process_group=0,
            )
        )
    except OSError as error:
        if folder.is_dir():
            raise WorkspaceError(
                f"cannot run git in {folder}: {error.strerror}"
            ) from error
        raise WorkspaceError(
            f"{folder} is gone: {error.strerror}",
            f"mkdir -p {folder}; then goal restore RUN 0 writes the files of the start",
        ) from error


async def _started(
    starting: Coroutine[Any, Any, asyncio.subprocess.Process],
) -> asyncio.subprocess.Process:
    """Return the process; end it if the wait is cancelled."""
    # asyncio would leave its pipes open, and report a lost status.
    task = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:

        async def end() -> None:
            with contextlib.suppress(OSError):
                await _end(await task)

        await asyncio.shield(end())
        raise


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let git remove its lock, then kill it."""
    # `terminate` would take the exit status, for which asyncio waits.
    send_signal(process.pid, SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _GRACE)
    except TimeoutError:
        send_signal(process.pid, SIGKILL)
        await process.wait()
