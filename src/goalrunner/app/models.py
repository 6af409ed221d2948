"""The models of a goal, files of its start, and combinations that are refused."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from goalrunner.app.external_agent import Named, refuse_misfits, refuse_unfit_agent
from goalrunner.checking.ignored_files import PACK
from goalrunner.core.errors import RecordError, UsageError
from goalrunner.core.goal import AGENT_MODEL, Goal
from goalrunner.core.run_state import RunState
from goalrunner.judge import check_room
from goalrunner.llm import LLM, Tape
from goalrunner.records.run_folder import UNFINISHED, RunFolder
from goalrunner.snapshots.objects import store_name
from goalrunner.snapshots.repositories import refuse_claimed


@dataclass(frozen=True)
class Models:
    """The models of agent and judge, with an account each; None if there is no such model."""

    agent: LLM | None
    judge: LLM | None

    def names(self) -> dict[str, str]:
        """By account, for people and for the record."""
        pairs = {"agent": self.agent, "judge": self.judge}
        return {account: llm.model for account, llm in pairs.items() if llm is not None}

    def check(self) -> None:
        """See what can be seen without asking, so that no round is spent on a judge without a key. Raises GoalError."""
        for llm in (self.agent, self.judge):
            if llm is not None:
                llm.check()

    async def foresee(self) -> None:
        """The same for what only LiteLLM knows: an unknown provider, a missing key. Waits for its import. Raises GoalError."""
        for llm in (self.agent, self.judge):
            if llm is not None:
                await llm.foresee()


def model_names(goal: Goal) -> tuple[str, ...]:
    """The models that a goal's run asks, in LiteLLM's naming."""
    agent = "" if goal.agent.external else goal.agent.model
    judge = agent if goal.judge.model == AGENT_MODEL else goal.judge.model
    return tuple(name for name in (agent, judge) if name)


def goal_models(goal: Goal, tape: Tape | None = None) -> Models:
    """The models of a goal; an external agent brings its own. Raises GoalError where a recording or a named key is missing."""
    if goal.agent.external:
        return Models(agent=None, judge=judge_llm(goal, tape))
    agent = LLM(
        goal.agent.model,
        api_base=goal.agent.api_base,
        api_key_env=goal.agent.api_key_env,
        params=goal.agent.params,
        account="agent",
        tape=tape,
    )
    judge = goal.judge
    if judge.model == AGENT_MODEL and not (judge.api_base or judge.api_key_env or judge.params):
        return Models(agent=agent, judge=agent.separate("judge"))
    return Models(agent=agent, judge=judge_llm(goal, tape))


def judge_llm(goal: Goal, tape: Tape | None = None) -> LLM | None:
    """The judge's own model instance; None where the goal has no judge."""
    judge = goal.judge
    if not judge.model:
        return None
    same = judge.model == AGENT_MODEL
    if same and goal.agent.external:
        raise UsageError(
            f'judge "agent" is the agent\'s own model, and {goal.agent.use} lends nobody its own',
            'name a model for the judge: judge = "provider/model"',
        )
    return LLM(
        goal.agent.model if same else judge.model,
        api_base=judge.api_base or (goal.agent.api_base if same else None),
        api_key_env=judge.api_key_env or (goal.agent.api_key_env if same else None),
        params=judge.params,
        account="judge",
        tape=tape,
    )


def refuse_unknown_prices(goal: Goal, models: Models) -> None:
    """A dollar budget can only be kept where every model has a price. Raises UsageError naming the one that has none."""
    if goal.budget.cost_usd is None:
        return
    for llm in (models.agent, models.judge):
        if llm is not None and not llm.has_price():
            raise UsageError(
                f"model {llm.model} has no known price, so a budget of ${goal.budget.cost_usd:g} cannot be kept",
                "limit tokens instead ([budget] tokens, --tokens), or use a model with a price",
            )


START = "start"
"""The folder of these files, in that of the run."""
UNCERTAIN = "this log is of an older schema: it does not say what was kept of the start, so some of that may be gone"


def kept_files(folder: RunFolder) -> dict[str, str]:
    """Each file with its SHA-256. Raises RecordError for one that cannot be read.

    A pack of contents is left out: a record beside it has the hash of each content.
    """
    start = folder.path / START
    found = sorted(path for path in start.rglob("*") if path.is_file() and path.suffix not in (UNFINISHED, PACK))
    return {path.relative_to(start).as_posix(): _digest(path) for path in found}


