"""The agents of a goal, and conversations with them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from goalrunner.agents.acp_conversation import AcpConversation
from goalrunner.agents.chat import ChatConversation
from goalrunner.agents.command import CommandConversation
from goalrunner.agents.external_agents import ExternalAgent, protocol_of
from goalrunner.agents.external_chat import ExternalConversation
from goalrunner.agents.toolbox import Toolbox
from goalrunner.core.agent_preset import BudgetName, Preset, Protocol
from goalrunner.core.approval_rules import guarding_key, rule_for
from goalrunner.core.goal import Goal
from goalrunner.core.ports import Launcher
from goalrunner.goalfile.agents import preset_named
from goalrunner.llm import LLM
from goalrunner.system.child_environment import child_environment
from goalrunner.system.connection import ProcessConnector
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.system.sandbox import SandboxedLauncher, SandboxPolicy

# Bytes that an agent may print in one round: its output reports every action.
OUTPUT_LIMIT = 4_000_000_000
# Characters of a command in the header, without words that turn permission checks off.
_LONGEST_COMMAND = 48


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

        Empty if another process cannot resume the session.
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
    env: dict[str, str],
    policy: SandboxPolicy | None = None,
) -> ExternalConversation:
    """Return the conversation with an external agent, in the sandbox of `policy`.

    `env` is the agent's environment.
    """
    config = agent.goal.agent
    preset = agent.preset
    model: tuple[str, ...] = ()
    if config.model:
        model = tuple(word.replace("{name}", config.model) for word in preset.model)
    external = ExternalAgent(
        agent.name, preset, workspace, env, model, config.args, config.idle_timeout
    )
    if agent.protocol == "command":
        # The output of a command is its report of every action in a round.
        agent_launcher = ProcessLauncher(
            OUTPUT_LIMIT, launcher.grace, watchdog=launcher.watchdog
        )
        return CommandConversation(
            external,
            SandboxedLauncher(agent_launcher, policy) if policy else agent_launcher,
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
