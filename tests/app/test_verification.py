"""What was written is verified; whatever was changed after is named by file, byte and what."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goalrunner.app.verification import Broken, Verification, verify_run
from goalrunner.core.events import (
    RECORD,
    MessageRecorded,
    VerdictRecorded,
    observations_of,
)
from goalrunner.core.observation import TranscriptRef
from goalrunner.records.event_log import encode, read_lines, read_records
from tests.support.finished_run import CRITERION, FinishedRun
from tests.support.logs import rechained


async def verified(run: FinishedRun) -> Verification:
    return await verify_run(run.folder, run.home, os.environ)


async def broken(run: FinishedRun) -> Broken:
    found = (await verified(run)).broken
    assert found is not None
    return found


def places(run: FinishedRun) -> list[int]:
    return [end.start for _, end in read_lines(run.folder.events)]


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def forged(run: FinishedRun, change: Callable[[dict[str, Any]], None]) -> None:
    """Change events and recompute the hash chain, as a forger would."""
    lines = []
    for line in run.folder.events.read_bytes().splitlines():
        value = json.loads(line)
        change(value["event"])
        lines.append(encode(value) + b"\n")
    run.folder.events.write_bytes(rechained(lines))


def rewrite(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}))


async def test_a_run_as_it_was_written_holds(run: FinishedRun) -> None:
    log = list(read_records(run.folder.events))
    outputs = {
        item.output.sha256
        for record in log
        for item in observations_of(record.event)
        if item.output
    }

    assert await verified(run) == Verification(
        run_id=run.folder.run_id,
        path=str(run.folder.path),
        events=len(log),
        messages=sum(isinstance(record.event, MessageRecorded) for record in log),
        artifacts=len(outputs),
        citations=1,
    )


async def test_a_changed_byte_of_any_record_is_found(run: FinishedRun) -> None:
    starts = places(run)
    before = run.folder.events.read_bytes()
    for number, place in enumerate(starts):
        run.folder.events.write_bytes(before)
        end = [*starts, len(before)][number + 1]
        flip(run.folder.events, (place + end) // 2)

        found = await broken(run)

        last = number == len(starts) - 1
        where = {(str(run.folder.events), place), (str(run.folder.events), end)}
        assert last or (found.file, found.byte) in where, (number, found)


async def test_a_changed_word_is_named_with_its_place(run: FinishedRun) -> None:
    starts = places(run)
    log = run.folder.events.read_bytes()
    run.folder.events.write_bytes(
        log.replace(b"friendly greeting", b"friendly greetinG", 1)
    )

    assert await broken(run) == Broken(
        str(run.folder.events),
        starts[1],
        f"the record at byte {starts[1]} does not follow the one at byte 0: one of them differs from what was recorded",
    )


@pytest.mark.parametrize("line", range(11))
async def test_a_changed_byte_of_the_transcript_is_found(
    run: FinishedRun, line: int
) -> None:
    messages = [
        record
        for record in read_records(run.folder.events)
        if isinstance(record.event, MessageRecorded)
    ]
    record = messages[line]
    assert isinstance(record.event, MessageRecorded)
    ref: TranscriptRef = record.event.text
    flip(run.folder.transcript, ref.offset + ref.length // 2)

    what = f"the message of event {record.seq} is missing, or differs from what was recorded"
    assert await broken(run) == Broken(str(run.folder.transcript), ref.offset, what)


async def test_a_changed_artifact_is_found(run: FinishedRun) -> None:
    seen: set[str] = set()
    for record in list(read_records(run.folder.events)):
        for item in observations_of(record.event):
            if item.output is None or item.output.sha256 in seen:
                continue
            seen.add(item.output.sha256)
            path = run.folder.artifacts / item.output.sha256[:2] / item.output.sha256
            whole = path.read_bytes()
            path.write_bytes(whole + b"x")
            what = f"the output of {item.id} of event {record.seq}"
            assert await broken(run) == Broken(
                str(path), None, f"{what} differs from what was recorded"
            )
            path.unlink()
            assert await broken(run) == Broken(
                str(path),
                None,
                f"{what}: {path} cannot be read: No such file or directory",
            )
            path.write_bytes(whole)
    assert len(seen) == 4


async def test_a_missing_transcript_is_found(run: FinishedRun) -> None:
    run.folder.transcript.unlink()
    found = await broken(run)
    assert found.file == str(run.folder.transcript)
    assert found.what.endswith("is missing, or differs from what was recorded")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"status": "capped"}, 'status is "capped", but "complete" in the log'),
        ({"iterations": 1}, "iterations is 1, but 2 in the log"),
        ({"iterations": True}, "iterations is true, but 2 in the log"),
        ({"verdict": None}, "verdict differs from the log"),
        ({"duration": 0.0}, "duration is 0.0, but "),
        ({"message": "fine"}, 'message is "fine", but '),
        ({"evidence": [{"criterion": "another"}]}, "evidence differs from the log"),
    ],
)
async def test_an_outcome_that_the_log_does_not_bear_out_is_named(
    run: FinishedRun, changes: dict[str, Any], what: str
) -> None:
    rewrite(run.folder.outcome, **changes)

    found = await broken(run)

    assert (found.file, found.byte) == (str(run.folder.outcome), None)
    assert found.what.startswith(what)


async def test_a_verdict_in_the_outcome_is_compared(run: FinishedRun) -> None:
    verdict = json.loads(run.folder.outcome.read_bytes())["verdict"]
    verdict["criteria"][0]["evidence"][0]["quote"] = "hello, dear fiend"
    rewrite(run.folder.outcome, verdict=verdict)

    assert await broken(run) == Broken(
        str(run.folder.outcome), None, "verdict differs from the log"
    )


async def test_fields_of_another_version_are_no_damage(run: FinishedRun) -> None:
    rewrite(run.folder.outcome, mood="good")
    assert (await verified(run)).broken is None


async def test_a_summary_that_the_log_does_not_bear_out_is_named(
    run: FinishedRun,
) -> None:
    rewrite(run.folder.summary, exit_code=1)
    assert await broken(run) == Broken(
        str(run.folder.summary), None, "exit_code is 1, but 0 in the log"
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "it is not a JSON object"),
        ("[]", "it is not a JSON object"),
        ("{}", "it has no status"),
    ],
)
async def test_an_outcome_that_is_none_is_named(
    run: FinishedRun, text: str, what: str
) -> None:
    run.folder.outcome.write_text(text)
    assert await broken(run) == Broken(str(run.folder.outcome), None, what)


async def test_a_log_without_its_end_is_found(run: FinishedRun) -> None:
    last = places(run)[-1]
    with run.folder.events.open("r+b") as log:
        log.truncate(last)
    assert (await broken(run)).what == 'status is "complete", but "running" in the log'

    with run.folder.events.open("ab") as log:
        log.write(b'{"v":')
    assert await broken(run) == Broken(
        str(run.folder.events), last, "the last 5 bytes are an incomplete record"
    )


async def test_a_run_that_has_not_ended_is_checked_as_far_as_it_came(
    run: FinishedRun,
) -> None:
    run.folder.outcome.unlink()
    last = places(run)[-1]
    with run.folder.events.open("r+b") as log:
        log.truncate(last)
        log.seek(last)
        log.write(b"{")

    done = await verified(run)

    assert (done.broken, done.citations) == (None, 1)
    assert done.notes == [
        f"{run.folder.events}: the last 1 bytes are an incomplete record and are ignored",
        "the run has not ended; only what is recorded so far was checked",
    ]


async def test_an_empty_log_holds_nothing(run: FinishedRun) -> None:
    run.folder.events.write_bytes(b"")
    assert await broken(run) == Broken(
        str(run.folder.events), None, "it contains no event"
    )


async def test_events_that_do_not_fold_are_named_with_their_place(
    run: FinishedRun,
) -> None:
    first, *_ = run.folder.events.read_bytes().splitlines(keepends=True)
    again = first.replace(b'"seq":1', b'"seq":2')
    run.folder.events.write_bytes(rechained([first, again]))
    assert await broken(run) == Broken(
        str(run.folder.events), len(first), "a second goal_created in one log"
    )


def verdict_place(run: FinishedRun) -> int:
    """Where the last verdict stands."""
    found = (
        end.start
        for record, end in read_lines(run.folder.events)
        if isinstance(record.event, VerdictRecorded)
    )
    return max(found)


@pytest.mark.parametrize(
    ("citation", "said"),
    [
        (
            {"quote": "hello, best friend"},
            'the output of o6 does not contain "hello, best friend"',
        ),
        ({"observation": "o66"}, 'observation "o66" does not exist'),
        (
            {"quote": None, "fact": "exit 1"},
            '"exit 1" is not among the facts of o6 (exit 0)',
        ),
    ],
)
async def test_a_citation_that_is_nowhere_is_found_though_all_else_fits(
    run: FinishedRun, citation: dict[str, Any], said: str
) -> None:
    def change(event: dict[str, Any]) -> None:
        if event["type"] == "verdict_recorded" and event["round"] == 2:
            event["verdict"]["criteria"][0]["evidence"][0].update(citation)

    forged(run, change)
    last = [
        record.event
        for record in read_records(run.folder.events)
        if isinstance(record.event, VerdictRecorded)
    ][-1]
    rewrite(
        run.folder.outcome, verdict=last.verdict.model_dump(mode="json"), evidence=[]
    )

    found = await broken(run)

    assert (found.file, found.byte) == (str(run.folder.events), verdict_place(run))
    assert found.what.startswith(
        f'the verdict of round 2 on "{CRITERION}": Citation invalid: {said}'
    )


async def test_evidence_that_the_snapshots_show_to_be_stale_is_found(
    run: FinishedRun,
) -> None:
    ids: list[str] = []

    def change(event: dict[str, Any]) -> None:
        """The greeting is seen on the state before it was written."""
        if event["type"] == "snapshot_taken":
            ids.append(event["snapshot"]["id"])
        if event["type"] == "tool_result_recorded" and event["evidence_ref"] == "o6":
            event["observation"].update(before=ids[0], after=ids[0])

    forged(run, change)
    rewrite(run.folder.outcome, evidence=[])

    found = await broken(run)

    assert found.byte == verdict_place(run)
    assert "o6 is stale" in found.what
    assert "hello.txt, notes.txt changed after o6" in found.what


@pytest.mark.parametrize(
    ("require", "said"),
    [
        ("any", "hello.txt changed in the round in which claude reported o6"),
        (
            "runner",
            'o6 is only reported by claude; [judge] require = "runner" counts only what the runner ran itself',
        ),
    ],
)
async def test_a_verdict_that_rests_on_a_report_is_checked_as_such(
    run: FinishedRun, require: str, said: str
) -> None:
    def change(event: dict[str, Any]) -> None:
        """What the greeting holds is the agent's word alone, without a time; it changed in that round."""
        if event["type"] == "goal_created":
            event["plan"]["require"] = require
        if event["type"] == "round_started" and event["round"] == 2:
            starts.append(ids[-1])
        if event["type"] == "snapshot_taken":
            ids.append(event["snapshot"]["id"])
        if event["type"] == "tool_result_recorded" and event["evidence_ref"] == "o6":
            event["observation"].update(
                before=starts[0],
                after=None,
                started=None,
                ended=None,
                reported_by="claude",
            )

    ids: list[str] = []
    starts: list[str] = []
    forged(run, change)
    rewrite(run.folder.outcome, evidence=[])

    found = await broken(run)

    assert found.byte == verdict_place(run)
    assert said in found.what


