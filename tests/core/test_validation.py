from __future__ import annotations

import pytest

from goalrunner.core.verdict import ValidatorResult, verdict_of


def red(summary: str, feedback: str) -> ValidatorResult:
    return ValidatorResult(
        name="short", passed=False, summary=summary, feedback=feedback, exit_code=1
    )


@pytest.mark.parametrize(
    ("summary", "feedback", "remark"),
    [
        ("exit 1", "", "exit 1"),
        (
            "exit 1",
            "one\nAssertionError:   expected 4\n\n",
            "exit 1: AssertionError: expected 4",
        ),
        ("exit 1, expected 3", "why\n======", "exit 1, expected 3: why"),
        ("exit 1", "x" * 500, "exit 1: " + "x" * 159 + "…"),
        (
            "exit 254",
            (
                "npm error enoent Could not read package.json: no such file\nnpm error enoent This is related to npm not being"
                " able to find a file.\nnpm error enoent\nnpm error A complete log of this run can be found in: /a/b.log"
            ),
            "exit 254: npm error enoent Could not read package.json: no such file",
        ),
        ("2 failed", "more", "2 failed"),
        ("exit 0, but nothing matches", "more", "exit 0, but nothing matches"),
        ("", "", "red"),
    ],
)
def test_beside_a_bare_exit_code_stands_the_last_thing_said(
    summary: str, feedback: str, remark: str
) -> None:
    assert red(summary, feedback).remark == remark


def test_a_green_result_is_told_by_its_summary_alone() -> None:
    assert (
        ValidatorResult(
            name="a", passed=True, summary="exit 0", feedback="noise"
        ).remark
        == "exit 0"
    )


@pytest.mark.parametrize(
    ("summary", "feedback", "missing"),
    [
        (
            "60 words; at most 50",
            "60 words; at most 50",
            "validator short: 60 words; at most 50",
        ),
        ("60 words", "60   words\ncut it", "validator short: 60   words\ncut it"),
        ("60 words", "60 words; at most 50", "validator short: 60 words; at most 50"),
        ("a" * 199 + "…", "a" * 300, "validator short: " + "a" * 300),
        ("exit 1", "60 words", "validator short: exit 1\n60 words"),
        ("exit 1", "", "validator short: exit 1"),
        ("", "60 words", "validator short: 60 words"),
    ],
)
def test_what_is_missing_is_said_once(
    summary: str, feedback: str, missing: str
) -> None:
    assert verdict_of([red(summary, feedback)]).missing == missing
