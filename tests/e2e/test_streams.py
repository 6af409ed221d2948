"""`goal` with streams that are full, closed or gone: no crash, and the exit code that is right."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import Ended, environment
from tests.support.recordings import agent, recording, shell
from tests.support.told_run import summary

needs_full = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="there is no /dev/full"
)
FULL = "Error: cannot write to stdout: No space left on device\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    model = recording(
        tmp_path / "r.jsonl", agent("", shell("touch done")), agent("made")
    )
    (tmp_path / "goal.toml").write_text(
        f'objective = "x"\nmodel = "{model}"\nvalidator = "test -e done"\n'
    )
    return tmp_path


def line(place: Path, words: str) -> Ended:
    """A command line as bash reads it; `goal` is the program."""
    script = f'goal() {{ "{sys.executable}" -m goalrunner "$@"; }}; {words}'
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=place,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@needs_full
@pytest.mark.parametrize(
    "words",
    [
        "list",
        "status --json",
        "show",
        "run --help",
        "--help",
        "--version",
        "run goal.toml --dry-run",
    ],
)
def test_a_full_stdout_is_one_line_and_4(
    place: Path, own_home: Path, words: str
) -> None:
    folder = own_home / "runs" / "k3f9-one"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_text("")
    (folder / "summary.json").write_text(json.dumps(summary(workspace=str(place))))
    assert line(place, f"goal {words} >/dev/full") == Ended(4, "", FULL)


@needs_full
def test_an_outcome_that_stdout_does_not_take_is_4(place: Path) -> None:
    ended = line(place, "goal run goal.toml --json --output out.json >/dev/full")
    assert ended.code == 4, ended
    assert "outcome.json\n           out.json\n" in ended.err
    assert ended.err.endswith(FULL)
    assert json.loads((place / "out.json").read_text())["status"] == "complete"


@needs_full
def test_progress_that_stdout_does_not_take_changes_no_outcome(place: Path) -> None:
    assert line(place, "goal run goal.toml >/dev/full").code == 0


@needs_full
def test_a_full_stderr_hides_no_exit_code(place: Path) -> None:
    assert line(place, "goal run missing.toml 2>/dev/full").code == 2


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_code(place: Path, closed: str) -> None:
    ended = line(
        place,
        f"goal list {closed}; echo $? >> codes; goal run missing.toml {closed}; echo $? >> codes;"
        f"goal run goal.toml --json --output out.json {closed}; echo $? >> codes; goal run --help {closed}; echo $? >> codes",
    )
    assert (place / "codes").read_text().split() == ["0", "2", "0", "0"], ended
    assert json.loads((place / "out.json").read_text())["status"] == "complete"
    assert "Traceback" not in ended.err


def test_a_reader_that_goes_away_changes_no_outcome(place: Path) -> None:
    ended = line(place, "goal run goal.toml | true; echo ${PIPESTATUS[0]}")
    assert (ended.out, ended.err) == ("0\n", "")


def test_the_outcome_goes_into_a_pipe_of_the_shell(place: Path) -> None:
    ended = line(
        place,
        "goal run goal.toml -q --output >(cat > piped; touch over); while ! test -e over; do sleep 0.05; done",
    )
    assert ended.code == 0
    assert json.loads((place / "piped").read_text())["status"] == "complete"


def test_the_outcome_follows_the_progress_on_stdout(place: Path) -> None:
    assert line(place, "goal run goal.toml --output /dev/stdout > all").code == 0
    told = (place / "all").read_text()
    assert told.startswith("goal       x\n")
    assert json.loads(told[told.index("{\n") :])["status"] == "complete"
