"""A recorded run as a file: what its agent did, and what its judge answered."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from goalrunner.core.errors import RecordError, UsageError, one_line
from goalrunner.core.events import (
    ChecksReviewed,
    ConfirmationRecorded,
    CriticRule,
    Critique,
    VerdictRecorded,
)
from goalrunner.core.field_types import Frozen
from goalrunner.core.outcome import GoalStatus, StopReason, Usage

_AGAIN = "write it again: goal export RUN --recording -o FILE"
LARGEST = 20_000_000
"""Bytes of a recording. A larger one does not belong into a repository."""


# The fields `type` and `format` have no default, because defaults are not written.


class FileContent(Frozen):
    """A file of the workspace: its text, or its bytes in base64."""

    text: str | None = None
    base64: str | None = None
    executable: bool = False
    link: bool = False
    """Whether the text is the target of a symbolic link."""

    @classmethod
    def of(cls, data: bytes, mode: str, redact: Callable[[str], str]) -> FileContent:
        """Return the content of a file with its mode in git's form."""
        kind: dict[str, Any] = {
            "executable": mode == "100755",
            "link": mode == "120000",
        }
        try:
            return cls(text=redact(data.decode()), **kind)
        except UnicodeDecodeError:
            return cls(base64=base64.b64encode(data).decode(), **kind)

    def write(self, folder: Path, name: str) -> None:
        """Write the file in a folder, in place of whatever has its path there."""
        path = contained_path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or path.exists():
            path.unlink()
        if self.link:
            path.symlink_to(self.text or "")
            return
        data = (self.text or "").encode()
        if self.base64 is not None:
            data = base64.b64decode(self.base64)
        path.write_bytes(data)
        path.chmod(0o755 if self.executable else 0o644)


def contained_path(folder: Path, name: str) -> Path:
    """Return a path in a folder. Raise RecordError if it leads out of the folder.

    A recording comes from a repository, where anyone may have edited it.
    """
    path = folder / name
    if ".." in path.parts or not path.parent.resolve().is_relative_to(folder.resolve()):
        raise RecordError(
            f"the recording has the file {name}, which is outside of its workspace",
            _AGAIN,
        )
    return path


class FilesChanged(Frozen):
    """Files got another content, or were deleted."""

    type: Literal["files"]
    files: dict[str, FileContent] = Field(default={})
    deleted: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The first path."""
        return next(iter((*self.files, *self.deleted)))

    def each(self) -> Iterator[FilesChanged]:
        """Yield the change of each file by itself."""
        for path, content in self.files.items():
            yield FilesChanged(type="files", files={path: content})
        for path in self.deleted:
            yield FilesChanged(type="files", deleted=(path,))

    def perform(self, folder: Path) -> None:
        """Change the files in a folder in the same way."""
        for path in self.deleted:
            contained_path(folder, path).unlink(missing_ok=True)
        for path, content in self.files.items():
            content.write(folder, path)


class CallBegun(Frozen):
    """A tool was called."""

    type: Literal["call"]
    id: str
    tool: str
    summary: str


class ResultRecorded(Frozen):
    """A tool returned a result, which was the observation of this id."""

    type: Literal["result"]
    observation: str
    id: str
    tool: str
    command: str
    facts: tuple[str, ...] = ()
    output: str = ""
    summary: str = ""
    duration: float = 0.0
    path: str | None = None
    writes: bool = True
    has_start: bool = True
    """Whether it is known when the tool was started."""
    reported_by: str = ""
    is_block: bool = False
    """Whether the agent said by it that it cannot continue."""


class MessageAdded(Frozen):
    """The agent, or a tool, wrote a message (OpenAI's format)."""

    type: Literal["message"]
    message: dict[str, Any]


class UserWrote(Frozen):
    """A person wrote to the agent."""

    type: Literal["user"]
    text: str


class UsageAdded(Frozen):
    """Calls of the agent's model were counted."""

    type: Literal["usage"]
    usage: Usage


RecordedStep = Annotated[
    FilesChanged | CallBegun | ResultRecorded | MessageAdded | UserWrote | UsageAdded,
    Field(discriminator="type"),
]
"""What the agent did, in the order in which it counts for freshness."""


class RecordedTurn(Frozen):
    """One turn of the agent."""

    round: int
    steps: tuple[RecordedStep, ...] = ()
    text: str = ""
    """The last message."""
    reason: Literal["answered", "max_steps", "interrupted"] = "answered"
    ending: str = ""
    failure: StopReason | None = None
    """How the turn ended the run, if it did."""
    message: str = ""
    """The error of that end."""


class OtherObservation(Frozen):
    """An observation that the runner makes itself: a validator, or the response."""

    id: str
    source: str
    round: int


class RecordedApproval(Frozen):
    """A decision of a person about a result or about changed checks."""

    approved: bool
    reason: str = ""


class Recording(Frozen):
    """Everything that a replay of a run needs."""

    format: Literal["goalrunner recording 1"]
    run_id: str
    status: GoalStatus
    stop_reason: StopReason
    workspace: str = Field(default="", exclude=True)
    """Its path on this machine; not written."""
    goal: str
    """A goal file, without secrets, models, programs and paths."""
    has_judge: bool = False
    callables: tuple[str, ...] = ()
    """Parts that only the program of the run can make: "validators"."""
    start: dict[str, FileContent] = Field(default={})
    """The workspace at the start."""
    left_out: tuple[str, ...] = ()
    """Paths whose content was not in the snapshots."""
    turns: tuple[RecordedTurn, ...] = ()
    verdicts: tuple[VerdictRecorded, ...] = ()
    opinions: tuple[ConfirmationRecorded, ...] = ()
    reviews: tuple[ChecksReviewed, ...] = ()
    critic: CriticRule | None = None
    critiques: tuple[Critique, ...] = ()
    approvals: tuple[RecordedApproval, ...] = ()
    answers: tuple[str, ...] = ()
    """What a person answered to questions of the judge."""
    observations: tuple[OtherObservation, ...] = ()

    @property
    def rounds(self) -> int:
        """How many rounds were checked, at least 1."""
        checked = [turn for turn in self.turns if turn.failure is None]
        return max(len(checked), 1)

    @property
    def text(self) -> str:
        """The recording as JSON.

        It has `/workspace` and `/home/user` for paths of this machine. Raise UsageError
        if it is too large.
        """
        table = self.model_dump(mode="json", exclude_defaults=True)
        text = f"{json.dumps(table, ensure_ascii=False, indent=1)}\n"
        home = os.path.expanduser("~")  # noqa: PTH111
        for path, name in ((self.workspace, "/workspace"), (home, "/home/user")):
            if len(path) > 1:
                text = re.sub(rf"{re.escape(path)}(?![\w.-])", name, text)
        if len(text) > LARGEST:
            raise UsageError(
                f"the recording of run {self.run_id} has {len(text):,} bytes; at most "
                f"{LARGEST:,} are written",
                "pass the id of the run to replay() on this machine instead",
            )
        return text


def load_recording(file: Path) -> Recording:
    """Return the recording in a file. Raise RecordError if it is damaged."""
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        return Recording.model_validate(table)
    except (OSError, ValueError) as error:
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "file"
            reason = f"{where}: {first['msg']}"
        else:
            reason = str(error)
        raise RecordError(
            f"{file} is not a recording of a run: {one_line(reason)}", _AGAIN
        ) from error
