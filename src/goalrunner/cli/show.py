"""`goal show`, `goal watch` and `goal verify`."""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import suppress
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from goalrunner import fleet
from goalrunner.batches.names import named_batch
from goalrunner.cli import main, options, output, runs
from goalrunner.cli.options import COUNT, Text, argument, flag, option
from goalrunner.core.errors import ExitCode, UsageError
from goalrunner.core.run_summary import RunSummary
from goalrunner.records.run_summaries import read_summary, run_summaries
from goalrunner.records.writer_lock import has_writer

if TYPE_CHECKING:
    from goalrunner.records.run_folder import RunFolder

_POLL_INTERVAL = 0.2
"""Seconds between two looks at the log of a run that is watched."""
# No id of a run begins with this letter.
_OBSERVATION = re.compile(r"[oO][1-9][0-9]*")


def show(
    run: options.RunOrBatch = None,
    observation: Annotated[
        Text, argument("OBSERVATION", "An observation to print whole, such as o4.")
    ] = None,
    path: Annotated[
        bool, flag("--path", "Print the path of the run's folder.")
    ] = False,
    json: Annotated[
        bool, flag("--json", "Print path, summary and outcome as JSON.")
    ] = False,
    evidence: Annotated[
        bool, flag("--evidence", "Print what the last verdict rests on.")
    ] = False,
    state: Annotated[
        bool, flag("--state", "Print the state, and why the run continues or stopped.")
    ] = False,
    at: Annotated[
        int | None, option("N", "Print the state after event N.", "--at", parser=COUNT)
    ] = None,
    events: Annotated[
        bool, flag("--events", "Print every event, one per line.")
    ] = False,
    no_pager: options.NoPager = False,
) -> int:
    """Show what happened in a run, round by round.

    An observation is a recorded result of a tool or a validator; --evidence and
    --events print their ids. It is shown with its whole output. Of a batch, the goals
    are shown.
    """
    if observation is None and run is not None and _OBSERVATION.fullmatch(run):
        run, observation = None, run
    prints_state = state or at is not None
    parts = (observation is not None, path, evidence, prints_state, events)
    if sum(parts) > 1:
        raise UsageError(
            "an observation, --path, --evidence, --state (--at) and --events cannot be"
            " combined",
            "use one of them",
        )
    batch_code = _show_batch(run, shows_part=sum(parts) > 0, json=json)
    if batch_code is not None:
        return batch_code
    folder = runs.find(run)
    if observation is not None:
        _show_observation(folder, observation, json=json, pager=not no_pager)
    elif path:
        output.say(f"{folder.path}\n")
    elif prints_state:
        _show_state(folder, at, json=json)
    elif events:
        _show_events(folder, json=json)
    elif evidence:
        _show_evidence(folder, json=json)
    elif json:
        _show_files(folder)
    else:
        _show_run(folder)
    return 0


def _show_batch(reference: str | None, *, shows_part: bool, json: bool) -> int | None:
    """Show the goals of a batch; return its exit code, or None if it is a run."""
    batch = named_batch(runs.home(), reference)
    if batch is None:
        moment = None if shows_part else runs.batch_in_fleet(reference)
        if moment is None:
            return None
        from goalrunner.batches.listing import print_moment

        return print_moment(moment, json=json)
    if shows_part:
        raise UsageError(
            f"{batch} is a batch, of which only the goals are shown",
            f"goal show {batch}, or goal show RUN for one of its runs",
        )
    return runs.print_status(batch, json=json)


def _show_events(folder: RunFolder, *, json: bool) -> None:
    from goalrunner.reports.show import events_text

    records = runs.records(folder)
    # One line at a time: a log may be large, and its reader may be `head`.
    if json:
        for record in records:
            output.say(f"{record.model_dump_json()}\n")
        return
    for line in events_text(records, output.columns()):
        output.say(line)


def _show_evidence(folder: RunFolder, *, json: bool) -> None:
    """Print the citations of the last verdict, with the labels of the outcome."""
    from goalrunner.app.previous_run import load_run
    from goalrunner.reports.evidence import evidence_facts, evidence_value
    from goalrunner.reports.result_notes import label_lines

    loaded = load_run(folder)
    outcome = loaded.outcome(folder)
    verdict = (folder.run_id, loaded.state.verdict, outcome.evidence)
    if json:
        values = outcome.model_dump(mode="json", include={"labels", "approvals"})
        output.say({**evidence_value(*verdict), **values})
        return
    labels = label_lines(outcome.labels, outcome.approvals)
    output.say(output.terminal_text([*evidence_facts(*verdict), *labels]))


def _show_files(folder: RunFolder) -> None:
    """Print path, summary and outcome of a run as JSON."""
    from goalrunner.app.previous_run import sub_goals

    summaries = run_summaries(folder.path.parents[1])
    below = [summary for _, summary in sub_goals(folder.run_id, summaries)]
    output.say(
        {
            "path": str(folder.path),
            "summary": _value(folder.summary),
            "outcome": _value(folder.outcome),
            "sub_goals": below,
        }
    )


