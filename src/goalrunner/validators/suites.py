"""Summaries of all test runners in an output, as one record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from goalrunner.core.goal import ValidatorSpec
from goalrunner.core.verdict import RunnerCount, SuiteRecord
from goalrunner.validators.named_tests import NamedTests, cargo_tests, go_tests, remove_go_frames
from goalrunner.validators.output import lines_of
from goalrunner.validators.runners import RUNNERS, Call, Runner
from goalrunner.validators.script_text import script_text

_MOST_BYTES = 8_000_000
"""Of the output, from its end."""
_MOST = 100
"""Summaries of one runner."""

_PYTEST_FAILURES = re.compile(r"=+ (?:FAILURES|ERRORS) =+")

_VARYING = re.compile(
    r"(?<![\w-])(--testmon|--picked|--lf|--last-failed|--onlyChanged|--onlyFailures|--changedSince|--lastCommit|--changed"
    r"|--affected)(?![\w-])"
)
"""Options with which the selection of tests depends on what changed or failed before."""
_FILTERS = {
    "pytest": {"-k", "-m", "--deselect", "--ignore", "--ignore-glob"},
    "unittest": {"-k"},
    "jest": {"-o", "-t", "--testNamePattern", "--testPathIgnorePatterns", "--findRelatedTests", "--selectProjects"},
    "vitest": {"-t", "--testNamePattern", "--exclude"},
    "mocha": {"-g", "--grep", "-f", "--fgrep", "-i", "--invert"},
    "node --test": {"--test-name-pattern", "--test-skip-pattern", "--test-only"},
    "go test": {"-run", "-skip"},
    "cargo test": {"--skip"},
}
_QUIET = re.compile(
    r"^.*\b(?:pytest|unittest|jest|vitest|mocha|node|npm|npx|yarn|pnpm|go test|cargo|python[0-9.]*|tox|nox|make)\b"
    r".*(?:(?<![0-9&>])1?>>?\s*[^&>\s]|&>).*$|\bpytest\b.*\s-qq|\b(?:chronic|cronic|pre-commit|prek|lefthook)\b"
    r"|--output-on-failure|errors-only|--test_output=errors|--print-errorlogs",
    re.MULTILINE,
)
"""Lines that show the output of tests only if they fail."""
_GO = re.compile(r"\bgo (?:test|vet|build|run|list|install|generate)\b")
_GO_UNREADABLE = re.compile(r"-json\b|GOFLAGS|-bench\b|-test\.|-v=|[|>`]|\$\(go")
"""What uses the output of go itself."""


class SuiteReader:
    """Reads the tests of one run of a validator from its output."""

    def __init__(self, spec: ValidatorSpec, calls: Sequence[Call], cwd: Path, workspace: Path) -> None:
        self._calls = calls
        self._texts = script_text(spec, cwd, workspace)
        self._names_go = names_go_tests(calls, spec.run or "", self._texts)

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment in which `go test` names its tests."""
        if not self._names_go or ("GOFLAGS" not in env and _sets_go_flags(env)):
            return dict(env)
        return {**env, "GOFLAGS": f"{env.get('GOFLAGS', '')} -v".strip()}

    def read(self, output: Path, plain: Path, reported: bool) -> tuple[SuiteRecord, tuple[str, ...]]:
        """Return what the output tells, and the ids of the tests that it names.

        The names of Go tests are taken out of the output, through the file `plain`. `reported`: pytest wrote a report.
        """
        found = record_of(output, self._calls, self._texts, reported=reported)
        if self._names_go and output.exists():
            remove_go_frames(output, plain)
        return found


def _sets_go_flags(env: Mapping[str, str]) -> bool:
    """Return whether the user's settings of go have GOFLAGS, which the variable would replace."""
    folder = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME") or "/") / ".config")
    try:
        return "GOFLAGS=" in Path(env.get("GOENV") or folder / "go/env").read_text("utf-8", errors="replace")
    except OSError:
        return False


def names_go_tests(calls: Sequence[Call], line: str, texts: str) -> bool:
    """Return whether `go test` can be made to name its tests: it is called, and its output goes to the runner alone."""
    direct = [call for call in calls if call.runner.name == "go test" and call.tests and not call.program.clean]
    if direct:
        options = [word for call in direct for word in call.arguments]
        given = any(word.startswith(("-v", "-json", "-bench", "-test.")) for word in options)
        return not given and _GO_UNREADABLE.search(line) is None and "|" not in line
    lines = [text for text in texts.splitlines() if _GO.search(text)]
    return any("go test" in text for text in lines) and _GO_UNREADABLE.search("\n".join(lines)) is None


def filters_of(calls: Sequence[Call], texts: str) -> tuple[str, ...]:
    """Return the options that select tests: those of direct calls, and everywhere those whose selection varies."""
    found: list[str] = []
    for call in calls:
        for word in call.arguments:
            given = {word.partition("=")[0], "" if word.startswith("--") else word[:2]}
            found += given & _FILTERS.get(call.runner.name, set())
    return tuple(dict.fromkeys((*found, *_VARYING.findall(texts))))


def record_of(
    output: Path, calls: Sequence[Call], texts: str, *, reported: bool
) -> tuple[SuiteRecord, tuple[str, ...]]:
    """Return what an output tells, and the ids of the tests that it names. `reported`: pytest wrote a report."""
    lines, whole = lines_of(output, _MOST_BYTES)
    go, cargo = go_tests(lines), cargo_tests(lines)
    if not whole:
        go, cargo = (
            NamedTests(tuple(item.model_copy(update={"named": False}) for item in each.counts)) for each in (go, cargo)
        )
    counts: list[RunnerCount] = []
    for runner in RUNNERS:
        named = {"go test": go, "cargo test": cargo}.get(runner.name)
        if not (reported and runner.name == "pytest"):
            counts += named.counts if named else reversed([*_read(runner, lines)])
    filters = filters_of(calls, texts)
    record = SuiteRecord(
        counts=tuple(counts),
        ended_early=cargo.ended_early,
        filters=filters,
        varying=any(map(_VARYING.fullmatch, filters)) or "-o" in filters,
        quiet=_QUIET.search(texts) is not None,
        whole=whole,
    )
    return record, (*go.ids, *cargo.ids)


def _read(runner: Runner, lines: Sequence[str]) -> Iterator[RunnerCount]:
    """Yield the summaries of an output, the last one first."""
    # What failing tests of pytest wrote may hold summaries too; they stand before the last one.
    failures = (at for at, line in enumerate(lines) if _PYTEST_FAILURES.fullmatch(line))
    first = next(failures, len(lines)) if runner.name == "pytest" else len(lines)
    for number in range(_MOST):
        summary = runner.read(lines)
        if summary is None:
            return
        certain = number == 0 or summary.begin < first
        failed = bool(summary.says)
        yield RunnerCount(runner=runner.name, ran=summary.ran, skipped=summary.skipped, failed=failed, certain=certain)
        lines = lines[: summary.begin]
