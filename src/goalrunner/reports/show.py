"""A run told again from its log, line by line as it was seen. Owns the picture of `goal show`; opens no file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from goalrunner.events import Record
from goalrunner.model.observation import TranscriptRef
from goalrunner.model.outcome import GoalStatus
from goalrunner.reports import figures
from goalrunner.reports.closing import closing_lines
from goalrunner.reports.line import Fact, Layout, Line, plain
from goalrunner.reports.narrative import Narrative
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
    """The pieces of the text, one a record, in memory that does not grow with the log.

    `has_outcome` says whether there is an outcome.json, `lost` whether the process of a run that has not ended is gone;
    both are asked when the records are at their end. `words` reads a message of the
    transcript: each round's last one is told.
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
        yield Fact("empty", "the log holds no event")
        return
    ended = state.status is not GoalStatus.RUNNING
    if lost and not ended:
        yield from _lost(state)
    else:
        red = narrative.red if ended else ()
        yield from closing_lines(outcome_of(state, folder if has_outcome else ""), red=red, told=narrative.told)
    if not (ended and has_outcome):
        yield Fact("", home_path(folder), whole=True)


def _lost(state: RunState) -> Iterator[Line]:
    """What is known of a run whose process is gone: how far it had come when it wrote its last event."""
    yield Fact(LOST, "the process that ran it is gone; what it recorded is kept", "warn")
    step = state.memory.current_step
    parts = [
        f"last seen in {step.replace('-', ' ')}" if step else "last seen between two steps",
        f"{figures.count(state.iterations, 'round')} checked",
        figures.elapsed(state.elapsed),
    ]
    total = total_of(state, over=True)
    yield Fact("", " · ".join([*parts, *(figures.spent(total) if total.tokens or total.uncounted_calls else ())]))
