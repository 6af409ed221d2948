"""The questions that a person answers at the terminal, and the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from goalrunner.core.agent_ports import ApprovalRequest
from goalrunner.core.errors import some
from goalrunner.core.observation import EvidenceRow
from goalrunner.reports import figures
from goalrunner.reports.layout import Fact, Quoted, ReportLine, laid_out
from goalrunner.reports.terminal_text import join_nonempty

LINES = 60
"""Lines of a command or a diff that are shown at once."""
# Changed paths that are shown at once.
_PATHS = 20
# A bar sets off what the agent wrote, so that it cannot pass for words of the runner.
_MARGIN = "  │ "
_COMMAND = "The agent wants to run this command. Allow it?"
_ASKS = {
    "shell": _COMMAND,
    "network": _COMMAND,
    "write": "The agent wants to write this file. Allow it?",
    "complete": "All checks passed. Accept the result?",
    "checks": "The agent changed what the validators check. Accept the changes below?",
}
_ASKS_FOR_LABEL = (
    "All checks passed, and the goal lets this label be reviewed. Accept the result?"
)
ANSWER = "Your answer (Ctrl-D leaves the question open): "
_CHOICES = (
    "Type y to accept, n to refuse, or n and a reason. "
    "Ctrl-D leaves the question open: the run ends, and goal approve or goal deny "
    "answers it later."
)


def read_typed(line: str) -> tuple[Literal["approved", "denied", "all", ""], str]:
    """Return the decision in a typed line, and the reason of a no.

    Only "y", "yes", "n" and "no" decide; "a" and "all" show all lines. Of any other
    line the decision is empty.
    """
    word, _, reason = line.strip().partition(" ")
    match word.lower().rstrip(",.:"):
        # "yes, but ..." is no approval.
        case "y" | "yes" if not reason:
            return "approved", ""
        case "n" | "no":
            return "denied", reason.strip()
        case "a" | "all" if not reason:
            return "all", ""
        case _:
            return "", ""


def approval_text(
    request: ApprovalRequest, *, most: int = LINES, columns: int | None = None
) -> str:
    """Return the question, and the command, diff or evidence that it is about.

    Of each part, `most` lines are shown. `columns` is the width of the terminal.
    """
    return "\n" + laid_out(_approval_lines(request, most), columns)


def choices_text(columns: int | None = None) -> str:
    """Return the explanation after an answer that is neither a yes nor a no."""
    return laid_out([Fact("", _CHOICES)], columns)


def question_text(question: str, columns: int | None = None) -> str:
    """Return the text of a question of the agent or the judge."""
    lines: list[ReportLine] = [Fact("question", "Only a person can answer this:")]
    lines += _quoted(question.splitlines(), LINES)
    return "\n" + laid_out(lines, columns)


def prompt_text(request: ApprovalRequest) -> str:
    """Return the prompt of an approval.

    It offers to show every line if `approval_text` leaves out some.
    """
    tests = request.checks.tests if request.checks is not None else ()
    parts = (
        request.approval.action.splitlines(),
        request.preview.splitlines(),
        request.evidence,
        tests,
    )
    has_long_part = any(len(part) > LINES for part in parts)
    if has_long_part or len(request.changed) > _PATHS:
        return "[y]es / [n]o REASON / [a]ll: show every line: "
    return "[y]es / [n]o REASON: "


def _approval_lines(request: ApprovalRequest, most: int) -> Iterator[ReportLine]:
    approval = request.approval
    checks = request.checks
    is_about_label = checks is not None and bool(checks.labels)
    question = _ASKS_FOR_LABEL if is_about_label else _ASKS[approval.kind]
    yield Fact("approval", f"{approval.id}: {question}")
    yield from _quoted(approval.action.splitlines(), most)
    yield from _changed_lines(request, most)
    if checks is not None and checks.tests:
        yield Fact("", "tests:")
        yield from _quoted([test.text for test in checks.tests], most)
    yield from _quoted(request.preview.splitlines(), most)
    if request.evidence:
        yield Fact("", "evidence:")
        yield from _quoted([_evidence(row) for row in request.evidence], most)
    # For changed checks the rule stands above, as the reason.
    if approval.kind != "checks":
        yield Fact("", f"asked because of: {approval.rule}")
    elif checks is not None and checks.hint:
        hint = "to allow such changes in later runs, write under [workspace]"
        yield Fact("", f"{hint}: {checks.hint}")
    if approval.expires_at:
        yield Fact("", f"open until {figures.moment(approval.expires_at)}")


def _changed_lines(request: ApprovalRequest, most: int) -> Iterator[ReportLine]:
    """Yield the changed files, and why their changes are to be accepted."""
    approval = request.approval
    paths = list(request.changed)
    is_shortened = most == LINES
    # The answer `all` shows every path as well.
    names = some(paths, _PATHS if is_shortened else len(paths))
    if approval.kind == "complete":
        yield Quoted(f"changed since the start: {names or 'nothing'}", whole=True)
    elif approval.kind == "checks":
        yield Fact("", f"why: {approval.rule}")
        # The action usually names the files.
        if names and names not in approval.action:
            yield Quoted(f"changed: {names}", whole=True)


def _quoted(lines: Sequence[str], most: int) -> Iterator[Quoted]:
    """Yield the first lines of a part, and how many are left out."""
    for line in lines[:most]:
        yield Quoted(line, _MARGIN, whole=True)
    if len(lines) > most:
        yield Quoted(f"… {len(lines) - most:,} more lines", _MARGIN)


def _evidence(row: EvidenceRow) -> str:
    mark = "✓" if row.satisfied else "✗"
    proof = row.fact or ""
    if row.quote is not None:
        proof = f"“{row.quote}”"
    place = join_nonempty(" ", row.observation, row.command)
    return f"{mark} {row.criterion} · {place} · {proof}"
