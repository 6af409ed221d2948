"""What is only reported stays bound to its round where another process ends it."""

from __future__ import annotations

import pytest

from goalrunner.core import events
from goalrunner.core.events import Event, Record
from goalrunner.core.observation import Observation, Snapshot
from goalrunner.core.outcome import Usage
from goalrunner.core.verdict import GoalVerdict
from goalrunner.engine.journal import RunJournal
from goalrunner.engine.resumption import Resumption
from goalrunner.engine.snapshot_tracker import SnapshotTracker
from tests.support import told_run
from tests.support.checker import ONE, THREE, TWO, Folder
from tests.support.memory import MemoryArtifacts, MemoryLog, MemoryTranscript


def taken(snapshot: Snapshot) -> events.SnapshotTaken:
    return events.SnapshotTaken(snapshot=snapshot, moment="tool")


def report(number: int, round_: int, before: Snapshot) -> Observation:
    return Observation(
        id=f"o{number}",
        source="shell",
        round=round_,
        before=before.id,
        reported_by="claude",
    )


def watched(folder: Folder, *before: Event) -> SnapshotTracker:
    """The watch of a process that takes the run up after these events."""
    journal = RunJournal(MemoryLog(), MemoryTranscript(), MemoryArtifacts())
    for event in (told_run.created(), *before):
        journal.append(event)
    return SnapshotTracker(folder, journal)


CUT = (
    taken(ONE),
    events.RoundStarted(round=1, prompt="first"),
    taken(TWO),
    events.RoundFinished(round=1, snapshot=TWO),
    events.RoundStarted(round=2, prompt="retry"),
)
"""Round 1 changed a.py; round 2 was cut."""


@pytest.mark.parametrize(
    ("meanwhile", "final", "said"),
    [
        (TWO, TWO, ""),
        (THREE, THREE, "a.py changed in the round in which claude reported o2"),
        (TWO, THREE, "a.py changed in the round in which claude reported o2"),
    ],
)
async def test_a_round_that_was_cut_begins_where_it_began(
    meanwhile: Snapshot, final: Snapshot, said: str
) -> None:
    folder = Folder(meanwhile)
    watch = watched(folder, *CUT)
    await watch.take("resumed")
    assert watch.round_start == TWO
    folder.now = final
    fields = vars(await watch.end_round())
    watch.journal.append(events.RoundFinished(round=2, **fields))
    end = fields["snapshot"]
    stale = await watch.stale([report(1, 1, ONE), report(2, 2, TWO)], end)
    assert stale.get("o2", "") == said
    assert stale["o1"] == "a.py changed in the round in which claude reported o1"


async def test_a_report_of_a_round_that_ended_before_the_cut_still_counts() -> None:
    quiet = (
        taken(ONE),
        events.RoundStarted(round=1, prompt="first"),
        events.RoundFinished(round=1, snapshot=ONE),
    )
    folder = Folder(ONE)
    watch = watched(folder, *quiet)
    assert await watch.stale([report(1, 1, ONE)], ONE) == {}
    folder.now = TWO
    await watch.take("resumed")
    assert await watch.stale([report(1, 1, ONE)], TWO) == {
        "o1": "a.py changed after o1"
    }


async def test_a_report_of_a_round_without_an_end_never_counts() -> None:
    watch = watched(
        Folder(ONE), taken(ONE), events.RoundStarted(round=1, prompt="first")
    )
    assert await watch.stale([report(1, 1, ONE)], ONE) == {
        "o1": "it is not known on which files o1 was seen"
    }


def test_the_answers_of_an_audit_that_was_cut_are_to_come_again() -> None:
    asked = events.UsageRecorded(account="judge", usage=Usage(calls=1))
    verdict = events.VerdictRecorded(
        round=1, verdict=GoalVerdict(score=1.0, complete=True, missing="")
    )
    log, reader = MemoryLog(), Resumption(fresh_rounds=False)
    for event in (
        asked,
        events.RunResumed(plan=events.RunRules(validators=()), version="1"),
        asked,
        verdict,
    ):
        log.append(event)
    for record in log.records:
        reader.add(record)
    assert reader.used_answers == {"judge": 1}


def test_a_call_that_was_cut_is_known_with_its_tool_and_its_command() -> None:
    reader = Resumption(fresh_rounds=False)
    for number, name in enumerate(("c1", "c2"), start=1):
        called = events.ToolCalled(
            tool_call_id=name, tool="shell", summary=f"make {name}"
        )
        reader.add(Record(seq=number, at="", elapsed=0, event=called))
    left = reader.read(lambda _: {}, MemoryArtifacts()).unfinished
    assert left.cut == {"c2": ("shell", "make c2")}
