"""The external agent that a goal names: its preset, its environment, its conversation, and what is said or refused of it.

The one place where a protocol becomes a conversation. Starts nothing.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, assert_never, get_args

from goalrunner import policy
from goalrunner.agents import acp
from goalrunner.agents.external import CommandConversation, ExternalAgent, not_installed, pinned, program_of
from goalrunner.errors import UsageError
from goalrunner.goalfile import preset_named
from goalrunner.model.goal import Goal
from goalrunner.model.preset import BudgetName, Preset, Protocol
from goalrunner.ports import Conversation
from goalrunner.presets import protocol_of
from goalrunner.process import ProcessConnector, ProcessLauncher, child_environment
from goalrunner.process.jail import Cell, JailedConnector, JailedLauncher

OUTPUT_LIMIT = 4_000_000_000
"""Bytes that an agent may print in one round: it tells all that it does, which is more than a command's output."""

_LONGEST_COMMAND = 48
"""Characters of its command in the first lines of a run."""


@dataclass(frozen=True)
class Named:
    """The external agent of a goal, resolved."""

    goal: Goal
    preset: Preset
    protocol: Protocol

    @property
    def name(self) -> str:
        """As the goal names it."""
        return self.goal.agent.use

    @property
    def command(self) -> tuple[str, ...]:
        """The words of its command, with placeholders."""
        return self.preset.acp if self.protocol == "acp" else self.preset.argv

    @property
    def keys(self) -> tuple[str, ...]:
        """Variables that hold its keys: they are given on to it and to nobody else."""
        own = self.goal.agent.api_key_env
        return (*self.preset.keys, *([own] if own else []))

    @property
    def unenforced(self) -> tuple[BudgetName, ...]:
        """The goal's budgets of which it does not report what is used."""
        reported = self.preset.reports_by(self.protocol)
        return tuple(name for name in self._budgets if name not in reported)

    @property
    def allowed(self) -> tuple[BudgetName, ...]:
        """The goal's budgets that may count what is known alone."""
        return tuple(name for name in self._budgets if name in self.goal.budget.allow_unenforced)

    @property
    def _budgets(self) -> list[BudgetName]:
        names: tuple[BudgetName, ...] = get_args(BudgetName)
        return [name for name in names if getattr(self.goal.budget, name) is not None]

    @property
    def totals(self) -> frozenset[BudgetName]:
        """Budgets that it reports as totals of a session with which it goes on in another process."""
        return self.preset.totals if self.protocol == "command" and self.preset.resume else frozenset()

    @property
    def guarded(self) -> bool:
        """Whether a person may have to decide on single actions."""
        asked = self.goal.approvals
        single = asked.commands or [kind for kind in asked.require if kind != "complete"]
        return bool(single) or self.goal.risk_class == "critical"

    def waits(self, kind: Literal["shell", "write"], words: str, /) -> bool:
        """Whether a person has to decide on this action."""
        return bool(policy.rule_for(policy.Action(kind, words), self.goal.approvals, self.goal.risk_class))

    @property
    def words(self) -> str:
        """Name and command in one line, for people. Of its words those that stand for none or several are left out."""
        said = [word for word in self.command if word not in ("{model}", "{args}")]
        line = said[0] if len(said) == 1 else shlex.join(said)
        line = " ".join(line.split())
        return f"{self.name} · {line if len(line) <= _LONGEST_COMMAND else line[:_LONGEST_COMMAND].rstrip() + '…'}"


def external_named(goal: Goal, environ: Mapping[str, str]) -> Named | None:
    """The external agent of a goal; None where it is the built-in one. Raises UsageError for one that is unknown."""
    config = goal.agent
    if not config.external:
        return None
    preset = preset_named(config.use, goal.agents, environ)
    protocol = protocol_of(config, preset)
    if config.command:
        preset = preset.model_copy(update={"acp" if protocol == "acp" else "argv": config.command})
    preset = preset.model_copy(update={"install": preset.installing(protocol)})
    named = Named(goal, preset, protocol)
    if not named.command:
        raise UsageError(f'the agent "{config.use}" has no command', 'write [agent] command = "..."')
    return named


