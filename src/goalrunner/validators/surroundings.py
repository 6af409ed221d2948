"""The folder and the environment variables of a validator."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from goalrunner.model.goal import RunVariable, ValidatorSpec
from goalrunner.ports import ValidationContext

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
