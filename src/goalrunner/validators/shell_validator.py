"""Command lines as validators, the reports that pytest writes for them, and what stands against their exit code 0."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from goalrunner.core.field_types import Frozen
from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.ports import Completion, Launcher, ValidationContext, Validator
from goalrunner.core.shell_programs import programs
from goalrunner.core.tools import PYTEST
from goalrunner.core.verdict import TEST_IDS, ValidatorResult
from goalrunner.system.launcher import SHELL, in_thread
from goalrunner.validators.command_lines import obstacle, unexecutable_script
from goalrunner.validators.fewer_tests import ended_early
from goalrunner.validators.python_validators import PythonValidator
from goalrunner.validators.runners import Summary, calls, reports_needed
from goalrunner.validators.spec_validator import (
    Answer,
    CheckPlace,
    SpecValidator,
    feedback_of,
    name_of,
    passed_variables,
)
from goalrunner.validators.suites import Output, SuiteReader

_NOT_FOUND = re.compile(r"not found|no such file|permission denied|cannot execute", re.IGNORECASE)
LARGEST = 64_000_000
"""Bytes of a report of pytest; some 300,000 tests."""
_Ending = Literal["skipped", "xfailed", "passed", "failed"]
_RANK: dict[_Ending, int] = {"skipped": 0, "xfailed": 1, "passed": 2, "failed": 3}


def reporting(folder: Path, command: str, env: Mapping[str, str]) -> tuple[str, str, dict[str, str]]:
    """Make a folder with a plugin of pytest; return its name, and the command line and environment in which pytest reports.

    The plugin is also added to variables that the line sets itself: `PYTHONPATH=src pytest`. Raise OSError.
    """
    folder.mkdir(mode=0o700)
    plugin = f"goal_report_{secrets.token_hex(8)}"
    source = Path(__file__).with_name("pytest_plugin.py").read_text(encoding="utf-8")
    # The name is not that of a file, so that pytest-cov does not count its lines.
    (folder / f"{plugin}.py").write_text(f"exec(compile({source!r}, '<goal report>', 'exec'))\n", encoding="utf-8")
    # Not in quotes: the line may be in quotes itself.
    escaped_folder = re.sub(r"[^\w@%+:,./-]", r"\\\g<0>", str(folder))
    command = re.sub(r"\bPYTHONPATH=", lambda name: f"{name[0]}{escaped_folder}{os.pathsep}", command)
    command = re.sub(r"\bPYTEST_PLUGINS=", lambda name: f"{name[0]}{plugin},", command)
    python_path = [*filter(None, [env.get("PYTHONPATH")]), str(folder)]
    plugins = [*filter(None, [env.get("PYTEST_PLUGINS")]), plugin]
    variables = {"PYTHONPATH": os.pathsep.join(python_path), "PYTEST_PLUGINS": ",".join(plugins)}
    return plugin, command, {**env, **variables}


class _File(Frozen):
    """What one pytest process wrote. `root` is its root folder; `stopped` says why it ended early."""

    root: str
    stopped: str
    endings: dict[str, _Ending]


@dataclass(frozen=True)
class Report:
    """The tests of one check."""

    files: int = 0
    run: int = 0
    """Tests that passed, failed, or failed as expected."""
    failed: int = 0
    skipped: int = 0
    ids: tuple[str, ...] = ()
    """Tests that passed or failed, by workspace-relative file, sorted."""
    stopped: str = ""
    """Why pytest ended before its last test."""
    unreadable: str = ""
    """Why a file cannot be read."""

    def problem(self, needed: int) -> str:
        """Return why exit code 0 does not count; empty if it does. `needed` is the number of reports there must be."""
        if self.unreadable:
            return f"pytest's report is damaged: {self.unreadable}"
        if self.failed:
            return f"its report has {self.failed} failed"
        if self.stopped:
            return f"pytest was stopped before its end: {self.stopped}"
        if self.files < needed:
            ended = "was ended early (os._exit in the code under test?)"
            return f"no pytest reported to the runner: it was not started, {ended}, or something else ran in its place"
        if needed and not self.run:
            return f"no test ran ({self.skipped} skipped)" if self.skipped else "no test ran"
        return ""


def read_reports(folder: Path, workspace: Path) -> Report:
    """Read every report in a folder; a test that is in several counts once, with its worst ending."""
    endings: dict[str, _Ending] = {}
    stopped, files = "", 0
    for path in sorted(folder.glob("*.json")):
        if not path.is_file() or path.stat().st_size > LARGEST:
            return Report(files, unreadable=f"it is not a file of at most {LARGEST // 1_000_000} MB")
        try:
            content = _File.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            return Report(files, unreadable=str(error).partition("\n")[0])
        files += 1
        stopped = stopped or content.stopped
        for node, ending in content.endings.items():
            file, mark, rest = node.partition("::")
            inside = os.path.relpath(os.path.join(content.root, file), os.path.realpath(workspace))  # noqa: PTH118
            identifier = f"{file if inside.startswith('..') else inside}{mark}{rest}"
            endings[identifier] = max(endings.get(identifier, "skipped"), ending, key=_RANK.__getitem__)
    number = {ending: list(endings.values()).count(ending) for ending in _RANK}
    counted = sorted(identifier for identifier, ending in endings.items() if ending in ("passed", "failed"))
    run, ids = len(endings) - number["skipped"], tuple(counted[:TEST_IDS])
    return Report(files, run, number["failed"], number["skipped"], ids, stopped)


_FAILURES = (
    "A validator whose test runner reports failures fails, whatever its exit code. Failures that are meant to be there "
    "must be marked in the tests (xfail, skip), or wanted by the goal file: expect = { exit_code = 1 }."
)
_ABSENCE = (
    "A validator that calls pytest passes if that pytest itself ran tests to its end and reported to the runner. "
    "Another program named pytest, an exit from within the tests, and a run without any test count as failed."
)
_NO_TEST = (
    "A validator that runs no test fails: its command selects tests that do not exist, or all of them are skipped."
)


def contradiction(line: str, output: Output, report: Report | None, needed: int) -> tuple[str, str] | None:
    """Return why exit code 0 of a line does not count, and the rule for the agent; None if it does.

    `needed` is the number of reports that there must be.
    """
    if report is not None and (problem := report.problem(needed)):
        return f"exit 0, but {problem}", _FAILURES if report.failed and not report.unreadable else _ABSENCE
    against = [*_at_the_end(line, output), *_of_calls(line, output, has_report=report is not None and report.files > 0)]
    if not against:
        return None
    if against[0].says:
        return f"exit 0, but its summary reports {against[0].says}", _FAILURES
    return "exit 0, but no test ran", _NO_TEST


def _at_the_end(line: str, output: Output) -> Iterator[Summary]:
    """Yield summaries with failures that end the output, of whatever program."""
    if any(program.negated for program in programs(line)):
        return
    for runner in output.summaries:
        summary = output.last(runner)
        if summary and summary.says and not output.text[summary.end :].strip():
            yield summary


def _of_calls(line: str, output: Output, *, has_report: bool) -> Iterator[Summary]:
    """Yield summaries with failures, or without a test, of the runners that the line itself calls."""
    for call in calls(line):
        program, summary = call.program, output.last(call.runner.name)
        is_reported = has_report and call.runner is PYTEST
        is_decisive = call.tests and not program.negated and (program.lost or program.last)
        if summary and is_decisive and not is_reported and (summary.says or summary.none_ran):
            yield summary


class ShellValidator(SpecValidator):
    """Runs `spec.run` through `sh -c` in the workspace of the context."""

    def __init__(self, spec: ValidatorSpec, launcher: Launcher, env: Mapping[str, str]) -> None:
        super().__init__(spec, launcher, env)
        self._calls = calls(self.command)

    async def _checked(self, context: ValidationContext, place: CheckPlace) -> Answer:
        reader: SuiteReader = await in_thread(SuiteReader, self._spec, self._calls, place.folder, place.workspace)
        place = replace(place, env=reader.environment(place.env))
        completion, report, needed = await self._run(context, place)
        has_report = report is not None and report.files > 0
        output, suite, test_ids = await in_thread(reader.read, completion.output, context.scratch(".plain"), has_report)
        result = self._cut_short(completion) or await self._judged(context, completion, output, report, needed)
        if result.passed and suite.ended_early and result.exit_code == 0:
            result = ended_early(result, suite.ended_early)
        tests: dict[str, object] = {"suite": suite, "steady": not passed_variables(self._spec)}
        if report is not None and has_report:
            test_ids += report.ids
            tests |= {"tests_run": report.run, "tests_failed": report.failed}
        tests["test_ids"] = tuple(sorted(set(test_ids))[:TEST_IDS])
        result = self._blamed(result.model_copy(update=tests), context, place)
        return result, completion.output if completion.output.exists() else None

    def _blamed(self, result: ValidatorResult, context: ValidationContext, place: CheckPlace) -> ValidatorResult:
        """Return a red result as one that cannot run, if only a person can correct what is wrong."""
        if result.passed:
            return result
        why = obstacle(result, place)
        if not why and context.iteration == 0:
            why = unexecutable_script(result, place, "\n".join((context.objective, *context.criteria)))
        return result.model_copy(update={"cannot_run": True, "summary": why}) if why else result

    async def _run(self, context: ValidationContext, place: CheckPlace) -> tuple[Completion, Report | None, int]:
        """Run it; return the completion, the report of pytest if there is one, and the number of required reports."""
        needed = reports_needed(self._calls, place.env)
        if needed is not None:
            folder = context.scratch(".pytest")
            try:
                plugin, line, env = reporting(folder, self.command, place.env)
                watched = replace(place, env=env, shared=(*place.shared, folder))
                completion = await self._launch([SHELL, "-c", line], context, watched)
                if f"No module named '{plugin}'" not in feedback_of(completion.output):
                    return completion, await in_thread(read_reports, folder, context.workspace), needed
                completion.output.unlink(missing_ok=True)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        return await self._launch([SHELL, "-c", self.command], context, place), None, 0

    async def _judged(
        self, context: ValidationContext, completion: Completion, output: Output, report: Report | None, needed: int
    ) -> ValidatorResult:
        expect, code, tail = self._spec.expect, completion.exit_code, feedback_of(completion.output)
        if code is None or code != expect.exit_code:
            if code in (126, 127) and _NOT_FOUND.search(tail):
                return self._result("not_found", tail.splitlines()[-1], completion)
            wanted = f", expected {expect.exit_code}" if expect.exit_code else ""
            return self._result("red", f"{output.summary(code or 0, passed=False)}{wanted}", completion)
        if code == 0 and (against := contradiction(self.command, output, report, needed)):
            return self._result("red", against[0], completion, f"{against[0]}.\n{against[1]}\n\n{tail}".strip())
        if expect.output is not None and (wrong := await self._mismatch(expect.output, completion.output, context)):
            return self._result("red", f"exit {code}, but {wrong}", completion)
        return self._result("passed", output.summary(code, passed=True), completion)


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
