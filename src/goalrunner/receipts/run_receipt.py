"""The receipt of a run that has ended, made of its records.

No validator runs here, so what the run had no reason to check is left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from goalrunner.app.decisions import run_redactor
from goalrunner.app.previous_run import LoadedRun
from goalrunner.app.stored_goal import frozen_goal
from goalrunner.checking.base_results import BaseResults
from goalrunner.checking.kept_sides import KeptSides
from goalrunner.core.errors import UsageError, some
from goalrunner.core.labels import Label
from goalrunner.core.outcome import GoalOutcome
from goalrunner.exports.change import ChangedTree, RunChange
from goalrunner.receipts.comparison import Proof, Sides, compared_tests
from goalrunner.receipts.predicate import CheckedChange, VerifiedRun, predicate_of
from goalrunner.receipts.receipt_goal import GoalPlace, described_goal
from goalrunner.receipts.revisions import Revisions
from goalrunner.receipts.statement import (
    CheckedGoal,
    CheckedRevision,
    Predicate,
    Statement,
    make_statement,
)
from goalrunner.records.run_folder import RunFolder
from goalrunner.reports.short_forms import SHORT_ID


@dataclass(frozen=True)
class EndedRun:
    """A run whose change has a receipt."""

    folder: RunFolder
    loaded: LoadedRun
    home: Path
    environ: Mapping[str, str]

    async def receipt(self) -> Statement:
        """Return the receipt.

        Its head is the commit with which the run began, with the change of the run.
        Raise UsageError if the run took no snapshots, if it is in no repository, or if
        it began with files that no commit has.
        """
        state = self.loaded.state
        change = RunChange(self.folder, state, self.home, self.environ)
        changed = await change.tree()
        if changed.unchecked:
            raise _not_committed(self.folder.run_id, changed)
        revisions = Revisions(changed.repository.root, self.environ)
        base_tree = revisions.tree_of(changed.base)
        head_commit = revisions.commit_with(changed.tree)
        checked = CheckedChange(
            CheckedRevision(commit=changed.base, tree=base_tree),
            CheckedRevision(commit=head_commit, tree=changed.tree),
            self._goal(Path(changed.repository.root)),
        )
        predicate = predicate_of(self._verified(changed), checked)
        # The goal has its secrets again, from the goal file.
        redactor = run_redactor(self.folder, self.environ)
        values = redactor.json(predicate.model_dump(mode="json"))
        return make_statement(Predicate.model_validate(values))

    def _goal(self, root: Path) -> CheckedGoal:
        file = self.loaded.goal_file
        goal = frozen_goal(self.folder, self.environ, file, runnable=False)
        real_root = Path(os.path.realpath(root))
        # Elsewhere, its path says nothing about the repository.
        is_inside = file is not None and file.is_relative_to(real_root)
        workspace = Path(os.path.realpath(self.loaded.state.workspace))
        place = GoalPlace(real_root, workspace, str(file) if is_inside else "")
        return described_goal(goal, place)

    def _verified(self, changed: ChangedTree) -> VerifiedRun:
        """Return the run with what is known of the sides of its last check."""
        state = self.loaded.state
        sides = self._sides()
        outcome = self.loaded.outcome(self.folder)
        labels = list(outcome.labels)
        proofs = {row.proof for row in compared_tests(sides)}
        has_unknown = not proofs.isdisjoint((Proof.UNPROVEN, Proof.NOT_KNOWN))
        if has_unknown or not sides.source:
            labels.append(Label.SIDES_UNKNOWN.value)
        # The snapshots have the workspace alone, and the commit has the repository.
        root = os.path.realpath(changed.repository.root)
        if os.path.realpath(state.workspace) != root:
            labels.append(Label.OUTSIDE_UNKNOWN.value)
        outcome = outcome.model_copy(update={"labels": tuple(labels)})
        return VerifiedRun(
            outcome, sides, state.changed_checks, self._environment(outcome)
        )

    def _sides(self) -> Sides:
        """Return the results on the sides of the last check.

        Those of sides that did not run are empty.
        """
        state, folder = self.loaded.state, self.folder
        base = tuple(BaseResults(folder.start / "base.json").results.values())
        last_check = KeptSides.read(folder.sides)
        # A later round may have been red, and red results are not kept.
        if (
            last_check is None
            or state.snapshot is None
            or last_check.tree != state.snapshot.tree
        ):
            # Beside the tests of the base alone, each would look like a deleted one.
            without_tests = [item.model_copy(update={"tests": None}) for item in base]
            return Sides(without_tests, (), (), state.validators)
        sides = last_check.sides
        if last_check.lacking is not None:
            lacking = frozenset(last_check.lacking)
        else:
            lacking = frozenset(result.name for result in base)
        return Sides(
            base,
            sides.get("B", ()),
            sides.get("N", ()),
            sides.get("M", ()),
            lacking,
            lacking,
        )

    def _environment(self, outcome: GoalOutcome) -> dict[str, str]:
        """Return what the run recorded of its environment."""
        return {
            "checks": outcome.check_environment,
            "goalrunner": self.loaded.started.version,
        }


def _not_committed(run_id: str, changed: ChangedTree) -> UsageError:
    base = changed.base[:SHORT_ID]
    return UsageError(
        f"when run {run_id} began, the workspace differed from {base} in files that it "
        f"did not change ({some(changed.unchecked)}), so no commit has what it checked",
        f"commit the change, and verify the commit: goal receipt --base {base}",
    )
