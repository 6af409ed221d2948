"""What the header says of a workspace: `~/src/parser · git, clean`. Owns a short look; a doubt is said, never guessed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from goalrunner.workspace.git import ask_git

_TIMEOUT = 2.0


@dataclass(frozen=True)
class WorkspaceDescription:
    """A folder; `clean` is None when git could not say, `branch` is empty when there is none (or no commit is named)."""

    path: Path
    is_git: bool
    clean: bool | None
    branch: str = ""

    @property
    def summary(self) -> str:
        """In words: "git, clean", "git, uncommitted changes", "git", "no git"."""
        if not self.is_git:
            return "no git"
        return {True: "git, clean", False: "git, uncommitted changes", None: "git"}[self.clean]


def describe(path: Path, environ: Mapping[str, str] | None = None, timeout: float = _TIMEOUT) -> WorkspaceDescription:
    """Look at a folder for at most `timeout` seconds. Never raises for what git says; changes nothing."""
    code, output, _ = ask_git(
        path,
        *("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--", "."),
        environ=os.environ if environ is None else environ,
        timeout=timeout,
    )
    if code != 0:
        return WorkspaceDescription(path, is_git=_has_repository(path), clean=None)
    lines = [line for line in output.split(b"\0") if line]
    heads = [line for line in lines if line.startswith(b"# ")]
    named = [head.removeprefix(b"# branch.head ") for head in heads if head.startswith(b"# branch.head ")]
    branch = named[0].decode("utf-8", "replace") if named else ""
    return WorkspaceDescription(
        path, is_git=True, clean=len(lines) == len(heads), branch="" if branch == "(detached)" else branch
    )


def _has_repository(path: Path) -> bool:
    """Whether there is one all the same: git is missing, too slow, or refuses another owner's folder."""
    folder = path.absolute()
    return any((parent / ".git").exists() for parent in (folder, *folder.parents))
