"""Common parts of external agents: the recorded chat, the history in a prompt, and the errors for failures."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.agents.parser import Obstacle
from goalrunner.agents.turn import reported_result
from goalrunner.core.agent_ports import Message, Recorder, RoundReply, Unfinished
from goalrunner.core.errors import (
    AgentError,
    AgentNotInstalled,
    AgentNotSignedIn,
    AgentRefused,
    Outage,
    shortened,
)
from goalrunner.core.messages import text_of
from goalrunner.core.outcome import AgentSession
from goalrunner.core.ports import HIDDEN

GO_ON = (
    "The run was interrupted in the middle of your turn. It is not known what the commands did that were running. Look at"
    " what is done already, and go on with the task."
)
"""The default prompt that continues an interrupted turn."""
NEW_SESSION = (
    "its session could not be resumed; a new one began, with the history in its prompt"
)
LONGEST_HISTORY = 60_000
"""Characters of history in one prompt."""
_LONGEST_QUOTED = 8_000

_OPENING = """\
You have worked on this before, and do not remember it. The files are as you left them. This is what was said, oldest first; \
what you said then is quoted as you said it, whether it was right or not."""
_OTHERS_OPENING = """\
Another agent has worked on this before you, and could not go on. The files are as it left them. This is what was said, oldest \
first; what the agent said is quoted as it said it, whether it was right or not."""


class ExternalConversation:
    """An external agent as a conversation. Implements the ports `Conversation` and, with `load`, `Resumable`."""

    def __init__(self, agent: ExternalAgent) -> None:
        self.agent = agent
        self.messages: list[dict[str, Any]] = []
        self.follows_another = False
        """Whether the chat may contain what another agent said."""
        self._unanswered = ""
        """The prompt of the last turn, if it failed in this process before the agent did anything."""

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Run one round. Raise AgentError, BudgetExhausted and ApprovalPending."""
        async with self._turn(recorder):
            return await self._round(prompt, recorder, cut=False)

    async def resume_turn(
        self, notice: str, left: Unfinished, recorder: Recorder
    ) -> RoundReply:
        """Continue an interrupted turn with a prompt, in the agent's own session if it still knows it."""
        async with self._turn(recorder):
            for name, (
                tool,
                command,
            ) in left.cut.items():  # calls that an earlier process left open
                await recorder.tool_result(
                    reported_result(
                        self.agent.name, name, tool, command, ("interrupted",)
                    )
                )
            return await self._round(
                notice or self._unanswered or GO_ON, recorder, cut=True
            )

    def load(
        self, messages: Sequence[Message], left: Unfinished, recorder: Recorder
    ) -> None:
        """Continue the chat and the agent's session that an earlier process recorded."""
        self.messages[:] = spoken(messages)
        if (
            left.session is not None
            and left.session.agent == self.agent.name
            and left.session.id
        ):
            self._continue(left.session)

    def _continue(self, session: AgentSession) -> None:
        raise NotImplementedError

    @asynccontextmanager
    async def _turn(self, recorder: Recorder) -> AsyncIterator[None]:
        recorder.check_budget()
        yield

    async def _round(self, prompt: str, recorder: Recorder, *, cut: bool) -> RoundReply:
        """Run one round. `cut`: the previous turn was interrupted."""
        raise NotImplementedError

    def adopt_history(self, messages: Sequence[Message], recorder: Recorder) -> None:
        """Begin with the chat of another run. The next prompt contains it."""
        self._forget_session()
        self.messages.clear()
        for message in spoken(messages):
            self._add(message, recorder)

    def take_over(self, messages: Sequence[Message]) -> None:
        """Go on with the chat of another agent, in a new session. The next prompt contains the chat."""
        self._forget_session()
        self.messages[:] = map(dict, messages)
        self.follows_another = True

    def checkpoint(self) -> tuple[dict[str, Any], ...]:
        """Return the chat so far, without the agent's own session."""
        return tuple(map(dict, self.messages))

    def restore(self, checkpoint: object) -> None:
        """Return to a checkpoint, with a new session. Raise TypeError if it is not one of an external agent."""
        if not isinstance(checkpoint, tuple):
            raise TypeError(
                f"not a checkpoint of an external agent: {type(checkpoint).__name__}"
            )
        self.messages[:] = map(dict, checkpoint)
        self._forget_session()

    def _forget_session(self) -> None:
        raise NotImplementedError

    def _add_prompt(
        self, prompt: str, recorder: Recorder
    ) -> tuple[dict[str, Any], ...]:
        """Add a prompt, unless it is sent again after it was not answered. Return the chat before it."""
        message = {"role": "user", "content": prompt}
        if prompt == self._unanswered and self.messages[-1:] == [message]:
            return tuple(self.messages[:-1])
        before, self._unanswered = tuple(self.messages), prompt
        self._add(message, recorder)
        return before

    def _add(self, message: dict[str, Any], recorder: Recorder) -> None:
        self.messages.append(message)
        recorder.message(message)


