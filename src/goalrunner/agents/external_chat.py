"""An external agent as a conversation, whatever the protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from goalrunner.agents.chat_history import spoken
from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.agents.turn import reported_result
from goalrunner.core.agent_ports import Message, Recorder, RoundReply, Unfinished
from goalrunner.core.outcome import AgentSession

GO_ON = (
    "The run was interrupted in the middle of your turn. It is not known what the "
    "commands did that were running. Look at"
    " what is done already, and go on with the task."
)
"""The default prompt that continues an interrupted turn."""
NEW_SESSION = (
    "its session could not be resumed; a new one began, with the history in its prompt"
)


class ExternalConversation:
    """The base class of conversations with external agents.

    Implements the ports `Conversation` and, with `load`, `Resumable`.
    """

    def __init__(self, agent: ExternalAgent) -> None:
        self.agent = agent
        self.messages: list[dict[str, Any]] = []
        self.follows_another = False
        """Whether the chat may contain what another agent said."""
        # The prompt of the last turn, if it failed in this process before the agent did
        # anything.
        self._unanswered = ""

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Run one round. Raise AgentError, BudgetExhausted and ApprovalPending."""
        async with self._turn(recorder):
            return await self._round(prompt, recorder, cut=False)

    async def resume_turn(
        self, notice: str, unfinished: Unfinished, recorder: Recorder
    ) -> RoundReply:
        """Continue an interrupted turn with a prompt.

        It is sent in the agent's own session if the agent can still resume it.
        """
        async with self._turn(recorder):
            # An earlier process recorded the beginning of these calls, but no result.
            for call_id, (tool, command) in unfinished.cut.items():
                interrupted = reported_result(
                    self.agent.name, call_id, tool, command, ("interrupted",)
                )
                await recorder.tool_result(interrupted)
            # After a failure in this process, the agent may not have read its prompt.
            prompt = notice or self._unanswered or GO_ON
            return await self._round(prompt, recorder, cut=True)

    def load(
        self, messages: Sequence[Message], unfinished: Unfinished, recorder: Recorder
    ) -> None:
        """Continue the chat and the session that an earlier process recorded."""
        # Results of tools stay in the agent's own session.
        self.messages[:] = spoken(messages)
        session = unfinished.session
        # A session without an id was lost; one of another agent cannot be resumed here.
        if session is not None and session.agent == self.agent.name and session.id:
            self._use_session(session)

    def _use_session(self, session: AgentSession) -> None:
        """Resume this session in the next round."""
        raise NotImplementedError

    @asynccontextmanager
    async def _turn(self, recorder: Recorder) -> AsyncIterator[None]:
        """Return a context for a turn. Raise BudgetExhausted before it.

        A subclass adds what follows an error in the turn.
        """
        recorder.check_budget()
        yield

    async def _round(self, prompt: str, recorder: Recorder, *, cut: bool) -> RoundReply:
        """Send a prompt. `cut`: it continues a turn that was interrupted."""
        raise NotImplementedError

    def adopt_history(self, messages: Sequence[Message], recorder: Recorder) -> None:
        """Begin with the chat of another run. The next prompt contains it."""
        self._forget_session()
        self.messages.clear()
        for message in spoken(messages):
            self._add(message, recorder)

    def take_over(self, messages: Sequence[Message]) -> None:
        """Continue the chat of another agent in a new session.

        The next prompt contains the chat.
        """
        self._forget_session()
        self.messages[:] = map(dict, messages)
        self.follows_another = True

    def checkpoint(self) -> tuple[dict[str, Any], ...]:
        """Return the chat so far, without the agent's own session."""
        return tuple(map(dict, self.messages))

    def restore(self, checkpoint: object) -> None:
        """Return to a checkpoint, with a new session.

        Raise TypeError if it is not a checkpoint of an external agent.
        """
        if not isinstance(checkpoint, tuple):
            raise TypeError(
                f"not a checkpoint of an external agent: {type(checkpoint).__name__}"
            )
        self.messages[:] = map(dict, checkpoint)
        # The agent's own session contains what came after the checkpoint.
        self._forget_session()

    def _forget_session(self) -> None:
        raise NotImplementedError

    def _add_prompt(
        self, prompt: str, recorder: Recorder
    ) -> tuple[dict[str, Any], ...]:
        """Add a prompt to the chat. Return the chat before it.

        A prompt that is sent again because it was not answered is not added again.
        """
        message = {"role": "user", "content": prompt}
        if prompt == self._unanswered and self.messages[-1:] == [message]:
            return tuple(self.messages[:-1])
        before = tuple(self.messages)
        self._unanswered = prompt
        self._add(message, recorder)
        return before

    def _add(self, message: dict[str, Any], recorder: Recorder) -> None:
        self.messages.append(message)
        recorder.message(message)
