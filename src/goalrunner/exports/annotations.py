"""The failures of a run with their places in the code: annotations of GitHub, and a code-quality report of GitLab."""

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
from goalrunner.reports.layout import cut, printable_line

_LONGEST = 500
_MOST = 9
"""Places of one run. GitHub shows ten annotations of a step; the first one is about the run."""
_PLACE = re.compile(
    r'\s*(?:File ")?(?:E\s+|-+>\s*|at (?:.* )?\(?(?:file://)?|.* panicked at )?'
    r'(?P<path>[\w./@+-][^\s:()",]*\.\w+)(?::(?P<line>\d+)|\((?P<row>\d+),\d+\)|", line (?P<frame>\d+))'
    r"(?::\d+)?(?:[:)]|, in .*)?\s*(?P<message>.*)"
)
"""A place in the output of a test runner, type checker or compiler, and the message that follows it."""
_NO_MESSAGE = re.compile(r"[\w.]*")
"""A text that is no message: nothing, or the name of an exception."""


@dataclass(frozen=True)
class Annotation:
    """A failure. `path` is relative to the repository, empty if it is not known; `line` counts from 1."""

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
    """Return the failures of a run that is not complete: the run itself, then the places that failed validators name."""
    if outcome.passed:
        return []
    root = os.path.realpath(
        environ.get("GITHUB_WORKSPACE")
        or environ.get("CI_PROJECT_DIR")
        or outcome.workspace
    )
    red = [result for result in results if not result.passed]
    places: dict[tuple[str, int], Annotation] = {}
    for result in red:
        if not result.hidden:
            for problem in _places(result, outcome.workspace, root):
                places.setdefault((problem.path, problem.line), problem)
    return [_run_problem(outcome, red, goal_file, root), *list(places.values())[:_MOST]]


def _run_problem(
    outcome: GoalOutcome, red: list[ValidatorResult], goal_file: str, root: str
) -> Annotation:
    reason = str(outcome.stop_reason or "").replace("_", " ")
    missing = outcome.verdict.missing if outcome.verdict else ""
    if red:
        message = "; ".join(f"{result.name}: {public_remark(result)}" for result in red)
    else:
        message = missing or outcome.message or reason
    title = (
        f"goal: {outcome.status} ({reason})" if reason else f"goal: {outcome.status}"
    )
    return Annotation(
        title, _short(message), _inside(goal_file, root) if goal_file else ""
    )


def _short(text: str) -> str:
    return cut(printable_line(text), _LONGEST)


def _places(result: ValidatorResult, workspace: str, root: str) -> Iterator[Annotation]:
    """Yield the places in the workspace that the output of a validator names; of a Python traceback the last one."""
    error = ""  # the error that pytest prints before its place
    frame: Annotation | None = None
    for line in result.feedback.splitlines():
        match = _PLACE.fullmatch(line)
        path = _inside(os.path.join(workspace, match["path"]), root) if match else ""  # noqa: PTH118
        if match and path:
            number = int(match["line"] or match["row"] or match["frame"])
            message = match["message"]
            if _NO_MESSAGE.fullmatch(message):
                message = error or message
            problem = Annotation(
                result.name, _short(message or result.summary), path, max(number, 1)
            )
            error = ""
            if match["frame"]:
                frame = problem
            else:
                yield problem
        elif frame and line[:1].strip():  # the error after a traceback
            yield replace(frame, message=_short(line))
            frame = None
        elif line.startswith("E ") and not error:
            error = line[1:].strip()


def _inside(path: str, root: str) -> str:
    """Return the path of an existing file relative to `root`; empty if it is outside of it, missing, or a dependency."""
    try:
        real = os.path.realpath(path)
        is_inside = os.path.isfile(real) and real.startswith(f"{root}/")  # noqa: PTH113
    except (OSError, ValueError):
        return ""
    if not is_inside or re.search(
        r"/(site-packages|node_modules)/", real.removeprefix(root)
    ):
        return ""
    return os.path.relpath(real, root)


def github_text(problems: Iterable[Annotation], labels: Iterable[str] = ()) -> str:
    """Return annotations for the log of a step: one for each problem, and one with the labels, which weaken a result."""
    lines = [_command("error", problem) for problem in problems]
    if text := "; ".join(labels):
        lines.append(
            _command(
                "warning", Annotation("goal: what weakens the result", _short(text))
            )
        )
    return "".join(lines)


def _command(kind: str, problem: Annotation) -> str:
    values = {"title": _short(problem.title)}
    if problem.path:
        values |= {"file": problem.path, "line": str(problem.line)}
    properties = ",".join(
        f"{name}={_quoted(text, ':,')}" for name, text in values.items()
    )
    return f"::{kind} {properties}::{_quoted(problem.message)}\n"


def _quoted(text: str, special: str = "") -> str:
    # GitHub looks for commands of the old form, ##[...], only in lines that are none of the new form.
    return "".join(
        f"%{ord(sign):02X}" if sign in f"%\r\n{special}" else sign for sign in text
    )


def gitlab_text(problems: Iterable[Annotation]) -> str:
    """Return problems as a code-quality report of GitLab, a JSON array. It needs a path: "." if none is known."""
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
        "location": {"path": problem.path or ".", "lines": {"begin": problem.line}},
    }
