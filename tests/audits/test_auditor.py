"""Many audits at once: their order, what is kept of them, and interruptions."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goalrunner.audits.auditor import Auditor, OnEnd, check_judges
from goalrunner.audits.kept_verdicts import KeptVerdicts, TranscriptAudit
from goalrunner.audits.spending import Spending
from goalrunner.audits.transcript_audits import AuditJob
from goalrunner.core.errors import AuthenticationFailed, UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import Budget, JudgeConfig
from tests.support.clocks import deadlines
from tests.support.recordings import judge, quote, recording
from tests.transcripts.sessions import FINAL, SESSIONS, WRITTEN

CITED = judge(("x", [quote("o2", WRITTEN)]))


def job(folder: Path, name: str, **more: Any) -> AuditJob:
    """A transcript and a judge of its own, which answers once."""
    path = folder / f"{name}.json"
    path.write_text(SESSIONS["openai-chat"].text.replace("Make the tests pass.", name))
    model = recording(folder / f"{name}-judge.jsonl", {**CITED, **more})
    return AuditJob(path, Goal(objective="x", judge=model))


async def audit_many(
    jobs: list[AuditJob],
    kept: KeptVerdicts,
    *,
    at_once: int = 4,
    on_end: OnEnd | None = None,
) -> list[TranscriptAudit]:
    return await Auditor(kept, Spending(), on_end=on_end).run(jobs, at_once)


async def names(jobs: list[AuditJob], kept: KeptVerdicts, at_once: int) -> list[str]:
    """The transcripts in the order in which their audits ended."""
    ended: list[TranscriptAudit] = []
    audits = await audit_many(
        jobs,
        kept,
        at_once=at_once,
        on_end=lambda number, of, audit: ended.append(audit),
    )
    assert [one.transcript for one in audits] == [str(one.path) for one in jobs]
    assert {one.result for one in audits} == {"complete"}
    return [Path(one.transcript).stem for one in ended]


async def test_audits_run_at_once_and_are_returned_in_order(tmp_path: Path) -> None:
    jobs = [job(tmp_path, name) for name in ("slow", "quick", "third")]
    assert await names(jobs, KeptVerdicts(tmp_path / "a.jsonl"), 1) == [
        "slow",
        "quick",
        "third",
    ]
    for seconds in deadlines():  # the other two have to end within it
        jobs[0] = job(tmp_path, "slow", delay=seconds)
        if (ended := await names(jobs, KeptVerdicts(tmp_path / f"{seconds}.jsonl"), 2))[
            -1
        ] == "slow":
            break
    assert ended[-1] == "slow"


async def test_an_interrupted_call_keeps_what_has_ended(tmp_path: Path) -> None:
    jobs = [job(tmp_path, "quick"), job(tmp_path, "slow", delay=60.0)]
    first = asyncio.Event()
    verdicts_file = tmp_path / "kept.jsonl"
    task = asyncio.create_task(
        audit_many(jobs, KeptVerdicts(verdicts_file), on_end=lambda *_: first.set())
    )
    await first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    recording(tmp_path / "quick-judge.jsonl")  # it is not asked again
    recording(tmp_path / "slow-judge.jsonl", CITED)
    audits = await audit_many(jobs, KeptVerdicts(verdicts_file))
    assert [(one.result, one.was_kept) for one in audits] == [
        ("complete", True),
        ("complete", False),
    ]


class Writing(KeptVerdicts):
    """Lets the agent go on between the look at the content and its audit."""

    transcript: Path

    def get(self, key: str) -> TranscriptAudit | None:
        """Change the transcript."""
        self.transcript.write_text(self.transcript.read_text().replace(FINAL, "Done."))
        return super().get(key)


async def test_a_transcript_that_is_written_during_its_audit_is_judged_again(
    tmp_path: Path,
) -> None:
    kept_verdicts = Writing(tmp_path / "kept.jsonl")
    one = job(tmp_path, "talk")
    kept_verdicts.transcript = Path(one.path)
    assert [audit.result for audit in await audit_many([one], kept_verdicts)] == [
        "complete"
    ]
    assert [audit.usage.calls for audit in await audit_many([one], kept_verdicts)] == [
        1
    ]
    assert (
        len(
            {
                json.loads(line)["key"]
                for line in kept_verdicts.path.read_bytes().splitlines()
            }
        )
        == 2
    )


async def test_a_failed_judge_is_asked_again_by_the_next_call(tmp_path: Path) -> None:
    one = job(tmp_path, "talk")
    recording(
        tmp_path / "talk-judge.jsonl", *[{"account": "judge", "text": "surely"}] * 3
    )
    verdicts_file = tmp_path / "kept.jsonl"
    assert [
        audit.result for audit in await audit_many([one], KeptVerdicts(verdicts_file))
    ] == ["judge failed"]
    recording(tmp_path / "talk-judge.jsonl", CITED)
    assert [
        audit.result for audit in await audit_many([one], KeptVerdicts(verdicts_file))
    ] == ["complete"]


def test_the_key_has_all_that_was_read_and_not_the_path(tmp_path: Path) -> None:
    one, other = job(tmp_path, "talk"), job(tmp_path, "walk")
    Path(other.path).write_text(Path(other.path).read_text().replace(FINAL, "Done."))
    trail = one.read()
    keys = {
        one.key(found)
        for found in (
            trail,
            replace(trail, partial="line 4"),
            replace(trail, format="x"),
            other.read(),
        )
    }
    assert len(keys) == 4
    assert replace(one, path=tmp_path / "moved.json").key(trail) == one.key(trail)


def test_a_missing_key_is_found_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEY_OF_JUDGE", raising=False)
    config = JudgeConfig("openai/gpt-5-mini", api_key_env="KEY_OF_JUDGE")
    jobs = [AuditJob(tmp_path / "none.json", Goal(objective="x", judge=config))]
    with pytest.raises(AuthenticationFailed):
        check_judges(jobs, Budget())


def test_a_goal_that_leaves_no_room_for_evidence_is_an_error(tmp_path: Path) -> None:
    jobs = [
        AuditJob(
            tmp_path / "none.json", Goal(objective="x " * 40_000, judge="scripted/none")
        )
    ]
    with pytest.raises(UsageError, match="too long for its judge"):
        check_judges(jobs, Budget())
