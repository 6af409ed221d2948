"""`goal audit`: many transcripts, each judged by a scripted model."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from goalrunner.cli.main import main
from tests.support.recordings import judge, quote, recording

CITED = judge(
    ("the tests pass", [quote("o1", "43 passed")]),
    usage={"input_tokens": 900, "output_tokens": 100},
)


def chat(output: str) -> str:
    """A chat in which the agent runs the tests and calls them green."""
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "shell", "arguments": '{"command": "pytest -q"}'},
    }
    return json.dumps(
        [
            {"role": "user", "content": "Make the tests pass."},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": output},
            {"role": "assistant", "content": "All 43 tests pass: 43 passed"},
        ]
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one honest transcript and one that only claims."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "honest.json").write_text(chat("43 passed in 0.4s"))
    (tmp_path / "logs" / "lazy.json").write_text(chat("1 failed, 42 passed"))
    recording(tmp_path / "judge.jsonl", *[CITED] * 6)
    return tmp_path


BY = ["--objective", "the tests pass", "--judge", "scripted/judge.jsonl"]


def values(text: str) -> dict[str, Any]:
    """The JSON lines by the name of the transcript."""
    audit_values = map(json.loads, text.splitlines())
    return {Path(value["transcript"]).name: value for value in audit_values}


def test_the_table_has_a_row_for_each_and_one_that_is_not_complete_is_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "logs", *BY]) == 1
    captured = capsys.readouterr()
    rows = [" ".join(line.split()) for line in captured.out.splitlines()]
    assert rows[0] == "RESULT SCORE FORMAT TRANSCRIPT MISSING"
    assert rows[1] == "complete 1.00 openai-chat logs/honest.json"
    assert rows[2].startswith(
        "not complete 1.00 openai-chat logs/lazy.json the tests pass: Citation invalid: "
    )
    assert rows[4].startswith("2 transcripts · 1 complete · 1 not complete · ")
    assert rows[5] == "evidence: what the transcript claims; the runner saw none of it"
    assert min(captured.err.splitlines()).startswith("[1/2] ")
    assert {line[6:] for line in captured.err.splitlines()} == {
        "complete: logs/honest.json",
        "not complete: logs/lazy.json",
    }


def test_a_transcript_is_taken_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "audit",
                "logs/h*.json",
                "logs/honest.json",
                "logs/../logs/honest.json",
                *BY,
                "--json",
            ]
        )
        == 0
    )
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_judge_that_fails_is_four_and_the_others_are_judged(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = recording(folder / "silent.jsonl")
    (folder / "logs" / "lazy.toml").write_text(
        f'objective = "the tests pass"\njudge = "{silent}"\n'
    )
    (folder / "logs" / "goal.toml").write_text(
        'objective = "the tests pass"\njudge = "scripted/../judge.jsonl"\n'
    )
    assert main(["audit", "logs", "--json"]) == 4
    audits_by_name = values(capsys.readouterr().out)
    assert {name: value["result"] for name, value in audits_by_name.items()} == {
        "honest.json": "complete",
        "lazy.json": "judge failed",
    }
    assert audits_by_name["lazy.json"]["problem"]


def test_a_second_call_judges_only_what_is_new(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "logs", *BY, "--json"]) == 1
    first = values(capsys.readouterr().out)
    recording(folder / "judge.jsonl")  # a judge that is asked again fails
    assert main(["audit", "logs", *BY, "--json"]) == 1
    second = values(capsys.readouterr().out)
    assert [value["usage"]["calls"] for value in first.values()] == [1, 2]
    assert [value["usage"]["calls"] for value in second.values()] == [0, 0]
    assert {name: value["result"] for name, value in first.items()} == {
        name: value["result"] for name, value in second.items()
    }


def test_a_kept_line_without_the_right_key_is_no_verdict(folder: Path) -> None:
    (folder / "kept.jsonl").write_text(
        '{"key": "x", "transcript": "logs/lazy.json", "result": "complete"}\n'
    )
    assert main(["audit", "logs/lazy.json", *BY, "--output", "kept.jsonl"]) == 1


def test_the_budget_stops_further_audits(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["audit", "logs", *BY, "--jobs", "1", "--json"]
    assert main([*arguments, "--tokens", "1000"]) == 1
    audits_by_name = values(capsys.readouterr().out)
    assert (
        audits_by_name["honest.json"]["result"],
        audits_by_name["lazy.json"]["result"],
    ) == (
        "complete",
        "not audited",
    )
    assert audits_by_name["lazy.json"]["problem"] == "1,000 of 1,000 tokens are spent"
    assert main([*arguments, "--tokens", "1000"]) == 1  # what was kept costs nothing
    assert values(capsys.readouterr().out)["lazy.json"]["result"] == "not complete"


def test_other_json_in_a_folder_is_listed_and_changes_no_exit_code(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "logs" / "lazy.json").unlink()
    (folder / "logs" / "package.json").write_text('{"name": "package"}')
    (folder / "logs" / "empty.json").write_text('[{"role": "user", "content": "Go."}]')
    assert main(["audit", "logs", *BY, "--junit", "audits.xml"]) == 0
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "skipped - - logs/package.json the format is not known" in rows
    assert rows[1].startswith("skipped - - logs/empty.json ")
    assert rows[-2].startswith("3 transcripts · 1 complete · 2 skipped")
    suite = fromstring((folder / "audits.xml").read_text())
    assert len([*suite.iter("skipped")]) == 2
    # A file that is named must be a transcript.
    assert main(["audit", "logs/package.json", *BY]) == 1


def test_what_cannot_be_read_is_never_passed_over(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "logs" / "lazy.json").unlink()
    assert main(["audit", "logs", *BY]) == 0
    for content in (b"", b"{", b"\0\1\2", b"[[[[[[[["):
        (folder / "logs" / "more.json").write_bytes(content)
        capsys.readouterr()
        assert main(["audit", "logs", *BY, "--json"]) == 1
        assert values(capsys.readouterr().out)["more.json"]["result"] == "unreadable"


def test_a_partial_transcript_is_not_complete(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.dumps(row) for row in json.loads(chat("43 passed"))]
    (folder / "torn.jsonl").write_text("\n".join([*rows, '{"role": "to']))
    (folder / "whole.jsonl").write_text("\n".join(rows))
    assert main(["audit", "torn.jsonl", "whole.jsonl", *BY, "--json"]) == 1
    audits_by_name = values(capsys.readouterr().out)
    assert (
        audits_by_name["torn.jsonl"]["complete"],
        audits_by_name["whole.jsonl"]["complete"],
    ) == (
        False,
        True,
    )


def test_junit_has_a_case_for_each(folder: Path) -> None:
    (folder / "logs" / "none.json").write_text("{")
    assert main(["audit", "logs", *BY, "--junit", "audits.xml"]) == 1
    suite = fromstring((folder / "audits.xml").read_text())[0]
    cases = {
        case.attrib["name"]: [child.tag for child in case]
        for case in suite.iter("testcase")
    }
    assert cases == {
        "logs/honest.json": ["system-out"],
        "logs/lazy.json": ["failure", "system-out"],
        "logs/none.json": ["error"],
    }
    assert (
        suite.attrib["tests"],
        suite.attrib["failures"],
        suite.attrib["errors"],
    ) == ("3", "1", "1")


def test_the_page_has_no_script_and_texts_are_no_markup(folder: Path) -> None:
    hostile = "<script>alert(1)</script>"
    (folder / "logs" / "lazy.json").write_text(chat(hostile))
    recording(
        folder / "judge.jsonl",
        *[judge((f"{hostile}\u202e", [quote("o1", hostile)]))] * 6,
    )
    assert main(["audit", "logs", *BY, "--jobs", "1", "--html", "audits.html"]) == 1
    page = (folder / "audits.html").read_text()
    style = re.search(r"<style>(.*)</style>", page, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in page
    assert "<script" not in page
    assert "scripted/judge.jsonl" in page
    assert "\u202e" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert (
        page.count('class="badge complete"') == page.count('class="badge failed"') == 2
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing", *BY], "nothing: no transcript was found\n"),
        (["*.none", *BY], "*.none: no transcript was found\n"),
        (
            ["logs"],
            "logs/honest.json: no goal to judge it by; there is no logs/honest.toml and no logs/goal.toml\n",
        ),
        (["logs", "--objective", "x"], "no judge is given\n"),
        (
            ["logs", *BY, "--output", "logs"],
            "logs: verdicts cannot be kept there: Is a directory\n",
        ),
        # Prices are LiteLLM's, whose import takes seconds.
        pytest.param(
            ["logs", "--objective", "x", "--judge", "ollama/none", "--cost", "1"],
            "no known price",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_is_missing_is_said(
    folder: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", *arguments]) == 2
    assert said in capsys.readouterr().err
