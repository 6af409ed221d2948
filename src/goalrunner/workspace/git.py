"""Asking git, safely: nothing that a repository or its user has configured runs. Owns the environment of every call."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from goalrunner.errors import WorkspaceError
from goalrunner.process.environment import child_environment
from goalrunner.process.program import program_outside

_SAFE = (
    "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.trustctime=true",
    "-c", "core.pager=cat", "-c", "credential.helper=", "-c", "protocol.allow=never",
)  # fmt: skip


def git_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Without the caller's `GIT_*` and keys; without global and system configuration; no prompt, no lock that is optional."""
    kept = {name: value for name, value in child_environment(environ).items() if not name.startswith("GIT_")}
    return {
        **kept,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


def git_program(workspace: Path, environ: Mapping[str, str]) -> str:
    """The first git on PATH that no agent can have put there: no relative entry, none inside the workspace.

    Raises WorkspaceError when there is none.
    """
    program = program_outside("git", environ, (workspace,))
    if program is None:
        raise WorkspaceError("git is not on PATH; snapshots of the workspace need it", "install git")
    return str(program)


def ask_git(
    folder: Path,
    *arguments: str,
    environ: Mapping[str, str],
    timeout: float,
    workspace: Path | None = None,
    stdin: bytes = b"",
) -> tuple[int, bytes, bytes]:
    """Exit code, output and errors of one call in `folder`; 127 when git is missing, 124 after `timeout` seconds.

    `workspace` is where no git is taken from; without one it is the folder itself.
    """
    try:
        answer = subprocess.run(
            [git_program(workspace or folder, environ), *_SAFE, *arguments],
            cwd=folder,
            env=git_environment(environ),
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
