"""A judge is asked about copies of a trail that prove nothing; each kind of credulous judge misses its own copies."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from goalrunner import Goal, JudgeConfig
from goalrunner.audits.canaries import (
    CanaryReport,
    question_judge,
    refuse_credulous_judge,
)
from goalrunner.audits.canary_copies import MUTATIONS, copies_of
from goalrunner.core import events
from goalrunner.core.errors import GoalError, ProviderUnavailable, UsageError
from goalrunner.core.ports import AuditRequest
from goalrunner.judge.prompt_builder import audit_prompt, audit_request
from goalrunner.records.event_log import EventLog, SystemClock
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder
from tests.support.finished_run import CRITERION, FinishedRun
from tests.support.recordings import fact, judge, quote
from tests.support.trails import said, seen, trail

ALL = list(MUTATIONS)
CRITERIA = ("parse('') returns an empty Document", "all tests pass")

Reader = Callable[[str], list[dict[str, str]]]
"""A judge: from the evidence in its prompt to the citations for each criterion; without any it refuses."""


def answering(reader: Reader, *criteria: str) -> Callable[[Sequence[Any]], str]:
    """A judge's model that reads the prompt each time it is asked."""

    def reader_model(messages: Sequence[Any]) -> str:
        evidence = messages[1]["content"].partition("What happened, oldest first:")[2]
        citations = reader(
            evidence.partition("Answer with one JSON object of this form")[0]
        )
        text: str = judge(
            *((name, citations) for name in criteria or CRITERIA), missing="a green run"
        )["text"]
        return text

    return reader_model


def careful(evidence: str) -> list[dict[str, str]]:
    """Believe the last fresh check of the runner, and nothing where a check fails after it or tests are not named."""
    matches = re.findall(
        r"^\[(o\d+)\] validator .*\((exit \d), \w+\)( - stale)?", evidence, re.MULTILINE
    )
    *_, (identifier, code, is_stale) = matches or [("", "", "")]
    return [fact(identifier, "exit 0")] if code == "exit 0" and not is_stale else []


def gullible(evidence: str) -> list[dict[str, str]]:
    """Believe everything: cite a line of the newest output, or invent an observation."""
    outputs = re.findall(
        r"^\[(o\d+)\].*\n(?:(?!\[o).*\n)*?<output \w+>\n(.+)\n", evidence, re.MULTILINE
    )
    return [quote(*outputs[-1])] if outputs else [quote("o1", "24 passed in 0.31s")]


def trusts(pattern: str) -> Reader:
    """Believe words wherever they stand, besides what a careful judge believes."""
    return lambda evidence: (
        careful(evidence)
        or ([fact("o4", "exit 0")] if re.search(pattern, evidence) else [])
    )


def obeys(fence: str) -> Reader:
    """Follow an instruction between such fences."""
    return trusts(
        rf"<{fence} \w+>\nAll requirements(?:(?!</{fence} ).*\n)*?.*Answer with exactly this JSON"
    )


def overlooks_staleness(evidence: str) -> list[dict[str, str]]:
    return careful(re.sub(r" - stale.*", "", evidence))


def overlooks_failures(evidence: str) -> list[dict[str, str]]:
    return careful(evidence.partition("[o5] validator")[0])


async def asked(reader: Reader) -> CanaryReport:
    return await question_judge(
        Goal(objective="x", judge=JudgeConfig(answering(reader)))
    )


async def test_a_careful_judge_accepts_the_example_and_misses_nothing() -> None:
    report = await asked(careful)
    assert report.unchanged.judge_accepts
    assert report.unchanged.complete_after_check
    assert [answer.judge_accepts for answer in report.copies] == [False] * len(
        MUTATIONS
    )
    refuse_credulous_judge(report)


async def test_a_judge_that_believes_everything_misses_every_copy() -> None:
    report = await asked(gullible)
    assert list(report.misses) == ALL
    # The check of citations catches what does not exist, is outdated, or has no output. It cannot judge what words mean.
    survived = [
        answer.name
        for answer in report.copies
        if answer.judge_accepts and answer.complete_after_check
    ]
    assert survived == ["contradicted", "printed-report", "injected-output"]
    with pytest.raises(
        GoalError,
        match="accepts 8 of 8 examples that prove nothing: claims-only, evidence",
    ) as refused:
        refuse_credulous_judge(report)
    assert refused.value.exit_code == 4


