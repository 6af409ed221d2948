"""Bringing the verified changes of a batch onto one branch, one after another.

Each is merged onto the commit before it, and the branch moves to the new commit only
after the validators of its goal, and of those before it, have passed on that commit.
The work trees, the indexes and the current branches of the repositories stay as they
are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from goalrunner.batches.batch_branch import BatchBranch, is_ignored
from goalrunner.batches.batch_folder import BatchFolder, BatchLog, event_time
from goalrunner.batches.batch_run import BatchGoals, BatchRun, NotIntegrated
from goalrunner.batches.history import EntryIntegrated, EntryStarted, EntryState
from goalrunner.batches.integration_rules import (
    branch_name,
    decisions_on,
    integration_order,
    lasting_decisions,
    missing_dependency,
)
from goalrunner.batches.plan import BatchEntry
from goalrunner.batches.repository_integration import (
    IntegrationSettings,
    RepositoryIntegration,
)
from goalrunner.core.errors import UsageError
from goalrunner.records.run_folder import RUNS, RunFolder
from goalrunner.snapshots.repositories import Repository, enclosing


class Integration:
    """The integration of one batch, whose log this process writes.

    `branch` is the name of the branch in each repository; empty: `goal/<batch id>`.
    """

    def __init__(
        self,
        batch: BatchFolder,
        log: BatchLog,
        settings: IntegrationSettings,
        branch: str = "",
    ) -> None:
        self._batch, self._log, self._settings = batch, log, settings
        self.branch = branch or branch_name(batch.batch_id)
        sources = [entry.source for entry in log.state.plan.entries]
        goal_files = frozenset(Path(os.path.realpath(source)) for source in sources)
        self._goals = BatchGoals(batch.batch_id, goal_files)
        self.decisions: dict[str, EntryIntegrated] = {}
        """The decisions about the entries, by key."""
        self.repositories: dict[Path, RepositoryIntegration] = {}
        """The repositories of complete entries, by the folder of their refs."""
        self._by_workspace: dict[Path, Repository | None] = {}

    def perform(self) -> Iterator[EntryIntegrated]:
        """Take one change after another; yield each decision after it is recorded.

        Raise UsageError if no entry is complete, or none of the complete ones is in a
        repository, and for a branch that cannot be used. Raise EnvironmentFailed if no
        copy is possible here, and WorkspaceError if git fails.
        """
        self.open()
        yield from self._adopt()
        for key in integration_order(self._log.state, self.decisions):
            commit, reason = self._decide(key)
            yield self._record(key, commit, reason)

    def open(self) -> None:
        """Read the branches, and the decisions that hold for them, once.

        Raise UsageError as `perform` does.
        """
        # The command opens it to print what begins, and `perform` calls it again.
        if self.repositories:
            return
        complete = self._complete_entries()
        keys: dict[RepositoryIntegration | None, list[str]] = {}
        for entry in complete:
            integration = self._opened(entry)
            keys.setdefault(integration, []).append(entry.entry.key)
        if not self.repositories:
            raise without_branch(complete[0].entry, complete[0].run_id)
        earlier = decisions_on(self.branch, self._batch.events())
        for integration, its_keys in keys.items():
            commits = integration.commits if integration else None
            self.decisions |= lasting_decisions(earlier, its_keys, commits)

    def _complete_entries(self) -> list[EntryState]:
        """Return the entries that can be integrated. Raise UsageError for none."""
        batch_id = self._batch.batch_id
        if self._log.state.plan.kind == "group":
            raise UsageError(
                f"{batch_id} has several runs of one goal, of which one is wanted",
                f"goal apply {batch_id} applies the best one",
            )
        entries = self._log.state.entries.values()
        complete = [entry for entry in entries if entry.is_complete]
        if not complete:
            raise UsageError(
                f"no goal of batch {batch_id} is complete, "
                "so there is nothing to integrate",
                f"goal batch --resume {batch_id} goes on with it",
            )
        return complete

    def _opened(self, entry: EntryState) -> RepositoryIntegration | None:
        """Return the integration into the repository of an entry, made if needed."""
        repository = self._repository(entry)
        if repository is None:
            return None
        # Work trees of one repository have the same branches.
        place = repository.common
        if place not in self.repositories:
            branch = BatchBranch(
                repository,
                self.branch,
                self._batch.batch_id,
                self._settings.environ,
            )
            self.repositories[place] = RepositoryIntegration(branch, self._settings)
        return self.repositories[place]

    def _adopt(self) -> Iterator[EntryIntegrated]:
        """Record the commits of a process that was killed before it recorded them."""
        for key, entry in self._log.state.entries.items():
            integration = self.integration_of(entry)
            commit = integration.commit_of(entry.run_id) if integration else ""
            if commit and key not in self.decisions:
                yield self._record(key, commit, "")

    def integration_of(self, entry: EntryState) -> RepositoryIntegration | None:
        """Return the integration into the repository of an entry; None without one."""
        repository = self._repository(entry)
        return self.repositories.get(repository.common) if repository else None

    def _repository(self, entry: EntryState) -> Repository | None:
        """Return the repository of an entry; None if its workspace is in none, or is
        ignored there.
        """
        workspace = _workspace(entry)
        if workspace not in self._by_workspace:
            self._by_workspace[workspace] = repository_around(
                workspace, self._settings.environ
            )
        return self._by_workspace[workspace]

    def _record(self, key: str, commit: str, reason: str) -> EntryIntegrated:
        event = EntryIntegrated(
            at=event_time(),
            key=key,
            branch=self.branch,
            commit=commit,
            reason=reason,
        )
        # The branch has moved to a commit by now; after a kill before this, `_adopt`
        # records it.
        self._log.append(event)
        self.decisions[key] = event
        return event

    def _decide(self, key: str) -> tuple[str, str]:
        """Return the commit with the change of an entry, or else why it is left out."""
        entry = self._log.state.entries[key]
        reason = missing_dependency(self._log.state, key, self.decisions)
        if reason:
            return "", reason
        if not _workspace(entry).is_dir():
            return "", f"{entry.entry.workspace} is gone"
        integration = self.integration_of(entry)
        if integration is None:
            reason = f"{entry.entry.workspace} is in no git repository"
            return "", f"{reason}; goal apply {entry.run_id} brings the change there"
        try:
            run = self._run(entry.run_id)
            if not integration.has_begun:
                integration.begin(self._first_runs(integration))
            elif not integration.knows_taken:
                # An earlier process made the branch: its goals are checked as well.
                integration.take_again(self._taken_runs(integration))
            return integration.integrate(run), ""
        except NotIntegrated as error:
            return "", error.message

    def _run(self, run_id: str) -> BatchRun:
        home, environ = self._settings.home, self._settings.environ
        return BatchRun(RunFolder(home / RUNS / run_id), self._goals, home, environ)

    def _first_runs(self, integration: RepositoryIntegration) -> list[BatchRun]:
        """Return the run that began first in each workspace of a repository."""
        # The first run of a workspace has the snapshot of what was not committed there.
        first: dict[Path, BatchRun] = {}
        for event in self._batch.events():
            if not isinstance(event, EntryStarted):
                continue
            entry = self._log.state.entries[event.key]
            workspace = _workspace(entry)
            if self.integration_of(entry) is not integration or workspace in first:
                continue
            try:
                first[workspace] = self._run(entry.run_id)
            except NotIntegrated:
                # It was ended before its agent worked, or its records are gone.
                continue
        return list(first.values())

    def _taken_runs(self, integration: RepositoryIntegration) -> list[BatchRun]:
        """Return the runs whose changes are on the branch of a repository."""
        run_ids = []
        for key, decision in self.decisions.items():
            entry = self._log.state.entries[key]
            is_here = self.integration_of(entry) is integration
            if is_here and decision.commit:
                run_ids.append(entry.run_id)
        return [self._run(run_id) for run_id in run_ids]


def _workspace(entry: EntryState) -> Path:
    return Path(os.path.realpath(entry.entry.workspace))


def repository_around(workspace: Path, environ: Mapping[str, str]) -> Repository | None:
    """Return the repository of a workspace without links; None if it is in none, or is
    ignored there.
    """
    repository = enclosing(workspace)
    if repository is None or is_ignored(workspace, repository, environ):
        return None
    # It is compared with others, and links may lead to one repository.
    common = Path(os.path.realpath(repository.common))
    return replace(repository, common=common)


def without_branch(entry: BatchEntry, run_id: str = "RUN") -> UsageError:
    """Return the error for a batch of which no workspace is in a repository."""
    return UsageError(
        f"{entry.workspace} is in no git repository, "
        "so there is no branch to integrate into",
        f"goal apply {run_id} brings the change of one run into its workspace",
    )


def refuse_without_repository(
    entries: Sequence[BatchEntry], environ: Mapping[str, str]
) -> None:
    """Raise UsageError if no workspace of a new batch is in a repository."""
    for entry in entries:
        workspace = Path(os.path.realpath(entry.workspace))
        if repository_around(workspace, environ) is not None:
            return
    raise without_branch(entries[0])
