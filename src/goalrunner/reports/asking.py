"""What a person is shown who must decide, and what is made of what they type. Owns the words and the reading; asks nobody.

Commands and diffs are shown whole where they are short, and never without saying that something was left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from goalrunner.model.evidence import EvidenceRow
from goalrunner.ports import ApprovalRequest
from goalrunner.reports import figures
from goalrunner.reports.terminal_text import clean, one_line

LINES = 60
"""Lines of a command or a diff that are shown at once."""
_PATHS = 20
_MARGIN = "  │ "

_ASKS = {
    "shell": "the agent wants to run this command",
    "network": "the agent wants to run this command",
    "write": "the agent wants to write this file",
    "complete": "All checks passed. Accept the result?",
    "checks": "The checks pass only with the agent's changes to these files. Accept these changes?",
}

PROMPT = "approve? y = yes, n = no, n REASON = no, and why"
MORE = ", a = show all of it"
ANSWER = "your answer (Ctrl-D leaves the question open): "


@dataclass(frozen=True)
class Typed:
    """What a person typed: a decision with its reason, a wish to see everything, or nothing that could be read."""

    decision: bool | None = None
    reason: str = ""
    everything: bool = False


def approval_text(request: ApprovalRequest, *, most: int = LINES) -> str:
    """The question with all that it is about in view."""
    return "\n".join(_lines(request, most)) + "\n"


def is_shortened(request: ApprovalRequest) -> bool:
    """Whether something is left out at first."""
    parts = (request.approval.action.splitlines(), request.preview.splitlines(), request.evidence)
    return any(len(part) > LINES for part in parts) or len(request.changed) > _PATHS


def prompt_text(request: ApprovalRequest) -> str:
    """The line on which the answer is typed."""
    return PROMPT + (MORE if is_shortened(request) else "") + ": "


def question_text(question: str) -> str:
    """A question of the agent's, or of the judge's."""
    return "\nquestion  only you can answer this:\n" + "".join(f"{line}\n" for line in _quoted(question, LINES))


def read_typed(line: str) -> Typed:
    """What a line means. A person who types neither yes nor no has decided nothing."""
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
    yield ""
    yield f"approval  {approval.id}: {_ASKS[approval.kind]}"
    yield from _quoted(approval.action, most)
    if approval.kind == "complete":
        paths = [one_line(path) for path in request.changed]
        yield f"  changed since the start: {', '.join(paths[: _PATHS if most == LINES else None]) or 'nothing'}"
        if most == LINES and len(paths) > _PATHS:
            yield f"  and {len(paths) - _PATHS} more"
    if request.preview:
        yield from _quoted(request.preview, most)
    if request.evidence:
        yield "  it rests on"
        yield from _shortened([_evidence(row) for row in request.evidence], most)
    until = f" · until {figures.moment(approval.expires_at)}" if approval.expires_at else ""
    yield f"  asked for by {one_line(approval.rule)}{until}"


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
