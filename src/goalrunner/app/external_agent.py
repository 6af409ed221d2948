"""The agent of a goal: its conversation, and what it needs to work."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from goalrunner.agents.acp_conversation import AcpConversation
from goalrunner.agents.agent_errors import not_installed
from goalrunner.agents.chat import ChatConversation
from goalrunner.agents.command import CommandConversation
from goalrunner.agents.external_agents import ExternalAgent, protocol_of
from goalrunner.agents.external_chat import ExternalConversation
from goalrunner.agents.facts import find_program
from goalrunner.agents.toolbox import Toolbox
from goalrunner.core.agent_preset import BudgetName, Preset, Protocol
from goalrunner.core.approval_rules import guarding_key, rule_for
from goalrunner.core.errors import GoalError, UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.ports import HIDDEN, Launcher
from goalrunner.goalfile.agents import preset_named
from goalrunner.llm import LLM
from goalrunner.system.child_environment import child_environment
from goalrunner.system.connection import ProcessConnector
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.system.sandbox import SandboxedLauncher, SandboxPolicy, hidden_path

# Bytes that an agent may print in one round: its output reports every action.
OUTPUT_LIMIT = 4_000_000_000
SIGN_IN = "sign-in"  # the name of findings about the key or login of an agent
_LONGEST_COMMAND = 48
"""Characters of a command in the header; words that turn permission checks off are
shown in any case.
"""
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


@dataclass(frozen=True)
class ResolvedAgent:
    """An external agent of a goal, with its preset and protocol."""

    goal: Goal
    """Its `[agent]` has the settings of this agent."""
    preset: Preset
    protocol: Protocol

    @property
    def name(self) -> str:
        return self.goal.agent.use

    @property
    def command(self) -> tuple[str, ...]:
        """The words of its command, with placeholders."""
        return self.preset.acp if self.protocol == "acp" else self.preset.argv

    @property
    def keys(self) -> tuple[str, ...]:
        """Variables that hold its keys; only the agent gets them."""
        goal_key = self.goal.agent.api_key_env
        return (*self.preset.keys, goal_key) if goal_key else self.preset.keys

    @property
    def unenforced(self) -> tuple[BudgetName, ...]:
        """The goal's budgets whose usage it does not report."""
        reported = self.preset.reports_by(self.protocol)
        return tuple(name for name in self.goal.budget.limited if name not in reported)

    @property
    def totals(self) -> frozenset[BudgetName]:
        """Budgets whose usage it reports as the total of a session.

        Another process can resume that session.
        """
        if self.protocol == "command" and self.preset.resume:
            return self.preset.totals
        return frozenset()

    @property
    def guarding_key(self) -> str:
        """The key of the goal that requires approval of single actions.

        Empty if there is none.
        """
        return guarding_key(self.goal.approvals, self.goal.risk_class)

    @property
    def words(self) -> str:
        """Name and command on one line.

        Placeholders that stand for no word, or for several, are left out.
        """
        words = [word for word in self.command if word not in ("{model}", "{args}")]
        # A single word may be a whole command line, which must not be quoted.
        command = words[0] if len(words) == 1 else shlex.join(words)
        line = " ".join(command.split())
        if len(line) > _LONGEST_COMMAND:
            line = f"{line[:_LONGEST_COMMAND].rstrip()}…"
            # Words that turn permission checks off must not be cut off.
            if self.unchecked and self.unchecked not in line:
                line = f"{words[0]} … {self.unchecked}"
        return f"{self.name} · {line}"

    @property
    def unchecked(self) -> str:
        """The words of its command that turn its own permission checks off.

        Empty if there are none.
        """
        words = self.preset.unchecked
        return shlex.join(words) if set(words) <= set(self.command) else ""

    def environment(
        self,
        environ: Mapping[str, str],
        withhold: tuple[str, ...] = (),
        *,
        sandboxed: bool = False,
    ) -> dict[str, str]:
        """Return the agent's environment.

        It is that of any child process, with the agent's keys and settings.
        """
        preset = self.preset
        extra = {name: environ[name] for name in self.keys if name in environ}
        extra |= preset.env
        if self.guarding_key:
            extra |= preset.asking
        if sandboxed:
            extra |= preset.sandbox_env
        # What the user wrote in the goal comes last, so that it wins.
        extra |= self.goal.agent.env
        return child_environment(environ, extra=extra, withhold=withhold)


