"""Decisions of people at other terminals that the log of a run does not have yet.

There is a file for each. Only the process that holds the lock of the log takes them
over: it records a decision first, and then removes its file. So a decision is in a file
or in the log, whenever a process is killed.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from goalrunner.core.errors import record_errors
from goalrunner.core.field_types import Frozen
from goalrunner.records.files import open_regular, sync_folder, write_whole

_LOGGER = logging.getLogger("goalrunner")
# Bytes of a file that are read; a larger one is no decision.
_LARGEST = 1 << 20
_SUFFIX = ".json"


class GivenApproval(Frozen):
    """A decision on an approval."""

    kind: Literal["approval"] = "approval"
    approval_id: str
    decision: Literal["approved", "denied"]
    by: str
    reason: str = ""


class GivenAnswer(Frozen):
    """An answer to an open question."""

    kind: Literal["answer"] = "answer"
    question: str
    text: str
    by: str


class GivenNote(Frozen):
    """A note to the agent."""

    kind: Literal["note"] = "note"
    note_id: str
    text: str
    by: str


GivenDecision = GivenApproval | GivenAnswer | GivenNote
_DECISION: TypeAdapter[GivenDecision] = TypeAdapter(
    Annotated[GivenDecision, Field(discriminator="kind")]
)


class DecisionFiles:
    """The decision files in a folder, which need not exist."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def give(self, decision: GivenDecision) -> Path:
        """Write a decision, durably, and return its file. Raise RecordError."""
        # The names sort by time; the random part tells two terminals apart.
        name = f"{time.time_ns():020d}-{os.urandom(4).hex()}{_SUFFIX}"
        path = self._folder / name
        with record_errors(f"cannot write {path}"):
            if not self._folder.is_dir():
                self._folder.mkdir(mode=0o700, exist_ok=True)
                sync_folder(self._folder.parent)
            write_whole(path, decision.model_dump_json().encode())
            sync_folder(self._folder)
        return path

    def pending(self) -> Iterator[tuple[Path, GivenDecision]]:
        """Yield each decision with its file, the oldest first.

        A file that holds none is removed.
        """
        for path in self._paths():
            try:
                handle = open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
                with open(handle, "rb") as file:  # noqa: PTH123 - a handle
                    decision = _DECISION.validate_json(file.read(_LARGEST))
            except FileNotFoundError:
                # Another process has taken it over.
                continue
            except (OSError, ValueError):
                _LOGGER.warning("%s holds no decision and is removed", path)
                self.remove(path)
                continue
            yield path, decision

    def _paths(self) -> list[Path]:
        try:
            paths = list(self._folder.iterdir())
        except OSError:
            return []
        return sorted(path for path in paths if path.suffix == _SUFFIX)

    def remove(self, path: Path) -> None:
        """Remove the file of a decision that is recorded.

        Raise RecordError: it would be taken over again.
        """
        with record_errors(f"cannot remove {path}"):
            path.unlink(missing_ok=True)
