"""The verification of a change: a run in a copy whose agent's turn is the change.

The copy has the base first. The goal takes its baseline there; then the copy gets the
files of the head, and everything that follows is as in any run: the sides of the check,
the review of changed checks, the audit of the judge, and the labels.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goalrunner.app.build import PreparedRun, prepare_run
from goalrunner.app.checker import CheckRunner
from goalrunner.app.project import detect_project
from goalrunner.app.run_options import RunOptions
from goalrunner.app.sandbox import workspace_of
from goalrunner.app.session import ended_by_signals, settled
from goalrunner.cli import output
from goalrunner.copies.inside import set_up
from goalrunner.copies.merged_check import check_out
from goalrunner.core.agent_ports import Recorder, RoundReply, ToolResult
from goalrunner.core.errors import UsageError, some
from goalrunner.core.goal import Goal
from goalrunner.core.labels import Label
from goalrunner.core.outcome import GoalOutcome, GoalStatus
from goalrunner.engine.conversations import NoAgent
from goalrunner.goalfile.loading import load_goal, resolve_goal
from goalrunner.goalfile.place import goal_file_above
from goalrunner.receipts.comparison import Sides
from goalrunner.receipts.predicate import (
    CheckedChange,
    VerifiedRun,
    environment_here,
    predicate_of,
)
from goalrunner.receipts.receipt_goal import (
    RECEIPT_OBJECTIVE,
    GoalPlace,
    described_goal,
    for_receipt,
    goal_table,
)
from goalrunner.receipts.requests import ReceiptRequest
from goalrunner.receipts.revisions import Revisions, commit_of_work_tree
from goalrunner.receipts.statement import (
    CheckedGoal,
    CheckedRevision,
    GoalRevision,
    Predicate,
    Statement,
    make_statement,
)
from goalrunner.reports.short_forms import SHORT_ID
from goalrunner.snapshots.git import ask_git

_LONGEST_CALL = 300.0
"""Seconds for one command of git: a diff of a large change takes long."""


class AppliedChange(NoAgent):
    """A conversation whose turn brings the files of a commit into the copy."""

    def __init__(self, root: Path, base: str, head: str) -> None:
        """Name the commits; the copy has the base."""
        super().__init__("change")
        self._root, self._base, self._head = root, base, head

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Check out the head, and record the difference as an observation."""
        command = f"git checkout {self._head[:SHORT_ID]}"
        recorder.tool_called("checkout", "shell", command)
        await asyncio.to_thread(check_out, self._head, self._root)
        # Its snapshot has the head, so that what is observed later is about the head.
        await recorder.tool_result(
            ToolResult("checkout", "shell", command, ("exit 0",), b"")
        )
        command = f"git diff {self._base[:SHORT_ID]} {self._head[:SHORT_ID]}"
        recorder.tool_called("diff", "shell", command)
        # The judge sees what the runner itself has read, and no words of the author.
        diff = await asyncio.to_thread(self._diff)
        await recorder.tool_result(
            ToolResult("diff", "shell", command, ("exit 0",), diff, writes=False)
        )
        return RoundReply("The change was applied.")

    def _diff(self) -> bytes:
        # The change could hide lines from the judge by `-diff` in this file.
        attributes = self._git_diff("--name-only", paths=(":(glob)**/.gitattributes",))
        options = ("--text",) if attributes else ()
        return self._git_diff("--no-ext-diff", *options)

    def _git_diff(self, *options: str, paths: Sequence[str] = ()) -> bytes:
        revisions = (self._base, self._head)
        _, output = _ask_git(self._root, "diff", *options, *revisions, "--", *paths)
        return output


@dataclass(frozen=True)
class _ChosenGoal:
    """The goal of a receipt, and where its file was read."""

    goal: Goal
    file: Path | None = None
    """Outside of the copy; None for options alone."""
    revision: GoalRevision = ""
    """Empty for a file that neither has, and for options alone."""
    labels: tuple[str, ...] = ()


