"""The files that `goal batch` writes at its end: `--junit` and `--html`."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from goalrunner.batches.batch_folder import BatchFolder, find_batch
from goalrunner.batches.rows import BatchMoment
from goalrunner.batches.run_figures import moment_of
from goalrunner.cli import output
from goalrunner.cli.result_file import ResultFile
from goalrunner.core.errors import GoalError, UsageError, os_errors
from goalrunner.records.run_folder import RUNS, RunFolder


@dataclass(frozen=True)
class BatchFiles:
    """The files that options name, opened before an agent could redirect them."""

    junit: ResultFile | None
    html: ResultFile | None

    @classmethod
    def open(cls, junit: Path | None, html: Path | None) -> BatchFiles:
        """Open the files of these options. Raise UsageError."""
        return cls(
            None if junit is None else ResultFile(junit, option="--junit"),
            None if html is None else ResultFile(html, option="--html"),
        )

    def write(self, folder: BatchFolder) -> None:
        """Write the files about a batch as it is now. Raise GoalError.

        If one cannot be written, the other one is.
        """
        if self.junit is not None or self.html is not None:
            self.write_moment(moment_of(folder), folder)

    def write_moment(
        self, moment: BatchMoment, folder: BatchFolder | None = None
    ) -> None:
        """Write the files about a batch at one moment. Raise GoalError.

        Without the folder, there are no pages of its runs.
        """
        if self.junit is None and self.html is None:
            return
        # Jinja is slow to import, and most batches write no such file.
        from goalrunner.batches.pages import batch_junit, batch_page

        with contextlib.ExitStack() as writes:
            if self.html is not None:
                links = {}
                # A reader of a pipe has no folder for the pages of the runs.
                if folder is not None and not self.html.is_stream:
                    links = _write_run_pages(self.html.path, folder, moment)
                writes.callback(self.html.write, batch_page(moment, links))
            if self.junit is not None:
                writes.callback(self.junit.write, batch_junit(moment))


def write_batch_junit(home: Path, name: str, file: Path) -> None:
    """Write a batch as JUnit XML. Raise GoalError."""
    BatchFiles.open(file, None).write(find_batch(home, name))


def _write_run_pages(
    page: Path, folder: BatchFolder, moment: BatchMoment
) -> dict[str, str]:
    """Write the page of each run into a folder beside the page of the batch.

    Return their addresses by run id, relative to the page. A run that never began has
    no page, nor has one whose records are damaged.
    """
    from goalrunner.exports.html import page_text
    from goalrunner.exports.recorded_page import run_page

    pages_folder = page.with_name(f"{page.stem}-runs")
    with os_errors(
        f"--html: {pages_folder} cannot be made", "choose another path", UsageError
    ):
        pages_folder.mkdir(exist_ok=True)
    links = {}
    address = quote(pages_folder.name)
    for entry in moment.state.entries.values():
        run = RunFolder(folder.home / RUNS / entry.run_id)
        if not entry.run_id or not run.events.exists():
            continue
        file = pages_folder / f"{entry.run_id}.html"
        try:
            text = page_text([run_page(run, with_diffs=True)])
            ResultFile(file, option="--html").write(text)
            links[entry.run_id] = f"{address}/{file.name}"
        except GoalError as error:
            output.complain(f"Warning: no page of run {entry.run_id}: {error.message}")
    return links
