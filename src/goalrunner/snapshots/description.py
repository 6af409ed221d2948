"""The one-line description of a workspace: whether it is in a git repository, and whether that is clean."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from goalrunner.snapshots.git import ask_git


@dataclass(frozen=True)
class WorkspaceDescription:
    """A folder. `clean` is None if git did not answer; `branch` is empty without one."""

    path: Path
    is_git: bool
    clean: bool | None
    branch: str = ""

    @property
    def summary(self) -> str:
        """A text such as "git, clean", "git, uncommitted changes", "git" or "no git"."""
        if not self.is_git:
            return "no git"
        return {True: "git, clean", False: "git, uncommitted changes", None: "git"}[self.clean]


def describe(path: Path, environ: Mapping[str, str] | None = None, timeout: float = 2.0) -> WorkspaceDescription:
    """Describe a folder within `timeout` seconds, without changing it and without running its repository's filters."""
    call = partial(ask_git, path, environ=os.environ if environ is None else environ, timeout=timeout)
    names = call("config", "--name-only", "-z", "--get-regexp", r"^filter\..*\.(clean|process|required)$")[1]
    off = {name: "false" if name.endswith(".required") else "" for name in os.fsdecode(names).split("\0")[:-1]}
    status = "status --porcelain=v2 --branch -z --untracked-files=normal --ignore-submodules=all -- ."
    code, output, _ = call(*status.split(), settings=off)
    if code != 0:  # git is missing, too slow, or refuses the folder of another user
        is_git = any((parent / ".git").exists() for parent in (path.absolute(), *path.absolute().parents))
        return WorkspaceDescription(path, is_git, clean=None)
    lines = output.decode("utf-8", "replace").split("\0")[:-1]
    heads = dict(line.removeprefix("# branch.").split(" ", 1) for line in lines if line.startswith("# branch."))
    branch = heads.get("head", "").replace("(detached)", "")
    return WorkspaceDescription(path, is_git=True, clean=all(line.startswith("# ") for line in lines), branch=branch)