class ChangeCheck:
    """The verification of one change, in the copy that this process is in."""

    def __init__(self, request: ReceiptRequest, options: RunOptions) -> None:
        """Find the repository in the copy, and make a commit of a work tree.

        Raise WorkspaceError if git fails.
        """
        assert options.copy is not None, "this process is in a copy"
        self._request, self._options = request, options
        self._copy = options.copy
        self._root = options.copy.inside(Path(request.root))
        # The base may not have the current folder, and a check-out removes it then.
        os.chdir(self._root)
        self._revisions = Revisions(self._root, options.environ)
        self._head = request.head or commit_of_work_tree(self._root, request.results)

    def verify(self) -> Statement:
        """Verify the change. Raise UsageError for a goal that does not fit it."""
        request = self._request
        chosen = self._chosen_goal()
        if "success_criteria" in request.settings and not chosen.goal.has_judge:
            raise UsageError(
                "--criterion needs a judge, and there is none",
                "name one: --judge MODEL",
            )
        check_out(request.base, self._root)
        options = replace(
            self._options,
            goal_file=chosen.file,
            conversation=AppliedChange(self._root, request.base, self._head),
            needs_round=True,
            # The author of a text could otherwise allow the change of its checks.
            trusts_objective="objective" not in request.settings,
            labels=(*chosen.labels, *self._place_labels(chosen.goal)),
        )
        set_up(chosen.goal, options)
        run = _ChangeRun(chosen.goal, options)
        verified = asyncio.run(run.run())
        base_tree = self._revisions.tree_of(request.base)
        head_tree = self._revisions.tree_of(self._head)
        head = CheckedRevision(commit=request.head, tree=head_tree)
        base = CheckedRevision(commit=request.base, tree=base_tree)
        described = self._described(chosen)
        change = CheckedChange(base, head, described, request.required_proof)
        # Commands and objective may have secrets, which no receipt may show.
        predicate = predicate_of(verified, change).model_dump(mode="json")
        return make_statement(Predicate.model_validate(run.redact(predicate)))

    def _chosen_goal(self) -> _ChosenGoal:
        """Return the goal, of the base if the base has its file.

        An author could otherwise change by what the change is checked.
        """
        request = self._request
        named = Path(request.goal_file) if request.goal_file else None
        if not request.looks_for_goal or self._is_of_person(named):
            return self._goal_in(named)
        check_out(request.base, self._root)
        base_file = goal_file_above(self._copy.inside(Path(request.workspace)))
        file = self._copy.outside(base_file) if base_file is not None else None
        chosen = self._goal_in(file)
        if named is None or named == file:
            return chosen
        name = os.path.relpath(named, request.root)
        output.complain(
            f"Note: the change brings {name}, so it does not count; to use it: "
            f"goal receipt {name}"
        )
        labels = dict.fromkeys((Label.GOAL_CHANGED.value, *chosen.labels))
        return replace(chosen, labels=tuple(labels))

    def _is_of_person(self, file: Path | None) -> bool:
        """Return whether a file is in the work tree, and neither in base nor head."""
        if file is None:
            return False
        name = os.path.relpath(file, self._request.root)
        for revision in (self._request.base, self._head):
            if self._revisions.object_id(f"{revision}:{name}"):
                return False
        return True

    def _goal_in(self, file: Path | None) -> _ChosenGoal:
        """Return the goal in a file, or that of the options alone."""
        settings = dict(self._request.settings)
        if file is None:
            check_out(self._request.base, self._root)
            return _ChosenGoal(for_receipt(self._goal_of_options(settings)))
        path = file
        revision: GoalRevision = ""
        labels: tuple[str, ...] = ()
        if file.is_relative_to(self._request.root):
            name = file.relative_to(self._request.root)
            path = self._root / name
            if self._has_changed_goal(name):
                labels = (Label.GOAL_CHANGED.value,)
            revision = self._check_out_with(name)
        if not revision and not path.exists():
            raise UsageError(
                f"there is no goal file {file}, here or in the change",
                "name another one; goal receipt -h lists the commands",
            )
        goal = load_goal(path, settings, self._options.environ, runnable=False)
        return _ChosenGoal(for_receipt(goal), file, revision, labels)

    def _check_out_with(self, name: Path) -> GoalRevision:
        """Check out the base if it has a file, or else the head; return which one.

        Git does not have a file that it ignores. The file is then that of the person,
        and nothing is checked out.
        """
        if self._revisions.object_id(f"{self._request.base}:{name}"):
            check_out(self._request.base, self._root)
            return "base"
        if self._revisions.object_id(f"{self._head}:{name}"):
            check_out(self._head, self._root)
            return "head"
        return ""

    def _has_changed_goal(self, name: Path) -> bool:
        """Return whether base and head have different goals in a file.

        The rest of a pyproject.toml changes with each dependency.
        """
        of_base = self._revisions.object_id(f"{self._request.base}:{name}")
        of_head = self._revisions.object_id(f"{self._head}:{name}")
        if of_base == of_head:
            return False
        tables: list[object] = []
        for object_id in (of_base, of_head):
            _, content = _ask_git(self._root, "cat-file", "blob", object_id)
            tables.append(goal_table(content, name.name))
        # What cannot be read may be anything.
        return None in tables or tables[0] != tables[1]

    def _goal_of_options(self, settings: dict[str, Any]) -> Goal:
        """Return a goal without a file. Raise UsageError if nothing can verify it."""
        workspace = self._request.workspace
        if "objective" in settings:
            # A judge would accept changes of checks that its words ask for.
            settings["approvals.checks"] = "person"
        settings.setdefault("objective", RECEIPT_OBJECTIVE)
        settings["workspace.path"] = workspace
        environ = self._options.environ
        if not settings.get("validators"):
            project = detect_project(self._copy.inside(Path(workspace)), environ)
            if not project.commands:
                raise UsageError(
                    f"no test command was found in {workspace} at the base",
                    'name one: --validator "CMD"',
                )
            settings["validators"] = [project.commands[0].command]
        return resolve_goal({}, settings, environ, runnable=False)

    def _described(self, chosen: _ChosenGoal) -> CheckedGoal:
        request = self._request
        workspace = self._copy.outside(workspace_of(chosen.goal))
        file = str(chosen.file) if chosen.file is not None else ""
        place = GoalPlace(Path(request.root), workspace, file)
        described = described_goal(chosen.goal, place)
        changes = {"revision": chosen.revision, "options": request.settings}
        return described.model_copy(update=changes)

    def _place_labels(self, goal: Goal) -> tuple[str, ...]:
        """Return the labels about where the checks run."""
        labels = self._outside_labels(goal)
        # What setup installs leads to the clone.
        if self._copy.places and goal.workspace.setup is None:
            labels = (*labels, Label.IN_CLONE.value)
        return labels

    def _outside_labels(self, goal: Goal) -> tuple[str, ...]:
        """Return a label for changed files outside of the workspace.

        The sides cannot put them back.
        """
        workspace = self._copy.inside(workspace_of(goal))
        if workspace == self._root:
            return ()
        options = ("--name-only", "-z", "--no-renames")
        revisions = (self._request.base, self._head)
        # All files but those of the workspace.
        inside = os.path.relpath(workspace, self._root)
        paths = (".", f":(exclude,literal){inside}")
        code, output = _ask_git(self._root, "diff", *options, *revisions, "--", *paths)
        names = [name for name in os.fsdecode(output).split("\0") if name]
        if code != 0 or not names:
            return ()
        return (Label.CHANGED_OUTSIDE.about(some(names)),)


