"""The examples of docs/contributing.md run, and do what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from goalrunner.agents.parser import (
    CallFinished,
    CallStarted,
    SessionStarted,
    Text,
    TurnEnded,
    UsageReported,
)
from goalrunner.cli.app import COMMANDS
from goalrunner.core import labels, tools
from goalrunner.core.events import NoteGiven, RunRules
from goalrunner.core.observation import Claim, Observation
from goalrunner.transcripts.source import TranscriptSource
from goalrunner.validators import runners
from tests.support.folding import state_after
from tests.support.kept_run import kept_run

PAGE = Path(__file__).parents[1] / "docs" / "contributing.md"


def example(heading: str) -> SimpleNamespace:
    """The names that the code below a heading defines."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert code.count("\n") <= 32
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(code, f"{PAGE.name}: {heading}", "exec"), names)
    return SimpleNamespace(**names)


def test_the_agent_reports_its_turn() -> None:
    lines = [
        {"type": "begin", "session": "s1"},
        {"type": "command", "id": "c1", "command": "pytest -q"},
        {"type": "output", "id": "c1", "text": "1 passed", "exit_code": 0},
        {"type": "message", "text": "Done."},
        {"type": "progress"},
        {"type": "end", "tokens_in": 900, "tokens_out": 40},
    ]
    parser = example("Add an agent").Mine()
    assert [event for line in lines for event in parser.events(line)] == [
        SessionStarted("s1"),
        CallStarted("c1", "shell", "pytest -q"),
        CallFinished("c1", "1 passed", 0),
        Text("Done."),
        UsageReported(900, 40),
        TurnEnded(),
    ]
    assert parser.preset.stream == "mine"


def test_the_reader_recognises_and_reads_a_transcript(tmp_path: Path) -> None:
    rows = [
        {"entry": "user", "text": "Fix parse()."},
        {"entry": "agent", "text": "I run the tests."},
        {"entry": "call", "id": "c1", "command": "pytest -q"},
        {"entry": "output", "id": "c1", "text": "1 passed", "exit_code": 0},
    ]
    path = tmp_path / "session.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    reader = example("Add a transcript format").MineReader()
    source = TranscriptSource(path)
    assert reader.matches(source)
    claim, result = reader.read(source, "workspace").items
    assert isinstance(claim, Claim)
    assert isinstance(result, Observation)
    assert (result.source, result.command) == ("shell", "pytest -q")
    assert (result.facts, result.reported_by) == (("exit 0",), "mine")


@pytest.mark.parametrize(
    ("line", "text", "failures"),
    [
        ("100% tests passed, 0 tests failed out of 3", "3 passed", ""),
        ("67% tests passed, 1 tests failed out of 3", "1 failed, 2 passed", "1 failed"),
    ],
)
def test_the_report_of_a_test_runner_is_read(
    line: str, text: str, failures: str
) -> None:
    names = example("Add a report of a test runner")
    read = names.READERS["ctest"]
    (summary,) = read(f"log: {line}\n{line}\n\nTotal Test time (real) = 0.01 sec\n")
    assert (summary.text, summary.failures) == (text, failures)
    assert (summary.ran, summary.none_ran) == (3, False)
    assert list(read("")) == []
    # The tables that the page names have rows of this kind.
    assert all(isinstance(runner, tools.Runner) for runner in tools.TEST_RUNNERS)
    assert runners.READERS.keys() == {runner.name for runner in tools.TEST_RUNNERS}


def test_the_label_is_in_the_state() -> None:
    names = example("Add a label")
    state = names.note_given(state_after(RunRules()), NoteGiven(note_id="n1", text="x"))
    assert state.labels == ("advised",)
    assert names.EXPLANATIONS.keys() == set(names.Label)
    # The label is an example; those of runs have their meaning and cure as well.
    assert "advised" not in list(labels.Label)
    assert labels.EXPLANATIONS.keys() == set(labels.Label)


def test_the_command_prints_what_a_run_has_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = kept_run(tmp_path)
    monkeypatch.setenv("GOAL_HOME", str(tmp_path))
    command = typer.Typer(add_completion=False)
    command.command()(example("Add a command").cost)
    done = CliRunner().invoke(command, [folder.run_id])
    assert done.exit_code == 0, done.output
    assert re.fullmatch(r"[\d.]+ s.*\n", done.stdout)
    values = json.loads(CliRunner().invoke(command, [folder.run_id, "--json"]).stdout)
    assert values.keys() == {"tokens", "cost_usd"}
    assert "cost" not in COMMANDS
