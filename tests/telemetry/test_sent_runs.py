"""Whole runs that send their telemetry to a collector in another process."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra telemetry")

from tests.support.collector import Collected, attributes_of
from tests.support.command_line import GOAL, environment
from tests.support.durable_goal import Goal
from tests.support.recordings import agent, judge, quote, shell

pytestmark = pytest.mark.slow

TELEMETRY = '[telemetry]\notlp = "{otlp}"\ncontent = {content}\n'
TEXT = """\
objective = "Greet the zebra."
success_criteria = ["it greets"]
model = "MODEL"
judge = "MODEL"
validator = "cat hello"
"""
KEY = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
COLLECTOR_KEY = "api-key=abc-123-def"
REPLIES = (
    agent("", shell(f"echo hippo {KEY}; printenv OTEL_EXPORTER_OTLP_HEADERS; false")),
    agent("Not yet: lion."),
    agent("", shell("echo giraffe > hello")),
    agent("Done."),
    judge(("it greets", [quote("o5", "giraffe")])),
)
PRIVATE = ("zebra", "hippo", "lion", "giraffe", "echo", "cat hello", "it greets")


def write(goal: Goal, otlp: str, *, content: bool = False) -> None:
    table = TELEMETRY.format(otlp=otlp, content=str(content).lower())
    goal.write(TEXT + table, *REPLIES)


def session_of(collected: Collected) -> dict[str, Any]:
    (session,) = collected.named("invoke_workflow goal")
    return session


def check_tree(spans: list[dict[str, Any]]) -> None:
    """Check that all spans are in one trace, and lie in a span that was sent."""
    ids = {span["id"] for span in spans}
    assert len(ids) == len(spans)
    assert len({span["trace"] for span in spans}) == 1
    assert {span["parent"] for span in spans} <= {*ids, ""}


def test_a_run_is_a_trace_without_its_content(goal: Goal, collected: Collected) -> None:
    write(goal, collected.url)
    ended = goal.run(env={"OTEL_EXPORTER_OTLP_HEADERS": COLLECTOR_KEY})
    assert (ended.code, "[telemetry]" in ended.out) == (0, False)
    check_tree(collected.spans)
    session = session_of(collected)
    resource = attributes_of(session["resource"])
    assert resource["service.name"] == "goalrunner"
    facts = attributes_of(session)
    assert facts["goal.status"] == "complete"
    assert facts["goal.run"] == facts["gen_ai.conversation.id"] == goal.folder.name[:4]
    names = [span["name"] for span in collected.spans]
    for name, number in {
        "round 1": 1,
        "round 2": 1,
        "invoke_agent built-in": 2,
        "execute_tool shell": 2,
        "chat scripted": 5,
        "baseline": 1,
        "validate": 2,
        "validator cat": 3,
        "audit": 1,
    }.items():
        assert names.count(name) == number, name
    assert {metric["name"] for metric in collected.metrics} >= {
        "goal.runs",
        "goal.rounds",
        "goal.run.duration",
        "goal.validators",
        "goal.verdicts",
        "gen_ai.client.token.usage",
        "gen_ai.execute_tool.duration",
    }
    assert all(headers["api-key"] == "abc-123-def" for headers in collected.headers)
    sent = "".join(map(str, (*collected.spans, *collected.metrics)))
    for private in (*PRIVATE, KEY, str(goal.root), goal.folder.name):
        assert private not in sent, private


def test_content_is_sent_on_request_and_without_secrets(
    goal: Goal, collected: Collected
) -> None:
    write(goal, collected.url, content=True)
    assert goal.run(env={"OTEL_EXPORTER_OTLP_HEADERS": COLLECTOR_KEY}).code == 0
    sent = "".join(map(str, collected.spans))
    recorded = b"".join(
        path.read_bytes() for path in goal.folder.rglob("*") if path.is_file()
    )
    assert COLLECTOR_KEY not in sent
    assert COLLECTOR_KEY.encode() not in recorded
    for word in PRIVATE:
        assert word in sent, word
    assert KEY not in sent
    tool = attributes_of(collected.named("execute_tool shell")[0])
    assert tool["gen_ai.tool.call.arguments"].startswith("echo hippo [redacted")
    assert "hippo [redacted" in tool["gen_ai.tool.call.result"]
    turn = attributes_of(collected.named("invoke_agent built-in")[1])
    assert '"content": "Done."' in turn["gen_ai.output.messages"]


def test_a_killed_run_goes_on_in_its_trace(goal: Goal, collected: Collected) -> None:
    write(goal, collected.url)
    goal.run()
    whole = session_of(collected)
    last = goal.number_of("tool_result_recorded", 2)
    goal.run_anew(("after", last))
    killed = goal.folder
    assert goal.resume().code == 0
    assert goal.folder == killed
    resumed = [span for span in collected.spans if span["trace"] != whole["trace"]]
    assert len({span["trace"] for span in resumed}) == 1
    sessions = [span for span in resumed if span["name"] == "invoke_workflow goal"]
    # The one that was killed could not send its own span.
    (session,) = sessions
    (previous,) = session["linked"]
    assert previous not in {span["id"] for span in resumed}
    facts = attributes_of(session)
    assert (facts["goal.resumed"], facts["goal.status"]) == (True, "complete")


def test_a_resumed_run_links_to_the_session_before(
    goal: Goal, collected: Collected
) -> None:
    text = TEXT.replace("cat hello", "test -e done") + TELEMETRY.format(
        otlp=collected.url, content="false"
    )
    goal.write(
        f"max_iterations = 1\n{text}",
        agent("no"),
        agent("", shell("touch done")),
        agent("yes"),
        judge(("it greets", [])),
    )
    assert goal.run().code == 1
    assert goal.resume("--max-iterations", "2").code == 1
    check_tree(collected.spans)
    first, second = collected.named("invoke_workflow goal")
    assert second["linked"] == [first["id"]]
    assert [attributes_of(item)["goal.stop_reason"] for item in (first, second)] == [
        "max_iterations",
        "max_iterations",
    ]


def test_a_run_is_a_part_of_the_trace_around_it(
    goal: Goal, collected: Collected
) -> None:
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    write(goal, "env")
    environ = {
        "TRACEPARENT": f"00-{trace}-{span}-01",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collected.url,
        "OTEL_SERVICE_NAME": "nightly",
    }
    assert goal.run(env=environ).code == 0
    session = session_of(collected)
    assert (session["trace"], session["parent"]) == (trace, span)
    assert attributes_of(session["resource"])["service.name"] == "nightly"


def test_a_collector_that_is_missing_changes_nothing_but_a_note(goal: Goal) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        write(goal, url)
        ended = goal.run()
    assert ended.code == 0
    assert "Traceback" not in ended.out + ended.err
    (note,) = [line for line in ended.out.splitlines() if "[telemetry]" in line]
    assert f"spans did not reach {url}: Connection refused" in note
    # The note is for people: the exporter's own messages are not printed.
    assert "Transient" not in ended.out + ended.err


def test_a_collector_that_refuses_is_named_with_its_answer(
    goal: Goal, collected: Collected
) -> None:
    write(goal, f"{collected.url}/wrong")
    ended = goal.run()
    assert ended.code == 0
    assert f"did not reach {collected.url}/wrong: 404, reason: Not Found" in ended.out


def test_nothing_is_sent_or_imported_without_the_table(goal: Goal) -> None:
    goal.write(TEXT, *REPLIES)
    ended = _run_python(goal, "-X", "importtime", *GOAL[1:], "run", "goal.toml")
    assert ended.returncode == 0
    assert "goalrunner.app.run_telemetry" in ended.stderr
    assert "opentelemetry" not in ended.stderr
    assert "goalrunner.telemetry" not in ended.stderr


def test_the_sdk_can_be_disabled_by_its_variable(
    goal: Goal, collected: Collected
) -> None:
    write(goal, collected.url)
    ended = goal.run(env={"OTEL_SDK_DISABLED": "true"})
    assert (ended.code, "[telemetry]" in ended.out) == (0, False)
    assert collected.spans == []


def _run_python(
    goal: Goal, *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=goal.root,
        env=environment(GOAL_HOME=str(goal.home), **(env or {})),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
