"""Calls of git with a clean environment and a time limit; repositories, and the description of a workspace in words."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
import subprocess
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any, TypeVar

from goalrunner.core.errors import WorkspaceError
from goalrunner.system.child_environment import child_environment
from goalrunner.system.launcher import program_outside
from goalrunner.system.processes import send_signal

_SAFE = (
    "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.trustctime=true",
    "-c", "core.pager=cat", "-c", "credential.helper=",
)  # fmt: skip


def git_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without `GIT_*`, keys, global and system configuration, prompts, locks and network."""
    kept = {
        name: value
        for name, value in child_environment(environ).items()
        if not name.startswith("GIT_")
    }
    return {
        **kept,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        # No missing object is fetched: the repository's own settings could name any program for that.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "",
        "LC_ALL": "C",
    }


def git_program(workspace: Path, environ: Mapping[str, str]) -> str:
    """Return the first git on PATH outside of the workspace. Raise WorkspaceError if there is none."""
    program = program_outside("git", environ, (workspace,))
    if program is None:
        raise WorkspaceError(
            "git is not on PATH; snapshots of the workspace need it", "install git"
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
    """Return exit code, output and errors of one call in `folder`; 127 if git is missing, 124 after `timeout` seconds.

    A git inside of `workspace` (default: `folder`) is not used. `settings` override those of the repository.
    """
    given = {"GIT_CONFIG_COUNT": str(len(settings or ()))}
    for number, (key, value) in enumerate((settings or {}).items()):
        given |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    try:
        answer = subprocess.run(
            [git_program(workspace or folder, environ), *_SAFE, *arguments],
            cwd=folder,
            env={**git_environment(environ), **given},
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, b"", b"timed out"
    except (OSError, WorkspaceError) as error:
        return 127, b"", str(error).encode()
    return answer.returncode, answer.stdout, answer.stderr


def describe(
    path: Path, environ: Mapping[str, str] | None = None, timeout: float = 2.0
) -> str:
    """Return "git, clean", "git, uncommitted changes", "git" if git did not answer in time, or "no git".

    A goal file that is not in git yet, as `goal init` writes it, is no change. The folder is not changed, and filters of its
    repository do not run.
    """
    call = partial(
        ask_git,
        path,
        environ=os.environ if environ is None else environ,
        timeout=timeout,
    )
    names = call(
        "config",
        "--name-only",
        "-z",
        "--get-regexp",
        r"^filter\..*\.(clean|process|required)$",
    )[1]
    off = {
        name: "false" if name.endswith(".required") else ""
        for name in os.fsdecode(names).split("\0")[:-1]
    }
    status = (
        "status --porcelain -z --untracked-files=normal --ignore-submodules=all -- ."
    )
    code, output, _ = call(*status.split(), settings=off)
    if code == 0:
        changes = [
            entry
            for entry in output.split(b"\0")
            if entry and not _NEW_GOAL_FILE.match(entry)
        ]
        return "git, uncommitted changes" if changes else "git, clean"
    # Git is missing, too slow, or refuses the folder of another user.
    return (
        "git"
        if any(
            (parent / ".git").exists()
            for parent in (path.absolute(), *path.absolute().parents)
        )
        else "no git"
    )


S = TypeVar("S")
T = TypeVar("T")

_NEW_GOAL_FILE = re.compile(rb"\?\? (?:.*/)?goal\.toml\Z")
"""An entry of `git status` in its porcelain format."""

_TIMEOUT = 900.0
_GRACE = 2.0

_OPTIONS = ("--no-pager", "--no-replace-objects", *_SAFE, "-c", "core.quotepath=false")


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
        self, store: Path, workspace: Path, environ: Mapping[str, str]
    ) -> None:
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
        objects: Path | None = None,
    ) -> Answer:
        """Make one call. Raise WorkspaceError if git cannot be started, GitFailed if it takes too long.

        `tree` is the work tree and the current folder; without one the call sees only the store. `index` and
        `repository` replace those of the store. `objects` is a folder of objects that are read as well.
        """
        folder = tree or repository or self.store
        argv: list[str | bytes] = [
            self._program,
            *_OPTIONS,
            f"--git-dir={repository or self.store}",
        ]
        argv += [f"--work-tree={tree}"] if tree else []
        environ = {**self._environ, **({"GIT_INDEX_FILE": str(index)} if index else {})}
        if objects:
            quoted = str(objects).replace("\\", "\\\\").replace('"', '\\"')
            environ["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = f'"{quoted}"'
        if arguments[0] == "check-ignore":  # does not support literal paths
            del environ["GIT_LITERAL_PATHSPECS"]
        try:
            process = await _started(
                asyncio.create_subprocess_exec(
                    *argv,
                    *arguments,
                    cwd=folder,
                    env=environ,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    process_group=0,  # Ctrl-C at a terminal does not reach it
                )
            )
        except OSError as error:
            if folder.is_dir():
                raise WorkspaceError(
                    f"cannot run git in {folder}: {error.strerror}"
                ) from error
            hint = f"mkdir -p {folder}; then goal restore RUN 0 writes the files of the start"
            raise WorkspaceError(f"{folder} is gone: {error.strerror}", hint) from error
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
        """Return the output of a call, with the options of `run`. Raise GitFailed with the message of git if it fails."""
        answer = await self.run(*arguments, **options)
        if answer.code != 0:
            words = answer.errors.decode("utf-8", "replace").strip()
            raise GitFailed(
                f"git {arguments[0]!s} failed in {self.store}: {words or answer.code}"
            )
        return answer.output


async def both(first: Awaitable[S], second: Awaitable[T]) -> tuple[S, T]:
    """Await two calls side by side and return both results. If one fails, the other is cancelled."""
    beside = asyncio.ensure_future(second)
    try:
        return await first, await beside
    finally:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)


