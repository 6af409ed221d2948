"""`goal batch` as it is typed: what it refuses before anything starts."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from goalrunner.batches.batch_folder import BatchFolder, batch_names
from goalrunner.batches.history import BatchStopped
from goalrunner.batches.option_values import UNTIL
from goalrunner.cli.main import main
from tests.batches.test_history import AT, plan_of
from tests.support.workspaces import write


@pytest.fixture
def goals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    text = 'objective = "A"\nvalidator = "true"\n[agent]\nuse = "command"\ncommand = ["true"]\n'
    write(tmp_path / "ws", {"a.toml": text})
    monkeypatch.chdir(tmp_path / "ws")
    return tmp_path / "ws"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "there is no goal to run"),
        (["a.toml", "--jobs", "0"], '"0" is not valid; use a whole number from 1'),
        (["a.toml", "--cost", "0"], '"0" is not valid; use dollars'),
        (["a.toml", "--tokens", "1.5"], '"1.5" is not valid; use a whole number'),
        (["a.toml", "--until", "25:00"], '"25:00" is not valid; use "07:30"'),
        (["a.toml", "--until", "2020-01-01"], "+00:00 is over"),
        (
            ["a.toml", "--at-least", "2"],
            "--at-least 2 is more than the number of goals: 1",
        ),
        (["a.toml", "--name", "a/b"], '--name "a/b" is not valid'),
        (["a.toml", "--name", "night"], "there is a batch night already"),
        (["--resume", "day"], 'no batch "day"'),
        (["--resume", "night", "more"], "--resume goes on with one batch"),
        (["--resume", "night", "--agent", "claude"], "--resume takes new limits only"),
        (["--resume", "night"], "batch night was cancelled, which is final"),
    ],
)
def test_what_is_not_possible_is_refused(
    goals: Path,
    own_home: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    expected: str,
) -> None:
    folder = BatchFolder.create(own_home, plan_of("a"), {})
    with folder.writing() as log:
        log.append(BatchStopped(at=AT, reason="", cancelled=True))
    assert main(["batch", *arguments]) == 2
    assert expected in capsys.readouterr().err
    assert batch_names(own_home) == ["night"]
    assert not (own_home / "runs").exists()


def test_a_time_of_day_is_the_next_one() -> None:
    now = datetime.now().astimezone()
    for hours in (1, -1):
        time = now + timedelta(hours=hours)
        moment = datetime.fromisoformat(UNTIL(f"{time:%H:%M}"))
        assert timedelta() < moment - now <= timedelta(days=1)
    assert UNTIL("2026-01-31T07:30+01:00") == "2026-01-31T07:30:00+01:00"
