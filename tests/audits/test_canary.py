"""`goal judge canary` and `goal run --canary`: a recorded judge is asked about the unchanged example, then about each copy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goalrunner.audits.canary_copies import MUTATIONS
from goalrunner.cli.main import main
from tests.support import told_run
from tests.support.finished_run import CRITERION, finish_run
from tests.support.recordings import judge, quote, recording
from tests.support.scripted_api import ScriptedApi
from tests.support.told_run import outcome

CRITERIA = ("parse('') returns an empty Document", "all tests pass")


def verdict(*evidence: dict[str, str]) -> dict[str, Any]:
    return judge(*((name, list(evidence)) for name in CRITERIA), missing="a green run")


ACCEPTS, REFUSES = verdict(quote("o4", "24 passed in 0.31s")), verdict()
CAREFUL = [ACCEPTS, *[REFUSES] * len(MUTATIONS)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def goal_file(folder: Path, *replies: dict[str, Any]) -> str:
    recording(folder / "judge.jsonl", *replies)
    text = 'objective = "Make it."\nvalidator = "true"\nmodel = "openai/gpt-5"\njudge = "scripted/judge.jsonl"\n'
    (folder / "goal.toml").write_text(text)
    return "goal.toml"


def test_a_careful_judge_is_zero(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", "canary", goal_file(folder, *CAREFUL)]) == 0
    captured = capsys.readouterr()
    assert (
        captured.err
        == f"Asking the judge scripted/{folder}/judge.jsonl about 8 copies that prove nothing\n"
    )
    lines = captured.out.splitlines()
    assert [line.split()[:3] for line in lines[1:10]] == [
        ["·", "unchanged", "accepts"],
        *(["✓", name, "refuses"] for name in MUTATIONS),
    ]
    assert lines[3].endswith(
        "not complete  The commands are left, without output and exit codes."
    )
    assert lines[-1] == "0 misses of 8 copies · 0 tokens · $0.00"


def test_a_judge_that_believes_everything_is_one_and_its_misses_are_listed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", "canary", goal_file(folder, *[ACCEPTS] * 30)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[2:10]] == [
        ["✗", name, "accepts"] for name in MUTATIONS
    ]
    assert [line.split()[1] for line in lines[2:10] if "not complete" not in line] == [
        "contradicted"
    ]
    assert lines[-1].startswith(
        "8 misses of 8 copies, 1 of them complete after the check of the citations · "
    )


def test_the_result_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replies = [ACCEPTS, REFUSES, REFUSES, REFUSES, ACCEPTS, *[REFUSES] * 4]
    assert main(["judge", "canary", goal_file(folder, *replies), "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert value["misses"] == ["contradicted"]
    assert (value["judge"], value["unreadable"]) == (
        f"scripted/{folder}/judge.jsonl",
        [],
    )
    assert value["unchanged"]["judge_accepts"] is True
    assert [copy["judge_accepts"] for copy in value["copies"]] == [
        False,
        False,
        False,
        True,
        *[False] * 4,
    ]
    assert value["copies"][3]["complete_after_check"] is True
    assert value["copies"][0]["missing"] == "a green run"


def test_a_judge_that_cannot_be_read_is_four(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unreadable = {"account": "judge", "text": "looks fine"}
    assert main(["judge", "canary", goal_file(folder, *[unreadable] * 27)]) == 4
    assert "?  claims-only          not readable" in capsys.readouterr().out


def test_a_judge_that_refuses_everything_gets_a_note(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", "canary", goal_file(folder, *[REFUSES] * 9)]) == 0
    assert "Note: the judge also refuses the unchanged copy" in capsys.readouterr().err


def test_a_recording_is_played_one_copy_at_a_time(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = verdict(quote("o4", "24 failed in 0.31s"))  # asked about once more
    assert main(["judge", "canary", goal_file(folder, wrong, *CAREFUL), "--json"]) == 0
    assert (
        json.loads(capsys.readouterr().out)["unchanged"]["complete_after_check"] is True
    )


def test_a_model_is_tested_without_a_goal_file(folder: Path) -> None:
    model = recording(folder / "other.jsonl", *CAREFUL)
    assert main(["judge", "canary", "--judge", model]) == 0


def test_another_model_replaces_the_judge_of_the_goal(folder: Path) -> None:
    goal_file(folder, *CAREFUL)
    assert (
        main(
            [
                "judge",
                "canary",
                "--judge",
                recording(folder / "other.jsonl", *[ACCEPTS] * 30),
            ]
        )
        == 1
    )
    assert main(["judge", "canary"]) == 0


def test_a_run_is_named_by_its_id(
    folder: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = finish_run(folder / "finished").copied(own_home)
    replies = [
        judge((CRITERION, [quote("o6", "hello, dear friend")])),
        *[judge((CRITERION, []), missing="proof")] * 8,
    ]
    assert (
        main(
            [
                "judge",
                "canary",
                run.folder.run_id,
                "--judge",
                recording(folder / "other.jsonl", *replies),
            ]
        )
        == 0
    )
    assert "·  unchanged            accepts  complete  " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no judge is given\nadd --judge MODEL, or set GOAL_JUDGE\n"),
        (["none.toml"], "none.toml  no such file"),
        (["none", "--judge", "a/b"], "there is no run in "),
        (
            ["--judge", "agent"],
            'judge = "agent" needs a model of the agent\nadd --judge MODEL\n',
        ),
    ],
)
def test_what_is_missing_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["judge", "canary", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"Error: {said}")


def test_a_run_does_not_start_with_a_judge_that_believes_claims(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = ScriptedApi([outcome()]).install(monkeypatch)
    assert main(["run", goal_file(folder, *[ACCEPTS] * 30), "--canary"]) == 4
    assert api.goals == []
    errors = capsys.readouterr().err
    assert (
        f"judge scripted/{folder}/judge.jsonl accepts 8 of 8 examples that prove nothing: claims-only, "
        in errors
    )


def test_a_run_starts_with_a_careful_judge(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = ScriptedApi([outcome()], told_run.two_rounds()).install(monkeypatch)
    assert main(["run", goal_file(folder, *CAREFUL), "--canary"]) == 0
    assert len(api.goals) == 1


def test_a_run_without_a_judge_has_none_to_test(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [
        "run",
        "--objective",
        "Make it.",
        "--validator",
        "true",
        "--model",
        "openai/gpt-5",
        "--canary",
    ]
    assert main(line) == 2
    assert "--canary needs a judge" in capsys.readouterr().err
