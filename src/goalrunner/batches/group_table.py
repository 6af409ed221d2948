"""The runs of a group as a table: the texts that the report and the terminal show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from goalrunner.batches.ranking import GroupRun, advantage
from goalrunner.reports import figures
from goalrunner.reports.layout import Fact


@dataclass
class GroupRow:
    """One run of a group. A text is empty if there is nothing to show."""

    name: str
    run_id: str
    status: str
    place: str = ""
    """ "1" for the winner; empty for a run that is not verified."""
    hidden: str = ""
    """The checks in which a hidden validator was red; empty for none."""
    score: str = ""
    changes: str = ""
    cost: str = ""
    tokens: str = ""
    advantage: str = ""
    """Why it comes before the next one."""

    @property
    def basis(self) -> list[str]:
        """What the order rests on, without what is not known."""
        texts = [self.changes, self.cost, self.tokens]
        if self.score:
            texts.insert(0, f"score {self.score}")
        if self.hidden:
            texts.insert(0, f"{self.hidden} of hidden validators")
        return list(filter(None, texts))


def group_rows(runs: Sequence[GroupRun]) -> list[GroupRow]:
    """Return a row for each run; the best one comes first, as `ranked` sorts them."""
    rows: list[GroupRow] = []
    for number, run in enumerate(runs, 1):
        row = _row(run)
        if run.is_verified:
            row.place = str(number)
        if rows:
            rows[-1].advantage = advantage(runs[number - 2], run)
        rows.append(row)
    return rows


def _row(run: GroupRun) -> GroupRow:
    row = GroupRow(run.name, run.run_id, run.status)
    if run.hidden_failures:
        row.hidden = figures.count(run.hidden_failures, "failure")
    # What is not known is left out: a missing cost is not $0.
    if run.score is not None:
        row.score = figures.score(run.score)
    if run.cost_usd is not None:
        row.cost = figures.dollars(run.cost_usd)
    if run.tokens is not None:
        row.tokens = figures.count(run.tokens, "token")
    row.changes = "".join(figures.diff_stat(run.changes))
    return row


def group_lines(group: str, rows: Sequence[GroupRow]) -> Iterator[Fact]:
    """Yield the verified runs of a group in their order, and what to do with them."""
    for row in rows:
        if not row.place:
            continue
        label = "best" if row.place == "1" else row.place
        yield Fact(label, " · ".join((row.name, f"run {row.run_id}", *row.basis)))
        if row.advantage:
            yield Fact("", f"before the next one by {row.advantage}")
    yield Fact("compare", f"goal report --compare {group}", whole=True)
    if any(row.place for row in rows):
        yield Fact("apply", f"goal apply {group}", whole=True)
