"""A run that sends its telemetry through a collector of others: rotel, in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra telemetry")

from tests.support.collector import Collected, attributes_of
from tests.support.durable_goal import Goal
from tests.support.recordings import agent, shell

_SPEC = find_spec("rotel")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(_SPEC is None, reason="the collector rotel is not installed"),
]

TEXT = """\
objective = "Make it."
model = "MODEL"
validator = "test -e done"
[telemetry]
otlp = "{url}"
"""


def free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(number)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]


@contextmanager
def rotel(folder: Path, exports_to: str) -> Iterator[str]:
    """Run rotel, which takes OTLP and sends it on; return its address."""
    assert _SPEC is not None
    assert _SPEC.origin is not None
    program = Path(_SPEC.origin).parent / "rotel-agent"
    # Packages have no executable files.
    program.chmod(0o755)
    http, grpc = free_ports(2)
    arguments = {
        "--otlp-http-endpoint": f"127.0.0.1:{http}",
        "--otlp-grpc-endpoint": f"127.0.0.1:{grpc}",
        "--pid-file": str(folder / "rotel.pid"),
        "--exporter": "otlp",
        "--otlp-exporter-endpoint": exports_to,
        "--otlp-exporter-protocol": "http",
        "--batch-timeout": "100ms",
    }
    command = [str(program), "start"]
    for name, value in arguments.items():
        command += [name, value]
    with (
        (folder / "rotel.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as process,
    ):
        try:
            _wait_for(http, process)
            yield f"http://127.0.0.1:{http}"
        finally:
            process.terminate()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with closing(socket.socket()) as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"rotel ended with exit code {process.returncode}")


def test_a_collector_takes_the_trace_and_the_metrics_and_sends_them_on(
    goal: Goal, collected: Collected, tmp_path: Path
) -> None:
    with rotel(tmp_path, collected.url) as url:
        goal.write(TEXT.format(url=url), agent("", shell("touch done")), agent("Done."))
        ended = goal.run()
        assert (ended.code, "[telemetry]" in ended.out) == (0, False)
    # It sends what it has before it ends.
    (session,) = collected.named("invoke_workflow goal")
    assert attributes_of(session)["goal.status"] == "complete"
    assert attributes_of(session["resource"])["service.name"] == "goalrunner"
    assert len({span["trace"] for span in collected.spans}) == 1
    (tool,) = collected.named("execute_tool shell")
    (turn,) = collected.named("invoke_agent built-in")
    assert tool["parent"] == turn["id"]
    assert "goal.runs" in {metric["name"] for metric in collected.metrics}
