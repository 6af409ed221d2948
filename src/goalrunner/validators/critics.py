"""Critics that run code: a command line, a Python callable in a child process, and a callable of the calling program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from goalrunner.core.agent_ports import Recorder
from goalrunner.core.goal_tables import DEFAULT_VALIDATOR_TIMEOUT, RunVariable, ValidatorSpec
from goalrunner.core.ports import AuditRequest, Launcher, ValidationContext
from goalrunner.core.verdict import Critique, critique_of, failed_critique, last_line_critique
from goalrunner.system.launcher import SHELL, tail_of
from goalrunner.validators.kinds import PythonValidator, called
from goalrunner.validators.spec_validator import Answer, Place, SpecValidator, feedback_of

_BYTES = 65_536

Opened = tuple[Launcher, Path, Mapping[str, str]]
"""A launcher, the workspace as its commands see it, and their environment."""


class SpecCritic:
    """Runs a command line or a Python callable in a place whose writes are dropped afterwards."""

    def __init__(
        self, run: str | None, python: str | None, open_place: Callable[[], AbstractAsyncContextManager[Opened]]
    ) -> None:
        variables: tuple[RunVariable, ...] = get_args(RunVariable)
        self._spec = ValidatorSpec(name="critic", run=run, python=python, pass_env=variables)
        self._open_place = open_place

    async def review(self, context: ValidationContext, evidence: AuditRequest, recorder: Recorder) -> Critique:
        """Run it once. Raise EnvironmentFailed."""
        async with self._open_place() as (launcher, workspace, env):
            kind = _Command if self._spec.run is not None else _Callable
            context = replace(context, workspace=workspace)
            result, output = await kind(self._spec, launcher, env).validate(context)
        if output is not None:
            output.unlink(missing_ok=True)
        if not result.passed:
            return failed_critique(result.summary)
        return last_line_critique(result.feedback)


class _Command(SpecValidator):
    """Runs the command with the response on stdin; the end of its output becomes the feedback."""

    async def _checked(self, context: ValidationContext, place: Place) -> Answer:
        errors, given = context.scratch(".err"), context.response.encode(errors="replace")
        completion = await self._launch([SHELL, "-c", self.command], context, place, given, errors)
        message = feedback_of(errors)
        errors.unlink(missing_ok=True)
        result = self._cut_short(completion)
        if result is None and completion.exit_code:
            last = (message or feedback_of(completion.output)).splitlines()[-1:]
            result = self._result("red", ": ".join([f"exit {completion.exit_code}", *last]), completion)
        result = result or self._result("passed", "", completion, feedback=tail_of(completion.output, _BYTES))
        return result, completion.output if completion.output.exists() else None


class _Callable(PythonValidator):
    """Calls the function in a child process, which checks the form of the score."""

    scores = True


class CallableCritic:
    """Calls `function(response, agent)` in this process; `agent` is the conversation, with `messages`."""

    def __init__(self, function: Callable[..., Any], *, timeout: float | None = DEFAULT_VALIDATOR_TIMEOUT) -> None:
        self._function = function
        self._timeout = timeout

    async def review(self, context: ValidationContext, evidence: AuditRequest, recorder: Recorder) -> Critique:
        """Call it once. Raise UnusableCritiqueError."""
        critique, _, why = await called(self._function, context, self._timeout, critique_of)
        return critique or failed_critique(why.splitlines()[-1])
