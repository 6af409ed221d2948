"""Failures of external agents: how they are recognised, and the errors for them."""

from __future__ import annotations

import re

from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.agents.turn import shortened
from goalrunner.core.errors import AgentError, AgentNotInstalled, AgentNotSignedIn
from goalrunner.core.ports import HIDDEN

NOT_STARTED = (127, 126)
"""Exit codes of a shell that did not find the program, or could not start it."""
HIDDEN_HINT = 'name in PATH the folder that really contains it, or write [workspace] sandbox = "none"'
"""The hint for a program that is not visible in the sandbox."""
SHORT_ANSWER = 2_000
"""Characters of an answer in which the preset's texts of a wrong key are looked for."""
_LONGEST = 8_000
"""Characters of a failure's message that are read."""
_LINES, _COLUMNS = 6, 600

_KEY = re.compile(
    r"\b401\b|unauthori[sz]ed|unauthenticated|authentication[ _-](?:error|fail|required)|invalid authentication"
    r"|(?:invalid|incorrect|missing|no|expired|wrong)[ _-](?:[^\W_]{1,40}[ _-]){0,2}"
    r"(?:api[ _-]?key|x-api-key|auth[ _-]?token|credentials)"
    r"|api[ _-]?key[^\n]{0,40}(?:not set|not found|missing|required|invalid|expired)|not (?:logged|signed) in"
    r"|(?:please|must|need to)(?: first)? (?:run /?login|log ?in|sign ?in|authenticate)|login required",
    re.IGNORECASE,
)
"""Common messages for a wrong or missing key. Searched in failures only; repetitions are bounded, so it takes no time."""


def not_installed(agent: ExternalAgent, why: str) -> AgentNotInstalled:
    """Return the error for a program that cannot be started."""
    hint = agent.preset.install or "install it, or write its full path in [agent] command"
    return AgentNotInstalled(
        f"the agent {agent.name} cannot be started: {why or 'its program was not found'}",
        HIDDEN_HINT if HIDDEN in why else hint,
    )


def not_signed_in(agent: ExternalAgent, message: str, how: str = "") -> AgentNotSignedIn:
    """Return the error for a wrong or missing key or login; `message` is the agent's own."""
    hint = agent.preset.sign_in or f"sign in to {agent.name}, or export its key"
    said = first_lines(shortened(message, _LONGEST))
    return AgentNotSignedIn(f"the agent {agent.name} has no valid key or login{how and f' ({how})'}: {said}", hint)


def failed(agent: ExternalAgent, message: str, how: str, errors: str) -> AgentError:
    """Return the error for a failure: its message, how the process ended, and the end of its stderr."""
    return known_failure(agent, message, how, errors) or _failure(
        agent, message, how, errors, "goal resume continues the run"
    )


def known_failure(agent: ExternalAgent, message: str, how: str, errors: str) -> AgentError | None:
    """Return the error if its remedy is known: a key, or a hint of the preset; else None."""
    whole = f"{shortened(message, _LONGEST)}\n{errors}"
    if denied(agent, whole) or _KEY.search(whole):
        return not_signed_in(agent, _said(message, errors), how)
    hint = next((hint for text, hint in agent.preset.hints.items() if text.lower() in whole.lower()), None)
    return None if hint is None else _failure(agent, message, how, errors, hint)


def _failure(agent: ExternalAgent, message: str, how: str, errors: str, hint: str) -> AgentError:
    return AgentError(f"the agent {agent.name} failed{how and f' ({how})'}: {_said(message, errors)}", hint)


def _said(message: str, errors: str) -> str:
    return first_lines(shortened(message, _LONGEST)) or last_lines(errors) or "it printed no message"


def denied(agent: ExternalAgent, text: str) -> bool:
    """Return whether a text contains one of the preset's texts for a wrong or missing key."""
    lower = text.lower()
    return any(word.lower() in lower for word in agent.preset.denied)


def first_lines(text: str) -> str:
    """Return the first few lines that are not empty."""
    return "\n".join(_lines(text)[:_LINES])[:_COLUMNS]


def last_lines(text: str) -> str:
    """Return the last few lines that are not empty."""
    return "\n".join(_lines(text)[-_LINES:])[-_COLUMNS:]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
