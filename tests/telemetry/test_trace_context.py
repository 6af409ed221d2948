"""To which trace a session of a run belongs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra telemetry")

from opentelemetry.trace import SpanContext, TraceFlags

from goalrunner.telemetry.trace_context import FILE, keep_session, session_trace

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-01"
TRACE_OF_PARENT = 0x0AF7651916CD43DD8448EB211C80319C


def test_the_id_of_a_trace_is_made_of_the_id_of_the_run(tmp_path: Path) -> None:
    first, again, other = (
        session_trace(run_id, {}, tmp_path) for run_id in ("a", "a", "b")
    )
    assert first == again
    assert first.trace_id != other.trace_id
    assert (first.parent, first.previous) == (None, None)


def test_a_run_is_a_part_of_the_trace_of_the_program_that_starts_it(
    tmp_path: Path,
) -> None:
    trace = session_trace(
        "a", {"TRACEPARENT": PARENT, "TRACESTATE": "vendor=1"}, tmp_path
    )
    assert trace.trace_id == TRACE_OF_PARENT
    assert trace.parent is not None
    assert trace.parent.span_id == 0xB7AD6B7169203331
    assert trace.parent.trace_state.get("vendor") == "1"


@pytest.mark.parametrize("environ", [{}, {"TRACEPARENT": OTHER}])
def test_a_resumed_run_goes_on_in_its_trace(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    keep_session(
        tmp_path,
        SpanContext(TRACE_OF_PARENT, 5, is_remote=False, trace_flags=TraceFlags(1)),
    )
    trace = session_trace("a", environ, tmp_path)
    assert (trace.trace_id, trace.parent) == (TRACE_OF_PARENT, None)
    assert trace.previous is not None
    assert trace.previous.span_id == 5


@pytest.mark.parametrize("value", ["", "nonsense", PARENT[:-4], f"ff{PARENT[2:]}"])
def test_a_value_that_is_not_valid_counts_as_none(tmp_path: Path, value: str) -> None:
    (tmp_path / FILE).write_text(value)
    assert session_trace("a", {"TRACEPARENT": value}, tmp_path) == session_trace(
        "a", {}, None
    )


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    keep_session(tmp_path / "missing", SpanContext(1, 2, is_remote=False))
    keep_session(None, SpanContext(1, 2, is_remote=False))
