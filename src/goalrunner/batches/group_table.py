"""The runs of a group as a table: the texts that the report and the terminal show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from goalrunner.batches.ranking import GroupRun, advantage
from goalrunner.reports import figures
from goalrunner.reports.layout import Fact


@dataclass(frozen=True)
class GroupRow:
    """One run of a group. A text is empty if there is nothing to show."""

    place: str
    """ "1" for the winner; empty for a run that is not verified."""
    name: str
    run_id: str
    status: str
    hidden: str
    score: str
    changes: str
    cost: str
    tokens: str
    advantage: str
    """Why it comes before the next one."""

    @property
    def basis(self) -> list[str]:
        """What the order rests on, without what is not known."""
        texts = (
            self.hidden and f"{self.hidden} of hidden validators",
            self.score and f"score {self.score}",
            self.changes,
            self.cost,
            self.tokens,
        )
        return [text for text in texts if text]


def group_rows(runs: Sequence[GroupRun]) -> list[GroupRow]:
    """Return a row for each run; the best one comes first, as `ranked` sorts them."""
    rows = []
    for number, run in enumerate(runs, 1):
        following = runs[number] if number < len(runs) else None
        rows.append(_row(run, number, following))
    return rows


def _row(run: GroupRun, number: int, following: GroupRun | None) -> GroupRow:
    failures = figures.count(run.hidden_failures, "failure")
    changes = figures.diff_stat(run.changes)
    return GroupRow(
        place=str(number) if run.is_verified else "",
        name=run.name,
        run_id=run.run_id,
        status=run.status,
        hidden=failures if run.hidden_failures else "",
        score="" if run.score is None else figures.score(run.score),
        changes=changes[0] if changes else "",
        cost="" if run.cost_usd is None else figures.dollars(run.cost_usd),
        tokens="" if run.tokens is None else figures.count(run.tokens, "token"),
        advantage=advantage(run, following) if following else "",
    )


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