def external_conversation(
    named: Named,
    workspace: Path,
    launcher: ProcessLauncher,
    environ: Mapping[str, str],
    withhold: tuple[str, ...],
    cell: Cell | None = None,
) -> Conversation:
    """The conversation with an external agent. `withhold` are variables that it gets only where they are its own keys.

    `cell` is the jail that it is started in; None: none.
    """
    env = _environment(named, environ, withhold, jailed=cell is not None)
    preset = pinned(named.preset, env, workspace)
    agent = ExternalAgent(
        name=named.name,
        preset=preset,
        workspace=workspace,
        env=env,
        model=tuple(word.replace("{name}", named.goal.agent.model) for word in _model_words(named)),
        args=named.goal.agent.args,
    )
    match named.protocol:
        case "command":
            roomy = ProcessLauncher(OUTPUT_LIMIT, launcher.grace, launcher.guardian)
            return CommandConversation(agent, JailedLauncher(roomy, cell) if cell else roomy)
        case "acp":
            connector = ProcessConnector(launcher.grace, guardian=launcher.guardian)
            jailed = JailedConnector(connector, cell) if cell else connector
            return acp.AcpConversation(agent, preset.acp, jailed, guarded=named.guarded, waits=named.waits)
        case _:
            assert_never(named.protocol)


def check_installed(named: Named, workspace: Path, environ: Mapping[str, str]) -> None:
    """Whether its program is there, as far as that can be seen without starting it. Raises AgentNotInstalled."""
    program = program_of(named.command)
    if not program or "{" in program:
        return
    path = _environment(named, environ, ()).get("PATH", os.defpath)
    found = shutil.which(workspace / program if "/" in program else program, path=path)
    if found is None:
        agent = ExternalAgent(named.name, named.preset, workspace, {})
        raise not_installed(agent, f"{program}: not found")


def external_notes(named: Named, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What must be said aloud of it before the first round."""
    preset, notes = named.preset, []
    if named.protocol == "command" and not preset.resume and named.goal.preserve_context:
        notes.append(f"{named.name} keeps no session from round to round: what was said before stands in each prompt")
    env, home = _environment(named, environ, ()), Path(environ.get("HOME") or "/")
    signed_in = any(env.get(key) for key in named.keys) or any((home / path).exists() for path in preset.login)
    if (preset.keys or preset.login) and not signed_in:
        keys = " or ".join(preset.keys)
        notes.append(f"no key ({keys}) and no login of {named.name} was found; if it needs one: {preset.sign_in}")
    for budget in named.unenforced:
        what = "tokens" if budget == "tokens" else "dollars"
        notes.append(f"{named.name} does not report its {what}: the budget counts what is known alone")
    return tuple(notes)


def refuse_unfit_agent(named: Named) -> None:
    """A budget or an approval that cannot be kept with this agent. Raises UsageError naming what lifts it."""
    other: Protocol = "command" if named.protocol == "acp" else "acp"
    for budget in named.unenforced:
        if budget not in named.goal.budget.allow_unenforced:
            what = "tokens" if budget == "tokens" else "dollars"
            how = ", driven by ACP," if named.protocol == "acp" else ""
            way = f', take protocol = "{other}"' if budget in named.preset.reports_by(other) else ""
            raise UsageError(
                f"{named.name}{how} does not report its {what}, so a budget of {budget} cannot be kept",
                f'remove it{way}, or write [budget] allow_unenforced = ["{budget}"] to have it count what is known alone',
            )
    if named.protocol == "command" and named.guarded:
        approvals = named.goal.approvals
        kinds = [f'require = ["{kind}"]' for kind in approvals.require if kind != "complete"]
        what = 'risk_class = "critical"' if named.goal.risk_class == "critical" else [*kinds, "commands"][0]
        raise UsageError(
            f"{named.name}, driven by its command line, asks nobody before it acts, so {what} cannot be kept",
            'leave it out, or use an agent that asks: protocol = "acp"',
        )


def _model_words(named: Named) -> tuple[str, ...]:
    return named.preset.model if named.goal.agent.model else ()


def _environment(
    named: Named, environ: Mapping[str, str], withhold: tuple[str, ...], *, jailed: bool = False
) -> dict[str, str]:
    """As other children of the run get it, and its own keys."""
    keys = {name: environ[name] for name in named.keys if name in environ}
    asking = named.preset.asking if named.guarded else {}
    inside = named.preset.jailed_env if jailed else {}
    extra = {**keys, **named.preset.env, **asking, **inside, **named.goal.agent.env}
    return child_environment(environ, extra=extra, withhold=withhold)
