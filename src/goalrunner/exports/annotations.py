"""The failures of a run with their places in the code, for CI systems."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.verdict import ValidatorResult
from goalrunner.exports.junit import public_remark
from goalrunner.reports.terminal_text import cut, printable_line

_LONGEST = 500
# Places of one run. GitHub shows ten annotations of a step; the first one is about the
# run.
_MOST_PLACES = 9
# A place in the output of a test runner, type checker or compiler, and the message that
# follows it.
_PLACE = re.compile(
    r'\s*(?:File ")?(?:E\s+|-+>\s*|at (?:.* )?\(?(?:file://)?|.* panicked at )?'
    r'(?P<path>[\w./@+-][^\s:()",]*\.\w+)'
    r'(?::(?P<line>\d+)|\((?P<row>\d+),\d+\)|", line (?P<frame>\d+))'
    r"(?::\d+)?(?:[:)]|, in .*)?\s*(?P<message>.*)"
)
# A text that is no message: nothing, or the name of an exception.
_NO_MESSAGE = re.compile(r"[\w.]*")
_DEPENDENCIES = re.compile(r"/(site-packages|node_modules)/")


@dataclass(frozen=True)
class Annotation:
    """A failure.

    `path` is relative to the repository, empty if it is not known; `line` counts from
    1.
    """

    title: str
    message: str
    path: str = ""
    line: int = 1


def problems_of(
    outcome: GoalOutcome,
    results: Iterable[ValidatorResult],
    goal_file: str,
    environ: Mapping[str, str],
) -> list[Annotation]:
    """Return the failures of a run that is not complete.

    The run itself comes first, then the places that failed validators name.
    """
    if outcome.passed:
        return []
    checkout = environ.get("GITHUB_WORKSPACE") or environ.get("CI_PROJECT_DIR")
    root = os.path.realpath(checkout or outcome.workspace)
    red = [result for result in results if not result.passed]
    problems: dict[tuple[str, int], Annotation] = {}
    for result in red:
        # An agent could read the output of a hidden validator in the log of CI.
        if result.hidden:
            continue
        for problem in _problems_in(result, outcome.workspace, root):
            problems.setdefault((problem.path, problem.line), problem)
    first_problems = list(problems.values())[:_MOST_PLACES]
    return [_run_problem(outcome, red, goal_file, root), *first_problems]


def _run_problem(
    outcome: GoalOutcome, red: list[ValidatorResult], goal_file: str, root: str
) -> Annotation:
    reason = str(outcome.stop_reason or "").replace("_", " ")
    title = f"goal: {outcome.status}"
    if reason:
        title += f" ({reason})"
    missing = outcome.verdict.missing if outcome.verdict else ""
    message = missing or outcome.message or reason
    if red:
        message = "; ".join(f"{result.name}: {public_remark(result)}" for result in red)
    path = _path_inside(goal_file, root) if goal_file else ""
    return Annotation(title, _short(message), path)


def _short(text: str) -> str:
    return cut(printable_line(text), _LONGEST)


def _problems_in(
    result: ValidatorResult, workspace: str, root: str
) -> Iterator[Annotation]:
    """Yield the places in the workspace that the output of a validator names.

    Of a Python traceback, it is the last one.
    """
    # The error that pytest prints before its place.
    pytest_error = ""
    last_frame: Annotation | None = None
    for line in result.feedback.splitlines():
        place = _PLACE.fullmatch(line)
        path = ""
        if place:
            # Unlike Path, this keeps names that are not valid.
            path = os.path.join(workspace, place["path"])  # noqa: PTH118
            path = _path_inside(path, root)
        if place and path:
            problem = _problem_at(place, path, result, pytest_error)
            pytest_error = ""
            if place["frame"]:
                last_frame = problem
            else:
                yield problem
        elif last_frame and line[:1].strip():
            # The error stands after the traceback, without indentation.
            yield replace(last_frame, message=_short(line))
            last_frame = None
        elif line.startswith("E ") and not pytest_error:
            pytest_error = line[1:].strip()


def _problem_at(
    place: re.Match[str], path: str, result: ValidatorResult, pytest_error: str
) -> Annotation:
    message = place["message"]
    if _NO_MESSAGE.fullmatch(message):
        message = pytest_error or message
    number = int(place["line"] or place["row"] or place["frame"])
    return Annotation(
        result.name, _short(message or result.summary), path, max(number, 1)
    )


def _path_inside(path: str, root: str) -> str:
    """Return the path of an existing file relative to `root`.

    Empty if it is outside of it, missing, or a dependency.
    """
    try:
        real = os.path.realpath(path)
        is_inside = os.path.isfile(real) and real.startswith(f"{root}/")  # noqa: PTH113
    except (OSError, ValueError):
        return ""
    if not is_inside or _DEPENDENCIES.search(real.removeprefix(root)):
        return ""
    return os.path.relpath(real, root)


def github_text(problems: Iterable[Annotation], labels: Iterable[str] = ()) -> str:
    """Return annotations for the log of a step of GitHub Actions.

    There is one for each problem, and one with the labels, which weaken a result.
    """
    lines = [_command("error", problem) for problem in problems]
    label_text = "; ".join(labels)
    if label_text:
        warning = Annotation("goal: what weakens the result", _short(label_text))
        lines.append(_command("warning", warning))
    return "".join(lines)


def _command(kind: str, problem: Annotation) -> str:
    values = {"title": _short(problem.title)}
    if problem.path:
        values["file"] = problem.path
        values["line"] = str(problem.line)
    properties = [f"{name}={_escaped(text, ':,')}" for name, text in values.items()]
    return f"::{kind} {','.join(properties)}::{_escaped(problem.message)}\n"


def _escaped(text: str, special: str = "") -> str:
    # GitHub looks for commands of the old form, ##[...], only in lines that are none of
    # the new form.
    escapes = {ord(sign): f"%{ord(sign):02X}" for sign in f"%\r\n{special}"}
    return text.translate(escapes)


def gitlab_text(problems: Iterable[Annotation]) -> str:
    """Return problems as a code-quality report of GitLab, a JSON array."""
    return json.dumps([_gitlab_value(problem) for problem in problems], indent=2) + "\n"


def _gitlab_value(problem: Annotation) -> dict[str, object]:
    identity = "\0".join(
        (problem.title, problem.path, str(problem.line), problem.message)
    )
    return {
        "description": problem.message,
        "check_name": problem.title,
        "fingerprint": hashlib.sha256(identity.encode(errors="replace")).hexdigest(),
        "severity": "major",
        # The format requires a path.
        "location": {"path": problem.path or ".", "lines": {"begin": problem.line}},
    }
