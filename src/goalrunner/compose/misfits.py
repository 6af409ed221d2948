"""What a goal says that means nothing to its external agent. Owns the refusals and their words.

A goal file says most of it earlier, with the place; this is for goals that a program has made as well.
"""

from __future__ import annotations

from goalrunner.compose.external import Named
from goalrunner.errors import UsageError
from goalrunner.model.goal import AgentConfig

_CHAT_ALONE = ("max_steps", "system_prompt", "params", "api_base")


def refuse_misfits(named: Named) -> None:
    """Raises UsageError naming what lifts it."""
    _refuse_chat_keys(named)
    _refuse_model(named)


def _refuse_chat_keys(named: Named) -> None:
    default = AgentConfig()
    for key in _CHAT_ALONE:
        if getattr(named.goal.agent, key) != getattr(default, key):
            raise UsageError(
                f'agent.{key} is for the agent "chat" alone; {named.name} has no such thing', f"leave out {key}"
            )


def _refuse_model(named: Named) -> None:
    passed = named.preset.model and any("{model}" in word for word in named.command)
    if named.goal.agent.model and not passed:
        raise UsageError(
            f"the model of {named.name} cannot be chosen: its preset does not say how",
            f"leave out model, or write model and {{model}} into [agents.{named.name}]",
        )
