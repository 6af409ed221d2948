"""The folder of a run: its id and its files; finding a run by what a user types, and listing runs, newest first."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.core.errors import (
    RecordError,
    RunNotFound,
    UsageError,
    one_line,
    os_errors,
    quoted,
    record_errors,
    some,
)
from goalrunner.core.run_summary import RUNNING, RunSummary
from goalrunner.records.files import is_written, remove_whole, sync_folder, write_whole

if TYPE_CHECKING:
    import random
    from datetime import datetime

    from goalrunner.core.run_state import RunState


def goal_home(environ: Mapping[str, str]) -> Path:
    """Return the folder of all runs: GOAL_HOME, else `goal` in XDG_STATE_HOME, else ~/.local/state/goal.

    Raise UsageError if there is none, as for a user without a home.
    """
    try:
        if chosen := environ.get("GOAL_HOME"):
            return Path(os.path.expanduser(chosen)).absolute()  # noqa: PTH111 - pathlib raises for a user that is unknown
        state = environ.get("XDG_STATE_HOME", "")
        if os.path.isabs(state):  # noqa: PTH117 - the specification of XDG tells to ignore a relative one
            return Path(state) / "goal"
        return Path(environ.get("HOME") or Path.home()) / ".local" / "state" / "goal"
    except (OSError, RuntimeError) as error:
        why = (
            "the current folder does not exist any more"
            if isinstance(error, OSError)
            else "you have no home folder"
        )
        raise UsageError(
            f"{why}, so there is no folder for runs",
            "export GOAL_HOME=/a/folder/of/yours",
        ) from error


RUNS = "runs"  # the folder in GOAL_HOME of the runs
CHECKS = "check-runs"  # the same for checks outside of a run, whose records are removed at their end
_FIRST_EVENTS = 10  # the event that names the workspace is among them


TRACEBACK = ".traceback.txt"


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
    def create(cls, home: Path, run_id: str, kind: str = RUNS) -> RunFolder:
        """Make a new, empty folder; `kind` is RUNS or CHECKS. Raise UsageError if it exists or cannot be made."""
        path = home / kind / run_id
        try:
            for folder in (home, path.parent):
                if not folder.exists():
                    folder.mkdir(
                        mode=0o700, parents=True, exist_ok=True
                    )  # mkdir sets the mode of the last folder only
            path.mkdir(mode=0o700)
            (path / "scratch").mkdir(mode=0o700)
            sync_folder(path.parent)
        except FileExistsError as error:
            raise UsageError(f"{error.filename} exists already") from error
        except OSError as error:
            why = f"cannot make the run's folder {path}: {error.strerror}"
            raise UsageError(
                why, "set GOAL_HOME to a folder that can be written"
            ) from error
        return cls(path)

    events = _File("events.jsonl")
    transcript = _File("transcript.jsonl")
    artifacts = _File("artifacts")
    goal_file = _File("goal.toml")  # the goal as it was at the start
    start = _File("start")  # the folder with the state at the start of the run
    summary = _File("summary.json")  # what `list` and `status` read
    outcome = _File(
        "outcome.json"
    )  # how the run ended; missing while it runs, also again
    earlier_outcome = _File(
        "outcome.earlier.json"
    )  # that of a resumed run before, until a new one is written
    cancellation = _File(
        "cancel.json"
    )  # the request to cancel a running process; usually missing
    output = _File("output.log")  # what a run in the background prints
    decisions = _File(
        "decisions"
    )  # decisions from other terminals that the log does not have yet
    scratch = _File("scratch")  # the folder of temporary files

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def is_empty(self) -> bool:
        """Whether the log has no events: the run never began, or has not begun yet."""
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
        """Whether there is the traceback of a defect, which the message of the run names."""
        return any(self.scratch.glob(f"*{TRACEBACK}"))

    def clear_scratch(self) -> None:
        """Remove temporary files but tracebacks."""
        import shutil  # not at the top: `goal list` removes nothing

        with contextlib.suppress(OSError):
            for path in self.scratch.iterdir():
                if not path.name.endswith(TRACEBACK):
                    shutil.rmtree(
                        path
                    ) if path.is_dir() and not path.is_symlink() else path.unlink()

    def write_outcome(self, outcome: dict[str, Any]) -> None:
        """Write outcome.json, and remove the earlier one. Raise RecordError."""
        self.write_json(self.outcome, outcome)
        with contextlib.suppress(OSError):
            self.earlier_outcome.unlink(missing_ok=True)

    def write_json(self, path: Path, value: Any, *, lasting: bool = True) -> None:
        """Write a JSON file of this run, whole or not at all. Raise RecordError."""
        self.write_text(
            path,
            json.dumps(value, indent=2, ensure_ascii=False) + "\n",
            lasting=lasting,
        )

    def write_text(self, path: Path, text: str, *, lasting: bool = True) -> None:
        """Write a text file of this run, whole or not at all, UTF-8, mode 0600. Raise RecordError.

        One that is not `lasting` may be damaged by a power cut; this saves a wait for the disk.
        """
        with record_errors(f"cannot write {path}"):
            write_whole(path, text.encode(errors="replace"), lasting=lasting)
            if lasting:
                sync_folder(path.parent)


def write_json(path: Path, value: object) -> None:
    """Replace the file at `path` by one that holds `value`; its folder need not exist. Raise RecordError."""
    with record_errors(f"cannot write {path}"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, json.dumps(value).encode())


def read_json(path: Path, kind: Any) -> Any:
    """Return the value of this type that `write_json` wrote; None if there is no file. Raise RecordError for another value."""
    from pydantic import TypeAdapter  # not at the top: `goal list` reads no such file

    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise damaged(path, one_line(str(error))) from error


def damaged(path: Path, why: str) -> RecordError:
    """Return the error for a file of a run that does not hold what this program writes."""
    message = (
        f"the run was made by another version of goal, or {path} is damaged: {why}"
    )
    return RecordError(message, "start a new run: goal run GOAL_FILE")


_LETTERS = "abcdefghjkmnpqrstvwxyz"
_SIGNS = (
    "0123456789" + _LETTERS
)  # base 32 after Crockford: no i, l, o, u, which are misread or spell words

_FILLERS = frozenset(
    "a an the to of and or in on for with that this is are be please".split()
)


def new_run_id(home: Path, objective: str, source: random.Random | None = None) -> str:
    """Return a short id like `k3f9-make-parse`, which is easy to read and type; `source` is the source of randomness.

    No run in `home` has the same first four characters, so that these alone name the run.
    """
    import unicodedata  # not at the top, as random: `goal list` needs no names
    from random import SystemRandom

    source = source or SystemRandom()
    plain = (
        unicodedata.normalize("NFKD", objective[:1000].casefold())
        .encode("ascii", "ignore")
        .decode()
    )
    chosen = [
        word[:12] for word in re.findall(r"[a-z0-9]+", plain) if word not in _FILLERS
    ][:3]
    while len("-".join(chosen[:-1])) >= 10:
        chosen.pop()
    try:
        taken = {path.name[:4] for path in (home / RUNS).iterdir()}
    except (
        OSError
    ):  # there is none yet, or making the run's folder will say what is wrong
        taken = set()
    while True:
        signs = source.choice(_LETTERS) + "".join(
            source.choice(_SIGNS) for _ in range(3)
        )
        if signs not in taken:
            return "-".join((signs, *chosen))


def find_run(home: Path, reference: str) -> RunFolder:
    """Return the run of that id, of the only id with that prefix, or in the folder of that path.

    Raise RunNotFound, and UsageError if the runs cannot be listed.
    """
    with contextlib.suppress(
        OSError, ValueError
    ):  # the current folder is gone, or the name can be none
        path = Path(os.path.realpath(reference)) if reference else None
        if path and any(
            (path / name).is_file() for name in ("events.jsonl", "summary.json")
        ):
            return RunFolder(path)
    names = _names(home)
    if not names:
        raise _no_run_at_all(home)
    matching = sorted(
        name for name in names if reference and name.startswith(reference)
    )
    if reference in names:
        return RunFolder(home / RUNS / reference)
    if len(matching) == 1:
        return RunFolder(home / RUNS / matching[0])
    if matching:
        raise RunNotFound(
            f"{quoted(reference)} matches {len(matching)} runs: {some(matching)}",
            "type more of the id",
        )
    raise RunNotFound(
        f"no run {quoted(reference)} in {home}", "goal list --all shows the runs"
    )


def newest_run(home: Path, folder: Path) -> RunFolder:
    """Return the newest run of a folder, as `runs_of` finds them.

    Raise RunNotFound, which names the newest run elsewhere, and UsageError if the runs cannot be listed.
    """
    summaries = run_summaries(home)
    if not summaries:
        raise _no_run_at_all(home)
    runs = runs_of(summaries, folder)
    if runs:
        return RunFolder(home / RUNS / runs[0]["run_id"])
    readable = [summary for summary in summaries if summary.get("workspace")]
    message = f"no run worked in {folder} or in a folder above it"
    if not readable:
        raise RunNotFound(message, "goal list --all shows all runs")
    newest = readable[0]
    run_id, objective = newest["run_id"], one_line(str(newest.get("objective", "")))
    raise RunNotFound(
        message,
        f"the newest run elsewhere: {run_id} in {newest['workspace']}, {quoted(objective)}\n"
        f"to use that run, add its id: {run_id}; goal list --all shows all runs",
    )


def runs_of(summaries: Sequence[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Return the runs whose workspace or goal file is in `folder`, or else those of the nearest workspace above it."""
    by_workspace: dict[str, list[dict[str, Any]]] = {}
    here = []
    for summary in summaries:
        workspace = str(summary.get("workspace", ""))
        by_workspace.setdefault(workspace, []).append(summary)
        goal_folder = os.path.dirname(str(summary.get("goal_file", "")))  # noqa: PTH120 - faster for many runs
        if str(folder) in (workspace, goal_folder):
            here.append(summary)
    if here:
        return here
    for parent in folder.parents:
        if runs := by_workspace.get(str(parent)):
            return runs
    return []


