"""Tests in JUnit files that a check writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.verdict import CollectedTests, ValidatorResult
from goalrunner.system.change_clock import ChangeClock
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators import junit_report as module
from goalrunner.validators.junit_report import read_junit_reports, writes_junit
from goalrunner.validators.shell_validator import ShellValidator
from tests.support.agents import validation

REPORT = """<?xml version="1.0"?>
<testsuites><testsuite name="x">
<testcase name="adds" classname="calc" file="test/a.test.js"/>
<testcase name="fails" classname="tests.test_a.TestX"><failure message="no">why</failure></testcase>
<testcase name="breaks" classname="com.example.CalcTest"><error/></testcase>
<testcase name="left out" classname="calc" file="./test/a.test.js"><skipped/></testcase>
</testsuite></testsuites>
"""
ENDINGS = {
    "test/a.test.js::adds": "passed",
    "tests/test_a.py::TestX::fails": "failed",
    "com.example.CalcTest::breaks": "failed",
    "test/a.test.js::left out": "skipped",
}


async def check(tmp_path: Path, script: str) -> ValidatorResult:
    workspace = tmp_path / "ws"
    (workspace / "tests").mkdir(parents=True, exist_ok=True)
    (workspace / "tests/test_a.py").write_text("")
    (workspace / "report.txt").write_text(REPORT)
    (workspace / "check.sh").write_text(script)
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    validator = ShellValidator(
        ValidatorSpec(run="sh check.sh"),
        ProcessLauncher(),
        {"PATH": os.environ["PATH"]},
    )
    result, _ = await validator.validate(validation(workspace, scratch))
    assert {path.suffix for path in scratch.iterdir()} == {".out"}, (
        "nothing else is left"
    )
    return result


async def test_the_tests_of_a_file_that_the_check_writes_are_known(
    tmp_path: Path,
) -> None:
    found = (await check(tmp_path, "mkdir -p out; cp report.txt out/junit.xml\n")).tests
    assert found is not None
    assert (found.endings, found.whole) == (ENDINGS, True)


@pytest.mark.parametrize("time", [1, 9_000_000_000], ids=["past", "future"])
async def test_an_older_file_does_not_count(time: int, tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/junit.xml").write_text(REPORT)
    os.utime(tmp_path / "ws/junit.xml", (time, time))
    clock = ChangeClock()
    clock.note()
    clock.after_changes()
    assert (await check(tmp_path, "true  # junit.xml\n")).tests is None


async def test_fewer_tests_than_a_runner_counts_are_not_whole(tmp_path: Path) -> None:
    script = "cp report.txt junit.xml; printf 'Test Suites: 1 passed, 1 total\\nTests:       9 passed, 9 total\\n'\n"
    found = (await check(tmp_path, script)).tests
    assert found is not None
    assert not found.whole


@pytest.mark.parametrize(
    "content",
    [
        REPORT.replace("<testsuites>", '<!DOCTYPE x [<!ENTITY a "b">]><testsuites>'),
        REPORT.replace("</testsuites>", ""),
        "<testsuite>\0</testsuite>",
    ],
)
def test_a_file_that_cannot_be_read_leaves_tests_missing(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "1.junit").write_text(content)
    found = read_junit_reports(tmp_path, tmp_path, tmp_path)
    assert found is not None
    assert not found.whole


def test_a_large_file_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST", 10)
    (tmp_path / "1.junit").write_text(REPORT)
    assert read_junit_reports(tmp_path, tmp_path, tmp_path) == CollectedTests(
        whole=False
    )


@pytest.mark.parametrize(
    ("texts", "writes"),
    [
        ("npx jest --reporters=jest-junit", True),
        ("pytest --junitxml=report.xml", True),
        ("./gradlew test", True),
        ("mvn -q test", True),
        ("gotestsum --junitfile out.xml", True),
        ("pytest -q", False),
    ],
)
def test_checks_that_may_write_such_files_are_known(texts: str, writes: bool) -> None:
    assert writes_junit(texts) is writes
