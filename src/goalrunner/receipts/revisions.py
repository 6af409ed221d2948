"""The base and the head of a change, in the repository of the workspace."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.errors import UsageError, WorkspaceError, some
from goalrunner.exports.change import person_environment
from goalrunner.reports.short_forms import SHORT_ID
from goalrunner.snapshots.git import read_git
from goalrunner.snapshots.repositories import enclosing

_SUBMODULE = "160000"
"""The mode of a submodule in a git tree."""
_SHALLOW = (
    "the clone is shallow: git fetch --unshallow; in CI, set fetch-depth: 0 of "
    "actions/checkout, or GIT_DEPTH: 0"
)
_REMOTE_HEAD = "refs/remotes/origin/HEAD"
# A clone knows the default branch of its remote; a repository without one has a custom.
_DEFAULT_BRANCHES = (_REMOTE_HEAD, "refs/heads/main", "refs/heads/master")


@dataclass(frozen=True)
class RevisionPair:
    """The two revisions that are compared."""

    base: str
    """The commit."""
    head: str
    """The commit; empty for the files of the work tree, which no commit has."""
    notes: tuple[str, ...] = ()
    """How the two differ from what a person may have meant."""


class Revisions:
    """The revisions of the repository around a folder."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        """Find the repository. Raise UsageError if there is none."""
        repository = enclosing(Path(os.path.realpath(folder)))
        if repository is None:
            raise UsageError(
                f"{folder} is not in a git repository, so there is no change",
                "run it in the repository of the change",
            )
        self.root = repository.root
        self._environ = environ

    def change(
        self, base: str | None, head: str | None, results: Sequence[str] = ()
    ) -> RevisionPair:
        """Return the change between two revisions.

        The base is where the head left the named revision, or else the default branch.
        Without a head, it is the work tree; if that has changes beside files of
        `results`, the head of the pair is empty. Raise UsageError.
        """
        head_commit = self.commit(head or "HEAD")
        named = base or self._default_branch()
        fork = self._fork(self.commit(named), head_commit, named)
        uncommitted = self._uncommitted(results) if head is None else []
        if not uncommitted:
            self._refuse_same(fork, head_commit)
        self._refuse_submodules(fork, head_commit)
        notes: list[str] = []
        if base is not None and fork != self.commit(base):
            notes.append(f"the base is {fork[:SHORT_ID]}, where the change left {base}")
        # Beside commits, a forgotten file is easily one too many.
        if uncommitted and fork != head_commit:
            notes.append(
                f"uncommitted files are part of the change: {some(uncommitted)}; "
                "without them: --head HEAD"
            )
        changed_head = "" if uncommitted else head_commit
        return RevisionPair(fork, changed_head, tuple(notes))

    def commit(self, name: str) -> str:
        """Return the id of the commit that a name means. Raise UsageError."""
        commit = self.object_id(f"{name}^{{commit}}")
        if commit:
            return commit
        hint = "git log --oneline lists the commits, and git branch --all the branches"
        remote, _, branch = name.partition("/")
        if branch and self._git("remote", "get-url", remote)[0] == 0:
            # A clone of one branch has no other one, also if it is deepened.
            hint = f"git fetch {remote} {branch}:refs/remotes/{name}"
            if self._is_shallow():
                hint += ", and git fetch --unshallow"
        elif self._is_shallow():
            hint = _SHALLOW
        raise UsageError(f"{name} is not a commit of {self.root}", hint)

    def _default_branch(self) -> str:
        for name in _DEFAULT_BRANCHES:
            if self.object_id(name):
                return name
        raise UsageError(
            f"the default branch of {self.root} is not known",
            "name the base: --base REV, such as HEAD^",
        )

    def _fork(self, base: str, head: str, name: str) -> str:
        """Return the commit at which the head left the base. Raise UsageError."""
        # Commits that the base got later would look as if the change had undone them.
        code, output = self._git("merge-base", base, head)
        if code == 0:
            return output
        hint = "name a commit before the change: --base REV"
        if self._is_shallow():
            hint = _SHALLOW
        raise UsageError(f"{name} and the head have no common commit", hint)

    def _is_shallow(self) -> bool:
        _, output = self._git("rev-parse", "--is-shallow-repository")
        return output == "true"

    def _uncommitted(self, results: Sequence[str]) -> list[str]:
        """Return the files of the work tree with changes that are not committed."""
        options = (
            *("--porcelain", "-z", "--no-renames"),
            *("--ignore-submodules", "--untracked-files=all"),
        )
        _, output = self._git("status", *options, "--", *_all_but(results))
        paths: list[str] = []
        for row in output.split("\0"):
            # A row has two letters for the kind of the change, a space and the path.
            path = row[3:]
            if path:
                paths.append(path)
        return paths

    def _refuse_same(self, base: str, head: str) -> None:
        if base == head:
            raise UsageError(
                f"there is no change: the base is the head, {head[:SHORT_ID]}",
                "name the commit before the change: --base REV, such as HEAD^",
            )

    def _refuse_submodules(self, base: str, head: str) -> None:
        """Raise UsageError if the change moves a submodule to another commit.

        Also raise it if a submodule of the work tree differs from that of the head:
        the copy has it as it is, on each side.
        """
        moved = self._submodules("diff-tree", "-r", base, head)
        if moved:
            raise UsageError(
                f"the change moves the submodule {some(moved)}, which cannot be "
                "checked here",
                "make the receipt in the repository of the submodule",
            )
        # Files that a build has made in it are no part of any commit.
        differing = self._submodules(
            "diff-index", "--ignore-submodules=untracked", head
        )
        if differing:
            raise UsageError(
                f"the submodule {some(differing)} of the work tree differs from the "
                "commit that the head names, and would be checked in its place",
                "git submodule update, or commit what the submodule has",
            )

    def _submodules(self, command: str, *arguments: str) -> list[str]:
        """Return the submodules among the differences that a command of git prints."""
        options = ("--raw", "-z", "--no-renames")
        _, output = self._git(command, *options, *arguments)
        fields = output.split("\0")
        paths: list[str] = []
        for row, path in zip(fields[::2], fields[1::2], strict=False):
            if _SUBMODULE in row:
                paths.append(path)
        return paths

    def tree_of(self, commit: str) -> str:
        """Return the id of a commit's tree; empty if there is no such commit."""
        return self.object_id(f"{commit}^{{tree}}")

    def object_id(self, name: str) -> str:
        """Return the id of an object, such as `HEAD:goal.toml`; empty without one."""
        # A name that begins with a hyphen would be an option of git.
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options")
        code, object_id = self._git(*words, name)
        return object_id if code == 0 else ""

    def commit_with(self, tree: str) -> str:
        """Return the commit that has a tree: HEAD, or else the end of a branch.

        Empty if there is none, or if several have it.
        """
        if self.tree_of("HEAD") == tree:
            return self.commit("HEAD")
        # Branches alone: a tag may name a commit that no branch has any more.
        form = "--format=%(objectname) %(tree)"
        _, output = self._git("for-each-ref", form, "refs/heads")
        commits: set[str] = set()
        for line in output.splitlines():
            commit, _, tree_of_commit = line.partition(" ")
            if tree_of_commit == tree:
                commits.add(commit)
        return commits.pop() if len(commits) == 1 else ""

    def _git(self, *arguments: str) -> tuple[int, str]:
        return read_git(self.root, *arguments, environ=self._environ)


