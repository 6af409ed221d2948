from __future__ import annotations

import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from goalrunner.errors import GoalError, UsageError
from goalrunner.reports.copy import check_copy, is_stream, write_copy


def test_a_copy_replaces_what_was_there_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    check_copy(path)
    write_copy(path, "{}\n")
    assert path.read_text() == "{}\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_copy_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to("real.json")
    write_copy(link, "{}\n")
    assert link.is_symlink()
    assert (tmp_path / "real.json").read_text() == "{}\n"


def test_a_device_is_written_and_not_replaced() -> None:
    check_copy(Path("/dev/null"))
    write_copy(Path("/dev/null"), "{}\n")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_folder_that_does_not_exist_is_refused_before_the_run(tmp_path: Path) -> None:
    path = tmp_path / "no" / "out.json"
    with pytest.raises(UsageError) as refused:
        check_copy(path)
    assert str(refused.value) == (f"--output {path}: the folder {path.parent} does not exist\nmkdir -p {path.parent}")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        check_copy(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="may not be written to"):
        check_copy(tmp_path / "out.json")


def test_a_copy_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(GoalError, match=r"--output .*/gone/out\.json could not be written: No such file or directory"):
        write_copy(tmp_path / "gone" / "out.json", "{}")


@pytest.mark.parametrize("name", ["goal.toml", "./goal.toml", "link.toml", "hard.toml"])
def test_a_file_that_the_run_needs_is_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    goal = tmp_path / "goal.toml"
    goal.write_text("")
    (tmp_path / "link.toml").symlink_to("goal.toml")
    (tmp_path / "hard.toml").hardlink_to(goal)
    with pytest.raises(UsageError) as refused:
        check_copy(Path(name), {"the goal file": Path("goal.toml")})
    assert refused.value.message == f"--output {Path(name)} is the goal file; the outcome would replace it"


def test_a_file_that_is_yet_to_be_made_is_not_taken_either(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is the file of --record"):
        check_copy(tmp_path / "new.jsonl", {"the file of --record": tmp_path / "." / "new.jsonl"})


def test_a_link_into_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("missing/out.json")
    with pytest.raises(UsageError, match=r"link leads to .*/missing/out\.json: the folder .*/missing does not exist"):
        check_copy(link)


def test_a_link_to_a_file_that_is_not_there_yet_is_followed(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("out.json")
    check_copy(link)
    write_copy(link, "{}\n")
    assert (tmp_path / "out.json").read_text() == "{}\n"


@pytest.mark.parametrize("name", ["loop", "x" * 300, "file/out.json"])
def test_a_path_that_leads_nowhere_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--output"):
        check_copy(tmp_path / name)


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("s")
        with pytest.raises(UsageError, match="is a socket"):
            check_copy(Path("s"))


def test_a_name_of_the_greatest_length_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    check_copy(path)
    write_copy(path, "{}\n")
    assert path.read_text() == "{}\n"


def test_a_pipe_with_a_name_is_written_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    check_copy(path)
    assert is_stream(path)
    writing = threading.Thread(target=write_copy, args=(path, "{}\n"))
    writing.start()
    assert path.read_text() == "{}\n"
    writing.join()
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_the_number_of_an_open_pipe_is_written(tmp_path: Path, folder: str) -> None:
    if not Path(folder).is_dir():
        pytest.skip(f"there is no {folder}")
    reading, writing = os.pipe()
    link = tmp_path / "link"
    link.symlink_to(f"{folder}/{writing}")
    try:
        for path in (Path(folder) / str(writing), link):
            check_copy(path)
            assert is_stream(path)
            write_copy(path, "{}\n")
            assert os.read(reading, 10) == b"{}\n"
    finally:
        os.close(reading)
        os.close(writing)


def test_an_open_file_is_written_where_it_stands(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        log.write("before\n")
        log.flush()
        write_copy(Path(f"/dev/fd/{log.fileno()}"), "{}\n")
        log.write("after\n")
    assert (tmp_path / "log").read_text() == "before\n{}\nafter\n"


def test_a_number_that_is_not_open_or_only_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file is open under this number"):
        check_copy(Path("/dev/fd/987"))
    (tmp_path / "file").write_text("")
    with (tmp_path / "file").open() as file, pytest.raises(UsageError, match="open for reading only"):
        check_copy(Path(f"/dev/fd/{file.fileno()}"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_device_is_an_error() -> None:
    check_copy(Path("/dev/full"))
    with pytest.raises(GoalError, match="could not be written: No space left on device"):
        write_copy(Path("/dev/full"), "{}\n")
