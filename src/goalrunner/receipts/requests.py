"""What a receipt is to be about: from options, or from an earlier receipt."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from goalrunner.cli import goals, output
from goalrunner.copies.run_copy import RunCopy
from goalrunner.core.errors import UsageError
from goalrunner.receipts.receipt_goal import RECEIPT_OBJECTIVE
from goalrunner.receipts.revisions import Revisions
from goalrunner.receipts.statement import Predicate, RequiredProof
from goalrunner.records.run_folder import write_json
from goalrunner.reports.short_forms import SHORT_ID
from goalrunner.reports.terminal_text import printable_line

_REQUEST = "receipt.json"
_LONGEST_TEXT = 200_000
"""Bytes of a file with an objective."""


@dataclass(frozen=True)
class RequestedChange:
    """The change that a command line names."""

    base: str | None
    head: str | None
    results: Sequence[Path] = ()
    """The files into which the result is written."""

    def results_in(self, root: Path) -> list[str]:
        """Return the results that lie in a repository, relative to it."""
        relative: list[str] = []
        for path in self.results:
            real = Path(os.path.realpath(path))
            if real.is_relative_to(root):
                relative.append(os.path.relpath(real, root))
        return relative


@dataclass(frozen=True)
class ReceiptRequest:
    """What the process in the copy is to verify."""

    root: str
    """The repository, outside of the copy."""
    workspace: str
    base: str
    """The commit."""
    head: str
    """The commit; empty: the files of the work tree."""
    goal_file: str = ""
    """Absolute; empty: there is none."""
    looks_for_goal: bool = False
    """Whether no file was named, so that the base has another one perhaps."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What options say of the goal, by dotted key."""
    required_proof: RequiredProof = ""
    results: Sequence[str] = ()
    """Files of the result, relative to the repository: they belong to no change."""

    @classmethod
    def of_options(
        cls,
        change: RequestedChange,
        goal_file: str | None,
        settings: Mapping[str, Any],
        required_proof: RequiredProof,
    ) -> ReceiptRequest:
        """Return the request of a command line. Raise UsageError."""
        folder = Path(os.path.realpath(Path.cwd()))
        revisions = Revisions(folder, os.environ)
        root = Path(os.path.realpath(revisions.root))
        results = change.results_in(root)
        pair = revisions.change(change.base, change.head, results)
        for note in pair.notes:
            # A file of the change can have any name.
            output.complain(f"Note: {printable_line(note)}")
        if goal_file is not None and "objective" in settings:
            raise UsageError(
                "a goal file has its own objective", "remove --objective-from"
            )
        # The text of a pull request replaces the goal file of the project.
        looks_for_goal = goal_file is None and "objective" not in settings
        file = ""
        if goal_file is not None:
            file = _path_in(root, folder / goal_file)
        elif looks_for_goal:
            file = _project_goal_file(folder)
        return cls(
            root=str(root),
            workspace=str(folder),
            base=pair.base,
            head=pair.head,
            goal_file=file,
            looks_for_goal=looks_for_goal,
            settings={key: value for key, value in settings.items() if value},
            required_proof=required_proof,
            results=results,
        )

    @classmethod
    def of_receipt(cls, predicate: Predicate, head: str) -> ReceiptRequest:
        """Return the request that leads to the same receipt.

        `head` names the commit that has its files here. Raise UsageError if base or
        head is not here, or if the receipt does not have its goal.
        """
        goal, base = predicate.goal, predicate.base.commit
        is_own = "objective" in goal.options or goal.objective == RECEIPT_OBJECTIVE
        if not goal.file and not is_own:
            raise UsageError(
                "the goal of this run was given by options, or by a file outside of the"
                " repository; the receipt has only its digest, so it cannot be checked"
                " again",
                f"verify the commit with its own receipt: goal receipt --base "
                f'{base[:SHORT_ID]} --validator "CMD"',
            )
        revisions = Revisions(Path.cwd(), os.environ)
        root = Path(os.path.realpath(revisions.root))
        file = os.path.normpath(root / goal.file) if goal.file else ""
        return cls(
            root=str(root),
            workspace=os.path.normpath(root / goal.workspace),
            base=revisions.commit(base),
            head=revisions.commit(head),
            goal_file=file,
            settings=goal.options,
            required_proof=predicate.required_proof,
        )

    def write(self, copy: RunCopy) -> None:
        """Write the request into the folder of a copy."""
        write_json(copy.folder / _REQUEST, asdict(self))

    @classmethod
    def read(cls, copy: RunCopy) -> ReceiptRequest:
        """Return the request in the folder of a copy."""
        # Tuples are lists in JSON, which makes no difference here.
        return cls(**json.loads((copy.folder / _REQUEST).read_bytes()))


def _path_in(root: Path, path: Path) -> str:
    """Return a path that follows no link below the repository.

    The change could make the goal file, or its folder, a link to an easier one.
    """
    name = Path(os.path.normpath(path))
    for folder in name.parents:
        if os.path.realpath(folder) == str(root):
            return str(root / name.relative_to(folder))
    return os.path.realpath(path)


def _project_goal_file(folder: Path) -> str:
    """Return the goal file of the project, absolute; empty if there is none.

    Links are not followed: one in the change could lead to another goal.
    """
    project_file = goals.of_folder()
    if project_file is None:
        return ""
    return os.path.normpath(folder / project_file)


def objective_in(path: Path) -> str:
    """Return the objective in a file. Raise UsageError."""
    try:
        # The judge gets it whole, and a log that was pasted would leave no room.
        text = path.read_bytes()[:_LONGEST_TEXT].decode(errors="replace").strip()
    except OSError as error:
        raise UsageError(
            f"--objective-from {path}: {error.strerror}", "name a file"
        ) from error
    if not text:
        raise UsageError(f"--objective-from {path} is empty", "write the objective")
    return text
