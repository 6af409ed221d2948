"""Annotations, the report for GitLab, and a log in which no text is a command of GitHub Actions."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from goalrunner.cli.drive import open_progress
from goalrunner.core import events
from goalrunner.core.outcome import GoalOutcome, GoalStatus, StopReason
from goalrunner.core.verdict import ValidatorResult
from goalrunner.exports.annotations import (
    Annotation,
    github_text,
    gitlab_text,
    problems_of,
)
from goalrunner.reports.ci_log import json_text, neutral
from goalrunner.reports.progress import Progress
from tests.support import told_run
from tests.support.told_run import numbered

COMMANDS = [
    "add-mask",
    "debug",
    "error",
    "group",
    "endgroup",
    "notice",
    "set-env",
    "set-output",
    "stop-commands",
    "warning",
]


def commands(log: str) -> list[str]:
    """The commands that GitHub's runner finds in a log.

    The new form stands at the start of a line, after white space; the old form anywhere in a line.
    """
    known = "|".join(COMMANDS)
    found = [
        re.match(rf"\s*::({known})( .*?)?::", line)
        for line in re.split(r"\r\n|\r|\n", log)
    ]
    old = re.findall(rf"##\[({known})[ \]]", log)
    return [match[1] for match in found if match] + old


ATTACKS = [
    "::error::x",
    "  ::add-mask::x",
    "\u00a0\u2003::set-output name=a::x",
    "fine\n::stop-commands::x",
    "fine\r::error::x",
    "and ##[add-mask]x",
    "##[set-env name=a;]x ###[error]y",
    "\x1b[1m::error::x",
    "\u200b::error::x",
    "\x00::error::x",
    "\ufeff::error::x",
]


@pytest.mark.parametrize("text", ATTACKS)
def test_texts_of_agents_and_tests_are_no_commands_of_a_log(text: str) -> None:
    stream = io.StringIO()
    progress = Progress(stream, github=True)
    red = ValidatorResult(
        name="tests", passed=False, summary=text, feedback=f"{text}\nmore\n{text}\n"
    )
    for record in numbered(
        told_run.created(text),
        told_run.started(text),
        told_run.tool_result("shell", text, text),
        events.ValidatorsFinished(round=1, results=(red,)),
        events.VerdictRecorded(round=1, verdict=told_run.red_verdict(text)),
    ):
        progress.on_record(record)
    verdict = told_run.red_verdict(f"{text}\n{text}\n{text}")
    progress.finish(capped().model_copy(update={"verdict": verdict, "message": text}))
    assert text.strip("\x00\u200b\x1b \n")[-1] in stream.getvalue()
    assert commands(stream.getvalue()) == []
    assert commands(neutral(text)) == []
    assert commands(json_text([text])) == []
    assert json.loads(json_text([text])) == [text]


def test_other_text_is_unchanged() -> None:
    text = "tests/test_a.py::test_x FAILED\na :: b\n## Heading\n# [x]\nfoo##bar\n: :\n"
    assert neutral(text) == text


def test_each_round_is_a_group_and_what_it_took_stands_between_the_groups() -> None:
    stream = io.StringIO()
    progress = open_progress(stream, environ={"GITHUB_ACTIONS": "true", "CI": "true"})
    for record in told_run.two_rounds():
        progress.on_record(record)
    progress.finish(told_run.outcome())
    lines = stream.getvalue().splitlines()
    marks = [line for line in lines if line.startswith("::")]
    assert marks == [
        "::group::round 1",
        "::endgroup::",
        "::group::round 2",
        "::endgroup::",
    ]
    assert lines[lines.index("::endgroup::") + 1].startswith("           round 1 took")
    assert lines.index("::group::round 2") == lines.index("::endgroup::") + 2
    assert "\x1b" not in stream.getvalue()


def test_a_run_that_stops_within_a_round_ends_its_group() -> None:
    stream = io.StringIO()
    progress = open_progress(stream, environ={"GITHUB_ACTIONS": "true"})
    for record in told_run.two_rounds()[:5]:
        progress.on_record(record)
    progress.finish(capped())
    assert commands(stream.getvalue()) == ["group", "endgroup"]
    assert stream.getvalue().splitlines()[-1] != "::endgroup::"


def test_outside_of_github_and_with_quiet_there_are_no_groups() -> None:
    for quiet, environ in (
        (False, {"CI": "true", "GITLAB_CI": "true"}),
        (True, {"GITHUB_ACTIONS": "true"}),
    ):
        stream = io.StringIO()
        progress = open_progress(stream, quiet=quiet, environ=environ)
        for record in told_run.two_rounds():
            progress.on_record(record)
        progress.finish(told_run.outcome())
        assert "::" not in stream.getvalue()


def capped(workspace: Path | str = "/src/parser") -> GoalOutcome:
    ended = told_run.outcome(GoalStatus.CAPPED, StopReason.MAX_ITERATIONS)
    return ended.model_copy(update={"workspace": str(workspace)})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in (
        "goal.toml",
        "pkg/tests/test_a.py",
        "pkg/src/a.ts",
        "pkg/src/lib.rs",
        "pkg/a_test.go",
        "pkg/src/a.test.js",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def red(feedback: str) -> ValidatorResult:
    return ValidatorResult(
        name="tests", passed=False, summary="2 failed", feedback=feedback
    )


PYTEST = """\
    def test_x():
