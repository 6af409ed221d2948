"""The command line of copies: `goal run --isolate` and `goal resume`, which start again
inside of one, `goal apply` and `goal discard`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from goalrunner import fleet
from goalrunner.cli import dialog, options, output, runs
from goalrunner.cli.options import Text, argument, flag, option
from goalrunner.copies import INSIDE
from goalrunner.copies.copy_pruning import discard_copy
from goalrunner.copies.entering import (
    InnerCommand,
    goal_command,
    inner_command,
    make_copy,
)
from goalrunner.copies.inside import copy_options, set_up
from goalrunner.copies.run_copy import RunCopy, has_unfinished_turn
from goalrunner.core.errors import UsageError
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_search import new_run_id

if TYPE_CHECKING:
    from goalrunner.app.run_options import RunOptions
    from goalrunner.batches.batch_folder import BatchFolder
    from goalrunner.core.goal import Goal


def in_copy(goal: Goal, run_options: RunOptions, choices: Iterable[str]) -> RunOptions:
    """Return the options of a run in a copy, if this process is inside of one; else
    make the copy and start again in it.

    `choices` are further options for that, so that no person is asked twice. Raise
    EnvironmentFailed if a copy is not possible here.
    """
    if inside := os.environ.pop(INSIDE, ""):
        options = replace(run_options, copy=copy_options(RunCopy(Path(inside))))
        set_up(goal, options)
        return options
    from goalrunner.app.preflight import why_clone

    workspace = Path(goal.workspace.path or os.curdir).absolute()
    run_id = run_options.run_id or new_run_id(run_options.home, goal.objective)
    run = RunFolder.create(run_options.home, run_id)
    try:
        why = why_clone(goal)
        copy = make_copy(run, workspace, run_options.home, os.environ, clone=why)
        command = _this_command(copy, run_options.home, choices)
        command.replace_process()
    except BaseException:
        run.remove()  # the run never began
        raise


def resume_in_copy(run: RunFolder, run_options: RunOptions) -> RunOptions:
    """Return the options with which a run that has a copy is resumed: in this process,
    or after entering its copy.
    """
    copy = RunCopy.of(run)
    if not copy.exists:
        return run_options
    if os.environ.pop(INSIDE, ""):
        return replace(run_options, copy=copy_options(copy))
    command = _this_command(copy, run_options.home)
    command.replace_process()
    raise AssertionError("the process was replaced")


def _this_command(
    copy: RunCopy, home: Path, more_options: Iterable[str] = ()
) -> InnerCommand:
    """Return the command line of this process, with these options, inside of a copy."""
    name, *arguments = sys.argv[1:]
    program = goal_command([name, *more_options, *arguments])
    return inner_command(copy, home, program, os.environ)


def apply(
    run: Annotated[
        Text,
        argument(
            "RUN | BATCH",
            "Id of a run, group or batch, or its beginning; default: the newest run of"
            " this workspace, or the best one of its group.",
            options.run_ids,
        ),
    ] = None,
    check: Annotated[
        bool | None,
        flag(
            "--check/--no-check",
            "Run the validators on the merged tree; "
            "default: if the workspace has changed since the run began.",
        ),
    ] = None,
    incomplete: Annotated[
        bool, flag("--incomplete", "Apply the change of a run that is not complete.")
    ] = False,
    commit: Annotated[
        bool, flag("--commit", "Commit the change on the current branch.")
    ] = False,
    branch: Annotated[
        Text,
        option(
            "NAME",
            "Commit it on a new branch where the run began; "
            "the workspace stays as it is.",
        ),
    ] = None,
    json: options.Json = False,
) -> int:
    """Bring the verified change of a run into its workspace.

    For a group of `goal run --best-of`, that is the change of its best run. What you
    changed meanwhile is merged with it, file by file and line by line. If both changed
    the same lines, or if the validators fail on the merged tree, nothing is written.
    The state before is kept as a snapshot.

    The verified changes of a batch come onto one branch instead, `goal/BATCH` or
    --branch NAME, one after another. Each commit is checked by the validators of its
    goal and of those before it; what conflicts or fails is left out, with the reason.
    The workspace stays as it is.
    """
    if inside := os.environ.pop(INSIDE, ""):
        return _check_inside(RunCopy(Path(inside)))
    from goalrunner.batches.group_runs import best_beside, run_or_batch

    home = runs.home()
    if run is not None and fleet.VARIABLE in os.environ:
        from goalrunner.fleet.remote_commands import refuse_applying

        refuse_applying(home, run)
    if run is None:
        folder: RunFolder | BatchFolder = best_beside(home, runs.find(None))
    else:
        folder = run_or_batch(home, run)
    if commit and branch is not None:
        raise UsageError("--branch and --commit cannot be combined", "use one of them")
    if not isinstance(folder, RunFolder):
        from goalrunner.batches.integration_command import apply_batch

        if commit or incomplete or check is False:
            raise UsageError(
                f"{folder.batch_id} is a batch, of which only verified changes come "
                "onto a branch",
                "leave --commit, --incomplete and --no-check out",
            )
        return apply_batch(folder, branch or "", json=json)
    from goalrunner.copies.apply_command import ApplyCommand

    command = ApplyCommand(folder, check, incomplete=incomplete)
    values, text = command.on_branch(branch) if branch else command.in_workspace(commit)
    output.say(values if json else text)
    return 0


def _check_inside(copy: RunCopy) -> int:
    """Check a merged tree for the `goal apply` outside, which reads what is printed."""
    from goalrunner.copies.merged_check import check_requested_tree

    problem = check_requested_tree(copy, runs.home(), copy_options(copy))
    output.say({"problem": problem})
    return 0


def discard(run: options.Run = None, yes: options.Yes = False) -> int:
    """Remove the copy of a run.

    The run's records and its change are kept, so that it can be applied, but not
    resumed. Asks first.
    """
    folder = runs.find(run)
    copy = RunCopy.of(folder)
    if not copy.exists:
        raise UsageError(f"run {folder.run_id} has no copy", "goal list shows the runs")
    # A copy in use is refused before the person is asked.
    os.close(copy.lock())
    loss = "The run can then not be resumed"
    if has_unfinished_turn(folder):
        loss += ", and what the agent changed in its interrupted turn is lost"
    question = f"Remove the copy of {folder.run_id}? {loss}. [y/N]"
    if not yes and not dialog.confirmed(
        question, "goal discard asks before it removes a copy"
    ):
        return 1
    discard_copy(copy)
    output.say(f"The copy of {folder.run_id} is removed.\n")
    return 0
