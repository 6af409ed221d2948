"""The base classes of validators: results, and what a goal file says of a validator."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from goalrunner.core.activity import running
from goalrunner.core.errors import one_line, shortened
from goalrunner.core.goal_tables import RunVariable, ValidatorSpec
from goalrunner.core.ports import Completion, Launcher, ValidationContext
from goalrunner.core.shell_programs import label
from goalrunner.core.verdict import FEEDBACK_TAIL, NOT_PASSED, ValidatorResult
from goalrunner.validators import output_search
from goalrunner.validators.output_end import feedback_of
from goalrunner.validators.output_search import search_command, why_no_match

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
    """Return the variables of the run that a validator gets.

    They are named in its line or in `pass_env`.
    """
    return tuple(dict.fromkeys((*spec.pass_env, *variables_named(spec.run or ""))))


def name_of(spec: ValidatorSpec) -> str:
    """Return the name of a validator, or one made from what it runs.

    `pytest -q` is "pytest", `checks:covers` is "covers".
    """
    if spec.name:
        return spec.name
    if spec.python is not None:
        function = spec.python.rpartition(":")[2]
        return (function or spec.python)[:_LONGEST_NAME]
    return label(spec.run or "")[:_LONGEST_NAME] or "check"


@dataclass(frozen=True)
class CheckPlace:
    """Where a validator runs."""

    workspace: Path
    folder: Path
    """The folder in which its command starts."""
    env: Mapping[str, str]
    """All environment variables of its command."""
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
            feedback = ""
            if completion is not None and reason != "passed":
                feedback = feedback_of(completion.output)
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
        """Return a result with feedback of its own.

        A very long one is shortened; its summary is a line of it.
        """
        lines = feedback.strip().splitlines() or [NOT_PASSED]
        if reason == "passed":
            summary = "passed"
        elif reason == "red":
            summary = lines[0]
        else:
            # The last line of a traceback names the error.
            summary = lines[-1]
        short_feedback = shortened(feedback, 4 * FEEDBACK_TAIL)
        return self._result(reason, summary, completion, short_feedback)


class SpecValidator(NamedValidator, ABC):
    """A validator of a goal file.

    `env` is the whole environment of the checks, without the providers' keys. Variables
    of the run are added if the line of the spec or `pass_env` names them. No other
    variable shows code under test that it is being checked: settings of `goal` itself
    are passed only if the line names them.
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
        """Run it, and again while it is red and has retries.

        Green after red is green, and its summary says so.
        """
        most_tries = (self._spec.retries or 0) + 1
        tries, duration = 1, 0.0
        result, output = await self._attempt(context)
        while not result.passed and result.reason not in _FINAL and tries < most_tries:
            if output is not None:
                output.unlink(missing_ok=True)
            tries += 1
            duration += result.duration
            result, output = await self._attempt(context)
        fields: dict[str, object] = {
            "steady": result.steady and most_tries == 1,
            "duration": duration + result.duration,
        }
        if tries > 1:
            how = f"failed {tries} times"
            if result.passed:
                how = f"passed at try {tries} of {most_tries}"
            fields["summary"] = f"{result.summary}, {how}"
        return result.model_copy(update=fields), output

    async def _attempt(self, context: ValidationContext) -> Answer:
        """Run it once, in the folder and with the variables of its spec."""
        workspace = Path(os.path.realpath(context.workspace))
        folder = Path(os.path.realpath(workspace / self._spec.cwd))
        # A link in the workspace may lead out of it.
        if not folder.is_relative_to(workspace):
            problem = f'cwd "{self._spec.cwd}" leads out of the workspace {workspace}'
            return self._answered("not_found", problem), None
        if not folder.is_dir():
            problem = f"the folder {folder} does not exist"
            return self._answered("not_found", problem), None
        # Written only if the line asks for it: it may be large.
        response = context.scratch(".response.txt")
        variables = self._variables(context, response)
        shared = (response,) if "GOAL_RESPONSE_FILE" in variables else ()
        env = {**self._inherited(), **self._spec.env, **variables}
        try:
            if shared:
                response.write_bytes(context.response.encode(errors="replace"))
            place = CheckPlace(context.workspace, folder, env, shared)
            return await self._attempt_in(context, place)
        except (OSError, ValueError) as error:
            problem = f"could not be run: {error}"
            return self._result("crashed", problem, feedback=str(error)), None
        finally:
            response.unlink(missing_ok=True)

    def _inherited(self) -> dict[str, str]:
        """Return the environment of the checks, without settings of `goal` itself."""
        unnamed = {name for name in _SETTINGS if name not in self.command}
        return {name: self._env[name] for name in self._env if name not in unnamed}

    def _variables(self, context: ValidationContext, response: Path) -> dict[str, str]:
        """Return the variables of the run that the validator gets."""
        # An environment string holds no NUL.
        objective = context.objective.replace("\0", " ").encode(errors="replace")
        # The cut may go through a character.
        short_objective = objective[:LONGEST_OBJECTIVE].decode(errors="ignore")
        values: dict[RunVariable, str] = {
            "GOAL_RUN_ID": context.run_id,
            "GOAL_ITERATION": str(context.iteration),
            "GOAL_OBJECTIVE": short_objective,
            "GOAL_RESPONSE_FILE": str(response),
        }
        return {name: values[name] for name in passed_variables(self._spec)}

    @abstractmethod
    async def _attempt_in(
        self, context: ValidationContext, place: CheckPlace
    ) -> Answer:
        """Run it once in this place."""

    async def _launch(
        self,
        argv: Sequence[str],
        context: ValidationContext,
        place: CheckPlace,
        stdin: bytes | None = None,
        errors: Path | None = None,
    ) -> Completion:
        """Run a command to its end or its deadline.

        `errors` is a file of its own for stderr.
        """
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
        """Return why a pattern is not found in a whole file; empty if it is."""
        scratch = context.scratch(".search")
        completion = await self._launcher.launch(
            search_command(pattern, path),
            cwd=path.parent,
            env=self._env,
            output=scratch,
            timeout=output_search.SEARCH_TIMEOUT,
        )
        scratch.unlink(missing_ok=True)
        return why_no_match(pattern, completion)

    def _cut_short(self, completion: Completion) -> ValidatorResult | None:
        """Return the result of a process that did not end by itself.

        It was not started, or ended by a deadline or a signal. None if it did.
        """
        if completion.timed_out:
            timeout = self._spec.timeout
            limit = completion.duration if timeout is None else timeout
            return self._result("timeout", f"timed out after {limit:g} s", completion)
        if completion.error and completion.exit_code in (126, 127):
            return self._result("not_found", completion.error, completion)
        if completion.error or completion.exit_code is None:
            problem = completion.error or "ended by a signal"
            return self._result("crashed", problem, completion)
        return None
