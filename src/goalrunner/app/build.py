"""From a goal to a run: its folder, its log, its parts and its driver."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from goalrunner import __version__
from goalrunner.app.check_environment import check_lines, choose, needs_environment
from goalrunner.app.external_agent import Named, external_named, external_notes
from goalrunner.app.models import Models, goal_models, refuse_shared_workspace, refuse_unfit, workspace_of
from goalrunner.app.preflight import before_the_run, warnings_before
from goalrunner.app.previous_run import chat_of, goal_hash, refuse_continuing
from goalrunner.app.resources import HIDDEN_READABLE, Equipment, Extras, Setting, equip, goal_redactor, hidden_labels
from goalrunner.app.sandbox import NONE, refuse_unfenced, sandbox_name, sandbox_notes
from goalrunner.app.secret_seals import Left, goal_created, left_out
from goalrunner.core.agent_ports import Resumable
from goalrunner.core.approval_state import REPORTED_LABEL
from goalrunner.core.errors import UsageError
from goalrunner.core.events import RunStarted
from goalrunner.core.goal import Goal
from goalrunner.core.ports import Approver, Message
from goalrunner.core.run_parts import Observer, Parts
from goalrunner.engine.run import Run
from goalrunner.engine.validation import is_hidden
from goalrunner.goalfile import dump_goal
from goalrunner.llm import LLM, Tape
from goalrunner.records.run_folder import RunFolder, RunIds

SELF_JUDGED = "self-judged"


def labels_of(goal: Goal, models: dict[str, str]) -> tuple[str, ...]:
    """What makes this run's proof weaker than it could be."""
    labels = []
    if models.get("judge") and models.get("judge") == models.get("agent"):
        labels.append(SELF_JUDGED)
    if goal.agent.external and goal.deliverable == "workspace" and not goal.validators:
        labels.append(REPORTED_LABEL)
    return tuple(labels)


def notes_of(labels: tuple[str, ...]) -> tuple[str, ...]:
    """One sentence each, for the first lines of a run."""
    said = {
        SELF_JUDGED: "self-judged: agent and judge are one model, though separate instances",
        HIDDEN_READABLE: "hidden checks readable: the agent can read what the hidden validators check",
        REPORTED_LABEL: "no validator: what shows that it is done is what the agent reports of itself; the runner saw none of it",
    }
    return tuple(said[label] for label in labels)


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
    approver: Approver | None = None,
    continues: RunFolder | None = None,
) -> Assembly:
    """Make the run folder and everything that writes into it, and write the first events. Raises GoalError.

    `goal_file` is where the goal was read from: it is always protected. `approver` is who is asked where something waits
    for a person. `continues` is a run whose conversation goes on in this one.
    """
    redactor = goal_redactor(goal, environ, extras)
    models = chosen_models(goal, extras, Tape(tape, redact=redactor.text) if tape else None)
    named = external_named(goal, environ) if extras.conversation is None else None
    refuse_unfit(goal, models, home, named)
    checks = choose(goal, workspace_of(goal), home) if needs_environment(goal) else None
    setting = Setting(home, environ, observers, extras, goal_file, approver, checks, tape)
    refuse_unfenced(goal, setting.place(goal))
    earlier: tuple[Message, ...] = ()
    if continues is not None:
        refuse_continuing(goal, has_own_agent=extras.conversation is not None)
        earlier = chat_of(continues)
    refuse_shared_workspace(goal, home)
    frozen = dump_goal(goal, redactor.text)
    left = left_out(frozen, goal, home, goal_file, environ)
    folder = RunFolder.create(home, RunIds(home).run_id(redactor.text(goal.objective)))
    folder.write_text(folder.goal_file, frozen)
    equipment = equip(goal, models, folder, setting, redactor)
    run = Run(
        equipment.parts,
        equipment.journal,
        equipment.prompts.render,
        fresh_rounds=not goal.preserve_context,
        check_models=before_the_run(goal, models, named, setting.place(goal)),
        foresee_models=models.foresee,
    )
    try:
        _begin(
            run, goal, equipment, models, folder, setting, named, earlier, continues.run_id if continues else "", left
        )
    except BaseException:
        equipment.close()
        raise
    return Assembly(run=run, folder=folder, close=equipment.close)


