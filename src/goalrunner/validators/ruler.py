"""What of the workspace the checks are made of, as it was at the start. Owns that memory; judges no change.

A check is named by words, and which files these are shows in the workspace alone. Once an agent has worked there, nothing
may be looked up anew: a script that it deleted would be none of the checks', and one that it writes next would be theirs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.errors import WorkspaceError
from goalrunner.model.goal import ValidatorSpec
from goalrunner.validators.lookup import named_programs
from goalrunner.validators.scripts import module_roots, named_paths
from goalrunner.wholefile import write_whole


@dataclass(frozen=True)
class Ruler:
    """Paths are relative to the workspace. `scripts` and `programs` map each to the reason why it is the checks'; `roots`
    are the folders that Python puts first for the modules that they name.
    """

    scripts: Mapping[str, str]
    programs: Mapping[str, str]
    roots: frozenset[str]


def ruler_at_start(specs: Sequence[ValidatorSpec], env: Mapping[str, str], workspace: Path, record: Path) -> Ruler:
    """As it was when `record` was written, which a resumed run finds; as it is now where nobody wrote it.

    Raises WorkspaceError where that file is damaged, or cannot be written.
    """
    try:
        return _ruler(json.loads(record.read_text("utf-8")), specs)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WorkspaceError(
            f"{record} is damaged: it said what the checks were made of at the start", "start a new run"
        ) from error
    found = [
        {
            "scripts": named_paths(spec, workspace),
            "programs": named_programs(spec, env, workspace),
            "roots": sorted(module_roots(spec, workspace)),
        }
        for spec in specs
    ]
    try:
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Paths alone: the name of a validator may be its whole line, and a secret may stand in that.
        write_whole(record, json.dumps(found).encode())
    except OSError as error:
        raise WorkspaceError(f"cannot write {record}: {error.strerror or error}", "free some space") from error
    return _ruler(found, specs)


def _ruler(found: Any, specs: Sequence[ValidatorSpec]) -> Ruler:
    """`found` has a row for each validator. Raises ValueError, KeyError or TypeError for anything else."""
    rows = list(zip(found, specs, strict=True))
    return Ruler(
        {str(path): f'named by validator "{spec.name}"' for row, spec in rows for path in row["scripts"]},
        {str(path): f'starts validator "{spec.name}"' for row, spec in rows for path in row["programs"]},
        frozenset(str(root) for row, _ in rows for root in row["roots"]),
    )
