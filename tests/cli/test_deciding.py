"""`goal approve`, `goal deny` and `goal answer` without RUN: the question is shown first, and a person confirms."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from goalrunner.app.run_options import RunOptions
from goalrunner.app.session import arun
from goalrunner.cli.main import main
from goalrunner.goalfile.loading import load_goal
from goalrunner.records.run_summaries import run_summaries
from tests.cli.test_afterwards import Terminal
from tests.support.recordings import agent, recording, write_file

pytestmark = pytest.mark.slow


def _finish(root: Path, settings: str, *replies: dict[str, Any]) -> Path:
    """Run a goal until it waits for a person, and return its home."""
    (root / "work").mkdir()
    model = recording(root / "models.jsonl", *replies)
    lines = [
        'objective = "Write a greeting."',
        f'model = "{model}"',
        'validator = "test -e hello.txt"',
        settings,
    ]
    (root / "goal.toml").write_text(
        "\n".join([*lines, "[workspace]", f'path = "{root / "work"}"', ""])
    )
    asyncio.run(arun(load_goal(root / "goal.toml"), RunOptions(home=root / "home")))
    return root / "home"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a run whose result waits for an approval."""
    replies = agent("", write_file("hello.txt", "hello\n")), agent("It is written.")
    return _finish(
        tmp_path_factory.mktemp("waiting"),
        '[approvals]\nrequire = ["complete"]',
        *replies,
    )


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a run whose agent has asked a question."""
    question = {"name": "ask", "arguments": {"question": "Which language?"}}
    return _finish(
        tmp_path_factory.mktemp("asked"),
        "",
        agent("", question),
        agent("I wait for the answer."),
    )


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go back to the present folder at the end."""
    monkeypatch.chdir(tmp_path)


def _waiting(home: Path, own_home: Path) -> str:
    """Copy a home into the one of the test, go to the workspace of its run, and return the id of the run."""
    shutil.copytree(home, own_home, dirs_exist_ok=True)
    os.chdir(home.parent / "work")
    return str(run_summaries(own_home)[0]["run_id"])


def test_an_approval_without_run_shows_the_question_and_asks(
    finished: Path,
    own_home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = _waiting(finished, own_home)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert main(["approve"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(
        f"run {run}\napproval   a1: All checks passed. Accept the result?\n"
    )
    assert "           changed since the start: hello.txt\n" in shown.err
    assert "  │ +hello\n" in shown.err
    assert shown.err.endswith("Approve a1? [y/N]\nnothing was decided\n")

    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert main(["approve"]) == 0
    assert capsys.readouterr().out.endswith(f"To continue:\ngoal resume {run}\n")


def test_without_a_terminal_the_run_must_be_named(
    finished: Path,
    own_home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = _waiting(finished, own_home)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert main(["deny"]) == 2
    said = "Error: goal deny without RUN asks first, and stdin is not a terminal\n"
    assert capsys.readouterr().err.endswith(f"{said}goal deny {run} a1\n")
    assert main(["deny", run, "--reason", "not yet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["approval"]["decision"] == "denied"


def test_several_waiting_runs_are_listed(
    finished: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _waiting(finished, own_home)
    shutil.copytree(own_home / "runs" / run, own_home / "runs" / "b2aa-other")
    assert main(["approve"]) == 2
    first, *commands = capsys.readouterr().err.splitlines()
    assert first == "Error: 2 runs wait for a decision; name one of them"
    assert sorted(commands) == sorted(
        ["goal approve b2aa-other", f"goal approve {run}"]
    )
    assert main(["deny"]) == 2
    assert sorted(capsys.readouterr().err.splitlines()[1:]) == sorted(
        ["goal deny b2aa-other", f"goal deny {run}"]
    )


@pytest.mark.parametrize(
    ("words", "what"), [(["approve"], "a decision"), (["answer", "yes"], "an answer")]
)
def test_no_waiting_run_is_an_error(
    own_home: Path, capsys: pytest.CaptureFixture[str], words: list[str], what: str
) -> None:
    assert main(words) == 2
    assert (
        capsys.readouterr().err
        == f"Error: no run of this workspace waits for {what}\ngoal list shows the runs\n"
    )


def test_a_run_that_waits_in_another_workspace_is_only_named(
    finished: Path, own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _waiting(finished, own_home)
    os.chdir(tmp_path)
    assert main(["approve", "--yes"]) == 2
    elsewhere = f"{run} in {finished.parent / 'work'} waits: Write a greeting."
    assert capsys.readouterr().err == (
        f"Error: no run of this workspace waits for a decision; {elsewhere}\ngoal approve {run}\n"
    )


def test_a_text_alone_answers_the_run_that_waits(
    asked: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _waiting(asked, own_home)
    assert main(["answer", "English"]) == 0
    said = capsys.readouterr()
    assert (
        said.err
        == f"run {run}\nquestion   Only a person can answer this:\n  │ Which language?\n"
    )
    assert said.out.startswith("answered: Which language?\n")


def test_a_run_alone_shows_the_question_and_needs_an_answer(
    asked: Path,
    own_home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = _waiting(asked, own_home)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main(["answer", run]) == 2
    said = capsys.readouterr().err
    assert "  │ Which language?\n" in said
    assert said.endswith(f'Error: the answer is missing\ngoal answer {run} "..."\n')

    monkeypatch.setattr("goalrunner.cli.dialog.is_interactive", lambda: True)
    monkeypatch.setattr(sys, "stdin", Terminal("\nEnglish\n"))
    assert main(["answer"]) == 0
    assert capsys.readouterr().err.endswith("Your answer: Your answer: ")


@pytest.mark.slow
def test_evidence_names_an_accepted_change_of_checks_and_who_accepted_it(
    tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "project"
    place.mkdir()
    (place / "test_a.py").write_text("raise SystemExit(1)\n")
    (place / "goal.toml").write_text(
        'objective = "x"\nvalidator = "python3 test_a.py"\nmax_iterations = 1\n'
        '[agent]\nuse = "command"\ncommand = ["sh", "-c", "echo > test_a.py"]\n'
        f'[workspace]\npath = "{place}"\n'
    )
    os.chdir(place)
    assert main(["run"]) == 3
    assert (
        "waits for a person: a1 checks changed: test_a.py\n" in capsys.readouterr().out
    )
    assert main(["approve", "--yes"]) == 0
    assert main(["resume", "--quiet"]) == 0
    run = next((own_home / "runs").iterdir())
    for command in (
        ["show", "--evidence"],
        ["show"],
        ["export", "--comment"],
        ["report"],
    ):
        capsys.readouterr()
        assert main(command) == 0
        said = capsys.readouterr().out
        said = (
            (run / "report.html").read_text()
            if command == ["report"]
            else said.replace("\\", "")
        )
        assert "checks changed: test_a.py" in said, command
        assert re.search(
            r"a1 was approved by \S+@\S+ \(without a sandbox, .*\) at \d{4}-\d\d-\d\d .* UTC\.",
            said,
        ), command
    assert (
        'class="warn">checks changed: test_a.py' in said
    )  # in the part with the evidence
    main(["show", "--evidence", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (
        "checks changed: test_a.py" in found["labels"],
        found["approvals"][0]["decision"],
    ) == (True, "approved")
