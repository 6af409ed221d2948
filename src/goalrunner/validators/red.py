"""Red results for checks that gave no answer of their own. Owns how they are worded."""

from __future__ import annotations

from typing import Literal

from goalrunner.model.goal import ValidatorSpec
from goalrunner.model.validation import ValidatorResult
from goalrunner.ports import Completion
from goalrunner.validators.feedback import tail_of
from goalrunner.validators.naming import name_of

Reason = Literal["red", "timeout", "crashed", "not_found", "invalid_result"]


def cut_short(spec: ValidatorSpec, completion: Completion) -> ValidatorResult | None:
    """The result of a child process that did not come to an end of its own: no start, a deadline, a signal. Else None."""
    if completion.timed_out:
        limit = spec.timeout if spec.timeout is not None else completion.duration
        return red(spec, "timeout", f"timed out after {limit:g} s", completion)
    if completion.error and completion.exit_code in (126, 127):
        return red(spec, "not_found", completion.error, completion)
    if completion.error or completion.exit_code is None:
        return red(spec, "crashed", completion.error or "ended by a signal", completion)
    return None


def red(
    spec: ValidatorSpec, reason: Reason, summary: str, completion: Completion | None = None, feedback: str | None = None
) -> ValidatorResult:
    """A red result; without feedback of its own it carries the tail of the output."""
    output = tail_of(completion.output) if completion else ""
    return ValidatorResult(
        name=name_of(spec),
        passed=False,
        reason=reason,
        summary=_one_line(summary),
        feedback=output if feedback is None else feedback,
        command=spec.run or spec.python or "",
        exit_code=completion.exit_code if completion else None,
        duration=completion.duration if completion else 0.0,
        hidden=spec.hidden,
    )


def _one_line(text: str, longest: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
