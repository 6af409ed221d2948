"""The judge and the critic of a run, made from its configuration; and running a cited command again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from pydantic import ValidationError

from goalrunner.app.checker import CheckRunner
from goalrunner.app.preflight import choose_environment
from goalrunner.app.resolve import RunConfig
from goalrunner.app.sandbox import NONE
from goalrunner.checking.environment import CheckEnvironment, EnvironmentFailed, Layer
from goalrunner.checking.in_place import InPlace
from goalrunner.checking.overlay import Overlay
from goalrunner.core.activity import running
from goalrunner.core.agent_ports import Recorder, ToolResult
from goalrunner.core.errors import UsageError
from goalrunner.core.events import CriticRule
from goalrunner.core.goal_tables import DEFAULT_VALIDATOR_TIMEOUT
from goalrunner.core.limits import rule_for
from goalrunner.core.observation import REPLAY, Observation
from goalrunner.core.ports import Reviewer
from goalrunner.judge.audit import LLMJudge
from goalrunner.judge.critic import ModelCritic
from goalrunner.llm import LLM
from goalrunner.records.run_folder import RunFolder
from goalrunner.snapshots.diff import CACHES, Patterns
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.launcher import SHELL, ProcessLauncher, child_environment
from goalrunner.validators.critics import CallableCritic, Place, SpecCritic

_CANNOT_RUN = (None, 126, 127)  # exit codes of a command that a signal ended, or that could not be started


async def replay(checks: CheckRunner, cited: Observation, recorder: Recorder) -> Observation | None:
    """Run the command of an observation again, where the checks were green last, and record it as a new observation.

    Return None if it could not be started, needs approval, wrote files on which its result may depend, or is only
    reported and no sandbox confines it.
    """
    goal, sandbox = checks.config.goal, checks.config.sandbox
    if checks.proven is None or not isinstance(checks.environment, Overlay):
        return None
    if rule_for("shell", cited.command, goal.approvals, goal.risk_class):
        return None
    if cited.reported_by and sandbox.name == NONE:
        return None  # the command line is only what the agent says that it ran
    layer, written = checks.proven
    with running(REPLAY, cited.command, checks.folder.scratch_file(".out")) as output:
        try:
            async with checks.environment.open(checks.git.layers(layer)) as opened:
                before = await asyncio.to_thread(opened.entries)
                # Confined as the agent's own commands are.
                launcher = sandbox.launcher(opened.launcher(checks.processes), checks.folder.run_id, checks=False)
                done = await launcher.launch(
                    [SHELL, "-c", cited.command],
                    cwd=opened.path,
                    env={**opened.environ(checks.env), **goal.agent.env},
                    output=output,
                    timeout=DEFAULT_VALIDATOR_TIMEOUT,
                )
                after = await asyncio.to_thread(opened.entries)
        except EnvironmentFailed:
            return None
        # What the validators themselves write, such as a report of the coverage, is no input of theirs.
        free = Patterns((*CACHES, *goal.workspace.outputs, *(f"/{path}" for path in written)))
        wrote = {path for path, *_ in after ^ before}
        if done.error or done.timed_out or done.exit_code in _CANNOT_RUN or not all(map(free.match, wrote)):
            return None
        said = f"exit {done.exit_code}"
        result = ToolResult(
            tool_call_id=f"{REPLAY}-{cited.id}",
            tool=REPLAY,
            command=cited.command,
            facts=(said, f"replay of {cited.id}"),
            output=output if output.exists() else b"",
            duration=done.duration,
            summary=f"{said}, replay of {cited.id}",
            writes=False,
        )
        return (await recorder.tool_result(result)).observation


def make_judge(config: RunConfig, checks: CheckRunner | None) -> LLMJudge | None:
    """Return the judge of a run; None if it has none. Without a word of the goal, a closed sandbox turns replay on."""
    if "judge" not in config.models:
        return None
    wanted = config.goal.judge.replay
    if wanted is None:
        wanted = config.sandbox.name != NONE and not config.goal.workspace.network
    again = partial(replay, checks) if wanted and checks is not None else None
    return LLMJudge(config.models["judge"], config.goal.judge, redact=config.redactor.text, replay=again)


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
    return InPlace(store, config.home, start=folder.start)
