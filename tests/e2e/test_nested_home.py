"""Where goal keeps its runs and where the agent works must lie apart; found before anything is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.forking import goal
from tests.support.recordings import agent, recording

GOAL = (
    "run",
    "--objective",
    "x",
    "--validator",
    "true",
    "--model",
    "scripted/replies.jsonl",
    "--workspace",
)


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("home", "workspace", "said"),
    [
        ("ws/.goal", "ws", "where goal keeps its runs, lies in the workspace"),
        ("ws", "ws", "where goal keeps its runs, lies in the workspace"),
        ("link", "ws", "where goal keeps its runs, lies in the workspace"),
        ("home", "home/tmp/ws", "where goal keeps temporary files"),
    ],
)
def test_one_in_the_other_is_2(
    tmp_path: Path, home: str, workspace: str, said: str, more: tuple[str, ...]
) -> None:
    (tmp_path / workspace).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / workspace / "kept")
    (tmp_path / "replies.jsonl").write_text("")
    before = sorted(tmp_path.rglob("*"))
    ended = goal(
        *GOAL, workspace, *more, cwd=tmp_path, env={"GOAL_HOME": str(tmp_path / home)}
    )
    assert (ended.code, ended.out) == (2, ""), ended
    first, second = ended.err.splitlines()
    assert said in first
    assert second.startswith("export GOAL_HOME=...")
    assert "--workspace DIR" in second
    assert sorted(tmp_path.rglob("*")) == before


def test_without_checks_of_the_workspace_the_home_may_be_anywhere(
    tmp_path: Path,
) -> None:
    (tmp_path / "goal.toml").write_text(
        'objective = "x"\nvalidator = "true"\nmodel = "scripted/r"\ndeliverable = "response"\n'
    )
    (tmp_path / "r").write_text('{"text": "done"}\n')
    ended = goal(
        "run", "goal.toml", cwd=tmp_path, env={"GOAL_HOME": str(tmp_path / ".goal")}
    )
    assert (ended.code, ended.err) == (0, ""), ended


def test_a_workspace_beside_the_temporary_files(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    recording(tmp_path / "replies.jsonl", agent("done"))
    ended = goal(*GOAL, "ws", cwd=tmp_path, env={"GOAL_HOME": str(tmp_path)})
    assert (ended.code, ended.err) == (0, ""), ended
