"""Why a proof cannot be trusted as the goal stands. Owns the shape of such a refusal; decides nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """A path, the rule that it breaks, and the line of the goal file that helps."""

    path: str
    rule: str
    remedy: str

    def __str__(self) -> str:
        """In one line: path, rule, remedy."""
        return f"{self.path}: {self.rule}; {self.remedy}"
