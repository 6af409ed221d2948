"""Counts and ids from several files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from goalrunner.core.verdict import CollectedTests, Ending
from goalrunner.validators import pytest_report as module
from goalrunner.validators.pytest_report import PytestReport, read_reports

NONE = (
    "no pytest reported to the runner: it was not started, was ended early (os._exit in the code under test?), "
    "or something else ran in its place"
)


def written(path: Path, root: Path, endings: dict[str, str], **more: object) -> Path:
    path.write_text(
        json.dumps({"root": str(root), "stopped": "", "endings": endings, **more})
    )
    return path


def report(
    files: int = 0, stopped: str = "", unreadable: str = "", **endings: Ending
) -> PytestReport:
    return PytestReport(files, CollectedTests(endings=endings), stopped, unreadable)


def test_ids_are_relative_to_the_workspace(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    (workspace / "sub" / "tests").mkdir(parents=True)
    endings = {
        "tests/test_a.py::TestX::test_b[1::2]": "passed",
        "tests/test_a.py::test_c": "skipped",
        "tests/test_broken.py": "failed",
        "../../outside.py::test_o": "passed",
    }
    places = {
        "tests/test_a.py::test_c": str(workspace / "sub/helpers.py"),
        "tests/test_m.py": "/usr/lib/x.py",
    }
    written(tmp_path / "1.json", workspace / "sub", endings, skipped_at=places)
    found = read_reports(tmp_path, workspace)
    assert (found.files, found.run, found.failed) == (1, 3, 1)
    assert found.tests == CollectedTests(
        endings={
            "sub/tests/test_a.py::TestX::test_b[1::2]": "passed",
            "sub/tests/test_a.py::test_c": "skipped",
            "sub/tests/test_broken.py": "failed",
            "../../outside.py::test_o": "passed",
        },
        skipped_at={
            "sub/tests/test_a.py::test_c": "sub/helpers.py",
            "sub/tests/test_m.py": "/usr/lib/x.py",
        },
    )


def test_the_worst_ending_counts(tmp_path: Path) -> None:
    one, two = (
        {"a.py::t": "passed", "a.py::u": "skipped"},
        {"a.py::t": "failed", "a.py::u": "passed"},
    )
    for first, second in ((one, two), (two, one)):
        written(tmp_path / "1.json", tmp_path, first)
        written(tmp_path / "2.json", tmp_path, second)
        found = read_reports(tmp_path, tmp_path)
        assert (found.run, found.failed, found.files) == (2, 1, 2)


@pytest.mark.parametrize(
    ("more", "needed", "whole"),
    [
        ({"exit_status": 1}, 1, True),
        ({"exit_status": 5}, 1, True),
        ({"exit_status": 2}, 1, False),
        ({"exit_status": 3}, 1, False),
        ({"exit_status": 1, "uncollected": ["test_b.py"]}, 1, False),
        ({"exit_status": 1, "cut_short": True}, 1, False),
        ({"exit_status": 0, "stopped": "Exit: x"}, 1, False),
        ({"exit_status": 0}, 2, False),
    ],
)
def test_tests_are_whole_only_after_a_pytest_that_came_to_its_end(
    tmp_path: Path, more: dict[str, object], needed: int, whole: bool
) -> None:
    written(tmp_path / "1.json", tmp_path, {"a.py::t": "failed"}, **more)
    assert read_reports(tmp_path, tmp_path, needed).tests.whole is whole


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"root": "", "stopped": ""}',
        '{"root": "", "stopped": "", "endings": {"a": 1}}',
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.json").write_text(text)
    assert (
        read_reports(tmp_path, tmp_path)
        .problem(1)
        .startswith("pytest's report is damaged: ")
    )


def test_a_pipe_and_a_very_large_file_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert read_reports(tmp_path, tmp_path).unreadable
    (tmp_path / "pipe.json").unlink()
    written(tmp_path / "real.json", tmp_path, {})
    assert not read_reports(tmp_path, tmp_path).unreadable
    monkeypatch.setattr(module, "LARGEST", 5)
    assert "at most 0 MB" in read_reports(tmp_path, tmp_path).unreadable


@pytest.mark.parametrize(
    ("given", "needed", "problem"),
    [
        (report(1, a="passed"), 1, ""),
        (report(2, a="failed", b="failed", c="passed"), 0, "its report has 2 failed"),
        (
            report(1, a="passed", stopped="Exit: x"),
            1,
            "pytest was stopped before its end: Exit: x",
        ),
        (report(), 1, NONE),
        (report(1, a="passed"), 2, NONE),
        (report(), 0, ""),
        (
            report(unreadable="it is no JSON"),
            0,
            "pytest's report is damaged: it is no JSON",
        ),
    ],
)
def test_what_stands_against_exit_0(
    given: PytestReport, needed: int, problem: str
) -> None:
    assert given.problem(needed) == problem
