"""When an external agent has failed, and the history for agents without a session."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.agents.command_turn import Turn
from goalrunner.agents.invocation import ExternalAgent
from goalrunner.agents.stream_events import shortened
from goalrunner.core.errors import AgentError, AgentNotInstalled, AgentNotSignedIn
from goalrunner.core.ports import Message
from goalrunner.core.process_ports import HIDDEN, Completion
from goalrunner.system.launcher import words_of

NOT_STARTED = (127, 126)
"""Exit codes of a shell that found no such program, or could not start it."""
_TAIL = 4_000
"""Bytes at the end of stderr that are looked at."""
_SHORT = 2_000
"""Characters of text within which a preset's own words of refusal count, where an agent gives nothing but text."""
_LONGEST = 8_000
"""Characters of a failure's own words that are looked at; some are a whole page, or never end."""
_LINES, _COLUMNS = 6, 600

_KEY = re.compile(
    r"\b401\b|unauthori[sz]ed|unauthenticated|authentication[ _-](?:error|fail|required)|invalid authentication"
    r"|(?:invalid|incorrect|missing|no|expired|wrong)[ _-](?:[^\W_]{1,40}[ _-]){0,2}"
    r"(?:api[ _-]?key|x-api-key|auth[ _-]?token|credentials)"
    r"|api[ _-]?key[^\n]{0,40}(?:not set|not found|missing|required|invalid|expired)|not (?:logged|signed) in"
    r"|(?:please|must|need to)(?: first)? (?:run /?login|log ?in|sign ?in|authenticate)|login required",
    re.IGNORECASE,
)
"""How a wrong or missing key is commonly said. It is looked for only in what is known to be a failure.

Words between are bounded and hold no separator: what an agent says must not make the search itself take long.
"""

