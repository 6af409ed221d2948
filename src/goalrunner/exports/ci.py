"""Output for CI systems: JUnit XML, annotations, and a code-quality report."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from goalrunner.exports.html import rendered
from goalrunner.reports import figures
from goalrunner.reports.layout import cut, laid_out, one_line
from goalrunner.reports.review import criterion_facts

if TYPE_CHECKING:
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.core.verdict import ValidatorResult

_LONGEST = 500
_MOST = 9
"""Places of one run. GitHub shows ten annotations of a step; the first one is about the run."""
_PLACE = re.compile(
    r'\s*(?:File ")?(?:E\s+|-+>\s*|at (?:.* )?\(?(?:file://)?|.* panicked at )?'
    r'(?P<path>[\w./@+-][^\s:()",]*\.\w+)(?::(?P<line>\d+)|\((?P<row>\d+),\d+\)|", line (?P<frame>\d+))'
    r"(?::\d+)?(?:[:)]|, in .*)?\s*(?P<said>.*)"
)
"""A place in the output of a test runner, type checker or compiler, and the message that follows it."""
_BARE = re.compile(r"[\w.]*")
"""A text that is no message: nothing, or the name of an exception."""


@dataclass(frozen=True)
class Problem:
    """A failure. `path` is relative to the repository, empty if it is not known; `line` counts from 1."""

    title: str
    message: str
    path: str = ""
    line: int = 1


def problems_of(
    outcome: GoalOutcome, results: Iterable[ValidatorResult], goal_file: str, environ: Mapping[str, str]
) -> list[Problem]:
    """Return the failures of a run that is not complete: the run itself, then the places that failed validators name."""
    if outcome.passed:
        return []
    root = os.path.realpath(environ.get("GITHUB_WORKSPACE") or environ.get("CI_PROJECT_DIR") or outcome.workspace)
    red = [result for result in results if not result.passed]
    said = [f"{result.name}: {public_remark(result)}" for result in red]
    missing = outcome.verdict.missing if outcome.verdict and not red else ""
    reason = str(outcome.stop_reason or "").replace("_", " ")
    message = "; ".join(said) or missing or outcome.message or reason
    title = f"goal: {outcome.status}" + (f" ({reason})" if reason else "")
    where = _inside(goal_file, root) if goal_file else ""
    places: dict[tuple[str, int], Problem] = {}
    for result in red:
        for one in _places(result, outcome, root) if not result.hidden else ():
            places.setdefault((one.path, one.line), one)
    return [Problem(title, cut(one_line(message), _LONGEST), where), *list(places.values())[:_MOST]]


def _places(result: ValidatorResult, outcome: GoalOutcome, root: str) -> Iterator[Problem]:
    """Yield the places in the workspace that the output of a validator names; of a Python traceback the last one."""
    before, frame = "", None
    for line in result.feedback.splitlines():
        found = _PLACE.fullmatch(line)
        path = _inside(os.path.join(outcome.workspace, found["path"]), root) if found else ""  # noqa: PTH118
        if found and path:
            number = int(found["line"] or found["row"] or found["frame"])
            said = found["said"] if not _BARE.fullmatch(found["said"]) else before or found["said"]
            one = Problem(result.name, cut(one_line(said or result.summary), _LONGEST), path, max(number, 1))
            if found["frame"]:
                frame = one
            else:
                yield one
            before = ""
        elif frame and line[:1].strip():
            yield Problem(frame.title, cut(one_line(line), _LONGEST), frame.path, frame.line)
            frame = None
        elif line.startswith("E ") and not before:
            before = line[1:].strip()


def _inside(path: str, root: str) -> str:
    """Return the path of an existing file relative to `root`; empty if it is outside of it, missing, or a dependency."""
    try:
        real = os.path.realpath(path)
        inside = os.path.isfile(real) and real.startswith(f"{root}/")  # noqa: PTH113
    except (OSError, ValueError):
        return ""
    relative = os.path.relpath(real, root) if inside else ""
    return "" if re.search(r"(^|/)(site-packages|node_modules)/", relative) else relative


def github_text(problems: Iterable[Problem], labels: Iterable[str] = ()) -> str:
    """Return annotations for the log of a step: one for each problem, and one with the labels, which weaken a result."""
    lines = [_command("error", one) for one in problems]
    if said := "; ".join(labels):
        lines.append(_command("warning", Problem("goal: what weakens the result", cut(one_line(said), _LONGEST))))
    return "".join(lines)


def _command(kind: str, one: Problem) -> str:
    place = {"file": one.path, "line": str(one.line)} if one.path else {}
    values = {"title": cut(one_line(one.title), _LONGEST), **place}
    properties = ",".join(f"{name}={_quoted(text, ':,')}" for name, text in values.items())
    return f"::{kind} {properties}::{_quoted(one.message)}\n"


def _quoted(text: str, special: str = "") -> str:
    # GitHub looks for commands of the old form, ##[...], only in lines that are none of the new form.
    return "".join(f"%{ord(sign):02X}" if sign in f"%\r\n{special}" else sign for sign in text)


def gitlab_text(problems: Iterable[Problem]) -> str:
    """Return problems as a code-quality report of GitLab, a JSON array. It needs a path: "." if none is known."""
    values = [
        {
            "description": one.message,
            "check_name": one.title,
            "fingerprint": hashlib.sha256(
                "\0".join((one.title, one.path, str(one.line), one.message)).encode(errors="replace")
            ).hexdigest(),
            "severity": "major",
            "location": {"path": one.path or ".", "lines": {"begin": one.line}},
        }
        for one in problems
    ]
    return json.dumps(values, indent=2) + "\n"


Kind = Literal["", "failure", "error", "skipped"]


class Case(NamedTuple):
    """One test case. Without a `kind` it passed, and type, message and details are not shown."""

    group: str
    name: str
    kind: Kind
    type: str = ""
    message: str = ""
    details: str = ""
    output: str = ""
    seconds: float = 0.0


def suite_text(
    name: str, cases: Sequence[Case], *, seconds: float, timestamp: str = "", properties: Mapping[str, str]
) -> str:
    """Return one suite of cases as JUnit XML."""
    about = {"seconds": seconds, "timestamp": timestamp, "properties": properties}
    return rendered(Path(__file__).with_name("junit.xml.j2"), name=name, cases=cases, **about)


def junit_text(outcome: GoalOutcome, results: Sequence[ValidatorResult] = (), criteria: Sequence[str] = ()) -> str:
    """Return a run as JUnit XML: a case for the run and for each validator, criterion and limit.

    `results` are the last ones of the validators; the output of hidden ones is left out. Criteria that the last verdict
    does not name are skipped.
    """
    judged = list(_criterion_cases(outcome))
    names = {case.name for case in judged}
    skipped = [Case("criteria", text, "skipped", message="not judged") for text in criteria if text not in names]
    cases = [_run_case(outcome), *map(_validator_case, results), *judged, *skipped, *_limit_cases(outcome)]
    properties = {
        "run_id": outcome.run_id,
        "status": str(outcome.status),
        "stop_reason": str(outcome.stop_reason or ""),
        "score": figures.score(outcome.verdict.score) if outcome.verdict else "",
        "labels": "; ".join(outcome.labels),
    }
    timestamp = (outcome.started_at or "")[:19]
    return suite_text(outcome.objective, cases, seconds=outcome.duration, timestamp=timestamp, properties=properties)


def _run_case(outcome: GoalOutcome) -> Case:
    kind: Kind = "" if outcome.passed else "failure" if outcome.status == "capped" else "error"
    reason, missing = str(outcome.stop_reason or outcome.status), outcome.verdict.missing if outcome.verdict else ""
    said, output = f"{outcome.status}: {reason.replace('_', ' ')}", f"run {outcome.run_id}"
    details = outcome.message or missing
    return Case("run", "complete", kind, reason, said, details, output, outcome.duration)


def _validator_case(result: ValidatorResult) -> Case:
    feedback = "" if result.hidden else result.feedback
    texts = () if result.hidden else (result.command, result.summary, feedback if result.passed else "")
    kind: Kind = "" if result.passed else "failure"
    said, output = public_remark(result), "\n".join(filter(None, texts))
    return Case("validators", result.name, kind, result.reason, said, feedback, output, result.duration)


def public_remark(result: ValidatorResult) -> str:
    """Return the remark on a validator's result; of a hidden one, the summary alone."""
    return result.summary if result.hidden else result.remark


