"""The errors for failures of external agents."""

from __future__ import annotations

import re

from goalrunner.agents.error_kinds import ErrorMeaning
from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import (
    AgentError,
    AgentNotInstalled,
    AgentNotSignedIn,
    AgentRefused,
    shortened,
)
from goalrunner.core.ports import HIDDEN

NOT_STARTED = (127, 126)
"""Exit codes of a shell if it did not find the program, or could not start it
(POSIX, Shell Command Language, 2.8.2)."""
HIDDEN_HINT = (
    "name in PATH the folder that really contains it, "
    'or write [workspace] sandbox = "none"'
)
"""The hint for a program that is not visible in the sandbox."""
LONGEST_ENDING = 160
"""Characters of the words for why a turn ended."""
SHORT_ANSWER = 2_000
"""Characters of the longest answer that is searched for the preset's texts for a wrong
key. A longer answer may quote such a text from a file that the agent worked on."""
# Characters of a failure's message that are read.
_LONGEST_READ = 8_000
# A message for people: a few lines, each of which fits a terminal.
_LINES, _COLUMNS = 6, 600

_REFUSED = (
    "choose another model ([agent] model), or top up the account; "
    "then goal resume continues the run"
)

# Common messages for a wrong or missing key. Only failures are searched. Repetitions
# are bounded: unbounded ones take quadratic time on messages without spaces.
_KEY = re.compile(
    r"\b401\b|unauthori[sz]ed|unauthenticated"
    r"|authentication[ _-](?:error|fail|required)|invalid authentication"
    r"|(?:invalid|incorrect|missing|no|expired|wrong)[ _-](?:[^\W_]{1,40}[ _-]){0,2}"
    r"(?:api[ _-]?key|x-api-key|auth[ _-]?token|credentials)"
    r"|api[ _-]?key[^\n]{0,40}(?:not set|not found|missing|required|invalid|expired)"
    r"|not (?:logged|signed) in"
    r"|(?:please|must|need to)(?: first)? "
    r"(?:run /?login|log ?in|sign ?in|authenticate)|login required",
    re.IGNORECASE,
)


def ends_run(error: AgentError) -> bool:
    """Return whether the work cannot continue right after an error.

    It has to wait for the end of an outage, or no later turn can succeed.
    """
    if error.outage is not None:
        return True
    return isinstance(error, AgentNotInstalled | AgentNotSignedIn | AgentRefused)


def not_installed(agent: ExternalAgent, why: str) -> AgentNotInstalled:
    """Return the error for a program that cannot be started."""
    hint = agent.preset.install or (
        "install it, or correct [agent] command; "
        "a relative path begins at the workspace"
    )
    # The program is installed, but not visible in the sandbox.
    if HIDDEN in why:
        hint = HIDDEN_HINT
    reason = why or "its program was not found"
    return AgentNotInstalled(
        f"the agent {agent.name} cannot be started: {reason}", hint
    )


def not_signed_in(
    agent: ExternalAgent, message: str, how: str = ""
) -> AgentNotSignedIn:
    """Return the error for a wrong or missing key or login.

    `message` is the agent's own; `how` says how its process ended.
    """
    hint = agent.preset.sign_in or f"sign in to {agent.name}, or export its key"
    return AgentNotSignedIn(
        f"the agent {agent.name} has no valid key or login{how and f' ({how})'}: "
        f"{first_lines(message)}",
        hint,
    )


def failed(
    agent: ExternalAgent,
    message: str,
    how: str,
    stderr: str,
    meaning: ErrorMeaning | None = None,
    *,
    hint: str = "goal resume continues the run",
) -> AgentError:
    """Return the error for a failure: its message, how the process ended, its stderr.

    `hint` applies unless the remedy is known: a key, or a hint of the preset. `meaning`
    is what the agent reports in typed form; without it, a wrong key is recognised by
    the words of the failure.
    """
    meaning = meaning or ErrorMeaning()
    searched = f"{shortened(message, _LONGEST_READ)}\n{stderr}"
    # The message of the agent is more precise than its stderr.
    summary = first_lines(message) or last_lines(stderr) or "it printed no message"
    names_key = denied(agent, searched) or _KEY.search(searched)
    if meaning.obstacle == "sign_in" or (meaning.is_unknown and names_key):
        return not_signed_in(agent, summary, how)
    # A hint for this failure is more precise than a general one.
    remedy = remedy_of(agent.preset, searched)
    sentence = f"the agent {agent.name} failed{how and f' ({how})'}: {summary}"
    if meaning.obstacle == "refused":
        return AgentRefused(sentence, remedy or _REFUSED)
    return AgentError(sentence, remedy or hint, outage=meaning.outage)


def remedy_of(preset: Preset, message: str) -> str:
    """Return the preset's hint for the first of its texts in a failure, or ""."""
    lower = message.lower()
    for text, remedy in preset.hints.items():
        if text.lower() in lower:
            return remedy
    return ""


def denied(agent: ExternalAgent, text: str) -> bool:
    """Return whether a text contains a preset's text for a wrong or missing key."""
    lower = text.lower()
    return any(word.lower() in lower for word in agent.preset.denied)


def first_lines(text: str) -> str:
    """Return the first few lines that are not empty."""
    return "\n".join(_lines(text[:_LONGEST_READ])[:_LINES])[:_COLUMNS]


def last_lines(text: str) -> str:
    """Return the last few lines that are not empty."""
    return "\n".join(_lines(text[-_LONGEST_READ:])[-_LINES:])[-_COLUMNS:]


def _lines(text: str) -> list[str]:
    stripped = map(str.strip, text.splitlines())
    return [line for line in stripped if line]
