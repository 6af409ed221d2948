"""The results of validators at the baseline, kept in the run's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from goalrunner.core.verdict import CollectedTests, ValidatorResult
from goalrunner.records.run_folder import read_json, write_json


class KeptResult(ValidatorResult):
    """A result with its tests, which the log leaves out."""

    tests: CollectedTests | None = None

    @classmethod
    def of(cls, result: ValidatorResult, redact: Callable[[str], str]) -> Self:
        """Return a result as it is written; `redact` replaces secrets in it."""
        names = ("feedback", "command", "summary")
        texts = {name: redact(getattr(result, name)) for name in names}
        return cls(**{**dict(result), **texts})


class BaseResults:
    """The validators' results at the baseline, by name.

    A resumed run reads them from the file `path`.
    """

    def __init__(self, path: Path | None, redact: Callable[[str], str] = str) -> None:
        """`redact` replaces secrets in what is written.

        Raise RecordError if the file is damaged.
        """
        self._path = path
        self._redact = redact
        self.results: dict[str, ValidatorResult] = {}
        if path is not None:
            self.results.update(read_json(path, dict[str, KeptResult]) or {})

    def keep(self, results: Iterable[ValidatorResult]) -> None:
        """Take these as the results of the baseline.

        Raise RecordError if they cannot be written.
        """
        self.results = {result.name: result for result in results}
        if self._path is None:
            return
        written = {
            name: KeptResult.of(result, self._redact).model_dump(mode="json")
            for name, result in self.results.items()
        }
        write_json(self._path, written)
