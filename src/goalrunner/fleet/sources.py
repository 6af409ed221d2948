"""The workspace of a run as a source: a repository, a commit, and local changes.

`pack` makes it where a goal is submitted, and `unpack` makes the workspace of it where
the goal is run.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from goalrunner.clusters.tasks import without_password
from goalrunner.core.errors import UsageError, WorkspaceError
from goalrunner.exports.change import person_environment
from goalrunner.fleet.store import FleetStore
from goalrunner.records.removal import remove_whole
from goalrunner.snapshots.repositories import enclosing

_REFS = "refs/goal-fleet"
_LONGEST = 1800.0
"""Seconds for one command of git: a first clone can take long."""


@dataclass(frozen=True)
class Source:
    """Where the files of a goal come from."""

    repository: str
    """The URL that is cloned; empty: the bundle has the whole history."""
    base: str
    """The commit on which the goal begins."""
    bundle: str
    """The key of a bundle in the store with what the repository lacks; empty: nothing.

    Its only ref is a commit with the files of the workspace, also those that were not
    committed.
    """
    folder: str
    """The workspace, as a path in the repository; "." is its root."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields for the database."""
        return asdict(self)


def pack(
    workspace: Path,
    store: FleetStore,
    key: str,
    environ: Mapping[str, str] = os.environ,
) -> Source:
    """Return the source of a workspace as it is now.

    What its remote `origin` does not have goes into the store, under `key`. Files that
    git ignores stay here. Raise UsageError and GoalError.
    """
    folder = Path(os.path.realpath(workspace))
    repository = enclosing(folder)
    if repository is None:
        raise UsageError(
            f"{workspace} is in no git repository, so another machine cannot get it",
            "git init, and commit the project",
        )
    git = _Git(repository.root, environ)
    base = git.head()
    url = without_password(git.output_or_nothing("remote", "get-url", "origin"))
    if not git.output_or_nothing("branch", "--remotes", "--contains", base):
        # No remote has the base.
        url = ""
    tip = git.commit_of_files(base)
    path = folder.relative_to(repository.root).as_posix()
    if url and tip == base:
        return Source(url, base, "", path)
    with tempfile.TemporaryDirectory(prefix="goal-bundle-") as scratch:
        file = Path(scratch) / "bundle"
        git.bundle(file, tip, without=base if url else "")
        store.put(file, key)
    return Source(url, base, key, path)


def unpack(
    source: Source,
    store: FleetStore,
    project: Path,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """Make the workspace of a source in the folder `project`; return its path.

    HEAD is the base, and local changes are not committed, as they were. If the folder
    exists, nothing is done. Raise GoalError.
    """
    workspace = project / source.folder
    if project.exists():
        return workspace
    unfinished = project.with_name(f"{project.name}.new")
    if unfinished.exists():
        # An earlier process was killed.
        remove_whole(unfinished)
    unfinished.mkdir(mode=0o700, parents=True)
    git = _Git(unfinished, environ)
    if source.repository:
        git.output("clone", "--quiet", "--no-checkout", source.repository, ".")
    else:
        git.output("init", "--quiet")
    tip = source.base
    if source.bundle:
        with tempfile.TemporaryDirectory(prefix="goal-bundle-") as scratch:
            file = Path(scratch) / "bundle"
            store.get(source.bundle, file)
            tip = git.fetched(file)
    git.output("checkout", "--quiet", "--detach", tip)
    git.output("reset", "--quiet", "--mixed", source.base)
    # At once, so that a project that exists is whole.
    unfinished.rename(project)
    return workspace


class _Git:
    """Commands of git with the configuration of the user, who may have a login."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = person_environment(environ)
        # Here, git has to reach the remote.
        for name in ("GIT_ALLOW_PROTOCOL", "GIT_NO_LAZY_FETCH"):
            self._environ.pop(name, None)

    def output(self, *arguments: str, **variables: str) -> str:
        """Return the output of a command. Raise WorkspaceError."""
        command = ["git", "-c", "core.hooksPath=/dev/null", *arguments]
        try:
            done = subprocess.run(
                command,
                cwd=self._folder,
                env={**self._environ, **variables},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LONGEST,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise WorkspaceError(f"git {arguments[0]}: {error}") from error
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip()
            raise WorkspaceError(
                f"git {arguments[0]} failed: {words}",
                "check that the repository can be reached from this machine",
            )
        return os.fsdecode(done.stdout).strip()

    def output_or_nothing(self, *arguments: str) -> str:
        """Return the output of a command; empty if it fails."""
        try:
            return self.output(*arguments)
        except WorkspaceError:
            return ""

    def head(self) -> str:
        """Return the present commit. Raise UsageError if there is none."""
        commit = self.output_or_nothing("rev-parse", "--verify", "HEAD^{commit}")
        if not commit:
            raise UsageError(
                f"{self._folder} has no commit",
                "commit the project: git add -A && git commit",
            )
        return commit

    def commit_of_files(self, base: str) -> str:
        """Return a commit with the files as they are; no branch has it.

        It is the base if nothing was changed.
        """
        with tempfile.TemporaryDirectory(prefix="goal-index-") as scratch:
            index = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
            self.output("read-tree", base, **index)
            self.output("add", "--all", **index)
            tree = self.output("write-tree", **index)
        if tree == self.output("rev-parse", f"{base}^{{tree}}"):
            return base
        names: dict[str, str] = {}
        for role in ("AUTHOR", "COMMITTER"):
            # This commit is never published, and a person may have set no name.
            names[f"GIT_{role}_NAME"] = names[f"GIT_{role}_EMAIL"] = "goal"
        message = ("-m", "The files of a workspace")
        return self.output("commit-tree", tree, "-p", base, *message, **names)

    def bundle(self, file: Path, tip: str, without: str) -> None:
        """Write a bundle of a commit and its history, without that of another one."""
        # A bundle needs a ref; two processes may make one at once.
        ref = f"{_REFS}/{os.getpid()}"
        self.output("update-ref", ref, tip)
        try:
            excluded = [f"^{without}"] if without else []
            self.output("bundle", "create", "--quiet", str(file), ref, *excluded)
        finally:
            self.output("update-ref", "-d", ref)

    def fetched(self, bundle: Path) -> str:
        """Fetch the only ref of a bundle; return its commit. Raise WorkspaceError."""
        commit, _, ref = self.output("bundle", "list-heads", str(bundle)).partition(" ")
        self.output("fetch", "--quiet", str(bundle), ref)
        return commit
