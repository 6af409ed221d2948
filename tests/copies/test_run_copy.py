"""What keeps copies apart: locks, slots, ports, and the files that a person makes meanwhile."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from goalrunner.copies.run_copy import (
    PORTS,
    CopyRecord,
    RunCopy,
    copy_environment,
    free_ports,
    is_in_memory,
    take_slot,
)
from goalrunner.core.errors import WorkspaceBusy


def test_slots_are_numbered_from_0_and_free_again_when_they_are_released(
    tmp_path: Path,
) -> None:
    first, handle = take_slot(tmp_path / "slots")
    second, other = take_slot(tmp_path / "slots")
    assert (first, second) == (0, 1)
    os.close(handle)
    third, last = take_slot(tmp_path / "slots")
    assert third == 0
    os.close(other)
    os.close(last)


def test_a_resumed_copy_gets_its_slot_if_that_is_free(tmp_path: Path) -> None:
    number, handle = take_slot(tmp_path / "slots", 4)
    other, more = take_slot(tmp_path / "slots", 4)
    assert (number, other) == (4, 0)
    os.close(handle)
    os.close(more)


def test_the_ports_of_a_copy_are_free_and_differ_by_slot() -> None:
    first, second = free_ports(0), free_ports(1)
    assert first % PORTS == 0
    assert abs(second - first) >= PORTS


def test_ports_in_use_are_left_out() -> None:
    first = free_ports(3)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 4))
        assert free_ports(3) != first


def test_a_copy_has_one_process(tmp_path: Path) -> None:
    copy = RunCopy(tmp_path / "k3f9-run" / "copy")
    copy.folder.parent.mkdir()
    handle = copy.lock()
    with pytest.raises(WorkspaceBusy, match="the copy of run k3f9-run is in use"):
        copy.lock()
    os.close(handle)
    os.close(copy.lock())


def test_a_copy_has_an_environment_of_its_own(tmp_path: Path) -> None:
    copy = RunCopy(tmp_path / "k3f9-run" / "copy")
    record = CopyRecord("/src/My App", "/src/My App", "/c", ())
    environ = copy_environment(copy, record, 2, {"HOME": "/h"})
    assert environ["HOME"] == "/h"
    assert environ["GOAL_SLOT"] == "2"
    assert int(environ["GOAL_PORT"]) >= 1024
    assert environ["TMPDIR"] == str(copy.temporary)
    assert environ["COMPOSE_PROJECT_NAME"] == "my-app-k3f9"


def test_a_folder_in_memory_is_known() -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir():
        pytest.skip("this system has no /dev/shm")
    assert is_in_memory(memory / "goal" / "runs")
    assert not is_in_memory(Path("/proc"))


def test_a_removed_copy_is_none(tmp_path: Path) -> None:
    copy = RunCopy(tmp_path / "copy")
    copy.folder.mkdir()
    record = CopyRecord("/r", "/r", str(tmp_path / "elsewhere"), ())
    copy.write(record)
    closed = record.layer(0) / "w" / "work"
    closed.mkdir(parents=True)
    closed.chmod(0)
    before = copy.exists
    copy.discard()
    assert before
    assert not RunCopy(copy.folder).exists
    assert not copy.folder.exists()
