"""What validators share: results and the end of an output; for those of a goal file: name, folder, environment, retries."""

from __future__ import annotations

import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from goalrunner.core.errors import one_line, shortened
from goalrunner.core.goal_tables import RunVariable, ValidatorSpec
from goalrunner.core.ports import Completion, Launcher, ValidationContext, running
from goalrunner.core.shell_programs import label
from goalrunner.core.verdict import FEEDBACK_TAIL, NOT_PASSED, ValidatorResult
from goalrunner.system.launcher import tail_of

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_BYTES = 16 * FEEDBACK_TAIL
"""Enough for the characters of the tail and the colour codes among them."""
_LONGEST_LINE = 1_000


def feedback_of(path: Path) -> str:
    """Return the last FEEDBACK_TAIL characters of a file, without colour codes; empty if there is no file.

    A longer text begins with a whole line, if that is not very long.
    """
    text = _COLOUR.sub("", tail_of(path, _BYTES)).strip()
    tail = text[-FEEDBACK_TAIL:]
    return (
        text
        if len(text) <= FEEDBACK_TAIL
        else tail[tail.find("\n", 0, _LONGEST_LINE) + 1 :]
    )


def text_of_end(path: Path, most: int) -> tuple[str, bool]:
    """Return the last `most` bytes of an output without colour codes and very long lines, and whether they are all of it."""
    lines = _COLOUR.sub("", tail_of(path, most)).split("\n")
    short = "\n".join(
        line.rstrip("\r") if len(line) <= _LONGEST_LINE else "" for line in lines
    )
    return short, not path.exists() or path.stat().st_size <= most


SEARCH_TIMEOUT = 20.0
"""Seconds. A search that takes longer, because its pattern backtracks, makes the result red."""

_FOUND, _ABSENT = 10, 11
"""Exit codes of the child that searches; the interpreter itself does not use them."""
_SEARCH = f"""
import re, sys
with open(sys.argv[2], "rb") as file:
    text = file.read().decode(errors="replace")
sys.exit({_FOUND} if re.search(sys.argv[1], text, re.MULTILINE) else {_ABSENT})
"""

LONGEST_OBJECTIVE = 100_000
"""Bytes of GOAL_OBJECTIVE; an environment string holds 128 KiB at most."""
_SETTINGS = ("GOAL_HOME", "GOAL_AGENT", "GOAL_MODEL", "GOAL_JUDGE")
"""Settings of `goal` itself, which a user may have exported."""
_LONGEST_NAME = 40
_FINAL = frozenset({"not_found", "invalid_result"})
"""Reasons that another try cannot change."""

Reason = Literal["passed", "red", "timeout", "crashed", "not_found", "invalid_result"]
Answer = tuple[ValidatorResult, Path | None]
"""A result and the file with the whole output."""


def variables_named(text: str) -> tuple[RunVariable, ...]:
    """Return the variables of the run whose names a text contains."""
    names: tuple[RunVariable, ...] = get_args(RunVariable)
    return tuple(name for name in names if name in text)


def passed_variables(spec: ValidatorSpec) -> tuple[RunVariable, ...]:
    """Return the variables of the run that a validator gets: those in its line and in `pass_env`."""
    return tuple(dict.fromkeys((*spec.pass_env, *variables_named(spec.run or ""))))


def name_of(spec: ValidatorSpec) -> str:
    """Return its name, or one made from what it runs: `pytest -q` is "pytest", `checks:covers` is "covers"."""
    if spec.name:
        return spec.name
    if spec.python is not None:
        return (spec.python.rpartition(":")[2] or spec.python)[:_LONGEST_NAME]
    return label(spec.run or "")[:_LONGEST_NAME] or "check"


@dataclass(frozen=True)
class CheckPlace:
    """Where a validator runs: the workspace, the folder in which its command starts, and its environment variables."""

    workspace: Path
    folder: Path
    env: Mapping[str, str]
    shared: tuple[Path, ...] = ()
    """Files and folders of the runner that it may read and write."""


class NamedValidator:
    """What all validators have. Subclasses implement the port `Validator`."""

    name: str
    command: str
    serial: bool
    hidden: bool

    def _result(
        self,
        reason: Reason,
        summary: str,
        completion: Completion | None = None,
        feedback: str | None = None,
    ) -> ValidatorResult:
        """Return a result; a red one without feedback has the end of the output."""
        if feedback is None:
            feedback = (
                feedback_of(completion.output)
                if completion and reason != "passed"
                else ""
            )
        return ValidatorResult(
            name=self.name,
            passed=reason == "passed",
            reason=reason,
            summary=one_line(summary),
            feedback=feedback,
            command=self.command,
            exit_code=completion.exit_code if completion else None,
            duration=completion.duration if completion else 0.0,
            hidden=self.hidden,
        )

    def _answered(
        self, reason: Reason, feedback: str, completion: Completion | None = None
    ) -> ValidatorResult:
        """Return a result with feedback of its own. A very long one is shortened; its summary is a line of it."""
        lines = feedback.strip().splitlines() or [NOT_PASSED]
        summary = (
            "passed"
            if reason == "passed"
            else lines[0]
            if reason == "red"
            else lines[-1]
        )
        return self._result(
            reason, summary, completion, shortened(feedback, 4 * FEEDBACK_TAIL)
        )