def _no_run_at_all(home: Path) -> RunNotFound:
    return RunNotFound(f"there is no run in {home}", "goal run GOAL_FILE starts one")


def run_summaries(home: Path) -> list[dict[str, Any]]:
    """Return the summary of each run (`summary.json`), newest first.

    A run whose summary is missing or damaged has `run_id`, `status` "unreadable", `started_at` (its folder's time),
    `message`, the `workspace` that its log names, and nothing else. Raise UsageError if the runs cannot be listed.
    """
    found = [read_summary(RunFolder(home / RUNS / name)) for name in _names(home)]
    return sorted(
        found,
        key=lambda summary: (summary["started_at"], summary["run_id"]),
        reverse=True,
    )


def _names(home: Path) -> list[str]:
    """Return the names of the runs' folders; none before the first run. Raise UsageError."""
    runs = home / RUNS
    try:
        with os.scandir(runs) as entries:
            return [
                one.name
                for one in entries
                if not one.name.startswith(".") and one.is_dir()
            ]
    except FileNotFoundError:
        return []
    except OSError as error:
        why = f"{runs} cannot be read: {(error.strerror or str(error)).lower()}"
        raise UsageError(
            why, "set GOAL_HOME to the folder that holds the runs"
        ) from None


def read_summary(folder: RunFolder) -> dict[str, Any]:
    """Return the summary of a run, with the folder's name as `run_id`; see `list_runs` for a damaged one.

    The status of a running run whose process is gone is "lost".
    """
    message = "summary.json is damaged"
    try:
        summary = json.loads(folder.summary.read_bytes())
        if isinstance(summary, dict) and _has_times(summary):
            summary["run_id"] = folder.run_id
            if summary.get("status") == "running" and not is_written(folder.events):
                summary.update(_lost(summary))
            return summary
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        message = f"summary.json: {(error.strerror or 'cannot be read').lower()}"
        if is_missing and folder.is_empty:
            message = "the run never began"
    except (KeyError, TypeError, ValueError, RecursionError):
        pass
    from datetime import UTC, datetime  # not at the top: few runs need it

    started = datetime.fromtimestamp(
        folder.path.stat().st_mtime if folder.path.exists() else 0, UTC
    )
    at = started.isoformat(timespec="milliseconds")
    summary = {
        "run_id": folder.run_id,
        "status": "unreadable",
        "started_at": at,
        "message": message,
    }
    if workspace := _recorded_workspace(folder):
        summary["workspace"] = workspace
    return summary


