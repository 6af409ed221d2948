"""The results of validators at the baseline, whether the environment may be why one is red, and records of the start."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from goalrunner.checking.protection import BEFORE, COMPARED
from goalrunner.core.errors import RecordError
from goalrunner.core.goal_tables import RunVariable, ValidatorSpec
from goalrunner.core.verdict import ValidatorResult
from goalrunner.records.files import write_whole
from goalrunner.validators.check_files import Role, check_files, named_paths, text_of
from goalrunner.validators.spec_validator import variables_named


class BaseResults:
    """The validators' results at the baseline, by name. A resumed run reads them from the file `path`."""

    def __init__(self, path: Path | None, redact: Callable[[str], str] = str) -> None:
        """`redact` replaces secrets in what is written."""
        self._path = path
        self._redact = redact

    @cached_property
    def _results(self) -> dict[str, ValidatorResult]:
        return (self._path and _read(self._path, dict[str, ValidatorResult])) or {}

    @property
    def known(self) -> bool:
        """Whether there are any. Raise RecordError if the file is damaged."""
        return bool(self._results)

    @property
    def files(self) -> frozenset[str]:
        """The Python files whose test functions ran at the baseline, by the reports. Doctests, in sources, do not count."""
        ids = (identifier for result in self._results.values() for identifier in result.test_ids)
        files = (identifier.partition("::")[0] for identifier in ids if "::test" in identifier.lower())
        return frozenset(path for path in files if path.endswith(".py"))

    def of(self, name: str) -> ValidatorResult | None:
        """Return one validator's result; None if it is not known. Raise RecordError if the file is damaged."""
        return self._results.get(name)

    def keep(self, results: Iterable[ValidatorResult]) -> None:
        """Take these as the results of the baseline. Raise RecordError if they cannot be written."""
        self._results = {result.name: result for result in results}
        written = {}
        for name, result in self._results.items():
            texts = {key: self._redact(getattr(result, key)) for key in ("feedback", "command", "summary")}
            written[name] = result.model_copy(update=texts).model_dump(mode="json")
        if self._path is not None:
            _write(self._path, written)


_RULES: Mapping[str, str] = {
    "before": BEFORE,
    "compared": COMPARED,
    "started": "started by a script of validator",
    "named": "named by validator",
}


_Row = tuple[tuple[RunVariable, ...], dict[str, Role]]
"""What a validator's scripts name, and the files that make up its check."""


def scripts_at_start(
    specs: Sequence[ValidatorSpec], workspace: Path, record: Path | None = None
) -> tuple[tuple[ValidatorSpec, ...], dict[str, str]]:
    """Return the validators with the variables that their scripts name in `pass_env`, and the paths that belong to checks.

    The paths are relative to the workspace; their values are the reasons. The scripts are read once, before the agent
    works, and kept in the file `record` for a resumed run. Raise RecordError if that file is damaged or cannot be written.
    """
    # Paths alone are kept: the name of a validator may be its command line, which may hold a secret.
    rows: list[_Row] | None = None if record is None else _read(record, list[_Row])
    if rows is None:
        rows = [_look(spec, workspace) for spec in specs]
        if record is not None:
            _write(record, rows)
    if record is not None and len(rows) != len(specs):
        raise _damaged(record)
    found: dict[str, tuple[str, str]] = {}
    for (_, roles), spec in zip(rows, specs, strict=True):
        for path, role in roles.items():
            # Another validator may be stricter with a path that this one only compares.
            if role != "compared" or found.get(path, ("",))[0] not in ("named", "started"):
                found[path] = role, f'{_RULES[role]} "{spec.name}"'
    passed = [tuple(dict.fromkeys((*spec.pass_env, *row[0]))) for row, spec in zip(rows, specs, strict=True)]
    known = tuple(spec.model_copy(update={"pass_env": names}) for spec, names in zip(specs, passed, strict=True))
    return known, {path: rule for path, (_, rule) in found.items()}


def _look(spec: ValidatorSpec, workspace: Path) -> _Row:
    texts = "\n".join(text_of(workspace / path) for path in named_paths(spec, workspace))
    return variables_named(texts), check_files(spec, workspace)


def _read(path: Path, kind: Any) -> Any:
    """Return what a file of the start holds; None if it does not exist. Raise RecordError."""
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise _damaged(path) from error


def _write(path: Path, value: object) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, json.dumps(value).encode())
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror or error}", "free some space") from error


def _damaged(path: Path) -> RecordError:
    message = f"the run was made by another version of goal, or {path} is damaged"
    return RecordError(message, "start a new run: goal run GOAL_FILE")
