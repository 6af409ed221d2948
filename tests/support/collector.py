"""A collector in a process of its own: OTLP over HTTP, decoded with the classes of the protocol.

`python -m tests.support.collector FILE` listens on a free port of this machine, prints it, and appends a line of JSON to
FILE for each span and each metric that arrives.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Collected:
    """What a collector has got so far."""

    def __init__(self, url: str, file: Path) -> None:
        self.url = url
        self._file = file

    @property
    def text(self) -> str:
        return self._file.read_text() if self._file.exists() else ""

    def _rows(self, kind: str) -> list[dict[str, Any]]:
        rows = map(json.loads, self.text.splitlines())
        return [row[kind] for row in rows if kind in row]

    @property
    def spans(self) -> list[dict[str, Any]]:
        return self._rows("span")

    @property
    def metrics(self) -> list[dict[str, Any]]:
        return self._rows("metric")

    @property
    def headers(self) -> list[dict[str, str]]:
        return self._rows("headers")

    def named(self, name: str) -> list[dict[str, Any]]:
        """Return the spans with a name."""
        return [span for span in self.spans if span["name"] == name]


@contextmanager
def collector(file: Path) -> Iterator[Collected]:
    """Run a collector that writes to a file."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.collector", str(file)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            yield Collected(f"http://127.0.0.1:{port}", file)
        finally:
            process.kill()


def attributes_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span, a point or an event in JSON as plain values."""
    values: dict[str, Any] = {}
    for attribute in item.get("attributes", ()):
        ((kind, value),) = attribute["value"].items()
        if kind == "arrayValue":
            value = [next(iter(part.values())) for part in value.get("values", ())]
        values[attribute["key"]] = int(value) if kind == "intValue" else value
    return values


# Only the process of the collector needs the classes of the protocol.
def _traces(body: bytes) -> Iterator[dict[str, Any]]:
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
    )

    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = MessageToDict(group.resource)
        for scope in group.scope_spans:
            for span in scope.spans:
                # JSON has them in Base64.
                ids = {
                    "trace": span.trace_id.hex(),
                    "id": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "linked": [link.span_id.hex() for link in span.links],
                }
                yield {"span": {**MessageToDict(span), **ids, "resource": resource}}


def _metrics(body: bytes) -> Iterator[dict[str, Any]]:
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )

    for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        for scope in group.scope_metrics:
            for metric in scope.metrics:
                yield {"metric": MessageToDict(metric)}


_READERS = {"/v1/traces": _traces, "/v1/metrics": _metrics}


def _serve(file: Path) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path not in _READERS:
                self.send_error(404)
                return
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            with file.open("a") as stream:
                for row in _READERS[self.path](body):
                    stream.write(json.dumps(row) + "\n")
                stream.write(json.dumps({"headers": dict(self.headers)}) + "\n")
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
