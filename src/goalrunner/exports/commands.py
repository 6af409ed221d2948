"""The commands `goal export` and `goal report`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from goalrunner.batches.names import named_batch
from goalrunner.cli import main, options, output, runs
from goalrunner.cli.options import COUNT, File, Text, Texts, argument, flag, option
from goalrunner.cli.result_file import ResultFile
from goalrunner.clusters.job_options import JobOptions
from goalrunner.core.errors import ExitCode, GoalError, UsageError, one_line, some
from goalrunner.exports.result_files import changed_files

if TYPE_CHECKING:
    from goalrunner.app.previous_run import LoadedRun
    from goalrunner.batches.batch_folder import BatchFolder
    from goalrunner.batches.group_table import GroupRow
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.exports.change import NewBranch
    from goalrunner.records.run_folder import RunFolder


# Characters of the first line of a commit message, as git's documentation advises.
_SUBJECT = 72
_SHORT_ID = 12


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
    image: Annotated[
        Text,
        option(
            "IMAGE", "For Kubernetes: the image, with goal and the project's tools."
        ),
    ] = None,
    secret: Annotated[
        Texts,
        option(
            "NAME",
            "For Kubernetes: a secret whose keys become variables; may be repeated.",
        ),
    ] = None,
    claim: Annotated[
        Text,
        option(
            "NAME",
            "For Kubernetes: the PersistentVolumeClaim of the runs; default: a new"
            " one.",
        ),
    ] = None,
    resources: Annotated[
        Text,
        option(
            "LIST",
            "What each job gets: cpu=2,memory=4Gi,gpu=1; default: cpu=2,memory=4Gi.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        option("N", "The most jobs at the same time; default: 4.", parser=COUNT),
    ] = None,
    repository: Annotated[
        Text,
        option(
            "URL", "The repository that the jobs clone; default: the remote origin."
        ),
    ] = None,
    name: Annotated[
        Text,
        option("NAME", "The name of the jobs; the ids of their runs begin with it."),
    ] = None,
    fleet: Annotated[
        bool,
        flag("--fleet", "With --kubernetes: write workers of a fleet, not goals."),
    ] = False,
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
    job_options = JobOptions(
        image, repository, name, secret, claim, resources, jobs, fleet
    )
    system = _chosen_system(
        {
            "--kubernetes": kubernetes,
            "--slurm": slurm,
            "--github-matrix": github_matrix,
        },
        {
            "--patch": patch,
            "--branch": branch,
            "--comment": comment,
            "--receipt": receipt,
            "--sign": sign,
            "--recording": recording,
            "--base": base,
            "--incomplete": incomplete,
        },
    )
    if system is not None:
        from goalrunner.clusters.commands import export_jobs

        export_jobs(run or (), system, job_options, file)
        return 0
    job_options.refuse_any_but((), "the export of a run")
    if len(run or []) > 1:
        raise UsageError(
            "a change is that of one run",
            "name one run, or add --kubernetes, --slurm or --github-matrix for goals",
        )
    forms = [patch, comment, receipt, recording, branch is not None]
    _refuse_combinations(forms, branch, file, base)
    if sign is not None and not receipt:
        raise UsageError("--sign signs a receipt", "add --receipt -o receipt.json")
    from goalrunner.app.previous_run import load_run
    from goalrunner.exports.change import RunChange
    from goalrunner.exports.markdown import summary_markdown

    folder = runs.find(run[0] if run else None)
    if recording:
        from goalrunner.testing.run_reading import read_run

        recorded = read_run(folder, runs.home())
        _write(recorded.text, file, recorded.workspace)
        return 0
    loaded = load_run(folder)
    state, outcome = loaded.state, loaded.outcome(folder)
    if not (outcome.passed or incomplete):
        raise _not_complete(outcome)
    if receipt:
        return _write_receipt(folder, loaded, file, sign, incomplete=incomplete)
    content: str | bytes
    if comment:
        content = summary_markdown(outcome, files=changed_files(folder, state))
    else:
        change = RunChange(folder, state, runs.home(), os.environ)
        if branch is not None:
            message = commit_message(outcome)
            new = main.wait_for(change.branch(branch, base, message, os.environ))
            _say_branch(branch, new)
            return 0
        content = main.wait_for(change.patch())
    _write(content, file, state.workspace)
    return 0


def _write(content: str | bytes, file: Path | None, workspace: str) -> None:
    """Write a text of a run in a workspace into the file, or to stdout."""
    if file is not None:
        ResultFile(file, workspaces=[Path(workspace)]).write(content)
    else:
        output.say(content)


def _chosen_system(
    systems: Mapping[str, bool], change_options: Mapping[str, object]
) -> str | None:
    """Return the option of the system that jobs are written for; None without jobs.

    Raise UsageError for a second one, and for options about a change.
    """
    chosen = [name for name, is_chosen in systems.items() if is_chosen]
    if not chosen:
        return None
    others = chosen[1:] + [name for name, value in change_options.items() if value]
    if others:
        raise UsageError(
            f"{chosen[0]} cannot be combined with {some(others)}", "use one of them"
        )
    return chosen[0]


def _write_receipt(
    folder: RunFolder,
    loaded: LoadedRun,
    file: Path | None,
    key: Path | None,
    *,
    incomplete: bool,
) -> int:
    """Write the receipt of a run.

    Return the exit code of its result, or 0 if it may be `incomplete`.
    """
    from goalrunner.receipts.commands import EXIT_CODES
    from goalrunner.receipts.result_files import ReceiptFiles
    from goalrunner.receipts.run_receipt import EndedRun

    workspaces = [Path(loaded.state.workspace)]
    files = ReceiptFiles.of_options(file, key=key, workspaces=workspaces)
    ended = EndedRun(folder, loaded, runs.home(), os.environ)
    statement = main.wait_for(ended.receipt())
    files.write(statement)
    if file is None:
        output.say(statement.json_text())
    predicate = statement.predicate
    if predicate.result == "complete" or incomplete:
        return 0
    output.complain(f"The receipt is {predicate.result}: {predicate.reason}")
    return EXIT_CODES[predicate.result]


def _refuse_combinations(
    forms: Sequence[bool], branch: str | None, file: Path | None, base: str | None
) -> None:
    """Raise UsageError for options that exclude each other.

    `forms` say of each form of the export whether it is asked for.
    """
    if sum(forms) != 1:
        raise UsageError(
            "one of --patch, --branch NAME, --comment, --receipt and --recording is "
            "needed",
            "goal export --patch -o change.patch",
        )
    if branch is not None and file is not None:
        raise UsageError(
            "--branch writes no file, so --output cannot be used", "remove --output"
        )
    if base is not None and branch is None:
        raise UsageError(
            "--base is where a branch begins, so it needs --branch",
            "add --branch NAME, or remove --base",
        )


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
    commit, base = new.commit[:_SHORT_ID], new.base[:_SHORT_ID]
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


def commit_message(outcome: GoalOutcome) -> str:
    """Return the message of the commit.

    It is the objective, and trailers with the run, its status and its labels.
    """
    objective = outcome.objective.strip()
    subject = one_line(objective, _SUBJECT)
    body = objective if subject != objective else ""
    trailers = [f"Goal-Run: {outcome.run_id}", f"Goal-Status: {outcome.status}"]
    trailers += [f"Goal-Label: {label}" for label in outcome.labels]
    paragraphs = filter(None, (subject, body, "\n".join(trailers)))
    return "\n\n".join(paragraphs) + "\n"


def report(
    run: Annotated[
        Texts,
        argument(
            "RUN|BATCH",
            "Id of a run or its beginning, or the name of a batch; default: the newest"
            " run of this workspace.",
            options.runs_and_batches,
        ),
    ] = None,
    file: Annotated[
        File,
        option(
            "FILE",
            "Where to write it; default: the folder of the run or batch.",
            "--output",
            "-o",
        ),
    ] = None,
    compare: Annotated[
        bool,
        flag("--compare", "Put several runs side by side, or those of one group."),
    ] = False,
    open_: Annotated[bool, flag("--open", "Show it in the browser.")] = False,
) -> int:
    """Write a run as one HTML file that needs no network.

    It has the verdict, each criterion with its evidence, the rounds with their output
    and diffs, approvals and usage. A batch has one page for all goals, and the pages of
    its runs beside it. The path of the file is printed.
    """
    references = run or []
    batch = None
    if len(references) == 1 and not compare:
        batch = named_batch(runs.home(), references[0])
    if batch is not None:
        copy = _write_batch(batch, file)
    elif compare:
        copy = _write_runs(_compared(references), file, with_diffs=False)
    else:
        copy = _write_runs(_single(references), file, with_diffs=True)
    if copy.is_stream:
        return 0
    path = copy.path.absolute()
    output.say(f"{path}\n")
    if open_:
        import webbrowser

        if not webbrowser.open(path.as_uri()):
            output.complain("No browser could be started; open the file above in one.")
    return 0


def _write_batch(name: str, file: Path | None) -> ResultFile:
    from goalrunner.batches.batch_folder import find_batch
    from goalrunner.batches.result_files import BatchFiles

    folder = find_batch(runs.home(), name)
    page = ResultFile(file or folder.path / "report.html")
    BatchFiles(junit=None, html=page).write(folder)
    return page


def _write_runs(
    reported: _Reported, file: Path | None, *, with_diffs: bool
) -> ResultFile:
    from goalrunner.exports.html import page_text
    from goalrunner.exports.recorded_page import run_page

    pages = [run_page(folder, with_diffs=with_diffs) for folder in reported.folders]
    workspaces = [Path(page.outcome.workspace) for page in pages]
    copy = ResultFile(file or reported.default, workspaces=workspaces)
    copy.write(page_text(pages, reported.ranking))
    return copy


@dataclass(frozen=True)
class _Reported:
    """The runs of a report."""

    folders: list[RunFolder]
    default: Path
    """Where the page is written."""
    ranking: Sequence[GroupRow] = ()
    """The runs of a group in their order; empty for other runs."""


def _single(references: list[str]) -> _Reported:
    if len(references) > 1:
        raise UsageError(
            "a report is about one run",
            f"put them side by side: goal report --compare {' '.join(references)}",
        )
    folder = runs.find(references[0] if references else None)
    return _Reported([folder], folder.path / "report.html")


def _compared(references: list[str]) -> _Reported:
    """Return the runs that are named, or those of the only group that is named.

    Raise UsageError if these are less than two runs.
    """
    if len(references) == 1:
        from goalrunner.batches.group_runs import find_group

        group = find_group(runs.home(), references[0])
        if group is not None:
            return _compared_group(group)
    if len(references) < 2:
        raise UsageError(
            "--compare needs two runs or a group",
            "goal report --compare RUN RUN; goal list shows the runs",
        )
    folders = [runs.find(reference) for reference in references]
    names = [folder.run_id for folder in folders]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"run {name} is named twice", "goal list shows the runs")
    return _Reported(folders, folders[0].path / f"compare-{names[-1]}.html")


def _compared_group(group: BatchFolder) -> _Reported:
    from goalrunner.batches.group_runs import group_runs
    from goalrunner.batches.group_table import group_rows

    ranked_runs = group_runs(group, runs.home())
    folders = [runs.find(run.run_id) for run in ranked_runs if run.run_id]
    if not folders:
        raise UsageError(
            f"no run of the group {group.batch_id} has begun",
            f"goal batch --resume {group.batch_id} goes on with it",
        )
    return _Reported(folders, group.path / "compare.html", group_rows(ranked_runs))
