from __future__ import annotations

from goalrunner import events
from goalrunner.model.outcome import StopReason
from goalrunner.reports.show import show_text
from tests.support import told_run
from tests.support.told_run import MISSING, numbered

REFUSAL = 'o1 does not hold "44 passed"'


def test_a_proof_that_did_not_hold_is_called_so_and_said_once() -> None:
    verdict = told_run.red_verdict().model_copy(update={"score": 1.0})
    told = "".join(
        show_text(
            numbered(
                told_run.created(),
                told_run.started(),
                events.VerdictRecorded(round=1, verdict=verdict, refusals=(REFUSAL,)),
                events.Capped(stop_reason=StopReason.MAX_ITERATIONS, reason="not complete after 1 round"),
            ),
            folder="/r",
        )
    )
    assert told.splitlines()[4:] == [
        f"           ✗ judge   1.00, not proven           missing: {MISSING}",
        "capped     1 round · 4.0 s",
        "           not complete after 1 round",
        "           /r/outcome.json",
    ]
