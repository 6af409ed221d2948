"""The baseline of `goal check` and `goal init`, which the next command reuses.

There is one small file for each workspace, below GOAL_HOME. It counts for ten minutes,
while nothing differs that the validators depend on, and only if no agent has worked in
the workspace since. A baseline that could not run, or that may differ from one time to
the next, is not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from glob import glob
from pathlib import Path, PurePath

from pydantic import AwareDatetime, model_validator

from goalrunner.app.preflight import goal_file_rule
from goalrunner.app.resolve import RunConfig
from goalrunner.checking.base_results import KeptResult
from goalrunner.checking.environment import Kind
from goalrunner.core import VERSION
from goalrunner.core.errors import WorkspaceError
from goalrunner.core.field_types import Frozen
from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.observation import ArtifactRef, Snapshot
from goalrunner.core.shell_programs import programs
from goalrunner.core.verdict import ValidatorResult
from goalrunner.engine.validator_results import Results
from goalrunner.goalfile.place import PYPROJECT
from goalrunner.records.files import open_regular, write_whole
from goalrunner.records.run_folder import RUNS, RunFolder
from goalrunner.records.run_summaries import run_summaries
from goalrunner.snapshots.objects import keeps
from goalrunner.snapshots.repositories import enclosing
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.snapshots.store_folder import store_name
from goalrunner.validators.environment_faults import is_environmental
from goalrunner.validators.started_checks import StartedChecks

FOLDER = "baselines"  # of the files, in GOAL_HOME
LONGEST_AGE = 600.0  # seconds for which a baseline counts
_LARGEST_OUTPUT = 1 << 20  # bytes of all outputs; a baseline with more is not kept
_LARGEST_FILE = 8 << 20  # bytes; JSON is longer than the outputs in it
_UNFINISHED = ("running", "lost", "unreadable")  # states of a run that may be active


class BaselineKey(Frozen):
    """What a baseline depends on beside the files of the workspace, as hashes."""

    content: str
    """Of ignored files, installed packages and the settings of git."""
    checks: str
    """Of the validators, and of what decides how they are run."""
    environment: str
    """Of the environment variables that validators get."""
    programs: str
    """Of the programs that validators name, and of what is installed on PATH."""
    version: str = VERSION
    """Of this program."""


class KeptBaseline(Frozen):
    """The results of a baseline, and what a run needs to treat them as its own."""

    at: AwareDatetime
    """When the validators had run."""
    key: BaselineKey
    snapshot: Snapshot
    results: tuple[KeptResult, ...]
    outputs: tuple[str, ...]
    """The output of each result. Every byte is one character."""
    changed: tuple[str, ...] = ()
    written: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_whole(self) -> KeptBaseline:
        if len(self.results) != len(self.outputs):
            raise ValueError("each result has an output")
        for output in self.outputs:
            output.encode("latin-1")
        return self

    def age(self, key: BaselineKey, now: datetime) -> float | None:
        """Return its age in seconds; None if it does not count for `key` at `now`."""
        age = (now - self.at).total_seconds()
        return age if self.key == key and 0 <= age <= LONGEST_AGE else None


def is_repeatable(ran: Results, *, incomplete: bool) -> bool:
    """Return whether the validators would give these results again on the same content.

    They must have run to their end, without a contradiction, and without variables of
    the run. A red result that may be the fault of the environment does not count; see
    `is_environmental` for `incomplete`.
    """
    return (
        bool(ran.answers)
        and not ran.flaky
        and all(_is_repeatable(result, incomplete=incomplete) for result in ran.results)
    )


def _is_repeatable(result: ValidatorResult, *, incomplete: bool) -> bool:
    if result.cannot_run or result.hidden or not result.steady:
        return False
    if result.passed:
        return result.reason == "passed"
    return result.reason == "red" and not is_environmental(
        result, incomplete=incomplete
    )


def may_end_run(config: RunConfig, ran: Results) -> bool:
    """Return whether a run could end at its baseline with these results.

    The end of a run rests on its own results alone.
    """
    goal = config.goal
    return ran.green and (goal.has_judge or goal.baseline != "any")


class BaselineFile:
    """The file with the newest baseline of a workspace.

    `asking_run` is the run that asks for it.
    """

    def __init__(self, home: Path, workspace: Path, asking_run: str = "") -> None:
        self.path = home / FOLDER / f"{store_name(workspace)}.json"
        self._home = home
        self._workspace = workspace
        self._asking_run = asking_run

    def read(self) -> KeptBaseline | None:
        """Return the baseline; None if there is none that can be trusted."""
        with contextlib.suppress(OSError, ValueError):
            with open(  # noqa: PTH123 - a handle
                open_regular(self.path, os.O_RDONLY | os.O_NOFOLLOW), "rb"
            ) as file:
                info = os.fstat(file.fileno())
                data = file.read(_LARGEST_FILE)
            # Another user could have written a file that is not private.
            others = stat.S_IRWXG | stat.S_IRWXO
            is_private = info.st_uid == os.geteuid() and not info.st_mode & others
            if is_private and not self._has_worked_since(info.st_ctime_ns):
                return KeptBaseline.model_validate_json(data)
        return None

    def write(self, baseline: KeptBaseline) -> None:
        """Replace the baseline, and remove those of other workspaces that are too old.

        A failure loses only time.
        """
        # A path or a test whose name is not UTF-8 cannot be written: ValueError.
        with contextlib.suppress(OSError, ValueError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_old(self.path.parent)
            write_whole(self.path, baseline.model_dump_json().encode(), lasting=False)

    def _has_worked_since(self, moment: int) -> bool:
        """Return whether an agent has, or may have, worked here after `moment` (ns).

        Without a sandbox, an agent can write this file. The ctime of a file cannot be
        set, and a run writes its log until it ends.
        """
        workspace = str(self._workspace)
        run_ids: list[str] = []
        for summary in run_summaries(self._home):
            if summary["run_id"] == self._asking_run:
                continue
            # A run without a workspace in its summary may have worked in this one.
            if summary.get("workspace", workspace) != workspace:
                continue
            if not run_ids and summary.get("status") in _UNFINISHED:
                return True
            run_ids.append(summary["run_id"])
        logs = (RunFolder(self._home / RUNS / run_id).events for run_id in run_ids)
        return any(log.exists() and log.stat().st_ctime_ns >= moment for log in logs)


def _remove_old(folder: Path) -> None:
    """Remove the files of a folder that are older than a baseline counts."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < time.time() - LONGEST_AGE:
                path.unlink()


