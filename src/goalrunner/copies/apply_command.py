"""What `goal apply` does, step by step, and what it prints."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from contextlib import closing
from typing import Any

from goalrunner.app.previous_run import load_run
from goalrunner.cli import main, output, runs
from goalrunner.copies.applying import Application, applied_lines, refuse_unfinished
from goalrunner.copies.committing import commit_paths, refuse_commit
from goalrunner.copies.merging import MergeConflict, MergedTree
from goalrunner.copies.run_copy import RunCopy, has_unfinished_turn
from goalrunner.core.errors import GoalError, UsageError, WorkspaceBusy, some
from goalrunner.exports.change import RunChange, commit_message
from goalrunner.records.run_folder import RunFolder
from goalrunner.reports.short_forms import SHORT_ID

Printed = tuple[dict[str, object], str]
"""What is printed: as JSON, and as text."""


class ApplyCommand:
    """`goal apply` of one run.

    `check` None: if the tree is another one than the run has verified. Raise UsageError
    for a run that is not complete, unless `incomplete`.
    """

    def __init__(
        self, folder: RunFolder, check: bool | None, *, incomplete: bool
    ) -> None:
        self._folder, self._check = folder, check
        self._id = folder.run_id
        loaded = load_run(folder)
        self._state, self._outcome = loaded.state, loaded.outcome(folder)
        self._isolated = loaded.started.isolated
        refuse_unfinished(folder, self._outcome, incomplete=incomplete)
        self._application = Application(folder, loaded, runs.home(), os.environ)
        copy = RunCopy.of(folder)
        # No snapshot has it, so an apply cannot bring it.
        if copy.exists and has_unfinished_turn(folder):
            output.complain(
                "Warning: what the agent changed in its interrupted turn is in the "
                f"copy alone, and not applied; goal resume {self._id} goes on with it"
            )

    def in_workspace(self, commit: bool) -> Printed:
        """Apply the change to the workspace; commit it if wanted."""
        application = self._application
        workspace = application.workspace
        with closing(application):
            application.refuse_unready()
            self._undo_interrupted()
            if commit:
                # Before the merge and its check, which can take minutes.
                refuse_commit(workspace)
            tree = self._merged(application.merge())
            self._check_if_needed(tree)
            applied = main.wait_for(application.write(tree))
            paths = [change.path for change in applied.changes]
            if commit and paths:
                commit_paths(workspace, paths, commit_message(self._outcome))
        values: dict[str, object] = {
            "run_id": self._id,
            "workspace": str(workspace),
            "changed": paths,
            "before": applied.before.id,
        }
        if not paths and self._state.base == self._state.snapshot:
            return values, f"The run {self._id} has recorded no change.\n"
        if not paths:
            return values, f"{workspace} has the change of {self._id} already.\n"
        labels = self._outcome.labels if self._isolated else ()
        lines = applied_lines(self._id, str(workspace), applied, labels)
        return values, output.terminal_text(lines)

    def _undo_interrupted(self) -> None:
        """Undo an apply that was killed, which claims the workspace.

        Raise WorkspaceBusy if a run or another apply works there.
        """
        try:
            note = main.wait_for(self._application.undo_interrupted())
        except WorkspaceBusy as error:
            hint = f"wait for it to end; then: goal apply {self._id}"
            raise WorkspaceBusy(error.message, hint) from error
        if note:
            output.complain(note)

    def on_branch(self, branch: str) -> Printed:
        """Commit the change on a new branch, where the run began."""
        application = self._application
        with closing(application):
            base = main.wait_for(application.base(branch))
            tree = self._merged(application.merge_onto(base))
            message = commit_message(self._outcome)
            commit = main.wait_for(application.commit(tree, base, message))
            unchecked = self._check_if_needed(tree, commit)
            # Last: after a red check, only a commit that git removes some day is left.
            main.wait_for(application.make_branch(branch, commit))
        if unchecked:
            output.complain(
                f"Warning: the branch differs from what the run checked in "
                f"{some(unchecked)}"
            )
        values: dict[str, object] = {
            "run_id": self._id,
            "workspace": str(application.workspace),
            "changed": list(tree.paths),
            "branch": branch,
            "commit": commit,
            "base": base,
        }
        text = (
            f"Branch {branch}: commit {commit[:SHORT_ID]} on {base[:SHORT_ID]}. "
            f"To publish it: git push origin {branch}\n"
        )
        return values, text

    def _merged(self, merging: Coroutine[Any, Any, MergedTree]) -> MergedTree:
        """Return the merged tree. Raise UsageError with the patch for conflicts."""
        try:
            return main.wait_for(merging)
        except MergeConflict as error:
            raise UsageError(
                f"{error.message}\nnothing was written",
                f"{self._saved_patch()}\n"
                f"goal export {self._id} --branch NAME makes a branch to merge",
            ) from error

    def _saved_patch(self) -> str:
        """Write the change as a patch into the run's folder; return how to use it."""
        path = self._folder.path / "change.patch"
        change = RunChange(self._folder, self._state, runs.home(), os.environ)
        try:
            path.write_bytes(main.wait_for(change.patch()))
        except (GoalError, OSError) as error:
            return f"no patch of it could be written ({error})"
        return f"git apply --3way {path} applies its patch with conflict markers"

    def _check_if_needed(self, tree: MergedTree, commit: str = "") -> tuple[str, ...]:
        """Run the validators on a tree, or on its commit if there is one; not on a tree
        that the run has verified, unless `--check` asks for it.

        Return the paths in which an unchecked tree differs from the verified one.
        """
        if not tree.entries:
            return ()
        moved = main.wait_for(self._application.moved(tree))
        only_in_copy = self._application.only_in_copy
        is_needed = self._check
        if is_needed is None:
            is_needed = bool(moved or only_in_copy)
        if not is_needed:
            return moved
        # They can take minutes, and nothing else is printed until they end.
        why = only_in_copy or "--check"
        if moved:
            why = f"not as the run began: {some(moved)}"
        output.complain(f"Running the validators on the merged tree ({why})")
        self._application.check(tree, commit)
        return ()
