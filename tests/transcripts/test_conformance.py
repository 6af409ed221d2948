"""What holds for the readers of all formats: what is evidence, what is a claim, and what happens to damaged files."""

from __future__ import annotations

import io
import json
import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.observation import FORGEABLE, Claim, Observation
from goalrunner.core.verdict import Citation
from goalrunner.judge.citations import Evidence
from goalrunner.judge.prompt_builder import audit_request
from goalrunner.transcripts import SavedTrail, formats, read_transcript
from tests.transcripts.sessions import (
    ALL_SESSIONS,
    FINAL,
    QUOTED,
    REPORT,
    SESSIONS,
    TESTS,
    WRITTEN,
    Session,
)

OTHERS = {"goal-run", "inspect", "cursor", "aider"}
"""Formats that are no JSON files, or have no results; they have tests of their own."""

ALIKE = (
    {"openai-chat", "anthropic"},
    {"claude-stream", "qwen-stream"},
    {"codex-old", "openai-responses"},
)
"""Formats with the same records."""

every = pytest.mark.parametrize(
    "session", ALL_SESSIONS, ids=lambda session: session.path.name
)
LINES = [session for session in ALL_SESSIONS if session.is_lines]
of_lines = pytest.mark.parametrize("session", LINES, ids=lambda session: session.format)

