"""`resume` and `aresume`: a run of `run_goal` or GoalController goes on in the program that started it, or in another one."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack, cast

from goalrunner.app.build import PreparedRun
from goalrunner.app.judging import run_blocking
from goalrunner.app.keywords import (
    JudgeChoice,
    MinimalConversation,
    ResumeKeywords,
    given_options,
    no_judge,
    one_judge,
    own_critic,
    own_judge,
)
from goalrunner.app.library import interrupting, own_model, refuse_no_checkpoint, refuse_no_conversation
from goalrunner.app.previous_run import LoadedRun, Reference, finalize, frozen_goal, load_run, run_folder
from goalrunner.app.resolve import goal_redactor, withheld
from goalrunner.app.run_options import Checks, RunOptions, split_checks
from goalrunner.app.session import Limits, finish, resume_run
from goalrunner.core.agent_ports import Conversation
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import JudgeConfig
from goalrunner.core.observation import Claim, Trail
from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.ports import Validator
from goalrunner.engine.journal import refuse_driven
from goalrunner.llm import LLM, is_custom
from goalrunner.records.artifacts import ArtifactStore, read_message
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder


def resume(
    run: Reference, conversation: MinimalConversation, judge_llm: JudgeChoice = None, **options: Unpack[ResumeKeywords]
) -> GoalOutcome:
    """Run `aresume`, with the same arguments, in an event loop of its own. Raise UsageError inside a running event loop."""
    work = _resume("resume", run, conversation, judge_llm, options)
    return interrupting(run_blocking(work, "resume", "aresume"))


async def aresume(
    run: Reference, conversation: MinimalConversation, judge_llm: JudgeChoice = None, **options: Unpack[ResumeKeywords]
) -> GoalOutcome:
    """Go on with a run of `run_goal`, and drive it to its end. `run` is its outcome, its folder, or its id.

    The goal is the one that was recorded; `max_iterations`, `timeout`, `tokens` and `cost_usd` replace its limits (inf: no
    limit), and `note` is a message to the agent. The conversation gets the recorded chat through its method `load`;
    without one it starts again. Parts that only a program can make are given again: callable validators, a callable
    `resume_prompt`, a critic, and a judge that is a function. Raise UsageError if one is missing, or if the run cannot go on.
    """
    return await _resume("aresume", run, conversation, judge_llm, options)


async def _resume(
    name: str, run: Reference, conversation: MinimalConversation, judge: JudgeChoice, options: ResumeKeywords
) -> GoalOutcome:
    refuse_no_conversation(conversation)
    refuse_driven(cast(Conversation, conversation))
    earlier = load_earlier(name, run, conversation, judge, options)
    outcome = finalize(earlier.folder, earlier.loaded, earlier.options.observers)
    return outcome if outcome is not None and outcome.passed else await finish(await earlier.resume())


@dataclass(frozen=True)
class Earlier:
    """A run that can go on, with the parts that the calling program passed."""

    folder: RunFolder
    loaded: LoadedRun
    goal: Goal
    options: RunOptions
    limits: Limits
    note: str

    async def resume(self) -> PreparedRun:
        """Open the run again. Raise GoalError if it cannot go on."""
        return await resume_run(self.folder, self.loaded, self.options, self.limits, note=self.note)

    def redact(self, text: str) -> str:
        """Return the text as the run recorded it, without secrets."""
        return goal_redactor(self.goal, self.options.environ, withheld(self.goal)).text(text)

    def reported(self, reporter: str) -> Trail:
        """Return what the run recorded of the chat: results that were reported by `reporter`, and the agent's texts."""
        artifacts = ArtifactStore(self.folder.artifacts, Redactor({}))
        trail = self.loaded.evidence.trail(artifacts.read, partial(read_message, self.folder.transcript))
        items = (item for item in trail.items if isinstance(item, Claim) or item.reported_by == reporter)
        return Trail(items=tuple(items), read=trail.read)


def load_earlier(
    name: str, run: Reference, conversation: Any, judge_llm: JudgeChoice, keywords: ResumeKeywords
) -> Earlier:
    """Return the run with the keywords of a call of `name`. Raise UsageError if one of them does not fit it."""
    defaults = {**dict.fromkeys(ResumeKeywords.__annotations__), "validators": (), "note": ""}
    given, options = given_options(name, defaults, keywords)
    folder = run_folder(run, options.home)
    loaded = load_run(folder)
    goal = frozen_goal(folder, os.environ, loaded.goal_file, runnable=False)
    refuse_no_checkpoint(goal, conversation)
    limits: dict[str, float | tuple[str, ...] | None] = {}
    for key in ("max_iterations", "timeout", "tokens", "cost_usd"):
        value = given[key]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
            raise UsageError(f"{key} must be a positive number, not {value!r}", "inf lifts the limit")
        if key in keywords:
            limits[key] = None if value == math.inf else value
            if key in ("max_iterations", "tokens") and limits[key] is not None:
                limits[key] = int(value or 0)
    options = replace(
        options,
        conversation=conversation,
        judge_llm=_judge(goal, one_judge(judge_llm, given["judge"]), conversation),
        critic=own_critic(given["critic"]) or own_model(goal, "critic", conversation),
        validators=_validators(goal, loaded, given["validators"]),
    )
    return Earlier(folder, loaded, goal, options, limits, given["note"])


def _judge(goal: Goal, judge: JudgeChoice, conversation: Any) -> LLM | None:
    if own := own_judge(judge):
        return own
    if isinstance(judge, str | JudgeConfig):
        model = judge if isinstance(judge, str) else judge.model
        goal = goal.model_copy(update={"judge": goal.judge.model_copy(update={"model": model})})
    elif judge is not None:
        raise no_judge(judge)
    elif is_custom(goal.judge.model):
        why = f"the judge of this run, {goal.judge.model}, was made by the program that started it"
        raise UsageError(why, "pass it again: judge=...")
    return own_model(goal, "judge", conversation)


def _validators(goal: Goal, loaded: LoadedRun, given: Checks) -> tuple[Validator, ...]:
    """Return the validators that run in this process. Raise UsageError if they are not those of the run."""
    specs, own = split_checks(given)
    commands = {spec.run or spec.python for spec in goal.validators}
    if new := [spec.run or spec.python for spec in specs if (spec.run or spec.python) not in commands]:
        raise UsageError(f"the run has no validator {new[0]}", "a run goes on with its own validators; omit it")
    named, plan = {spec.name for spec in goal.validators}, loaded.state.plan
    wanted = sorted(item for item in (*plan.validators, *plan.hidden) if item not in named)
    found = sorted(validator.name for validator in own)
    if wanted != found:
        shown = [", ".join(names) or "none" for names in (wanted, found)]
        raise UsageError(
            f"the run has the callable validators {shown[0]}, and these were given: {shown[1]}",
            "pass the same callables as at its start: validators=[...]",
        )
    return own
