"""The results of validators at the baseline, whether the environment may be why one is red, and records of the start."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from goalrunner.checking.protection import BEFORE, COMPARED
from goalrunner.core.errors import RecordError
from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.verdict import ValidatorResult
from goalrunner.records.files import write_whole
from goalrunner.validators.check_files import check_files, named_paths, text_of
from goalrunner.validators.runners import PYTEST_NO_TESTS, PYTEST_USAGE
from goalrunner.validators.spec_validator import variables_named

_ENVIRONMENTAL = re.compile(
    r"ModuleNotFoundError|ImportError|No module named|Cannot find module|ERR_MODULE_NOT_FOUND|not found|No such file"
    r"|error while loading shared libraries|collected 0 items|no tests ran|Interrupted: \d+ error",
    re.IGNORECASE,
)
"""What a check prints that misses something in its environment, rather than finding a fault in the work."""
_NO_SPACE = re.compile(r"ENOSPC|No space left on device|Disk quota exceeded", re.IGNORECASE)
_BY_KERNEL = re.compile(
    rf"EXDEV|cross-device link|{_NO_SPACE.pattern}|Operation not permitted|unshare\b.*failed|Read-only file system",
    re.IGNORECASE,
)
"""What the kernel refuses in the check environment and may allow outside of it."""
_FREE_BYTES = 1_000_000
_PYTEST_ERRORS = (2, PYTEST_USAGE, PYTEST_NO_TESTS)


def is_environmental(result: ValidatorResult, *, incomplete: bool) -> bool:
    """Return whether a red result may be the fault of the environment: a missing program or module, or no tests.

    With `incomplete`, something of the workspace is not there, so what a program prints about missing files counts too.
    """
    if result.exit_code in (126, 127) or result.reason == "not_found" or result.cannot_run:
        return True
    if result.exit_code in _PYTEST_ERRORS and "pytest" in result.command:
        return True
    patterns = (_BY_KERNEL, _ENVIRONMENTAL) if incomplete else (_BY_KERNEL,)
    return any(pattern.search(result.feedback) for pattern in patterns)


def without_space(results: Iterable[ValidatorResult], folder: Path) -> str:
    """Return why validators failed if one reports that the disk is full and nothing can be written in a folder; else ""."""
    if not any(not result.passed and _NO_SPACE.search(result.feedback) for result in results):
        return ""
    return f"no space left in {folder}" if shutil.disk_usage(folder).free < _FREE_BYTES else ""


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
        """The Python files whose test functions ran at the baseline, as far as reports tell; doctests are in sources."""
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


def check_scripts_at_start(specs: Sequence[ValidatorSpec], workspace: Path, record: Path) -> dict[str, str]:
    """Return workspace-relative paths, each with the reason why it belongs to a check.

    They are looked up once, before the agent works, and kept in the file `record` for a run that is resumed. Raise
    RecordError if that file is damaged or cannot be written.
    """
    # Paths alone: the name of a validator may be its command line, which may hold a secret.
    rows = _recorded(record, len(specs), lambda: [check_files(spec, workspace) for spec in specs], dict[str, str])
    found: dict[str, tuple[str, str]] = {}
    for row, spec in zip(rows, specs, strict=True):
        for path, role in row.items():
            # Another validator may be stricter with a path that this one only compares.
            if role != "compared" or found.get(path, ("",))[0] not in ("named", "started"):
                found[path] = role, f'{_RULES[role]} "{spec.name}"'
    return {path: rule for path, (_, rule) in found.items()}


def with_variables(
    specs: Sequence[ValidatorSpec], workspace: Path, record: Path | None = None
) -> tuple[ValidatorSpec, ...]:
    """Return the validators, with the variables of the run that their scripts name in `pass_env`.

    The scripts are read once, before the agent works; what they name is kept in the file `record`. Raise RecordError
    like `check_scripts_at_start`.
    """

    def find() -> list[tuple[str, ...]]:
        texts = ["\n".join(text_of(workspace / path) for path in named_paths(spec, workspace)) for spec in specs]
        return [variables_named(text) for text in texts]

    rows = find() if record is None else _recorded(record, len(specs), find, tuple[str, ...])
    return tuple(
        spec.model_copy(update={"pass_env": tuple(dict.fromkeys((*spec.pass_env, *row)))}) if row else spec
        for spec, row in zip(specs, rows, strict=True)
    )


def _recorded(record: Path, number: int, find: Callable[[], Any], row: Any) -> Any:
    """Return the rows that `record` holds, one for each validator; if it does not exist, find and write them."""
    if (known := _read(record, list[row])) is not None:
        if len(known) != number:
            raise _damaged(record)
        return known
    found = find()
    _write(record, found)
    return found


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
