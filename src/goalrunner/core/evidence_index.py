"""The evidence of a run, collected from its records, and the table that shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from goalrunner.core import events
from goalrunner.core.agent_ports import Message
from goalrunner.core.events import Record
from goalrunner.core.fold import apply
from goalrunner.core.messages import text_of
from goalrunner.core.observation import (
    ArtifactRef,
    Claim,
    EvidenceRow,
    Observation,
    Trail,
    TranscriptRef,
    UserText,
)
from goalrunner.core.run_state import RunState
from goalrunner.core.snapshot_history import SnapshotHistory
from goalrunner.core.verdict import CriterionVerdict, GoalVerdict, ValidatorResult

_EXIT = re.compile(r"exit (\d+)")


class EvidenceIndex:
    """The observations and claims of a run.

    It also holds which observations were outdated at the last verdict.
    """

    def __init__(self) -> None:
        self.items: list[Observation | Claim] = []
        """In order, without those of hidden validators."""
        self.observations: dict[str, Observation] = {}
        """All, by id."""
        self.stale: Mapping[str, str] = {}
        """By id of an observation: why it was outdated at the last verdict."""
        self.history = SnapshotHistory()
        self._round = 0
        self._user_texts: list[UserText] = []

    def add(self, record: Record) -> None:
        """Process one record."""
        event = record.event
        self.history.add(event, record.at)
        for observation in events.observations_of(event):
            self.observations[observation.id] = observation
        self.items.extend(events.shown_observations(event))
        match event:
            case events.RoundStarted(round=number):
                self._round = number
            case events.MessageRecorded(role="assistant", has_text=True):
                self.items.append(Claim(round=self._round, text=event.text))
            case events.UserSaid(text=text) | events.RunResumed(note=text):
                if text.strip():
                    self._user_texts.append(UserText(self._round, text))
            case events.VerdictRecorded(stale=stale):
                self.stale = stale
            case _:
                pass

    def trail(
        self,
        output: Callable[[ArtifactRef], bytes],
        message: Callable[[TranscriptRef], Message],
    ) -> Trail:
        """Return the observations and claims so far.

        The two functions read the output of an observation and the message of a claim.
        """

        def read(item: Observation | Claim) -> str:
            if isinstance(item, Observation):
                content = output(item.output) if item.output else b""
                return content.decode("utf-8", errors="replace")
            return text_of(message(item.text).get("content")) if item.text else ""

        return Trail(items=tuple(self.items), read=read, said=tuple(self._user_texts))

    def rows(self, state: RunState) -> tuple[EvidenceRow, ...]:
        """Return the evidence table of a state's last verdict; empty without one."""
        if state.verdict is None:
            return ()
        return self.table(state.verdict, state.validators)

    def table(
        self, verdict: GoalVerdict, results: Sequence[ValidatorResult] = ()
    ) -> tuple[EvidenceRow, ...]:
        """Return a row for each citation of a criterion, then one for each result."""
        rows: list[EvidenceRow] = []
        for criterion in verdict.criteria:
            rows.extend(self._criterion_rows(criterion))
        rows.extend(map(self._validator_row, results))
        return tuple(rows)

    def _criterion_rows(self, criterion: CriterionVerdict) -> Iterator[EvidenceRow]:
        row = EvidenceRow(
            criterion=criterion.criterion,
            satisfied=criterion.satisfied,
            missing="" if criterion.satisfied else criterion.missing,
        )
        if not criterion.evidence:
            yield row
        for citation in criterion.evidence:
            identifier = citation.identifier
            fields = {
                "observation": identifier,
                "quote": citation.quote,
                "fact": citation.fact,
                "stale": self.stale.get(identifier, ""),
                **self._observation_fields(identifier),
            }
            yield row.model_copy(update=fields)

    def _validator_row(self, result: ValidatorResult) -> EvidenceRow:
        row = EvidenceRow(
            criterion=f"validator {result.name}",
            kind="validator",
            satisfied=result.passed,
            missing="" if result.passed else result.summary,
            observation=result.observation,
            command=result.command,
            exit_code=result.exit_code,
            fact=result.summary or None,
        )
        fields = self._observation_fields(result.observation)
        if result.hidden:
            # The table is published, for example in a pull request.
            fields |= {"command": "", "facts": ()}
        return row.model_copy(update=fields)

    def _observation_fields(self, identifier: str) -> dict[str, object]:
        """Return the fields of an observation for a row; empty if it does not exist."""
        observation = self.observations.get(identifier)
        if observation is None:
            return {}
        snapshot_id = observation.after
        if observation.reported_by:
            # No snapshot surrounds a tool that an external agent ran.
            end = self.history.ends.get(observation.round)
            snapshot_id = end.id if end else ""
        return {
            "known": True,
            "source": observation.source,
            "names": observation.names,
            "command": observation.command,
            "exit_code": _exit_code(observation),
            "facts": observation.facts,
            "reported_by": observation.reported_by,
            "snapshot": snapshot_id or "",
        }


def _exit_code(observation: Observation) -> int | None:
    for fact in observation.facts:
        if match := _EXIT.fullmatch(fact):
            return int(match[1])
    return None


def evidence_of(
    records: Iterable[Record],
) -> tuple[RunState | None, tuple[EvidenceRow, ...]]:
    """Return the state that the records fold to, and its evidence table.

    The state is None for an empty log; the table is that of its last verdict.
    """
    # In one pass, because a log may be large.
    index, state = EvidenceIndex(), None
    for record in records:
        state = apply(state, record)
        index.add(record)
    return state, index.rows(state) if state else ()