_MEMORY = r"(?:session|conversation|thread|rollout|chat)"
_GONE = r"(?:not found|no such|unknown|does(?: not|n't) exist|invalid|expired|could not be (?:found|loaded)|no longer)"
_LOST = re.compile(
    rf"{_MEMORY}[^\n]{{0,120}}{_GONE}|(?:\bno\b|{_GONE}|cannot find|could not find|failed to (?:load|find|resume))"
    rf"[^\n]{{0,60}}{_MEMORY}",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Ended:
    """How an agent's process ended, and the last words of its stderr."""

    completion: Completion
    errors: str

    @property
    def words(self) -> str:
        """ "exit 0", or why it was cut."""
        if self.completion.exit_code is None:
            return self.completion.error or "ended by a signal"
        return words_of(self.completion.exit_code)


def failure_of(agent: ExternalAgent, turn: Turn, ended: Ended) -> AgentError | None:
    """Why the turn is no answer; None where it is one. The turn is over."""
    completion, preset = ended.completion, agent.preset
    if completion.exit_code in NOT_STARTED and not (turn.spoke or turn.calls):
        return not_installed(agent, completion.error or first_lines(ended.errors))
    if turn.broke is not None:
        return _error(agent, turn.broke, ended)
    if completion.exit_code is None and completion.error.startswith("output limit"):
        return _error(agent, f"it was cut: {completion.error}", ended)
    nothing = last_lines(ended.errors) or last_lines(turn.noise())
    silent = not turn.spoke and not turn.calls
    if completion.exit_code != 0 and not turn.spoke:
        return _error(agent, nothing, ended)
    if preset.stream == "json" and silent and not turn.ledger.tokens:
        return _error(agent, nothing or "it said nothing that could be understood", ended)
    if (
        len(turn.text) <= _SHORT
        and not turn.calls
        and not turn.ledger.tokens
        and denied(agent, turn.text + ended.errors)
    ):
        return _error(agent, turn.text, ended)
    return None


HIDDEN_HINT = 'name in PATH the folder in which it really lies, or write [workspace] sandbox = "none"'
"""What to type where a jail does not show a program."""


def not_installed(agent: ExternalAgent, why: str) -> AgentNotInstalled:
    """Its program cannot be started."""
    hint = agent.preset.install or "install it, or name its whole path in [agent] command"
    if HIDDEN in why:  # it is installed, and where a jail does not show it
        hint = HIDDEN_HINT
    return AgentNotInstalled(f"the agent {agent.name} cannot be started: {why or 'its program was not found'}", hint)


def lost_session(error: AgentError, turn: Turn, ended: Ended) -> bool:
    """Whether a round failed because the agent does not know its own memory any more. Nothing was done in it then."""
    refused = isinstance(error, AgentNotInstalled | AgentNotSignedIn) or turn.spoke or turn.calls or turn.ledger.tokens
    return not refused and _LOST.search(f"{error.message}\n{ended.errors}") is not None


def tail_of(path: Path, size: int = _TAIL) -> str:
    """The end of a file as text; empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - size))
            return file.read(size).decode("utf-8", "replace").replace("\0", "")
    except OSError:
        return ""


def failed(agent: ExternalAgent, said: str, how: str, errors: str) -> AgentError:
    """Its failure in its own words, or in the last of its stderr (`errors`); `how` is how its process ended."""
    known = recognised(agent, said, how, errors)
    return known or _failure(agent, said, how, errors, "goal resume goes on from here")


def recognised(agent: ExternalAgent, said: str, how: str, errors: str) -> AgentError | None:
    """The same where it is known what helps: a key, or a hint of its preset; else None."""
    whole = f"{shortened(said, _LONGEST)}\n{errors}"
    if denied(agent, whole) or _KEY.search(whole):
        return not_signed_in(agent, _words(said, errors), how)
    known = (hint for text, hint in agent.preset.hints.items() if text.lower() in whole.lower())
    hint = next(known, None)
    return None if hint is None else _failure(agent, said, how, errors, hint)


def not_signed_in(agent: ExternalAgent, words: str, how: str = "") -> AgentNotSignedIn:
    """It has no key or login, or a wrong one; `words` are its own."""
    hint = agent.preset.sign_in or f"sign in to {agent.name}, or export its key"
    said = first_lines(shortened(words, _LONGEST))
    return AgentNotSignedIn(f"the agent {agent.name} has no valid key or login{_in(how)}: {said}", hint)


def _error(agent: ExternalAgent, said: str, ended: Ended) -> AgentError:
    return failed(agent, said, ended.words, ended.errors)


def _failure(agent: ExternalAgent, said: str, how: str, errors: str, hint: str) -> AgentError:
    return AgentError(f"the agent {agent.name} failed{_in(how)}: {_words(said, errors)}", hint)


def _words(said: str, errors: str) -> str:
    return first_lines(shortened(said, _LONGEST)) or last_lines(errors) or "it said nothing at all"


def _in(how: str) -> str:
    return f" ({how})" if how else ""


def denied(agent: ExternalAgent, text: str) -> bool:
    """Whether words hold one of those by which this agent's missing or wrong key is known."""
    lower = text.lower()
    return any(word.lower() in lower for word in agent.preset.denied)


def first_lines(text: str) -> str:
    """The first few that say something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[:_LINES])[:_COLUMNS]


def last_lines(text: str) -> str:
    """The last few that say something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-_LINES:])[-_COLUMNS:]


LONGEST = 60_000
"""Characters of history in one prompt."""
_LONGEST_MESSAGE = 8_000

_OPENING = """\
You have worked on this before, and do not remember it. The files are as you left them. This is what was said, oldest first; \
what you said then is quoted as you said it, whether it was right or not."""
_OMITTED = "[{number} more left out here]"
_CLOSING = "This is what you are told now:"
_NAMES = {"user": "You were told", "assistant": "You said"}


def with_history(messages: Sequence[Message], prompt: str, longest: int = LONGEST) -> str:
    """The prompt, with what was said before it. The first message and the newest are kept, in `longest` characters."""
    said = [_entry(message) for message in messages if message.get("role") in _NAMES and _content(message)]
    if not said:
        return prompt
    first, rest = said[0], said[1:]
    room = longest - len(first)
    kept: list[str] = []
    for entry in reversed(rest):
        room -= len(entry)
        if room < 0:
            break
        kept.insert(0, entry)
    gap = [_OMITTED.format(number=len(rest) - len(kept))] if len(kept) < len(rest) else []
    return "\n\n".join([_OPENING, first, *gap, *kept, _CLOSING, prompt])


def _entry(message: Message) -> str:
    text = shortened(_content(message), _LONGEST_MESSAGE)
    quoted = "\n".join(f"> {line}" for line in text.split("\n"))
    return f"{_NAMES[message['role']]}:\n{quoted}"


def _content(message: Message) -> str:
    content = message.get("content")
    return content.strip() if isinstance(content, str) else ""
