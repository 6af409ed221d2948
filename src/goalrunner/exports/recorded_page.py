"""The content of a run's page, read from the records of the run."""

from __future__ import annotations

import os
from pathlib import Path

from goalrunner.cli import main, runs
from goalrunner.core.errors import GoalError
from goalrunner.exports.run_page import RunPage
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder


def run_page(folder: RunFolder, *, with_diffs: bool) -> RunPage:
    """Return what the page of a run shows. Raise RecordError.

    Diffs are left out if the snapshots are gone.
    """
    page = RunPage(
        runs.records(folder),
        words=lambda message: runs.message_text(folder.transcript, message),
        ends=ArtifactStore(folder.artifacts, Redactor({})).ends,
        run_path=str(folder.path),
    )
    if with_diffs:
        _add_diffs(page)
    return page


def _add_diffs(page: RunPage) -> None:
    from goalrunner.app.run_snapshots import KeptStore

    steps = page.steps()
    if not steps:
        return
    # The numbers of the rounds, and the snapshots around each.
    numbers, pairs = zip(*steps, strict=True)
    try:
        workspace = Path(page.snapshots.workspace)
        store = KeptStore(workspace, runs.home(), os.environ).store
        patches = main.wait_for(store.patches(pairs))
    except GoalError as error:
        # The page is useful without diffs, too.
        page.diff_problem = error.message
    else:
        page.add_patches(zip(numbers, patches, strict=True))