def _all_but(paths: Sequence[str]) -> list[str]:
    """Return the arguments of git for all files but these, relative to its root."""
    return [".", *(f":(exclude,top,literal){path}" for path in paths)]


def commit_of_work_tree(root: Path, results: Sequence[str] = ()) -> str:
    """Return a new commit with the files of a work tree as they are.

    Files of `results`, such as the receipt itself, are left out. No branch and no index
    is changed. Git does it with the configuration of the person, so that filters run as
    in a commit. Raise WorkspaceError.
    """
    with tempfile.TemporaryDirectory() as scratch:
        environ = {
            **person_environment(os.environ),
            "GIT_INDEX_FILE": str(Path(scratch) / "index"),
        }
        _run_git(root, environ, "read-tree", "HEAD")
        _run_git(root, environ, "add", "--all", "--", *_all_but(results))
        tree = _run_git(root, environ, "write-tree")
        # This commit is never published, and a person may have set no name.
        for role in ("AUTHOR", "COMMITTER"):
            environ[f"GIT_{role}_NAME"] = environ[f"GIT_{role}_EMAIL"] = "goal"
        message = ("-m", "the work tree")
        return _run_git(root, environ, "commit-tree", tree, "-p", "HEAD", *message)


def _run_git(root: Path, environ: Mapping[str, str], *arguments: str) -> str:
    done = subprocess.run(
        # A hook of the repository could change the files, or ask a person.
        ["git", "-c", "core.hooksPath=/dev/null", *arguments],
        cwd=root,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip()
        raise WorkspaceError(f"git {arguments[0]} failed: {words}")
    return os.fsdecode(done.stdout).strip()
