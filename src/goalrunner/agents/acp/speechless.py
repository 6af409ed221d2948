"""A program that was to speak the protocol, and does not. Owns how that is told, and what to type instead."""

from __future__ import annotations

from pathlib import Path

from goalrunner.agents.external.agent import ExternalAgent
from goalrunner.agents.external.failure import NOT_STARTED, first_lines, last_lines, not_installed, recognised
from goalrunner.agents.external.invocation import program_of
from goalrunner.errors import AgentError, AgentSpeaksOtherwise

_HEAD = 4_000
"""Bytes at the beginning of its output that are looked at."""


def speechless(agent: ExternalAgent, why: str, exit_code: int | None, output: Path, errors: str) -> AgentError:
    """It never answered our first request as an agent does. `why`: how that shows; `errors` are its last words on stderr.

    Its key, its login and whatever its preset has a hint for come first: a program that ends at once may well have said so.
    """
    if exit_code in NOT_STARTED:
        return not_installed(agent, last_lines(errors))
    known = recognised(agent, "", f"exit {exit_code}", errors) if exit_code else None
    if known is not None:
        return known
    words = last_lines(errors) or first_lines(_head_of(output))
    said = f"; it printed:\n{words}" if words else ""
    return AgentSpeaksOtherwise(f"the agent {_named(agent)} does not speak ACP: {why}{said}", _hint(agent))


def _hint(agent: ExternalAgent) -> str:
    words = 'name all words with which it speaks ACP, such as command = ["my-agent", "--acp"]'
    if agent.preset.argv:
        update = f"update it: {agent.preset.install}" if agent.preset.install else words
        return f'write protocol = "command", or {update}'
    return f'{words}; a program that takes its prompt on stdin is use = "command"'


def _named(agent: ExternalAgent) -> str:
    program = program_of(agent.preset.acp)
    return f"{agent.name} ({Path(program).name})" if program else agent.name


def _head_of(path: Path) -> str:
    """What it printed on stdout that was no message."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).decode("utf-8", "replace").replace("\0", "")
    except OSError:
        return ""
    return "\n".join(line for line in head.splitlines() if not line.startswith("{"))
