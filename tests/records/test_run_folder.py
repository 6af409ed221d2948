"""Where runs lie, and that their files are written whole and for their owner alone."""

from __future__ import annotations

import json
import os
import random
import re
import stat
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.errors import RecordError, RunNotFound, UsageError
from goalrunner.records.run_folder import RunFolder, goal_home
from goalrunner.records.run_search import find_run, new_run_id, newest_run
from goalrunner.records.run_summaries import run_summaries


@pytest.mark.parametrize(
    ("environ", "home"),
    [
        ({"GOAL_HOME": "/data/goal", "XDG_STATE_HOME": "/state"}, "/data/goal"),
        ({"XDG_STATE_HOME": "/state", "HOME": "/home/me"}, "/state/goal"),
        (
            {"XDG_STATE_HOME": "relative", "HOME": "/home/me"},
            "/home/me/.local/state/goal",
        ),
        ({"GOAL_HOME": "", "HOME": "/home/me"}, "/home/me/.local/state/goal"),
    ],
)
def test_the_home_is_chosen_by_the_environment(
    environ: dict[str, str], home: str
) -> None:
    assert goal_home(environ) == Path(home)


def test_a_relative_home_is_made_absolute() -> None:
    assert goal_home({"GOAL_HOME": "runs"}) == Path.cwd() / "runs"


def test_a_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "home", "k3f9-make-parse")

    assert folder == RunFolder(tmp_path / "home" / "runs" / "k3f9-make-parse")
    assert folder.run_id == "k3f9-make-parse"
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.scratch.stat().st_mode) == 0o700


def test_the_files_of_a_run_have_their_names() -> None:
    folder = RunFolder(Path("/r"))

    paths = (
        folder.events,
        folder.transcript,
        folder.artifacts,
        folder.goal_file,
        folder.summary,
        folder.outcome,
    )
    assert [path.name for path in (*paths, folder.scratch)] == [
        "events.jsonl", "transcript.jsonl", "artifacts", "goal.toml", "summary.json", "outcome.json", "scratch",
    ]  # fmt: skip


def test_an_id_is_used_once(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, "k3f9")

    with pytest.raises(UsageError, match="runs/k3f9 exists already"):
        RunFolder.create(tmp_path, "k3f9")


def test_a_home_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(
        UsageError,
        match=r"cannot make the run's folder .*: Not a directory\nset GOAL_HOME",
    ):
        RunFolder.create(tmp_path / "file", "k3f9")


def test_json_is_written_whole_and_for_the_owner_alone(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "k3f9")

    folder.write_json(folder.summary, {"objective": "grün", "score": 1.0})
    folder.write_json(folder.summary, {"objective": "grün\ud800", "score": None})

    assert (
        folder.summary.read_text(encoding="utf-8")
        == '{\n  "objective": "grün?",\n  "score": null\n}\n'
    )
    assert stat.S_IMODE(folder.summary.stat().st_mode) == 0o600
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "scratch",
        "summary.json",
    ]


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder.create(tmp_path, "k3f9")
    folder.write_json(folder.summary, 1)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        RecordError, match=r"cannot write .*/summary.json: No space left on device"
    ):
        folder.write_json(folder.summary, 2)

    assert folder.summary.read_text() == "1\n"
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "scratch",
        "summary.json",
    ]


def test_scratch_files_are_fresh(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "k3f9")

    paths = {folder.scratch_file(".txt") for _ in range(10)}

    assert len(paths) == 10
    assert {path.suffix for path in paths} == {".txt"}
    assert not any(path.exists() for path in paths)


def test_a_home_of_a_user_who_is_not_known_is_taken_as_it_stands() -> None:
    assert goal_home({"GOAL_HOME": "~nobody-of-that-name/goal"}).name == "goal"


def test_a_user_without_a_home_is_told_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(
        UsageError,
        match=r"you have no home folder.*\nexport GOAL_HOME=/a/folder/of/yours",
    ):
        goal_home({})


def test_a_relative_home_in_a_folder_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UsageError, match="the current folder does not exist any more"):
        goal_home({"GOAL_HOME": "kept"})


def make(home: Path, run_id: str, started_at: str, **more: str) -> RunFolder:
    folder = RunFolder.create(home, run_id)
    folder.write_json(
        folder.summary,
        {"run_id": run_id, "status": "complete", "started_at": started_at, **more},
    )
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
        ("k3f9-make-parse", "k3f9-make-parse"),
        ("k3f", "k3f9-make-parse"),
        ("z", "zz11-make-fast"),
    ],
)
def test_a_run_is_found_by_its_id_or_its_beginning(
    home: Path, reference: str, run_id: str
) -> None:
    assert find_run(home, reference) == RunFolder(home / "runs" / run_id)


