"""The options of `goal export` about jobs, without what makes the jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from goalrunner.core.errors import UsageError, some


@dataclass(frozen=True)
class JobOptions:
    """The options of `goal export` about jobs; None or empty: not given."""

    image: str | None = None
    repository: str | None = None
    name: str | None = None
    secret: Sequence[str] | None = None
    claim: str | None = None
    resources: str | None = None
    jobs: int | None = None
    fleet: bool = False
    """Workers of a fleet instead of a job for each goal."""

    def refuse_any_but(self, allowed: Sequence[str], system: str) -> None:
        """Raise UsageError for an option that has no use for this system."""
        useless: list[str] = []
        for field in fields(self):
            if getattr(self, field.name) and field.name not in allowed:
                useless.append(f"--{field.name}")
        if useless:
            raise UsageError(f"{some(useless)}: not used by {system}", "remove it")