def _ask_git(root: Path, *arguments: str) -> tuple[int, bytes]:
    """Return exit code and output of a git command in the copy."""
    code, output, _ = ask_git(
        root, *arguments, environ=os.environ, timeout=_LONGEST_CALL
    )
    return code, output


class _ChangeRun:
    """The run of a change, with the results on its sides once it has ended."""

    def __init__(self, goal: Goal, options: RunOptions) -> None:
        self._goal, self._options = goal, options
        self.redact: Callable[[Any], Any] = lambda values: values
        """Replaces secrets in JSON."""

    async def run(self) -> VerifiedRun:
        """Run the goal to its end. A signal ends it as cancelled."""
        verified: list[VerifiedRun] = []

        async def drive(prepared: PreparedRun) -> GoalOutcome:
            outcome = await prepared.run.drive()
            # The check environment is open until the run is settled.
            verified.append(await _verified(prepared, outcome))
            return outcome

        with ended_by_signals() as watch:
            prepared = prepare_run(self._goal, self._options)
            self.redact = prepared.config.redactor.json
            with settled(prepared):
                task = asyncio.create_task(drive(prepared))
                await asyncio.sleep(0)
                watch(prepared, task)
                await task
        return verified[0]


async def _verified(prepared: PreparedRun, outcome: GoalOutcome) -> VerifiedRun:
    """Return a run that has ended, with the results on the sides of the change."""
    if outcome.status is GoalStatus.CANCELLED:
        sides = Sides((), (), (), ())
        return VerifiedRun(outcome, sides, environment=environment_here(outcome))
    changed = None
    if outcome.status is GoalStatus.BLOCKED:
        changed = prepared.run.state.changed_checks
    checker = prepared.run.parts.checker
    assert isinstance(checker, CheckRunner), "a receipt has a check environment"
    return VerifiedRun(
        outcome,
        await _sides(checker, has_changed=bool(prepared.run.state.round)),
        changed,
        environment_here(outcome),
        checker.changes_program,
    )


async def _sides(checker: CheckRunner, *, has_changed: bool) -> Sides:
    """Return the results on the four sides; those that no longer matter are empty."""
    base = checker.start_results
    if not has_changed:
        # The run has ended at the baseline.
        return Sides(base, (), (), ())
    head = await checker.side_results("M")
    if not all(result.passed for result in head):
        return Sides(base, (), (), head)
    source = await checker.side_results("B")
    checks = await checker.side_results("N")
    return Sides(
        base, source, checks, head, checker.lacks_on_base, checker.lacks_on_checks
    )
