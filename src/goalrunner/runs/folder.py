"""One run's folder: its files by name, and writing one whole. Owns the layout and the modes: folders 0700, files 0600."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.errors import RecordError, UsageError
from goalrunner.wholefile import write_whole


def goal_home(environ: Mapping[str, str]) -> Path:
    """Where `goal` keeps its things: GOAL_HOME, else `goal` in XDG_STATE_HOME, else ~/.local/state/goal.

    Raises UsageError where neither says, as for a user without a home.
    """
    try:
        return _goal_home(environ)
    except (OSError, RuntimeError) as error:
        told = "the current folder does not exist any more" if isinstance(error, OSError) else "you have no home folder"
        raise UsageError(f"{told}, so there is nowhere to keep runs", "export GOAL_HOME=/a/folder/of/yours") from error


def _goal_home(environ: Mapping[str, str]) -> Path:
    if chosen := environ.get("GOAL_HOME"):
        return Path(os.path.expanduser(chosen)).absolute()  # noqa: PTH111 - pathlib raises for a user that is unknown
    state = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):  # noqa: PTH117 - the specification of XDG tells to ignore a relative one
        return Path(state) / "goal"
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / ".local" / "state" / "goal"


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run. Properties are paths; what they name need not exist yet."""

    path: Path

    @classmethod
    def create(cls, home: Path, run_id: str) -> RunFolder:
        """Make a new, empty folder. Raises UsageError when it exists or cannot be made."""
        path = home / "runs" / run_id
        try:
            if not home.exists():
                home.mkdir(mode=0o700, parents=True, exist_ok=True)  # the mode is that of the last folder alone
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
            (path / "scratch").mkdir(mode=0o700)
            _sync_folder(path.parent)
        except FileExistsError as error:
            raise UsageError(f"{error.filename} exists already") from error
        except OSError as error:
            raise UsageError(
                f"cannot make the run's folder {path}: {error.strerror}",
                "set GOAL_HOME to a folder that can be written",
            ) from error
        return cls(path)

    @property
    def run_id(self) -> str:
        """The run's id, which is the folder's name."""
        return self.path.name

    @property
    def events(self) -> Path:
        """The log."""
        return self.path / "events.jsonl"

    @property
    def transcript(self) -> Path:
        """The chat."""
        return self.path / "transcript.jsonl"

    @property
    def artifacts(self) -> Path:
        """The folder of large outputs."""
        return self.path / "artifacts"

    @property
    def goal_file(self) -> Path:
        """The goal as it was at the start."""
        return self.path / "goal.toml"

    @property
    def start(self) -> Path:
        """The folder of what the start of the run was like."""
        return self.path / "start"

    @property
    def summary(self) -> Path:
        """What `list` and `status` read."""
        return self.path / "summary.json"

    @property
    def outcome(self) -> Path:
        """How it ended."""
        return self.path / "outcome.json"

    @property
    def cancellation(self) -> Path:
        """Who asks a living run to end, and why; not there while nobody does."""
        return self.path / "cancel.json"

    @property
    def scratch(self) -> Path:
        """The folder of files that nobody needs later."""
        return self.path / "scratch"

    def scratch_file(self, suffix: str = "") -> Path:
        """A path in the scratch folder that nobody else has, with no file there yet."""
        try:
            self.scratch.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise RecordError(
                f"cannot make {self.scratch}: {error.strerror}", "free some space, or set GOAL_HOME"
            ) from error
        while True:
            path = self.scratch / (os.urandom(8).hex() + suffix)
            if not path.exists():
                return path

    def clear_scratch(self) -> None:
        """Remove what nobody needs any more; a traceback stays."""
        import shutil  # not at the top: `goal list` removes nothing

        with contextlib.suppress(OSError):
            for path in self.scratch.iterdir():
                if not path.name.endswith(".traceback.txt"):
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def write_json(self, path: Path, value: Any, *, lasting: bool = True) -> None:
        """Write a JSON file of this run, whole or not at all. Raises RecordError."""
        self.write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n", lasting=lasting)

    def write_text(self, path: Path, text: str, *, lasting: bool = True) -> None:
        """Write a text file of this run, whole or not at all, UTF-8, mode 0600. Raises RecordError.

        One that is not `lasting` may be the one before it after a power cut, and spares a wait for the disk.
        """
        try:
            write_whole(path, text.encode(errors="replace"))
            if lasting:
                _sync_folder(path.parent)
        except OSError as error:
            raise RecordError(f"cannot write {path}: {error.strerror}", "free some space, or set GOAL_HOME") from error


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
