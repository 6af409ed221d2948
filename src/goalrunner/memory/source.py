"""What a promotion rests on: an observation or an event of a run. Owns finding it and its text; judges nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from goalrunner import events
from goalrunner.artifacts import ArtifactStore
from goalrunner.errors import UsageError
from goalrunner.eventlog import read_records
from goalrunner.model.observation import Observation
from goalrunner.policy.promotion import LONGEST
from goalrunner.redaction import Redactor
from goalrunner.runs import RunFolder
from goalrunner.state.evidence import observations_of

_REFERENCE = re.compile(r"(o|e|)([1-9][0-9]{0,9})", re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """What is referred to, and what it says itself; an event says nothing."""

    reference: str
    observation: Observation | None = None
    text: str = ""


def find_source(folder: RunFolder, item: str) -> Source:
    """The observation ("o7") or event ("e12", "12") of a run. Raises UsageError for none, RecordError for damage."""
    match = _REFERENCE.fullmatch(item.strip())
    if match is None:
        raise _unknown(folder, item)
    kind, number = match[1].lower() or "e", int(match[2])
    for record in read_records(folder.events):
        if kind == "e" and record.seq == number:
            return Source(f"e{number}")
        for observation in observations_of(record.event) if kind == "o" else ():
            if observation.id == f"o{number}":
                _refuse_hidden(record.event, observation)
                return Source(observation.id, observation, _text(folder, observation))
    raise _unknown(folder, item)


def _refuse_hidden(event: events.Event, observation: Observation) -> None:
    """Raises UsageError: what a hidden validator says would be told to the agent of a later run."""
    concealed = event.concealed if isinstance(event, events.ValidatorsFinished | events.BaselineTaken) else ()
    if any(item.id == observation.id for item in concealed):
        raise UsageError(
            f"{observation.id} is of a hidden validator, which never speaks to an agent", "name another observation"
        )


def _text(folder: RunFolder, observation: Observation) -> str:
    """The output, as far as it can be a fact; a longer one is told by its length alone."""
    ref = observation.output
    if ref is None:
        return ""
    data = ArtifactStore(folder.artifacts, Redactor({})).read(ref)
    return data.decode("utf-8", errors="replace")[: LONGEST * 10].strip()


def _unknown(folder: RunFolder, item: str) -> UsageError:
    return UsageError(
        f'run {folder.run_id} has no observation or event "{item[:40]}"',
        f"name an observation (o7) or an event (e12) of it: goal show {folder.run_id} --evidence",
    )
