"""The command `goal report`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from goalrunner.batches.names import named_batch
from goalrunner.cli import options, output, runs
from goalrunner.cli.options import File, Texts, argument, flag, option
from goalrunner.cli.result_file import ResultFile
from goalrunner.core.errors import UsageError

if TYPE_CHECKING:
    from goalrunner.batches.batch_folder import BatchFolder
    from goalrunner.batches.group_table import GroupRow
    from goalrunner.records.run_folder import RunFolder


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
