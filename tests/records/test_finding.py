"""Runs are found by what a person types; one bad folder never hides the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.core.errors import RunNotFound, UsageError
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_index import find_run, list_runs


def make(home: Path, run_id: str, started_at: str) -> RunFolder:
    folder = RunFolder.create(home, run_id)
    folder.write_json(folder.summary, {"run_id": run_id, "status": "complete", "started_at": started_at})
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    make(tmp_path, "k3f9-make-parse", "2026-11-20T10:00:00+00:00")
    make(tmp_path, "k3aa-write-docs", "2026-11-21T10:00:00+00:00")
    make(tmp_path, "zz11-make-fast", "2026-11-19T10:00:00+00:00")
    return tmp_path


@pytest.mark.parametrize(
    ("reference", "run_id"),
    [
        (None, "k3aa-write-docs"),
        ("k3f9-make-parse", "k3f9-make-parse"),
        ("k3f", "k3f9-make-parse"),
        ("z", "zz11-make-fast"),
    ],
)
def test_a_run_is_found_by_id_beginning_or_age(home: Path, reference: str | None, run_id: str) -> None:
    assert find_run(home, reference) == RunFolder(home / "runs" / run_id)


def test_a_whole_id_is_found_though_others_begin_so(home: Path) -> None:
    make(home, "k3", "2026-11-19T10:00:00+00:00")

    assert find_run(home, "k3").run_id == "k3"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("k3", '"k3" matches 2 runs: k3aa-write-docs, k3f9-make-parse\ntype more of the id'),
        ("k3f9-make-prase", 'no run "k3f9-make-prase" in {home}\ndid you mean k3f9-make-parse?'),
        ("docs", 'no run "docs" in {home}\ndid you mean k3aa-write-docs?'),
        ("quite-else", 'no run "quite-else" in {home}\ngoal list shows the runs'),
        ("../runs/k3f9-make-parse", 'no run "../runs/k3f9-make-parse" in {home}\ndid you mean k3f9-make-parse?'),
        ("", 'no run "" in {home}\n'),
    ],
)
def test_a_run_that_is_not_there_gives_advice(home: Path, reference: str, message: str) -> None:
    with pytest.raises(RunNotFound) as refused:
        find_run(home, reference)

    assert str(refused.value).startswith(message.format(home=home))


def test_a_home_without_runs_says_how_to_start_one(tmp_path: Path) -> None:
    for reference in (None, "k3f9"):
        with pytest.raises(RunNotFound) as refused:
            find_run(tmp_path / "nothing", reference)
        assert str(refused.value) == f"there is no run in {tmp_path}/nothing\ngoal run GOAL_FILE starts one"


def test_runs_are_listed_newest_first(home: Path) -> None:
    listed = list_runs(home)

    assert [run["run_id"] for run in listed] == ["k3aa-write-docs", "k3f9-make-parse", "zz11-make-fast"]
    assert listed[0] == {"run_id": "k3aa-write-docs", "status": "complete", "started_at": "2026-11-21T10:00:00+00:00"}


def test_a_home_that_is_not_there_has_no_runs(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "nothing") == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "summary.json: no such file or directory"),
        (b"", "summary.json is damaged"),
        (b'{"run_id": "k3', "summary.json is damaged"),
        (b"[]", "summary.json is damaged"),
        (b"{}", "summary.json is damaged"),
        (b'{"started_at": 5}', "summary.json is damaged"),
        (b"\xff\xfe", "summary.json is damaged"),
        (b"[" * 100_000, "summary.json is damaged"),
    ],
)
def test_a_run_that_cannot_be_read_is_listed_as_such(home: Path, content: bytes | None, message: str) -> None:
    folder = RunFolder.create(home, "bad0-one")
    if content is not None:
        folder.summary.write_bytes(content)
    os.utime(folder.path, (1_000_000_000, 1_000_000_000))

    assert list_runs(home)[-1] == {
        "run_id": "bad0-one",
        "status": "unreadable",
        "started_at": "2001-09-09T01:46:40.000+00:00",
        "message": message,
    }


def test_what_is_no_folder_is_no_run(home: Path) -> None:
    (home / "runs" / "notes.txt").write_text("")
    (home / "runs" / ".trash").mkdir()

    assert len(list_runs(home)) == 3


def test_a_run_is_found_by_the_path_of_its_folder(home: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    moved = tmp_path_factory.mktemp("kept") / "k3f9-make-parse"
    (home / "runs" / "k3f9-make-parse").rename(moved)

    assert find_run(home, str(moved)) == RunFolder(moved.resolve())
    with pytest.raises(RunNotFound):
        find_run(home, str(moved.parent))


def test_a_home_that_is_a_file_is_an_error_and_not_empty(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "runs").write_text("")

    with pytest.raises(UsageError, match=r"/home is not a folder"):
        list_runs(tmp_path / "home")
    with pytest.raises(UsageError, match=r"/other/runs is not a folder"):
        find_run(tmp_path / "other")


def test_a_run_is_found_from_a_folder_that_is_gone(
    home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = list_runs(home)[0]["run_id"]
    gone = tmp_path_factory.mktemp("gone")
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert find_run(home, name).run_id == name
    with pytest.raises(RunNotFound):
        find_run(home, "chat.json")
    with pytest.raises(RunNotFound):
        find_run(home, "a\0b")
