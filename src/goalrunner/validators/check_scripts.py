"""The scripts that validators name, as they were at the start of a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from goalrunner.errors import WorkspaceError
from goalrunner.model.goal import ValidatorSpec
from goalrunner.validators.scripts import named_paths
from goalrunner.wholefile import write_whole


def check_scripts_at_start(specs: Sequence[ValidatorSpec], workspace: Path, record: Path) -> dict[str, str]:
    """Return workspace-relative paths of scripts, each with the reason why it belongs to a check.

    They are looked up once, before the agent works, and kept in the file `record` for a run that is resumed. Raise
    WorkspaceError if that file is damaged or cannot be written.
    """
    try:
        rows = json.loads(record.read_text("utf-8"))
        return _reasons([[str(path) for path in row] for row in rows], specs)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, TypeError) as error:
        raise WorkspaceError(f"{record} is damaged: {error}", "start a new run: goal run GOAL_FILE") from error
    found = [list(named_paths(spec, workspace)) for spec in specs]
    try:
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Paths alone: the name of a validator may be its command line, which may hold a secret.
        write_whole(record, json.dumps(found).encode())
    except OSError as error:
        raise WorkspaceError(f"cannot write {record}: {error.strerror or error}", "free some space") from error
    return _reasons(found, specs)


def _reasons(rows: Sequence[Sequence[str]], specs: Sequence[ValidatorSpec]) -> dict[str, str]:
    """Raise ValueError if there is not one row for each validator."""
    return {path: f'named by validator "{spec.name}"' for row, spec in zip(rows, specs, strict=True) for path in row}
