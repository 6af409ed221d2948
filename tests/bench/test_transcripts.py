"""How fast each reader of transcripts is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.measuring import Pairs, hold, run_process
from tests.transcripts.sessions import SESSIONS, TESTS

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

SIZE = 100 * 2**20
OUTPUT = 'a line of output 0123456789 "quoted"\n' * 1_600
"""About 60 kB, in front of each summary of the tests."""
READ = """
import sys, time
from goalrunner.transcripts import read_transcript
began = time.perf_counter()
trail = read_transcript(sys.argv[1], format=sys.argv[2])
print(time.perf_counter() - began, len(trail.items))
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


def grown(value: Any) -> Any:
    """A record with longer outputs."""
    if isinstance(value, str):
        return value.replace(TESTS, OUTPUT + TESTS)
    if isinstance(value, dict):
        return {key: grown(item) for key, item in value.items()}
    return [grown(item) for item in value] if isinstance(value, list) else value


def write_transcript(path: Path, name: str, size: int) -> None:
    """Write a transcript of at least so many bytes: the session of the tests, again and again."""
    session = SESSIONS[name]
    rows = [json.loads(line) for line in session.text.splitlines()] if session.is_lines else None
    with path.open("w", encoding="utf-8") as file:
        if rows is not None:
            body, begin, between, end = "".join(json.dumps(grown(row)) + "\n" for row in rows), "", "", ""
        else:
            document = json.loads(session.text)
            found = [
                key for key in ("messages", "trajectory", "steps") if isinstance(document, dict) and key in document
            ]
            items = grown(document[found[0]] if found else document)
            body, between, end = ",\n".join(map(json.dumps, items)), ",\n", "]}" if found else "]"
            head = {key: value for key, value in document.items() if key not in (*found, "history")} if found else {}
            opened = json.dumps(head)[:-1] + (", " if head else "")
            begin = f'{opened}"{found[0]}": [' if found else "["
        file.write(begin + body)
        while file.tell() < size:
            file.write(between + body)
        file.write(end)


@pytest.mark.parametrize("name", SESSIONS)
def test_a_long_transcript_is_read_quickly(name: str, tmp_path: Path) -> None:
    long = tmp_path / "long"
    write_transcript(long, name, SIZE)
    seconds, items = run_process([sys.executable, "-c", READ, str(long), name]).stdout.split()
    assert int(items) > 0
    decoded = float(run_process([sys.executable, "-c", DECODE, str(long)]).stdout)
    print(f"\n{name}: {long.stat().st_size / 2**20 / float(seconds):.0f} MiB/s")
    hold("reading a transcript / decoding its lines", Pairs([float(seconds)], [decoded]))