async def test_where_the_snapshots_are_gone_it_is_said_that_freshness_was_not_checked(
    run: FinishedRun,
) -> None:
    def change(event: dict[str, Any]) -> None:
        if event["type"] == "verdict_recorded" and event["round"] == 2:
            event["verdict"]["criteria"][0]["evidence"].append(
                {"observation": "o2", "fact": "created", "quote": None}
            )

    forged(run, change)
    last = [
        record.event
        for record in read_records(run.folder.events)
        if isinstance(record.event, VerdictRecorded)
    ][-1]
    rewrite(
        run.folder.outcome, verdict=last.verdict.model_dump(mode="json"), evidence=[]
    )
    assert (await verified(run)).notes == []
    shutil.rmtree(run.home / "stores")

    done = await verified(run)

    assert (done.broken, done.citations) == (None, 2)
    (note,) = done.notes
    assert note.startswith(
        f"whether a cited observation was fresh cannot be checked again: the snapshots of {run.workspace} are gone"
    )


async def test_a_goal_file_that_cannot_be_read_is_found(run: FinishedRun) -> None:
    run.folder.goal_file.write_text("[workspace")
    found = await broken(run)
    assert (found.file, found.byte) == (str(run.folder.goal_file), None)


def test_the_records_of_this_run_are_read_as_they_were_written(
    run: FinishedRun,
) -> None:
    lines = run.folder.events.read_bytes().splitlines()
    assert [
        encode(RECORD.validate_json(line).model_dump(mode="python")) for line in lines
    ] == lines


async def test_a_goal_that_was_changed_is_found(run: FinishedRun) -> None:
    text = run.folder.goal_file.read_text()
    run.folder.goal_file.write_text(text.replace("friendly greeting", "greeting"))
    said = "the goal of the run differs from what was recorded"
    assert await broken(run) == Broken(str(run.folder.goal_file), None, said)


async def test_what_was_kept_of_the_start_is_compared(run: FinishedRun) -> None:
    rules = run.folder.start / "ignore"
    rules.write_bytes(rules.read_bytes() + b"*.py\n")
    said = "the recorded start of the run differs from what was recorded"
    assert await broken(run) == Broken(str(rules), None, said)
    rules.unlink()
    assert (await broken(run)).what.endswith(
        "cannot be read: No such file or directory"
    )


async def test_a_log_without_the_hash_of_the_goal_is_damaged(run: FinishedRun) -> None:
    lines = run.folder.events.read_bytes().splitlines(keepends=True)
    without = (re.sub(rb'"goal_sha256":"[0-9a-f]*",?', b"", line) for line in lines)
    run.folder.events.write_bytes(rechained(without))
    assert (
        await broken(run)
    ).what == "the goal of the run differs from what was recorded"
