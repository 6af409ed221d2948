"""To which trace the sessions of a run belong.

All sessions of a run are in one trace. Its id is that of `TRACEPARENT` (W3C Trace
Context) where the first session found one, and is made of the run's id otherwise. A
file in the run's folder has the trace and the span of the last session, to which the
span of the next one links.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import SpanContext, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

FILE = "traceparent"
"""The file in the run's folder, in the form of the header."""


@dataclass(frozen=True)
class SessionTrace:
    """The trace of a session."""

    trace_id: int
    parent: SpanContext | None = None
    """The span of the program that started the run; None: there is none."""
    previous: SpanContext | None = None
    """The span of the session before; None for the first one."""


def session_trace(
    run_id: str, environ: Mapping[str, str], folder: Path | None
) -> SessionTrace:
    """Return the trace of a session that begins. `folder` is the run's, if any."""
    parent = _context_in(
        {
            "traceparent": environ.get("TRACEPARENT", ""),
            "tracestate": environ.get("TRACESTATE", ""),
        }
    )
    previous = _previous_session(folder)
    if previous is not None:
        # Another program may have resumed the run: its own trace is not this one.
        if parent is not None and parent.trace_id != previous.trace_id:
            parent = None
        return SessionTrace(previous.trace_id, parent, previous)
    if parent is not None:
        return SessionTrace(parent.trace_id, parent)
    digest = sha256(run_id.encode(errors="replace")).digest()
    # An id of zeros is not valid.
    return SessionTrace(int.from_bytes(digest[:16]) or 1)


def keep_session(folder: Path | None, session: SpanContext) -> None:
    """Write the span of this session for the next one."""
    if folder is None:
        return
    line = (
        f"00-{session.trace_id:032x}-{session.span_id:016x}-{session.trace_flags:02x}"
    )
    # Without the file, the next session is in the trace without a link.
    with contextlib.suppress(OSError):
        (folder / FILE).write_text(f"{line}\n", encoding="ascii")


def _previous_session(folder: Path | None) -> SpanContext | None:
    if folder is None:
        return None
    try:
        line = (folder / FILE).read_text(encoding="ascii")
    except (OSError, ValueError):
        return None
    return _context_in({"traceparent": line.strip()})


def _context_in(headers: Mapping[str, str]) -> SpanContext | None:
    """Return the span that headers name; None if they are missing or not valid."""
    context = TraceContextTextMapPropagator().extract(headers)
    span_context = get_current_span(context).get_span_context()
    return span_context if span_context.is_valid else None


class RunIds(IdGenerator):
    """Makes the ids of one trace."""

    def __init__(self, trace_id: int) -> None:
        self._trace_id = trace_id
        self._random = RandomIdGenerator()

    def generate_trace_id(self) -> int:
        """Return the id of the run's trace."""
        return self._trace_id

    def generate_span_id(self) -> int:
        """Return a random id."""
        span_id: int = self._random.generate_span_id()
        return span_id
