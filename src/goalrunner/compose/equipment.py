"""Everything that a run works with, over its folder: files, parts and driver. Owns how they fit together; starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from goalrunner.artifacts import ArtifactStore
from goalrunner.compose.check_environment import (
    CheckParts,
    Choice,
    choose,
    goal_checker,
    needs_environment,
    undo_interrupted,
)
from goalrunner.compose.external import external_conversation, external_named
from goalrunner.compose.hidden_checks import secret_goal_file
from goalrunner.compose.leftovers import clear_leftovers, clear_own
from goalrunner.compose.models import Models
from goalrunner.compose.own_files import own_files
from goalrunner.compose.parts import Extras, goal_conversation, goal_judge, goal_validators, withheld
from goalrunner.compose.refusals import CHECKOUTS, workspace_of
from goalrunner.compose.sandbox import Fenced, Place, fenced, place_of
from goalrunner.compose.saving import saver
from goalrunner.compose.start import START, kept_files
from goalrunner.compose.system import SystemClock
from goalrunner.driver.journal import Journal
from goalrunner.errors import UsageError
from goalrunner.eventlog import EventLog, LogEnd, TornTail, TranscriptFile
from goalrunner.llm import LLM
from goalrunner.memory import Recalled, recall
from goalrunner.model.goal import Goal
from goalrunner.ports import Approver, Checker, Observer, Parts
from goalrunner.process import ProcessLauncher, child_environment
from goalrunner.prompts import Prompts
from goalrunner.redaction import Redactor
from goalrunner.runs import RunFolder
from goalrunner.workspace.store import SnapshotStore


@dataclass(frozen=True)
class Setting:
    """Where a run happens, and who is there."""

    home: Path
    environ: Mapping[str, str]
    observers: Sequence[Observer] = ()
    extras: Extras = field(default_factory=Extras)
    goal_file: Path | None = None
    """Where the goal was read from: it is always protected."""
    approver: Approver | None = None
    checks: Choice | None = None
    """The check environment that was chosen; None: it is chosen when the run is equipped."""
    tape: Path | None = None
    """Where the models' replies are recorded."""

    def place(self, goal: Goal) -> Place:
        """What a jail must know of it."""
        place = place_of(goal, self.home, self.environ)
        return replace(place, secret=secret_goal_file(goal, self.goal_file))


@dataclass(frozen=True)
class Equipment:
    """The parts of a run and its journal; `close` gives the files back."""

    parts: Parts
    journal: Journal
    prompts: Prompts
    close: Callable[[], None]
    notes: tuple[str, ...] = ()
    """What must be said aloud of what is remembered."""


def equip(
    goal: Goal,
    models: Models,
    folder: RunFolder,
    setting: Setting,
    redactor: Redactor,
    on_torn: Callable[[TornTail], None] | None = None,
    end: LogEnd | None = None,
) -> Equipment:
    """Open the run's files and make its parts. Raises GoalError; RecordError where another process has the run.

    `end` is where the log was seen to end, which spares reading it again.
    """
    workspace = workspace_of(goal)
    launcher, clock, extras = ProcessLauncher(), SystemClock(), setting.extras
    place = setting.place(goal)
    fence = fenced(goal, place, folder.run_id, launcher)
    log = EventLog(folder.events, clock, redactor, end, on_torn)
    transcript = TranscriptFile(folder.transcript, redactor)
    artifacts = ArtifactStore(folder.artifacts, redactor)
    for kept in ("stores", CHECKOUTS):
        (setting.home / kept).mkdir(mode=0o700, parents=True, exist_ok=True)
    clear_leftovers(setting.home)
    undone = undo_interrupted(workspace, setting.home)
    store = None
    if goal.deliverable == "workspace":
        passing = (*goal.workspace.outputs, *own_files(workspace, setting.tape))
        store = SnapshotStore(workspace, setting.home, outputs=passing, start=folder.path / START)
    parts = Parts(
        conversation=extras.conversation or _conversation(goal, models, workspace, launcher, fence, place.secret),
        validators=goal_validators(goal, fence.checks, fence.environ, extras.validators),
        judge=goal_judge(goal, models.judge, redactor.text),
        log=log,
        transcript=transcript,
        artifacts=artifacts,
        clock=clock,
        workspace=workspace,
        scratch=folder.scratch_file,
        watch=store,
        checker=_checker(goal, store, folder, setting, launcher, fence, redactor) if store is not None else None,
        redact=redactor.text,
        replaced=redactor.take_counts,
        kept=partial(kept_files, folder),
        approver=setting.approver,
    )

    def close() -> None:
        log.close()
        transcript.close()
        if store is not None:
            store.close()
        launcher.close()
        clear_own(setting.home, folder.run_id)
        folder.clear_scratch()

    journal = Journal(log, transcript, artifacts, setting.observers, saver(folder))
    recalled = recall(setting.home, goal.owner, clock.now()) if goal.memory.recall else Recalled()
    prompts = Prompts(goal, extras.resume_prompt, extras.first_prompt, recalled.lines)
    return Equipment(parts, journal, prompts, close, (*undone, *recalled.notes))


def _checker(
    goal: Goal,
    store: SnapshotStore,
    folder: RunFolder,
    setting: Setting,
    launcher: ProcessLauncher,
    fence: Fenced,
    redactor: Redactor,
) -> Checker | None:
    """Return what runs the validators in the check environment; None if the goal has none."""
    if not needs_environment(goal):
        return None
    workspace, home = workspace_of(goal), setting.home
    env = child_environment(fence.environ, withhold=withheld(goal, fence.environ))
    parts = CheckParts(store, workspace, home, folder, launcher, fence.sandboxed, env, setting.goal_file, redactor.text)
    return goal_checker(goal, parts, setting.checks or choose(goal, workspace, home), setting.extras.validators)


def _conversation(
    goal: Goal, models: Models, workspace: Path, launcher: ProcessLauncher, fence: Fenced, secret: Path | None
) -> Any:
    named = external_named(goal, fence.environ)
    if named is not None:
        cell = fence.external(named.preset.home)
        return external_conversation(named, workspace, launcher, fence.environ, withheld(goal, fence.environ), cell)
    llm: LLM | None = models.agent
    if llm is None:
        raise UsageError("the goal names no agent model", 'add model = "provider/model"')
    return goal_conversation(goal, llm, workspace, fence.agent, fence.environ, secret)
