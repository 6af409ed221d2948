"""`goal resume`: a run goes on where it was. Owns how options become limits; drives nothing itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from goalrunner.cli import output
from goalrunner.cli.run import Manner, drive

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from goalrunner.model.outcome import GoalOutcome
    from goalrunner.ports import Approver, Observer


def resume_run(reference: str | None, limits: Mapping[str, Any], manner: Manner, *, note: str = "") -> int:
    """Take a run up again; gives the outcome's exit code. `limits` holds the options that were given, by the goal's keys."""
    from goalrunner import api, runs
    from goalrunner.goalfile import resolve_limits

    raised = resolve_limits(limits)
    home = runs.goal_home(os.environ)
    folder = runs.find_run(home, reference)

    def work(observers: tuple[Observer, ...], approver: Approver | None) -> Coroutine[Any, Any, GoalOutcome]:
        return api.aresume(
            folder,
            home=home,
            limits=raised,
            note=note,
            observers=observers,
            approver=approver,
            on_torn=lambda torn: output.complain(f"Warning: {torn}; they are removed"),
        )

    return drive(work, manner)
