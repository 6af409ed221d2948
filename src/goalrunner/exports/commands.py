"""The command `goal export`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from goalrunner.cli import main, options, output, runs
from goalrunner.cli.options import File, Text, Texts, argument, flag, option
from goalrunner.cli.result_file import ResultFile
from goalrunner.clusters import job_options
from goalrunner.core.errors import ExitCode, GoalError, UsageError, some
from goalrunner.exports.result_files import changed_files
from goalrunner.reports.short_forms import SHORT_ID

if TYPE_CHECKING:
    from goalrunner.app.previous_run import LoadedRun
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.exports.change import NewBranch
    from goalrunner.records.run_folder import RunFolder


def export(
    run: Annotated[
        Texts,
        argument(
            "RUN | GOALS",
            "Id of a run or its beginning; default: the newest run of this workspace."
            " For jobs: goal files and folders; default: goal.toml.",
            options.run_ids,
        ),
    ] = None,
    patch: Annotated[bool, flag("--patch", "Write a patch for git apply.")] = False,
    branch: Annotated[
        Text, option("NAME", "Commit the change on a new branch of the repository.")
    ] = None,
    comment: Annotated[
        bool, flag("--comment", "Write a summary in Markdown for a pull request.")
    ] = False,
    receipt: Annotated[
        bool, flag("--receipt", "Write a receipt, as goal receipt does.")
    ] = False,
    sign: options.SigningKey = None,
    recording: Annotated[
        bool,
        flag("--recording", "Write a recording for goalrunner.testing.replay."),
    ] = False,
    file: Annotated[
        File,
        option("FILE", "Write to this file; default: stdout.", "--output", "-o"),
    ] = None,
    base: Annotated[
        Text,
        option("COMMIT", "The parent of the new commit; default: where the run began."),
    ] = None,
    incomplete: Annotated[
        bool, flag("--incomplete", "Export a run that is not complete.")
    ] = False,
    kubernetes: Annotated[
        bool,
        flag(
            "--kubernetes",
            "Write goals as a Job of Kubernetes, with an index for each.",
        ),
    ] = False,
    slurm: Annotated[
        bool, flag("--slurm", "Write goals as a batch script for a Slurm job array.")
    ] = False,
    github_matrix: Annotated[
        bool, flag("--github-matrix", "Write goals as a matrix for GitHub Actions.")
    ] = False,
    image: job_options.JobImage = None,
    secret: job_options.JobSecrets = None,
    claim: job_options.JobVolume = None,
    resources: job_options.JobResources = None,
    jobs: job_options.JobsAtOnce = None,
    repository: job_options.JobRepository = None,
    name: job_options.JobName = None,
    fleet: job_options.FleetWorkers = False,
) -> int:
    """Write a verified change as a patch or a branch, or goals as jobs.

    The change is the one that the run verified, even if the workspace has changed
    since. Caches and the goal's outputs are left out. If the run is not complete, the
    command fails with the run's exit code: 1, 3 or 4. --branch makes one commit; the
    work tree, the index and the current branch stay as they are.

    --recording writes any run that is over, with its files, for a regression test.

    --kubernetes, --slurm and --github-matrix write jobs for goal files of the current
    commit. Each job clones the commit and runs one goal. A job that is started again
    resumes its run. --kubernetes --fleet writes workers, which run the goals that
    `goal fleet submit` queues.
    """
    about_change = _ChangeOptions(
        patch, branch, comment, receipt, sign, recording, base, incomplete
    )
    about_jobs = job_options.JobOptions(
        image, repository, name, secret, claim, resources, jobs, fleet
    )
    systems = {
        "--kubernetes": kubernetes,
        "--slurm": slurm,
        "--github-matrix": github_matrix,
    }
    system = _chosen_system(systems, about_change)
    references = run or []
    if system is not None:
        from goalrunner.clusters.commands import export_jobs

        export_jobs(references, system, about_jobs, file)
        return 0
    about_jobs.refuse_any_but((), "the export of a run")
    if len(references) > 1:
        raise UsageError(
            "a change is that of one run",
            "name one run, or add --kubernetes, --slurm or --github-matrix for goals",
        )
    about_change.refuse_combinations(file)
    folder = runs.find(references[0] if references else None)
    if recording:
        _write_recording(folder, file)
        return 0
    return _export_change(folder, about_change, file)


@dataclass(frozen=True)
class _ChangeOptions:
    """The options of `goal export` about the change of a run."""

    patch: bool
    branch: str | None
    comment: bool
    receipt: bool
    sign: Path | None
    recording: bool
    base: str | None
    incomplete: bool

    def names(self) -> list[str]:
        """Return the options that are set: ["--patch"]."""
        return [f"--{item.name}" for item in fields(self) if getattr(self, item.name)]

    def refuse_combinations(self, file: Path | None) -> None:
        """Raise UsageError for options that exclude each other.

        `file` is that of `--output`.
        """
        has_branch = self.branch is not None
        forms = (has_branch, self.patch, self.comment, self.receipt, self.recording)
        if sum(forms) != 1:
            raise UsageError(
                "exactly one of --patch, --branch NAME, --comment, --receipt and "
                "--recording is needed",
                "goal export --patch -o change.patch",
            )
        if has_branch and file is not None:
            raise UsageError(
                "--branch writes no file, so --output cannot be used", "remove --output"
            )
        if self.base is not None and not has_branch:
            raise UsageError(
                "--base is where a branch begins, so it needs --branch",
                "add --branch NAME, or remove --base",
            )
        if self.sign is not None and not self.receipt:
            raise UsageError("--sign signs a receipt", "add --receipt -o receipt.json")


def _chosen_system(
    systems: Mapping[str, bool], about_change: _ChangeOptions
) -> str | None:
    """Return the option of the system that jobs are written for; None without jobs.

    Raise UsageError for a second one, and for options about a change.
    """
    chosen = [name for name, is_chosen in systems.items() if is_chosen]
    if not chosen:
        return None
    others = chosen[1:] + about_change.names()
    if others:
        raise UsageError(
            f"{chosen[0]} cannot be combined with {some(others)}", "use one of them"
        )
    return chosen[0]


def _write_recording(folder: RunFolder, file: Path | None) -> None:
    from goalrunner.testing.run_reading import read_run

    recorded = read_run(folder, runs.home())
    _write(recorded.text, file, recorded.workspace)


def _export_change(
    folder: RunFolder, about_change: _ChangeOptions, file: Path | None
) -> int:
    """Write the change of a run in the form that is asked for; return the exit code.

    Raise GoalError, with the exit code of the run if it is not complete.
    """
    from goalrunner.app.previous_run import load_run
    from goalrunner.exports.change import RunChange, commit_message
    from goalrunner.exports.markdown import summary_markdown

    loaded = load_run(folder)
    state, outcome = loaded.state, loaded.outcome(folder)
    if not (outcome.passed or about_change.incomplete):
        raise _not_complete(outcome)
    if about_change.receipt:
        return _write_receipt(folder, loaded, about_change, file)
    if about_change.comment:
        text = summary_markdown(outcome, files=changed_files(folder, state))
        _write(text, file, state.workspace)
        return 0
    change = RunChange(folder, state, runs.home(), os.environ)
    branch = about_change.branch
    if branch is None:
        _write(main.wait_for(change.patch()), file, state.workspace)
        return 0
    message = commit_message(outcome)
    new_branch = change.branch(branch, about_change.base, message, os.environ)
    _say_branch(branch, main.wait_for(new_branch))
    return 0


def _write(content: str | bytes, file: Path | None, workspace: str) -> None:
    """Write a text of a run in a workspace into the file, or to stdout."""
    if file is not None:
        ResultFile(file, workspaces=[Path(workspace)]).write(content)
    else:
        output.say(content)


def _write_receipt(
    folder: RunFolder,
    loaded: LoadedRun,
    about_change: _ChangeOptions,
    file: Path | None,
) -> int:
    """Write the receipt of a run.

    Return the exit code of its result; 0 with `--incomplete`.
    """
    from goalrunner.receipts.commands import EXIT_CODES
    from goalrunner.receipts.result_files import ReceiptFiles
    from goalrunner.receipts.run_receipt import EndedRun

    workspaces = [Path(loaded.state.workspace)]
    files = ReceiptFiles.of_options(file, key=about_change.sign, workspaces=workspaces)
    ended = EndedRun(folder, loaded, runs.home(), os.environ)
    statement = main.wait_for(ended.receipt())
    files.write(statement)
    if file is None:
        output.say(statement.json_text())
    predicate = statement.predicate
    if predicate.result == "complete" or about_change.incomplete:
        return 0
    output.complain(f"The receipt is {predicate.result}: {predicate.reason}")
    return EXIT_CODES[predicate.result]


def _not_complete(outcome: GoalOutcome) -> GoalError:
    reason = f", {outcome.stop_reason.replace('_', ' ')}" if outcome.stop_reason else ""
    error = GoalError(
        f"run {outcome.run_id} is not complete ({outcome.status}{reason}), "
        "so its change is not verified",
        f"goal status {outcome.run_id} shows why, and the next command; "
        "--incomplete exports it anyway",
    )
    # Codes of signals are about the run's process, not about this one.
    error.exit_code = ExitCode(min(outcome.exit_code, ExitCode.FAILED))
    return error


def _say_branch(name: str, new: NewBranch) -> None:
    commit, base = new.commit[:SHORT_ID], new.base[:SHORT_ID]
    output.say(
        f"Branch {name}: commit {commit} on {base}. "
        f"To publish it: git push origin {name}\n"
    )
    if new.unchecked:
        output.complain(
            f"Warning: when the run began, the workspace differed from {base} "
            f"in files that it did not change ({some(new.unchecked)}); "
            "the checks saw these, and the branch does not have them"
        )
