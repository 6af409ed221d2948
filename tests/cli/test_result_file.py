"""A file for a result: what may be there before and after the run, and what is refused."""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from pathlib import Path

import pytest

from goalrunner.cli.result_file import ResultFile
from goalrunner.core.errors import GoalError, UsageError


def test_a_copy_replaces_what_was_there_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    ResultFile(path).write("{}\n")
    assert path.read_text() == "{}\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_copy_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to("real.json")
    ResultFile(link).write("{}\n")
    assert link.is_symlink()
    assert (tmp_path / "real.json").read_text() == "{}\n"


def test_a_device_is_written_and_not_replaced() -> None:
    ResultFile(Path("/dev/null")).write("{}\n")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_folder_that_does_not_exist_is_refused_before_the_run(tmp_path: Path) -> None:
    path = tmp_path / "no" / "out.json"
    with pytest.raises(UsageError) as refused:
        ResultFile(path)
    assert str(refused.value) == (
        f"--output {path}: {path.parent} is not a folder\nchoose another path, or: mkdir -p {path.parent}"
    )


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        ResultFile(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="may not be written to"):
        ResultFile(tmp_path / "out.json")


def test_a_copy_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    copy = ResultFile(tmp_path / "gone" / "out.json")
    (tmp_path / "gone").rmdir()
    with pytest.raises(
        GoalError,
        match=r"--output .*/gone/out\.json could not be written: No such file or directory",
    ):
        copy.write("{}")


@pytest.mark.parametrize("name", ["goal.toml", "./goal.toml", "link.toml"])
def test_a_file_that_the_run_needs_is_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    goal = tmp_path / "goal.toml"
    goal.write_text("")
    (tmp_path / "link.toml").symlink_to("goal.toml")
    with pytest.raises(UsageError) as refused:
        ResultFile(Path(name), {"the goal file": Path("goal.toml")})
    assert (
        refused.value.message
        == f"--output {Path(name)} is the goal file; the outcome would replace it"
    )


def test_a_file_that_is_yet_to_be_made_is_not_taken_either(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is the file of --record"):
        ResultFile(
            tmp_path / "new.jsonl",
            {"the file of --record": tmp_path / "." / "new.jsonl"},
        )


def test_another_name_of_a_file_that_the_run_needs_gets_a_file_of_its_own(
    tmp_path: Path,
) -> None:
    goal, other = tmp_path / "goal.toml", tmp_path / "other.json"
    goal.write_text("objective = 1")
    other.hardlink_to(goal)
    ResultFile(other, {"the goal file": goal}).write("{}")
    assert (goal.read_text(), other.read_text()) == ("objective = 1", "{}")


def test_a_link_into_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("missing/out.json")
    with pytest.raises(UsageError, match=r"link: .*/missing is not a folder"):
        ResultFile(link)


def test_a_link_to_a_file_that_is_not_there_yet_is_followed(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("out.json")
    ResultFile(link).write("{}\n")
    assert (tmp_path / "out.json").read_text() == "{}\n"


@pytest.mark.parametrize("name", ["x" * 300, "file/out.json"])
def test_a_path_that_leads_nowhere_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--output"):
        ResultFile(tmp_path / name)


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("s")
        with pytest.raises(UsageError, match="no process reads it"):
            ResultFile(Path("s"))


def test_a_name_of_the_greatest_length_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    ResultFile(path).write("{}\n")
    assert path.read_text() == "{}\n"


def test_a_pipe_with_a_name_is_opened_before_the_run_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    deadline = time.monotonic() + 60
    while True:  # the reader may not have opened it yet
        try:
            copy = ResultFile(path)
            break
        except UsageError:
            assert time.monotonic() < deadline
    assert copy.is_stream
    text = "x" * 200_000  # more than a pipe holds
    copy.write(text)
    del copy
    reader.join(10)
    assert read == [text]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_pipe_without_a_reader_is_refused_before_the_run(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(UsageError) as refused:
        ResultFile(path)
    assert str(refused.value).splitlines() == [
        f"--output {path}: no process reads it",
        f"start its reader first, such as: cat {path} &",
    ]


# What an agent puts at the path during the run.


@pytest.mark.parametrize("planted", ["link", "pipe"])
def test_what_stands_at_the_path_at_the_end_is_replaced(
    tmp_path: Path, planted: str
) -> None:
    victim, path = tmp_path / "victim", tmp_path / "out.json"
    victim.write_text("precious")
    copy = ResultFile(path)
    path.symlink_to(victim) if planted == "link" else os.mkfifo(path)
    copy.write("{}\n")
    assert (victim.read_text(), path.is_symlink(), path.read_text()) == (
        "precious",
        False,
        "{}\n",
    )


def test_a_folder_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    folder, home = tmp_path / "ws" / "out", tmp_path / "home"
    folder.mkdir(parents=True)
    home.mkdir()
    (home / "out.json").write_text("precious")
    copy = ResultFile(folder / "out.json")
    folder.rmdir()
    folder.symlink_to(home)
    with pytest.raises(GoalError, match="a folder of its path became a link"):
        copy.write("{}\n")
    assert (home / "out.json").read_text() == "precious"


def test_a_folder_that_was_removed_and_made_again_is_written_to(tmp_path: Path) -> None:
    folder = tmp_path / "build"
    folder.mkdir()
    copy = ResultFile(folder / "out.json")
    folder.rmdir()
    folder.mkdir()
    copy.write("{}\n")
    assert (folder / "out.json").read_text() == "{}\n"


def test_a_link_in_the_path_that_the_user_gave_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "results").symlink_to("real")
    ResultFile(tmp_path / "results" / "out.json").write("{}\n")
    assert (tmp_path / "real" / "out.json").read_text() == "{}\n"


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_the_number_of_an_open_pipe_is_written(tmp_path: Path, folder: str) -> None:
    if not Path(folder).is_dir():
        pytest.skip(f"there is no {folder}")
    reading, writing = os.pipe()
    link = tmp_path / "link"
    link.symlink_to(f"{folder}/{writing}")
    try:
        for path in (Path(folder) / str(writing), link):
            copy = ResultFile(path)
            assert copy.is_stream
            copy.write("{}\n")
            assert os.read(reading, 10) == b"{}\n"
    finally:
        os.close(reading)
        os.close(writing)


def test_an_open_file_is_written_where_it_stands(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        log.write("before\n")
        log.flush()
        ResultFile(Path(f"/dev/fd/{log.fileno()}")).write("{}\n")
        log.write("after\n")
    assert (tmp_path / "log").read_text() == "before\n{}\nafter\n"


def test_a_number_that_is_not_open_is_refused() -> None:
    with pytest.raises(UsageError, match="--output /dev/fd/987: bad file descriptor"):
        ResultFile(Path("/dev/fd/987"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_device_is_an_error() -> None:
    copy = ResultFile(Path("/dev/full"))
    with pytest.raises(
        GoalError, match="could not be written: No space left on device"
    ):
        copy.write("{}\n")
