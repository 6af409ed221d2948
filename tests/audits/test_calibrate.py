"""`goal judge calibrate` with judges whose replies are recorded: what it prints, writes and refuses."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from goalrunner.cli.main import main
from tests.support.labelled import answer, write_dataset

pytest.importorskip("sklearn")
pytest.importorskip("scipy")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_dataset(tmp_path, 6)
    return tmp_path


def play(folder: Path, *texts: str, name: str = "judge") -> str:
    usage = {"input_tokens": 100, "output_tokens": 20, "cost_usd": 0.01}
    lines = [
        json.dumps({"account": "judge", "text": text, "usage": usage}) for text in texts
    ]
    (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return f"scripted/{name}.jsonl"


def said(*opinions: tuple[bool, float]) -> list[str]:
    return [answer(complete=complete, score=score) for complete, score in opinions]


MIXED = said(
    (True, 0.95), (False, 0.1), (True, 0.9), (True, 0.7), (False, 0.4), (False, 0.2)
)
"""One false accept of three, with the score 0.7, and one false reject of three."""


def test_the_rates_of_a_judge_are_printed(
    folder: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [
        "judge",
        "calibrate",
        "dataset.jsonl",
        "--judge",
        play(folder, *MIXED),
        "--jobs",
        "1",
        "--target-false-accept",
        "0.01",
    ]
    assert main(line) == 0
    out, err = capsys.readouterr()
    head, errors, effort, closing = out.split("\n\n")
    assert (
        head.splitlines()[0]
        == "samples    6 of dataset.jsonl: 3 complete, 3 incomplete"
    )
    assert (
        head.splitlines()[1]
        == "verdicts   6 · 6 audits of this call, 720 tokens · $0.06"
    )
    assert errors.splitlines()[1].split("  ")[:2] == ["scripted/judge.jsonl", "bounded"]
    assert (
        "33.3 % (6.1 to 79.2), 1 of 3  33.3 % (6.1 to 79.2), 1 of 3  0.889  " in errors
    )
    assert effort.splitlines()[1].startswith(
        "scripted/judge.jsonl  bounded  6         0           120     $0.01  "
    )
    assert (
        "with minimum_score = 0.71, false accepts are 0.0 % (0.0 to 56.1), 0 of 3"
        in closing
    )
    assert (
        "3 incomplete samples cannot show 1 %. At least 381 of them, without a false accept, can."
        in closing
    )
    assert "\n           minimum_score = 0.71\n" in closing
    (results,) = (own_home / "calibrations").iterdir()
    assert closing.splitlines()[-1] == f"results    {results}"
    assert err.splitlines()[-1] == "[6/6] not complete: case-5.jsonl"


def test_the_printed_line_belongs_into_the_table_of_the_judge(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = play(folder, *MIXED)
    main(
        [
            "judge",
            "calibrate",
            "dataset.jsonl",
            "--judge",
            judge,
            "--jobs",
            "1",
            "--target-false-accept",
            "0.01",
        ]
    )
    (line,) = [
        row.strip()
        for row in capsys.readouterr().out.splitlines()
        if row.startswith("           minimum")
    ]
    text = f'objective = "The tests pass."\n[judge]\nmodel = "{play(folder, MIXED[3], name="one")}"\n'
    (folder / "goal.toml").write_text(text)
    assert main(["status", "case-3.jsonl", "--goal", "goal.toml"]) == 0
    (folder / "goal.toml").write_text(f"{text}{line}\n")
    assert main(["status", "case-3.jsonl", "--goal", "goal.toml"]) == 1
    assert "is scored 0.70; 0.71 is needed" in capsys.readouterr().out.replace(
        "\n           ", " "
    )


def test_a_budget_ends_with_one_and_the_same_command_continues(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = play(folder, *MIXED)
    line = [
        "judge",
        "calibrate",
        "dataset.jsonl",
        "--judge",
        judge,
        "--jobs",
        "1",
        "--output",
        "verdicts.jsonl",
        "--cost",
        "0.02",
    ]
    assert main(line) == 1
    assert (
        "stopped    $0.0200 of $0.0200 are spent; 4 audits are left. The same"
        in capsys.readouterr().out
    )
    assert len((folder / "verdicts.jsonl").read_text().splitlines()) == 2
    play(folder, *MIXED[2:])
    assert main([*line[:-1], "inf"]) == 0
    assert "0.889" in capsys.readouterr().out


def test_two_judges_and_policies_are_one_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = [answer(complete=True, score=0.9, quote="9 passed")] * 24
    line = [
        "judge",
        "calibrate",
        "dataset.jsonl",
        "--judge",
        play(folder, *wrong),
        "--judge",
        play(folder, *wrong, name="other"),
    ]
    line += [
        "--policy",
        "no-citations",
        "--policy",
        "bounded",
        "--target-false-accept",
        "0.5",
    ]
    assert main([*line, "--html", "page.html"]) == 0
    out = capsys.readouterr().out
    rows = [row.split() for row in out.split("\n\n")[1].splitlines()[1:]]
    assert [(row[1], row[2]) for row in rows] == [
        ("no-citations", "100.0"),
        ("bounded", "0.0"),
    ] * 2
    assert re.findall(r"^threshold  (.*?): with", out, re.MULTILINE) == [
        "scripted/judge.jsonl (bounded)",
        "scripted/other.jsonl (bounded)",
    ]
    assert (
        "agreement  scripted/judge.jsonl and scripted/other.jsonl (no-citations): kappa undefined"
        in out
    )
    assert (folder / "page.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Missing option '--judge'"),
        (["--judge", "agent"], 'judge = "agent" needs a model of the agent'),
        (
            ["--judge", "a/b", "--policy", "most"],
            '"most" is not valid; use bounded, whole, no-citations',
        ),
        (
            ["--judge", "a/b", "--target-false-accept", "2"],
            "Invalid value for '--target-false-accept'",
        ),
        (
            ["--judge", "a/b", "--cost", "much"],
            '--cost must be a number, not the string "much"',
        ),
        (["--judge", "a/b", "--output", "dataset.jsonl"], "not a verdict"),
        (["--judge", "a/b", "--html", "dataset.jsonl"], "is the dataset"),
    ],
)
def test_what_cannot_be_done_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    before = (folder / "dataset.jsonl").read_bytes()
    assert main(["judge", "calibrate", "dataset.jsonl", *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Error: " in err
    assert message in err
    assert (folder / "dataset.jsonl").read_bytes() == before


def test_a_missing_library_is_named_before_a_judge_is_asked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert (
        main(
            [
                "judge",
                "calibrate",
                "dataset.jsonl",
                "--judge",
                play(folder, *MIXED),
                "--output",
                "verdicts.jsonl",
            ]
        )
        == 2
    )
    assert "\npip install 'goalrunner[calibrate]'\n" in capsys.readouterr().err
    assert not (folder / "verdicts.jsonl").exists()
