"""Counts and ids from several files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from goalrunner.validators import shell_validator as module
from goalrunner.validators.shell_validator import Report, read_reports

NONE = (
    "no pytest reported to the runner: it was not started, was ended early (os._exit in the code under test?), "
    "or something else ran in its place"
)


def written(path: Path, root: Path, stopped: str = "", **endings: str) -> Path:
    path.write_text(json.dumps({"root": str(root), "stopped": stopped, "endings": endings}))
    return path


def test_ids_are_relative_to_the_workspace(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    (workspace / "sub" / "tests").mkdir(parents=True)
    endings = {
        "tests/test_a.py::TestX::test_b[1::2]": "passed",
        "tests/test_a.py::test_c": "skipped",
        "tests/test_broken.py": "failed",
        "../../outside.py::test_o": "passed",
    }
    written(tmp_path / "1.json", workspace / "sub", **endings)
    assert read_reports(tmp_path, workspace) == Report(
        files=1,
        run=3,
        failed=1,
        skipped=1,
        ids=("../../outside.py::test_o", "sub/tests/test_a.py::TestX::test_b[1::2]", "sub/tests/test_broken.py"),
    )


def test_the_worst_ending_counts(tmp_path: Path) -> None:
    one, two = {"a.py::t": "passed", "a.py::u": "skipped"}, {"a.py::t": "failed", "a.py::u": "passed"}
    for first, second in ((one, two), (two, one)):
        written(tmp_path / "1.json", tmp_path, **first)
        written(tmp_path / "2.json", tmp_path, **second)
        found = read_reports(tmp_path, tmp_path)
        assert (found.run, found.failed, found.skipped, found.files) == (2, 1, 0, 2)


def test_ids_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TEST_IDS", 2)
    written(tmp_path / "1.json", tmp_path, **{f"a.py::t{at}": "passed" for at in (3, 1, 2)})
    found = read_reports(tmp_path, tmp_path)
    assert (found.ids, found.run) == (("a.py::t1", "a.py::t2"), 3)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"root": "", "stopped": ""}', '{"root": "", "stopped": "", "endings": {"a": 1}}']
)
def test_what_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.json").write_text(text)
    assert read_reports(tmp_path, tmp_path).problem(1).startswith("pytest's report is damaged: ")


def test_a_pipe_and_a_very_large_file_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert read_reports(tmp_path, tmp_path).unreadable
    (tmp_path / "pipe.json").unlink()
    written(tmp_path / "real.json", tmp_path)
    assert not read_reports(tmp_path, tmp_path).unreadable
    monkeypatch.setattr(module, "LARGEST", 5)
    assert "at most 0 MB" in read_reports(tmp_path, tmp_path).unreadable


@pytest.mark.parametrize(
    ("report", "needed", "problem"),
    [
        (Report(files=1, run=3), 1, ""),
        (Report(files=2, run=3, failed=2), 0, "its report has 2 failed"),
        (Report(files=1, run=3, stopped="Exit: x"), 1, "pytest was stopped before its end: Exit: x"),
        (Report(), 1, NONE),
        (Report(files=1, run=1), 2, NONE),
        (Report(), 0, ""),
        (Report(files=1, skipped=4), 1, "no test ran (4 skipped)"),
        (Report(files=1), 1, "no test ran"),
        (Report(unreadable="it is no JSON"), 0, "pytest's report is damaged: it is no JSON"),
    ],
)  # fmt: skip
def test_what_stands_against_exit_0(report: Report, needed: int, problem: str) -> None:
    assert report.problem(needed) == problem
