"""What a check finds around it: its folder and its environment. Owns both; starts nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from goalrunner.model.goal import ValidatorSpec
from goalrunner.ports import ValidationContext

RESPONSE_FILE = "GOAL_RESPONSE_FILE"
"""The variable that names the file with the response."""

LONGEST_OBJECTIVE = 100_000
"""Bytes of GOAL_OBJECTIVE; an environment string holds 128 KiB at most."""


@contextmanager
def environment(env: Mapping[str, str], spec: ValidatorSpec, context: ValidationContext) -> Iterator[dict[str, str]]:
    """The environment handed in, what the goal adds, and the run's own four variables, which always win.

    The file that GOAL_RESPONSE_FILE names is there within the `with` block.
    """
    response = context.scratch(".response.txt")
    try:
        response.write_bytes(context.response.encode(errors="replace"))
        yield {
            **env,
            **spec.env,
            "GOAL_RUN_ID": context.run_id,
            "GOAL_ITERATION": str(context.iteration),
            "GOAL_OBJECTIVE": _fitting(context.objective),
            RESPONSE_FILE: str(response),
        }
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
