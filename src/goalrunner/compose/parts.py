"""The parts of one run: agent, validators and judge, made from the goal or handed in by the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from goalrunner.agents import ChatConversation, Toolbox
from goalrunner.compose.external import external_named
from goalrunner.judge import LLMJudge
from goalrunner.llm import LLM
from goalrunner.model.goal import Goal
from goalrunner.ports import Conversation, Judge, Launcher, Validator
from goalrunner.process import child_environment, credentials_of
from goalrunner.redaction import Redactor
from goalrunner.validators import build_validators, with_variables


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
    """The judge over its model; None where nobody is asked."""
    return None if llm is None else LLMJudge(llm, goal.judge, redact=redact)
