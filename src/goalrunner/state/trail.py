"""The index of a run's observations and claims: a projection of its own beside the state. Holds references, no text."""

from __future__ import annotations

from goalrunner import events
from goalrunner.events import Record
from goalrunner.model.observation import Claim, Observation


class TrailIndex:
    """What happened and what was said, in order. Grows by one small entry for each."""

    def __init__(self) -> None:
        self.items: list[Observation | Claim] = []
        self._round = 0

    def add(self, record: Record) -> None:
        """Take in one record; those that are neither observation nor claim only tell the round."""
        event = record.event
        match event:
            case events.RoundStarted():
                self._round = event.round
            case events.ToolResultRecorded():
                self.items.append(event.observation)
            case events.ValidatorsFinished() | events.BaselineTaken():
                self.items.extend(event.observations)
            case events.RoundFinished(response=Observation() as response):
                self.items.append(response)
            case events.QuestionAnswered(observation=Observation() as answer):
                self.items.append(answer)
            case events.MessageRecorded(role="assistant", has_text=True):
                self.items.append(Claim(round=self._round, text=event.text))
            case _:
                pass
