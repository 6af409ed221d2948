"""The tests of one run of a validator, from its output and its runners' reports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.runner_calls import Call
from goalrunner.core.tools import (
    GO_TEST,
    MAKE,
    NODE_TEST,
    PACKAGE_MANAGERS,
    PYTEST,
    TEST_RUNNERS,
    UNITTEST,
)
from goalrunner.core.verdict import CollectedTests, RunnerCount, SuiteRecord
from goalrunner.validators.check_files import lines_followed
from goalrunner.validators.collected_tests import together
from goalrunner.validators.go_verbose import (
    has_goflags,
    names_go_tests,
    remove_frames,
    shows_go_tests,
    verbose_environment,
)
from goalrunner.validators.named_tests import named_tests, started_and_ended
from goalrunner.validators.output_end import text_of_end
from goalrunner.validators.recipes import file_text
from goalrunner.validators.runner_output import Output
from goalrunner.validators.runner_reports import Reports

_MOST_BYTES = 8_000_000
"""Maximum number of bytes that are read, from the end of the output."""
_PYTEST_FAILURES = re.compile(r"^=+ (?:FAILURES|ERRORS) =+$", re.MULTILINE)
# `pytest --lf` may select no test that ran before; fewer tests are then no loss.
_VARYING_OPTIONS = {
    "--affected",
    *(option for runner in TEST_RUNNERS for option in runner.varying.split()),
}
_VARYING = re.compile(rf"(?<![\w-])({'|'.join(sorted(_VARYING_OPTIONS))})(?![\w-])")
"""Options with which the selected tests depend on what changed or failed before."""
_STARTING_TESTS = [
    *(runner.name for runner in TEST_RUNNERS),
    *PACKAGE_MANAGERS,
    *MAKE,
    "npx",
    "node",
    "tox",
    "nox",
]
# Without the output, fewer tests cannot be distinguished from hidden ones.
_QUIET = re.compile(
    rf"^.*\b(?:{'|'.join(_STARTING_TESTS)}|cargo|python[0-9.]*)\b"
    r".*(?:(?<![0-9&>])1?>>?\s*[^&>\s]|&>).*$"
    r"|\bpytest\b.*\s-qq|\b(?:chronic|cronic|pre-commit|prek|lefthook)\b"
    r"|--output-on-failure|errors-only|--test_output=errors|--print-errorlogs",
    re.MULTILINE,
)
"""Lines that show the output of tests only if they fail."""
_SETTINGS = ("pytest.ini", "tox.ini", "setup.cfg", "noxfile.py")
"""Files with options of pytest, and with the lines that tox and nox run."""
# `addopts = "-q -x"` in pyproject.toml; the other settings are read whole.
_ADDOPTS = re.compile(r"^addopts\s*=\s*(?:\"[^\"]*\"|'[^']*'|\[[^\]]*\])", re.MULTILINE)


@dataclass(frozen=True)
class SuiteReading:
    """What one run of a validator shows of its tests."""

    output: Output
    record: SuiteRecord
    tests: CollectedTests | None


class SuiteReader:
    """Reads the tests of one run of a validator."""

    def __init__(
        self, spec: ValidatorSpec, calls: Sequence[Call], cwd: Path, workspace: Path
    ) -> None:
        self._calls = calls
        self._folder, self._workspace = cwd, workspace
        self.texts = script_text(spec, cwd, workspace)
        self._names_go = names_go_tests(self.texts)

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment in which `go test` names its tests, if it can."""
        if not self._names_go or has_goflags(env):
            return dict(env)
        return verbose_environment(env)

    def read(self, output: Path, plain: Path, reports: Reports) -> SuiteReading:
        """Return the output and its tests.

        The names of Go tests are removed from the output, by way of the file `plain`.
        """
        text, whole = text_of_end(output, _MOST_BYTES)
        end = Output(text, whole=whole)
        record = record_of(end, self._calls, self.texts, reported=reports.has_pytest)
        tests = self._tests(end, record, reports)
        if self._names_go and output.exists():
            remove_frames(output, plain)
        return SuiteReading(end, record, tests)

    def _tests(
        self, output: Output, record: SuiteRecord, reports: Reports
    ) -> CollectedTests | None:
        """Return the tests that the runners name.

        `whole` is False if another runner only counted its own.
        """
        named = self._named(output, reports)
        # JUnit files may be from any runner, so other names count first. They may also
        # hold fewer tests than the runner counted.
        if not named and reports.junit is not None:
            counted = sum(count.ran + count.skipped for count in record.counts)
            is_whole = reports.junit.whole and len(reports.junit.endings) >= counted
            return reports.junit.model_copy(update={"whole": is_whole})
        runners = {count.runner for count in record.counts}
        runners |= {call.runner.name for call in self._calls if call.tests}
        tests = together(named, runners)
        if tests is None or output.whole:
            return tests
        return tests.model_copy(update={"whole": False})

    def _named(self, output: Output, reports: Reports) -> dict[str, CollectedTests]:
        """Return the named tests by runner; a report counts more than the output."""
        named = named_tests(
            output.text,
            asked_go=self._names_go or shows_go_tests(self.texts),
            workspace=self._workspace,
            folders=self._module_folders(),
        )
        if reports.pytest is not None and reports.has_pytest:
            named[PYTEST.name] = reports.pytest.tests
        if reports.node is not None:
            named[NODE_TEST.name] = reports.node
        return named

    def _module_folders(self) -> list[Path]:
        """Return the folders in which modules of unittest may lie.

        The command runs in the first one. It may name others: `discover -s tests`.
        """
        folders = [self._folder]
        for call in self._calls:
            if call.runner is not UNITTEST:
                continue
            for word in call.arguments:
                folder = self._folder / word
                if not word.startswith("-") and folder.is_dir():
                    folders.append(folder)
        return folders


