"""Git folders in a check environment: settings that have their original content, and copies for in-place checks."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from goalrunner.snapshots.git import Repository, content

_LARGE = frozenset({"objects", "lfs", "annex"})
"""Folders whose files never change once they are written; a copy has the same files, by hard links."""


def git_places(repository: Repository, workspace: Path) -> Iterator[str]:
    """Yield what a check sees a copy of: the git folder, or the `.git` file or link.

    Of a git folder outside of the workspace, these are the settings and what belongs to the checked out branch, which
    need not exist: people may work in other worktrees meanwhile.
    """
    if repository.root.is_relative_to(workspace):
        yield str(repository.root / ".git")
    shared, own = ["config", "hooks", "info"], ["HEAD", "index", "logs/HEAD", "config.worktree"]
    head = content(repository.git_dir / "HEAD")
    if head.startswith(b"ref: refs/") and b".." not in head:
        branch = os.fsdecode(head[5:].strip())
        shared += [branch, f"logs/{branch}"]
    for folder, names in ((repository.common, shared), (repository.git_dir, own)):
        if not folder.resolve().is_relative_to(workspace):
            yield from (os.path.join(os.path.realpath(folder), name) for name in names)


def copy_git(source: str, target: str) -> None:
    """Copy a git folder, or a file of one, without locks and what is no file. Raise OSError."""
    if os.path.islink(source) or not os.path.isdir(source):
        shutil.copy2(source, target, follow_symlinks=False)
        return
    large = _large(source)
    left_out = {os.path.join(source, folder) for folder in large}

    def ignored(folder: str, names: list[str]) -> list[str]:
        paths = {name: os.path.join(folder, name) for name in names}
        kinds = {name: stat.S_IFMT(os.lstat(path).st_mode) for name, path in paths.items()}
        wanted = {name for name, kind in kinds.items() if kind in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)}
        return [name for name in names if name not in wanted or name.endswith(".lock") or paths[name] in left_out]

    shutil.copytree(source, target, symlinks=True, ignore=ignored)
    for folder in large:
        inner = os.path.join(source, folder)
        shutil.copytree(inner, os.path.join(target, folder), symlinks=True, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # not every file system can
        shutil.copy2(source, target, follow_symlinks=False)


def _large(git: str) -> list[str]:
    """Return the folders with objects in a git folder, relative to it; those of submodules included."""
    found = []
    for folder, folders, names in os.walk(git):
        if "HEAD" in names:
            inner = {name for name in _LARGE.intersection(folders) if not os.path.islink(os.path.join(folder, name))}
            found += [os.path.relpath(os.path.join(folder, name), git) for name in sorted(inner)]
            folders[:] = [name for name in folders if name not in inner]
    return found


def keep_objects(copy: str, original: str) -> None:
    """Move objects that are new in a copy into the original: a person may have made a commit. Raise OSError."""
    for large in _large(copy):
        for folder, _, names in os.walk(os.path.join(copy, large)):
            there = os.path.join(original, os.path.relpath(folder, copy))
            os.makedirs(there, exist_ok=True)
            for name in names:
                if not os.path.lexists(os.path.join(there, name)):
                    os.rename(os.path.join(folder, name), os.path.join(there, name))
