"""How fast each reader of transcripts is, and how much memory a long transcript needs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.measuring import Pairs, hold, remark, run_process
from tests.transcripts.sessions import SESSIONS, TESTS, Session

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

SIZE = 100 * 2**20
LINE = 'a line of output 0123456789 "quoted"\n'
LONG_OUTPUT = LINE * 1_600
"""About 60 kB, in front of each summary of the tests."""
SMALL_OUTPUT = LINE * 190
"""About 7 kB: a transcript has some 80,000 items."""
SMALL_ROWS = ("openai-responses", "copilot", "claude-code", "atif", "opentelemetry")
ID = re.compile(r"id|\w+(?:_id|Id|[uU]uid)")
COPY = "@copy@"
"""Stands in an id for the number of the copy of the session."""
READ = """
import pathlib, re, resource, sys, time
from goalrunner.transcripts import read_transcript
began = time.perf_counter()
trail = read_transcript(sys.argv[1], format=sys.argv[2])
seconds = time.perf_counter() - began
status = pathlib.Path("/proc/self/status")  # ru_maxrss would be that of the parent, before this program began
high = re.search(r"VmHWM:\\s+(\\d+)", status.read_text()) if status.exists() else None
print(seconds, int(high[1]) * 1024 if high else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(trail.items))
"""
DECODE = """
import json, sys, time
began = time.perf_counter()
for line in open(sys.argv[1], "rb"):
    try:
        json.loads(line.rstrip(b",\\n"))
    except ValueError:
        pass
print(time.perf_counter() - began)
"""
"""Decodes the lines of the same file, and keeps nothing."""


def grown(value: Any, output: str, key: str = "") -> Any:
    """A record with longer outputs, and ids that each copy of it can make its own."""
    if isinstance(value, str):
        if value and ID.fullmatch(key) and "ession" not in key:
            return value + COPY
        return value.replace(TESTS, output + TESTS)
    if isinstance(value, dict):
        return {key: grown(item, output, key) for key, item in value.items()}
    if isinstance(value, list):
        return [grown(item, output, key) for item in value]
    return value


def rows_of(session: Session) -> list[Any] | None:
    """The lines of a session; None for a document whose records are copied."""
    if session.is_lines:
        return [json.loads(line) for line in session.text.splitlines()]
    # Each line may be a document.
    return [json.loads(session.text)] if session.format == "opentelemetry" else None


def write_transcript(
    path: Path, name: str, size: int, output: str = LONG_OUTPUT
) -> None:
    """Write a transcript of at least so many bytes: the session of the tests, again and again."""
    session = SESSIONS[name]
    rows = rows_of(session)
    with path.open("w", encoding="utf-8") as file:
        if rows is not None:
            body, begin, between, end = (
                "".join(json.dumps(grown(row, output)) + "\n" for row in rows),
                "",
                "",
                "",
            )
        else:
            document = json.loads(session.text)
            found = [
                key
                for key in ("messages", "trajectory", "steps")
                if isinstance(document, dict) and key in document
            ]
            items = grown(document[found[0]] if found else document, output)
            body, between, end = (
                ",\n".join(map(json.dumps, items)),
                ",\n",
                "]}" if found else "]",
            )
            head = (
                {
                    key: value
                    for key, value in document.items()
                    if key not in (*found, "history")
                }
                if found
                else {}
            )
            opened = json.dumps(head)[:-1] + (", " if head else "")
            begin = f'{opened}"{found[0]}": [' if found else "["
        file.write(begin + body.replace(COPY, "0"))
        copy = 0
        while file.tell() < size:
            copy += 1
            file.write(between + body.replace(COPY, str(copy)))
        file.write(end)


def measured(path: Path, name: str) -> tuple[float, float]:
    """The seconds of reading a transcript, and the peak of the memory in MiB."""
    seconds, peak, items = run_process(
        [sys.executable, "-c", READ, str(path), name]
    ).stdout.split()
    assert int(items) > 0
    return float(seconds), int(peak) / 2**20


@pytest.mark.parametrize(
    "name", [name for name, session in SESSIONS.items() if session.is_lines]
)
def test_a_long_transcript_is_read_in_little_memory(name: str, tmp_path: Path) -> None:
    long, short = tmp_path / "long", tmp_path / "short"
    write_transcript(long, name, SIZE)
    write_transcript(short, name, SIZE // 100)
    seconds, peak = measured(long, name)
    _, least = measured(short, name)
    decoded = float(run_process([sys.executable, "-c", DECODE, str(long)]).stdout)
    megabytes = long.stat().st_size / 2**20
    print(f"\n{name}: {megabytes:.0f} MiB, {megabytes / seconds:.0f} MiB/s")
    hold("reading a transcript / decoding its lines", Pairs([seconds], [decoded]))
    hold(
        "peak memory of a transcript of 100 MB / of 1 MB", Pairs([peak], [least]), "MiB"
    )
    remark(
        "items are kept with about", [(peak - least) / megabytes], "MiB for each MiB"
    )


@pytest.mark.parametrize("name", SMALL_ROWS)
def test_a_long_transcript_of_small_rows_is_read_in_80_mib(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "small-rows"
    write_transcript(path, name, SIZE, SMALL_OUTPUT)
    _, peak = measured(path, name)
    limits = Pairs([peak], [80])
    hold("peak memory of a transcript of 100 MB in small rows / 80 MiB", limits, "MiB")
