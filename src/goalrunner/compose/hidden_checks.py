"""Whether an agent can read the hidden validators of its goal."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from goalrunner.model.goal import Goal
from goalrunner.validators.scripts import named_paths
from goalrunner.workspace.git import ask_git

HIDDEN_READABLE = "hidden checks readable"
"""Label of a run whose agent could read the hidden validators."""

_PATIENCE = 10.0


def secret_goal_file(goal: Goal, goal_file: Path | None) -> Path | None:
    """Return the goal file that commands in a sandbox must not read, without links; None if there is no such file.

    Nothing is gained for a file whose content the repository holds, and a validator that names it in its line needs it.
    """
    if goal_file is None or not any(spec.hidden for spec in goal.validators):
        return None
    path = Path(os.path.realpath(goal_file))
    if not path.is_file() or any(path.name in (spec.run or "") for spec in goal.validators):
        return None
    return None if _is_in_repository(path) else path


def _is_in_repository(path: Path) -> bool:
    ask = partial(ask_git, path.parent, environ=os.environ, timeout=_PATIENCE)
    try:
        code, digest, _ = ask("hash-object", "--stdin", stdin=path.read_bytes())
    except OSError:
        return False
    return code == 0 and ask("cat-file", "-e", digest.decode().strip())[0] == 0


def hidden_labels(goal: Goal, workspace: Path, secret: Path | None, *, jailed: bool) -> tuple[str, ...]:
    """Return the label if the goal file, or a script that a hidden validator names, is in view of the agent."""
    hidden = [spec for spec in goal.validators if spec.hidden]
    if not hidden or (jailed and secret is not None and not any(named_paths(spec, workspace) for spec in hidden)):
        return ()
    return (HIDDEN_READABLE,)
