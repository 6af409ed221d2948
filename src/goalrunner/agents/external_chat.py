"""What external agents have in common: their recorded chat, and the history for a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.agents.model_chat import TurnLock
from goalrunner.agents.turn import reported_result, shortened
from goalrunner.core.agent_ports import Message, Recorder, Unfinished
from goalrunner.core.messages import text_of

GO_ON = (
    "The run was interrupted in the middle of your turn. It is not known what the commands did that were running. Look at"
    " what is done already, and go on with the task."
)
"""The prompt of an agent whose turn was interrupted, if there is no other."""
LONGEST_HISTORY = 60_000
"""Characters of history in one prompt."""
_LONGEST_QUOTED = 8_000

_OPENING = """\
You have worked on this before, and do not remember it. The files are as you left them. This is what was said, oldest first; \
what you said then is quoted as you said it, whether it was right or not."""
_NAMES: Mapping[object, str] = {"user": "User", "assistant": "You"}


class ExternalConversation:
    """The chat of an external agent over rounds. Subclasses add `send`, `load` and `resume_turn`."""

    def __init__(self, agent: ExternalAgent) -> None:
        self.agent = agent
        self.messages: list[dict[str, Any]] = []
        self._turn_lock = TurnLock()

    def adopt_history(self, messages: Sequence[Message], recorder: Recorder) -> None:
        """Begin with the chat of another run, which is part of the next prompt."""
        self._forget_session()
        self.messages.clear()
        for message in spoken(messages):
            self._add(message, recorder)

    def checkpoint(self) -> tuple[dict[str, Any], ...]:
        """Return the chat so far, without the agent's own session."""
        return tuple(map(dict, self.messages))

    def restore(self, checkpoint: object) -> None:
        """Return to a checkpoint, with a new session of the agent. Raise TypeError if it is of another conversation."""
        if not isinstance(checkpoint, tuple):
            raise TypeError(f"not a checkpoint of an external agent: {type(checkpoint).__name__}")
        self.messages[:] = map(dict, checkpoint)
        self._forget_session()

    def _forget_session(self) -> None:
        raise NotImplementedError

    def _add(self, message: dict[str, Any], recorder: Recorder) -> None:
        self.messages.append(message)
        recorder.message(message)

    async def _close_cut_calls(self, left: Unfinished, recorder: Recorder, unnamed: str) -> None:
        """Record the calls that an earlier process left open. `unnamed` is the tool if none is known."""
        for name in left.cut:
            tool, command = left.told.get(name, (unnamed, ""))
            await recorder.tool_result(reported_result(self.agent.name, name, tool, command, ("interrupted",)))


def spoken(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the prompts and answers of a chat as text, without tool calls."""
    texts = ((message.get("role"), text_of(message.get("content"))) for message in messages)
    return [{"role": role, "content": text} for role, text in texts if role in ("user", "assistant") and text]


def with_history(messages: Sequence[Message], prompt: str) -> str:
    """Return the prompt after what was said before. The first message and the newest ones are kept."""
    said = [_quoted(one["role"], one["content"].strip()) for one in spoken(messages) if one["content"].strip()]
    if not said:
        return prompt
    first, rest = said[0], said[1:]
    room = LONGEST_HISTORY - len(first)
    kept = len(rest)
    while kept and (room := room - len(rest[kept - 1])) >= 0:
        kept -= 1
    gap = [f"[{kept} more left out here]"] if kept else []
    return "\n\n".join([_OPENING, first, *gap, *rest[kept:], "This is the new message:", prompt])


def _quoted(role: str, text: str) -> str:
    lines = "\n".join(f"> {line}" for line in shortened(text, _LONGEST_QUOTED).split("\n"))
    return f"{_NAMES[role]}:\n{lines}"
