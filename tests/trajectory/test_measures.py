"""The measures can fall: logs that were doctored."""

from __future__ import annotations

from collections.abc import Callable

from goalrunner.core import events
from goalrunner.core.events import Event, Record
from tests.support.course import Course, effect
from tests.support.rates import measure
from tests.support.recordings import agent
from tests.support.transitions import faults

Doctored = Callable[[list[Event]], list[Event]]


def without(kind: type[Event]) -> Doctored:
    """The log without the first event of a kind."""

    def cut(log: list[Event]) -> list[Event]:
        at = next(place for place, event in enumerate(log) if isinstance(event, kind))
        return log[:at] + log[at + 1 :]

    return cut


def twice(kind: type[Event]) -> Doctored:
    """The log with the first event of a kind written twice."""

    def doubled(log: list[Event]) -> list[Event]:
        at = next(place for place, event in enumerate(log) if isinstance(event, kind))
        return log[: at + 1] + log[at:]

    return doubled


DOCTORED: dict[str, tuple[Doctored, str]] = {
    "a result without its call": (without(events.ToolCalled), "which has not begun"),
    "a call without its result": (
        without(events.ToolResultRecorded),
        "ends with {'call_1'} open",
    ),
    "a result twice": (twice(events.ToolResultRecorded), "where o3 was due"),
    "a round twice": (twice(events.RoundStarted), "round 1 begins after round 1"),
    "validators that never ran": (
        without(events.ValidatorsFinished),
        "complete without green validators",
    ),
    "an end twice": (twice(events.RunEnded), "run_ended after run_ended"),
    "no beginning": (without(events.GoalCreated), "goal_created is the first event"),
}


async def test_an_event_that_may_not_stand_there_is_found(course: Course) -> None:
    work = (agent("", effect("one", "touch two.txt")), agent("Done."))
    await course.run(
        *work, ends="complete", validators=[{"name": "two", "run": "test -e two.txt"}]
    )
    log = [record.event for record in course.log]
    assert not any(faults(numbered(log)))
    for name, (doctor, said) in DOCTORED.items():
        found = [fault for fault in faults(numbered(doctor(log))) if fault]
        assert found, name
        assert said in " ".join(found), name


async def test_an_end_that_was_not_expected_and_a_resume_that_began_anew_are_counted(
    course: Course,
) -> None:
    await course.run(
        agent("Nothing done."),
        ends="complete",
        max_iterations=1,
        validators=[{"name": "no", "run": "exit 1"}],
    )
    course.resumes.append(False)
    course.promotions.append(False)
    samples = measure(course)
    wrong = {name for name, found in samples.items() if any(found)}
    assert wrong == {
        "stop-reason accuracy",
        "resume success",
        "promotion-policy accuracy",
    }


def numbered(log: list[Event]) -> list[Record]:
    return [
        Record(seq=place, at="t0", event=event)
        for place, event in enumerate(log, start=1)
    ]
