"""The text of `goal show`: the lines of a run, made again from its log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from goalrunner.events import Record
from goalrunner.model.observation import TranscriptRef
from goalrunner.model.outcome import GoalStatus
from goalrunner.reports import figures
from goalrunner.reports.closing import closing_lines
from goalrunner.reports.line import Fact, Layout, Line, plain
from goalrunner.reports.narrative import Narrative
from goalrunner.reports.next_steps import next_steps, of_outcome
from goalrunner.reports.places import home_path
from goalrunner.reports.summary import LOST
from goalrunner.state import RunState, apply
from goalrunner.state.outcome import outcome_of
from goalrunner.state.spending import total_of


def show_text(
    records: Iterable[Record],
    *,
    folder: str,
    has_outcome: Callable[[], bool] = lambda: True,
    lost: Callable[[], bool] = lambda: False,
    words: Callable[[TranscriptRef], str] | None = None,
    columns: int | None = None,
) -> Iterator[str]:
    """Yield the text in pieces, one a record, in memory that does not grow with the log.

    `has_outcome` returns whether there is an outcome.json, `lost` whether the process of a run that has not ended is gone;
    both are called after the last record. `words` reads a message of the transcript; the last one of each round is shown.
    """
    narrative, state = Narrative(words=words), None

    def text(lines: Iterable[Line]) -> str:
        layout = Layout(columns, narrative.name_columns)
        return "".join(plain(layout.rows(line)) for line in lines)

    for record in records:
        state = apply(state, record)
        yield text(narrative.tell(record))
    yield text(_end(state, narrative, folder, has_outcome=has_outcome(), lost=lost()))


def _end(state: RunState | None, narrative: Narrative, folder: str, *, has_outcome: bool, lost: bool) -> Iterator[Line]:
    if state is None:
        yield Fact("empty", "The log of this run has no events.")
        return
    ended = state.status is not GoalStatus.RUNNING
    if not (ended and has_outcome):
        yield Fact("folder", home_path(folder), whole=True)
    if lost and not ended:
        yield from _lost(state)
    else:
        red = narrative.red if ended else ()
        outcome = outcome_of(state, folder if has_outcome else "")
        yield from closing_lines(outcome, red=red, told=narrative.told, goal_file=narrative.goal_file)


def _lost(state: RunState) -> Iterator[Line]:
    """Yield how far a run had come whose process is gone, and the command that continues it."""
    yield Fact(LOST, "The process of this run has ended unexpectedly; everything that it recorded is kept.", "warn")
    step = state.memory.current_step
    parts = [
        f"last seen in {step.replace('-', ' ')}" if step else "last seen between two steps",
        f"{figures.count(state.iterations, 'round')} checked",
        figures.elapsed(state.elapsed),
    ]
    total = total_of(state, over=True)
    yield Fact("", " · ".join([*parts, *(figures.spent(total) if total.tokens or total.uncounted_calls else ())]))
    yield from next_steps(replace(of_outcome(outcome_of(state)), status=LOST))