def _begin(
    run: Run,
    goal: Goal,
    equipment: Equipment,
    models: Models,
    folder: RunFolder,
    setting: Setting,
    external: Named | None,
    earlier: tuple[Message, ...],
    continues: str,
    left: Left,
) -> None:
    """Write the first two events, and between them the chat that goes on."""
    parts = equipment.parts
    now = parts.clock.now()
    names = tuple(validator.name for validator in parts.validators if not is_hidden(validator))
    hidden = tuple(validator.name for validator in parts.validators if is_hidden(validator))
    judged = parts.judge is not None
    created = goal_created(
        goal,
        folder.run_id,
        now.isoformat(),
        names,
        hidden if parts.checker is not None else (),
        has_judge=judged,
        needs_round=setting.extras.needs_round,
        unenforced=goal.budget.unenforced if external or setting.extras.conversation is not None else (),
    )
    named = _names(models, parts, external)
    place, sandbox = setting.place(goal), sandbox_of(goal, setting)
    unhidden = hidden_labels(goal, parts.workspace, place.secret, jailed=sandbox != NONE)
    labels = (*labels_of(goal, named), *unhidden)
    of_agent = external_notes(external, setting.environ) if external else ()
    notes = (*notes_of(labels), *warnings_before(goal, setting.environ), *of_agent)
    started = RunStarted(
        workspace=str(parts.workspace),
        models=named,
        agent_command=external.words if external else "",
        version=__version__,
        labels=labels,
        check_environment=setting.checks.kind if setting.checks else "",
        checks=check_lines(goal, setting.checks) if setting.checks else "",
        notes=(
            *notes,
            *sandbox_notes(goal, place, has_own_agent=setting.extras.conversation is not None),
            *equipment.notes,
            *([left.note] if left.note else []),
        ),
        sandbox=sandbox,
        deadline_at=deadline_at(now, goal.timeout),
        handed=handed(setting.extras),
        goal_file=str(setting.goal_file.resolve()) if setting.goal_file else "",
        goal_sha256=goal_hash(folder),
        goal_seals=dict(left.seals),
        continues=continues,
    )

    def take_over() -> None:
        if earlier and isinstance(run.conversation, Resumable):
            run.conversation.take_over(earlier, run.recorder)

    run.start(created, started, take_over)


def sandbox_of(goal: Goal, setting: Setting) -> str:
    """The jail of the agent and of the checks; "none" where the agent is the caller's own, and so in no jail."""
    return NONE if setting.extras.conversation is not None else sandbox_name(goal, setting.place(goal))


def deadline_at(now: datetime, seconds: float | None) -> str | None:
    """When a limit that has `seconds` left ends, if the run does not wait for a person; ISO 8601."""
    return None if seconds is None else (now + timedelta(seconds=seconds)).isoformat()


def handed(extras: Extras) -> tuple[str, ...]:
    """What a calling program handed in, by name: nothing outside of it can make these parts again."""
    given = {
        "conversation": extras.conversation,
        "judge": extras.judge_llm,
        "validators": extras.validators,
        "resume_prompt": callable(extras.resume_prompt),
    }
    return tuple(name for name, value in given.items() if value)


def chosen_models(goal: Goal, extras: Extras, tape: Tape | None) -> Models:
    """The goal's models; those that the caller handed in take their place."""
    if extras.conversation is None:
        models = goal_models(goal, tape)
        models = Models(agent=models.agent, judge=extras.judge_llm or models.judge)
    else:
        models = Models(agent=None, judge=extras.judge_llm)
    seen = [spec for spec in goal.validators if not spec.hidden]
    if models.judge is None and not seen and not extras.validators:
        raise UsageError(
            "nobody can check this goal: it has neither a validator nor a judge",
            'add validators (validator = "pytest -q") or a judge (judge = "agent")',
        )
    return models


def _names(models: Models, parts: Parts, external: Named | None) -> dict[str, str]:
    names = models.names()
    own = getattr(parts.conversation, "llm", None)  # a conversation that the caller handed in
    name = getattr(parts.conversation, "name", None) or type(parts.conversation).__name__
    named = own.model if isinstance(own, LLM) else str(name)
    names.setdefault("agent", external.name if external else named)
    return names
