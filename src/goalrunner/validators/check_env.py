"""What all validators of a goal file share: folder, environment, name, and red results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

from goalrunner.core.check_ports import ValidationContext
from goalrunner.core.goal import RunVariable, ValidatorSpec
from goalrunner.core.process_ports import Completion, Launcher
from goalrunner.core.verdict import ValidatorResult
from goalrunner.shell import label
from goalrunner.validators.output import tail_of

LONGEST_OBJECTIVE = 100_000
"""Bytes of GOAL_OBJECTIVE; an environment string holds 128 KiB at most."""


_SETTINGS = ("GOAL_HOME", "GOAL_AGENT", "GOAL_MODEL", "GOAL_JUDGE")
"""Settings of `goal` itself, which a user may have exported."""


def variables_named(text: str) -> tuple[RunVariable, ...]:
    """Return the variables of the run whose names a text contains."""
    names: tuple[RunVariable, ...] = get_args(RunVariable)
    return tuple(name for name in names if name in text)


def passed_variables(spec: ValidatorSpec) -> tuple[RunVariable, ...]:
    """Return the variables of the run that a validator gets: those in its line and in `pass_env`."""
    return tuple(dict.fromkeys((*spec.pass_env, *variables_named(spec.run or ""))))


@contextmanager
def environment(
    env: Mapping[str, str], spec: ValidatorSpec, context: ValidationContext
) -> Iterator[tuple[dict[str, str], tuple[Path, ...]]]:
    """Provide the environment of a validator, and the file with the response if it gets GOAL_RESPONSE_FILE.

    It is `env`, what the goal adds, and the variables of the run that the validator names. No other variable tells code
    under test that it is being checked: settings of `goal` itself are passed only if the validator's line names them.
    """
    response = context.scratch(".response.txt")
    values = {
        "GOAL_RUN_ID": context.run_id,
        "GOAL_ITERATION": str(context.iteration),
        "GOAL_OBJECTIVE": _fitting(context.objective),
        "GOAL_RESPONSE_FILE": str(response),
    }
    passed: dict[str, str] = {name: values[name] for name in passed_variables(spec)}
    shared = (response,) if "GOAL_RESPONSE_FILE" in passed else ()
    try:
        for path in shared:
            path.write_bytes(context.response.encode(errors="replace"))
        line = spec.run or ""
        inherited = {name: value for name, value in env.items() if name not in _SETTINGS or name in line}
        yield {**inherited, **spec.env, **passed}, shared
    finally:
        response.unlink(missing_ok=True)


def folder(spec: ValidatorSpec, context: ValidationContext) -> tuple[Path, str]:
    """Where it runs, and what is wrong with that ("" when nothing is)."""
    workspace = Path(os.path.realpath(context.workspace))
    path = Path(os.path.realpath(workspace / spec.cwd))
    if not path.is_relative_to(workspace):
        return path, f'cwd "{spec.cwd}" leads out of the workspace {workspace}'
    if not path.is_dir():
        return path, f"the folder {path} does not exist"
    return path, ""


def _fitting(text: str) -> str:
    """As much as an environment variable takes: no NUL, bounded, cut between characters."""
    data = text.replace("\0", " ").encode(errors="replace")[:LONGEST_OBJECTIVE]
    return data.decode(errors="ignore")


_LONGEST = 40


def name_of(spec: ValidatorSpec) -> str:
    """Return its name, or one made from what it runs: `pytest -q` is "pytest", `checks:covers` is "covers"."""
    if spec.name:
        return spec.name
    if spec.python is not None:
        return (spec.python.rpartition(":")[2] or spec.python)[:_LONGEST]
    return label(spec.run or "")[:_LONGEST] or "check"


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


class SpecValidator:
    """What all validators of a goal file share. `env` is the whole environment without the providers' keys."""

    def __init__(self, spec: ValidatorSpec, launcher: Launcher, env: Mapping[str, str]) -> None:
        self._spec = spec
        self._launcher = launcher
        self._env = dict(env)

    @property
    def name(self) -> str:
        """The spec's name, or one made from the command or the function."""
        return name_of(self._spec)

    @property
    def command(self) -> str:
        """The command line, or `package.module:function`."""
        return self._spec.run or self._spec.python or ""

    @property
    def serial(self) -> bool:
        """Whether it must never run beside another."""
        return self._spec.serial

    @property
    def hidden(self) -> bool:
        """Whether it runs only once the visible validators are green."""
        return self._spec.hidden
