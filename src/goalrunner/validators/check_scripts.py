"""The scripts that validators name, as they were at the start of a run."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from goalrunner.checking.protection import BEFORE, COMPARED
from goalrunner.errors import WorkspaceError
from goalrunner.model.goal import ValidatorSpec
from goalrunner.validators.check_files import check_files
from goalrunner.validators.scripts import named_paths
from goalrunner.validators.surroundings import variables_named
from goalrunner.wholefile import write_whole

_LONGEST_SCRIPT = 4_000_000
_RULES: Mapping[str, str] = {
    "before": BEFORE,
    "compared": COMPARED,
    "started": "started by a script of validator",
    "named": "named by validator",
}
_STRICTER: Mapping[str, tuple[str, ...]] = {"compared": ("named", "started")}
"""Roles that count in place of another one, if two validators name a path."""


def check_scripts_at_start(specs: Sequence[ValidatorSpec], workspace: Path, record: Path) -> dict[str, str]:
    """Return workspace-relative paths, each with the reason why it belongs to a check.

    They are looked up once, before the agent works, and kept in the file `record` for a run that is resumed. Raise
    WorkspaceError if that file is damaged or cannot be written.
    """
    # Paths alone: the name of a validator may be its command line, which may hold a secret.
    rows = _recorded(record, lambda: [_rows(spec, workspace) for spec in specs], len(specs))
    found: dict[str, tuple[str, str]] = {}
    for row, spec in zip(rows, specs, strict=True):
        for role, _, path in (text.partition("\t") for text in row):
            if path not in found or found[path][0] not in _STRICTER.get(role, ()):
                found[path] = role, f'{_RULES[role]} "{spec.name}"'
    return {path: rule for path, (_, rule) in found.items()}


def _rows(spec: ValidatorSpec, workspace: Path) -> list[str]:
    return [f"{role}\t{path}" for path, role in check_files(spec, workspace).items()]


def with_variables(
    specs: Sequence[ValidatorSpec], workspace: Path, record: Path | None = None
) -> tuple[ValidatorSpec, ...]:
    """Return the validators, with the variables of the run that their scripts name in `pass_env`.

    The scripts are read once, before the agent works; what they name is kept in the file `record`. Raise WorkspaceError
    like `check_scripts_at_start`.
    """

    def found() -> list[tuple[str, ...]]:
        return [variables_named(_text(named_paths(spec, workspace), workspace)) for spec in specs]

    rows = found() if record is None else _recorded(record, found, len(specs))
    more = zip(specs, rows, strict=True)
    return tuple(
        spec.model_copy(update={"pass_env": tuple(dict.fromkeys((*spec.pass_env, *row)))}) if row else spec
        for spec, row in more
    )


def _recorded(record: Path, find: Callable[[], Sequence[Sequence[str]]], rows: int) -> list[list[str]]:
    """Return the rows of names that `record` holds; if it does not exist, find and write them."""
    try:
        known = zip(json.loads(record.read_text("utf-8")), range(rows), strict=True)
        return [[str(name) for name in row] for row, _ in known]
    except FileNotFoundError:
        pass
    except (OSError, ValueError, TypeError) as error:
        raise WorkspaceError(f"{record} is damaged: {error}", "start a new run: goal run GOAL_FILE") from error
    found = [list(row) for row in find()]
    try:
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(record, json.dumps(found).encode())
    except OSError as error:
        raise WorkspaceError(f"cannot write {record}: {error.strerror or error}", "free some space") from error
    return found


def _text(paths: Sequence[str], workspace: Path) -> str:
    """Return the content of the files that can be read, up to a size at which none is a script any more."""
    texts = []
    for path in paths:
        with contextlib.suppress(OSError), (workspace / path).open("rb") as file:
            texts.append(file.read(_LONGEST_SCRIPT).decode(errors="replace"))
    return "\n".join(texts)
