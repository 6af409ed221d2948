"""What each real program reports of a round, as the runner understands it: words, commands, what they gave, dollars."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from goalrunner.core import events
from goalrunner.core.observation import Observation
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.redaction import Redactor
from tests.conformance.checks import DONE
from tests.conformance.installed import NAMES, missing, no_keys
from tests.conformance.moves import Runs, Says, Uses
from tests.conformance.place import Place, Ran
from tests.conformance.program import Program

pytestmark = [pytest.mark.agents, pytest.mark.timeout(120)]

RESULT = {name: [("exit 3",)] for name in ("codex", "opencode", "openhands")}
"""How some agents report a command that exits with 3."""
FAILED = [("error",), ()]
"""The others report only that it failed, or not even that."""


@pytest.fixture(params=NAMES)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A place of its own for one program, driven by its command."""
    with Program(request.param) as program:
        if why := missing(program.preset, program.protocol):
            pytest.skip(why)
        no_keys(monkeypatch)
        yield Place(tmp_path, program)


async def test_what_it_says_and_does_is_told_apart(place: Place) -> None:
    place.prepare(
        (Says("I begin."), Runs("echo hi > a.txt; echo made; exit 3"), Says("First is done.")),
        (Says("Again."), Runs("cat a.txt; touch done"), Says("Second is done.")),
    )
    ran = await place.run()
    assert ran.how == ("complete", "satisfied", 2), ran.outcome.message
    spoken = [text.rpartition(" (")[0] for text in _said(ran)]
    assert spoken == ["I begin.", "First is done.", "Again.", "Second is done."]
    made, read = ran.observations
    assert "echo hi > a.txt" in made.command
    assert "cat a.txt" in read.command
    assert made.facts in RESULT.get(place.agent.name, FAILED)
    assert "made" in _output(ran, made)
    assert "hi" in _output(ran, read)
    opened = [item.event.session.id for item in ran.records if isinstance(item.event, events.SessionOpened)]
    assert len(set(opened)) == 1
    endings = [item.event.ending for item in ran.records if isinstance(item.event, events.AgentRan)]
    assert endings == ["exit 0"] * 2


async def test_dollars_are_those_of_the_round_and_not_of_the_session(place: Place) -> None:
    cost = Uses(1000, 100, 0.0)
    place.prepare((cost, Runs("true"), Says("One.")), (cost, DONE, Says("Two.")))
    ran = await place.run()
    assert ran.how == ("complete", "satisfied", 2), ran.outcome.message
    used = [item.event.usage for item in ran.records if isinstance(item.event, events.UsageRecorded)]
    dollars = [usage.cost_usd for usage in used if usage.cost_usd]
    if place.agent.name == "claude":
        first, second = dollars
        assert first == pytest.approx(second)
    else:
        # The server's model is on no price list: who reports 0 for it has no price, and not a free model.
        assert dollars == []
        assert all(usage.cost_usd is None for usage in used)


def _said(ran: Ran) -> list[str]:
    lines = (Path(ran.outcome.run_path) / "transcript.jsonl").read_text().splitlines()
    messages = [json.loads(line) for line in lines]
    return [str(one["content"]) for one in messages if one.get("role") == "assistant" and one.get("content")]


def _output(ran: Ran, seen: Observation) -> str:
    assert seen.output is not None
    return ArtifactStore(Path(ran.outcome.run_path) / "artifacts", Redactor({})).read(seen.output).decode()
