"""Sessions are audited as they end: new files that have been quiet for a while."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.audits import watching
from goalrunner.audits.watching import EndedSessions, audit_ended
from goalrunner.cli.main import main
from tests.audits.test_audit import BY, CITED, chat
from tests.support.recordings import recording
from tests.transcripts.sessions import SESSIONS


def test_a_session_has_ended_when_it_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text("{}")
    sessions = EndedSessions(tmp_path, quiet=60)
    new = tmp_path / "project" / "new.jsonl"
    new.parent.mkdir()
    new.write_text("{}")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.jsonl").write_text("{}")
    (tmp_path / "notes.md").write_text("")
    assert sessions.look(0) == []
    assert sessions.look(59) == []
    with new.open("a") as file:
        file.write("{}")
    # The quiet time begins again with each change.
    assert sessions.look(60) == []
    assert sessions.look(119) == []
    assert sessions.look(120) == [new]
    assert sessions.look(300) == []
    # A session that is continued ends once more.
    os.utime(new, ns=(1, 1))
    assert sessions.look(400) == []
    assert sessions.look(460) == [new]
    new.unlink()
    assert sessions.look(600) == []


async def test_only_sessions_are_audited_until_the_audit_says_stop(
    tmp_path: Path,
) -> None:
    sessions = EndedSessions(tmp_path, quiet=0)
    (tmp_path / "a-index.json").write_text('{"entries": 3}')
    for name in ("b", "c", "d"):
        (tmp_path / f"{name}.jsonl").write_text(SESSIONS["codex"].text)
    audited = []

    async def audit(path: Path) -> bool:
        audited.append(path.name)
        return len(audited) < 2

    await audit_ended(sessions, audit, interval=0)
    assert audited == ["b.jsonl", "c.jsonl"]


def test_the_command_judges_ended_sessions_until_its_budget_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    recording(tmp_path / "judge.jsonl", CITED)

    class Sessions(EndedSessions):
        """The sessions are written when the command watches already."""

        def __init__(self, folder: Path) -> None:
            super().__init__(folder, quiet=0)
            (folder / "a.json").write_text(chat("43 passed in 0.4s"))
            (folder / "b.json").write_text(chat("1 failed"))

    monkeypatch.setattr(watching, "EndedSessions", Sessions)
    assert main(["audit", "--watch", "logs", *BY, "--tokens", "1000"]) == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "complete: logs/a.json",
        "not audited: logs/b.json: 1,000 of 1,000 tokens are spent",
    ]
    assert captured.err.startswith("Watching logs; ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent"], "--watch needs one folder"),
        (["logs", "more"], "--watch needs one folder"),
        (["logs", "--junit", "a.xml"], "--watch has no end"),
    ],
)
def test_what_cannot_be_watched_is_an_error(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    assert main(["audit", "--watch", *arguments, *BY]) == 2
    assert message in capsys.readouterr().err
