"""Where runs lie, and that their files are written whole and for their owner alone."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from goalrunner.core.errors import RecordError, UsageError
from goalrunner.records.run_folder import RunFolder, goal_home


@pytest.mark.parametrize(
    ("environ", "home"),
    [
        ({"GOAL_HOME": "/data/goal", "XDG_STATE_HOME": "/state"}, "/data/goal"),
        ({"XDG_STATE_HOME": "/state", "HOME": "/home/me"}, "/state/goal"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.local/state/goal"),
        ({"GOAL_HOME": "", "HOME": "/home/me"}, "/home/me/.local/state/goal"),
    ],
)
def test_the_home_is_chosen_by_the_environment(environ: dict[str, str], home: str) -> None:
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

    paths = (folder.events, folder.transcript, folder.artifacts, folder.goal_file, folder.summary, folder.outcome)
    assert [path.name for path in (*paths, folder.scratch)] == [
        "events.jsonl", "transcript.jsonl", "artifacts", "goal.toml", "summary.json", "outcome.json", "scratch",
    ]  # fmt: skip


def test_an_id_is_used_once(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, "k3f9")

    with pytest.raises(UsageError, match="runs/k3f9 exists already"):
        RunFolder.create(tmp_path, "k3f9")


def test_a_home_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match=r"cannot make the run's folder .*: Not a directory\nset GOAL_HOME"):
        RunFolder.create(tmp_path / "file", "k3f9")


def test_json_is_written_whole_and_for_the_owner_alone(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "k3f9")

    folder.write_json(folder.summary, {"objective": "grün", "score": 1.0})
    folder.write_json(folder.summary, {"objective": "grün\ud800", "score": None})

    assert folder.summary.read_text(encoding="utf-8") == '{\n  "objective": "grün?",\n  "score": null\n}\n'
    assert stat.S_IMODE(folder.summary.stat().st_mode) == 0o600
    assert sorted(path.name for path in folder.path.iterdir()) == ["scratch", "summary.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder.create(tmp_path, "k3f9")
    folder.write_json(folder.summary, 1)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecordError, match=r"cannot write .*/summary.json: No space left on device"):
        folder.write_json(folder.summary, 2)

    assert folder.summary.read_text() == "1\n"
    assert sorted(path.name for path in folder.path.iterdir()) == ["scratch", "summary.json"]


def test_scratch_files_are_fresh(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "k3f9")

    paths = {folder.scratch_file(".txt") for _ in range(10)}

    assert len(paths) == 10
    assert {path.suffix for path in paths} == {".txt"}
    assert not any(path.exists() for path in paths)


def test_nothing_heavy_is_imported() -> None:
    script = (
        "import sys, goalrunner.records.run_folder\n"
        "print([name for name in ('pydantic', 'rich', 'typer') if name in sys.modules])"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    printed = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)

    assert printed.stdout == "[]\n"


def test_a_home_of_a_user_who_is_not_known_is_taken_as_it_stands() -> None:
    assert goal_home({"GOAL_HOME": "~nobody-of-that-name/goal"}).name == "goal"


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(UsageError, match=r"you have no home folder.*\nexport GOAL_HOME=/a/folder/of/yours"):
        goal_home({})


def test_a_relative_home_in_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UsageError, match="the current folder does not exist any more"):
        goal_home({"GOAL_HOME": "kept"})
