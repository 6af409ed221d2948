"""`goal` as forks of a program that has it imported: real processes, without the half second that importing takes.

    with Forks() as forks:
        died = forks.goal("run", "goal.toml", cwd=folder, kill=("after", 12))    # at its 12th event
        done = forks.goal("resume", cwd=folder)

A process is killed with -9: before or after its n-th event, or after so many seconds.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

import psutil
from pydantic import BaseModel

import goalrunner
from tests.support.command_line import Ended, environment

ROOT = Path(__file__).parents[2]
_SCRIPTS = {
    "goalrunner.__main__",
    "goalrunner.validators.pytest_plugin",
    "goalrunner.validators.unittest_watch",
}
"""Modules that do something when they are imported."""


@cache
def forks() -> Forks:
    """Return the program of this process, which ends when its input ends."""
    program = Forks()
    atexit.register(program.__exit__)
    return program


def goal(
    *arguments: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
) -> Ended:
    """Run `goal` to its end."""
    return forks().goal(*arguments, cwd=cwd, env=env, stdin=stdin)


class Forks:
    """A context manager: the program that is forked."""

    def __init__(self) -> None:
        self._program = _started()

    def goal(
        self,
        *arguments: str | Path,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        kill: tuple[str, float] | None = None,
        stdin: str = "",
    ) -> Ended:
        """Run `goal` to its end; `kill` is ("before" or "after", number of an event) or ("seconds", time)."""
        with tempfile.TemporaryDirectory() as folder:
            read, *printed = [Path(folder) / name for name in ("in", "out", "err")]
            read.write_text(stdin, encoding="utf-8")
            environ = environment(**(env or {}))
            job = {
                "arguments": [str(argument) for argument in arguments],
                "cwd": str(cwd),
                "env": environ,
                "has_key": any(name.endswith("_API_KEY") for name in environ),
                "kill": kill,
                "read": str(read),
                "printed": [str(path) for path in printed],
            }
            code = self._code_of(job)
            out, err = (path.read_text(encoding="utf-8") for path in printed)
        return Ended(code, out, err)

    def _code_of(self, job: Mapping[str, Any]) -> int:
        jobs, codes = self._program.stdin, self._program.stdout
        assert jobs is not None
        assert codes is not None
        try:
            jobs.write(json.dumps(job) + "\n")
            jobs.flush()
            return int(json.loads(codes.readline()))
        except BaseException:
            # A test took too long. The next one would get the code of this one.
            program = psutil.Process(self._program.pid)
            for process in (program, *program.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self._program.communicate()
            self._program = _started()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.communicate(timeout=20)


def _started() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.forking"],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _serve() -> None:
    from goalrunner.core.errors import UsageError
    from goalrunner.llm.library import prepare_for

    for module in pkgutil.walk_packages(goalrunner.__path__, "goalrunner."):
        if module.name not in _SCRIPTS:
            # A feature may need an extra that is not installed.
            with contextlib.suppress(UsageError, ImportError):
                importlib.import_module(module.name)  # once, for every fork
    _build_models(BaseModel)
    _compile_patterns()
    for line in sys.stdin:
        job = json.loads(line)
        if job["has_key"]:
            prepare_for("openai/any")  # LiteLLM takes seconds to import
        pid = os.fork()
        if pid == 0:
            _work(job)
        kind, number = job["kill"] or ("", 0)
        if kind == "seconds":
            time.sleep(number)
            os.kill(pid, signal.SIGKILL)
        print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])), flush=True)


def _build_models(base: type[BaseModel]) -> None:
    """Build the schemas of our models, which is put off to the first use of each: a sixth of a short run."""
    for model in base.__subclasses__():
        if model.__module__.startswith("goalrunner."):
            model.model_rebuild()
        _build_models(model)


def _compile_patterns() -> None:
    """Compile the constant lists of patterns, each of which is compiled at its first use."""
    from goalrunner.snapshots.patterns import Patterns

    for patterns in gc.get_objects():
        if isinstance(patterns, Patterns):
            patterns.match("")


def _work(job: dict[str, Any]) -> None:
    """The fork: never returns."""
    code = 70
    try:
        for number, name in enumerate(job["printed"], start=1):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600), number)
        os.dup2(os.open(job["read"], os.O_RDONLY), 0)
        os.environ.clear()
        os.environ.update(job["env"])
        sys.path[:0] = filter(
            None, os.environ.get("PYTHONPATH", "").split(os.pathsep)
        )  # as at the start of Python
        tempfile.tempdir = None  # LiteLLM's import in the program above found the folder of another environment
        os.chdir(job["cwd"])
        if job["kill"]:
            _arm(*job["kill"])
        from goalrunner.cli.main import program

        sys.argv = ["goal", *job["arguments"]]
        program()
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _arm(moment: str, number: float) -> None:
    from goalrunner.core.events import Event, Record
    from goalrunner.records.event_log import EventLog

    append = EventLog.append
    written = 0

    def killing(self: EventLog, event: Event) -> Record:
        nonlocal written
        written += 1
        if (moment, number) == ("before", written):
            os.kill(os.getpid(), signal.SIGKILL)
        record = append(self, event)
        if (moment, number) == ("after", written):
            os.kill(os.getpid(), signal.SIGKILL)
        return record

    EventLog.append = killing  # type: ignore[method-assign]


if __name__ == "__main__":
    _serve()
