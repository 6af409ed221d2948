"""Sending spans to a collector that is slow, missing, or comes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra telemetry")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from goalrunner.telemetry import delivery
from goalrunner.telemetry.delivery import Delivery


class Collector(SpanExporter):
    """Takes spans, refuses them, or does not answer."""

    def __init__(self, *, answers: bool = True) -> None:
        self.answers = answers
        self.names: list[str] = []
        self.metrics = 0
        self.asked = threading.Event()
        self.hangs = threading.Event()
        self.hangs.set()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Answer as the test wants it."""
        self.asked.set()
        self.hangs.wait()
        if not self.answers:
            return SpanExportResult.FAILURE
        self.names += [span.name for span in spans]
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Answer the request that hangs, as the end of a connection does."""
        self.hangs.set()

    def send_metrics(self) -> None:
        """Count."""
        self.metrics += 1


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.hangs.set()


def sending(
    collector: Collector, pause: float = 3600
) -> tuple[Delivery, TracerProvider]:
    """Return a delivery that sends at its end, or with each pause."""
    provider = TracerProvider(shutdown_on_exit=False)
    sent = Delivery(collector, collector.send_metrics, pause)
    provider.add_span_processor(sent)
    return sent, provider


def end_spans(provider: TracerProvider, *names: str) -> None:
    for name in names:
        provider.get_tracer("test").start_span(name).end()


def test_spans_and_metrics_are_sent_at_the_end(collector: Collector) -> None:
    sent, provider = sending(collector)
    end_spans(provider, "a", "b")
    assert sent.lost == 2
    sent.shutdown()
    assert (collector.names, collector.metrics, sent.lost) == (["a", "b"], 1, 0)
    assert "goal-telemetry" not in {thread.name for thread in threading.enumerate()}


def test_spans_are_sent_while_the_run_works(collector: Collector) -> None:
    sent, provider = sending(collector, pause=0.01)
    end_spans(provider, "a")
    assert collector.asked.wait(10)
    end_spans(provider, "b")
    sent.shutdown()
    assert collector.names == ["a", "b"]


def test_a_collector_that_comes_back_gets_all_spans_in_their_order(
    collector: Collector,
) -> None:
    collector.answers = False
    sent, provider = sending(collector, pause=0.01)
    end_spans(provider, "a", "b")
    assert collector.asked.wait(10)
    end_spans(provider, "c")
    collector.answers = True
    sent.shutdown()
    assert (collector.names, sent.lost) == (["a", "b", "c"], 0)


def test_the_run_never_waits_and_the_oldest_spans_are_lost(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "QUEUE", 3)
    collector.hangs.clear()
    sent, provider = sending(collector, pause=0.01)
    end_spans(provider, "a")
    assert collector.asked.wait(10)
    end_spans(provider, *"bcdefg")
    collector.hangs.set()
    sent.shutdown()
    assert collector.names == ["a", "e", "f", "g"]
    assert (sent.lost, sent.ended) == (3, 7)


def test_a_collector_that_does_not_answer_holds_the_end_up_for_a_bounded_time(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "LAST_FLUSH", 0.05)
    collector.hangs.clear()
    sent, provider = sending(collector)
    end_spans(provider, "a")
    began = time.monotonic()
    sent.shutdown()
    assert time.monotonic() - began < 5


def test_a_collector_that_refuses_the_last_spans_gets_no_metrics(
    collector: Collector,
) -> None:
    collector.answers = False
    sent, provider = sending(collector)
    end_spans(provider, "a")
    sent.shutdown()
    assert (collector.metrics, sent.lost) == (0, 1)


def test_an_exporter_that_raises_loses_its_spans_alone() -> None:
    class Broken(Collector):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            raise RuntimeError("no such thing")

    broken = Broken()
    sent, provider = sending(broken)
    end_spans(provider, "a")
    sent.shutdown()
    assert sent.lost == 1


def test_metrics_that_cannot_be_sent_are_no_error(collector: Collector) -> None:
    def refuse() -> None:
        raise RuntimeError("no metrics here")

    provider = TracerProvider(shutdown_on_exit=False)
    sent = Delivery(collector, refuse, 3600)
    provider.add_span_processor(sent)
    end_spans(provider, "a")
    sent.shutdown()
    assert sent.lost == 0


def test_without_a_span_there_is_no_thread(collector: Collector) -> None:
    sent, _ = sending(collector)
    assert "goal-telemetry" not in {thread.name for thread in threading.enumerate()}
    sent.shutdown()
    assert collector.metrics == 0
