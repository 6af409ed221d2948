"""The telemetry of one session of a run, as an observer of its records."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider

from goalrunner.core import VERSION
from goalrunner.core.activity import ActivityObserver, Remark
from goalrunner.core.agent_ports import Observer
from goalrunner.core.errors import UsageError, one_line
from goalrunner.core.events import Record, RunEnded
from goalrunner.core.goal_tables import TelemetryConfig
from goalrunner.telemetry.attributes import RunFacts
from goalrunner.telemetry.content import SentContent
from goalrunner.telemetry.delivery import REQUEST_TIMEOUT, Delivery
from goalrunner.telemetry.metrics import RunMetrics
from goalrunner.telemetry.spans import RunSpans
from goalrunner.telemetry.trace_context import RunIds, keep_session, session_trace

_NAME = "goalrunner"
ENVIRONMENT = "env"
"""The address for which the variables OTEL_* say where telemetry goes."""
_LONGEST = 200
"""Characters of a reason in a note."""
_LOGGER = logging.getLogger("opentelemetry")
# The message also names the classes and addresses of the client's objects.
_REASON = re.compile(r"\[Errno -?\d+\] ([\w ]+)|(timed out)|code: (\d+, reason: .*)")


@dataclass(frozen=True)
class SessionPlace:
    """Where a session of a run works."""

    environ: Mapping[str, str]
    folder: Path | None
    """The run's; None if nothing of the run is kept."""


class _Reasons(logging.Handler):
    """Keeps why the exporter failed last, which only its log says."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the reason in a message, if it has one."""
        reason = _REASON.search(record.getMessage())
        if reason is not None:
            self.last = next(filter(None, reason.groups()))


class Telemetry:
    """Sends the spans and metrics of a session of a run.

    At the end of the run, a person gets a note if the collector did not get them all.
    """

    def __init__(
        self,
        config: TelemetryConfig,
        run: RunFacts,
        session: SessionPlace,
        content: SentContent,
        observers: Sequence[Observer] = (),
    ) -> None:
        """Begin to send. Raise UsageError for variables OTEL_* that are not valid.

        `content` says what is sent of prompts and outputs. The `observers` show the
        note.
        """
        self._config = config
        self._folder = session.folder
        self._observers = observers
        trace = session_trace(run.run_id, session.environ, session.folder)
        resource = _resource()
        exporter, metric_exporter = _exporters(config)
        self._tracers = TracerProvider(
            resource=resource,
            shutdown_on_exit=False,
            id_generator=RunIds(trace.trace_id),
        )
        # It sends only when the delivery says so, which has the only thread.
        reader = PeriodicExportingMetricReader(metric_exporter, math.inf)
        self._meters = MeterProvider([reader], resource, shutdown_on_exit=False)
        self._delivery = Delivery(exporter, self._meters.force_flush)
        self._tracers.add_span_processor(self._delivery)
        tracer = self._tracers.get_tracer(_NAME, VERSION)
        self._spans = RunSpans(tracer, run, trace, content)
        self._metrics = RunMetrics(self._meters.get_meter(_NAME, VERSION), run)
        self._reasons = _Reasons()
        _LOGGER.addHandler(self._reasons)
        self._is_kept = self._is_closed = False

    def on_record(self, record: Record) -> None:
        """Make the spans and metrics of an event; close at the end of the run."""
        # What is recorded after the end, such as a promoted fact, has no span.
        if self._is_closed:
            return
        self._spans.on_record(record)
        self._metrics.on_record(record)
        session = self._spans.session
        if session is not None and not self._is_kept:
            keep_session(self._folder, session)
            self._is_kept = True
        if isinstance(record.event, RunEnded):
            self.close()

    def close(self) -> None:
        """Send what is left, within seconds. Closing twice does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._spans.close()
        self._tracers.shutdown()
        self._meters.shutdown()
        _LOGGER.removeHandler(self._reasons)
        if self._delivery.lost:
            self._tell(self._note())

    def _note(self) -> str:
        """Return how many spans were lost, and why."""
        where = self._config.otlp
        if where == ENVIRONMENT:
            where = "the collector of OTEL_EXPORTER_OTLP_ENDPOINT"
        lost = f"{self._delivery.lost} of {self._delivery.ended} spans"
        note = f"[telemetry] {lost} did not reach {where}"
        reason = one_line(self._reasons.last, _LONGEST)
        return f"{note}: {reason}" if reason else note

    def _tell(self, note: str) -> None:
        for observer in self._observers:
            if isinstance(observer, ActivityObserver):
                observer.on_activity(Remark(note))


def _exporters(config: TelemetryConfig) -> tuple[OTLPSpanExporter, OTLPMetricExporter]:
    """Return the exporters. Raise UsageError for variables that are not valid."""

    def endpoint(signal: str) -> str | None:
        # Without an address, the exporters take that of the variables OTEL_*.
        if config.otlp == ENVIRONMENT:
            return None
        return f"{config.otlp.rstrip('/')}/v1/{signal}"

    try:
        return (
            OTLPSpanExporter(endpoint("traces"), timeout=REQUEST_TIMEOUT),
            OTLPMetricExporter(endpoint("metrics"), timeout=REQUEST_TIMEOUT),
        )
    except (OSError, ValueError) as error:
        raise UsageError(
            f"[telemetry] cannot be used: {one_line(str(error), _LONGEST)}",
            "look at the variables OTEL_EXPORTER_OTLP_*",
        ) from error


def _resource() -> Resource:
    """Return what sends, with the name in OTEL_SERVICE_NAME if that is set."""
    resource = Resource.create({SERVICE_VERSION: VERSION})
    name = str(resource.attributes.get(SERVICE_NAME, ""))
    # The name that the SDK makes if no variable has one.
    if name.startswith("unknown_service"):
        return resource.merge(Resource({SERVICE_NAME: _NAME}))
    return resource
