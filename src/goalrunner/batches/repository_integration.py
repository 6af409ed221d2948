"""The integration of a batch into one repository: a branch that grows commit by commit,
each of them checked before the branch moves to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from goalrunner.batches.batch_branch import BatchBranch, BranchCommits
from goalrunner.batches.batch_run import BatchRun, NotIntegrated
from goalrunner.batches.integration_rules import NOTHING_NEW
from goalrunner.copies.committing import repository_of
from goalrunner.copies.merged_check import problem_of_commit
from goalrunner.records.run_folder import RunFolder

_SHA1_DIGITS = 40


class CommitCheck(Protocol):
    """The check of a commit by the validators of runs of one workspace."""

    def __call__(
        self,
        commit: str,
        runs: Sequence[RunFolder],
        workspace: Path,
        home: Path,
        environ: Mapping[str, str],
    ) -> str:
        """Return which validators fail; empty if all pass."""


@dataclass(frozen=True)
class IntegrationSettings:
    """What all repositories of an integration share."""

    home: Path
    environ: Mapping[str, str]
    check: CommitCheck = problem_of_commit


class RepositoryIntegration:
    """The branch of a batch in one repository, and the runs whose changes it has.

    Raise UsageError for a branch that cannot be used.
    """

    def __init__(self, branch: BatchBranch, settings: IntegrationSettings) -> None:
        self._branch, self._settings = branch, settings
        self._commits = branch.commits() or BranchCommits("")
        self._end = self._commits.tip
        """The end of the branch; empty while it does not exist."""
        self._tip = self._end
        """What the next change is merged onto."""
        self._taken: list[BatchRun] = []
        self.knows_taken = not self._end
        """Whether the runs are known whose changes the branch has."""
        self.carried: tuple[str, ...] = ()
        """The paths of the uncommitted changes with which a new branch begins."""

    @property
    def root(self) -> Path:
        """The root of the repository."""
        return self._branch.repository.root

    @property
    def end(self) -> str:
        """The commit with which the branch ends; empty if there is no branch."""
        return self._end

    @property
    def has_begun(self) -> bool:
        """Whether there is a commit to merge onto."""
        return bool(self._tip)

    def commit_of(self, run_id: str) -> str:
        """Return the commit of the branch with the change of a run; empty for none."""
        return self._commits.by_run.get(run_id, "")

    @property
    def commits(self) -> frozenset[str] | None:
        """The commits of the batch that the branch had at first; None for no branch."""
        if not self._commits.tip:
            return None
        return frozenset((self._commits.tip, *self._commits.by_run.values()))

    def take_again(self, runs: Sequence[BatchRun]) -> None:
        """Note the runs whose changes are on the branch, so that their checks run."""
        self._taken = list(runs)
        self.knows_taken = True

    def begin(self, runs: Sequence[BatchRun]) -> None:
        """Choose where the branch begins: the commit of the first run's start, and what
        was not committed then.

        `runs` are the first ones of each workspace in the repository, the earliest
        first. Raise NotIntegrated if the repository had no commit.
        """
        tip = runs[0].base if runs else ""
        if not tip:
            raise NotIntegrated(f"{self.root} had no commit when the batch began")
        if len(tip) != _SHA1_DIGITS:
            raise NotIntegrated(
                f"{self.root} has SHA-256 objects, which snapshots cannot exchange"
            )
        not_checked_out = self._branch.not_checked_out()
        # Each workspace can have had uncommitted changes of its own.
        for run in runs:
            tip, paths = asyncio.run(run.commit_uncommitted(tip, not_checked_out))
            folder = run.workspace.relative_to(repository_of(run.workspace).root)
            self.carried += tuple(str(folder / path) for path in paths)
        self._tip = tip

    def integrate(self, run: BatchRun) -> str:
        """Merge the change of a run, check the result, and move the branch to it.

        Return the commit that has the change. Raise NotIntegrated with the reason if it
        is left out.
        """
        # Each time: a person may have checked it out since the last change.
        self._branch.refuse_checked_out()
        merged = asyncio.run(run.commit_onto(self._tip))
        # Without a new commit, there is nothing of which a branch could be made.
        if not self._end and merged.commit == self._tip:
            raise NotIntegrated(NOTHING_NEW)
        if not run.has_validators and not merged.is_verified:
            raise NotIntegrated(
                "no validator runs on the merged tree, and its judge saw another one; "
                f"goal apply {run.run.run_id} --no-check applies it all the same"
            )
        self._check(merged.commit, run)
        if merged.commit != self._end:
            self._branch.advance(merged.commit, self._end)
        self._tip = self._end = merged.commit
        self._taken.append(run)
        return merged.commit

    def _check(self, commit: str, run: BatchRun) -> None:
        """Raise NotIntegrated if a validator of the run, or of one before it, fails."""
        for workspace, folders in _distinct_checks([run, *self._taken]).items():
            problem = self._settings.check(
                commit,
                folders,
                workspace,
                self._settings.home,
                self._settings.environ,
            )
            if problem:
                # A table shows it in one line.
                words = " ".join(problem.split())
                raise NotIntegrated(f"the merged tree is red: {words}")


def _distinct_checks(runs: Sequence[BatchRun]) -> dict[Path, list[RunFolder]]:
    """Return one run for each different set of validators, by workspace.

    The goals of a batch often share the whole test suite, which need not run for each
    of them.
    """
    by_checks: dict[str, BatchRun] = {}
    for run in runs:
        if run.has_validators:
            by_checks.setdefault(run.checks, run)
    folders: dict[Path, list[RunFolder]] = {}
    for run in by_checks.values():
        folders.setdefault(run.workspace, []).append(run.run)
    return folders
