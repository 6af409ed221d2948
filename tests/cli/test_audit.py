"""`goal status TRANSCRIPT`: the judge is asked, through a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goalrunner.cli.main import main

CHAT = [
    {"role": "user", "content": "Make the tests pass."},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": '{"command": "pytest -q"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "43 passed in 0.4s"},
    {"role": "assistant", "content": "All tests pass."},
]


def answer(quote: str, *, complete: bool = True) -> dict[str, Any]:
    return {
        "criteria": [
            {
                "criterion": "the tests pass",
                "satisfied": complete,
                "evidence": [{"observation": "o1", "quote": quote}] if complete else [],
                "missing": "" if complete else "a green run",
            }
        ],
        "score": 1.0 if complete else 0.2,
        "complete": complete,
        "missing": "" if complete else "a green run",
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chat.json").write_text(json.dumps(CHAT))
    return tmp_path


def play(folder: Path, *texts: str) -> str:
    lines = [json.dumps({"account": "judge", "text": text}) for text in texts]
    (folder / "judge.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return "scripted/judge.jsonl"


def test_a_proven_objective_is_zero(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge = play(folder, json.dumps(answer("43 passed")))
    assert main(["status", "chat.json", "--objective", "the tests pass", "--judge", judge]) == 0
    assert capsys.readouterr().out == "verdict    complete · 1.00\ncriteria   ✓ the tests pass\n"


def test_a_missing_proof_is_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge = play(folder, json.dumps(answer("", complete=False)))
    assert main(["status", "chat.json", "--objective", "the tests pass", "--judge", judge]) == 1
    assert capsys.readouterr().out == ("verdict    not complete · 0.20\ncriteria   ✗ the tests pass: a green run\n")


def test_a_quote_that_is_nowhere_is_no_proof(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge = play(folder, *[json.dumps(answer("44 passed"))] * 2)
    assert main(["status", "chat.json", "--objective", "the tests pass", "--judge", judge, "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert (value["complete"], value["criteria"][0]["satisfied"]) == (False, False)


def test_a_judge_that_cannot_be_read_is_four(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge = play(folder, "yes", "surely", "done")
    assert main(["status", "chat.json", "--objective", "the tests pass", "--judge", judge]) == 4
    assert capsys.readouterr().out == "verdict    none; the judge's answers could not be read\n"


def test_a_judge_that_does_not_answer_is_four(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge = play(folder)
    assert main(["status", "chat.json", "--objective", "the tests pass", "--judge", judge]) == 4
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err != ""


def test_a_goal_file_says_by_what_to_judge(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(folder, json.dumps(answer("43 passed")))
    (folder / "goal.toml").write_text('objective = "the tests pass"\njudge = "scripted/judge.jsonl"\n')
    assert main(["status", "chat.json", "--goal", "goal.toml"]) == 0
    monkeypatch.setenv("GOAL_JUDGE", play(folder, json.dumps(answer("", complete=False))))
    assert main(["status", "chat.json", "--goal", "goal.toml"]) == 1


def test_a_response_is_judged_where_the_goal_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "chat.json").write_text(json.dumps([CHAT[0], {"role": "assistant", "content": "Rain bends light."}]))
    play(folder, json.dumps(answer("Rain bends light")))
    goal = 'objective = "One sentence"\ndeliverable = "response"\njudge = "scripted/judge.jsonl"\n'
    (folder / "goal.toml").write_text(goal)
    assert main(["status", "chat.json", "--goal", "goal.toml"]) == 0
    assert capsys.readouterr().out == "verdict    complete · 1.00\ncriteria   ✓ the tests pass\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chat.json", "--objective", "x"], "no judge is given\nadd --judge MODEL, or set GOAL_JUDGE\n"),
        (
            ["chat.json", "--objective", "x", "--judge", "agent"],
            'judge = "agent" needs a model of the agent\nadd --judge MODEL\n',
        ),
        (
            ["chat.json", "--judge", "a/b"],
            "no objective to judge the transcript by\nadd --objective TEXT or --goal FILE\n",
        ),
        (
            ["--objective", "x", "--judge", "a/b"],
            "no transcript is given\ngoal status TRANSCRIPT --objective TEXT --judge MODEL\n",
        ),
        (
            ["none.json", "--objective", "x", "--judge", "a/b"],
            "none.json: no such file or run\ngoal list shows the runs\n",
        ),
    ],
)
def test_what_is_missing_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["status", *arguments]) == 2
    assert capsys.readouterr().err == f"Error: {said}"


def test_a_file_that_is_no_transcript_is_a_usage_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "chat.json").write_text("no transcript")
    judge = play(folder, json.dumps(answer("43 passed")))
    assert main(["status", "chat.json", "--objective", "x", "--judge", judge]) == 2
    assert "chat.json" in capsys.readouterr().err
