"""What the output of a validator tells: the tests that ran, and whether the environment may be why it is red."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    PYTEST_NO_TESTS,
    PYTEST_USAGE,
    TEST_RUNNERS,
    UNITTEST,
)
from goalrunner.core.verdict import (
    CollectedTests,
    RunnerCount,
    SuiteRecord,
    ValidatorResult,
)
from goalrunner.validators.check_files import lines_followed
from goalrunner.validators.collected_tests import together
from goalrunner.validators.named_tests import named_tests, started_and_ended
from goalrunner.validators.recipes import file_text
from goalrunner.validators.runner_reports import Reports
from goalrunner.validators.runners import READERS, Summary
from goalrunner.validators.spec_validator import text_of_end

_MOST_BYTES = 8_000_000
"""Maximum number of bytes that are read, from the end of the output."""
_MOST = 100
"""Summaries of one runner."""
_LAST_LINES = 60
"""Lines at the end of an output in which its result is looked for."""
_LONGEST = 80
_LONGEST_LINE = 300
"""Maximum number of characters of pytest's error in a summary."""
_ERROR = re.compile(r"(?:ERROR: |\S+: error: )(?!usage: ).+")
"""The line in which pytest says why it does not start."""
_GO_FRAME = re.compile(
    r"=== (?:RUN|PAUSE|CONT|NAME) .*|\s*--- (?:PASS|SKIP): .* \([0-9.]+s\)|PASS"
)
_GO = re.compile(r"\bgo (?:test|vet|build|run|list|install|generate)\b")
_GO_UNREADABLE = re.compile(r"-json\b|GOFLAGS|-bench\b|-test\.|-v\b|[|>`]|\$\(go")
"""What uses the output of go itself."""
_PYTEST_FAILURES = re.compile(r"^=+ (?:FAILURES|ERRORS) =+$", re.MULTILINE)
_VARYING_OPTIONS = {
    "--affected",
    *(option for runner in TEST_RUNNERS for option in runner.varying.split()),
}
_VARYING = re.compile(rf"(?<![\w-])({'|'.join(sorted(_VARYING_OPTIONS))})(?![\w-])")
"""Options with which the selection of tests depends on what changed or failed before."""
_STARTING_TESTS = [
    *(runner.name for runner in TEST_RUNNERS),
    *PACKAGE_MANAGERS,
    *MAKE,
    "npx",
    "node",
    "tox",
    "nox",
]
_QUIET = re.compile(
    rf"^.*\b(?:{'|'.join(_STARTING_TESTS)}|cargo|python[0-9.]*)\b.*(?:(?<![0-9&>])1?>>?\s*[^&>\s]|&>).*$"
    r"|\bpytest\b.*\s-qq|\b(?:chronic|cronic|pre-commit|prek|lefthook)\b"
    r"|--output-on-failure|errors-only|--test_output=errors|--print-errorlogs",
    re.MULTILINE,
)
"""Lines that show the output of tests only if they fail."""
_SETTINGS = ("pytest.ini", "tox.ini", "setup.cfg", "noxfile.py")
"""Files with options of pytest, and with the lines that tox and nox run."""
_ADDOPTS = re.compile(r"^addopts\s*=\s*(?:\"[^\"]*\"|'[^']*'|\[[^\]]*\])", re.MULTILINE)


_PNPM_SCRIPT = re.compile(r"^(\S+ [\w:.-]+)\$ .*$", re.MULTILINE)
_TURBO_SCRIPT = re.compile(r"^([@\w/.-]+:[\w:-]*test[\w:-]*): ", re.MULTILINE)


def without_prefixes(text: str) -> str:
    """Return an output in which the lines of each script of a workspace follow one another, without their prefix.

    pnpm writes `packages/a test: 3 passed` for a script that it announced by `packages/a test$ vitest run`, turbo
    `a:test: 3 passed`.
    """
    prefixes = dict.fromkeys(
        (*_PNPM_SCRIPT.findall(text), *_TURBO_SCRIPT.findall(text))
    )
    if not prefixes:
        return text
    lines_of: dict[str, list[str]] = {"": [], **{prefix: [] for prefix in prefixes}}
    for line in text.split("\n"):
        prefix, mark, rest = line.partition(": ")
        if not mark and line.endswith(":"):
            prefix, mark = line[:-1], ":"
        if mark and prefix in prefixes:
            lines_of[prefix].append(rest)
        else:
            lines_of[""].append(line)
    return "\n".join("\n".join(lines) for lines in lines_of.values())


