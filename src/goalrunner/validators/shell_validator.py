"""Command lines as validators."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.ports import Completion, Launcher, ValidationContext, Validator
from goalrunner.core.runner_calls import calls
from goalrunner.core.tools import PYTEST_NO_TESTS
from goalrunner.core.verdict import ValidatorResult
from goalrunner.system.event_loop import in_thread
from goalrunner.system.launcher import SHELL
from goalrunner.validators.command_obstacles import (
    missing_in_pipe,
    obstacle,
    unexecutable_script,
)
from goalrunner.validators.contradictions import contradiction
from goalrunner.validators.junit_report import copying_command
from goalrunner.validators.known_failures import judged, judged_at_start
from goalrunner.validators.output_end import feedback_of, text_of_end
from goalrunner.validators.python_validators import PythonValidator
from goalrunner.validators.runner_output import Output
from goalrunner.validators.runner_reports import (
    Reports,
    Watch,
    is_refused,
    read_all,
    watch,
)
from goalrunner.validators.spec_validator import (
    Answer,
    CheckPlace,
    SpecValidator,
    name_of,
    passed_variables,
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
"""Seconds for copying the JUnit files of a check."""
# A program may use 126 and 127 for its own errors, so the message must agree.
_NOT_FOUND = re.compile(
    r"not found|no such file|permission denied|cannot execute", re.IGNORECASE
)


class ShellValidator(SpecValidator):
    """Runs `spec.run` through `sh -c` in the workspace of the context.

    `base` is its result at the baseline, which `known_failures` is about. `goal_folder`
    is that of the goal file, for messages.
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

    async def _attempt_in(
        self, context: ValidationContext, place: CheckPlace
    ) -> Answer:
        result, output = await self._run_line(context, place)
        if context.iteration > 0:
            return judged(self._base, result, self._spec), output
        second_result = None
        # At the baseline a failure must be seen twice to be known.
        if self._spec.known_failures and not result.passed and result.tests is not None:
            second_result, second_output = await self._run_line(context, place)
            if second_output is not None:
                second_output.unlink(missing_ok=True)
        first_result = result
        result = judged_at_start(
            first_result, second_result, self._spec, place.workspace
        )
        return result, output

    async def _run_line(self, context: ValidationContext, place: CheckPlace) -> Answer:
        """Run the line once.

        `fixes` and `known_failures` are not applied to the result.
        """
        # The reader follows scripts in the workspace, which may be slow to read.
        reader: SuiteReader = await in_thread(
            SuiteReader, self._spec, self._calls, place.folder, place.workspace
        )
        place = replace(place, env=reader.environment(place.env))
        completion, reports = await self._run_reporting(context, place, reader.texts)
        reading: SuiteReading = await in_thread(
            reader.read, completion.output, context.scratch(".plain"), reports
        )
        result = self._cut_short(completion)
        if result is None:
            result = await self._result_of_end(context, completion, reading, reports)
        result = _with_tests(result, reading, reports)
        result = self._with_obstacle(result, reading.output.text, context, place)
        if not result.passed and no_test_ran(self._calls, reading, reports):
            result = self._with_folders(result, place)
        # What gets a variable of the run may give another result in each round.
        result = result.model_copy(update={"steady": not passed_variables(self._spec)})
        return result, completion.output if completion.output.exists() else None

    def _with_obstacle(
        self,
        result: ValidatorResult,
        output: str,
        context: ValidationContext,
        place: CheckPlace,
    ) -> ValidatorResult:
        """Return the result, marked as unrunnable if only a person can help."""
        why = missing_in_pipe(result, output, place)
        if not why and not result.passed:
            why = self._obstacle(result, context, place)
        if not why:
            return result
        reason = "red" if result.passed else result.reason
        update = {
            "passed": False,
            "reason": reason,
            "cannot_run": True,
            "summary": why,
        }
        return result.model_copy(update=update)

    def _obstacle(
        self, result: ValidatorResult, context: ValidationContext, place: CheckPlace
    ) -> str:
        """Return why the line cannot work on this machine; empty if it can."""
        at_start = context.iteration == 0
        why = obstacle(result, place, at_start=at_start)
        if why or not at_start:
            return why
        goal_text = "\n".join((context.objective, *context.criteria))
        return unexecutable_script(result, place, goal_text)

    def _with_folders(
        self, result: ValidatorResult, place: CheckPlace
    ) -> ValidatorResult:
        """Return a result that names the folder of the validator and the goal file's.

        If both are the same folder, the result is returned as it is.
        """
        # A person may expect the tests beside the goal file.
        if self._goal_folder is None or self._goal_folder == place.folder:
            return result
        summary = (
            f"{result.summary}; the validator ran in {place.folder};"
            f" the goal file is in {self._goal_folder}"
        )
        return result.model_copy(update={"summary": summary})

    async def _run_reporting(
        self, context: ValidationContext, place: CheckPlace, texts: str
    ) -> tuple[Completion, Reports]:
        """Run the line; return its end, and what its test runners reported."""
        folder = context.scratch(".tests")
        try:
            watched: Watch = await in_thread(
                watch, folder, self.command, self._calls, texts, place.env
            )
            if watched.is_needed:
                completion = await self._run_watched(watched, context, place)
                printed, _ = text_of_end(completion.output, _BYTES)
                if not is_refused(watched, printed):
                    reports: Reports = await in_thread(
                        read_all, watched, place.folder, context.workspace
                    )
                    return completion, reports
                # The runner did not start because of what makes it report.
                completion.output.unlink(missing_ok=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        argv = [SHELL, "-c", self.command]
        return await self._launch(argv, context, place), Reports()

    async def _run_watched(
        self, watched: Watch, context: ValidationContext, place: CheckPlace
    ) -> Completion:
        """Run the line so that its test runners report."""
        shared = (*place.shared, watched.folder)
        watched_place = replace(place, env=watched.env, shared=shared)
        argv = [SHELL, "-c", watched.line]
        completion = await self._launch(argv, context, watched_place)
        if watched.watches_junit:
            await self._copy_junit(context, watched_place, watched.folder)
        return completion

    async def _copy_junit(
        self, context: ValidationContext, place: CheckPlace, folder: Path
    ) -> None:
        """Copy the JUnit files that the check wrote into a folder.

        Only the check environment may have them, so a child process there copies.
        """
        output = context.scratch(".junit")
        await self._launcher.launch(
            copying_command(sys.executable, place.workspace, folder),
            cwd=place.folder,
            env=place.env,
            output=output,
            timeout=_JUNIT_TIMEOUT,
            shared=place.shared,
        )
        output.unlink(missing_ok=True)

    async def _result_of_end(
        self,
        context: ValidationContext,
        completion: Completion,
        reading: SuiteReading,
        reports: Reports,
    ) -> ValidatorResult:
        """Return the result of a line that ended by itself."""
        code, expect = completion.exit_code, self._spec.expect
        may_be_empty = self._spec.tests == "optional"
        # pytest has an exit code of its own for no tests, which `optional` allows.
        is_empty = (
            may_be_empty
            and code == PYTEST_NO_TESTS
            and is_without_tests(reading, reports)
        )
        if (code is None or code != expect.exit_code) and not is_empty:
            return self._unexpected(completion, reading.output)
        if code == 0:
            against = contradiction(
                self.command, reading, reports, optional=may_be_empty
            )
            if against is not None:
                tail = feedback_of(completion.output)
                feedback = f"{against.summary}.\n{against.rule}\n\n{tail}".strip()
                return self._result("red", against.summary, completion, feedback)
        if expect.output is not None:
            wrong = await self._mismatch(expect.output, completion.output, context)
            if wrong:
                return self._result("red", f"exit {code}, but {wrong}", completion)
        summary = reading.output.summary(code or 0, passed=True)
        return self._result("passed", summary, completion)

    def _unexpected(self, completion: Completion, output: Output) -> ValidatorResult:
        """Return the red result of an exit code that is not the expected one."""
        code, expected = completion.exit_code, self._spec.expect.exit_code
        tail = feedback_of(completion.output)
        # The shell's message names the program; other output comes before it.
        if code in (126, 127) and _NOT_FOUND.search(tail):
            return self._result("not_found", tail.splitlines()[-1], completion)
        summary = output.summary(code or 0, passed=False)
        if expected:
            summary += f", expected {expected}"
        return self._result("red", summary, completion)


def _with_tests(
    result: ValidatorResult, reading: SuiteReading, reports: Reports
) -> ValidatorResult:
    """Return a result with the tests of its run."""
    is_below = not result.passed and is_below_threshold(reading)
    facts = {
        "proves": proves(result, reading.tests, reports),
        "below_threshold": is_below,
    }
    update: dict[str, object] = {
        "suite": reading.record.model_copy(update=facts),
        "tests": reading.tests,
    }
    if reports.pytest is not None and reports.has_pytest:
        update["tests_run"] = reports.pytest.run
        update["tests_failed"] = reports.pytest.failed
    return result.model_copy(update=update)


def build_validators(
    specs: Sequence[ValidatorSpec],
    launcher: Launcher,
    env: Mapping[str, str],
    base: Mapping[str, ValidatorResult] | None = None,
    goal_folder: Path | None = None,
) -> tuple[Validator, ...]:
    """Return a validator for each spec, in order.

    Each has a name of its own: `pytest`, then `pytest-2`. `env` is the whole
    environment of the checks, without the providers' keys; what a spec names is added
    to it. `base` are the results of the baseline, by name. `goal_folder` is that of the
    goal file, absolute and without links.
    """
    results = base or {}
    validators: dict[str, Validator] = {}
    for spec in specs:
        name = _free_name(name_of(spec), validators)
        named = spec.model_copy(update={"name": name})
        if spec.python is not None:
            validators[name] = PythonValidator(named, launcher, env)
        else:
            validators[name] = ShellValidator(
                named, launcher, env, results.get(name), goal_folder
            )
    return tuple(validators.values())


def _free_name(name: str, used: Mapping[str, object]) -> str:
    free_name, number = name, 1
    while free_name in used:
        number += 1
        free_name = f"{name}-{number}"
    return free_name
