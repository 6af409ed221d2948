"""Judges of known error rates: what a calibration finds, what it asks again, and when it stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from goalrunner.audits.calibration import Calibration, calibrate_judges
from goalrunner.audits.kept_verdicts import KeptVerdicts, TranscriptAudit
from goalrunner.audits.transcript_audits import Policy
from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import (
    AuthenticationFailed,
    GoalFileError,
    ProviderUnavailable,
)
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import Budget, JudgeConfig
from goalrunner.core.outcome import Usage
from goalrunner.judge.audit import judge_goal_async
from goalrunner.judge.prompt_text import AUDIT
from goalrunner.records.redaction import Redactor
from goalrunner.transcripts import read_transcript
from tests.support.judge_model import ScriptedAnswer
from tests.support.labelled import (
    CALL,
    CaseJudge,
    answer,
    judge_of,
    opinions,
    write_chat,
    write_dataset,
)

pytest.importorskip("sklearn")
pytest.importorskip("scipy")

from goalrunner.audits.judge_statistics import Series, rate

ONE = "test/judge"


def measure(
    dataset: Path,
    judges: Mapping[str, CaseJudge],
    *,
    policies: Sequence[Policy] = ("bounded",),
    jobs: int = 4,
    budget: Budget | None = None,
    target: float | None = None,
) -> Calibration:
    """Calibrate scripted judges; the results are beside the dataset."""
    results = KeptVerdicts(dataset.with_name("results.jsonl"))
    return asyncio.run(
        calibrate_judges(
            dataset,
            [Series(*pair) for pair in product(judges, policies)],
            results,
            target,
            jobs=jobs,
            budget=budget or Budget(),
            model=lambda goal: judges[goal.judge.model],
        )
    )


def kept(dataset: Path) -> list[TranscriptAudit]:
    lines = dataset.with_name("results.jsonl").read_bytes().splitlines()
    return [
        TranscriptAudit.model_validate_json(line)
        for line in lines
        if line.endswith(b"}")
    ]


def test_known_error_rates_are_recovered(tmp_path: Path) -> None:
    false_accept, false_reject = 0.1, 0.2
    judge_opinions = opinions(
        200, false_accept=false_accept, false_reject=false_reject, seed=1
    )
    calibration = measure(write_dataset(tmp_path, 200), {ONE: judge_of(judge_opinions)})
    (one,) = calibration.judges
    assert one.verdicts == 200
    for rate_found, known, wrong in (
        (
            one.false_accept,
            false_accept,
            sum(complete for complete, _ in judge_opinions[1::2]),
        ),
        (
            one.false_reject,
            false_reject,
            sum(not complete for complete, _ in judge_opinions[::2]),
        ),
    ):
        assert (rate_found.count, rate_found.of) == (wrong, 100)
        assert rate_found.low <= known <= rate_found.high
        assert rate_found.high - rate_found.low < 0.2


def test_the_reliability_curve_has_a_bin_for_each_tenth_of_the_score(
    tmp_path: Path,
) -> None:
    judge_opinions = [
        (False, score) for score in (0.1, 0.05, 0.15, 0.12, 0.0, 0.9, 1.0, 0.95)
    ]
    (one,) = measure(write_dataset(tmp_path, 8), {ONE: judge_of(judge_opinions)}).judges
    assert [
        (round(item.score, 3), item.complete.count, item.complete.of)
        for item in one.curve
    ] == [
        (0.05, 2, 3),  # of the scores 0.1, 0.05 and 0.0
        (0.135, 1, 2),
        (0.9, 0, 1),
        (0.975, 1, 2),
    ]


def test_two_judges_are_compared(tmp_path: Path) -> None:
    first = opinions(40, false_accept=0.2, false_reject=0.2, seed=4)
    second = [
        (complete, score) if case % 4 else (not complete, score)
        for case, (complete, score) in enumerate(first)
    ]
    calibration = measure(
        write_dataset(tmp_path, 40),
        {"test/one": judge_of(first), "test/two": judge_of(second)},
    )
    (agreement,) = calibration.agreement
    assert agreement.judges == ("test/one", "test/two")
    assert (agreement.same.count, agreement.same.of) == (30, 40)
    yes = (
        sum(complete for complete, _ in first) / 40,
        sum(complete for complete, _ in second) / 40,
    )
    chance = yes[0] * yes[1] + (1 - yes[0]) * (1 - yes[1])
    assert agreement.kappa == pytest.approx((0.75 - chance) / (1 - chance))


def test_judges_that_never_vary_have_no_kappa(tmp_path: Path) -> None:
    always = [(True, 1.0)] * 6
    calibration = measure(
        write_dataset(tmp_path, 6),
        {"test/one": judge_of(always), "test/two": judge_of(always)},
    )
    (agreement,) = calibration.agreement
    assert (agreement.same.rate, agreement.kappa) == (1.0, None)


def test_after_a_cut_only_the_rest_is_judged(tmp_path: Path) -> None:
    judge_opinions = opinions(20, false_accept=0.2, false_reject=0.2, seed=5)
    dataset = write_dataset(tmp_path, 20)
    whole = measure(dataset, {ONE: judge_of(judge_opinions)}).judges
    results = tmp_path / "results.jsonl"
    lines = results.read_bytes().splitlines(keepends=True)
    results.write_bytes(b"".join(lines[:12]) + lines[12][:40])
    judge = judge_of(judge_opinions)
    again = measure(dataset, {ONE: judge})
    missing = {Path(json.loads(line)["transcript"]).name for line in lines[12:]}
    assert {f"case-{case}.jsonl" for case in judge.asked} == missing
    assert (len(judge.asked), again.audits.asked) == (8, 8)
    assert [one.false_accept for one in again.judges] == [
        one.false_accept for one in whole
    ]
    assert len(kept(dataset)) == 20
    assert measure(dataset, {ONE: judge_of([])}).audits.asked == 0


def test_a_verdict_counts_for_its_content_goal_judge_and_policy(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path, 2)
    always = [(True, 1.0)] * 2
    measure(dataset, {ONE: judge_of(always)})
    rows = [json.loads(line) for line in dataset.read_text().splitlines()]

    def asked(*, judge: str = ONE, policies: Sequence[Policy] = ("bounded",)) -> int:
        dataset.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return measure(
            dataset, {judge: judge_of(always)}, policies=policies
        ).audits.asked

    (tmp_path / "case-0.jsonl").rename(tmp_path / "moved.jsonl")
    rows[0].update(path="moved.jsonl", label=False)
    assert asked() == 0
    assert asked(policies=("bounded", "whole")) == 2
    assert asked(judge="test/other") == 2
    rows[1]["objective"] = "Another objective."
    assert asked() == 1
    write_chat(tmp_path / "moved.jsonl", "case 0 was tested\n2 passed")
    assert asked() == 1
    goal = tmp_path / "goal.toml"
    rows[1] = {"path": "case-1.jsonl", "goal": "goal.toml", "label": False}
    goal.write_text('objective = "Another objective."\n')
    assert asked() == 0
    goal.write_text('objective = "Another objective."\n[judge]\nminimum_score = 0.9\n')
    assert asked() == 0
    goal.write_text(
        'objective = "Another objective."\n[judge]\nsystem_prompt = "Be kind."\n'
    )
    assert asked() == 1


def test_new_rules_for_judges_make_old_verdicts_worthless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = write_dataset(tmp_path, 1)
    assert [
        measure(dataset, {ONE: judge_of([(True, 1.0)])}).audits.asked for _ in range(2)
    ] == [1, 0]
    monkeypatch.setattr(
        "goalrunner.judge.prompt_builder.AUDIT", replace(AUDIT, rules="Be strict.")
    )
    assert measure(dataset, {ONE: judge_of([(True, 1.0)])}).audits.asked == 1


def test_a_budget_stops_and_another_call_continues(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path, 10)
    judge_opinions = [(True, 1.0)] * 10
    judge = judge_of(judge_opinions)
    calibration = measure(dataset, {ONE: judge}, jobs=1, budget=Budget(cost_usd=0.03))
    assert (calibration.audits.asked, calibration.audits.left, len(judge.asked)) == (
        3,
        7,
        3,
    )
    assert calibration.audits.stopped == "$0.0300 of $0.0300 are spent"
    calibration = measure(dataset, {ONE: judge}, jobs=1, budget=Budget(tokens=200))
    assert (calibration.audits.asked, calibration.audits.left) == (2, 5)
    assert calibration.audits.stopped == "240 of 200 tokens are spent"
    assert calibration.judges[0].verdicts == 5
    assert (measure(dataset, {ONE: judge}).audits.left, len(judge.asked)) == (0, 10)


def test_an_audit_that_the_budget_cuts_is_no_verdict(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path, 2)
    judge = CaseJudge([answer(complete=True, score=1.0, quote="9 passed")] * 2)
    calibration = measure(dataset, {ONE: judge}, jobs=1, budget=Budget(tokens=100))
    assert (calibration.audits.asked, calibration.audits.left, len(judge.asked)) == (
        0,
        2,
        1,
    )
    assert kept(dataset) == []
    assert calibration.usage.tokens == 120


def test_an_unknown_cost_stops_only_a_budget_of_dollars(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path, 6)

    def asked(budget: Budget | None) -> int:
        (tmp_path / "results.jsonl").unlink(missing_ok=True)
        judge = judge_of([(True, 1.0)] * 6)
        judge.cost = Usage(input_tokens=5, output_tokens=5, cost_usd=None, calls=1)
        return measure(dataset, {ONE: judge}, jobs=1, budget=budget).audits.asked

    assert asked(None) == 6
    assert asked(Budget(tokens=1_000)) == 6
    assert asked(Budget(cost_usd=1.0)) == 1
    assert asked(Budget(cost_usd=1.0, allow_unenforced=("cost_usd",))) == 6


def test_a_broken_transcript_is_a_fault_and_the_others_are_judged(
    tmp_path: Path,
) -> None:
    dataset = write_dataset(tmp_path, 6)
    (tmp_path / "case-1.jsonl").write_text("nonsense")
    (tmp_path / "case-2.jsonl").unlink()
    whole = (tmp_path / "case-4.jsonl").read_bytes()
    (tmp_path / "case-4.jsonl").write_bytes(whole[:-30])
    judge = judge_of([(True, 1.0)] * 6)
    calibration = measure(dataset, {ONE: judge})
    assert sorted(judge.asked) == [0, 3, 5]
    assert [(fault.line, fault.judge) for fault in calibration.faults] == [
        (2, None),
        (3, None),
        (5, None),
    ]
    assert calibration.faults[2].message.startswith(
        "the transcript is not whole: line 4"
    )
    assert calibration.judges[0].verdicts == 3


def test_a_judge_that_fails_once_is_asked_again_by_the_next_call(
    tmp_path: Path,
) -> None:
    dataset = write_dataset(tmp_path, 3)
    failing = CaseJudge(
        lambda case: (
            ProviderUnavailable("it is down")
            if case == 1
            else answer(complete=True, score=1.0)
        )
    )
    calibration = measure(dataset, {ONE: failing})
    assert [
        (fault.line, fault.judge, fault.policy, fault.message)
        for fault in calibration.faults
    ] == [(2, ONE, "bounded", "it is down")]
    assert calibration.judges[0].verdicts == 2
    judge = judge_of([(True, 1.0)] * 3)
    calibration = measure(dataset, {ONE: judge})
    assert (judge.asked, list(calibration.faults), calibration.audits.asked) == (
        [1],
        [],
        1,
    )
    assert calibration.judges[0].verdicts == 3


def test_a_wrong_key_ends_the_call_and_keeps_what_is_known(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path, 50)
    judge = CaseJudge(
        lambda case: (
            AuthenticationFailed("no key")
            if case == 2
            else answer(complete=True, score=1.0)
        )
    )
    with pytest.raises(AuthenticationFailed, match="no key"):
        measure(dataset, {ONE: judge}, jobs=1)
    assert (judge.asked, len(kept(dataset))) == ([0, 1, 2], 2)


def test_an_unreadable_verdict_is_not_complete_and_has_no_score(tmp_path: Path) -> None:
    texts = [
        "no idea" if case < 2 else answer(complete=case % 2 == 0, score=0.9)
        for case in range(6)
    ]
    (one,) = measure(write_dataset(tmp_path, 6), {ONE: CaseJudge(texts)}).judges
    assert (one.verdicts, one.unreadable) == (6, 2)
    assert (one.false_accept.count, one.false_accept.of) == (0, 3)
    assert (one.false_reject.count, one.false_reject.of) == (1, 3)
    assert sum(item.complete.of for item in one.curve) == 4


def test_policies_show_what_the_check_of_citations_is_worth(tmp_path: Path) -> None:
    judge = CaseJudge(
        [
            answer(
                complete=True,
                score=0.9,
                quote="1 passed" if case % 2 == 0 else "9 passed",
            )
            for case in range(8)
        ]
    )
    calibration = measure(
        write_dataset(tmp_path, 8), {ONE: judge}, policies=("bounded", "no-citations")
    )
    bounded, unchecked = calibration.judges
    assert (bounded.false_accept.count, unchecked.false_accept.count) == (0, 4)
    assert (bounded.false_reject.count, unchecked.false_reject.count) == (0, 0)
    assert (unchecked.audit["tokens"], bounded.audit["tokens"]) == (
        120,
        180,
    )  # asked once more
    assert calibration.agreement == ()


def test_the_whole_policy_shows_evidence_that_a_run_leaves_out(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path, 1)
    lines = [
        f"test_{number} checks the value {number * 7919}" for number in range(9_000)
    ]
    write_chat(
        tmp_path / "case-0.jsonl", "\n".join(["case 0 was tested", *lines, "1 passed"])
    )
    judge = judge_of([(True, 1.0)])
    measure(dataset, {ONE: judge}, policies=("bounded", "whole"), jobs=1)
    bounded, whole = judge.prompts
    assert lines[4_000] not in bounded
    assert all(line in whole for line in lines)


def test_the_threshold_is_the_smallest_with_the_wanted_rate(tmp_path: Path) -> None:
    judge_opinions = opinions(100, false_accept=0.3, false_reject=0.1, seed=6)
    dataset = write_dataset(tmp_path, 100)
    judge = judge_of(judge_opinions)
    (one,) = measure(dataset, {ONE: judge}, target=0.06).judges
    threshold = one.threshold
    assert threshold is not None
    assert threshold.minimum_score is not None

    def accepted(minimum: float) -> int:
        """What a run would accept."""
        config = JudgeConfig(judge, minimum_score=minimum)
        trails = [
            read_transcript(tmp_path / f"case-{case}.jsonl")
            for case in range(1, 100, 2)
        ]
        audits = [
            judge_goal_async(judge, "The tests pass.", trail, config=config)
            for trail in trails
        ]
        return sum(asyncio.run(audit).complete for audit in audits)

    assert accepted(threshold.minimum_score) == threshold.false_accept.count == 3
    assert accepted(threshold.minimum_score - 0.01) > 3
    rejected = sum(
        not complete or score < threshold.minimum_score
        for complete, score in judge_opinions[::2]
    )
    assert threshold.false_reject.count == rejected > one.false_reject.count


def test_few_samples_cannot_show_a_low_rate(tmp_path: Path) -> None:
    judge_opinions = opinions(40, false_accept=0.0, false_reject=0.0, seed=7)
    dataset = write_dataset(tmp_path, 40)
    threshold = (
        measure(dataset, {ONE: judge_of(judge_opinions)}, target=0.01)
        .judges[0]
        .threshold
    )
    assert threshold is not None
    assert (
        threshold.minimum_score,
        threshold.shown,
        threshold.incomplete_samples_needed,
    ) == (0.0, False, 381)
    assert rate([False] * 381).high <= 0.01 < rate([False] * 380).high
    easier = (
        measure(dataset, {ONE: judge_of(judge_opinions)}, target=0.2)
        .judges[0]
        .threshold
    )
    assert easier is not None
    assert easier.shown


def test_no_threshold_helps_against_a_judge_that_is_sure(tmp_path: Path) -> None:
    calibration = measure(
        write_dataset(tmp_path, 10), {ONE: judge_of([(True, 1.0)] * 10)}, target=0.1
    )
    threshold = calibration.judges[0].threshold
    assert threshold is not None
    assert threshold.minimum_score is None


def test_equal_samples_count_once(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path, 2)
    rows = dataset.read_text().splitlines()
    other = json.dumps({**json.loads(rows[0]), "label": "incomplete"})
    dataset.write_text("\n".join([*rows, rows[1], other]))
    judge = judge_of([(True, 1.0)] * 2)
    calibration = measure(dataset, {ONE: judge})
    assert sorted(judge.asked) == [0, 1]
    assert calibration.judges[0].verdicts == 2
    assert [fault.message for fault in calibration.faults] == [
        "the same transcript and goal as line 2; it is not counted again",
        "the same transcript and goal as line 1; it is not counted again",
    ]


class Slow(CaseJudge):
    """A judge that takes its time, and notes how many are asked at once."""

    now: int = 0
    most: int = 0

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None = None,
        schema_name: str = "answer",
        temperature: float | None = None,
        **_: Any,
    ) -> ScriptedAnswer:
        Slow.now += 1
        Slow.most = max(Slow.most, Slow.now)
        await asyncio.sleep(0.02)
        Slow.now -= 1
        return await super().complete(
            messages, schema=schema, schema_name=schema_name, temperature=temperature
        )


def test_jobs_limit_the_audits_at_a_time_and_each_has_its_own_model(
    tmp_path: Path,
) -> None:
    dataset = write_dataset(tmp_path, 12)
    made: list[Slow] = []

    def model(goal: Goal) -> Slow:
        made.append(Slow(lambda case: answer(complete=True, score=1.0)))
        return made[-1]

    results = KeptVerdicts(tmp_path / "results.jsonl")
    series = [Series("test/one", "bounded"), Series("test/two", "bounded")]
    asyncio.run(calibrate_judges(dataset, series, results, jobs=3, model=model))
    assert Slow.most == 3
    assert len(made) <= 6
    assert sum(len(one.asked) for one in made) == 24
    assert {judged.usage for judged in kept(dataset)} == {CALL}
    assert min(judged.seconds for judged in kept(dataset)) >= 0.02


def test_an_invalid_goal_is_refused_before_any_judge_is_asked(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path, 2)
    dataset.write_text(
        dataset.read_text()
        + '{"path": "case-0.jsonl", "goal": "goal.toml", "label": true}\n'
    )
    (tmp_path / "goal.toml").write_text("objectiv = 3\n")
    judge = judge_of([(True, 1.0)] * 2)
    with pytest.raises(GoalFileError, match=r"goal\.toml:1:1"):
        measure(dataset, {ONE: judge})
    assert judge.asked == []


def test_secrets_reach_neither_the_judge_nor_the_results_and_can_be_cited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, dataset = "a8Fk2LmQ9xZt4VbN7cRw3YpS6dHj1GuE", write_dataset(tmp_path, 2)
    environ = {"DEPLOY_TOKEN": secret}
    monkeypatch.setenv("DEPLOY_TOKEN", secret)
    for case in range(2):
        write_chat(
            tmp_path / f"case-{case}.jsonl", f"case {case} was tested\nwith {secret}"
        )
    doubts = {
        **json.loads(answer(complete=False, score=0.1)),
        "missing": f"where is {secret}?",
    }
    quoted = answer(
        complete=True, score=0.9, quote=Redactor(environ).text(f"with {secret}")
    )
    judge = CaseJudge([json.dumps(doubts), quoted])
    measure(dataset, {ONE: judge}, jobs=1)
    assert "case 0 was tested\nwith" in judge.prompts[0]
    assert secret not in "".join(judge.prompts)
    first, second = kept(dataset)
    assert first.missing.startswith("where is ")
    assert second.result == "complete"
    assert secret not in (tmp_path / "results.jsonl").read_text()