class Output:
    """The end of a validator's output, without colour codes, and the summaries of test runners in it."""

    def __init__(self, text: str, *, whole: bool = True) -> None:
        self.text = without_prefixes(text)
        self.whole = whole
        """Whether it is the whole output."""
        self.summaries = {
            name: [*read(self.text)][-_MOST:] for name, read in READERS.items()
        }

    def last(self, runner: str) -> Summary | None:
        """Return the last summary of a runner; None if there is none."""
        return next(reversed(self.summaries[runner]), None)

    def summary(self, exit_code: int, *, passed: bool) -> str:
        """Return `43 passed`, or `exit 1` if no runner is known. A red result always has its exit code or its failures."""
        ending = f"exit {exit_code}"
        last_lines = self.text.rstrip().splitlines(keepends=True)[-_LAST_LINES:]
        if exit_code == PYTEST_USAGE:
            for line in reversed(last_lines):
                if _ERROR.match(line):
                    return f"{ending}: {line.rstrip()[:_LONGEST_LINE]}"
        first_position = len(self.text.rstrip()) - sum(map(len, last_lines))
        summaries = filter(None, map(self.last, self.summaries))
        at_the_end = [
            summary for summary in summaries if summary.begin >= first_position
        ]
        if not at_the_end:
            return ending
        last = max(at_the_end, key=lambda summary: summary.end)
        text = last.text[:_LONGEST]
        if exit_code == PYTEST_NO_TESTS and "deselected" in text:
            text = f"no test selected, {text}"
        is_enough = passed or last.says or text.startswith("no tests")
        return text if is_enough else f"{ending}, {text}"


@dataclass(frozen=True)
class SuiteReading:
    """What one run of a validator tells of its tests."""

    output: Output
    record: SuiteRecord
    tests: CollectedTests | None


class SuiteReader:
    """Reads the tests of one run of a validator from its output and the reports of its runners."""

    def __init__(
        self, spec: ValidatorSpec, calls: Sequence[Call], cwd: Path, workspace: Path
    ) -> None:
        self._calls = calls
        self._folder, self._workspace = cwd, workspace
        self.texts = script_text(spec, cwd, workspace)
        self._names_go = names_go_tests(self.texts)

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment in which `go test` names its tests, unless the user's settings of go have GOFLAGS."""
        settings = (
            Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME") or "/") / ".config")
            / "go/env"
        )
        if not self._names_go or "GOFLAGS=" in file_text(
            Path(env.get("GOENV") or settings)
        ):
            return dict(env)
        return {**env, "GOFLAGS": f"{env.get('GOFLAGS', '')} -v".strip()}

    def read(self, output: Path, plain: Path, reports: Reports) -> SuiteReading:
        """Return the output and its tests.

        The names of Go tests are taken out of the file, by way of the file `plain`.
        """
        text, whole = text_of_end(output, _MOST_BYTES)
        found = Output(text, whole=whole)
        record = record_of(found, self._calls, self.texts, reported=reports.has_pytest)
        tests = self._tests(found, record, reports)
        if self._names_go and output.exists():
            lines = output.read_bytes().splitlines(keepends=True)
            plain.write_bytes(
                b"".join(line for line in lines if not _is_go_frame(line))
            )
            os.replace(plain, output)  # noqa: PTH105 - one call
        return SuiteReading(found, record, tests)

    def _tests(
        self, output: Output, record: SuiteRecord, reports: Reports
    ) -> CollectedTests | None:
        """Return the tests that the runners name. `whole` is False if another runner only counted its own."""
        named = named_tests(
            output.text,
            asked_go=self._names_go or _shows_go_tests(self.texts),
            workspace=self._workspace,
            folders=self._module_folders(),
        )
        if reports.pytest is not None and reports.has_pytest:
            named[PYTEST.name] = reports.pytest.tests
        if reports.node is not None:
            named[NODE_TEST.name] = reports.node
        if not named and reports.junit is not None:
            counted = sum(count.ran + count.skipped for count in record.counts)
            is_whole = reports.junit.whole and len(reports.junit.endings) >= counted
            return reports.junit.model_copy(update={"whole": is_whole})
        seen = {count.runner for count in record.counts}
        seen |= {call.runner.name for call in self._calls if call.tests}
        tests = together(named, seen)
        if tests is None or output.whole:
            return tests
        return tests.model_copy(update={"whole": False})

    def _module_folders(self) -> list[Path]:
        """Return the folders in which modules of unittest may lie: that of the command, and those that it names."""
        arguments = [
            word
            for call in self._calls
            if call.runner is UNITTEST
            for word in call.arguments
        ]
        folders = (
            self._folder / word for word in arguments if not word.startswith("-")
        )
        return [self._folder, *(folder for folder in folders if folder.is_dir())]


def _is_go_frame(line: bytes) -> bool:
    return _GO_FRAME.fullmatch(line.decode(errors="replace").rstrip()) is not None


