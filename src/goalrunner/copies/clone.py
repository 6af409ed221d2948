"""A local clone of a workspace: the copy where no overlay is possible.

It has another path, its own repository without the objects, and no ignored files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from goalrunner.app.resolve import resolve
from goalrunner.app.run_options import RunOptions, moved_path
from goalrunner.checking.environment import Layer, OpenEnvironment
from goalrunner.checking.in_place import InPlace
from goalrunner.checking.setup import Setup
from goalrunner.copies.frozen_base import clone_tree
from goalrunner.copies.live_tree import LiveTree
from goalrunner.copies.run_copy import CloneRecord
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.core.goal import Goal
from goalrunner.core.ports import Launcher
from goalrunner.snapshots.git import ask_git
from goalrunner.snapshots.repositories import content
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.launcher import ProcessLauncher

_GITDIR = "gitdir: "
_GIT_SECONDS = 30.0


def make_clone(
    roots: Sequence[Path], folder: Path, why: str, environ: Mapping[str, str]
) -> tuple[CloneRecord, tuple[str, ...]]:
    """Clone the trees at `roots` below a new folder. Return what is known of the clone,
    and the ignored paths of the first tree, which it does not have.

    Raise EnvironmentFailed if a tree cannot be read, or names another repository, and
    OSError.
    """
    folder.mkdir(mode=0o700)
    # The workspace of a run is known by its path without links.
    folder = folder.resolve()
    # Below the folder above all of them, relative links from one to another stay valid.
    above = os.path.commonpath([root.parent for root in roots])
    places = {
        str(root): str(folder / root.relative_to(above))
        # A folder in another one comes first, so that its paths are found there.
        for root in sorted(roots, reverse=True)
    }
    trees: list[LiveTree] = []
    objects: list[str] = []
    for root in roots:
        target = Path(places[str(root)])
        tree = clone_tree(root, folder / "rules", target, environ)
        trees.append(tree)
        for path in tree.files:
            # Git in the clone would otherwise write to the repository of the workspace.
            _move_link(tree.root / path, target / path, places)
        for path in tree.object_folders:
            objects.append(str(tree.root / path))
            _move_work_tree(tree, os.path.dirname(path), places, environ)
    shared = tuple(trees[0].shared)
    return CloneRecord(places, tuple(objects), why), shared


async def run_setup(goal: Goal, options: RunOptions) -> None:
    """Run the `setup` of the goal in the clone, so that the agent has what it installs.

    Checks in place do not run it again. Raise EnvironmentFailed.
    """
    config = resolve(goal, options)
    goal, copy = config.goal, options.copy
    assert goal.workspace.setup is not None
    assert copy is not None
    processes = ProcessLauncher()

    def confine(opened: OpenEnvironment) -> Launcher:
        run_id = copy.folder.run_id
        return config.sandbox.launcher(opened.launcher(processes), run_id, checks=True)

    outputs = goal.workspace.outputs
    store = SnapshotStore(
        config.workspace, config.home, outputs=outputs, folder=copy.store
    )
    setup = Setup(
        goal.workspace.setup,
        store,
        config.command_environ,
        confine,
        copy.folder.scratch_file,
    )
    environment = InPlace(store, config.home, outputs=outputs, setup=setup)
    with contextlib.closing(processes), contextlib.closing(store):
        async with environment.open((Layer(config.workspace),)):
            pass


def _move_link(origin: Path, target: Path, places: Mapping[str, str]) -> None:
    """Let a file with the path of a repository, or of its work tree, name the clone.

    `git worktree` writes absolute paths.
    """
    if origin.name not in (".git", "gitdir") or origin.is_symlink():
        return
    text = os.fsdecode(content(origin)).rstrip("\r\n")
    prefix = _GITDIR if origin.name == ".git" else ""
    if not text.startswith(prefix):
        return
    path = text.removeprefix(prefix)
    resolved = os.path.realpath(origin.parent / path)
    moved = moved_path(resolved, places)
    if prefix and moved == resolved:
        raise EnvironmentFailed(
            f"{origin.parent} is a work tree of the repository {resolved}, "
            "which a clone would share",
            "let git ignore that folder, or move it out of the workspace",
        )
    if os.path.isabs(path):
        target.write_bytes(os.fsencode(f"{prefix}{moved}\n"))


def _move_work_tree(
    tree: LiveTree,
    git_folder: str,
    places: Mapping[str, str],
    environ: Mapping[str, str],
) -> None:
    """Let a repository with an absolute path to its work tree name that of the clone.

    Old versions of git write one for submodules.
    """
    for origin in _settings(tree, git_folder):
        option = ("config", "--file", str(origin))
        code, output, _ = ask_git(
            tree.root, *option, "core.worktree", environ=environ, timeout=_GIT_SECONDS
        )
        path = os.fsdecode(output).rstrip("\n")
        if code != 0 or not os.path.isabs(path):
            continue
        moved = moved_path(os.path.realpath(path), places)
        target = moved_path(str(origin), places)
        ask_git(
            tree.root,
            *("config", "--file", target, "core.worktree", moved),
            environ=environ,
            timeout=_GIT_SECONDS,
        )


def _settings(tree: LiveTree, git_folder: str) -> Iterator[Path]:
    # With the extension worktreeConfig, the second file has the path.
    for name in ("config", "config.worktree"):
        path = tree.root / git_folder / name
        if path.is_file():
            yield path