def refuse_other_start(folder: RunFolder, state: RunState) -> None:
    """Raises RecordError naming the first file that is gone or is not what it was."""
    for name, digest in state.kept.items():
        path = folder.path / START / name
        if not path.is_file():
            raise RecordError(f"{path} is gone: it said what the start of the run was like", "start a new run")
        if _digest(path) != digest:
            raise RecordError(f"{path} is damaged: it says something else of the start than it did", "start a new run")


def refuse_earlier(state: RunState, *, needs_environment: bool) -> None:
    """Raise RecordError if an earlier version began the run, which did not record what its checks rest on."""
    if needs_environment and state.base is not None and not state.check_environment:
        raise RecordError(
            "an earlier version of goalrunner began this run, and its checks cannot go on in the check environment",
            "start a new run: goal run GOAL_FILE",
        )


def start_notes(state: RunState) -> tuple[str, ...]:
    """What must be said of a log that does not name these files (schema before 1.2)."""
    return (UNCERTAIN,) if state.base is not None and state.round and not state.kept else ()


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}", "start a new run: goal run GOAL_FILE") from error


CHECKOUTS = "checkouts"
"""The folder of clean checkouts in the home."""


def refuse_unfit(goal: Goal, models: Models, home: Path, named: Named | None = None) -> None:
    """What each part by itself takes, and the whole does not. `home` is where the run is kept.

    `named` is the external agent, where the goal has one. Raises UsageError.
    """
    _refuse_nested_home(goal, home)
    _refuse_unseen_checks(goal)
    _refuse_unseen_work(goal)
    _refuse_both_rules(goal)
    refuse_unknown_prices(goal, models)
    if named is not None:
        refuse_unfit_agent(named)
        refuse_misfits(named)
    if models.judge is not None:
        check_room(goal)


def workspace_of(goal: Goal) -> Path:
    """The folder that is worked in, absolute and without links."""
    return Path(goal.workspace.path or Path.cwd()).resolve()


def refuse_shared_workspace(goal: Goal, home: Path) -> None:
    """Raise WorkspaceError if another run works in the workspace of a goal."""
    if goal.deliverable == "workspace":
        workspace = workspace_of(goal)
        refuse_claimed(workspace, home / "stores" / store_name(workspace) / "lock")


def _refuse_unseen_checks(goal: Goal) -> None:
    """Hidden validators need a check environment."""
    hidden = [spec.name or spec.run or spec.python or "" for spec in goal.validators if spec.hidden]
    if hidden and goal.deliverable != "workspace":
        raise UsageError(
            f'the hidden validator {hidden[0]} would never run: hidden ones need deliverable = "workspace"',
            "leave out hidden = true",
        )


def _refuse_unseen_work(goal: Goal) -> None:
    """Of an external agent's work the runner sees what its own validators show, and no more."""
    unseen = goal.agent.external and not goal.validators and goal.deliverable == "workspace"
    if goal.judge.require == "runner" and unseen:
        raise UsageError(
            f'[judge] require = "runner" and no validator: of what {goal.agent.use} does the runner sees nothing itself',
            'add a validator whose output shows it, or set [judge] require = "any"',
        )


def _refuse_both_rules(goal: Goal) -> None:
    """`editable` says more than `protect` can."""
    if goal.workspace.editable and goal.workspace.protect:
        raise UsageError(
            "[workspace] editable and protect cannot be combined: editable protects everything that it does not name",
            "remove one of the two",
        )


def _refuse_nested_home(goal: Goal, home: Path) -> None:
    """What the runner records about the checks lies outside of the workspace. Without checks it may be anywhere."""
    if not (goal.validators and goal.deliverable == "workspace"):
        return
    workspace, checkouts = workspace_of(goal), Path(os.path.realpath(home / CHECKOUTS))
    if checkouts.is_relative_to(workspace):
        told = f"{home}, where goal keeps its runs, lies in the workspace {workspace}"
    elif workspace.is_relative_to(checkouts):
        told = f"the workspace {workspace} lies in {checkouts}, where goal keeps temporary files"
    else:
        return
    hint = "export GOAL_HOME=... with a folder outside of it, or name another workspace: --workspace DIR"
    raise UsageError(told, hint)