class BaselineKeeper:
    """Finds and keeps the baseline of one run.

    What cannot be compared is never reused.
    """

    def __init__(
        self,
        config: RunConfig,
        store: SnapshotStore,
        folder: RunFolder,
        started: StartedChecks,
        kind: Kind,
    ) -> None:
        """Use what validators `started` in an environment of this `kind`."""
        self._config = config
        self._store = store
        self._scratch: Callable[[str], Path] = folder.scratch_file
        self._specs = started.specs
        # What the goal file says is in the key. A manifest, or a file that a validator
        # names, is more than a goal file.
        self._free: set[str] = set()
        for path in goal_file_rule(config.options.goal_file, config.workspace):
            if path not in started.rules and PurePath(path).name != PYPROJECT:
                self._free.add(path)
        self._file = BaselineFile(config.home, config.workspace, folder.run_id)
        self._is_usable = kind == "overlay" and self._sees_everything()
        self._key: BaselineKey | None = None

    def _sees_everything(self) -> bool:
        """Return whether all that the results depend on can be compared.

        No later result may rest on them, as it does with `known_failures`.
        """
        goal, options = self._config.goal, self._config.options
        if options.live or options.validators or goal.workspace.outputs:
            return False
        for spec in self._specs:
            if spec.hidden or spec.python is not None or spec.known_failures:
                return False
        repository = enclosing(self._config.workspace)
        if repository is None:
            return True
        # There is no snapshot of the rest of the repository, which they may read.
        return Path(os.path.realpath(repository.root)) == self._config.workspace

    async def find(self, now: Snapshot, content: str) -> tuple[Results, float] | None:
        """Return the results for the snapshot `now`, and their age in seconds.

        Return None if the validators have to run. `content` identifies what no snapshot
        has.
        """
        options = self._config.options
        if not self._is_usable or not (options.reuses_baseline or self._is_check):
            return None
        # `keep` needs the key as well.
        self._key = self._key_of(content)
        baseline = self._file.read() if options.reuses_baseline else None
        if baseline is None:
            return None
        age = baseline.age(self._key, datetime.now(UTC))
        if age is None or not await self._is_same(baseline.snapshot, now):
            return None
        ran = self._results(baseline)
        ends_run = not options.needs_round and may_end_run(self._config, ran)
        if ends_run or not self._is_repeatable(ran):
            return None
        return ran, age

    @property
    def _is_check(self) -> bool:
        """Whether no run is kept, because no agent works in it."""
        return not self._config.options.keeps_run

    def keep(
        self,
        now: Snapshot,
        ran: Results,
        outputs: Mapping[str, ArtifactRef],
        read: Callable[[ArtifactRef], bytes],
    ) -> None:
        """Keep a baseline on the snapshot `now`.

        `outputs` are those of the results, by name, without secrets; `read` returns
        their content.
        """
        if self._key is None or not self._is_check or not self._is_repeatable(ran):
            return
        names = [result.name for result in ran.results]
        is_large = sum(output.size for output in outputs.values()) > _LARGEST_OUTPUT
        if is_large or outputs.keys() != set(names):
            return
        redact = self._config.redactor.text
        baseline = KeptBaseline(
            at=datetime.now(UTC),
            key=self._key,
            snapshot=now,
            results=tuple(KeptResult.of(result, redact) for result in ran.results),
            outputs=tuple(read(outputs[name]).decode("latin-1") for name in names),
            changed=ran.changed,
            written=ran.written,
        )
        # A name that is not UTF-8 has no JSON.
        with contextlib.suppress(ValueError):
            text = baseline.model_dump_json()
            # A name of a test or a file may be a secret, and would not be the same
            # then.
            if redact(text) == text:
                self._file.write(baseline)

    def _is_repeatable(self, ran: Results) -> bool:
        settings = self._config.goal.workspace
        is_incomplete = bool(settings.protect or settings.editable or settings.setup)
        return is_repeatable(ran, incomplete=is_incomplete)

    async def _is_same(self, then: Snapshot, now: Snapshot) -> bool:
        """Return whether two snapshots have the same content, but for the goal file.

        What the goal file says is compared by the key.
        """
        if then.id == now.id:
            return True
        # A snapshot that is gone cannot be compared.
        with contextlib.suppress(WorkspaceError):
            if self._free and await keeps(self._store.git, then):
                changes = await self._store.all_changes(then, now)
                return all(change.path in self._free for change in changes)
        return False

    def _results(self, baseline: KeptBaseline) -> Results:
        """Return the results of a baseline, with their outputs as files."""
        answers = []
        for result, output in zip(baseline.results, baseline.outputs, strict=True):
            path = self._scratch(".out")
            path.write_bytes(output.encode("latin-1"))
            answers.append((ValidatorResult(**dict(result)), path))
        return Results(
            tuple(answers), changed=baseline.changed, written=baseline.written
        )

    def _key_of(self, content: str) -> BaselineKey:
        config = self._config
        settings = config.goal.workspace.model_dump(mode="json", exclude={"path"})
        specs = [spec.model_dump(mode="json") for spec in self._specs]
        environ = config.command_environ
        return BaselineKey(
            content=_digest(content),
            checks=_digest(settings, specs, config.sandbox.name),
            environment=_digest(sorted(environ.items())),
            programs=_digest(_installed(self._specs, environ)),
        )