def in_turn(names: Iterable[str]) -> str:
    """Return the names of agents in the order in which they take over.

    For example: "claude, then codex".
    """
    return ", then ".join(names)


def resolve_agents(goal: Goal, environ: Mapping[str, str]) -> tuple[ResolvedAgent, ...]:
    """Return the external agents of a goal, in the order in which they take over.

    Empty for the built-in one. Raise UsageError for an unknown one.
    """
    if not goal.agent.external:
        return ()
    agents: list[ResolvedAgent] = []
    for name in goal.agent.names:
        with_one_agent = goal.model_copy(update={"agent": goal.agent.alone(name)})
        agents.append(_resolved(with_one_agent, environ))
    return tuple(agents)


def _resolved(goal: Goal, environ: Mapping[str, str]) -> ResolvedAgent:
    config = goal.agent
    preset = preset_named(config.use, goal.agents, environ)
    protocol = protocol_of(config, preset)
    if config.command:
        field_name = "acp" if protocol == "acp" else "argv"
        preset = preset.model_copy(update={field_name: config.command})
    # The error about a missing program names what installs it for this protocol.
    preset = preset.model_copy(update={"install": preset.installing(protocol)})
    return ResolvedAgent(goal, preset, protocol)


def external_conversation(
    agent: ResolvedAgent,
    workspace: Path,
    launcher: ProcessLauncher,
    environ: Mapping[str, str],
    withhold: tuple[str, ...],
    policy: SandboxPolicy | None = None,
) -> ExternalConversation:
    """Return the conversation with an external agent, in the sandbox of `policy`.

    Of `withhold` it gets only its own keys.
    """
    env = agent.environment(environ, withhold, sandboxed=policy is not None)
    config = agent.goal.agent
    preset = agent.preset
    model: tuple[str, ...] = ()
    if config.model:
        model = tuple(word.replace("{name}", config.model) for word in preset.model)
    external = ExternalAgent(
        agent.name, preset, workspace, env, model, config.args, config.idle_timeout
    )
    if agent.protocol == "command":
        roomy = ProcessLauncher(
            OUTPUT_LIMIT, launcher.grace, watchdog=launcher.watchdog
        )
        return CommandConversation(
            external, SandboxedLauncher(roomy, policy) if policy else roomy
        )
    # An ACP agent is one process for all rounds, so it has no launcher.
    connector = ProcessConnector(launcher.grace, policy, watchdog=launcher.watchdog)

    def waits(kind: Literal["shell", "write"], words: str, /) -> bool:
        """Return whether a person has to decide on this action."""
        return bool(rule_for(kind, words, agent.goal.approvals, agent.goal.risk_class))

    return AcpConversation(
        external, preset.acp, connector, guarded=bool(agent.guarding_key), waits=waits
    )


def built_in_conversation(
    goal: Goal,
    llm: LLM,
    workspace: Path,
    launcher: Launcher,
    env: Mapping[str, str],
    secret: Path | None = None,
) -> ChatConversation:
    """Return the built-in agent of a goal.

    Its file tools do not open the file `secret`.
    """
    toolbox, names = None, goal.agent.tools
    # None stands for all tools.
    if names != ():
        toolbox = Toolbox(workspace, launcher, env, secret=secret, names=names)
    return ChatConversation(
        llm,
        toolbox=toolbox,
        system_prompt=goal.agent.system_prompt,
        max_steps=goal.agent.max_steps,
    )


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