def test_a_whole_id_is_found_though_others_begin_so(home: Path) -> None:
    make(home, "k3", "2026-11-19T10:00:00+00:00")

    assert find_run(home, "k3").run_id == "k3"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (
            "k3",
            '"k3" matches 2 runs: k3aa-write-docs, k3f9-make-parse\ntype more of the id',
        ),
        (
            "k3f9-make-prase",
            'no run "k3f9-make-prase" in {home}\ngoal list --all shows the runs',
        ),
        ("docs", 'no run "docs" in {home}\ngoal list --all shows the runs'),
        ("quite-else", 'no run "quite-else" in {home}\ngoal list --all shows the runs'),
        (
            "../runs/k3f9-make-parse",
            'no run "../runs/k3f9-make-parse" in {home}\ngoal list --all shows the runs',
        ),
        ("", 'no run "" in {home}\n'),
    ],
)
def test_a_run_that_is_not_there_gives_advice(
    home: Path, reference: str, message: str
) -> None:
    with pytest.raises(RunNotFound) as refused:
        find_run(home, reference)

    assert str(refused.value).startswith(message.format(home=home))


def test_a_home_without_runs_says_how_to_start_one(tmp_path: Path) -> None:
    message = f"there is no run in {tmp_path}/nothing\ngoal run GOAL_FILE starts one"
    with pytest.raises(RunNotFound) as refused:
        find_run(tmp_path / "nothing", "k3f9")
    assert str(refused.value) == message
    with pytest.raises(RunNotFound) as refused:
        newest_run(tmp_path / "nothing", tmp_path)
    assert str(refused.value) == message


@pytest.fixture
def two_projects(tmp_path: Path) -> Path:
    """Three runs: two in /src/parser, and the newest of all in /src/site with a goal file in /src/goals."""
    make(
        tmp_path,
        "a111-older",
        "2026-11-19T10:00:00+00:00",
        workspace="/src/parser",
        objective="Older.",
    )
    make(
        tmp_path,
        "b222-newer",
        "2026-11-20T10:00:00+00:00",
        workspace="/src/parser",
        objective="Newer.",
    )
    more = {
        "workspace": "/src/site",
        "goal_file": "/src/goals/site.toml",
        "objective": "Build\nthe site.",
    }
    make(tmp_path, "c333-site", "2026-11-21T10:00:00+00:00", **more)
    return tmp_path


@pytest.mark.parametrize(
    ("folder", "run_id"),
    [
        ("/src/parser", "b222-newer"),
        ("/src/parser/tests/data", "b222-newer"),
        ("/src/site", "c333-site"),
        ("/src/goals", "c333-site"),
    ],
)
def test_the_newest_run_is_that_of_the_folder_or_the_nearest_above_it(
    two_projects: Path, folder: str, run_id: str
) -> None:
    assert newest_run(two_projects, Path(folder)).run_id == run_id


def test_a_damaged_summary_does_not_move_a_run_to_another_workspace(
    two_projects: Path,
) -> None:
    damaged = RunFolder(two_projects / "runs" / "b222-newer")
    damaged.summary.write_text("")
    lines = [
        {"event": {"type": "goal_created"}},
        {"event": {"type": "run_started", "workspace": "/src/parser"}},
    ]
    damaged.events.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    assert newest_run(two_projects, Path("/src/parser")) == damaged


def test_runs_are_listed_newest_first(home: Path) -> None:
    listed = run_summaries(home)

    assert [run["run_id"] for run in listed] == [
        "k3aa-write-docs",
        "k3f9-make-parse",
        "zz11-make-fast",
    ]
    assert listed[0] == {
        "run_id": "k3aa-write-docs",
        "status": "complete",
        "started_at": "2026-11-21T10:00:00+00:00",
    }


