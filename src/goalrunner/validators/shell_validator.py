"""Command lines as validators, and what stands against their exit code 0."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.ports import Completion, Launcher, ValidationContext, Validator
from goalrunner.core.runner_calls import calls
from goalrunner.core.shell_programs import programs
from goalrunner.core.tools import PYTEST, PYTEST_NO_TESTS
from goalrunner.core.verdict import ValidatorResult
from goalrunner.system.launcher import SHELL, in_thread
from goalrunner.validators.command_lines import (
    missing_in_pipe,
    obstacle,
    unexecutable_script,
)
from goalrunner.validators.junit_report import copying_command
from goalrunner.validators.known_failures import judged, judged_at_start
from goalrunner.validators.python_validators import PythonValidator
from goalrunner.validators.runner_output import Output
from goalrunner.validators.runner_reports import (
    Reports,
    Watch,
    is_refused,
    read_all,
    watch,
)
from goalrunner.validators.runners import Summary
from goalrunner.validators.spec_validator import (
    Answer,
    CheckPlace,
    SpecValidator,
    feedback_of,
    name_of,
    passed_variables,
    text_of_end,
)
from goalrunner.validators.suite_facts import (
    is_below_threshold,
    is_without_tests,
    no_test_ran,
    proves,
)
from goalrunner.validators.suites import SuiteReader, SuiteReading

_BYTES = 1_000_000
"""Bytes at the end of an output in which a runner says that it could not start."""
_JUNIT_TIMEOUT = 60.0
_NOT_FOUND = re.compile(
    r"not found|no such file|permission denied|cannot execute", re.IGNORECASE
)
_FAILURES = (
    "A validator whose test runner reports failures fails, whatever its exit code. Failures that are meant to be there "
    "must be marked in the tests (xfail, skip), or wanted by the goal file: expect = { exit_code = 1 }."
)
_ABSENCE = (
    "A validator that calls pytest passes if that pytest itself ran tests to its end and reported to the runner. "
    "Another program named pytest, an exit from within the tests, and a run without any test count as failed."
)
_NO_TEST = (
    "A validator whose test runner runs no test fails: there are none, its command selects none, or all are skipped. "
    'The goal file can allow this: tests = "optional" in [[validators]].'
)
_EARLY = "Its process must not end before its last test."


def contradiction(
    line: str, reading: SuiteReading, reports: Reports, *, optional: bool = False
) -> tuple[str, str] | None:
    """Return why exit code 0 of a line does not count, and the rule for the agent; None if it does.

    `optional`: no test need run.
    """
    report, output = reports.pytest, reading.output
    if (
        report is not None
        and (reports.is_direct or report.cut_off)
        and (problem := report.problem(reports.needed))
    ):
        return (
            f"exit 0, but {problem}",
            _FAILURES if report.failed and not report.unreadable else _ABSENCE,
        )
    failing = [
        *_at_the_end(line, output),
        *_of_calls(line, output, has_report=reports.has_pytest),
    ]
    if failing:
        return f"exit 0, but its summary reports {failing[0].says}", _FAILURES
    if program := reading.record.ended_early or ("unittest" if reports.cut_off else ""):
        return (
            f"exit 0, but {program} started and was ended before its result (an exit in the code under test?)",
            _EARLY,
        )
    if not optional and (why := no_test_ran(calls(line), reading, reports)):
        return f"exit 0, but {why}", _NO_TEST
    return None


def _at_the_end(line: str, output: Output) -> Iterator[Summary]:
    """Yield summaries with failures that end the output, of whatever program."""
    if any(program.negated for program in programs(line)):
        return
    for runner in output.summaries:
        summary = output.last(runner)
        if summary and summary.says and not output.text[summary.end :].strip():
            yield summary


def _of_calls(line: str, output: Output, *, has_report: bool) -> Iterator[Summary]:
    """Yield summaries with failures of the runners that the line itself calls."""
    for call in calls(line):
        program, summary = call.program, output.last(call.runner.name)
        is_reported = has_report and call.runner is PYTEST
        is_decisive = (
            call.tests and not program.negated and (program.lost or program.last)
        )
        if summary and summary.says and is_decisive and not is_reported:
            yield summary


class ShellValidator(SpecValidator):
    """Runs `spec.run` through `sh -c` in the workspace of the context.

    `base` is its result at the baseline, which `known_failures` is about. `goal_folder` is that of the goal file, for messages.
    """

    def __init__(
        self,
        spec: ValidatorSpec,
        launcher: Launcher,
        env: Mapping[str, str],
        base: ValidatorResult | None = None,
        goal_folder: Path | None = None,
    ) -> None:
        super().__init__(spec, launcher, env)
        self._calls = calls(self.command)
        self._base = base
        self._goal_folder = goal_folder

    async def _checked(self, context: ValidationContext, place: CheckPlace) -> Answer:
        result, output = await self._tried(context, place)
        if context.iteration > 0:
            return judged(self._base, result, self._spec), output
        again = None
        if self._spec.known_failures and not result.passed and result.tests is not None:
            again, more = await self._tried(context, place)
            if more is not None:
                more.unlink(missing_ok=True)
        return judged_at_start(result, again, self._spec, place.workspace), output

    async def _tried(self, context: ValidationContext, place: CheckPlace) -> Answer:
        reader: SuiteReader = await in_thread(
            SuiteReader, self._spec, self._calls, place.folder, place.workspace
        )
        place = replace(place, env=reader.environment(place.env))
        completion, reports = await self._run(context, place, reader.texts)
        reading: SuiteReading = await in_thread(
            reader.read, completion.output, context.scratch(".plain"), reports
        )
        result = self._cut_short(completion) or await self._judged(
            context, completion, reading, reports
        )
        result = _with_tests(result, reading, reports)
        result = self._blamed(result, reading.output.text, context, place)
        if not result.passed and no_test_ran(self._calls, reading, reports):
            result = self._located(result, place)
        result = result.model_copy(update={"steady": not passed_variables(self._spec)})
        return result, completion.output if completion.output.exists() else None

    def _blamed(
        self,
        result: ValidatorResult,
        output: str,
        context: ValidationContext,
        place: CheckPlace,
    ) -> ValidatorResult:
        """Return a result as one that cannot run, if only a person can correct what is wrong."""
        why = missing_in_pipe(result, output, place)
        if not result.passed and not why:
            why = obstacle(result, place, at_start=context.iteration == 0)
        if not result.passed and not why and context.iteration == 0:
            why = unexecutable_script(
                result, place, "\n".join((context.objective, *context.criteria))
            )
        if not why:
            return result
        reason = "red" if result.passed else result.reason
        return result.model_copy(
            update={
                "passed": False,
                "reason": reason,
                "cannot_run": True,
                "summary": why,
            }
        )

    def _located(self, result: ValidatorResult, place: CheckPlace) -> ValidatorResult:
        """Return a result that says where the validator ran, if the goal file, and perhaps the tests, are elsewhere."""
        if self._goal_folder is None or self._goal_folder == place.folder:
            return result
        where = f"the validator ran in {place.folder}; the goal file is in {self._goal_folder}"
        return result.model_copy(update={"summary": f"{result.summary}; {where}"})

    async def _run(
        self, context: ValidationContext, place: CheckPlace, texts: str
    ) -> tuple[Completion, Reports]:
        """Run it; return the completion, and what its test runners reported."""
        folder = context.scratch(".tests")
        try:
            watched: Watch = await in_thread(
                watch, folder, self.command, self._calls, texts, place.env
            )
            if watched.is_needed:
                shared = replace(place, env=watched.env, shared=(*place.shared, folder))
                completion = await self._launch(
                    [SHELL, "-c", watched.line], context, shared
                )
                if watched.watches_junit:
                    await self._copy_junit(context, shared, folder)
                if not is_refused(watched, text_of_end(completion.output, _BYTES)[0]):
                    return completion, await in_thread(
                        read_all, watched, place.folder, context.workspace
                    )
                completion.output.unlink(missing_ok=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return await self._launch(
            [SHELL, "-c", self.command], context, place
        ), Reports()

    async def _copy_junit(
        self, context: ValidationContext, place: CheckPlace, folder: Path
    ) -> None:
        """Copy the JUnit files that the check wrote, which only the check environment may have, into a folder."""
        argv, output = (
            copying_command(sys.executable, place.workspace, folder),
            context.scratch(".junit"),
        )
        await self._launcher.launch(
            argv,
            cwd=place.folder,
            env=place.env,
            output=output,
            timeout=_JUNIT_TIMEOUT,
            shared=place.shared,
        )
        output.unlink(missing_ok=True)

    async def _judged(
        self,
        context: ValidationContext,
        completion: Completion,
        reading: SuiteReading,
        reports: Reports,
    ) -> ValidatorResult:
        expect, code, tail = (
            self._spec.expect,
            completion.exit_code,
            feedback_of(completion.output),
        )
        output, may_be_empty = reading.output, self._spec.tests == "optional"
        is_empty = (
            may_be_empty
            and code == PYTEST_NO_TESTS
            and is_without_tests(reading, reports)
        )
        if (code is None or code != expect.exit_code) and not is_empty:
            if code in (126, 127) and _NOT_FOUND.search(tail):
                return self._result("not_found", tail.splitlines()[-1], completion)
            wanted = f", expected {expect.exit_code}" if expect.exit_code else ""
            return self._result(
                "red", f"{output.summary(code or 0, passed=False)}{wanted}", completion
            )
        if code == 0 and (
            against := contradiction(
                self.command, reading, reports, optional=may_be_empty
            )
        ):
            return self._result(
                "red",
                against[0],
                completion,
                f"{against[0]}.\n{against[1]}\n\n{tail}".strip(),
            )
        if expect.output is not None and (
            wrong := await self._mismatch(expect.output, completion.output, context)
        ):
            return self._result("red", f"exit {code}, but {wrong}", completion)
        return self._result(
            "passed", output.summary(code or 0, passed=True), completion
        )


def _with_tests(
    result: ValidatorResult, reading: SuiteReading, reports: Reports
) -> ValidatorResult:
    """Return a result with the tests of its run."""
    tests = reading.tests
    about = {
        "proves": proves(result, tests, reports),
        "below_threshold": not result.passed and is_below_threshold(reading),
    }
    update: dict[str, object] = {
        "suite": reading.record.model_copy(update=about),
        "tests": tests,
    }
    if reports.pytest is not None and reports.has_pytest:
        update |= {
            "tests_run": reports.pytest.run,
            "tests_failed": reports.pytest.failed,
        }
    return result.model_copy(update=update)


def build_validators(
    specs: Sequence[ValidatorSpec],
    launcher: Launcher,
    env: Mapping[str, str],
    base: Mapping[str, ValidatorResult] | None = None,
    goal_folder: Path | None = None,
) -> tuple[Validator, ...]:
    """Return a validator for each spec, in order, every one with a name of its own: `pytest`, then `pytest-2`.

    `env` is the whole environment of the checks, without the providers' keys; what a spec names is added to it. `base`
    are the results of the baseline, by name. `goal_folder` is that of the goal file, absolute and without links.
    """
    validators: dict[str, Validator] = {}
    for spec in specs:
        name, number = name_of(spec), 1
        while name in validators:
            number += 1
            name = f"{name_of(spec)}-{number}"
        named = spec.model_copy(update={"name": name})
        if spec.python is not None:
            validators[name] = PythonValidator(named, launcher, env)
        else:
            validators[name] = ShellValidator(
                named, launcher, env, (base or {}).get(name), goal_folder
            )
    return tuple(validators.values())
