"""The text of approvals and questions at a terminal, and the meaning of what is typed.

Short commands and diffs are shown whole; where something is left out, the text says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from goalrunner.core.observation import EvidenceRow
from goalrunner.core.ports import ApprovalRequest
from goalrunner.reports import figures
from goalrunner.reports.text import clean, one_line, width, wrap

LINES = 60
"""Lines of a command or a diff that are shown at once."""
_PATHS = 20
_MARGIN = "  │ "
_COMMAND = "The agent wants to run this command. Allow it?"
_ASKS = {
    "shell": _COMMAND,
    "network": _COMMAND,
    "write": "The agent wants to write this file. Allow it?",
    "complete": "All checks passed. Accept the result?",
    "checks": "The agent changed existing tests or their configuration. The validators fail with the original files and"
    " pass with the changed ones. Accept the changes below?",
}
_PROMPT = "[y]es / [n]o REASON"
_MORE = " / [a]ll: show every line"
ANSWER = "Your answer (Ctrl-D leaves the question open): "
_CHOICES = (
    "  Type y to accept, n to refuse, or n and a reason. Ctrl-D leaves the question open: the run ends, and"
    " goal approve or goal deny answers it later."
)


@dataclass(frozen=True)
class Typed:
    """What was typed: a decision with its reason, a request to show every line, or neither."""

    decision: bool | None = None
    reason: str = ""
    everything: bool = False


def approval_text(request: ApprovalRequest, *, most: int = LINES, columns: int | None = None) -> str:
    """Return the question with the command, diff or evidence that it is about. `columns` is the width of the terminal."""
    return _text(_lines(request, most), columns)


def choices_text(columns: int | None = None) -> str:
    """Return the explanation that follows an answer which is neither a yes nor a no."""
    return _text([_CHOICES], columns)


def question_text(question: str, columns: int | None = None) -> str:
    """Return the text of a question of the agent or the judge."""
    return _text(["", "question  Only a person can answer this:", *_quoted(question, LINES)], columns)


def prompt_text(request: ApprovalRequest) -> str:
    """Return the prompt of an approval; it offers to show every line if lines are left out at first."""
    parts = (request.approval.action.splitlines(), request.preview.splitlines(), request.evidence)
    is_shortened = any(len(part) > LINES for part in parts) or len(request.changed) > _PATHS
    return f"{_PROMPT}{_MORE if is_shortened else ''}: "


def read_typed(line: str) -> Typed:
    """Return what a line means. Only "y", "yes", "n" and "no" decide."""
    word, _, rest = line.strip().partition(" ")
    match word.lower().rstrip(",.:"):
        case "y" | "yes" if not rest.strip():
            return Typed(decision=True)
        case "n" | "no":
            return Typed(decision=False, reason=rest.strip())
        case "a" | "all" if not rest.strip():
            return Typed(everything=True)
        case _:
            return Typed()


def _lines(request: ApprovalRequest, most: int) -> Iterator[str]:
    approval = request.approval
    yield from ("", f"approval  {approval.id}: {_ASKS[approval.kind]}", *_quoted(approval.action, most))
    if approval.kind == "complete":
        paths = [one_line(path) for path in request.changed]
        yield f"  changed since the start: {', '.join(paths[: _PATHS if most == LINES else None]) or 'nothing'}"
        if most == LINES and len(paths) > _PATHS:
            yield f"  and {len(paths) - _PATHS} more"
    yield from _quoted(request.preview, most)
    if request.evidence:
        yield from ("  evidence:", *_shortened([_evidence(row) for row in request.evidence], most))
    if approval.kind != "checks":  # the question itself says why
        yield f"  asked because of: {one_line(approval.rule)}"
    if approval.expires_at:
        yield f"  open until {figures.moment(approval.expires_at)}"


def _quoted(text: str, most: int) -> Iterator[str]:
    yield from _shortened([f"{_MARGIN}{clean(line.expandtabs(4))}".rstrip() for line in text.splitlines()], most)


def _shortened(lines: Sequence[str], most: int) -> Iterator[str]:
    yield from lines[:most]
    if len(lines) > most:
        yield f"{_MARGIN}… {len(lines) - most:,} more lines"


def _evidence(row: EvidenceRow) -> str:
    mark = "✓" if row.satisfied else "✗"
    shown = f"“{row.quote}”" if row.quote is not None else (row.fact or "")
    where = " ".join(part for part in (row.observation, one_line(row.command)) if part)
    return f"{_MARGIN}{mark} {one_line(row.criterion)} · {where} · {one_line(shown)}"


def _text(lines: Iterable[str], columns: int | None) -> str:
    return "".join(f"{row}\n" for line in lines for row in _wrapped(line, columns))


def _wrapped(line: str, columns: int | None) -> Iterator[str]:
    """Yield a line in rows of a terminal, broken between words; later rows are indented like the text of the first."""
    if columns is None or width(line) <= columns:
        yield line
        return
    quoted, text = (_MARGIN, line.removeprefix(_MARGIN)) if line.startswith(_MARGIN) else ("", line)
    body = text.lstrip("+- ") if quoted else text.lstrip(" ")
    first = text[: len(text) - len(body)]
    if width(quoted + first) >= columns // 2:
        first, body = "", text
    for index, row in enumerate(wrap(body, columns - width(quoted + first), len(body))):
        yield f"{quoted}{' ' * width(first) if index else first}{row}"
