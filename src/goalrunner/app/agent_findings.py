"""Findings about an external agent: what it needs, and what it does not support."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from goalrunner.agents.agent_errors import not_installed
from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.agents.facts import find_program
from goalrunner.app.external_agent import ResolvedAgent
from goalrunner.core.agent_preset import BudgetName, Preset, Protocol
from goalrunner.core.errors import GoalError, UsageError
from goalrunner.core.ports import HIDDEN
from goalrunner.system.sandbox import SandboxPolicy, hidden_path

SIGN_IN = "sign-in"  # the name of findings about the key or login of an agent
_UNITS: dict[BudgetName, str] = {"tokens": "tokens", "cost_usd": "dollars"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, and what to type next.

    If it is `bad`, something has to be done before a run.

    The `error` is what keeps a run from starting.
    """

    name: str
    state: Literal["good", "bad", "note"]
    message: str
    hint: str = ""
    error: GoalError | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, name: str, error: GoalError) -> Self:
        """Return the finding of an error."""
        return cls(name, "bad", error.message, error.hint, error)

    def value(self) -> dict[str, str]:
        """Return it as a JSON value."""
        return {
            "name": self.name,
            "state": self.state,
            "message": self.message,
            "hint": self.hint,
        }


def check_installed(
    agent: ResolvedAgent,
    workspace: Path,
    environ: Mapping[str, str],
    policy: SandboxPolicy | None = None,
) -> None:
    """Raise AgentNotInstalled if the agent's program is missing; start nothing.

    In a sandbox, the program must be visible there.
    """
    program, path = find_program(agent.command, agent.environment(environ), workspace)
    if "{" in program:
        # A placeholder, whose value is known only when the agent is started.
        return
    # It is only for the text of the error.
    external = ExternalAgent(agent.name, agent.preset, workspace, {})
    if not path:
        why = "not found"
        if "/" in program and (workspace / program).is_file():
            why = f"not executable: chmod +x {program}"
        raise not_installed(external, f"{program}: {why}")
    if policy is None:
        return
    hidden = hidden_path((path,), policy, workspace)
    if hidden:
        raise not_installed(external, f"{hidden}: {HIDDEN}")


def external_notes(agent: ResolvedAgent, *, sandboxed: bool) -> tuple[str, ...]:
    """Return notes for people about what the agent does not do.

    `sandboxed`: it runs in a sandbox.
    """
    notes: list[str] = []
    if agent.unchecked and not sandboxed:
        notes.append(unchecked_note(agent))
    # A program without sessions begins each round with nothing.
    is_stateless = agent.protocol == "command" and not agent.preset.resume
    if is_stateless and agent.goal.preserve_context:
        notes.append(
            f"{agent.name} is stateless: the history is sent again in each round"
        )
    for budget in agent.unenforced:
        notes.append(
            f"{agent.name} does not report its {_UNITS[budget]}: the budget counts "
            "only what is known"
        )
    return tuple(notes)


def unchecked_note(agent: ResolvedAgent) -> str:
    """Return a note about an agent without a sandbox and without permission checks."""
    proposal = ""
    if agent.goal.workspace.sandbox == "none":
        proposal = '; [workspace] sandbox = "auto" confines it'
    return (
        f"{agent.name} runs with its own permission checks off ({agent.unchecked}): "
        f"it can do what you can{proposal}"
    )


def refuse_unsupported(agent: ResolvedAgent) -> None:
    """Raise UsageError if the agent does not support a setting of the goal.

    That is a budget whose usage it does not report, or an approval of its actions.
    """
    for budget in agent.unenforced:
        if budget not in agent.goal.budget.allow_unenforced:
            raise _unsupported_budget(agent, budget)
    # A command line has no channel back to the agent; ACP has one.
    if agent.protocol == "command" and agent.guarding_key:
        raise UsageError(
            f"{agent.name}, driven by its command line, does not ask before it acts, "
            f"so {agent.guarding_key} cannot be enforced",
            'remove it, or use an agent that asks: [agent] use = "acp", or protocol = '
            '"acp" beside its name',
        )


def _unsupported_budget(agent: ResolvedAgent, budget: BudgetName) -> UsageError:
    other: Protocol = "command" if agent.protocol == "acp" else "acp"
    how = ", driven by ACP," if agent.protocol == "acp" else ""
    remedy = "remove it"
    if budget in agent.preset.reports_by(other):
        remedy = f'remove it, write protocol = "{other}"'
    return UsageError(
        f"{agent.name}{how} does not report its {_UNITS[budget]}, so a budget of "
        f"{budget} cannot be enforced",
        f'{remedy}, or write [budget] allow_unenforced = ["{budget}"] to count only '
        "what is known",
    )


def sign_in_finding(
    agent: str,
    preset: Preset,
    environ: Mapping[str, str],
    policy: SandboxPolicy | None = None,
    *,
    configured: bool = False,
) -> Finding:
    """Check that an external agent of this name has a key or a login.

    Only a real round shows whether it is valid. In a sandbox, a login must be visible
    there. `configured`: the goal gives the agent arguments or variables, which may
    select another provider.
    """
    for key in preset.keys:
        if environ.get(key, "").strip():
            return Finding(SIGN_IN, "good", f"{key} is set")
    home = environ.get("HOME", "")
    for path in preset.login if home else ():
        if Path(home, path).exists():
            return _login_finding(agent, path, home, policy)
    # Such an agent may sign in by any means, so nothing is wrong.
    if not (preset.keys or preset.login):
        message = "the preset names neither keys nor login files"
        return Finding(SIGN_IN, "note", message)
    missing = _missing_sign_in(preset)
    unknown = f"no sign-in of {agent} was found: {missing}"
    # Agents on macOS keep their login in the keychain, and write no file.
    if sys.platform == "darwin" and preset.login:
        message = f"{unknown}; the login may be in the keychain"
        return Finding(SIGN_IN, "note", message, preset.sign_in)
    if configured:
        message = f"{unknown}; the args or env of [agent] may sign it in"
        return Finding(SIGN_IN, "note", message, preset.sign_in)
    hint = "sign in with the agent itself"
    if preset.keys:
        hint = f"export {preset.keys[0]}=..."
    message = f"{agent} is not signed in: {missing}"
    return Finding(SIGN_IN, "bad", message, preset.sign_in or hint)


def _login_finding(
    agent: str, path: str, home: str, policy: SandboxPolicy | None
) -> Finding:
    """Return the finding about a login file, which exists at this path below HOME."""
    login = str(Path(home, path))
    if policy is None or not hidden_path((login,), policy, Path(home)):
        return Finding(SIGN_IN, "good", f"~/{path} exists")
    message = f"~/{path} of {agent} exists, but is not visible in the sandbox"
    hint = f'add it to home = ["{path}"] of the preset'
    return Finding(SIGN_IN, "bad", message, hint)


def _missing_sign_in(preset: Preset) -> str:
    """Return which keys and login files of the preset are missing, in words."""
    parts: list[str] = []
    if len(preset.keys) == 1:
        parts.append(f"{preset.keys[0]} is not set")
    elif preset.keys:
        parts.append("no key is set")
    if preset.login:
        files = " or ".join(f"~/{path}" for path in preset.login)
        parts.append(f"there is no {files}")
    return ", and ".join(parts)
