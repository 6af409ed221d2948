"""What the validators said of the start of a run, kept for as long as the run may go on. Owns that file alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from goalrunner.errors import RecordError
from goalrunner.model.validation import ValidatorResult
from goalrunner.wholefile import write_whole


class BaseResults:
    """By name. With a `path` they are found there again by a run that is resumed."""

    def __init__(self, path: Path | None, redact: Callable[[str], str] = str) -> None:
        """`redact` replaces secrets in what is written."""
        self._path = path
        self._redact = redact
        self._results: dict[str, ValidatorResult] | None = None

    @property
    def known(self) -> bool:
        """Whether any were kept. Raises RecordError for a damaged file."""
        if self._results is None:
            self._results = self._read()
        return bool(self._results)

    @property
    def files(self) -> frozenset[str]:
        """Return the files whose test functions ran at the start, as far as reports tell; doctests are in the sources.

        Raise RecordError if the file is damaged.
        """
        if self._results is None:
            self._results = self._read()
        ids = (identifier for result in self._results.values() for identifier in result.test_ids)
        files = (identifier.partition("::")[0] for identifier in ids if "::test" in identifier.lower())
        # Sources of Rust hold unit tests beside the code.
        return frozenset(path for path in files if path.endswith(".py"))

    def keep(self, results: Iterable[ValidatorResult]) -> None:
        """These are what the start is like. Raises RecordError when they cannot be written."""
        self._results = {result.name: result for result in results}
        if self._path is None:
            return
        text = json.dumps({name: self._written(result) for name, result in self._results.items()})
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._path, text.encode())
        except OSError as error:
            raise RecordError(f"cannot write {self._path}: {error.strerror}", "free some space") from error

    def _written(self, result: ValidatorResult) -> dict[str, object]:
        said = {name: self._redact(getattr(result, name)) for name in ("feedback", "command", "summary")}
        return result.model_copy(update=said).model_dump(mode="json")

    def of(self, name: str) -> ValidatorResult | None:
        """One validator's result at the start; None where none is known. Raises RecordError for a damaged file."""
        if self._results is None:
            self._results = self._read()
        return self._results.get(name)

    def _read(self) -> dict[str, ValidatorResult]:
        if self._path is None or not self._path.exists():
            return {}
        try:
            kept = json.loads(self._path.read_bytes())
            return {name: ValidatorResult.model_validate(value) for name, value in kept.items()}
        except (OSError, ValueError, AttributeError) as error:
            raise RecordError(f"{self._path} is damaged: {error}", "start a new run: goal run GOAL_FILE") from error