def _criterion_cases(outcome: GoalOutcome) -> Iterator[Case]:
    rows = [row for row in outcome.evidence if row.kind == "criterion"]
    for criterion, group in groupby(rows, key=lambda row: row.criterion):
        found = list(group)
        kind: Kind = "" if found[0].satisfied else "failure"
        missing, output = found[0].missing or "not satisfied", laid_out(criterion_facts(found))
        yield Case("criteria", criterion, kind, "not_satisfied", missing, missing, output)


def _limit_cases(outcome: GoalOutcome) -> Iterator[Case]:
    """Yield a case for each limit that is set; the one that stopped the run has failed."""
    used = list(outcome.usage.values())
    spent: dict[str, tuple[float, str]] = {
        "max_iterations": (outcome.iterations, "max_iterations"),
        "timeout": (outcome.duration, "timeout"),
        "tokens": (sum(one.tokens for one in used), "budget_exhausted"),
        "cost_usd": (sum(one.known_cost_usd for one in used), "budget_exhausted"),
    }
    for name, (amount, reason) in spent.items():
        if (limit := outcome.limits.get(name)) is not None:
            output = " of ".join(f"{value:,.3f}".rstrip("0").rstrip(".") for value in (amount, limit))
            stopped = outcome.stop_reason == reason and (reason != "budget_exhausted" or amount >= limit)
            said = f"the limit was reached: {output}"
            yield Case("limits", name, "failure" if stopped else "", reason, said, output=output)
