"""`goal run --id`: the same command, given again, goes on with its run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from goalrunner.cli.main import main
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.writer_lock import WriterLock, lock_of
from tests.support.command_line import start
from tests.support.recordings import agent, recording, shell


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the agent makes one file a round, `1` and then `2`."""
    folder = tmp_path / "work"
    folder.mkdir()
    makes_next_file = shell("touch $(($(ls -d [0-9] | wc -l) + 1))")
    turns = [
        reply
        for _ in range(2)
        for reply in (agent("", makes_next_file), agent("Made."))
    ]
    recording(tmp_path / "replies.jsonl", *turns)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GOAL_HOME", str(tmp_path / "home"))
    return folder


WORDS = ("run", "--objective", "Make files.", "--model", "scripted/../replies.jsonl")


def goal_run(*options: str) -> int:
    return main([*WORDS, "--id", "files-1", *options])


def run_folder() -> RunFolder:
    (path,) = Path("../home/runs").iterdir()
    return RunFolder(path)


def rounds() -> int:
    return run_folder().events.read_text().count('"type":"round_started"')


def test_a_complete_run_is_printed_again_and_nothing_is_run(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert goal_run("--validator", "test -e 1") == 0
    assert run_folder().run_id == "files-1"
    first = capsys.readouterr().out
    before = run_folder().events.read_bytes()
    assert goal_run("--validator", "test -e 1") == 0
    assert "complete" in first
    assert "complete" in capsys.readouterr().out
    assert run_folder().events.read_bytes() == before


def test_a_capped_run_has_the_same_exit_code_and_gets_no_further_round(
    workspace: Path,
) -> None:
    options = ("--validator", "test -e 2", "--max-iterations", "1")
    assert goal_run(*options) == 1
    assert goal_run(*options) == 1
    assert rounds() == 1


@pytest.mark.slow
def test_a_run_that_sigterm_ended_goes_on(workspace: Path) -> None:
    recording(
        workspace.parent / "replies.jsonl",
        agent("", shell("test -e ../begun || { touch ../begun; sleep 60; }")),
        agent("Done."),
        agent("", shell("touch 1")),
        agent("Done."),
    )
    options = ("--id", "files-1", "--validator", "test -e 1")
    process = start(*WORDS, *options, cwd=workspace)
    until = time.monotonic() + 60
    while not (workspace.parent / "begun").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert goal_run("--validator", "test -e 1") == 0
    assert "run_resumed" in run_folder().events.read_text()


def test_what_a_killed_process_left_before_the_run_began_is_replaced(
    workspace: Path,
) -> None:
    folder = Path("../home/runs/files-1")
    (folder / "scratch").mkdir(parents=True)
    (folder / "events.jsonl").touch()
    assert goal_run("--validator", "test -e 1") == 0
    assert rounds() == 1


def test_a_run_that_another_process_begins_is_not_touched(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder.create(Path("../home").absolute(), "files-1")
    lock = WriterLock(lock_of(folder.events))
    assert goal_run("--validator", "true") == 4
    lock.close()
    assert "is active" in capsys.readouterr().err
    assert folder.path.exists()


def test_an_id_of_a_run_with_another_objective_is_refused(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    goal_run("--validator", "test -e 1")
    assert goal_run("--validator", "test -e 1", "--objective", "Make more.") == 2
    assert "another objective" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "A", "../x", "a--b", "-a", "a" * 64])
def test_a_text_that_can_be_no_id_is_refused(
    workspace: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    code = main(
        [
            "run",
            "--objective",
            "Make.",
            "--validator",
            "true",
            "--model",
            "scripted/../replies.jsonl",
            "--id",
            name,
        ]
    )
    assert code == 2
    assert "can be no id" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_in_a_copy_has_that_id_as_well(workspace: Path) -> None:
    options = ("--validator", "test -e 2", "--isolate")
    # Each of these commands becomes a process in the copy, so it is one of its own.
    for _ in range(2):
        process = start(*WORDS, "--id", "files-1", *options, cwd=workspace)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert rounds() == 2
    assert not (workspace / "1").exists()
