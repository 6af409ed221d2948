"""A run, put together: its folder, its log, its parts and its driver. Starts nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner import __version__
from goalrunner.artifacts import ArtifactStore
from goalrunner.compose.models import Models, goal_models, refuse_unknown_prices
from goalrunner.compose.parts import Extras, goal_conversation, goal_judge, goal_validators, withheld
from goalrunner.compose.records import goal_created
from goalrunner.compose.system import SystemClock
from goalrunner.driver import Run
from goalrunner.driver.journal import Journal
from goalrunner.errors import UsageError
from goalrunner.eventlog import EventLog, TranscriptFile
from goalrunner.events import RunStarted
from goalrunner.goalfile import dump_goal
from goalrunner.llm import LLM, Tape
from goalrunner.model.goal import Goal
from goalrunner.ports import Observer, Parts
from goalrunner.process import ProcessLauncher
from goalrunner.prompts import Prompts
from goalrunner.redaction import Redactor
from goalrunner.runs import RunFolder, RunIds
from goalrunner.state import RunState
from goalrunner.state.outcome import outcome_of, summary_of


@dataclass(frozen=True)
class Assembly:
    """A run that can be driven, and what belongs to it."""

    run: Run
    folder: RunFolder
    close: Callable[[], None]

    def write_outcome(self) -> dict[str, Any]:
        """Write outcome.json from the state as it is; gives what was written."""
        outcome = outcome_of(self.run.state, str(self.folder.path)).model_dump(mode="json")
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
) -> Assembly:
    """Make the run folder and everything that writes into it, and write the first events. Raises GoalError."""
    redactor = Redactor(environ, names=withheld(goal))
    models = _models(goal, extras, Tape(tape, redact=redactor.text) if tape else None)
    clock = SystemClock()
    folder = RunFolder.create(home, RunIds(home).run_id(goal.objective))
    workspace = Path(goal.workspace.path or Path.cwd()).resolve()
    folder.write_text(folder.goal_file, redactor.text(dump_goal(goal)))
    launcher = ProcessLauncher()
    log = EventLog(folder.events, clock, redactor)
    transcript = TranscriptFile(folder.transcript, redactor)
    artifacts = ArtifactStore(folder.artifacts, redactor)
    parts = Parts(
        conversation=extras.conversation or _conversation(goal, models, workspace, launcher, environ),
        validators=goal_validators(goal, workspace, launcher, environ, extras.validators),
        judge=goal_judge(goal, models.judge),
        log=log,
        transcript=transcript,
        artifacts=artifacts,
        clock=clock,
        workspace=workspace,
        scratch=folder.scratch_file,
        redact=redactor.text,
    )
    journal = Journal(log, transcript, artifacts, observers, _saver(folder))
    prompts = Prompts(goal, extras.resume_prompt, extras.first_prompt)
    run = Run(parts, journal, prompts.render, fresh_rounds=not goal.preserve_context)
    names = tuple(validator.name for validator in parts.validators)
    created = goal_created(goal, folder.run_id, clock.now().isoformat(), names, has_judge=parts.judge is not None)
    run.start(created, RunStarted(workspace=str(workspace), models=_names(models, parts), version=__version__))

    def close() -> None:
        log.close()
        transcript.close()

    return Assembly(run=run, folder=folder, close=close)


def _models(goal: Goal, extras: Extras, tape: Tape | None) -> Models:
    """The goal's models; those that the caller handed in take their place."""
    if extras.conversation is None:
        models = goal_models(goal, tape)
        models = Models(agent=models.agent, judge=extras.judge_llm or models.judge)
    else:
        models = Models(agent=None, judge=extras.judge_llm)
    if models.judge is None and not goal.validators and not extras.validators:
        raise UsageError(
            "nobody can check this goal: it has neither a validator nor a judge",
            'add validators (validator = "pytest -q") or a judge (judge = "agent")',
        )
    refuse_unknown_prices(goal, models)
    return models


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
