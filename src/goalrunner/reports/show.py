"""A run told again from its log, line by line as it was seen. Owns the picture of `goal show`; opens no file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from goalrunner.events import Record
from goalrunner.model.outcome import GoalStatus
from goalrunner.reports.closing import closing_lines
from goalrunner.reports.line import Fact, Layout, Line, plain
from goalrunner.reports.narrative import Narrative
from goalrunner.reports.places import home_path
from goalrunner.state import RunState, apply
from goalrunner.state.outcome import outcome_of


def show_text(records: Iterable[Record], *, folder: str, remark: str = "", columns: int | None = None) -> Iterator[str]:
    """The pieces of the text, one a record, in memory that does not grow with the log.

    `remark` is said of a run that has not ended: that its process is gone, for example.
    """
    narrative, state = Narrative(), None

    def text(lines: Iterable[Line]) -> str:
        layout = Layout(columns, narrative.name_columns)
        return "".join(plain(layout.rows(line)) for line in lines)

    for record in records:
        state = apply(state, record)
        yield text(narrative.tell(record))
    yield text(_end(state, folder, remark))


def _end(state: RunState | None, folder: str, remark: str) -> Iterator[Line]:
    if state is None:
        yield Fact("empty", "the log holds no event")
        return
    ended = state.status is not GoalStatus.RUNNING
    yield from closing_lines(outcome_of(state, folder if ended else ""))
    if not ended:
        if remark:
            yield Fact("", remark)
        yield Fact("", home_path(folder), whole=True)
