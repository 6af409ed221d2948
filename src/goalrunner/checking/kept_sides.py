"""The results on the sides of the last green check, kept in the run's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Self

from goalrunner.checking.base_results import KeptResult
from goalrunner.checking.sides import Side
from goalrunner.core.field_types import Frozen
from goalrunner.core.verdict import ValidatorResult
from goalrunner.records.run_folder import read_json, write_json


class KeptSides(Frozen):
    """What single tests showed on each side that ran.

    The log has the results without the ids of tests.
    """

    tree: str
    """Of the snapshot that was checked."""
    sides: dict[Side, tuple[KeptResult, ...]]
    """A side that did not run, and differs from those that did, is missing."""
    lacking: tuple[str, ...] | None = None
    """The validators that name files which the start does not have; None: unknown."""

    @classmethod
    def of(
        cls,
        tree: str,
        sides: Mapping[Side, Iterable[ValidatorResult]],
        redact: Callable[[str], str],
    ) -> Self:
        """Return them as they are written; `redact` replaces secrets."""
        kept: dict[Side, tuple[KeptResult, ...]] = {}
        for side, results in sides.items():
            kept[side] = tuple(KeptResult.of(result, redact) for result in results)
        return cls(tree=tree, sides=kept)

    def write(self, path: Path) -> None:
        """Write them to a file. Raise RecordError."""
        write_json(path, self.model_dump(mode="json"))

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Return what is in a file; None without one.

        Raise RecordError if it is damaged.
        """
        kept = read_json(path, cls)
        return kept if isinstance(kept, cls) else None
