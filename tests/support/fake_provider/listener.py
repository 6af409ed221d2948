"""An HTTP server on loopback that answers with JSON and streams."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Self


class Handler(BaseHTTPRequestHandler):
    """One connection. A subclass says what GET and POST do."""

    protocol_version = "HTTP/1.1"
    # Small answers at once: without this each request costs 40 ms.
    disable_nagle_algorithm = True
    # Buffered: headers and body leave in one write.
    wbufsize = 1 << 16
    stopping: ClassVar[threading.Event]
    """Set when the server ends: no wait may outlast it."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Silence."""

    def body(self) -> bytes:
        """The body of the request."""
        if "chunked" not in self.headers.get("transfer-encoding", "").lower():
            return self.rfile.read(int(self.headers.get("content-length") or "0"))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def lowered(self) -> dict[str, str]:
        """The headers, by their names in lower case."""
        return {name.lower(): value for name, value in self.headers.items()}

    def reply(
        self,
        status: int,
        body: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        *,
        missing: int = 0,
    ) -> None:
        """Answer with JSON; the last `missing` bytes are never sent, and the connection drops there."""
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) - missing])
        self.wfile.flush()
        if missing:
            self.close_connection = True

    def stream(
        self, events: Iterable[Mapping[str, Any]], *, pace: float, cut: str, last: str
    ) -> None:
        """Answer with server-sent events, named by their `type` where they have one, `pace` seconds between them."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self._chunk(f"{name}data: {json.dumps(event)}\n\n")
            if pace:
                self.wfile.flush()
                self.stopping.wait(pace)
        if cut == "abrupt":
            # No last chunk: the client sees the connection drop inside the body.
            self.wfile.flush()
            self.close_connection = True
            return
        if last and not cut:
            self._chunk(f"data: {last}\n\n")
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


class Listener:
    """The server, in threads of its own. `keys` become attributes of the handler's class."""

    def __init__(self, handler: type[Handler], *, port: int = 0, **keys: Any) -> None:
        self.stopping = threading.Event()
        bound = type("BoundHandler", (handler,), {"stopping": self.stopping, **keys})
        self._http = _Server(("127.0.0.1", port), bound)
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    @property
    def address(self) -> str:
        """`http://127.0.0.1:<port>`."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """End at once, answers that wait too."""
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(timeout=5)


class Serving:
    """What serves within a `with` block. A subclass makes `_listener`."""

    _listener: Listener

    def start(self) -> Self:
        """Begin to serve in a thread."""
        self._listener.start()
        return self

    def stop(self) -> None:
        """End at once, hanging answers too."""
        self._listener.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Joining them at the end would wait for clients that keep their connection open.
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is no error of the server's."""