def test_a_home_that_is_not_there_has_no_runs(tmp_path: Path) -> None:
    assert run_summaries(tmp_path / "nothing") == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the run never began"),
        (b"", "summary.json is damaged"),
        (b'{"run_id": "k3', "summary.json is damaged"),
        (b"[]", "summary.json is damaged"),
        (b"{}", "summary.json is damaged"),
        (b'{"started_at": 5}', "summary.json is damaged"),
        (b"\xff\xfe", "summary.json is damaged"),
        (b"[" * 100_000, "summary.json is damaged"),
    ],
)
def test_a_run_that_cannot_be_read_is_listed_as_such(
    home: Path, content: bytes | None, message: str
) -> None:
    folder = RunFolder.create(home, "bad0-one")
    if content is not None:
        folder.summary.write_bytes(content)
    os.utime(folder.path, (1_000_000_000, 1_000_000_000))

    assert run_summaries(home)[-1] == {
        "run_id": "bad0-one",
        "status": "unreadable",
        "started_at": "2001-09-09T01:46:40.000+00:00",
        "message": message,
    }


def test_what_is_no_folder_is_no_run(home: Path) -> None:
    (home / "runs" / "notes.txt").write_text("")
    (home / "runs" / ".trash").mkdir()

    assert len(run_summaries(home)) == 3


def test_a_run_is_found_by_the_path_of_its_folder(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    moved = tmp_path_factory.mktemp("kept") / "k3f9-make-parse"
    (home / "runs" / "k3f9-make-parse").rename(moved)

    assert find_run(home, str(moved)) == RunFolder(moved.resolve())
    with pytest.raises(RunNotFound):
        find_run(home, str(moved.parent))


def test_a_home_that_is_a_file_is_an_error_and_not_empty(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "runs").write_text("")

    with pytest.raises(UsageError, match=r"/home/runs cannot be read: not a directory"):
        run_summaries(tmp_path / "home")
    with pytest.raises(
        UsageError, match=r"/other/runs cannot be read: not a directory"
    ):
        find_run(tmp_path / "other", "k3f9")


def test_a_run_is_found_from_a_folder_that_is_gone(
    home: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = run_summaries(home)[0]["run_id"]
    gone = tmp_path_factory.mktemp("gone")
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert find_run(home, name).run_id == name
    with pytest.raises(RunNotFound):
        find_run(home, "chat.json")
    with pytest.raises(RunNotFound):
        find_run(home, "a\0b")


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ("Make parse() accept empty input.", "make-parse"),
        ("Fix the bug in Grüße", "fix-bug-grusse"),
        ("the and of", ""),
        ("直してください", ""),
        ("Internationalisation", "internationa"),
        ("a/../../b", "b"),
        ("--help", "help"),
    ],
)
def test_words_of_the_objective_follow_four_signs(objective: str, words: str) -> None:
    identifier = new_run_id(Path("/nowhere"), objective, random.Random(7))

    assert identifier.partition("-")[2] == words
    assert re.fullmatch(r"[a-z][a-z0-9]{3}", identifier[:4])


def test_the_randomness_comes_from_outside(tmp_path: Path) -> None:
    assert new_run_id(tmp_path, "x", random.Random(1)) == new_run_id(
        tmp_path, "x", random.Random(1)
    )
    assert new_run_id(tmp_path, "x") != new_run_id(tmp_path, "x")


def test_four_signs_alone_tell_the_runs_of_a_home_apart(tmp_path: Path) -> None:
    first = new_run_id(tmp_path, "one", random.Random(1))
    RunFolder.create(tmp_path, first)

    assert new_run_id(tmp_path, "two", random.Random(1))[:4] != first[:4]


@given(objective=st.text())
def test_any_objective_gives_a_name_for_a_folder(objective: str) -> None:
    assert re.fullmatch(
        r"[a-z][a-z0-9]{3}(-[a-z0-9]+)*", new_run_id(Path("/nowhere"), objective)
    )


@pytest.mark.parametrize(
    "damage",
    [
        {"started_at": "soon"},
        {"started_at": "2026-01-01T00:00:00"},
        {"finished_at": "2026-01-01T00:00:00"},
        {"updated_at": 5},
    ],
)
def test_a_summary_with_a_damaged_time_is_unreadable(
    damage: dict[str, object], tmp_path: Path
) -> None:
    folder = RunFolder.create(tmp_path, "k3f9")
    folder.write_json(
        folder.summary,
        {"status": "complete", "started_at": "2026-01-01T00:00:00.000+00:00", **damage},
    )

    (summary,) = run_summaries(tmp_path)
    assert (summary["status"], summary["message"]) == (
        "unreadable",
        "summary.json is damaged",
    )
    assert datetime.fromisoformat(summary["started_at"]).tzinfo is not None