def _digest(*values: object) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def _installed(
    specs: Iterable[ValidatorSpec], environ: Mapping[str, str]
) -> list[tuple[str, int, int]]:
    """Return the programs that validators name, and the folders of PATH, with a stamp.

    With these folders go those of Python packages beside them. An installation changes
    the time of the folder that it installs in.
    """
    search = environ.get("PATH", os.defpath)
    paths: set[str] = set()
    for spec in specs:
        for program in programs(spec.run) if spec.run else ():
            if program.name:
                paths.add(shutil.which(program.name, path=search) or program.name)
    folders = {Path(folder) for folder in search.split(os.pathsep) if folder}
    # Programs of `pip install --user` and `uv tool` are there, on PATH or not.
    if home := environ.get("HOME"):
        folders.add(Path(home, ".local", "bin"))
    for folder in folders:
        # Unlike Path.glob, it finds nothing in a folder that is closed to this user.
        packages = glob("lib*/python3*/*-packages", root_dir=folder.parent)  # noqa: PTH207
        paths.add(str(folder))
        paths |= {str(folder.parent / name) for name in packages}
    return [_stamp(path) for path in sorted(paths)]


def _stamp(path: str) -> tuple[str, int, int]:
    """Return a path, its size unless it is a folder, and its time of change.

    Size and time are 0 if it does not exist.
    """
    try:
        info = Path(path).stat()
    except (OSError, ValueError):
        return path, 0, 0
    return path, 0 if stat.S_ISDIR(info.st_mode) else info.st_size, info.st_mtime_ns