of_documents = pytest.mark.parametrize(
    "session",
    [session for session in ALL_SESSIONS if not session.is_lines],
    ids=lambda session: session.format,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file whose name says nothing about its format."""
    return tmp_path / "notes.txt"


def observations(trail: SavedTrail) -> list[Observation]:
    """The observations of a trail."""
    return [item for item in trail.items if isinstance(item, Observation)]


def claims(trail: SavedTrail) -> list[str]:
    """The texts of its claims."""
    return [trail.read(item).strip() for item in trail.items if isinstance(item, Claim)]


def refused(path: Path, format_name: str | None = None) -> UsageError:
    """The error for a file; it names the file."""
    with pytest.raises(UsageError) as caught:
        read_transcript(path, format=format_name)
    assert caught.value.message.startswith(str(path))
    assert caught.value.hint
    return caught.value


def test_every_format_has_a_session() -> None:
    names = [name for name, _ in formats()]
    assert len(names) == len(set(names))
    assert set(names) - OTHERS == SESSIONS.keys()
    assert all(description for _, description in formats())


@every
def test_results_of_tools_are_observations_and_all_else_is_a_claim(
    session: Session, path: Path
) -> None:
    path.write_text(session.text)
    trail = read_transcript(path)
    assert (trail.format, trail.partial) == (session.format, "")
    observed = observations(trail)
    for text, item in zip((TESTS, WRITTEN, REPORT), observed, strict=True):
        assert text in trail.read(item)
    assert (observed[0].command, trail.forgeable) == ("pytest -q", ("o2", "o3"))
    assert observed[2].facts[-1].startswith(FORGEABLE)
    assert QUOTED in claims(trail)[0]
    assert claims(trail)[-1] == FINAL


@every
def test_what_a_person_wrote_is_kept_if_that_is_known(
    session: Session, path: Path
) -> None:
    path.write_text(session.text)
    known = session.format not in (
        "codex-stream",
        "opencode-stream",
        "mini-swe-agent",
        "swe-agent",
    )  # it is not printed, or stands in a template of the program
    assert [one.text for one in read_transcript(path).said] == [
        "Make the tests pass."
    ] * known


@every
def test_a_claim_is_never_evidence(session: Session, path: Path) -> None:
    path.write_text(session.text)
    trail = read_transcript(path)
    evidence = Evidence(audit_request(Goal(objective="The tests pass."), trail))
    for item in observations(trail):
        for claim in claims(trail):
            assert evidence.check(Citation(observation=item.id, quote=claim)).objection
    assert not evidence.check(Citation(observation="o2", quote=WRITTEN)).objection


@every
def test_a_result_before_a_later_change_is_stale(session: Session, path: Path) -> None:
    path.write_text(session.text)
    trail = read_transcript(path)
    assert list(trail.stale) == ["o1"]
    assert trail.stale["o1"].endswith("report.txt changed after o1")
    request = audit_request(Goal(objective="The tests pass."), trail)
    checked = Evidence(request).check(Citation(observation="o1", quote=TESTS))
    assert checked.stale is not None
    assert checked.objection.startswith("o1 is stale: ")
    assert read_transcript(path, deliverable="response").stale == {}


@every
def test_the_last_text_is_the_response_if_that_is_judged(
    session: Session, path: Path
) -> None:
    path.write_text(session.text)
    trail = read_transcript(path, deliverable="response")
    (response,) = (item for item in observations(trail) if item.source == "response")
    assert trail.read(response).strip() == FINAL
    assert (
        len({item.id for item in observations(trail)}) == len(observations(trail)) == 4
    )


@of_lines
def test_a_torn_last_line_makes_the_trail_partial(session: Session, path: Path) -> None:
    count = session.text.count("\n")
    path.write_text(session.text[:-9])
    trail = read_transcript(path)
    assert trail.partial.startswith(f"line {count}, the last one, is torn")
    assert len(observations(trail)) >= 2


@of_lines
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda line: line[:-9], "not valid JSON"),
        (lambda line: b"\0" * len(line), "not valid JSON"),
        (lambda line: line[:9] + b"\xff" + line[9:], "not UTF-8"),
        (lambda _: b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too deeply"),
    ],
    ids=["torn", "zeros", "not-utf8", "deep"],
)
def test_a_damaged_line_in_the_middle_is_left_out_and_counted(
    session: Session, path: Path, damage: Callable[[bytes], bytes], reason: str
) -> None:
    lines = session.text.encode().splitlines()
    number = len(lines) - 1
    lines[number - 1] = damage(lines[number - 1])
    path.write_bytes(b"\n".join(lines) + b"\n")
    trail = read_transcript(path)
    assert trail.partial.startswith(f"line {number} (")
    assert reason in trail.partial
    assert trail.partial.endswith("is damaged; it was left out")
    assert observations(trail)


def test_damaged_lines_are_counted(path: Path) -> None:
    lines = SESSIONS["codex"].text.splitlines()
    lines[2:2] = ["", "\0\0"]
    lines[5] = lines[5][:20]
    path.write_text("\n".join(lines) + "\n")
    assert read_transcript(path).partial == (
        "2 records are damaged, the first is line 4 (not valid JSON: Expecting value "
        "(column 1)); they were left out"
    )


@of_documents
def test_a_torn_document_is_an_error(session: Session, path: Path) -> None:
    path.write_text(session.text[:-9])
    error = refused(path)
    assert error.message.startswith(
        f"{path}:{session.text.count(chr(10)) + 1 - session.text[-9:].count(chr(10))}  not"
    )


@of_documents
def test_a_document_that_is_nested_too_deeply_is_an_error(
    session: Session, path: Path
) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    whole = session.text.rstrip()
    text = f"{whole[:-1].rstrip()}, {deep}]"
    if whole.startswith("{"):
        text = f'{whole[:-1].rstrip()}, "x": {deep}}}'
    path.write_text(text)
    assert "nested too deeply" in refused(path, session.format).message


def test_blocks_that_are_nested_too_deeply_for_a_reader_are_an_error_with_their_line(
    path: Path,
) -> None:
    lines = SESSIONS["claude-code"].text.splitlines()
    lines[3] = lines[3].replace('"content": [', f'"content": [{"[" * 700}{"]" * 700}, ')
    path.write_text("\n".join(lines))
    assert refused(path).message == f"{path}:4  the JSON is nested too deeply"


@of_documents
def test_a_document_that_is_too_large_is_an_error(
    session: Session, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goalrunner.transcripts.source.LARGEST_DOCUMENT", 20_000)
    path.write_text(session.text.replace(TESTS, TESTS + "x" * 30_000))
    assert "than 0 MiB" in refused(path, session.format).message


@of_lines
def test_a_line_that_is_too_long_is_left_out_and_counted(
    session: Session, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goalrunner.transcripts.source.LONGEST_ROW", 20_000)
    path.write_text(session.text.replace(TESTS, TESTS + "x" * 30_000))
    trail = read_transcript(path)
    assert "(the line is longer than 0 MiB)" in trail.partial
    assert claims(trail)[-1] == FINAL


@of_lines
@pytest.mark.parametrize(
    "damage",
    [lambda line: b"\0" * 300, lambda line: line[20:], lambda line: line[:-9]],
    ids=["zeros", "begins-late", "torn"],
)
def test_a_damaged_first_line_is_left_out_and_counted(
    session: Session, path: Path, damage: Callable[[bytes], bytes]
) -> None:
    first, *others = session.text.encode().splitlines()
    path.write_bytes(b"\n".join([damage(first), *others]) + b"\n")
    trail = read_transcript(path, format=session.format)
    assert trail.partial.startswith("line 1 (not valid JSON")
    assert observations(trail)


def test_a_transcript_in_utf16_is_named_as_such(path: Path) -> None:
    path.write_text(SESSIONS["codex"].text, encoding="utf-16")
    error = refused(path)
    assert error.message == f"{path}  the transcript is UTF-16, not UTF-8"
    assert error.hint == f"iconv -f UTF-16 -t UTF-8 {path} > NEW converts it"


@of_lines
@pytest.mark.parametrize(
    "written",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: f"\ufeff{text}",
        lambda text: text.replace("\n", "\n\n"),
    ],
    ids=["crlf", "bom", "empty-lines"],
)
def test_ends_of_lines_and_a_mark_at_the_beginning_are_no_damage(
    session: Session, path: Path, written: Callable[[str], str]
) -> None:
    path.write_bytes(written(session.text).encode())
    trail = read_transcript(path)
    assert (trail.format, trail.partial) == (session.format, "")
    assert TESTS in trail.read(observations(trail)[0])


@pytest.mark.parametrize("name", [name for name, _ in formats() if name not in OTHERS])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n \n",
        b"\x7fELF\0\0\0",
        b"\x89PNG\r\n\x1a\n\0",
        b"plain words",
        b"[]",
        b"{}",
    ],
)
def test_a_file_without_a_transcript_is_no_trail(
    name: str, content: bytes, path: Path
) -> None:
    path.write_bytes(content)
    refused(path)
    refused(path, name)


@of_lines
@pytest.mark.parametrize("other", LINES, ids=lambda session: session.format)
def test_records_of_another_format_in_the_middle_are_an_error(
    session: Session, other: Session, path: Path
) -> None:
    names = {session.format, other.format}
    if len(names) == 1 or names in ALIKE:
        pytest.skip("the same records")
    path.write_text(session.text + other.text)
    error = refused(path, session.format)
    assert int(error.message.removeprefix(f"{path}:").split()[0]) > session.text.count(
        "\n"
    )
    assert session.format in error.hint


@every
def test_a_transcript_comes_from_a_pipe(
    session: Session, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text(session.text)
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(session.text.encode()))
    )
    piped, saved = read_transcript("-"), read_transcript(path)
    assert piped.format == session.format
    assert [piped.read(item) for item in piped.items] == [
        saved.read(item) for item in saved.items
    ]


def test_a_named_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=(SESSIONS["codex"].text,))
    writer.start()
    assert read_transcript(pipe).format == "codex"
    writer.join()


def test_an_unknown_format_is_an_error_with_a_suggestion(path: Path) -> None:
    path.write_text("[]")
    with pytest.raises(UsageError) as caught:
        read_transcript(path, format="claude-cod")
    assert (caught.value.message, caught.value.hint) == (
        '"claude-cod" is not a format of transcripts',
        "did you mean claude-code?",
    )


@of_documents
def test_a_document_that_is_not_utf8_is_an_error_with_its_line(
    session: Session, path: Path
) -> None:
    data = session.text.encode()
    at = data.index(TESTS.encode())
    path.write_bytes(data[:at] + b"\xff" + data[at:])
    line = data.count(b"\n", 0, at) + 1
    assert (
        refused(path, session.format).message
        == f"{path}:{line}  the transcript is not UTF-8"
    )


@pytest.mark.parametrize("form", ["lines", "array", "object"])
def test_long_chats_need_little_memory(
    form: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = json.loads(SESSIONS["openai-chat"].text)
    big = {**chat[2], "content": "x" * 100_000}
    rows = [json.dumps(row) for row in [*chat, *([big] * 220)]]
    texts = {
        "lines": "\n".join(rows),
        "array": f"[{', '.join(rows)}]",
        "object": f'{{"model": "x", "messages": [{", ".join(rows)}]}}',
    }
    path.write_text(texts[form])
    del texts, rows
    for name in (path, "-"):
        with path.open("rb") as file:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
            tracemalloc.start()
            try:
                trail = read_transcript(name)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert len(observations(trail)) == 223
        assert trail.read(trail.items[-1]) == "x" * 100_000
        assert peak < 20_000_000 < path.stat().st_size


def test_spans_in_one_group_need_little_memory(path: Path) -> None:
    document = json.loads(SESSIONS["opentelemetry"].text)
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    texts = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "bash",
        "gen_ai.tool.call.result": "x" * 100_000,
    }
    attributes = [
        {"key": key, "value": {"stringValue": value}} for key, value in texts.items()
    ]
    for number in range(200):
        spans.append({"spanId": f"big-{number}", "attributes": attributes})
    path.write_text(json.dumps(document))
    del document, spans
    tracemalloc.start()
    try:
        trail = read_transcript(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert trail.format == "opentelemetry"
    assert len(trail.items) > 200
    assert peak < 10_000_000 < path.stat().st_size
