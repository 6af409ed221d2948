"""Git as a tool of the store. Owns how it is found, called, fed, timed and ended; knows no command of it.

The program is never one that lies in the workspace, the caller's `GIT_*` and configuration never count, and the store's
own configuration is complete, so nothing that an agent writes can make a call do anything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from goalrunner.errors import WorkspaceError
from goalrunner.process.adopted import as_helper
from goalrunner.workspace.git import git_environment, git_program

S = TypeVar("S")
T = TypeVar("T")

_TIMEOUT = 900.0
_GRACE = 2.0

_OPTIONS = (
    "--no-pager", "--no-replace-objects",
    "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.trustctime=true",
    "-c", "core.quotepath=false",
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What a call gave."""

    code: int
    output: bytes
    errors: bytes


class GitFailed(WorkspaceError):
    """A call of git ended as it should not have."""


class Git:
    """Calls git on one private store, and on the work tree of one workspace."""

    def __init__(self, store: Path, workspace: Path, environ: Mapping[str, str]) -> None:
        self.store = store
        self.workspace = workspace
        self._environ = {**git_environment(environ), "GIT_LITERAL_PATHSPECS": "1"}
        self._program = git_program(workspace, environ)

    async def run(
        self,
        *arguments: str | bytes,
        stdin: bytes = b"",
        tree: Path | None = None,
        index: Path | None = None,
        repository: Path | None = None,
    ) -> Answer:
        """One call to its end, its deadline or cancellation. Raises WorkspaceError when it cannot be started.

        `tree` is the work tree, and the folder to run in; without one the call sees the store alone. `index` and
        `repository` stand in for the store's own.
        """
        store = repository or self.store
        argv: list[str | bytes] = [self._program, *_OPTIONS, f"--git-dir={store}"]
        argv += [f"--work-tree={tree}"] if tree else []
        environ = {**self._environ, **({"GIT_INDEX_FILE": str(index)} if index else {})}
        if arguments[0] == "check-ignore":  # the one that takes no literal paths
            del environ["GIT_LITERAL_PATHSPECS"]
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                *arguments,
                cwd=tree or store,
                env=as_helper(environ),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            missing = tree or store
            what = f"cannot run git in {missing}" if missing.is_dir() else f"{missing} is gone"
            raise WorkspaceError(f"{what}: {error.strerror}") from error
        try:
            async with asyncio.timeout(_TIMEOUT):
                output, errors = await process.communicate(stdin)
        except TimeoutError as error:
            raise GitFailed(f"git {_said(arguments)} took more than {_TIMEOUT:g} s") from error
        finally:
            if process.returncode is None:
                await asyncio.shield(_end(process))
        return Answer(process.returncode or 0, output, errors)

    async def ask(
        self,
        *arguments: str | bytes,
        stdin: bytes = b"",
        tree: Path | None = None,
        index: Path | None = None,
        repository: Path | None = None,
    ) -> bytes:
        """The output of a call that must succeed. Raises GitFailed with git's own words."""
        answer = await self.run(*arguments, stdin=stdin, tree=tree, index=index, repository=repository)
        if answer.code != 0:
            words = answer.errors.decode("utf-8", "replace").strip()
            raise GitFailed(f"git {_said(arguments)} failed in {self.store}: {words or answer.code}")
        return answer.output


async def both(first: Awaitable[S], second: Awaitable[T]) -> tuple[S, T]:
    """What two calls give, made side by side. Where one fails or both are cancelled, none is left behind."""
    beside = asyncio.ensure_future(second)
    try:
        return await first, await beside
    finally:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let git take its lock away, then insist."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _GRACE)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _said(arguments: tuple[str | bytes, ...]) -> str:
    return os.fsdecode(arguments[0])
