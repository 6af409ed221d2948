"""The page and the words of a calibration; its numbers are those of tests/audits/test_calibration.py."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from goalrunner.audits.calibration import calibrate_judges
from goalrunner.audits.calibration_pages import (
    CalibrationReport,
    calibration_page,
    calibration_report,
    calibration_text,
    threshold_text,
)
from goalrunner.audits.kept_verdicts import KeptVerdicts
from tests.exports.test_html import HOSTILE, Page
from tests.support.labelled import CaseJudge, judge_of, opinions, write_dataset

pytest.importorskip("sklearn")
pytest.importorskip("scipy")

from goalrunner.audits.judge_statistics import Rate, Series, Threshold


def reported(
    folder: Path,
    names: Sequence[str] = ("test/one",),
    *,
    number: int = 40,
    target: float | None = None,
) -> CalibrationReport:
    """Calibrate judges that are wrong in a fifth of the cases."""
    dataset = write_dataset(folder, number)
    results = KeptVerdicts(folder / "results.jsonl")
    judges: dict[str, CaseJudge] = {
        name: judge_of(opinions(number, false_accept=0.2, false_reject=0.2, seed=seed))
        for seed, name in enumerate(names)
    }
    calibration = asyncio.run(
        calibrate_judges(
            dataset,
            [Series(name, "bounded") for name in names],
            results,
            target,
            model=lambda goal: judges[goal.judge.model],
        )
    )
    return calibration_report(calibration)


def test_the_page_is_whole_and_needs_nothing_else(tmp_path: Path) -> None:
    report = reported(tmp_path, ("test/one", "test/two"), target=0.05)
    text = calibration_page(report)
    page = Page(text)
    names = [tag for tag, _ in page.elements]
    assert {"script", "link", "img", "iframe", "object"}.isdisjoint(names)
    assert names.count("svg") == 4
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    policy = next(
        attributes["content"]
        for tag, attributes in page.elements
        if "http-equiv" in attributes
    )
    assert (
        policy
        == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert not any(
        "style" in attributes or any(key.startswith("on") for key in attributes)
        for _, attributes in page.elements
    )
    assert not re.findall(r"https?://|url\(|@import", text)
    lines = page.values("d", "path")
    assert lines
    assert all(
        re.fullmatch(r"(M[\d.]+ [\d.]+[HVL][\d. ]+)+", line) for line in lines
    )  # a path of two lines has an area
    for row in (*report.error_rows[1:], *report.effort_rows[1:]):
        assert " ".join(row) in page.text
    for one in report.calibration.judges:
        assert f"ROC {one.auroc:.3f}" in page.text
        assert f"Reliability Brier {one.brier:.3f}" in page.text
    assert "minimum_score = " in page.text
    assert "kappa" in page.text


def test_charts_hold_every_point(tmp_path: Path) -> None:
    report = reported(tmp_path)
    (one,) = report.calibration.judges
    page = Page(calibration_page(report))
    roc, curve = (
        [tuple(map(float, point.split(","))) for point in line.split()]
        for line in page.values("points")
    )
    assert (roc[0], roc[-1]) == ((10.0, 210.0), (210.0, 10.0))
    accepted, rejected = one.false_accept.rate, one.false_reject.rate
    assert accepted is not None
    assert rejected is not None
    dot, *circles = zip(
        map(float, page.values("cx")), map(float, page.values("cy")), strict=True
    )
    assert dot == (round(10 + 200 * accepted, 1), round(10 + 200 * rejected, 1))
    assert circles == curve
    assert len(curve) == len(one.curve)
    bars = [
        re.findall(r"[\d.]+", path)
        for path in page.values("d", "path")
        if "H" not in path
    ]
    for (x, y), bar in zip(curve, bars, strict=True):
        at, low, high = map(float, bar)
        assert 10 <= x == at <= 210
        assert 210 >= low >= y >= high >= 10
    assert page.text.count("complete") > len(curve)


def test_texts_of_others_are_no_markup(tmp_path: Path) -> None:
    report = reported(tmp_path, [f"test/{text}" for text in HOSTILE], number=4)
    text = calibration_page(report)
    assert {tag for tag, _ in Page(text).elements} == {
        tag for tag, _ in Page(calibration_page(reported(tmp_path))).elements
    }
    assert not any(
        name.startswith("on") or name == "autofocus"
        for _, found in Page(text).elements
        for name in found
    )
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", calibration_text(report))


def test_a_judge_without_readable_verdicts_has_no_curves(tmp_path: Path) -> None:
    dataset, results = (
        write_dataset(tmp_path, 4),
        KeptVerdicts(tmp_path / "results.jsonl"),
    )
    judge, series = CaseJudge(["what?"] * 4), [Series("test/one", "bounded")]
    report = calibration_report(
        asyncio.run(
            calibrate_judges(dataset, series, results, 0.01, model=lambda goal: judge)
        )
    )
    assert report.error_rows[1] == (
        "test/one",
        "bounded",
        "0.0 % (0.0 to 65.8), 0 of 2",
        "100.0 % (34.2 to 100.0), 2 of 2",
        "-",
        "-",
    )
    page = Page(calibration_page(report))
    assert "There is no verdict with a score." in page.text
    assert "svg" not in [tag for tag, _ in page.elements]
    assert report.calibration.judges[0].unreadable == 4


def test_tables_are_not_cut_and_findings_fit_a_terminal(tmp_path: Path) -> None:
    report = reported(tmp_path, ("test/one", "test/two"), target=0.05)
    whole, narrow = calibration_text(report), calibration_text(report, 80)
    assert whole.split("\n\n")[1:3] == narrow.split("\n\n")[1:3]
    closing = narrow.split("\n\n")[3].splitlines()[:-1]
    assert max(map(len, closing)) <= 80
    assert "…" not in narrow
    assert "".join(narrow.split()) == "".join(whole.split())


def found_threshold(
    target: float,
    score: float | None,
    accept: tuple[float, ...],
    reject: tuple[float, ...],
    needed: int,
) -> Threshold:
    """A threshold with these rates: their count, how many there were, and the ends of their interval."""
    rates = {}
    for name, (count, of, low, high) in (
        ("false_accept", accept),
        ("false_reject", reject),
    ):
        rates[name] = Rate(
            count=int(count),
            of=int(of),
            rate=count / of if of else None,
            low=low,
            high=high,
        )
    return Threshold(
        target_false_accept=target,
        minimum_score=score,
        shown=score is not None and accept[3] <= target,
        incomplete_samples_needed=needed,
        **rates,
    )


SURE = found_threshold(0.01, None, (2, 40, 0.01, 0.17), (1, 40, 0.0, 0.13), 381)


def test_each_finding_about_a_threshold_has_its_words() -> None:
    none = found_threshold(0.01, None, (0, 0, 0.0, 1.0), (0, 3, 0.0, 1.0), 381)
    assert threshold_text(none).startswith("the dataset has no incomplete transcript")
    assert threshold_text(SURE) == (
        "no minimum_score keeps false accepts at 1 % or less: 2 of 40 incomplete transcripts have the score 1 and are accepted"
    )
    threshold = found_threshold(0.2, 0.9, (0, 40, 0.0, 0.09), (4, 40, 0.04, 0.23), 16)
    assert threshold_text(threshold) == (
        "with minimum_score = 0.9, false accepts are 0.0 % (0.0 to 9.0), 0 of 40, "
        "and false rejects 10.0 % (4.0 to 23.0), 4 of 40."
    )
    few = found_threshold(0.01, 0.9, (0, 40, 0.0, 0.09), (4, 40, 0.04, 0.23), 381)
    assert threshold_text(few).removeprefix(threshold_text(threshold)) == (
        " The interval reaches 9.0 %: 40 incomplete samples cannot show 1 %. "
        "At least 381 of them, without a false accept, can."
    )
