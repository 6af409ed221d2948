"""A run that meets secrets: none is kept or sent, all are counted, an honest quote holds, the files are private."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import stat
from pathlib import Path

import pytest

from goalrunner.app.run_options import RunOptions
from goalrunner.app.session import arun
from goalrunner.app.stored_goal import frozen_goal
from goalrunner.core.events import SecretsReplaced
from goalrunner.core.outcome import GoalOutcome
from goalrunner.goalfile.loading import load_goal
from goalrunner.records.event_log import read_records
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_summaries import read_summary
from goalrunner.reports.figures import redacted_line
from tests.support.recordings import agent, judge, quote, recording, shell
from tests.support.tokens import some

CRITERION = "the deployment is there"
TOKEN = "ghp_" + some(36)
SECRET = "hunter2-hunter2"

GOAL = f"""\
objective = "Deploy with {TOKEN}."
success_criteria = ["{CRITERION}"]
model = "{{model}}"
judge = "{{model}}"
validator = "echo checked {TOKEN}; test -e done"
[workspace]
path = "{{workspace}}"
[redact]
extra = ["$PIN", "/ACME-[0-9]+/"]
allow = ["ACME-7"]
"""


@dataclasses.dataclass(frozen=True)
class Kept:
    """How the run ended, and where it is kept."""

    outcome: GoalOutcome
    home: Path

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.home / "runs" / self.outcome.run_id)


@pytest.fixture
def pin() -> str:
    return "4711"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pin: str) -> Kept:
    monkeypatch.setenv("DEPLOY_TOKEN", SECRET)
    monkeypatch.setenv("PIN", pin)
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "deploy.env").write_text(
        f"token {TOKEN}\nkey {SECRET}\npin 4711\nticket ACME-42 ACME-7\n"
    )
    model = recording(
        tmp_path / "models.jsonl",
        agent("", shell("touch done"), shell("cat deploy.env")),
        agent(f"It is deployed with {TOKEN}."),
        judge(
            (
                CRITERION,
                [
                    quote(
                        "o3",
                        "token [redacted:github token]\nkey [redacted:DEPLOY_TOKEN]",
                    )
                ],
            )
        ),
    )
    goal_file = tmp_path / "goal.toml"
    goal_file.write_text(GOAL.format(model=model, workspace=workspace))
    outcome = asyncio.run(
        arun(load_goal(goal_file), RunOptions(home=tmp_path / "home"))
    )
    return Kept(outcome, tmp_path / "home")


def test_a_quote_around_a_secret_holds(kept: Kept) -> None:
    assert kept.outcome.passed, kept.outcome


@pytest.mark.parametrize("pin", ["47"])
def test_a_short_secret_that_occurs_in_hashes_does_not_stop_the_run(kept: Kept) -> None:
    assert kept.outcome.passed, kept.outcome


def test_nothing_that_is_kept_holds_a_secret(kept: Kept) -> None:
    needles = [TOKEN.encode(), SECRET.encode(), b"pin 4711", b"ACME-42"]
    for path in (path for path in kept.folder.path.rglob("*") if path.is_file()):
        data = path.read_bytes()
        assert not [needle for needle in needles if needle in data], path
    assert b"ACME-7" in b"".join(
        path.read_bytes() for path in kept.folder.artifacts.rglob("*") if path.is_file()
    )


def test_what_was_replaced_is_counted_by_kind(kept: Kept) -> None:
    counted = [
        record.event.counts
        for record in read_records(kept.folder.events)
        if isinstance(record.event, SecretsReplaced)
    ]
    assert counted
    redacted = kept.outcome.redacted
    assert set(redacted) == {"github token", "DEPLOY_TOKEN", "PIN", "extra"}
    assert all(
        redacted[kind] == sum(counts.get(kind, 0) for counts in counted)
        for kind in redacted
    )
    assert read_summary(kept.folder)["redacted"] == redacted
    assert json.loads(kept.folder.outcome.read_text())["redacted"] == redacted
    assert redacted_line({"github token": 2, "OPENAI_API_KEY": 1}) == (
        "3 secrets replaced: github token 2, OPENAI_API_KEY 1"
    )
    assert redacted_line({}) == ""


def test_the_frozen_goal_keeps_what_is_to_be_redacted(kept: Kept) -> None:
    text = kept.folder.goal_file.read_text()
    assert "$PIN" in text
    assert "4711" not in text
    with pytest.raises(
        Exception, match="was changed after the run began"
    ):  # the objective holds a token
        frozen_goal(kept.folder, os.environ)


def test_files_are_for_their_owner_alone(kept: Kept) -> None:
    for path in (kept.home, *kept.home.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if (
            path.relative_to(kept.home).parts[:1] == ("stores",)
            and path.parent.name != "stores"
        ):
            continue  # git's own files, in a folder that is closed
        if not path.is_symlink():
            assert mode == (0o700 if path.is_dir() else 0o600), (path, oct(mode))
