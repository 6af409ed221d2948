"""The tasks of a cluster: goal files of one commit, each with the id of its run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from goalrunner.batches.plan import BatchEntry
from goalrunner.batches.submission import submit
from goalrunner.core.errors import UsageError, one_line, quoted, some
from goalrunner.snapshots.git import read_git
from goalrunner.snapshots.repositories import enclosing

_SHORT_COMMIT = 8
_LONGEST_NAME = 40
"""Of a job. With the name of a task, it is the id of a run, of up to 63 characters."""
_LONGEST_TASK_NAME = 22


@dataclass(frozen=True)
class Task:
    """One goal of a job."""

    run_id: str
    goal_file: str
    """The path in the repository."""
    objective: str


@dataclass(frozen=True)
class TaskList:
    """The goals of a job, and the commit on which each of them begins."""

    name: str
    """Of the job: small letters, digits and hyphens."""
    repository: str
    """The URL that the tasks clone; empty: not known."""
    commit: str
    tasks: tuple[Task, ...]
    notes: tuple[str, ...] = ()
    """For people: what may be missing where the tasks run."""


def task_list(
    paths: Sequence[Path],
    repository: str | None,
    name: str | None,
    environ: Mapping[str, str] = os.environ,
) -> TaskList:
    """Return the tasks of goal files and folders, at the present commit.

    `repository` is the URL to clone; None: that of the remote `origin`. `name` is the
    name of the job; None: it is made of the commit, so that the same commit has the
    same runs. Raise GoalFileError, and UsageError.
    """
    entries = submit(paths, None, {}, environ).entries
    _refuse_order(entries)
    root = _repository_of(entries)
    git = _Git(root, environ)
    commit = git.head()
    if name is not None:
        refuse_name(name)
    job = name or f"goal-{commit[:_SHORT_COMMIT]}"
    files = {entry.key: _path_in(root, entry) for entry in entries}
    git.refuse_uncommitted(list(files.values()))
    tasks: list[Task] = []
    run_ids: set[str] = set()
    for entry in entries:
        run_id = _run_id(job, entry, run_ids)
        run_ids.add(run_id)
        tasks.append(Task(run_id, files[entry.key], one_line(entry.objective)))
    url = repository or git.origin()
    notes = () if git.is_published() else (_not_published(commit),)
    return TaskList(job, url, commit, tuple(tasks), notes)


def _refuse_order(entries: Sequence[BatchEntry]) -> None:
    for entry in entries:
        if entry.after:
            raise UsageError(
                f"{entry.source}: its goal comes after another one, "
                "and the tasks of a cluster begin in any order",
                "export it alone when that goal is complete, "
                "or use goal batch, which keeps the order",
            )


def _repository_of(entries: Sequence[BatchEntry]) -> Path:
    """Return the root of the repository that has all goal files."""
    roots: set[Path] = set()
    for entry in entries:
        folder = Path(os.path.realpath(entry.source)).parent
        repository = enclosing(folder)
        if repository is None:
            raise UsageError(
                f"{entry.source} is in no git repository, "
                "so a task of a cluster cannot clone it",
                "git init, commit the project, and push it",
            )
        roots.add(repository.root)
    if len(roots) > 1:
        names = sorted(map(str, roots))
        raise UsageError(
            f"the goals lie in {len(roots)} repositories: {some(names)}",
            "export the goals of each repository by themselves",
        )
    return roots.pop()


def _path_in(root: Path, entry: BatchEntry) -> str:
    """Return the path of a goal file in its repository."""
    source = Path(os.path.realpath(entry.source))
    if not str(source).isprintable():
        raise UsageError(
            f"{quoted(str(source))} has characters that no manifest can hold",
            "rename the goal file",
        )
    if not Path(os.path.realpath(entry.workspace)).is_relative_to(root):
        raise UsageError(
            f"{entry.source}: its workspace {entry.workspace} is not in the repository "
            f"{root}, so a task of a cluster does not have it",
            "choose a workspace in the repository",
        )
    return source.relative_to(root).as_posix()


def refuse_name(name: str) -> None:
    """Raise UsageError for a name that Kubernetes does not accept for a job."""
    is_label = re.fullmatch(r"[a-z]([a-z0-9]|-(?!-))*[a-z0-9]", name) is not None
    if not is_label or len(name) > _LONGEST_NAME:
        raise UsageError(
            f"{quoted(name)} is not a valid name for a job",
            f"use up to {_LONGEST_NAME} small letters, digits and hyphens, "
            "and begin with a letter",
        )


def _run_id(job: str, entry: BatchEntry, used: set[str]) -> str:
    """Return the id of a task's run: the same one for the same list of goals."""
    name = re.sub(r"[^a-z0-9]+", "-", entry.name.lower())
    short_name = name[-_LONGEST_TASK_NAME:].strip("-") or entry.key
    run_id = f"{job}-{short_name}"
    if run_id not in used:
        return run_id
    # Its number is unique in the list. The whole id has at most 63 characters.
    shorter = short_name[: _LONGEST_TASK_NAME - len(entry.key) - 1].strip("-")
    return f"{job}-{shorter}-{entry.key}"


def _not_published(commit: str) -> str:
    return (
        f"this repository knows no remote branch with commit {commit[:_SHORT_COMMIT]}: "
        "git push, before the job starts"
    )


class _Git:
    """What a task list needs to know of a repository."""

    def __init__(self, root: Path, environ: Mapping[str, str]) -> None:
        self._root = root
        self._environ = environ

    def _ask(self, *arguments: str) -> str:
        """Return the output of a git command; empty if it fails.

        Raise WorkspaceError if git cannot be used.
        """
        code, output = read_git(self._root, *arguments, environ=self._environ)
        return output if code == 0 else ""

    def head(self) -> str:
        """Return the present commit. Raise UsageError if there is none."""
        commit = self._ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if not commit:
            raise UsageError(
                f"{self._root} has no commit, so there is nothing to clone",
                "commit the project: git add -A && git commit",
            )
        return commit

    def refuse_uncommitted(self, files: list[str]) -> None:
        """Raise UsageError if a goal file differs from the one of the commit."""
        committed = self._ask("ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0")
        differing = self._ask("diff", "-z", "--name-only", "HEAD", "--", *files)
        names = differing.rstrip("\0").split("\0") if differing else []
        names += [file for file in files if file not in committed]
        if names:
            raise UsageError(
                f"not committed, or changed since the last commit: "
                f"{some(sorted(names))}",
                "commit the goal files; the tasks read them from the commit",
            )

    def origin(self) -> str:
        """Return the URL of the remote `origin`; empty if there is none."""
        return without_password(self._ask("remote", "get-url", "origin"))

    def is_published(self) -> bool:
        """Return whether a branch of a remote has the present commit."""
        return bool(self._ask("branch", "--remotes", "--contains", "HEAD"))


def without_password(url: str) -> str:
    """Return a URL without user and password, which must not lie in a manifest."""
    parts = urlsplit(url)
    if not parts.scheme.startswith("http") or "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
