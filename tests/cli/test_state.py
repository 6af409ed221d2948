"""`goal show --state`, `--at` and `--events`: a run explained from its log alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from goalrunner.cli.main import main

GOLDEN = Path(__file__).parents[1] / "records" / "golden" / "quickstart.jsonl"


@pytest.fixture
def run(own_home: Path) -> str:
    """The id of a run of three rounds, of which nothing is there but its log."""
    folder = own_home / "runs" / "qwja-make-slugify"
    folder.mkdir(parents=True)
    shutil.copy(GOLDEN, folder / "events.jsonl")
    return folder.name


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    code = main(["show", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_state_says_what_was_done_on_which_evidence_and_why_it_ended(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = said(capsys, run, "--state")
    assert code == 0
    assert "status     complete (satisfied)" in out
    assert "why        the run ends as complete (satisfied): verdict of round 3" in out
    assert "verdict    1.00 · complete · " in out


@pytest.mark.parametrize(
    ("at", "status", "why"),
    [
        ("2", "running", "the validators run once before round 1"),
        ("4", "running: baseline", "the validators run once before round 1"),
        ("20", "running: round-1", "the goal is not met yet: the agent works on it"),
        (
            "70",
            "running: audit-3",
            "the validators passed, or the agent is blocked: the judge is next",
        ),
    ],
)
def test_the_state_after_an_event(
    run: str, at: str, status: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = said(capsys, run, "--at", at)
    lines = dict(
        line.split(maxsplit=1) for line in out.splitlines() if not line.startswith(" ")
    )
    assert (code, lines["event"].split()[0], lines["status"], lines["why"]) == (
        0,
        at,
        status,
        why,
    )


def test_every_event_is_a_line(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, run, "--events")
    assert (code, len(out.splitlines())) == (0, 74)
    assert out.splitlines()[-1].endswith(
        "run_ended              stop_reason satisfied · message verdict of round 3"
    )
    code, out, _ = said(capsys, run, "--events", "--json")
    assert [json.loads(line)["seq"] for line in out.splitlines()] == list(range(1, 75))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("--at", "75"),
            "the run has 74 events\ngoal show RUN --at N with N up to 74\n",
        ),
        (
            ("--evidence", "--path"),
            "an observation, --path, --evidence, --state (--at) and --events cannot be combined\nuse one of them\n",
        ),
        (
            ("--state", "--events"),
            "an observation, --path, --evidence, --state (--at) and --events cannot be combined\nuse one of them\n",
        ),
    ],
)
def test_what_is_not_there_is_said(
    run: str, arguments: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = said(capsys, run, *arguments)
    assert (code, err) == (2, f"Error: {error}")
