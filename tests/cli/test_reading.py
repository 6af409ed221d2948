"""`goal list`, `goal status RUN` and `goal show`: what only reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goalrunner.cli.main import fast_path, main
from goalrunner.records.writer_lock import WriterLock
from tests.support import told_run
from tests.support.told_run import outcome, summary


def keep(
    home: Path, run_id: str, started_at: str = told_run.TIME, **changes: Any
) -> Path:
    """A run's folder with its summary; by default, its workspace is the current folder."""
    folder = home / "runs" / run_id
    folder.mkdir(parents=True)
    here = {"workspace": str(Path.cwd()), **changes}
    values = summary(run_id=run_id, started_at=started_at, path=str(folder), **here)
    (folder / "summary.json").write_text(json.dumps(values))
    return folder


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--status", "capped"], ["b2aa-new"]),
        (["--status", "capped", "--status", "complete"], ["b2aa-new", "k3f9-old"]),
        (["--limit", "1"], ["b2aa-new"]),
        (["-n", "1", "--status", "complete"], ["k3f9-old"]),
        (["--since", "2026-11-21T10:30:00+00:00"], ["b2aa-new"]),
        (["--since", "9999d"], ["b2aa-new", "k3f9-old"]),
        (["--since", "2999-01-01"], []),
        (["--workspace", "/src/parser"], ["c7c7-other"]),
        (["--workspace", "/src"], []),
        (["--all"], ["b2aa-new", "k3f9-old", "c7c7-other"]),
    ],
)
def test_the_list_can_be_filtered(
    own_home: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    shown: list[str],
) -> None:
    keep(own_home, "k3f9-old")
    keep(
        own_home, "b2aa-new", "2026-11-21T11:00:00+00:00", status="capped", exit_code=1
    )
    keep(own_home, "c7c7-other", "2026-11-21T09:00:00+00:00", workspace="/src/parser")
    assert main(["list", *options, "--json"]) == 0
    assert [run["run_id"] for run in json.loads(capsys.readouterr().out)] == shown
    assert main(["list", *options]) == 0
    said = capsys.readouterr()
    assert [row.split()[0] for row in said.out.splitlines()[1:]] == shown
    assert said.err == ("" if shown else "No run matches.\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--status", "caped"],
            '"caped" is not valid; use running, complete, capped, blocked, ',
        ),
        (
            ["--since", "soon"],
            '"soon" is not valid; use "7d", "12h" or a date, such as 2026-11-30',
        ),
    ],
)
def test_a_wrong_filter_is_a_usage_error(
    own_home: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main(["list", *options]) == 2
    assert said in capsys.readouterr().err


def test_no_runs_say_how_to_start_one(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "",
        f"No runs yet in {own_home}. To start one: goal run goal.toml\n",
    )
    assert main(["list", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"


@pytest.mark.parametrize(
    ("changes", "code"), [({}, 0), ({"status": "capped", "exit_code": 1}, 1)]
)
def test_status_exits_with_the_runs_code(
    own_home: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    code: int,
) -> None:
    folder = keep(own_home, "k3f9-one", **changes)
    assert main(["status", "k3f9"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "run        k3f9-one"
    assert f"folder     {folder}" in lines


def test_a_run_under_way_is_no_success_and_no_failure_is_claimed(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(own_home, "k3f9-one", status="running", exit_code=None)
    lock = WriterLock(own_home / "runs" / "k3f9-one" / "events.lock")
    assert main(["status"]) == 4
    assert "status     running\n" in capsys.readouterr().out
    lock.close()


def test_a_run_whose_process_is_gone_is_lost_everywhere_and_may_have_used_more(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(
        own_home,
        "k3f9-one",
        status="running",
        exit_code=None,
        pid=7,
        known_cost_usd=0.21,
    )
    assert main(["status", "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert [told[key] for key in ("status", "tokens", "uncounted_calls", "cost_usd", "known_cost_usd")] == [
        "lost", 41_210, 1, None, 0.21,
    ]  # fmt: skip
    main(["list", "--json"])
    assert json.loads(capsys.readouterr().out)[0]["status"] == "lost"
    main(["list"])
    assert capsys.readouterr().out.splitlines()[1].split()[1] == "lost"


def test_an_unknown_run_is_a_usage_error(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(own_home, "k3f9-one")
    assert main(["status", "k3f9-ome"]) == 2
    assert capsys.readouterr().err.endswith("goal list --all shows the runs\n")
    assert main(["show", "zzz"]) == 2


def test_a_file_where_a_run_is_expected_says_how_to_judge_it(
    own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = tmp_path / "chat.json"
    chat.write_text("[]")
    assert main(["status", str(chat)]) == 2
    assert capsys.readouterr().err == (
        f"Error: {chat} is a file: give the objective to judge it by\n"
        f'goal status {chat} --objective "..." --judge MODEL, or --goal FILE\n'
    )


def test_show_names_the_damage_of_a_log(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = keep(own_home, "k3f9-one")
    (folder / "events.jsonl").write_bytes(b'{"broken": 1}\n{"and": "more"}\n')
    assert main(["show", "k3f9"]) == 4
    assert str(folder / "events.jsonl") in capsys.readouterr().err


def test_show_path_prints_the_folder_alone(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = keep(own_home, "k3f9-one")
    assert main(["show", "k3f9", "--path"]) == 0
    assert capsys.readouterr().out == f"{folder}\n"


def test_show_json_holds_summary_and_outcome(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = keep(own_home, "k3f9-one")
    assert main(["show", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["path"], value["summary"]["run_id"], value["outcome"]) == (
        str(folder),
        "k3f9-one",
        None,
    )
    (folder / "outcome.json").write_text(outcome().model_dump_json())
    main(["show", "--json"])
    assert json.loads(capsys.readouterr().out)["outcome"]["status"] == "complete"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["run"],
        ["show"],
        ["list", "--help"],
        ["list", "more"],
        ["status", "a", "b"],
        ["status", "--", "a"],
        ["status", "a", "--objective", "x"],
        ["--version"],
    ],
)
def test_every_other_spelling_takes_the_long_way(arguments: list[str]) -> None:
    assert fast_path(arguments) is None


@pytest.mark.parametrize(
    "arguments",
    [["status", "--", "k3f9"], ["status", "k3f9", "--json"], ["status", "k3f9"]],
)
def test_both_ways_answer_alike(
    own_home: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    keep(own_home, "k3f9-one", status="capped", exit_code=1)
    assert main(arguments) == 1
    assert "k3f9-one" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "nul\0",
        "{}",
        '{"started_at": 5}',
        '{"status": "complete", "exit_code": 0}',
    ],
)
def test_a_damaged_summary_is_the_same_to_list_and_status(
    own_home: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (keep(own_home, "k3f9-one") / "summary.json").write_text(content)
    assert main(["status", "k3f9", "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    main(["list", "--all", "--json"])
    (listed,) = json.loads(capsys.readouterr().out)
    assert told == {**listed, "path": told["path"]}
    assert (told["status"], told["message"]) == (
        "unreadable",
        "summary.json is damaged",
    )


@pytest.mark.parametrize("more", [[], ["--objective", "x", "--judge", "a/b"]])
def test_what_is_no_transcript_is_said_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    archive = tmp_path / "a.zip"
    archive.write_bytes(b"PK\x03\x04\x14\0\0\0\x08\0rest\xff")
    assert main(["status", str(archive), *more]) == 2
    assert capsys.readouterr().err.startswith(
        f"Error: {archive}: the format of this transcript is not known\n"
    )
