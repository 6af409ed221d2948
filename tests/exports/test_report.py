"""`goal report` on a real run: where the file goes, what it reads, and what it refuses."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import pytest

from goalrunner.cli.main import main
from tests.bench.measuring import GOAL, process_seconds
from tests.support.finished_run import FinishedRun, finish_run
from tests.support.long_run import long_run


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """One run for all tests that only read."""
    return finish_run(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def run(
    kept_run: FinishedRun, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> FinishedRun:
    """A copy of its records in GOAL_HOME; its workspace is the current folder."""
    monkeypatch.chdir(kept_run.workspace)
    return kept_run.copied(own_home)


def test_the_report_of_the_newest_run_is_written_into_its_folder(
    run: FinishedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report"]) == 0
    path = run.folder.path / "report.html"
    assert capsys.readouterr().out == f"{path}\n"
    text = path.read_text(encoding="utf-8")
    assert (
        "Complete after 2 rounds: 1 criterion is met, by 1 citation that the runner checked."
        in text
    )
    assert '<a class="id" href="#o6">o6</a>' in text
    assert (
        '<span class="add">+hello, dear friend</span>' in text
    )  # the diff of round 2, and of the run
    assert '<span class="del">-hello</span>' in text
    assert main(["verify"]) == 0


@pytest.mark.slow
def test_the_report_goes_where_output_says(
    run: FinishedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["report", run.folder.run_id[:4], "-o", str(tmp_path / "run.html")]) == 0
    )
    assert (tmp_path / "run.html").is_file()
    assert not (run.folder.path / "report.html").exists()
    assert main(["report", "-o", "/dev/stdout"]) == 0
    assert main(["report", "-o", str(tmp_path / "missing" / "run.html")]) == 2
    assert f"mkdir -p {tmp_path}/missing" in capsys.readouterr().err


@pytest.mark.slow
def test_an_outcome_that_is_not_that_of_the_log_is_not_used(
    run: FinishedRun, tmp_path: Path
) -> None:
    values = json.loads(run.folder.outcome.read_text())
    run.folder.outcome.write_text(
        json.dumps({**values, "finished_at": "", "objective": "Something else."})
    )
    assert main(["report", "-o", str(tmp_path / "run.html")]) == 0
    text = (tmp_path / "run.html").read_text()
    assert "Something else." not in text
    assert "Write a friendly greeting." in text


@pytest.mark.slow
def test_a_run_without_snapshots_or_outputs_has_a_report_that_says_so(
    run: FinishedRun, own_home: Path, tmp_path: Path
) -> None:
    (own_home / "stores").rename(tmp_path / "stores")
    run.folder.artifacts.rename(tmp_path / "artifacts")
    assert main(["report", "-o", str(tmp_path / "run.html")]) == 0
    text = (tmp_path / "run.html").read_text()
    assert "No diffs: the snapshots of" in text
    assert "The output cannot be read: artifact" in text


@pytest.mark.slow
def test_two_runs_side_by_side(
    run: FinishedRun, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = finish_run(own_home.parent / f"{own_home.name}-other").copied(own_home)
    assert main(["report", "--compare", run.folder.run_id, other.folder.run_id]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path == run.folder.path / f"compare-{other.folder.run_id}.html"
    assert path.read_text().count("Complete after 2 rounds") == 2


def test_what_cannot_be_compared_is_refused(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own_home / "runs" / "k3f9-one").mkdir(parents=True)
    assert main(["report", "k3f9", "k3f9-one"]) == 2
    assert main(["report", "--compare", "k3f9"]) == 2
    assert main(["report", "--compare"]) == 2
    assert main(["report", "--compare", "k3f9", "k3f9-one"]) == 2
    assert main(["report", "k3f9"]) != 0
    assert main(["report", "nothing-like-it"]) == 2
    errors = capsys.readouterr().err
    assert "put them side by side: goal report --compare k3f9 k3f9-one" in errors
    assert errors.count("goal report --compare RUN RUN") == 2
    assert "run k3f9-one is named twice" in errors


@pytest.mark.slow
def test_open_shows_the_file_in_the_browser(
    run: FinishedRun,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    opened: list[str] = []

    def open_nothing(url: str) -> bool:
        opened.append(url)
        return False

    monkeypatch.setattr(webbrowser, "open", open_nothing)
    assert main(["report", "--open"]) == 0
    assert opened == [(run.folder.path / "report.html").as_uri()]
    assert "No browser could be started" in capsys.readouterr().err


@pytest.mark.bench
def test_a_run_of_ten_thousand_events_has_a_small_report_soon(
    own_home: Path, tmp_path: Path
) -> None:
    folder = long_run(tmp_path, own_home, 200)
    assert len(folder.events.read_bytes().splitlines()) > 10_000
    target = tmp_path / "run.html"
    lines = (["report", folder.run_id, "-o", str(target)], ["show", folder.run_id])
    times = [[process_seconds([GOAL, *line]) for line in lines] for _ in range(3)]
    report, show = map(min, zip(*times, strict=True))
    print(
        f"\ngoal report {report:.2f} s, goal show {show:.2f} s, {target.stat().st_size:,} bytes"
    )
    assert report < 2 * show
    assert target.stat().st_size < 5_000_000
