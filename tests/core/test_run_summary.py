"""The figures of a run: made of a state, written, and read again."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core import events
from goalrunner.core.outcome import StopReason
from goalrunner.core.run_summary import LOST, NOT_ENDED, UNREADABLE, RunSummary
from tests.support.told_run import state_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_what_is_written_is_read_as_it_was() -> None:
    ended = events.RunEnded(
        stop_reason=StopReason.MAX_ITERATIONS, message="not complete after 2 rounds"
    )
    for state in (state_of(), state_of(ended)):
        summary = RunSummary.of(state)
        assert RunSummary.read(json.loads(json.dumps(summary.values()))) == summary


def test_a_lost_run_has_no_exit_code_of_its_own() -> None:
    summary = RunSummary.of(state_of(), lost=True)
    assert (summary.status, summary.exit_code, summary.process_exit_code) == (
        LOST,
        None,
        NOT_ENDED,
    )


def test_a_run_that_ended_at_its_baseline_has_checked_no_round() -> None:
    assert RunSummary(status="failed", round=0, iterations=1).checked_rounds == 0
    assert RunSummary(status="failed", round=1, iterations=1).checked_rounds == 1
    assert RunSummary(status="failed", iterations=1).checked_rounds == 1


@given(st.dictionaries(st.sampled_from(list(RunSummary().values())), JSON))
def test_a_field_of_another_type_has_its_default(values: dict[str, object]) -> None:
    summary = RunSummary.read(values)
    for name, value in summary.values().items():
        assert value in (values.get(name), RunSummary().values()[name])
    status = values.get("status")
    if not (isinstance(status, str) and status):
        assert summary.status == UNREADABLE
    assert isinstance(summary.waiting, dict)