def _show_run(folder: RunFolder) -> None:
    """Print a run, round by round."""
    from goalrunner.reports.show import family_lines, show_text

    for piece in show_text(
        runs.records(folder),
        folder=str(folder.path),
        lost=lambda: not has_writer(folder.events),
        words=lambda message: runs.message_text(folder.transcript, message),
        columns=output.columns(),
    ):
        output.say(piece)
    family = family_lines(folder.run_id, run_summaries(folder.path.parents[1]))
    output.say(output.terminal_text(family))


def _show_observation(
    folder: RunFolder, identifier: str, *, json: bool, pager: bool
) -> None:
    """Print an observation with its whole output."""
    from goalrunner.core.evidence_index import EvidenceIndex
    from goalrunner.records.artifacts import ArtifactStore
    from goalrunner.records.redaction import Redactor
    from goalrunner.reports.evidence import observation_text, observation_value

    index = EvidenceIndex()
    for record in runs.records(folder):
        index.add(record)
    item = index.observations.get(identifier.lower())
    if item is None:
        last = len(index.observations)
        others = f"the last one is o{last}" if last else "it has none yet"
        raise UsageError(
            f"run {folder.run_id} has no observation {identifier}; {others}",
            f"goal show {folder.run_id} --events lists the observations",
        )
    text = ""
    if item.output:
        # Secrets were replaced when the output was stored.
        store = ArtifactStore(folder.artifacts, Redactor({}))
        text = store.read(item.output).decode(errors="replace")
    stale = index.stale.get(item.id, "")
    if json:
        output.say(observation_value(folder.run_id, item, text, stale))
    else:
        output.page(observation_text(item, text, stale, output.columns()), pager=pager)


def _value(path: Path) -> Any:
    """Return the value of a JSON file; None if it does not exist or is damaged."""
    with suppress(OSError, ValueError):
        return loads(path.read_bytes())
    return None


def _show_state(folder: RunFolder, at: int | None, *, json: bool) -> None:
    """Print the state after event `at`, or the last one."""
    from goalrunner.core.fold import apply
    from goalrunner.core.run_state import RunState
    from goalrunner.reports.show import state_lines

    # The state is a fold of the log, so an earlier one is a shorter fold.
    state: RunState | None = None
    for record in runs.records(folder):
        state = apply(state, record)
        if at is not None and record.seq >= at:
            break
    if state is None or (at is not None and state.memory.version < at):
        last = state.memory.version if state else 0
        raise UsageError(
            f"the run has {last} events", f"goal show RUN --at N with N up to {last}"
        )
    if json:
        output.say(state.model_dump(mode="json"))
    else:
        output.say(output.terminal_text(state_lines(state)))


def watch(run: options.RunOrBatch = None, verbose: options.Verbose = False) -> int:
    """Follow a running run or batch from another terminal.

    The exit code is that of the run or batch, and 4 if its process has ended
    unexpectedly.
    """
    batch = named_batch(runs.home(), run)
    if batch is not None:
        from goalrunner.batches.watching import watch_batch

        return watch_batch(runs.home(), batch)
    if fleet.VARIABLE in os.environ and run is not None:
        from goalrunner.fleet.watching import watched_in_fleet

        code = watched_in_fleet(runs.home(), run, verbose=verbose)
        if code is not None:
            return code
    from goalrunner.cli.drive import open_progress, workspace_state
    from goalrunner.records.event_log import read_records
    from goalrunner.reports.show import show_live

    folder = runs.find(run)
    progress = open_progress(sys.stdout, verbose=verbose, place=workspace_state)

    def wait() -> bool:
        # It raises ReaderGone if the reader of a pipe has closed it.
        output.say("")
        if not has_writer(folder.events):
            return False
        progress.current.follow_files(folder.scratch)
        time.sleep(_POLL_INTERVAL)
        return True

    records = read_records(folder.events, wait=wait)
    with progress:
        try:
            show_live(
                records,
                progress,
                folder=str(folder.path),
                lost=lambda: not has_writer(folder.events),
            )
        except KeyboardInterrupt:
            progress.leave()
            if has_writer(folder.events):
                output.complain(f"the run goes on: goal watch {folder.run_id}")
            return int(ExitCode.INTERRUPTED)
    return RunSummary.read(read_summary(folder)).process_exit_code


def verify(run: options.Run = None, json: options.Json = False) -> int:
    """Check offline that the records of a run are intact.

    Checks the log, transcript, artifacts and outcome, and the citations of each
    verdict. The first error is printed with its file and byte offset, and the exit code
    is 4.
    """
    from goalrunner.app import verification
    from goalrunner.reports.show import verification_text, verification_value

    done = main.wait_for(
        verification.verify_run(runs.find(run), runs.home(), os.environ)
    )
    output.say(verification_value(done) if json else verification_text(done))
    return int(ExitCode.FAILED if done.broken else ExitCode.COMPLETE)
