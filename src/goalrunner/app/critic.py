"""The critic of a run: what keeps it from running, and the part that asks it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pydantic import ValidationError

from goalrunner.app.preflight import choose_environment, hopeless_validators, warnings_before
from goalrunner.checking.environment import CheckEnvironment, Layer
from goalrunner.checking.in_place import InPlace
from goalrunner.checking.overlay import Overlay
from goalrunner.core.critique import CriticRule
from goalrunner.core.errors import UsageError, ValidatorMissing
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.ports import Reviewer
from goalrunner.judge.critic import ModelCritic
from goalrunner.llm import LLM
from goalrunner.records.run_folder import RunFolder
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.launcher import ProcessLauncher, child_environment
from goalrunner.validators.critics import CallableCritic, Place, SpecCritic

if TYPE_CHECKING:
    from goalrunner.app.resolve import RunConfig

_NAME = "critic"


def _as_validators(goal: Goal) -> Goal:
    """Return the goal with its critic, if that is code, as its only validator."""
    critic = goal.critic
    specs = (ValidatorSpec(name=_NAME, run=critic.run, python=critic.python),) if critic.run or critic.python else ()
    config = goal.workspace.model_copy(update={"protect": (), "editable": ()})
    return goal.model_copy(update={"validators": specs, "workspace": config})


def refuse_hopeless_critic(goal: Goal, environ: Mapping[str, str]) -> None:
    """Raise ValidatorMissing if only a person can correct the critic's command line."""
    for error in hopeless_validators(_as_validators(goal), environ):
        raise ValidatorMissing(error.message.replace(f"validator {_NAME}", "the critic", 1), error.hint)


def critic_warnings(goal: Goal, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence about each script or module of the critic that does not exist yet."""
    found = warnings_before(_as_validators(goal), environ)
    return tuple(text.replace(f"validator {_NAME}", "the critic", 1) for text in found if " until " in text)


def critic_rule(config: RunConfig) -> CriticRule | None:
    """Return what the decisions need to know of the critic; None if there is none.

    A critic of the calling program may have the attributes `threshold` and `max_refinements`. Raise UsageError.
    """
    given, table = config.options.critic, config.goal.critic
    name = table.command
    if isinstance(given, LLM):
        name = given.model
    elif given is not None:
        name = str(getattr(given, "__name__", type(given).__name__))
    elif "critic" in config.models:
        name = config.models["critic"].model
    if not name:
        return None
    limits = {key: getattr(given, key, getattr(table, key)) for key in ("threshold", "max_refinements")}
    try:
        return CriticRule.model_validate({"name": config.redactor.text(name), **limits})
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0])
        raise UsageError(f"{key} of the critic is {limits[key]!r:.40}", "threshold is a number from 0 to 1") from None


def make_critic(
    config: RunConfig, store: SnapshotStore | None, folder: RunFolder, processes: ProcessLauncher
) -> Reviewer | None:
    """Return the part that asks the critic; None if the run has none. Raise UsageError."""
    given, table = config.options.critic, config.goal.critic
    if "critic" in config.models:
        return ModelCritic(config.models["critic"], redact=config.redactor.text)
    if given is not None and not isinstance(given, LLM):
        return CallableCritic(given)
    if not (table.run or table.python):
        return None
    environment = _environment(config, store, folder, processes)
    env = child_environment(config.sandbox.environ, withhold=config.withheld)

    @asynccontextmanager
    async def open_place() -> AsyncIterator[Place]:
        if environment is None:
            yield config.sandbox.launcher(processes, folder.run_id, checks=True), config.workspace, env
            return
        async with environment.open((Layer(config.workspace),)) as opened:
            launcher = config.sandbox.launcher(opened.launcher(processes), folder.run_id, checks=True)
            yield launcher, opened.path, opened.environ(env)

    return SpecCritic(table.run, table.python, open_place)


def _environment(
    config: RunConfig, store: SnapshotStore | None, folder: RunFolder, processes: ProcessLauncher
) -> CheckEnvironment | None:
    """Return what drops the writes of the critic; None if the workspace is not the deliverable."""
    if store is None:
        return None
    choice = config.check or choose_environment(config.goal, config.workspace, config.home)
    if choice.scratch is not None:
        return Overlay(choice.scratch, child_environment(config.sandbox.environ, withhold=config.withheld))
    return InPlace(store, config.home, start=folder.start, guard=processes.watchdog.token)
