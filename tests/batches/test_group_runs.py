"""The runs of a group as `goal report --compare` shows them, and the one that `goal apply` takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.batches.batch_folder import BatchFolder
from goalrunner.batches.group_runs import group_runs, winner_of
from goalrunner.batches.group_table import group_lines, group_rows
from goalrunner.batches.history import BatchEvent, EntryEnded, EntryStarted
from goalrunner.batches.plan import BatchEntry, BatchPlan
from goalrunner.batches.ranking import GroupRun
from goalrunner.cli.main import main
from goalrunner.core.errors import UsageError
from goalrunner.core.observation import DiffStat
from tests.support.finished_run import FinishedRun, finish_run

AT = "2026-01-01T00:00:00+00:00"


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return finish_run(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def run(
    kept_run: FinishedRun, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> FinishedRun:
    monkeypatch.chdir(kept_run.workspace)
    return kept_run.copied(own_home)


def batch_of(home: Path, *run_ids: str, kind: str = "group") -> BatchFolder:
    """A batch whose runs have begun, if they have an id."""
    entries = [
        BatchEntry(
            key=str(number),
            name=f"claude {number}",
            source="/p/goal.toml",
            objective="Write a greeting.",
            workspace="/p",
        )
        for number, _ in enumerate(run_ids, 1)
    ]
    values = {"batch_id": "best", "created_at": AT, "entries": entries, "jobs": 2}
    plan = BatchPlan.model_validate({**values, "kind": kind})
    folder = BatchFolder.create(home, plan, {entry.key: "" for entry in entries})
    with folder.writing() as log:
        for key, run_id in zip(log.state.entries, run_ids, strict=True):
            if run_id:
                started: BatchEvent = EntryStarted(at=AT, key=key, run_id=run_id)
                log.append(started)
                log.append(EntryEnded(at=AT, key=key, status="complete"))
    return folder


def test_the_verified_run_of_a_group_is_the_winner(
    run: FinishedRun, own_home: Path
) -> None:
    group = batch_of(own_home, "", "gone-run", run.folder.run_id)
    first, *others = group_runs(group, own_home)
    assert (first.run_id, first.status) == (run.folder.run_id, "complete")
    assert first.score == 1.0
    assert first.changed_lines
    # A log that is gone proves nothing, whatever the batch recorded.
    assert [other.status for other in others] == ["pending", "no records"]
    assert winner_of(group, own_home) == run.folder


def test_a_group_without_a_verified_run_has_no_winner(own_home: Path) -> None:
    group = batch_of(own_home, "gone-run", "")
    with pytest.raises(UsageError, match=r"group best is verified(.|\n)*resume RUN"):
        winner_of(group, own_home)
    assert main(["apply", "best"]) == 2
    assert main(["report", "--compare", "best"]) == 2


def test_a_batch_of_different_goals_has_no_winner(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch_of(own_home, "gone-run", "", kind="batch")
    assert main(["report", "--compare", "best"]) == 2
    assert "goal apply best takes all verified" in capsys.readouterr().err


def test_a_group_is_compared_and_its_winner_applied(
    run: FinishedRun, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = batch_of(own_home, "gone-run", run.folder.run_id)
    (own_home / "runs" / "gone-run").mkdir()
    assert main(["report", "--compare", "be"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path == group.path / "compare.html"
    text = path.read_text()
    assert "1 run side by side" in text
    assert "claude 1" in text
    assert "no records" in text
    assert main(["apply", "best"]) == 0
    assert f"has the change of {run.folder.run_id} already" in capsys.readouterr().out


def test_the_lines_of_a_group_say_why_one_run_comes_before_another() -> None:
    runs = [
        GroupRun(
            "1",
            "claude",
            "k3f9-parse",
            "complete",
            hidden_failures=1,
            score=0.95,
            changes=DiffStat(files=1, added=9, removed=2),
            cost_usd=0.2,
            tokens=1200,
        ),
        GroupRun("2", "codex", "b2aa-parse", "complete", hidden_failures=3, score=1.0),
        GroupRun("3", "gemini", "", "pending"),
    ]
    figures = "1 failure of hidden validators · score 0.95 · 1 file changed, +9 −2"
    lines = group_lines("best", group_rows(runs))
    assert [f"{line.label}: {line.text}" for line in lines] == [
        f"best: claude · run k3f9-parse · {figures} · $0.20 · 1,200 tokens",
        ": before the next one by fewer failures of hidden validators",
        "2: codex · run b2aa-parse · 3 failures of hidden validators · score 1.00",
        "compare: goal report --compare best",
        "apply: goal apply best",
    ]
    (line,) = group_lines("best", group_rows(runs[2:]))
    assert line.text == "goal report --compare best"
