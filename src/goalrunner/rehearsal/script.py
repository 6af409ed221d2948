"""Which answer of a script a request gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from goalrunner.rehearsal.answer import Answer
from goalrunner.rehearsal.request import Reply, Request

Player = Callable[[Request, Sequence[Reply]], Answer | None]
"""Request, and the model's turns in it -> the answer; None where the script is at its end."""


@dataclass
class ByConversation:
    """Goes by what the conversation holds already, so that a request that is sent again gets the same answer again.

    A failure stands before the answer that follows it, and is counted, since no conversation shows it.
    """

    script: Sequence[Answer]
    _failed: dict[int, int] = field(default_factory=dict)

    def __call__(self, request: Request, replies: Sequence[Reply]) -> Answer | None:
        """The answer after those that are in the conversation."""
        left = list(replies)
        for place, answer in enumerate(self.script):
            if answer.status != 200:
                failed = self._failed.get(place, 0)
                if answer.times and failed >= answer.times:
                    continue
                self._failed[place] = failed + 1
                return answer
            if not _drop_through(left, answer):
                return answer
        return None


@dataclass
class InOrder:
    """Goes from answer to answer, whatever is asked: for programs that begin a fresh conversation each time."""

    script: Sequence[Answer]
    _place: int = 0
    _failed: int = 0

    def __call__(self, request: Request, replies: Sequence[Reply]) -> Answer | None:
        """The next one."""
        if self._place >= len(self.script):
            return None
        answer = self.script[self._place]
        self._failed += 1
        if answer.status == 200 or (answer.times and self._failed >= answer.times):
            self._place += 1
            self._failed = 0
        return answer


def _drop_through(replies: list[Reply], answer: Answer) -> bool:
    """Whether the replies hold that answer; it and what stands before it is then dropped.

    Programs put words into the model's mouth, so not every reply is one of the script's.
    """
    for place, reply in enumerate(replies):
        if answer.text.strip() in reply.text and bool(answer.commands or answer.tool_calls) == reply.calls:
            del replies[: place + 1]
            return True
    return False
