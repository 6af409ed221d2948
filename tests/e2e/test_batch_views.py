"""What a batch of command agents shows at terminals of two sizes is what tests/e2e/views holds.

After an intended change, `pytest tests/e2e/test_batch_views.py -m slow --update-goldens` writes the views.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from goalrunner.batches.batch_folder import BatchFolder
from goalrunner.checking.overlay import probe
from tests.support.forking import goal
from tests.support.tmux import Tmux, needs_tmux
from tests.support.workspaces import make_repository

pytestmark = [pytest.mark.slow, needs_tmux]

SIZES = ((80, 24), (140, 45))
VIEWS = Path(__file__).with_name("views")

SCRIPTS = {
    "quick": "touch quick",
    "hopeless": "true",
    "held": "until test -e {gate}; do sleep 0.1; done; touch held",
    "later": "touch later",
    "never-begins": "touch never-begins",
}
"""What the agent of each goal runs; `held` waits until the test opens a gate."""
BEFORE = {"later": "held", "never-begins": "hopeless"}
SETTLED = "5 goals: 1 running · 1 complete · 1 capped · 1 skipped · 1 pending"
_TIMES = re.compile(r"\b\d[\d.]* (?:s|min \d+ s|min)\b")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    files = {}
    for name, script in SCRIPTS.items():
        before = f'after = ["{BEFORE[name]}.toml"]\n' if name in BEFORE else ""
        command = script.format(gate=tmp_path / "gate")
        files[f"{name}.toml"] = (
            f'objective = "{name} exists"\nvalidator = "test -e {name}"\n'
            f'max_iterations = 1\n{before}[agent]\nuse = "command"\n'
            f'command = ["sh", "-c", "{command}"]\n'
        )
    root = make_repository(tmp_path / "place", files)
    if why := probe(root, tmp_path / "scratch"):
        pytest.skip(f"no overlay works here: {why}")
    return root


def lasting(screen: str, batch: BatchFolder) -> str:
    """Return a screen without what differs from run to run: times, their columns, and ids of runs."""
    for entry in batch.state().entries.values():
        if entry.run_id:
            screen = screen.replace(entry.run_id[:4], "k3f9")
    return re.sub(r"(?<=\S) {2,}", "  ", _TIMES.sub("N s", screen))


def compare(name: str, screen: str, request: pytest.FixtureRequest) -> None:
    """Compare a screen with its file, or write the file."""
    file = VIEWS / f"{name}.txt"
    if request.config.getoption("--update-goldens"):
        file.write_text(screen, encoding="utf-8")
    assert screen == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("size", SIZES)
def test_a_batch_is_drawn_in_place_and_ends_with_all_rows(
    size: tuple[int, int],
    workspace: Path,
    tmp_path: Path,
    own_home: Path,
    request: pytest.FixtureRequest,
) -> None:
    batch = BatchFolder(own_home / "batches" / "night")
    name = f"batch-{size[0]}x{size[1]}"
    line = ("batch", ".", "--name", batch.batch_id)
    with Tmux(size, *line, cwd=workspace, folder=tmp_path) as terminal:
        screen = terminal.wait_for(SETTLED)
        assert max(map(len, screen.splitlines())) <= size[0]
        compare(name, lasting(screen, batch), request)
        with Tmux(size, "watch", "ni", cwd=workspace, folder=tmp_path) as watching:
            screen = watching.wait_for(SETTLED)
            compare(name, lasting(screen, batch), request)
            watching.press("C-c")
            watching.wait_for("follow     goal watch night")
        (tmp_path / "gate").touch()
        screen = terminal.wait_for("details")
        # The live table has left nothing above the last lines.
        assert screen.startswith("batch      night")
        compare(f"{name}-end", lasting(screen, batch), request)


def test_ctrl_c_ends_a_batch_so_that_it_goes_on_and_writes_its_files(
    workspace: Path, tmp_path: Path, own_home: Path
) -> None:
    line = ("batch", ".", "--name", "night")
    with Tmux(SIZES[0], *line, cwd=workspace, folder=tmp_path) as terminal:
        terminal.wait_for(SETTLED)
        terminal.press("C-c")
        screen = terminal.wait_for("continue   goal batch --resume night")
    assert "interrupted by SIGINT" in screen
    (tmp_path / "gate").touch()
    files = ("--html", tmp_path / "night.html", "--junit", tmp_path / "night.xml")
    resumed = goal("batch", "--resume", "night", *files, cwd=workspace)
    assert resumed.code == 1
    assert "continued  held: run " in resumed.out
    assert "complete   later: " in resumed.out
    assert (tmp_path / "night.xml").read_text().count("<testcase") == 5
    pages = [f"night-runs/{page.name}" for page in (tmp_path / "night-runs").iterdir()]
    assert len(pages) == 4
    page = (tmp_path / "night.html").read_text()
    assert [link for link in pages if f'href="{link}"' not in page] == []


def test_goal_cancel_ends_a_batch_at_work_for_good(
    workspace: Path, tmp_path: Path, own_home: Path
) -> None:
    line = ("batch", ".", "--name", "night")
    with Tmux(SIZES[0], *line, cwd=workspace, folder=tmp_path) as terminal:
        terminal.wait_for(SETTLED)
        assert goal("cancel", "night", "--yes", cwd=workspace).code == 0
        screen = terminal.wait_for("details")
    assert "cancelled by " in screen
    assert "continue" not in screen
    resumed = goal("batch", "--resume", "night", cwd=workspace)
    assert resumed.code == 2
    assert "was cancelled" in resumed.err
