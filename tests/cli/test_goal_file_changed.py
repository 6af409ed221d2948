"""`goal run` says if the goal file was changed while the last run with it worked."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.app.previous_run import read_events
from goalrunner.cli.main import main
from goalrunner.core.events import RunStarted
from goalrunner.records.run_summaries import run_summaries

GOAL = """\
objective = "Write it."
validator = "grep -qx done result.txt"
max_iterations = 1
[agent]
use = "command"
command = ["sh", "agent.sh"]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "goal.toml").write_text(GOAL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_with(
    project: Path, script: str, home: Path
) -> tuple[str, RunStarted, list[str]]:
    """Run the goal with this script as the agent; return the run's id, its start and its labels."""
    (project / "result.txt").unlink(missing_ok=True)
    (project / "agent.sh").write_text(f"echo done > result.txt\n{script}\n")
    main(["run"])
    summary = run_summaries(home)[0]
    started = next(
        event
        for event in read_events(str(summary["run_id"]))
        if isinstance(event, RunStarted)
    )
    return str(summary["run_id"]), started, summary["labels"]


def test_a_goal_file_that_the_agent_changed_is_said_at_the_next_run_and_once(
    project: Path, own_home: Path
) -> None:
    weakened = GOAL.replace("grep -qx done result.txt", "test -e result.txt")
    first, _, _ = run_with(project, f"cat > goal.toml <<'END'\n{weakened}END", own_home)
    second, started, labels = run_with(project, "", own_home)
    assert (
        f"goal.toml was changed while run {first} worked; check it: goal diff {first}"
        in started.notes
    )
    assert "goal changed" in labels
    assert second != first
    _, started, labels = run_with(project, "", own_home)
    assert not any("goal.toml was changed" in note for note in started.notes)
    assert "goal changed" not in labels


@pytest.mark.slow
def test_changes_of_the_user_and_changes_that_were_put_back_are_not_said(
    project: Path, own_home: Path
) -> None:
    run_with(project, "", own_home)
    (project / "goal.toml").write_text(GOAL.replace("Write it.", "Write the file."))
    _, started, labels = run_with(project, "echo >> goal.toml", own_home)
    assert "goal changed" not in (*labels, *started.notes)
    (project / "goal.toml").write_text(GOAL.replace("Write it.", "Write the file."))
    _, started, labels = run_with(project, "", own_home)
    assert "goal changed" not in labels
    assert not any("goal.toml was changed" in note for note in started.notes)
