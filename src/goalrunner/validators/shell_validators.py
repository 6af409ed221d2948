"""Command lines as validators, and the validators of a goal file.

A command is green by its exit code, by what its test runner reports, and by a pattern in its output.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.core.check_ports import ValidationContext, Validator
from goalrunner.core.goal import ValidatorSpec
from goalrunner.core.process_ports import Completion, Launcher
from goalrunner.core.verdict import TEST_IDS, ValidatorResult
from goalrunner.system.launcher import SHELL, in_thread
from goalrunner.validators.absent_paths import TestTree, absent_paths
from goalrunner.validators.absent_programs import Place
from goalrunner.validators.baseline_status import obstacle
from goalrunner.validators.fewer_tests import ended_early
from goalrunner.validators.junit_reports import Report
from goalrunner.validators.output import search, tail_of
from goalrunner.validators.pytest_report import PytestReporting, needed_reports, ways
from goalrunner.validators.python_validators import PythonValidator
from goalrunner.validators.runners import PYTEST_NO_TESTS, calls, contradiction, summary_of
from goalrunner.validators.spec_validator import Answer, SpecValidator, name_of, passed_variables
from goalrunner.validators.suites import SuiteReader

_NOT_FOUND = re.compile(r"not found|no such file|permission denied|cannot execute", re.IGNORECASE)


class ShellValidator(SpecValidator):
    """Runs `spec.run` through `sh -c` in the workspace of the context."""

    def __init__(self, spec: ValidatorSpec, launcher: Launcher, env: Mapping[str, str]) -> None:
        super().__init__(spec, launcher, env)
        self._calls = calls(self.command)
        self._variables = {**self._env, **spec.env}

    async def _checked(
        self, context: ValidationContext, cwd: Path, env: Mapping[str, str], shared: Sequence[Path]
    ) -> Answer:
        reader: SuiteReader = await in_thread(SuiteReader, self._spec, self._calls, cwd, context.workspace)
        completion, report, needed = await self._run(context, cwd, reader.environment(env), shared)
        reported = report if report is not None and report.files else None
        plain = context.scratch(".plain")
        suite, ids = await in_thread(reader.read, completion.output, plain, reported is not None)
        result = self._cut_short(completion) or await self._judged(completion, report, needed, context)
        if result.passed and suite.ended_early and result.exit_code == 0:
            result = ended_early(result, suite.ended_early)
        tests: dict[str, object] = {"suite": suite, "steady": not passed_variables(self._spec)}
        tests["test_ids"] = tuple(sorted({*ids, *(reported.ids if reported else ())})[:TEST_IDS])
        if reported:
            tests |= {"tests_run": reported.run, "tests_failed": reported.failed}
        result = result.model_copy(update=tests)
        place = Place(context.workspace, cwd, self._variables)
        if why := await in_thread(obstacle, result, place) or self._wrong_folder(result, context, place):
            result = result.model_copy(update={"cannot_run": True, "summary": why})
        return result, completion.output if completion.output.exists() else None

    def _wrong_folder(self, result: ValidatorResult, context: ValidationContext, place: Place) -> str:
        """Return the folder that is meant if pytest finds no test at the baseline, and tests exist elsewhere."""
        if result.exit_code != PYTEST_NO_TESTS or context.iteration:
            return ""
        found = absent_paths(self.command, place, TestTree(context.workspace), context.objective)
        meant = next((item for item in found if item.instead and not item.mistake), None)
        return f"no tests collected in {meant.word}; did you mean {meant.instead}?" if meant else ""

    async def _run(
        self, context: ValidationContext, cwd: Path, env: Mapping[str, str], shared: Sequence[Path]
    ) -> tuple[Completion, Report | None, int]:
        """Run it to its end; with what its pytest reports, and how many reports there must be."""
        for way in ways(self._calls, self.command, env):
            reporting = PytestReporting.begin(way, context.scratch(".pytest"))
            try:
                around = reporting.environment(env)
                completion = await self._launch(context, cwd, around, (*shared, reporting.folder))
                if not reporting.not_loaded(tail_of(completion.output)):
                    report: Report = await in_thread(reporting.read, cwd, context.workspace)
                    return completion, report, needed_reports(way, self._calls)
                completion.output.unlink(missing_ok=True)
            finally:
                shutil.rmtree(reporting.folder, ignore_errors=True)
        return await self._launch(context, cwd, env, shared), None, 0

    async def _launch(
        self, context: ValidationContext, cwd: Path, env: Mapping[str, str], shared: Sequence[Path]
    ) -> Completion:
        return await self._launcher.launch(
            [SHELL, "-c", self.command],
            cwd=cwd,
            env=env,
            output=context.scratch(".out"),
            timeout=self._spec.timeout,
            shared=shared,
        )

    async def _judged(
        self, completion: Completion, report: Report | None, needed: int, context: ValidationContext
    ) -> ValidatorResult:
        expect, code = self._spec.expect, completion.exit_code
        output = tail_of(completion.output)
        if code is None or code != expect.exit_code:
            if code in (126, 127) and _NOT_FOUND.search(output):
                return self._result("not_found", output.splitlines()[-1], completion)
            wanted = f", expected {expect.exit_code}" if expect.exit_code else ""
            return self._result("red", f"{summary_of(output, code or 0, passed=False)}{wanted}", completion)
        if code == 0 and (against := contradiction(self.command, completion.output, report, needed)):
            return self._result("red", against[0], completion, f"{against[0]}.\n{against[1]}\n\n{output}".strip())
        if expect.output is not None:
            scratch = context.scratch(".search")
            if wrong := await search(expect.output, completion.output, self._launcher, self._env, scratch):
                return self._result("red", f"exit {code}, but {wrong}", completion)
        return self._result("passed", summary_of(output, code, passed=True), completion)


def build_validators(
    specs: Sequence[ValidatorSpec], launcher: Launcher, env: Mapping[str, str]
) -> tuple[Validator, ...]:
    """Return a validator for each spec, in order, every one with a name of its own: `pytest`, then `pytest-2`.

    `env` is the whole environment of the checks, without the providers' keys; what a spec names is added to it.
    """
    validators: dict[str, Validator] = {}
    for spec in specs:
        name, number = name_of(spec), 1
        while name in validators:
            number += 1
            name = f"{name_of(spec)}-{number}"
        kind = PythonValidator if spec.python is not None else ShellValidator
        validators[name] = kind(spec.model_copy(update={"name": name}), launcher, env)
    return tuple(validators.values())
