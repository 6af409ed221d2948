"""What the command line and the environment call the keys of a goal. Owns these names alone."""

from __future__ import annotations

OPTIONS = {
    "agent.use": "--agent",
    "agent.model": "--model",
    "judge.model": "--judge",
    "validators": "--validator",
    "success_criteria": "--criterion",
    "constraints": "--constraint",
    "workspace.path": "--workspace",
    "budget.tokens": "--tokens",
    "budget.cost_usd": "--cost",
    "budget.allow_unenforced": "--allow-unenforced",
}
"""Options that are not simply the key: `timeout` is `--timeout`, `risk_class` is `--risk-class`."""

AGENT_VARIABLES = {"GOAL_AGENT": "agent.use"}

VARIABLES = {**AGENT_VARIABLES, "GOAL_MODEL": "agent.model", "GOAL_JUDGE": "judge.model"}
"""Environment variables that come before the file."""

FALLBACK_VARIABLES = {"LLM_MODEL": "agent.model"}
"""Environment variables that count only where nothing else names a value."""

CHAT_VARIABLES = frozenset({"GOAL_MODEL", "LLM_MODEL"})
"""Those that name a model as LiteLLM does, which an external agent would not understand: they are not for it."""


def option_of(key: str) -> str:
    """The option that sets a key, which is dotted: `max_iterations` gives `--max-iterations`."""
    return OPTIONS.get(key, "--" + key.replace(".", "-").replace("_", "-"))
