"""A run, put together: its folder, its log, its parts and its driver. Starts nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from goalrunner import __version__
from goalrunner.artifacts import ArtifactStore
from goalrunner.compose.models import Models, goal_models, refuse_unknown_prices
from goalrunner.compose.notes import labels_of, notes_of
from goalrunner.compose.parts import (
    Extras,
    goal_clean_room,
    goal_conversation,
    goal_judge,
    goal_secrets,
    goal_validators,
    withheld,
)
from goalrunner.compose.records import goal_created
from goalrunner.compose.system import SystemClock
from goalrunner.driver import Run
from goalrunner.driver.journal import Journal
from goalrunner.driver.validation import is_hidden
from goalrunner.errors import UsageError
from goalrunner.eventlog import EventLog, TranscriptFile
from goalrunner.events import RunStarted
from goalrunner.goalfile import dump_goal
from goalrunner.judge import check_room
from goalrunner.llm import LLM, Tape
from goalrunner.model.goal import Goal
from goalrunner.ports import Observer, Parts
from goalrunner.process import ProcessLauncher
from goalrunner.prompts import Prompts
from goalrunner.redaction import Redactor
from goalrunner.runs import RunFolder, RunIds
from goalrunner.state import RunState
from goalrunner.state.outcome import summary_of
from goalrunner.workspace.store import SnapshotStore


@dataclass(frozen=True)
class Assembly:
    """A run that can be driven, and what belongs to it."""

    run: Run
    folder: RunFolder
    close: Callable[[], None]

    def write_outcome(self) -> dict[str, Any]:
        """Write outcome.json from the state as it is; gives what was written."""
        outcome = self.run.outcome(str(self.folder.path)).model_dump(mode="json")
        self.folder.write_json(self.folder.outcome, outcome)
        return outcome


def assemble(
    goal: Goal,
    *,
    home: Path,
    environ: Mapping[str, str] = os.environ,
    observers: Sequence[Observer] = (),
    extras: Extras = Extras(),  # noqa: B008  frozen and empty
    tape: Path | None = None,
    goal_file: Path | None = None,
) -> Assembly:
    """Make the run folder and everything that writes into it, and write the first events. Raises GoalError.

    `goal_file` is where the goal was read from: it is always protected.
    """
    redactor = Redactor({**environ, **goal_secrets(goal)}, names=withheld(goal, extras))
    models = _models(goal, extras, Tape(tape, redact=redactor.text) if tape else None)
    clock = SystemClock()
    frozen = redactor.text(dump_goal(goal))
    folder = RunFolder.create(home, RunIds(home).run_id(goal.objective))
    workspace = Path(goal.workspace.path or Path.cwd()).resolve()
    folder.write_text(folder.goal_file, frozen)
    launcher = ProcessLauncher()
    log = EventLog(folder.events, clock, redactor)
    transcript = TranscriptFile(folder.transcript, redactor)
    artifacts = ArtifactStore(folder.artifacts, redactor)
    for kept in ("stores", "checkouts"):
        (home / kept).mkdir(mode=0o700, parents=True, exist_ok=True)
    watched = goal.deliverable == "workspace"
    store = (
        SnapshotStore(workspace, home, outputs=goal.workspace.outputs, start=folder.path / "start") if watched else None
    )
    parts = Parts(
        conversation=extras.conversation or _conversation(goal, models, workspace, launcher, environ),
        validators=goal_validators(goal, launcher, environ, extras.validators),
        judge=goal_judge(goal, models.judge),
        log=log,
        transcript=transcript,
        artifacts=artifacts,
        clock=clock,
        workspace=workspace,
        scratch=folder.scratch_file,
        watch=store,
        clean_room=goal_clean_room(goal, store, workspace, home, folder.path, launcher, environ, goal_file),
        redact=redactor.text,
    )
    journal = Journal(log, transcript, artifacts, observers, _saver(folder))
    prompts = Prompts(goal, extras.resume_prompt, extras.first_prompt)
    run = Run(parts, journal, prompts.render, fresh_rounds=not goal.preserve_context, check_models=models.check)
    _begin(run, goal, parts, models, folder, baseline=extras.baseline)

    def close() -> None:
        log.close()
        transcript.close()
        if store is not None:
            store.close()
        folder.clear_scratch()

    return Assembly(run=run, folder=folder, close=close)


def _begin(run: Run, goal: Goal, parts: Parts, models: Models, folder: RunFolder, *, baseline: bool) -> None:
    """Write the first two events."""
    now = parts.clock.now()
    names = tuple(validator.name for validator in parts.validators if not is_hidden(validator))
    judged = parts.judge is not None
    created = goal_created(goal, folder.run_id, now.isoformat(), names, has_judge=judged, baseline=baseline)
    named = _names(models, parts)
    labels = labels_of(goal, named)
    started = RunStarted(
        workspace=str(parts.workspace),
        models=named,
        version=__version__,
        labels=labels,
        notes=notes_of(goal, labels),
        deadline_at=None if goal.timeout is None else (now + timedelta(seconds=goal.timeout)).isoformat(),
    )
    run.start(created, started)


def _models(goal: Goal, extras: Extras, tape: Tape | None) -> Models:
    """The goal's models; those that the caller handed in take their place."""
    if extras.conversation is None:
        models = goal_models(goal, tape)
        models = Models(agent=models.agent, judge=extras.judge_llm or models.judge)
    else:
        models = Models(agent=None, judge=extras.judge_llm)
    _refuse_unseen_checks(goal)
    seen = [spec for spec in goal.validators if not spec.hidden]
    if models.judge is None and not seen and not extras.validators:
        raise UsageError(
            "nobody can check this goal: it has neither a validator nor a judge",
            'add validators (validator = "pytest -q") or a judge (judge = "agent")',
        )
    refuse_unknown_prices(goal, models)
    if models.judge is not None:
        check_room(goal)
    return models


def _refuse_unseen_checks(goal: Goal) -> None:
    hidden = [spec.name or spec.run or spec.python or "" for spec in goal.validators if spec.hidden]
    if hidden and not (goal.workspace.clean_proof and goal.deliverable == "workspace"):
        raise UsageError(
            f"the hidden validator {hidden[0]} would never run: hidden ones run in the clean proof alone",
            "leave out clean_proof = false, or hidden = true",
        )


def _conversation(
    goal: Goal, models: Models, workspace: Path, launcher: ProcessLauncher, environ: Mapping[str, str]
) -> Any:
    llm: LLM | None = models.agent
    if llm is None:
        raise UsageError("the goal names no agent model", 'add model = "provider/model"')
    return goal_conversation(goal, llm, workspace, launcher, environ)


def _names(models: Models, parts: Parts) -> dict[str, str]:
    names = models.names()
    names.setdefault("agent", type(parts.conversation).__name__)
    return names


def _saver(folder: RunFolder) -> Callable[[RunState], None]:
    owner = {"pid": os.getpid(), "path": str(folder.path)}
    return lambda state: folder.write_json(folder.summary, {**summary_of(state), **owner})
