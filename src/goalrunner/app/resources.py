"""Everything that a run works with: files, conversation, validators, judge and stores."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from goalrunner.agents import ChatConversation, Toolbox
from goalrunner.app.check_environment import (
    CheckParts,
    Choice,
    choose,
    goal_checker,
    needs_environment,
    undo_interrupted,
)
from goalrunner.app.external_agent import external_conversation, external_named
from goalrunner.app.memory import Recalled, recall
from goalrunner.app.models import CHECKOUTS, START, Models, kept_files, workspace_of
from goalrunner.app.previous_run import saver
from goalrunner.app.pruning import clear_leftovers, clear_own
from goalrunner.app.sandbox import Fenced, Place, SystemClock, fenced, own_files, place_of
from goalrunner.core.agent_ports import Conversation
from goalrunner.core.check_ports import Checker, Judge, Validator
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.ports import Approver
from goalrunner.core.process_ports import Launcher
from goalrunner.core.run_parts import Observer, Parts
from goalrunner.engine.journal import Journal
from goalrunner.engine.prompts import Prompts
from goalrunner.judge import LLMJudge
from goalrunner.llm import LLM
from goalrunner.records.artifacts import ArtifactStore, TranscriptFile
from goalrunner.records.event_log import EventLog
from goalrunner.records.reading import LogEnd, TornTail
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder
from goalrunner.snapshots.git import ask_git
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.environment import child_environment, credentials_of
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators import build_validators, with_variables
from goalrunner.validators.script_text import named_paths

HIDDEN_READABLE = "hidden checks readable"
"""Label of a run whose agent could read the hidden validators."""

_PATIENCE = 10.0


def secret_goal_file(goal: Goal, goal_file: Path | None) -> Path | None:
    """Return the goal file that commands in a sandbox must not read, without links; None if there is no such file.

    Nothing is gained for a file whose content the repository holds, and a validator that names it in its line needs it.
    """
    if goal_file is None or not any(spec.hidden for spec in goal.validators):
        return None
    path = Path(os.path.realpath(goal_file))
    if not path.is_file() or any(path.name in (spec.run or "") for spec in goal.validators):
        return None
    return None if _is_in_repository(path) else path


def _is_in_repository(path: Path) -> bool:
    ask = partial(ask_git, path.parent, environ=os.environ, timeout=_PATIENCE)
    try:
        code, digest, _ = ask("hash-object", "--stdin", stdin=path.read_bytes())
    except OSError:
        return False
    return code == 0 and ask("cat-file", "-e", digest.decode().strip())[0] == 0


def hidden_labels(goal: Goal, workspace: Path, secret: Path | None, *, jailed: bool) -> tuple[str, ...]:
    """Return the label if the goal file, or a script that a hidden validator names, is in view of the agent."""
    hidden = [spec for spec in goal.validators if spec.hidden]
    if not hidden or (jailed and secret is not None and not any(named_paths(spec, workspace) for spec in hidden)):
        return ()
    return (HIDDEN_READABLE,)


@dataclass(frozen=True)
class Extras:
    """What a caller of the library hands in beside the goal; what is None is made from the goal."""

    conversation: Conversation | None = None
    judge_llm: LLM | None = None
    validators: tuple[Validator, ...] = ()
    """Run beside those of the goal."""
    resume_prompt: Callable[[str | None], str] | str | None = None
    first_prompt: str | None = None
    needs_round: bool = False
    """The caller drives an agent of its own, which works even if everything is green already."""


def withheld(goal: Goal, environ: Mapping[str, str], extras: Extras = Extras()) -> tuple[str, ...]:
    """Names of environment variables that hold this goal's model keys; no child process gets them."""
    llms = (getattr(extras.conversation, "llm", None), extras.judge_llm)
    keys = (goal.agent.api_key_env, goal.judge.api_key_env, *(llm.api_key_env for llm in llms if isinstance(llm, LLM)))
    external = external_named(goal, environ) if extras.conversation is None else None
    named = (*(name for name in keys if name), *(external.keys if external else ()))
    return (*named, *credentials_of(goal.agent.model), *credentials_of(goal.judge.model))


def goal_secrets(goal: Goal) -> dict[str, str]:
    """Values that the goal file itself gives, by a name that says where; the redactor looks for secrets among them."""
    found: dict[str, str] = {}
    found |= {f"agent.env.{name}": value for name, value in goal.agent.env.items()}
    for spec in goal.validators:
        found.update({f"validators.env.{name}": value for name, value in spec.env.items()})
    for agent, preset in goal.agents.items():
        given = {**preset.env, **preset.jailed_env}
        found.update({f"agents.{agent}.env.{name}": value for name, value in given.items()})
    for table, config in (("agent", goal.agent), ("judge", goal.judge)):
        texts = {name: value for name, value in config.params.items() if isinstance(value, str)}
        found.update({f"{table}.params.{name}": value for name, value in texts.items()})
        password = urlsplit(config.api_base or "").password
        if password:
            found[f"{table}.api_base.PASSWORD"] = password
    return found


def goal_redactor(goal: Goal, environ: Mapping[str, str], extras: Extras = Extras()) -> Redactor:
    """What replaces secrets in everything that this goal's run writes. Raises UsageError."""
    return Redactor(
        {**environ, **goal_secrets(goal)},
        names=withheld(goal, environ, extras),
        extra=goal.redact.extra,
        allow=goal.redact.allow,
    )


def goal_conversation(
    goal: Goal,
    llm: LLM,
    workspace: Path,
    launcher: Launcher,
    environ: Mapping[str, str],
    secret: Path | None = None,
) -> ChatConversation:
    """Return the built-in agent of a goal; its file tools do not open the file `secret`."""
    env = child_environment(environ, extra=goal.agent.env, withhold=withheld(goal, environ))
    response_only = goal.deliverable == "response" and not goal.validators
    return ChatConversation(
        llm,
        toolbox=None if response_only else Toolbox(workspace, launcher, env, secret=secret),
        system_prompt=goal.agent.system_prompt,
        max_steps=goal.agent.max_steps,
    )


def goal_validators(
    goal: Goal, launcher: Launcher, environ: Mapping[str, str], extra: tuple[Validator, ...] = ()
) -> tuple[Validator, ...]:
    """The goal's validators, then the caller's."""
    env = child_environment(environ, withhold=withheld(goal, environ))
    specs = with_variables(goal.validators, Path(goal.workspace.path or "."))
    return (*build_validators(specs, launcher, env), *extra)


def goal_judge(goal: Goal, llm: LLM | None, redact: Callable[[str], str] = str) -> Judge | None:
    """Return the judge over its model; None if the goal has no judge."""
    return None if llm is None else LLMJudge(llm, goal.judge, redact=redact)


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