async def _started(
    starting: Coroutine[Any, Any, asyncio.subprocess.Process],
) -> asyncio.subprocess.Process:
    """Return the process. If the wait is cancelled, end it: asyncio would leave its pipes open, and report a lost status."""
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
    send_signal(
        process.pid, SIGTERM
    )  # `terminate` would take the exit status, which asyncio waits for
    try:
        await asyncio.wait_for(process.wait(), _GRACE)
    except TimeoutError:
        send_signal(process.pid, SIGKILL)
        await process.wait()


_LIMIT = 64_000_000


@dataclass(frozen=True)
class Repository:
    """A repository: its absolute root, its git folder, and the folder that its worktrees share."""

    root: Path
    git_dir: Path
    common: Path

    @property
    def index(self) -> Path:
        return self.git_dir / "index"

    def changed_since(self, time: int) -> int:
        """Return when HEAD, its log or the index changed last (nanoseconds, ctime); 0 if that was before `time`."""
        found = [0]
        for path in (self.git_dir / "HEAD", self.git_dir / "logs" / "HEAD", self.index):
            with contextlib.suppress(OSError):
                found.append(path.lstat().st_ctime_ns)
        return max(found) if max(found) >= time else 0


def repository_at(folder: Path) -> Repository | None:
    """Return the repository with a `.git` folder, or a file that names one, in this folder."""
    place = folder / ".git"
    try:
        if not place.is_dir():
            named = content(place)
            if not named.startswith(b"gitdir: "):
                return None
            place = folder / os.fsdecode(named[8:].rstrip(b"\r\n"))
        if not (place / "HEAD").is_symlink() and not (place / "HEAD").is_file():
            return None
        shared = content(place / "commondir").strip()
        common = place / os.fsdecode(shared) if shared else place
        return (
            Repository(folder, place, common) if (common / "objects").is_dir() else None
        )
    except (OSError, ValueError):
        return None


def enclosing(workspace: Path) -> Repository | None:
    """Return the repository that contains the workspace, or whose root it is."""
    found = (repository_at(folder) for folder in (workspace, *workspace.parents))
    return next((repository for repository in found if repository), None)


def content(path: Path | str) -> bytes:
    """Return the content of a regular file, at most 64 MB; empty if it is missing, unreadable or no regular file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            return file.read(_LIMIT) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    except (OSError, ValueError):
        return b""
