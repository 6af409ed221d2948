"""The parts of one run: agent, validators and judge, made from the goal or handed in by the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from goalrunner.agents import ChatConversation, Toolbox
from goalrunner.judge import LLMJudge
from goalrunner.llm import LLM
from goalrunner.model.goal import Goal
from goalrunner.ports import Conversation, Judge, Launcher, Validator
from goalrunner.process import child_environment, credentials_of
from goalrunner.validators import build_validators


@dataclass(frozen=True)
class Extras:
    """What a caller of the library hands in beside the goal; what is None is made from the goal."""

    conversation: Conversation | None = None
    judge_llm: LLM | None = None
    validators: tuple[Validator, ...] = ()
    """Run beside those of the goal."""
    resume_prompt: Callable[[str | None], str] | str | None = None
    first_prompt: str | None = None


def withheld(goal: Goal) -> tuple[str, ...]:
    """Names of environment variables that hold this goal's model keys; no child process gets them."""
    named = tuple(name for name in (goal.agent.api_key_env, goal.judge.api_key_env) if name)
    return (*named, *credentials_of(goal.agent.model), *credentials_of(goal.judge.model))


def goal_conversation(
    goal: Goal, llm: LLM, workspace: Path, launcher: Launcher, environ: Mapping[str, str]
) -> ChatConversation:
    """The built-in agent of a goal."""
    env = child_environment(environ, extra=goal.agent.env, withhold=withheld(goal))
    response_only = goal.deliverable == "response" and not goal.validators
    return ChatConversation(
        llm,
        toolbox=None if response_only else Toolbox(workspace, launcher, env),
        system_prompt=goal.agent.system_prompt,
        max_steps=goal.agent.max_steps,
    )


def goal_validators(
    goal: Goal, workspace: Path, launcher: Launcher, environ: Mapping[str, str], extra: tuple[Validator, ...]
) -> tuple[Validator, ...]:
    """The goal's validators, then the caller's."""
    env = child_environment(environ, withhold=withheld(goal))
    return (*build_validators(goal.validators, launcher, env), *extra)


def goal_judge(goal: Goal, llm: LLM | None) -> Judge | None:
    """The judge over its model; None where nobody is asked."""
    return None if llm is None else LLMJudge(llm, goal.judge)
