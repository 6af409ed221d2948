"""The folder of a run: its id, its files, and writing a file whole."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.core.errors import RecordError, UsageError

if TYPE_CHECKING:
    import random


UNFINISHED = ".new"
"""Suffix of the file that a killed writer may leave behind."""

_SEARCHED: int = getattr(os, "O_PATH", os.O_RDONLY)
"""On Linux, a folder that can be searched but not listed can be opened, too."""


def write_whole(path: Path, data: bytes, *, mode: int = 0o600, folder: int | None = None, lasting: bool = True) -> None:
    """Replace the file at `path` by one that holds `data`, which is durable before it gets that name. Raise OSError.

    One that is not `lasting` may be damaged by a power cut. With `mode` 0o666 the umask decides who may read it. With an
    open `folder`, `path` is a name in it. A link or a pipe of that name is replaced, not followed.
    """
    new = path.with_name(f".goal-{os.urandom(8).hex()}{UNFINISHED}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=folder)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - no Path, a handle
            file.write(data)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        os.replace(new, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=folder)
        raise


def open_folder(root: Path, parts: Iterable[str], *, make: bool = False) -> int:
    """Open the folder that `parts` lead to below `root`, and return its handle. With `make`, missing folders are made.

    Raise OSError if one of them is missing, a file or a symbolic link.
    """
    here = os.open(root, _SEARCHED | os.O_DIRECTORY)
    try:
        for part in parts:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=here)
            below = os.open(part, _SEARCHED | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
    except BaseException:
        os.close(here)
        raise
    return here


def goal_home(environ: Mapping[str, str]) -> Path:
    """Return the folder of all runs: GOAL_HOME, else `goal` in XDG_STATE_HOME, else ~/.local/state/goal.

    Raise UsageError if there is none, as for a user without a home.
    """
    try:
        return _goal_home(environ)
    except (OSError, RuntimeError) as error:
        told = "the current folder does not exist any more" if isinstance(error, OSError) else "you have no home folder"
        raise UsageError(f"{told}, so there is no folder for runs", "export GOAL_HOME=/a/folder/of/yours") from error


def _goal_home(environ: Mapping[str, str]) -> Path:
    if chosen := environ.get("GOAL_HOME"):
        return Path(os.path.expanduser(chosen)).absolute()  # noqa: PTH111 - pathlib raises for a user that is unknown
    state = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):  # noqa: PTH117 - the specification of XDG tells to ignore a relative one
        return Path(state) / "goal"
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / ".local" / "state" / "goal"


class _File:
    """A path in the folder of a run."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: RunFolder, _: object = None) -> Path:
        return folder.path / self._name


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run, and the paths in it; what they name need not exist yet."""

    path: Path

    @classmethod
    def create(cls, home: Path, run_id: str) -> RunFolder:
        """Make a new, empty folder. Raise UsageError if it exists or cannot be made."""
        path = home / "runs" / run_id
        try:
            if not home.exists():
                home.mkdir(mode=0o700, parents=True, exist_ok=True)  # the mode is that of the last folder alone
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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

    events = _File("events.jsonl")
    """The log."""
    transcript = _File("transcript.jsonl")
    """The chat."""
    artifacts = _File("artifacts")
    """The folder of large outputs."""
    goal_file = _File("goal.toml")
    """The goal as it was at the start."""
    start = _File("start")
    """The folder with the state at the start of the run."""
    summary = _File("summary.json")
    """What `list` and `status` read."""
    outcome = _File("outcome.json")
    """How the run ended."""
    cancellation = _File("cancel.json")
    """The request to cancel a running process; usually missing."""
    scratch = _File("scratch")
    """The folder of temporary files."""

    @property
    def run_id(self) -> str:
        """The run's id, which is the folder's name."""
        return self.path.name

    def scratch_file(self, suffix: str = "") -> Path:
        """Return an unused path in the scratch folder."""
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
        """Remove temporary files but tracebacks."""
        import shutil  # not at the top: `goal list` removes nothing

        with contextlib.suppress(OSError):
            for path in self.scratch.iterdir():
                if not path.name.endswith(".traceback.txt"):
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def write_json(self, path: Path, value: Any, *, lasting: bool = True) -> None:
        """Write a JSON file of this run, whole or not at all. Raise RecordError."""
        self.write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n", lasting=lasting)

    def write_text(self, path: Path, text: str, *, lasting: bool = True) -> None:
        """Write a text file of this run, whole or not at all, UTF-8, mode 0600. Raise RecordError.

        One that is not `lasting` may be damaged by a power cut; this saves a wait for the disk.
        """
        try:
            write_whole(path, text.encode(errors="replace"), lasting=lasting)
            if lasting:
                sync_folder(path.parent)
        except OSError as error:
            raise RecordError(f"cannot write {path}: {error.strerror}", "free some space, or set GOAL_HOME") from error


def sync_folder(folder: Path) -> None:
    """Flush a folder: the names of its files. Raise OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_LETTERS = "abcdefghjkmnpqrstvwxyz"
_SIGNS = "0123456789" + _LETTERS
"""Base 32 after Crockford: no i, l, o, u, which are misread or spell words."""

_FILLERS = frozenset("a an the to of and or in on for with that this is are be please".split())  # noqa: SIM905
_MOST_WORDS = 3
_ENOUGH = 10
_LONGEST_WORD = 12


def new_run_id(objective: str, taken: Callable[[str], bool], source: random.Random | None = None) -> str:
    """Return a short id like `k3f9-make-parse`, for which `taken(id)` is False; `source` is the source of randomness."""
    if source is None:
        from random import SystemRandom  # not at the top: `goal list` needs no names

        source = SystemRandom()
    words = _slug(objective)
    while True:
        signs = source.choice(_LETTERS) + "".join(source.choice(_SIGNS) for _ in range(3))
        identifier = f"{signs}-{words}" if words else signs
        if not taken(identifier):
            return identifier


@dataclass(frozen=True)
class RunIds:
    """The port `Ids` over a home: ids whose first four characters no run there has, so that these alone name a run."""

    home: Path
    source: random.Random | None = None

    def run_id(self, objective: str) -> str:
        """Return a short, unused id that is easy to read and type."""
        try:
            starts = {path.name[:4] for path in (self.home / "runs").iterdir()}
        except OSError:  # there is none yet, or making the run's folder will say what is wrong
            starts = set()
        return new_run_id(objective, lambda identifier: identifier[:4] in starts, self.source)


def _slug(objective: str) -> str:
    import unicodedata

    plain = unicodedata.normalize("NFKD", objective[:1000].casefold()).encode("ascii", "ignore").decode()
    chosen: list[str] = []
    for word in re.findall(r"[a-z0-9]+", plain):
        if word not in _FILLERS:
            chosen.append(word[:_LONGEST_WORD])
        if len(chosen) == _MOST_WORDS or len("-".join(chosen)) >= _ENOUGH:
            break
    return "-".join(chosen)
