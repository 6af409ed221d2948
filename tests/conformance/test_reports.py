"""What each real program reports of two rounds, and the session that it saves of them, as the runner understands both."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from goalrunner.core import events
from goalrunner.core.observation import Claim, Observation
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.redaction import Redactor
from goalrunner.transcripts import read_transcript
from tests.conformance.checks import spent
from tests.conformance.installed import NAMES, missing, no_keys
from tests.conformance.moves import Runs, Says, Uses
from tests.conformance.place import Place, Ran
from tests.conformance.program import Program

pytestmark = [pytest.mark.agents, pytest.mark.timeout(240)]

RESULT = {name: [("exit 3",)] for name in ("claude", "codex", "opencode", "openhands")}
"""How some agents report a command that exits with 3."""
FAILED = [("error",), ()]
"""The others report only that it failed, or not even that."""

SAVED = {
    "claude": ("claude-code", ".claude/projects/*/*.jsonl"),
    "codex": ("codex", ".codex/sessions/**/rollout-*.jsonl"),
    "gemini": ("gemini", ".gemini/tmp/*/chats/session-*.json*"),
}
"""Format of each agent's sessions, and where they are below HOME."""


@pytest.mark.parametrize("name", NAMES)
async def test_two_rounds_are_read_from_its_output_and_from_its_session(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Program(name) as program:
        if why := missing(program.preset, program.protocol):
            pytest.skip(why)
        no_keys(monkeypatch)
        place = Place(tmp_path, program)
        cost = Uses(1000, 100, 0.0)
        place.prepare(
            (
                cost,
                Says("I begin."),
                Runs("echo hi > a.txt; echo made; exit 3"),
                Says("First is done."),
            ),
            (
                cost,
                Says("Again."),
                Runs("cat a.txt; touch done"),
                Says("Second is done."),
            ),
        )
        ran = await place.run()
    assert ran.how == ("complete", "satisfied", 2), ran.outcome.message
    _said_and_did(place, ran)
    _used(place, ran)
    if name in (*SAVED, "opencode"):
        _saved(place)


def _said_and_did(place: Place, ran: Ran) -> None:
    """Words and commands of both rounds are told apart, and marked as its own."""
    spoken = [text.rpartition(" (")[0] for text in _said(ran)]
    assert spoken == ["I begin.", "First is done.", "Again.", "Second is done."]
    made, read = ran.observations
    assert "echo hi > a.txt" in made.command
    assert "cat a.txt" in read.command
    assert made.facts in RESULT.get(place.agent.name, FAILED)
    assert "made" in _output(ran, made)
    assert "hi" in _output(ran, read)
    assert {seen.reported_by for seen in (made, read)} == {place.agent.name}
    assert all(seen.before and seen.after is None for seen in (made, read))
    opened = [
        item.event.session.id
        for item in ran.records
        if isinstance(item.event, events.SessionOpened)
    ]
    assert len(set(opened)) == 1
    endings = [
        item.event.ending
        for item in ran.records
        if isinstance(item.event, events.AgentRan)
    ]
    assert endings == ["exit 0"] * 2


def _used(place: Place, ran: Ran) -> None:
    """Tokens and dollars are those of the rounds, although some programs report those of the session."""
    if "usage" in place.agent.can:
        assert (spent(place).input_tokens, spent(place).output_tokens) == (2000, 200)
    used = [
        item.event.usage
        for item in ran.records
        if isinstance(item.event, events.UsageRecorded)
    ]
    dollars = [usage.cost_usd for usage in used if usage.cost_usd]
    if place.agent.name == "claude":
        first, second = dollars
        assert first == pytest.approx(second)
    else:
        # The server's model is on no price list: who reports 0 for it has no price, and not a free model.
        assert dollars == []
        assert all(usage.cost_usd is None for usage in used)


def _saved(place: Place) -> None:
    """The session is read as a transcript, in which words are claims alone."""
    name = place.agent.name
    # Sessions of opencode are in a database. Gemini CLI goes on in a second file if another minute has begun.
    session = (
        _exported(place)
        if name == "opencode"
        else min((place.root / "user").glob(SAVED[name][1]))
    )
    trail = read_transcript(session)
    assert (trail.format, trail.partial) == (
        SAVED[name][0] if name in SAVED else name,
        "",
    )
    seen = [item for item in trail.items if isinstance(item, Observation)]
    assert "echo hi > a.txt" in seen[0].command
    assert "made" in trail.read(seen[0])
    assert any(
        "First is done." in trail.read(item)
        for item in trail.items
        if isinstance(item, Claim)
    )
    assert not any("is done." in trail.read(item) for item in seen)


def _exported(place: Place) -> Path:
    """What opencode prints of its only session."""

    def opencode(*arguments: str) -> str:
        argv = [
            shutil.which("opencode", path=place.environ["PATH"]) or "opencode",
            *arguments,
        ]
        return subprocess.run(
            argv,
            env=place.environ,
            cwd=place.workspace,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    (listed,) = json.loads(opencode("session", "list", "--format", "json"))
    path = place.root / "exported"
    path.write_text(opencode("export", listed["id"]))
    return path


def _said(ran: Ran) -> list[str]:
    lines = (Path(ran.outcome.run_path) / "transcript.jsonl").read_text().splitlines()
    messages = [json.loads(line) for line in lines]
    return [
        str(one["content"])
        for one in messages
        if one.get("role") == "assistant" and one.get("content")
    ]


def _output(ran: Ran, seen: Observation) -> str:
    assert seen.output is not None
    return (
        ArtifactStore(Path(ran.outcome.run_path) / "artifacts", Redactor({}))
        .read(seen.output)
        .decode()
    )