class SpecValidator(NamedValidator, ABC):
    """A validator of a goal file.

    `env` is the whole environment of the checks, without the providers' keys. Variables of the run are added if the line
    of the spec or `pass_env` names them. No other variable tells code under test that it is being checked: settings of
    `goal` itself are passed only if the line names them.
    """

    def __init__(
        self, spec: ValidatorSpec, launcher: Launcher, env: Mapping[str, str]
    ) -> None:
        self._spec = spec
        self._launcher = launcher
        self._env = dict(env)
        self.name = name_of(spec)
        self.command = spec.run or spec.python or ""
        self.serial = spec.serial
        self.hidden = spec.hidden

    async def validate(self, context: ValidationContext) -> Answer:
        """Run it, and again while it is red and has retries. Green after red is green, and its summary says so."""
        tries, number, duration = (self._spec.retries or 0) + 1, 1, 0.0
        result, output = await self._once(context)
        while not result.passed and result.reason not in _FINAL and number < tries:
            if output is not None:
                output.unlink(missing_ok=True)
            number, duration = number + 1, duration + result.duration
            result, output = await self._once(context)
        fields: dict[str, object] = {
            "steady": result.steady and tries == 1,
            "duration": duration + result.duration,
        }
        if number > 1:
            how = (
                f"passed at try {number} of {tries}"
                if result.passed
                else f"failed {number} times"
            )
            fields["summary"] = f"{result.summary}, {how}"
        return result.model_copy(update=fields), output

    async def _once(self, context: ValidationContext) -> Answer:
        workspace = Path(os.path.realpath(context.workspace))
        cwd = Path(os.path.realpath(workspace / self._spec.cwd))
        if not cwd.is_relative_to(workspace):
            return self._answered(
                "not_found",
                f'cwd "{self._spec.cwd}" leads out of the workspace {workspace}',
            ), None
        if not cwd.is_dir():
            return self._answered("not_found", f"the folder {cwd} does not exist"), None
        response = context.scratch(".response.txt")
        objective = context.objective.replace("\0", " ").encode(errors="replace")[
            :LONGEST_OBJECTIVE
        ]
        values = {
            "GOAL_RUN_ID": context.run_id,
            "GOAL_ITERATION": str(context.iteration),
            "GOAL_OBJECTIVE": objective.decode(errors="ignore"),
            "GOAL_RESPONSE_FILE": str(response),
        }
        passed: dict[str, str] = {
            name: values[name] for name in passed_variables(self._spec)
        }
        inherited = {
            key: value
            for key, value in self._env.items()
            if key not in _SETTINGS or key in self.command
        }
        shared = (response,) if "GOAL_RESPONSE_FILE" in passed else ()
        try:
            if shared:
                response.write_bytes(context.response.encode(errors="replace"))
            place = CheckPlace(
                context.workspace,
                cwd,
                {**inherited, **self._spec.env, **passed},
                shared,
            )
            return await self._checked(context, place)
        except (OSError, ValueError) as error:
            return self._result(
                "crashed", f"could not be run: {error}", feedback=str(error)
            ), None
        finally:
            response.unlink(missing_ok=True)

    @abstractmethod
    async def _checked(self, context: ValidationContext, place: CheckPlace) -> Answer:
        """Run it once."""

    async def _launch(
        self,
        argv: Sequence[str],
        context: ValidationContext,
        place: CheckPlace,
        stdin: bytes | None = None,
        errors: Path | None = None,
    ) -> Completion:
        """Run a command to its end or its deadline; `errors` is a file of its own for stderr."""
        with running(self.name, self.command, context.scratch(".out")) as output:
            return await self._launcher.launch(
                argv,
                cwd=place.folder,
                env=place.env,
                output=output,
                timeout=self._spec.timeout,
                shared=place.shared,
                stdin=stdin,
                errors=errors,
            )

    async def _mismatch(
        self, pattern: str, path: Path, context: ValidationContext
    ) -> str:
        """Return why `pattern` (Python's re, multiline) is not found in the whole file; empty if it is."""
        argv = [
            sys.executable,
            "-I",
            "-S",
            "-X",
            "utf8",
            "-c",
            _SEARCH,
            pattern,
            str(path),
        ]
        scratch = context.scratch(".search")
        completion = await self._launcher.launch(
            argv, cwd=path.parent, env=self._env, output=scratch, timeout=SEARCH_TIMEOUT
        )
        scratch.unlink(missing_ok=True)
        if completion.timed_out:
            return f"searching for the pattern {pattern!r} took more than {SEARCH_TIMEOUT:g} s"
        if completion.exit_code in (_FOUND, _ABSENT):
            return (
                ""
                if completion.exit_code == _FOUND
                else f"the output does not match {pattern!r}"
            )
        return f"the pattern {pattern!r} could not be searched for: {completion.error or completion.exit_code}"

    def _cut_short(self, completion: Completion) -> ValidatorResult | None:
        """Return the result of a process that did not end by itself: not started, a deadline, a signal; else None."""
        if completion.timed_out:
            limit = (
                self._spec.timeout
                if self._spec.timeout is not None
                else completion.duration
            )
            return self._result("timeout", f"timed out after {limit:g} s", completion)
        if completion.error and completion.exit_code in (126, 127):
            return self._result("not_found", completion.error, completion)
        if completion.error or completion.exit_code is None:
            return self._result(
                "crashed", completion.error or "ended by a signal", completion
            )
        return None
