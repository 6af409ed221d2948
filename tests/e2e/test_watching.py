"""What people see while a run goes on: at a real terminal, in a pipe, and after Ctrl-C."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.recordings import agent, recording, shell, write_file
from tests.support.terminal import Terminal

CHECK = """\
import sys, time
for number in range(1, 9):
    print(f"tests/test_a.py::test_{number} PASSED [{number * 12:3d}%]", flush=True)
    time.sleep(0.5)
sys.exit(0 if open("a.txt").read() == "1" else 1)
"""


@pytest.fixture
def place(place: Path, tmp_path: Path) -> Path:
    (place / "check.py").write_text(CHECK)
    (place / "a.txt").write_text("0")
    model = recording(
        tmp_path / "r.jsonl",
        agent(
            "",
            shell(
                "echo compiling the parser; until [ -e seen ]; do sleep 0.1; done; rm seen"
            ),
        ),
        agent("", write_file("a.txt", "1")),
        agent("made it"),
    )
    (place / "goal.toml").write_text(
        f'objective = "make it 1"\nmodel = "{model}"\nvalidator = "python3 check.py"\nmax_iterations = 3\n'
        f'[notify]\ncommand = "echo $GOAL_STATUS > {tmp_path}/told"\n'
    )
    return place


def test_a_terminal_shows_output_while_commands_run_and_the_totals(place: Path) -> None:
    with Terminal("run", "goal.toml", cwd=place) as terminal:
        terminal.wait_for("test_4 PASSED")
        terminal.wait_for("before round 1 of 3")
        terminal.wait_for("compiling the parser")
        (place / "seen").touch()
        terminal.wait_for("last run 4.")
        assert terminal.end() == 0
        assert "1 file changed, +1 −1" in terminal.shown
    assert (place.parent / "told").read_text() == "complete\n"


def test_ctrl_c_names_what_was_cut_and_the_command_that_goes_on(place: Path) -> None:
    with Terminal("run", "goal.toml", cwd=place) as terminal:
        terminal.wait_for("compiling the parser")
        terminal.type("\x03")
        assert terminal.end() == 130
        assert "continue   goal resume " in terminal.shown.splitlines()[-1]
        assert "   interrupted\n" in terminal.shown
    assert (place.parent / "told").read_text() == "cancelled\n"
