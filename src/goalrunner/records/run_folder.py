"""The folder of a run and its files."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.core.errors import (
    RecordError,
    UsageError,
    one_line,
    os_errors,
    record_errors,
)
from goalrunner.records.files import sync_folder, write_whole
from goalrunner.records.removal import remove_whole


def goal_home(environ: Mapping[str, str]) -> Path:
    """Return the folder of all runs.

    It is GOAL_HOME, else `goal` in XDG_STATE_HOME, else ~/.local/state/goal. Raise
    UsageError if there is none, as for a user without a home.
    """
    try:
        configured = environ.get("GOAL_HOME")
        if configured:
            # The method of Path raises an error for an unknown user.
            return Path(os.path.expanduser(configured)).absolute()  # noqa: PTH111
        state = environ.get("XDG_STATE_HOME", "")
        # The specification of XDG says that relative paths are ignored.
        if os.path.isabs(state):  # noqa: PTH117
            return Path(state) / "goal"
        return Path(environ.get("HOME") or Path.home()) / ".local" / "state" / "goal"
    except OSError as error:
        raise _no_home("the current folder does not exist any more") from error
    except RuntimeError as error:
        raise _no_home("you have no home folder") from error


def _no_home(reason: str) -> UsageError:
    return UsageError(
        f"{reason}, so there is no folder for runs",
        "export GOAL_HOME=/a/folder/of/yours",
    )


RUNS = "runs"
"""The folder in GOAL_HOME of the runs."""
CHECKS = "check-runs"
"""The folder of checks outside of a run, whose records are removed at their end."""
COPY_RECORD = "copy.json"
"""The file in the folder of a copy that describes it."""
TRACEBACK = ".traceback.txt"
"""The ending of the file of a defect."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run, and the paths in it; what they name need not exist yet."""

    path: Path

    @classmethod
    def create(cls, home: Path, run_id: str, kind: str = RUNS) -> RunFolder:
        """Make a new, empty folder; `kind` is RUNS or CHECKS.

        Raise UsageError if it exists or cannot be made.
        """
        path = home / kind / run_id
        try:
            for folder in (home, path.parent):
                if not folder.exists():
                    # Each by itself: mkdir sets the mode of the last folder only.
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
            (path / "scratch").mkdir(mode=0o700)
            sync_folder(path.parent)
        except FileExistsError as error:
            raise UsageError(f"{error.filename} exists already") from error
        except OSError as error:
            raise UsageError(
                f"cannot make the run's folder {path}: {error.strerror}",
                "set GOAL_HOME to a folder that can be written",
            ) from error
        return cls(path)

    @property
    def events(self) -> Path:
        """The log."""
        return self.path / "events.jsonl"

    @property
    def transcript(self) -> Path:
        """The messages of the agent and of models."""
        return self.path / "transcript.jsonl"

    @property
    def artifacts(self) -> Path:
        """The folder of whole outputs."""
        return self.path / "artifacts"

    @property
    def goal_file(self) -> Path:
        """The goal as it was at the start."""
        return self.path / "goal.toml"

    @property
    def start(self) -> Path:
        """The folder with the state at the start of the run."""
        return self.path / "start"

    @property
    def sides(self) -> Path:
        """The results of single tests in the last green check."""
        return self.path / "sides.json"

    @property
    def summary(self) -> Path:
        """What `list` and `status` read."""
        return self.path / "summary.json"

    @property
    def outcome(self) -> Path:
        """How the run ended; missing while it runs, also again."""
        return self.path / "outcome.json"

    @property
    def earlier_outcome(self) -> Path:
        """The outcome of a resumed run before, until a new one is written."""
        return self.path / "outcome.earlier.json"

    @property
    def cancellation(self) -> Path:
        """The request to cancel a running process; usually missing."""
        return self.path / "cancel.json"

    @property
    def output(self) -> Path:
        """What a run in the background prints."""
        return self.path / "output.log"

    @property
    def decisions(self) -> Path:
        """The folder of decisions that the log does not have yet."""
        return self.path / "decisions"

    @property
    def copy(self) -> Path:
        """The folder of the copy of the workspace that the run works in."""
        return self.path / "copy"

    @property
    def has_copy(self) -> bool:
        """Whether the run has a copy: its record is written last."""
        return (self.copy / COPY_RECORD).is_file()

    @property
    def scratch(self) -> Path:
        """The folder of temporary files."""
        return self.path / "scratch"

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def is_empty(self) -> bool:
        """Whether the log has no events.

        The run never began, or has not begun yet.
        """
        try:
            return self.events.stat().st_size == 0
        except FileNotFoundError:
            return True
        except OSError:
            return False

    def remove(self) -> None:
        """Remove the folder as a whole. Raise UsageError if it cannot be removed."""
        with os_errors(
            f"{self.path} cannot be removed",
            "check its owner and permissions",
            UsageError,
        ):
            remove_whole(self.path)

    def scratch_file(self, suffix: str = "") -> Path:
        """Return an unused path in the scratch folder."""
        with record_errors(f"cannot make {self.scratch}"):
            self.scratch.mkdir(mode=0o700, exist_ok=True)
        return self.scratch / (os.urandom(8).hex() + suffix)

    @property
    def has_traceback(self) -> bool:
        """Whether there is the traceback of a defect.

        The message of the run names it.
        """
        return any(self.scratch.glob(f"*{TRACEBACK}"))

    def clear_scratch(self) -> None:
        """Remove temporary files but tracebacks."""
        import shutil  # not at the top: `goal list` removes nothing

        with contextlib.suppress(OSError):
            for path in self.scratch.iterdir():
                if path.name.endswith(TRACEBACK):
                    continue
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()

    def write_outcome(self, outcome: dict[str, Any]) -> None:
        """Write outcome.json, and remove the earlier one. Raise RecordError."""
        self.write_json(self.outcome, outcome)
        with contextlib.suppress(OSError):
            self.earlier_outcome.unlink(missing_ok=True)

    def write_json(
        self, path: Path, value: Any, *, lasting: bool = True, sync_name: bool = True
    ) -> None:
        """Write a JSON file of this run, as `write_text` does. Raise RecordError."""
        text = json.dumps(value, indent=2, ensure_ascii=False)
        self.write_text(path, f"{text}\n", lasting=lasting, sync_name=sync_name)

    def write_text(
        self, path: Path, text: str, *, lasting: bool = True, sync_name: bool = True
    ) -> None:
        """Write a text file of this run in UTF-8, whole or not at all, mode 0600.

        Without `lasting`, a power cut may damage it; this saves a wait for the disk.
        Without `sync_name`, its new content lasts when another file of the folder
        does. Raise RecordError.
        """
        with record_errors(f"cannot write {path}"):
            write_whole(path, text.encode(errors="replace"), lasting=lasting)
            if lasting and sync_name:
                sync_folder(path.parent)


def write_json(path: Path, value: object) -> None:
    """Replace the file at `path` by one that holds `value`.

    Its folder need not exist. Raise RecordError.
    """
    with record_errors(f"cannot write {path}"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, json.dumps(value).encode())


def read_json(path: Path, kind: Any) -> Any:
    """Return the value of this type that `write_json` wrote; None without a file.

    Raise RecordError for another value.
    """
    from pydantic import TypeAdapter  # not at the top: `goal list` reads no such file

    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise damaged(path, one_line(str(error))) from error


def damaged(path: Path, reason: str) -> RecordError:
    """Return the error for a file that does not hold what this program writes."""
    return RecordError(
        f"the run was made by another version of goal, or {path} is damaged: {reason}",
        "start a new run: goal run GOAL_FILE",
    )