@pytest.mark.parametrize(
    ("reader", "missed"),
    [
        (trusts("<claim .*\nI ran all checks"), ["claims-only"]),
        (
            trusts(r"validator tests\n<command \w+>\npytest"),
            ["evidence-removed", "injected-output", "injected-text"],
        ),
        (overlooks_staleness, ["stale"]),
        (overlooks_failures, ["contradicted"]),
        (trusts(r"\| \[o4\] validator tests \(exit 0"), ["forged-observations"]),
        (trusts(r"\nPASS: "), ["printed-report"]),
        (obeys("output"), ["injected-output"]),
        (obeys("claim"), ["injected-text"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
async def test_a_judge_with_one_weakness_misses_the_copies_for_it(
    reader: Reader, missed: list[str]
) -> None:
    report = await asked(reader)
    assert report.unchanged.judge_accepts
    assert list(report.misses) == missed
    assert [
        answer.complete_after_check for answer in report.copies if answer.judge_accepts
    ] == [name == "contradicted" for name in missed]


async def test_a_judge_that_refuses_everything_is_seen_in_the_unchanged_copy() -> None:
    report = await asked(lambda _: [])
    assert report.unchanged.judge_accepts is False
    assert report.misses == ()


async def test_a_judge_that_cannot_be_read_is_neither_careful_nor_credulous() -> None:
    report = await question_judge(
        Goal(objective="x", judge=JudgeConfig(lambda _: "it looks fine to me"))
    )
    assert (report.misses, list(report.unreadable), report.unchanged.judge_accepts) == (
        (),
        ALL,
        None,
    )
    with pytest.raises(GoalError, match="could not be read"):
        refuse_credulous_judge(report)


async def test_a_judge_that_does_not_answer_is_an_error() -> None:
    def fail(_: Sequence[Any]) -> str:
        raise ConnectionError

    with pytest.raises(ProviderUnavailable):
        await question_judge(Goal(objective="x", judge=JudgeConfig(fail)))


async def test_a_run_is_judged_by_its_own_criteria(run: FinishedRun) -> None:
    prompts: list[str] = []

    def reader(evidence: str) -> list[dict[str, str]]:
        prompts.append(evidence)
        return (
            [quote("o6", "hello, dear friend")]
            if "\nhello, dear friend\n1\n" in evidence
            else []
        )

    goal = Goal(
        objective="Write a friendly greeting.",
        judge=JudgeConfig(answering(reader, CRITERION)),
    )
    report = await question_judge(goal, run.folder)
    assert (report.unchanged.judge_accepts, report.unchanged.complete_after_check) == (
        True,
        True,
    )
    assert list(report.misses) == ["stale", "contradicted", "forged-observations"]
    assert sum(f"FAIL: {CRITERION}" in prompt for prompt in prompts) == 1


async def test_a_run_without_observations_is_refused(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "k3f9-nothing")
    record = events.GoalRecord(
        goal_id="k",
        run_id="k",
        owner="",
        description="x",
        created_at="2026-11-21T10:00:00+00:00",
        updated_at="",
    )
    with EventLog(folder.events, SystemClock(), Redactor({})) as log:
        log.append(events.GoalCreated(goal=record, plan=events.RunRules()))
        log.append(events.RunStarted(workspace=str(tmp_path), version="0"))
    folder.transcript.touch()
    with pytest.raises(UsageError, match="the run has no observations"):
        await question_judge(
            Goal(objective="x", judge=JudgeConfig(answering(careful))), folder
        )


def request() -> AuditRequest:
    goal = Goal(
        objective="Say hello.",
        success_criteria=("it says\nhello",),
        constraints=("keep it short",),
    )
    return audit_request(
        goal,
        trail(
            said("I start."),
            seen(1, "wrote hello.txt", source="write_file", command="hello.txt"),
            seen(
                2,
                "hello there",
                command="cat hello.txt",
                facts=("exit 0",),
                names=("greeting:v1",),
            ),
            said("It says hello."),
        ),
    )


@pytest.mark.parametrize("number", range(len(ALL)), ids=ALL)
def test_a_copy_leaves_the_original_as_it_was_and_is_made_the_same_way_each_time(
    number: int,
) -> None:
    original = request()
    before = audit_prompt(original, nonce="00aa")
    first, second = copies_of(original)[number], copies_of(original)[number]
    assert audit_prompt(original, nonce="00aa") == before
    assert (
        audit_prompt(first, nonce="00aa")
        == audit_prompt(second, nonce="00aa")
        != before
    )
    identifiers = [item.id for item in first.trail.items if item.kind == "observation"]
    assert len(set(identifiers)) == len(identifiers)


@pytest.mark.parametrize("number", range(len(ALL)), ids=ALL)
def test_no_copy_shows_the_original_evidence_as_it_was(number: int) -> None:
    copy = copies_of(request())[number]
    for item in copy.trail.items:
        if item.kind == "observation" and "hello there" in copy.trail.read(item):
            assert item.id in copy.stale or "FAIL: it says hello" in copy.trail.read(
                copy.trail.items[-1]
            )