def names_go_tests(texts: str) -> bool:
    """Return whether `go test` can be made to name its tests: it is called, and its output goes to the runner alone."""
    lines = [text for text in texts.splitlines() if _GO.search(text)]
    return (
        any("go test" in text for text in lines)
        and _GO_UNREADABLE.search("\n".join(lines)) is None
    )


def _shows_go_tests(texts: str) -> bool:
    """Return whether each `go test` names its tests because its own line says so, and nothing reads its output."""
    lines = [text for text in texts.splitlines() if "go test" in text]
    return bool(lines) and all(
        re.search(r"\s-v(?:\s|$)", line) and not re.search(r"-json\b|[|>`]", line)
        for line in lines
    )


def filters_of(calls: Sequence[Call], texts: str) -> tuple[str, ...]:
    """Return the options that select tests: those of direct calls, and everywhere those whose selection varies."""
    found: list[str] = []
    for call in calls:
        filters = call.runner.filters.split()
        for word in call.arguments:
            name = word.partition("=")[0]
            short = "" if word.startswith("--") else word[:2]
            found += [
                option for option in dict.fromkeys((name, short)) if option in filters
            ]
    return tuple(dict.fromkeys((*found, *_VARYING.findall(texts))))


def record_of(
    output: Output, calls: Sequence[Call], texts: str, *, reported: bool = False
) -> SuiteRecord:
    """Return what an output tells of the tests. `reported`: the plugin of pytest counts its own."""
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
    # The output of failing tests may contain summaries of pytest too, before the last one.
    failures = _PYTEST_FAILURES.search(output.text)
    for runner, summaries in output.summaries.items():
        is_pytest = runner == PYTEST.name
        if is_pytest and reported:
            continue
        for summary in summaries:
            is_quoted = (
                failures is not None
                and summary is not summaries[-1]
                and summary.begin >= failures.start()
            )
            # `go test` without a package that has tests gives no count: everything that ran at the start is missing.
            if summary.ran or runner != GO_TEST.name:
                yield RunnerCount(
                    runner=runner,
                    ran=summary.ran,
                    skipped=summary.skipped,
                    failed=bool(summary.says),
                    certain=not (is_pytest and is_quoted),
                )


def script_text(spec: ValidatorSpec, cwd: Path, workspace: Path) -> str:
    """Return what a validator runs, as far as it can be found, with the options of pytest in the project's configuration."""
    found = [
        *lines_followed(spec, workspace),
        *(file_text(cwd / name) for name in _SETTINGS),
    ]
    return "\n".join(
        filter(None, (*found, *_ADDOPTS.findall(file_text(cwd / "pyproject.toml"))))
    )


_ENVIRONMENTAL = re.compile(
    r"ModuleNotFoundError|ImportError|No module named|Cannot find module|ERR_MODULE_NOT_FOUND|not found|No such file"
    r"|error while loading shared libraries|collected 0 items|no tests ran|Interrupted: \d+ error",
    re.IGNORECASE,
)
"""Output of checks that miss something in their environment, rather than finding a fault in the work."""
_NO_SPACE = re.compile(
    r"ENOSPC|No space left on device|Disk quota exceeded", re.IGNORECASE
)
_BY_KERNEL = re.compile(
    rf"EXDEV|cross-device link|{_NO_SPACE.pattern}|Operation not permitted|unshare\b.*failed|Read-only file system",
    re.IGNORECASE,
)
"""Output about calls that the kernel refuses in the check environment and may allow outside of it."""
_FREE_BYTES = 1_000_000
_PYTEST_ERRORS = (2, PYTEST_USAGE, PYTEST_NO_TESTS)


def is_environmental(result: ValidatorResult, *, incomplete: bool) -> bool:
    """Return whether a red result may be the fault of the environment: a missing program or module, or no tests.

    With `incomplete`, a part of the workspace is missing, so messages about missing files count as well.
    """
    if (
        result.exit_code in (126, 127)
        or result.reason == "not_found"
        or result.cannot_run
    ):
        return True
    if result.exit_code in _PYTEST_ERRORS and "pytest" in result.command:
        return True
    patterns = (_BY_KERNEL, _ENVIRONMENTAL) if incomplete else (_BY_KERNEL,)
    return any(pattern.search(result.feedback) for pattern in patterns)


def without_space(results: Iterable[ValidatorResult], folder: Path) -> str:
    """Return why validators failed if one reports that the disk is full and nothing can be written in a folder; else ""."""
    if not any(
        not result.passed and _NO_SPACE.search(result.feedback) for result in results
    ):
        return ""
    return (
        f"no space left in {folder}"
        if shutil.disk_usage(folder).free < _FREE_BYTES
        else ""
    )