def _has_times(summary: Mapping[str, Any]) -> bool:
    """Return whether a summary has the time of its start, and all its times name their distance from UTC."""
    from datetime import datetime  # not at the top: `goal run` reads no summary

    texts = [
        summary["started_at"],
        *filter(None, (summary.get("updated_at"), summary.get("finished_at"))),
    ]
    return all(datetime.fromisoformat(text).tzinfo is not None for text in texts)


def _recorded_workspace(folder: RunFolder) -> str:
    """Return the workspace that the first events of a run's log name; empty if there is none."""
    try:
        with folder.events.open("rb") as log:
            for _ in range(_FIRST_EVENTS):
                event = json.loads(log.readline())["event"]
                if event["type"] == "run_started":
                    return str(event["workspace"])
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        pass
    return ""


def _lost(summary: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of a run whose process is gone: a last call may have no record."""
    if summary.get("waits_for"):  # no call runs during a wait
        return {"status": "lost"}
    counted, tokens = summary.get("uncounted_calls"), summary.get("tokens")
    uncounted = counted + 1 if isinstance(counted, int) else 1
    return {
        "status": "lost",
        "uncounted_calls": uncounted,
        "tokens": tokens or None,
        "cost_usd": None,
    }


@dataclass(frozen=True)
class RunPlace:
    """Where a run works, and its goal file; empty: it has none of its own."""

    workspace: str
    goal_file: str


def write_first_summary(
    folder: RunFolder, place: RunPlace, objective: str, now: datetime
) -> None:
    """Write the summary of a run that has no events yet, so that a run that is killed then still has its workspace."""
    summary = RunSummary(
        run_id=folder.run_id,
        objective=objective,
        goal_file=place.goal_file,
        workspace=place.workspace,
        path=str(folder.path),
        pid=os.getpid(),
        status=RUNNING,
        started_at=now.isoformat(timespec="milliseconds"),
    )
    folder.write_json(folder.summary, summary.values(), lasting=False)


def summary_writer(
    folder: RunFolder, place: RunPlace | None = None
) -> Callable[[RunState], None]:
    """Return what rewrites summary.json from a state; it raises RecordError if the file cannot be written.

    `place` is used for the events before the one that names it.
    """

    def save(state: RunState) -> None:
        summary = RunSummary.of(state)
        summary.pid, summary.path = os.getpid(), str(folder.path)
        if place is not None and not summary.workspace:
            summary.workspace, summary.goal_file = place.workspace, place.goal_file
        # The log contains everything, and during the run the next summary follows soon.
        folder.write_json(
            folder.summary, summary.values(), lasting=summary.status != RUNNING
        )

    return save
