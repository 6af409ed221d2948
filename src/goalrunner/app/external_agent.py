"""The external agent that a goal names, and settings that it cannot follow."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, assert_never

from goalrunner.agents.acp_conversation import AcpConversation
from goalrunner.agents.command import CommandConversation
from goalrunner.agents.failure import not_installed
from goalrunner.agents.invocation import ExternalAgent, pinned, program_of
from goalrunner.core.agent_ports import Conversation
from goalrunner.core.agent_preset import BudgetName, Preset, Protocol
from goalrunner.core.approval_rules import Action, guarding_key, rule_for
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import AgentConfig, Goal
from goalrunner.core.process_ports import HIDDEN
from goalrunner.goalfile import preset_named
from goalrunner.presets import protocol_of
from goalrunner.system.bubblewrap import hidden_path
from goalrunner.system.connection import ProcessConnector
from goalrunner.system.environment import child_environment
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.system.sandbox import JailedConnector, JailedLauncher
from goalrunner.system.sandbox_view import Cell
from goalrunner.validators.absent_programs import Place, similar_program

OUTPUT_LIMIT = 4_000_000_000
"""Bytes that an agent may print in one round: it tells all that it does, which is more than a command's output."""

_INTERPRETER = re.compile(r"(?:python|pypy|node|deno|bun|ruby|perl|php|sh|bash|dash|zsh)[0-9.]*")

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
        """Variables that hold its keys: they are passed to the agent only."""
        own = self.goal.agent.api_key_env
        return (*self.preset.keys, *([own] if own else []))

    @property
    def unenforced(self) -> tuple[BudgetName, ...]:
        """The goal's budgets of which it does not report what is used."""
        reported = self.preset.reports_by(self.protocol)
        return tuple(name for name in self.goal.budget.limited if name not in reported)

    @property
    def totals(self) -> frozenset[BudgetName]:
        """Budgets that it reports as totals of a session with which it goes on in another process."""
        return self.preset.totals if self.protocol == "command" and self.preset.resume else frozenset()

    @property
    def guarded(self) -> bool:
        """Whether a person may have to decide on single actions."""
        return bool(guarding_key(self.goal.approvals, self.goal.risk_class))

    def waits(self, kind: Literal["shell", "write"], words: str, /) -> bool:
        """Whether a person has to decide on this action."""
        return bool(rule_for(Action(kind, words), self.goal.approvals, self.goal.risk_class))

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
            roomy = ProcessLauncher(OUTPUT_LIMIT, launcher.grace, guardian=launcher.guardian)
            return CommandConversation(agent, JailedLauncher(roomy, cell) if cell else roomy)
        case "acp":
            connector = ProcessConnector(launcher.grace, guardian=launcher.guardian)
            jailed = JailedConnector(connector, cell) if cell else connector
            return AcpConversation(agent, preset.acp, jailed, guarded=named.guarded, waits=named.waits)
        case _:
            assert_never(named.protocol)


def check_installed(named: Named, workspace: Path, environ: Mapping[str, str], cell: Cell | None = None) -> None:
    """Raise AgentNotInstalled if the agent's program is missing, or not visible in the jail `cell`; start nothing."""
    program = program_of(named.command)
    if not program or "{" in program:
        return
    path = _environment(named, environ, ()).get("PATH", os.defpath)
    found = shutil.which(workspace / program if "/" in program else program, path=path)
    agent = ExternalAgent(named.name, named.preset, workspace, {})
    if found is None:
        near = "" if "/" in program else similar_program(program, Place(workspace, workspace, {"PATH": path}))
        guess = f"; did you mean {near}?" if near else ""
        raise not_installed(agent, f"{program}: not found{guess}")
    if cell is not None and (hidden := hidden_path(_script_words(named.command, found), cell, workspace)):
        raise not_installed(agent, f"{hidden}: {HIDDEN}")


def _script_words(command: Sequence[str], program: str) -> tuple[str, ...]:
    """The program of a command and, if that is an interpreter, the script that it is given by an absolute path."""
    words = command[0].split() if len(command) == 1 else list(command)
    script = next((word for word in words[1:] if not word.startswith("-")), "")
    interpreter = _INTERPRETER.fullmatch(Path(program).name)
    return (program, script) if interpreter and script.startswith("/") else (program,)


def external_notes(named: Named, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What must be said aloud of it before the first round."""
    preset, notes = named.preset, []
    if named.protocol == "command" and not preset.resume and named.goal.preserve_context:
        notes.append(f"{named.name} has no session of its own: the history is sent again in each round")
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
        what = guarding_key(named.goal.approvals, named.goal.risk_class)
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
