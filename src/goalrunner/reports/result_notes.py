"""What weakens a result, with the commands that repair it: labels, changed files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from goalrunner.core.errors import some
from goalrunner.core.labels import EXPLANATIONS, Label, label_in
from goalrunner.core.run_summary import LOST, RUNNING, UNREADABLE, RunSummary
from goalrunner.reports import figures
from goalrunner.reports.layout import Fact
from goalrunner.reports.terminal_text import printable_line

if TYPE_CHECKING:
    from goalrunner.core.outcome import ApprovalRow

# Paths that are gone or reverted and that are named.
_NAMED = 5
# The result rests on the originals of these, which a command restores. They come last,
# next to this command.
_RESTORABLE = (Label.TESTS_REMOVED, Label.CHECKS_DIFFER)
# They name changed checks of a complete run.
_OF_CHECKS = (Label.CHECKS_CHANGED, Label.CHECKS_DIFFER, Label.RESTS_ON_TESTS)
SHOWN_BY_PATHS = (Label.PROTECTED_CHANGED,)
"""Labels whose files `protected_lines` names, with the command that restores them."""


def label_lines(
    labels: Sequence[str],
    approvals: Sequence[ApprovalRow] = (),
    cured: Sequence[Label] = (),
    hidden: Sequence[Label] = (),
) -> Iterator[Fact]:
    """Yield each label, its meaning, and who approved it and when.

    Labels in `cured` are followed by what to do about them; those in `hidden` are left
    out.
    """
    visible = [text for text in labels if label_in(text) not in hidden]
    for text in sorted(visible, key=lambda text: label_in(text) in _RESTORABLE):
        yield Fact("note", text, "warn")
        label = label_in(text)
        if label:
            yield Fact("", label.meaning)
            if label in cured:
                yield Fact("", EXPLANATIONS[label].cure)
        for approval in approvals:
            if approval.action == text and approval.decision == "approved":
                yield Fact("", _approval_text(approval))


def _approval_text(approval: ApprovalRow) -> str:
    decision = figures.decision_text(
        approval.decision, approval.by, guarded=approval.guarded
    )
    moment = figures.moment(approval.decided_at)
    return f"{approval.id} was {decision} at {moment}."


def protected_lines(summary: RunSummary) -> Iterator[Fact]:
    """Yield which protected files are still changed, and how to restore them."""
    is_open = summary.status in (RUNNING, LOST, UNREADABLE)
    if not summary.left_changed or is_open:
        return
    is_complete = summary.status == "complete"
    has_label = any(label_in(text) in _OF_CHECKS for text in summary.labels)
    # The label of a complete run has these files already.
    if is_complete and has_label:
        return
    names = _names(summary.left_changed)
    if is_complete:
        # Most often the person wants these changes, such as an added test.
        text = f"changed, and the validators pass with the originals as well: {names}"
        yield Fact("files", text)
        yield Fact("", "To put the originals back:")
    else:
        text = f"protected files are still changed in the workspace: {names}"
        yield Fact("files", text, "warn")
    command = restoring_command(summary.run_id, summary.left_changed)
    yield Fact("", command, whole=True)


def gone_lines(run_id: str, paths: Sequence[str]) -> Iterator[Fact]:
    """Yield which files of the start are gone or reverted, and how to restore them.

    Without paths there are no lines.
    """
    if paths:
        yield Fact("files", gone_text(paths), "warn")
        yield Fact("", restoring_command(run_id, paths), whole=True)


def gone_text(paths: Sequence[str]) -> str:
    """Return which uncommitted files of the start are gone or reverted."""
    names = _names(paths)
    return f"gone or reverted since the start, and not committed then: {names}"


def _names(paths: Sequence[str]) -> str:
    return some([printable_line(path) for path in paths], _NAMED)


def restoring_command(run_id: str, paths: Sequence[str]) -> str:
    """Return the command that restores the first of these paths of the start."""
    return restoring_all_command(run_id, paths[:_NAMED])


def restoring_all_command(run_id: str, paths: Sequence[str]) -> str:
    """Return the command that restores all of these paths as they were at the start."""
    options = " ".join(f"--path {shlex.quote(path)}" for path in paths)
    return f"goal restore {run_id} 0 {options}"
