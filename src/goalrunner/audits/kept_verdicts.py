"""Verdicts of audits outside of runs, kept in a file for later calls; and the budget of one call."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from goalrunner.core.errors import BudgetExhausted, UsageError, os_errors, record_errors
from goalrunner.core.events import Account
from goalrunner.core.field_types import Frozen
from goalrunner.core.goal_tables import Budget
from goalrunner.core.outcome import Usage
from goalrunner.core.verdict import GoalVerdict, ValidatorResult

Result = Literal[
    "complete", "not complete", "unreadable", "judge failed", "not audited"
]
EvidenceSource = Literal["transcript", "runner", "both", ""]
"""The source of the evidence: claims of the transcript, observations of the runner, or both."""

_HINT = "name another file with --output: verdicts are only added to a file of verdicts"
_START = b'{"key"'  # the beginning of each line


class TranscriptAudit(Frozen):
    """The audit of one transcript. The key is equal for the same content, goal, judge, rules and version of this program."""

    key: str = ""
    transcript: str
    result: Result
    verdict: GoalVerdict | None = None
    problem: str = ""  # why there is no verdict
    format: str = ""
    partial: str = (
        ""  # what of the transcript was not read; empty if nothing is missing
    )
    evidence: EvidenceSource = ""
    forgeable: tuple[
        str, ...
    ] = ()  # the cited observations that may show a file which the agent wrote
    validators: tuple[ValidatorResult, ...] = ()
    labels: tuple[str, ...] = ()
    judge: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    is_known: bool = Field(
        default=False, exclude=True
    )  # whether an earlier call made it

    @property
    def missing(self) -> str:
        """Why it is not complete, in words."""
        return self.problem or (
            self.verdict.missing if self.verdict and not self.verdict.complete else ""
        )


class KeptVerdicts:
    """Verdicts by key, and their file: one JSON object a line. Several processes may add to it."""

    def __init__(self, path: Path) -> None:
        """Read the file, and make its folder; torn lines and verdicts of another version are left out.

        Raise UsageError if it cannot be read, or has other content.
        """
        self.path = path
        self._found: dict[str, TranscriptAudit] = {}
        with os_errors(f"{path}: verdicts cannot be kept there", _HINT, UsageError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb") as file:
                lines = file.read().splitlines(keepends=True)
        self._torn = bool(lines) and not lines[-1].endswith(b"\n")
        for number, line in enumerate(lines, 1):
            if not (
                line.startswith(_START) or _START.startswith(line.rstrip(b"\n") or b"-")
            ):
                raise UsageError(f"{path}:{number}  not a verdict", _HINT)
            with contextlib.suppress(ValidationError):
                verdict = TranscriptAudit.model_validate_json(line)
                self._found[verdict.key] = verdict

    def get(self, key: str) -> TranscriptAudit | None:
        return self._found.get(key)

    def add(self, verdict: TranscriptAudit) -> None:
        """Append a verdict; it is durable when this returns. Raise RecordError."""
        line = f"{verdict.model_dump_json()}\n".encode(errors="replace")
        with (
            record_errors(f"{self.path} could not be written", ""),
            self.path.open("ab") as file,
        ):
            file.write(b"\n" + line if self._torn else line)
            file.flush()
            os.fsync(file.fileno())
        self._torn = False
        self._found[verdict.key] = verdict


@dataclass
class Spending:
    """The usage of all audits of one call, and their budget. An audit that has begun may exceed it by one question."""

    budget: Budget = field(default_factory=Budget)
    total: Usage = field(default_factory=Usage)

    @property
    def stop(self) -> str:
        """Why the judge may not be asked any more; empty if it may. Unknown usage is a reason, unless `unenforced` names it."""
        budget, total = self.budget, self.total
        if budget.tokens is not None and total.tokens >= budget.tokens:
            return f"{total.tokens:,} of {budget.tokens:,} tokens are spent"
        if budget.cost_usd is not None and total.known_cost_usd >= budget.cost_usd:
            return f"${total.known_cost_usd:.4f} of ${budget.cost_usd:.4f} are spent"
        unknown = {
            "tokens": total.uncounted_calls > 0,
            "cost_usd": total.cost_usd is None,
        }
        for name in budget.limited:
            if unknown[name] and name not in budget.unenforced:
                return f"the {'cost' if name == 'cost_usd' else 'usage'} of a call is unknown, so the budget cannot be kept"
        return ""


@dataclass
class SpendingRecorder:
    """The recorder of one audit, which stops it when the budget of all is spent."""

    spending: Spending
    used: Usage = field(default_factory=Usage)
    is_cut: bool = (
        False  # whether the budget ended the audit, perhaps before its last question
    )
    problem: str = ""  # why the last answer of the judge could not be used

    def usage(self, account: Account, usage: Usage) -> None:
        self.used += usage
        self.spending.total += usage

    def audit_failed(
        self,
        kind: Literal["parse", "transport", "authentication"],
        detail: str,
        answer: str = "",
    ) -> None:
        """Keep the reason for the audit."""
        self.problem = detail

    def check_budget(self) -> None:
        if stop := self.spending.stop:
            self.is_cut = True
            raise BudgetExhausted(stop)
