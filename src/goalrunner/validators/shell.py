"""A command line as a check: green by its exit code, by what its test runner reports, and by a pattern."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.core.check_ports import ValidationContext
from goalrunner.core.goal import ValidatorSpec
from goalrunner.core.process_ports import Completion, Launcher
from goalrunner.core.verdict import TEST_IDS, ValidatorResult
from goalrunner.system.launcher import SHELL, in_thread
from goalrunner.validators.absent_paths import PYTEST_NO_TESTS, TestTree, absent_paths
from goalrunner.validators.absent_programs import Place
from goalrunner.validators.baseline_status import obstacle
from goalrunner.validators.check_env import (
    SpecValidator,
    cut_short,
    environment,
    folder,
    passed_variables,
    red,
)
from goalrunner.validators.fewer_tests import ended_early
from goalrunner.validators.junit_reports import Report
from goalrunner.validators.output import search, tail_of
from goalrunner.validators.pytest_report import Watch, needed_reports, ways
from goalrunner.validators.runners import calls, contradiction, summary_of
from goalrunner.validators.suites import SuiteReader

_NOT_FOUND = re.compile(r"not found|no such file|permission denied|cannot execute", re.IGNORECASE)


class ShellValidator(SpecValidator):
    """Runs `spec.run` through `sh -c` in the workspace of the context. Implements the port `Validator`.

    `env` is the whole environment without the providers' keys. Variables of the run are added if its line or `pass_env`
    names them.
    """

    def __init__(self, spec: ValidatorSpec, launcher: Launcher, env: Mapping[str, str]) -> None:
        super().__init__(spec, launcher, env)
        self._calls = calls(spec.run or "")

    async def validate(self, context: ValidationContext) -> tuple[ValidatorResult, Path | None]:
        """Run it once; whatever keeps it from its own end is red."""
        cwd, wrong = folder(self._spec, context)
        if wrong:
            return red(self._spec, "not_found", wrong, feedback=wrong), None
        try:
            with environment(self._env, self._spec, context) as (env, shared):
                reader: SuiteReader = await in_thread(SuiteReader, self._spec, self._calls, cwd, context.workspace)
                completion, report, needed = await self._run(context, cwd, reader.environment(env), shared)
            reported = report if report is not None and report.files else None
            plain = context.scratch(".plain")
            suite, ids = await in_thread(reader.read, completion.output, plain, reported is not None)
            result = cut_short(self._spec, completion) or await self._judged(completion, report, needed, context)
            if result.passed and suite.ended_early and result.exit_code == 0:
                result = ended_early(result, suite.ended_early)
            result = result.model_copy(update={"suite": suite, **_tests(reported, ids)})
        except (OSError, ValueError) as error:
            return red(self._spec, "crashed", f"could not be run: {error}", feedback=str(error)), None
        why = obstacle(result, context.workspace, self._variables) or self._wrong_folder(result, context, cwd)
        if why:
            result = result.model_copy(update={"cannot_run": True, "summary": why})
        result = result.model_copy(update={"steady": not passed_variables(self._spec)})
        return result, completion.output if completion.output.exists() else None

    @property
    def _variables(self) -> dict[str, str]:
        return {**self._env, **self._spec.env}

    def _wrong_folder(self, result: ValidatorResult, context: ValidationContext, cwd: Path) -> str:
        """Return the folder that is meant if pytest finds no test at the baseline, and tests exist elsewhere."""
        if result.exit_code != PYTEST_NO_TESTS or context.iteration:
            return ""
        place = Place(context.workspace, cwd, self._variables)
        found = absent_paths(self.command, place, TestTree(context.workspace), context.objective)
        meant = next((item for item in found if item.empty and item.instead), None)
        return f"no tests collected in {meant.word}; did you mean {meant.instead}?" if meant else ""

    async def _run(
        self, context: ValidationContext, cwd: Path, env: Mapping[str, str], shared: Sequence[Path]
    ) -> tuple[Completion, Report | None, int]:
        """Run it to its end; with what its pytest reports, and how many reports there must be."""
        for way in ways(self._calls, self.command, env):
            watch = Watch.begin(way, context.scratch(".pytest"), self._calls, env, cwd)
            try:
                completion = await self._launch(context, cwd, watch.environment(env), (*shared, watch.folder))
                if not watch.unheard(tail_of(completion.output)):
                    return completion, await watch.read(cwd, context.workspace), needed_reports(way, self._calls)
                completion.output.unlink(missing_ok=True)
            finally:
                shutil.rmtree(watch.folder, ignore_errors=True)
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
                return red(self._spec, "not_found", output.splitlines()[-1], completion)
            wanted = f", expected {expect.exit_code}" if expect.exit_code else ""
            return red(self._spec, "red", f"{summary_of(output, code or 0, passed=False)}{wanted}", completion)
        if code == 0 and (against := contradiction(self.command, completion.output, report, needed)):
            return red(self._spec, "red", against.summary, completion, f"{against.explanation}\n\n{output}".strip())
        if expect.output is not None:
            search_output = context.scratch(".search")
            wrong = await search(expect.output, completion.output, self._launcher, self._env, search_output)
            if wrong:
                return red(self._spec, "red", f"exit {code}, but {wrong}", completion)
        return ValidatorResult(
            name=self.name,
            passed=True,
            reason="passed",
            summary=summary_of(output, code, passed=True),
            command=self.command,
            exit_code=code,
            duration=completion.duration,
            hidden=self.hidden,
        )


def _tests(report: Report | None, ids: Sequence[str]) -> dict[str, object]:
    """Return the fields of a result that hold its tests: those that pytest reports, and those that the output names."""
    if report is None:
        return {"test_ids": tuple(sorted(ids)[:TEST_IDS])}
    every = tuple(sorted({*report.ids, *ids})[:TEST_IDS])
    return {"tests_run": report.run, "tests_failed": report.failed, "test_ids": every}