def spoken(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the prompts and answers of a chat as text, without tool calls."""
    texts = (
        (message.get("role"), text_of(message.get("content"))) for message in messages
    )
    return [
        {"role": role, "content": text}
        for role, text in texts
        if role in ("user", "assistant") and text
    ]


def with_history(
    messages: Sequence[Message], prompt: str, *, by_another: bool = False
) -> str:
    """Return the prompt, preceded by the chat. If the chat is long, its first and its newest messages are kept.

    `by_another`: another agent may have said what is in the chat. The prompt is not repeated if it had no answer yet.
    """
    earlier = spoken(messages)
    if earlier and earlier[-1] == {"role": "user", "content": prompt}:
        del earlier[-1]
    names = {"user": "User", "assistant": "The agent" if by_another else "You"}
    said = [
        _quoted(names[one["role"]], one["content"].strip())
        for one in earlier
        if one["content"].strip()
    ]
    if not said:
        return prompt
    first, rest = said[0], said[1:]
    room = LONGEST_HISTORY - len(first)
    kept = len(rest)
    while kept and len(rest[kept - 1]) <= room:
        kept -= 1
        room -= len(rest[kept])
    gap = [f"[{kept} more left out here]"] if kept else []
    opening = _OTHERS_OPENING if by_another else _OPENING
    return "\n\n".join(
        [opening, first, *gap, *rest[kept:], "This is the new message:", prompt]
    )


def _quoted(name: str, text: str) -> str:
    lines = "\n".join(
        f"> {line}" for line in shortened(text, _LONGEST_QUOTED).split("\n")
    )
    return f"{name}:\n{lines}"


NOT_STARTED = (127, 126)
"""Exit codes of a shell if it did not find the program, or could not start it."""
HIDDEN_HINT = 'name in PATH the folder that really contains it, or write [workspace] sandbox = "none"'
"""The hint for a program that is not visible in the sandbox."""
LONGEST_ENDING = 160
"""Characters of the words for why a turn ended."""
SHORT_ANSWER = 2_000
"""Characters of the longest answer that is searched for the preset's texts for a wrong key."""
_LONGEST_READ = 8_000
"""Characters of a failure's message that are read."""
_LINES, _COLUMNS = 6, 600

_REFUSED = "choose another model ([agent] model), or top up the account; then goal resume continues the run"

_KEY = re.compile(
    r"\b401\b|unauthori[sz]ed|unauthenticated|authentication[ _-](?:error|fail|required)|invalid authentication"
    r"|(?:invalid|incorrect|missing|no|expired|wrong)[ _-](?:[^\W_]{1,40}[ _-]){0,2}"
    r"(?:api[ _-]?key|x-api-key|auth[ _-]?token|credentials)"
    r"|api[ _-]?key[^\n]{0,40}(?:not set|not found|missing|required|invalid|expired)|not (?:logged|signed) in"
    r"|(?:please|must|need to)(?: first)? (?:run /?login|log ?in|sign ?in|authenticate)|login required",
    re.IGNORECASE,
)
"""Common messages for a wrong or missing key. Searched in failures only; repetitions are bounded, so it takes no time."""


def ends_run(error: AgentError) -> bool:
    """Return whether the work cannot go on after an error: it has to wait, or no later turn can succeed."""
    return error.outage is not None or isinstance(
        error, AgentNotInstalled | AgentNotSignedIn | AgentRefused
    )


def not_installed(agent: ExternalAgent, why: str) -> AgentNotInstalled:
    """Return the error for a program that cannot be started."""
    hint = (
        agent.preset.install
        or "install it, or correct [agent] command; a relative path begins at the workspace"
    )
    return AgentNotInstalled(
        f"the agent {agent.name} cannot be started: {why or 'its program was not found'}",
        HIDDEN_HINT if HIDDEN in why else hint,
    )


def not_signed_in(
    agent: ExternalAgent, message: str, how: str = ""
) -> AgentNotSignedIn:
    """Return the error for a wrong or missing key or login; `message` is the agent's own."""
    hint = agent.preset.sign_in or f"sign in to {agent.name}, or export its key"
    said = first_lines(message)
    return AgentNotSignedIn(
        f"the agent {agent.name} has no valid key or login{how and f' ({how})'}: {said}",
        hint,
    )


def failed(
    agent: ExternalAgent,
    message: str,
    how: str,
    errors: str,
    hint: str = "goal resume continues the run",
    *,
    outage: Outage | None = None,
    obstacle: Obstacle | None = None,
) -> AgentError:
    """Return the error for a failure: its message, how the process ended, and the end of its stderr.

    `hint` applies unless the remedy is known: a key, or a hint of the preset. `outage` and `obstacle` are what the agent
    reports in typed form; without them, a wrong key is recognised by the words of the failure.
    """
    whole = f"{shortened(message, _LONGEST_READ)}\n{errors}"
    said = first_lines(message) or last_lines(errors) or "it printed no message"
    is_unknown = outage is None and obstacle is None
    if obstacle == "sign_in" or (
        is_unknown and (denied(agent, whole) or _KEY.search(whole))
    ):
        return not_signed_in(agent, said, how)
    known = (
        remedy
        for text, remedy in agent.preset.hints.items()
        if text.lower() in whole.lower()
    )
    failure = f"the agent {agent.name} failed{how and f' ({how})'}: {said}"
    if obstacle == "refused":
        return AgentRefused(failure, next(known, _REFUSED))
    return AgentError(failure, next(known, hint), outage=outage)


def denied(agent: ExternalAgent, text: str) -> bool:
    """Return whether a text contains one of the preset's texts for a wrong or missing key."""
    lower = text.lower()
    return any(word.lower() in lower for word in agent.preset.denied)


def first_lines(text: str) -> str:
    """Return the first few lines that are not empty."""
    return "\n".join(_lines(text[:_LONGEST_READ])[:_LINES])[:_COLUMNS]


def last_lines(text: str) -> str:
    """Return the last few lines that are not empty."""
    return "\n".join(_lines(text[-_LONGEST_READ:])[-_LINES:])[-_COLUMNS:]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