def filters_of(calls: Sequence[Call], texts: str) -> tuple[str, ...]:
    """Return the options that select tests.

    In scripts, only those count whose selection varies.
    """
    options: list[str] = []
    for call in calls:
        filters = call.runner.filters.split()
        for word in call.arguments:
            name = word.partition("=")[0]
            # `-kname` is the option -k.
            short = "" if word.startswith("--") else word[:2]
            options += [option for option in (name, short) if option in filters]
    return tuple(dict.fromkeys((*options, *_VARYING.findall(texts))))


def record_of(
    output: Output, calls: Sequence[Call], texts: str, *, reported: bool = False
) -> SuiteRecord:
    """Return what an output shows of the tests.

    `reported`: pytest reports its tests, so they are not counted in the output.
    """
    filters = filters_of(calls, texts)
    return SuiteRecord(
        counts=tuple(_counts(output, reported=reported)),
        ended_early=started_and_ended(output.text),
        filters=filters,
        varying=any(map(_VARYING.fullmatch, filters)) or "-o" in filters,
        quiet=_QUIET.search(texts) is not None,
        whole=output.whole,
    )


def _counts(output: Output, *, reported: bool) -> Iterator[RunnerCount]:
    """Yield the counts of each summary."""
    # The output of failing tests may also contain summaries of pytest, before the last.
    failures = _PYTEST_FAILURES.search(output.text)
    for runner, summaries in output.summaries.items():
        is_pytest = runner == PYTEST.name
        if is_pytest and reported:
            continue
        for summary in summaries:
            # `go test` without a package that has tests gives no count: everything
            # that ran at the start is missing.
            if runner == GO_TEST.name and not summary.ran:
                continue
            is_after_failures = (
                failures is not None and summary.begin >= failures.start()
            )
            is_quoted = is_after_failures and summary is not summaries[-1]
            yield RunnerCount(
                runner=runner,
                ran=summary.ran,
                skipped=summary.skipped,
                failed=bool(summary.failures),
                certain=not (is_pytest and is_quoted),
            )


def script_text(spec: ValidatorSpec, cwd: Path, workspace: Path) -> str:
    """Return what a validator runs, as far as it can be found.

    The options of pytest in the project's configuration belong to it.
    """
    texts = [*lines_followed(spec, workspace)]
    texts += [file_text(cwd / name) for name in _SETTINGS]
    texts += _ADDOPTS.findall(file_text(cwd / "pyproject.toml"))
    return "\n".join(filter(None, texts))