>       assert f(1) == 2
E       assert 1 == 2
E        +  where 1 = f(1)

tests/test_a.py:12: AssertionError
=========================== short test summary info ============================
FAILED tests/test_a.py::test_x - assert 1 == 2
"""
UNITTEST = """\
Traceback (most recent call last):
  File "/usr/lib/python3.12/unittest/case.py", line 57, in run
    yield
  File "{root}/pkg/tests/test_a.py", line 16, in test_x
    self.assertEqual(f(1), 2)
  File "{root}/pkg/tests/test_a.py", line 40, in helper
    raise AssertionError(text)
AssertionError: 1 != 2
"""


@pytest.mark.parametrize(
    ("output", "path", "line", "said"),
    [
        (PYTEST, "pkg/tests/test_a.py", 12, "assert 1 == 2"),
        (UNITTEST, "pkg/tests/test_a.py", 40, "AssertionError: 1 != 2"),
        ("    a_test.go:9: got 1, want 2\n", "pkg/a_test.go", 9, "got 1, want 2"),
        ("src/a.ts(3,5): error TS2322: no\n", "pkg/src/a.ts", 3, "error TS2322: no"),
        ("tests/test_a.py:3:8: F401 unused\n", "pkg/tests/test_a.py", 3, "F401 unused"),
        (
            "    at Object.<anonymous> (src/a.test.js:5:10)\n",
            "pkg/src/a.test.js",
            5,
            "2 failed",
        ),
        (
            "    at file://{root}/pkg/src/a.test.js:5:10\n",
            "pkg/src/a.test.js",
            5,
            "2 failed",
        ),
        ("thread 'x' panicked at src/lib.rs:10:5:\n", "pkg/src/lib.rs", 10, "2 failed"),
        ("error: unused\n --> src/lib.rs:7:1\n", "pkg/src/lib.rs", 7, "2 failed"),
    ],
)
def test_the_output_of_test_runners_names_places(
    repository: Path, output: str, path: str, line: int, said: str
) -> None:
    environ = {"GITHUB_WORKSPACE": str(repository)}
    result = red(output.replace("{root}", str(repository)))
    first, *places = problems_of(
        capped(repository / "pkg"), [result], str(repository / "goal.toml"), environ
    )
    assert first == Annotation(
        "goal: capped (max iterations)", "tests: 2 failed", "goal.toml"
    )
    assert places == [Annotation("tests", said, path, line)]


@pytest.mark.parametrize(
    "output",
    [
        "/etc/passwd:1: x\n",
        "../outside.py:1: x\n",
        "nothing.py:1: x\n",
        "tests:1: x\n",
        "10:30:00 tests/test_a.py\n",
    ],
)
def test_only_files_of_the_repository_are_places(repository: Path, output: str) -> None:
    (repository.parent / "outside.py").touch()
    (problem,) = problems_of(capped(repository), [red(output)], "", {})
    assert problem.path == ""


def test_at_most_ten_annotations_and_none_of_a_hidden_validator(
    repository: Path,
) -> None:
    many = red("".join(f"tests/test_a.py:{number}: x\n" for number in range(1, 40)) * 2)
    assert len(problems_of(capped(repository / "pkg"), [many], "", {})) == 10
    hidden = many.model_copy(update={"hidden": True})
    (problem,) = problems_of(capped(repository / "pkg"), [hidden], "", {})
    assert problem.message == "tests: 2 failed"


def test_a_complete_run_has_no_problem_and_its_labels_are_a_warning() -> None:
    assert problems_of(told_run.outcome(), [], "", {}) == []
    assert github_text([], ["self-judged", "flaky: a"]) == (
        "::warning title=goal%3A what weakens the result::self-judged; flaky: a\n"
    )
    assert github_text([]) == ""


def test_annotations_are_escaped_as_github_reads_them() -> None:
    problem = Annotation("a,b:c", "100 % ::error::\n##[add-mask]x\r", "src/a,b.py", 3)
    (line,) = github_text([problem]).splitlines()
    assert line.startswith(
        "::error title=a%2Cb%3Ac,file=src/a%2Cb.py,line=3::100 %25 ::error::"
    )
    assert line.endswith("%0A##[add-mask]x%0D")


def test_gitlab_gets_a_fingerprint_for_each_problem_and_a_path_even_if_none_is_known() -> (
    None
):
    problems = [
        Annotation("tests", "a", "src/a.py", 3),
        Annotation("tests", "a", "src/a.py", 4),
        Annotation("goal: failed", "no key"),
    ]
    values = json.loads(gitlab_text(problems))
    assert [
        (value["location"]["path"], value["location"]["lines"]["begin"])
        for value in values
    ] == [
        ("src/a.py", 3),
        ("src/a.py", 4),
        (".", 1),
    ]
    assert len({value["fingerprint"] for value in values}) == 3
    assert {value["severity"] for value in values} == {"major"}
    assert json.loads(gitlab_text([])) == []
