"""A batch whose runs have ended: their folders, snapshots and logs, written without running them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.batches.batch_folder import BatchFolder
from goalrunner.batches.history import EntryEnded, EntryStarted
from goalrunner.batches.plan import BatchEntry, BatchPlan
from goalrunner.core import events
from goalrunner.core.outcome import StopReason
from goalrunner.core.verdict import ValidatorResult
from goalrunner.records.event_log import EventLog, SystemClock
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder
from goalrunner.snapshots.store import SnapshotStore

AT = "2026-01-01T00:00:00+00:00"


@dataclass(frozen=True)
class Work:
    """What one run of the batch has done."""

    name: str
    script: str
    """A shell script that changes the workspace."""
    validator: str = "true"
    """Empty: a judge alone has verified it."""
    workspace: Path | None = None
    stop: StopReason = StopReason.SATISFIED
    after: tuple[str, ...] = ()
    clone: bool = False
    """Whether its copies are clones, as where no overlay is possible."""
    between: str = field(default="true")
    """What the person does in the workspace before this run begins."""


def ended_batch(
    home: Path, workspace: Path, works: Sequence[Work], name: str = "night"
) -> BatchFolder:
    """Make the batch; after each run, the workspace is as the run has found it."""
    keys = {work.name: str(number) for number, work in enumerate(works, 1)}
    entries = [
        BatchEntry(
            key=keys[work.name],
            name=work.name,
            source=str((work.workspace or workspace) / f"{work.name}.toml"),
            objective=f"Objective of {work.name}",
            workspace=str(work.workspace or workspace),
            after=tuple(keys[other] for other in work.after),
        )
        for work in works
    ]
    plan = BatchPlan(batch_id=name, created_at=AT, entries=tuple(entries), jobs=1)
    batch = BatchFolder.create(home, plan, dict.fromkeys(keys.values(), ""))
    for work in works:
        end_run(home, batch, keys[work.name], work, work.workspace or workspace)
    return batch


def end_run(
    home: Path, batch: BatchFolder, key: str, work: Work, workspace: Path
) -> None:
    """Let one entry of the batch have a run that has ended."""
    run_id = f"run{key}-{work.name}"
    folder = RunFolder.create(home, run_id)
    goal = f'objective = "Objective of {work.name}"\n'
    if work.validator:
        goal += f"[[validators]]\nname = \"check-{work.name}\"\nrun = '''{work.validator}'''\n"
    goal += f'[workspace]\npath = "{workspace}"\n'
    if work.clone:
        goal += 'isolate = "clone"\n'
    folder.write_text(folder.goal_file, goal)
    _shell(work.between, workspace)
    asyncio.run(_log(home, folder, work, workspace))
    with batch.writing() as log:
        log.append(EntryStarted(at=AT, key=key, run_id=run_id))
        status = work.stop.status.value
        log.append(EntryEnded(at=AT, key=key, status=status))


async def _log(home: Path, folder: RunFolder, work: Work, workspace: Path) -> None:
    store = SnapshotStore(workspace, home, start=folder.start, environ=os.environ)
    try:
        start = await store.snapshot()
        _shell(work.script, workspace)
        end = await store.snapshot()
        await store.restore(start)
    finally:
        store.close()
    record = events.GoalRecord(
        goal_id=folder.run_id,
        run_id=folder.run_id,
        description=f"Objective of {work.name}",
        created_at=AT,
        updated_at="",
    )
    result = ValidatorResult(name=f"check-{work.name}", passed=True)
    with EventLog(folder.events, SystemClock(), Redactor({})) as log:
        rules = events.RunRules(validators=(result.name,))
        for event in (
            events.GoalCreated(goal=record, plan=rules),
            events.RunStarted(workspace=str(workspace), version="0"),
            events.SnapshotTaken(snapshot=start, moment="start"),
            events.RoundStarted(round=1, prompt="first"),
            events.RoundFinished(round=1, snapshot=end),
            events.ValidatorsFinished(round=1, results=(result,)),
            events.RunEnded(stop_reason=work.stop, message="validators of round 1"),
        ):
            log.append(event)


def _shell(script: str, folder: Path) -> None:
    subprocess.run(["sh", "-ec", script], cwd=folder, check=True)


@dataclass
class PlainCheck:
    """The check of a commit without a copy: a work tree elsewhere, in which the validators run."""

    folder: Path
    runs: list[tuple[str, ...]] = field(default_factory=list)
    """The runs of each check, by the name of their validators."""

    def __call__(
        self,
        commit: str,
        runs: Sequence[RunFolder],
        workspace: Path,
        home: Path,
        environ: Mapping[str, str],
    ) -> str:
        """Return the first validator that fails."""
        root = _output(workspace, "rev-parse", "--show-toplevel")
        tree = self.folder / f"{commit}-{len(self.runs)}"
        tree.mkdir(parents=True)
        archive = subprocess.run(
            ["git", "archive", commit], cwd=root, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x"], cwd=tree, input=archive.stdout, check=True)
        goals = [tomllib.loads(run.goal_file.read_text()) for run in runs]
        specs = [goal["validators"][0] for goal in goals]
        self.runs.append(tuple(sorted(spec["name"] for spec in specs)))
        for spec in specs:
            inside = tree / workspace.relative_to(root)
            if subprocess.run(["sh", "-c", spec["run"]], cwd=inside).returncode:
                return f"{spec['name']} fails"
        return ""


def _output(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
