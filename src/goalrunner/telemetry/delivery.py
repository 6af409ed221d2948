"""Sending spans and metrics in the background, to a collector that may be missing.

The run never waits for the collector. Spans wait in a bounded queue, of which the
oldest are dropped; at the end of the run, what is left is sent within a few seconds.
The thread is a daemon: a process that is killed, or that ends, never waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

QUEUE = 4096
"""Spans that wait at most."""
REQUEST_TIMEOUT = 3.0
"""Seconds that one request may take, with its repetitions."""
LAST_FLUSH = 5.0
"""Seconds that the end of a run waits for the collector, at most."""
_BATCH = 256
_PAUSE = 1.0
"""Seconds between two batches."""
_LONGEST_PAUSE = 30.0
"""Seconds between two attempts while the collector does not answer."""
_METRICS_PAUSE = 30.0

_LOGGER = logging.getLogger("goalrunner")
# A library prints nothing by itself: without a handler, Python prints warnings of the
# exporter into the view of the run.
logging.getLogger("opentelemetry").addHandler(logging.NullHandler())


class Delivery(SpanProcessor):
    """Exports the spans that end, in a thread of its own."""

    def __init__(
        self,
        exporter: SpanExporter,
        send_metrics: Callable[[], object],
        pause: float = _PAUSE,
    ) -> None:
        """`pause`: seconds between two batches."""
        self._exporter = exporter
        self._send_metrics = send_metrics
        self._pause = pause
        self._queue: deque[ReadableSpan] = deque(maxlen=QUEUE)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._ended = 0
        self._delivered = 0
        self._thread = threading.Thread(
            target=self._work, name="goal-telemetry", daemon=True
        )

    @property
    def ended(self) -> int:
        """How many spans have ended."""
        return self._ended

    @property
    def lost(self) -> int:
        """How many of them the collector did not get, so far."""
        return self._ended - self._delivered

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Do nothing: a span is sent when it has ended."""

    def on_end(self, span: ReadableSpan) -> None:
        """Put a span into the queue."""
        if not (span.context and span.context.trace_flags.sampled):
            return
        with self._lock:
            self._ended += 1
            self._queue.append(span)
            # Not earlier: a run that cannot begin leaves no thread behind.
            if self._thread.ident is None:
                self._thread.start()

    def shutdown(self) -> None:
        """Send what waits, and end the thread, within LAST_FLUSH seconds."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(LAST_FLUSH)
        # A request that still runs ends with its connection.
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Do nothing: the thread sends spans by itself."""
        return True

    def _work(self) -> None:
        pause = self._pause
        metrics_sent = time.monotonic()
        while not self._closing.wait(pause):
            is_answering = self._send_all()
            pause = self._pause if is_answering else min(2 * pause, _LONGEST_PAUSE)
            if is_answering and time.monotonic() - metrics_sent >= _METRICS_PAUSE:
                self._export_metrics()
                metrics_sent = time.monotonic()
        # A collector that does not answer would let the end wait for each request.
        if self._send_all():
            self._export_metrics()

    def _send_all(self) -> bool:
        """Send the spans that wait; return whether the collector has taken them."""
        while batch := self._next_batch():
            if self._export(batch) is not SpanExportResult.SUCCESS:
                with self._lock:
                    # They are tried again; if the queue is full, the oldest are lost.
                    self._queue = deque([*batch, *self._queue], maxlen=QUEUE)
                return False
            self._delivered += len(batch)
        return True

    def _export_metrics(self) -> None:
        # Many backends of traces take no metrics, so a refusal is no note.
        try:
            self._send_metrics()
        except Exception:
            _LOGGER.debug("metrics were not sent", exc_info=True)

    def _next_batch(self) -> Sequence[ReadableSpan]:
        with self._lock:
            size = min(len(self._queue), _BATCH)
            return [self._queue.popleft() for _ in range(size)]

    def _export(self, batch: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            return self._exporter.export(batch)
        # Whatever the exporter raises, the run goes on.
        except Exception:
            _LOGGER.debug("spans were not sent", exc_info=True)
            return SpanExportResult.FAILURE
