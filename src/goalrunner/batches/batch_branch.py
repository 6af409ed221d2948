"""The branch of a batch in one repository: reading it, and moving it forward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.core.errors import UsageError, WorkspaceError
from goalrunner.snapshots.git import ask_git
from goalrunner.snapshots.paths import printable_path
from goalrunner.snapshots.repositories import Repository

BATCH_TRAILER = "Goal-Batch"
"""The trailer of each commit of the branch, with the id of the batch."""
_RUN_TRAILER = "Goal-Run"
# Git that hangs, such as on a network file system, must not hold the batch.
_GIT_SECONDS = 60.0
_FORMAT = "%x00".join(
    (
        "%H",
        *(
            f"%(trailers:key={name},valueonly)"
            for name in (BATCH_TRAILER, _RUN_TRAILER)
        ),
    )
)
_MOST = 10_000
"""Commits that are read; no batch has so many goals."""


@dataclass(frozen=True)
class BranchCommits:
    """The commits of a batch on its branch; the tip is one of them."""

    tip: str
    by_run: Mapping[str, str] = field(default_factory=dict)
    """The commit by the id of the run whose change it has."""


class BatchBranch:
    """The branch of a batch in a repository, which may not exist yet."""

    def __init__(
        self,
        repository: Repository,
        name: str,
        batch_id: str,
        environ: Mapping[str, str],
    ) -> None:
        self.repository, self.name = repository, name
        self._batch, self._environ = batch_id, environ

    def commits(self) -> BranchCommits | None:
        """Return the commits of the batch on the branch; None without a branch.

        Raise UsageError for a name that is not valid, and for a branch that does not
        end with a commit of the batch.
        """
        code, _, _ = self._git("check-ref-format", "--branch", self.name)
        # Git would make a branch of these names, which every command takes for another.
        is_ambiguous = self.name == "@" or self.name.startswith("refs/")
        if code != 0 or is_ambiguous:
            raise UsageError(
                f"{self.name!r} is not a valid name of a branch",
                "use letters, digits, - and /",
            )
        ref = f"refs/heads/{self.name}"
        code, output, _ = self._git("rev-parse", "--verify", "--quiet", ref)
        if code != 0:
            return None
        tip = output.decode().strip()
        by_run: dict[str, str] = {}
        is_ours = False
        for commit, batch, run in self._log(tip):
            if batch != self._batch:
                break
            is_ours = True
            if run:
                by_run[run] = commit
        if not is_ours:
            raise UsageError(
                f"the branch {self.name} of {self.repository.root} does not end with a "
                f"commit of batch {self._batch}",
                "choose another name: --branch NAME",
            )
        return BranchCommits(tip, by_run)

    def _log(self, tip: str) -> list[tuple[str, str, str]]:
        """Return commit, batch and run of the newest commits, newest first."""
        output = self._ask(
            "log",
            # What a person merged into the branch is no commit of the batch.
            "--first-parent",
            "-z",
            f"--max-count={_MOST}",
            f"--format=tformat:{_FORMAT}",
            tip,
            "--",
        )
        fields = [text.strip() for text in output.decode(errors="replace").split("\0")]
        return list(zip(fields[::3], fields[1::3], fields[2::3], strict=False))

    def refuse_checked_out(self) -> None:
        """Raise UsageError if a work tree has the branch checked out.

        Its files and its index would differ from the branch that moves.
        """
        worktree = ""
        for line in self._ask("worktree", "list", "--porcelain").decode().splitlines():
            word, _, value = line.partition(" ")
            # The folder of each work tree is listed before its branch.
            if word == "worktree":
                worktree = value
            if word == "branch" and value == f"refs/heads/{self.name}":
                raise UsageError(
                    f"the branch {self.name} is checked out in {worktree}",
                    "git switch another branch there first, or choose another name: "
                    "--branch NAME",
                )

    def not_checked_out(self) -> frozenset[Path]:
        """Return the files that a sparse checkout leaves out of the work tree."""
        rows = self._ask("ls-files", "-t", "-z").split(b"\0")
        root = self.repository.root
        # `S` marks files with the skip-worktree bit, which a sparse checkout sets.
        skipped = [row[2:] for row in rows if row.startswith(b"S ")]
        return frozenset(root / printable_path(path) for path in skipped)

    def advance(self, commit: str, before: str) -> None:
        """Let the branch end with a commit; it must end with `before`, or not exist.

        Raise WorkspaceError if it was moved meanwhile.
        """
        reason = f"goal: batch {self._batch}"
        # Zeros make git refuse if the branch exists by now.
        expected = before or "0" * len(commit)
        ref = f"refs/heads/{self.name}"
        code, _, errors = self._git("update-ref", "-m", reason, ref, commit, expected)
        if code != 0:
            words = errors.decode(errors="replace").strip()
            raise WorkspaceError(
                f"git cannot move the branch {self.name} of {self.repository.root}: "
                f"{words}",
                "correct that, or choose another name: --branch NAME",
            )

    def _ask(self, *arguments: str) -> bytes:
        code, output, errors = self._git(*arguments)
        if code != 0:
            words = errors.decode(errors="replace").strip()
            raise WorkspaceError(
                f"git {arguments[0]} failed in {self.repository.root}: {words or code}"
            )
        return output

    def _git(self, *arguments: str) -> tuple[int, bytes, bytes]:
        return ask_git(
            self.repository.root,
            f"--git-dir={self.repository.git_dir}",
            *arguments,
            environ=self._environ,
            timeout=_GIT_SECONDS,
        )


def is_ignored(
    workspace: Path, repository: Repository, environ: Mapping[str, str]
) -> bool:
    """Return whether a repository ignores a folder in it.

    A repository of a home folder often ignores all others that are below it.
    """
    if workspace == repository.root:
        return False
    code, _, _ = ask_git(
        repository.root,
        f"--git-dir={repository.git_dir}",
        f"--work-tree={repository.root}",
        # With --no-index, the rules decide, whatever is tracked below the folder.
        *("check-ignore", "--quiet", "--no-index", "--", str(workspace)),
        environ=environ,
        timeout=_GIT_SECONDS,
    )
    return code == 0
