"""Each transcript of `samples` and `stories` is read as the text beside it says.

A sample shows what a single format has of its own: further forms of a file, kinds of results, and what is known of an
exit. After an intended change, `pytest tests/transcripts --update-goldens` writes the texts.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goalrunner.core.errors import UsageError
from goalrunner.core.observation import Claim, Observation
from goalrunner.transcripts import SavedTrail, read_transcript
from tests.transcripts.sessions import SESSIONS, STORIES, transcripts_in

SAMPLES = Path(__file__).with_name("samples")
EVALUATION = SAMPLES / "openhands-v0-evaluation.jsonl"
FILES = [
    path
    for path in (*transcripts_in(SAMPLES), *transcripts_in(STORIES))
    if path != EVALUATION
]


def trail_text(trail: SavedTrail) -> str:
    """Return a trail for people: each observation and claim with its text."""
    lines = [f"format {trail.format}"]
    for item in trail.items:
        if isinstance(item, Claim):
            lines.append(f"claim of round {item.round}")
        else:
            facts = ", ".join(item.facts) or "no facts"
            lines.append(
                f"{item.id} of round {item.round} by {item.reported_by}: {item.source} ({facts})"
            )
            lines += [f"  $ {line}" for line in item.command.splitlines()]
        lines += [f"  | {line}" for line in trail.read(item).splitlines()]
    lines += [f"stale: {reason}" for reason in trail.stale.values()]
    if trail.partial:
        lines.append(f"partial: {trail.partial}")
    if trail.forgeable:
        lines.append(f"perhaps written by the agent: {', '.join(trail.forgeable)}")
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_transcript_is_read_as_its_text_says(
    path: Path, request: pytest.FixtureRequest
) -> None:
    trail, judged = read_transcript(path), read_transcript(path, deliverable="response")
    response = [
        item
        for item in judged.items
        if isinstance(item, Observation) and item.source == "response"
    ]
    text = trail_text(trail) + "".join(
        f"response: {judged.read(item)}\n" for item in response
    )
    expected = path.with_name(f"{path.name}.txt")
    if request.config.getoption("--update-goldens"):
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")


def texts_of(path: Path | str) -> list[str]:
    """Return the texts of what a transcript shows."""
    trail = read_transcript(path)
    return [trail.read(item) for item in trail.items]


def test_one_conversation_of_an_evaluation_is_chosen_by_name(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=rf"several conversations; choose one, as {EVALUATION}#a-1"
    ):
        read_transcript(EVALUATION)
    with pytest.raises(UsageError, match="the file has no conversation 'c-3'"):
        read_transcript(f"{EVALUATION}#c-3")
    first = texts_of(SESSIONS["openhands-v0"].path)
    assert texts_of(f"{EVALUATION}#a-1") == first
    assert texts_of(f"{EVALUATION}#b-2") == first[:2]
    single = tmp_path / "single.json"
    single.write_text(
        json.dumps(json.loads(EVALUATION.read_text().splitlines()[0]), indent=1)
    )
    assert texts_of(single) == first


def test_a_name_with_a_number_sign_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a#b"
    path.write_text(SESSIONS["codex"].text)
    (tmp_path / "a").write_text("")
    assert read_transcript(path).format == "codex"


def folder(tmp_path: Path, name: str, form: str) -> Path:
    """Return a folder with one file for each event of a session."""
    text = SESSIONS[name].text
    events = (
        json.loads(text)
        if text.startswith("[")
        else [json.loads(line) for line in text.splitlines()]
    )
    inner = tmp_path / "conversation" / "events"
    inner.mkdir(parents=True)
    for number, event in enumerate(events):
        (inner / form.format(number)).write_text(json.dumps(event))
    (inner.parent / "base_state.json").write_text("{}")
    return inner.parent


FOLDERS = pytest.mark.parametrize(
    ("name", "form"),
    [("openhands", "event-{:05d}-0f1e2d3c.json"), ("openhands-v0", "{}.json")],
)


@FOLDERS
def test_openhands_events_in_a_folder_are_read_in_their_order(
    tmp_path: Path, name: str, form: str
) -> None:
    conversation = folder(tmp_path, name, form)
    for place in (conversation, conversation / "events"):
        trail = read_transcript(place)
        assert (trail.format, trail.partial) == (name, "")
        assert texts_of(place) == texts_of(SESSIONS[name].path)


@FOLDERS
def test_a_folder_without_some_events_is_partial(
    tmp_path: Path, name: str, form: str
) -> None:
    conversation = folder(tmp_path, name, form)
    (conversation / "events" / form.format(6)).unlink()
    (conversation / "events" / form.format(7)).unlink()
    assert (
        read_transcript(conversation).partial
        == "2 of the events are missing: the numbers of the files have gaps"
    )


@FOLDERS
def test_a_damaged_event_is_left_out_and_counted(
    tmp_path: Path, name: str, form: str
) -> None:
    files = sorted(
        (folder(tmp_path, name, form) / "events").iterdir(),
        key=lambda file: file.stat().st_mtime_ns,
    )
    files[-1].write_text(files[-1].read_text()[:-9])
    partial = read_transcript(files[0].parent).partial
    assert partial.startswith(
        f"{files[-1].name}, the last one, is torn (not valid JSON"
    )
    files[5].write_text("{")
    partial = read_transcript(files[0].parent).partial
    assert f"{files[5].name} (not valid JSON: " in partial
    assert partial.endswith("is damaged; it was left out")
