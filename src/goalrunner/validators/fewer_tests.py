"""The results of validators at the baseline, and tests that ran then and are missing or skipped now."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from goalrunner.checking.protection import Difference, Protection, StartFiles
from goalrunner.core.errors import some
from goalrunner.core.labels import Label
from goalrunner.core.verdict import TEST_IDS, RunnerCount, ValidatorResult
from goalrunner.records.run_folder import read_json, write_json
from goalrunner.validators.spec_validator import Answer
from goalrunner.validators.suites import GO

_NAMED = 3
"""Tests that a label names."""
_NAMED_IN_FEEDBACK = 5
_RUST = re.compile(r"[^:]+\.rs::|doc::")
_RULE = (
    "Tests in protected files must all run again: none may be skipped, deselected or expected to fail, and the process "
    "must not end before its last test. If they are to change, the goal file must say so: [workspace] allow."
)


class BaseResults:
    """The validators' results at the baseline, by name. A resumed run reads them from the file `path`."""

    def __init__(self, path: Path | None, redact: Callable[[str], str] = str) -> None:
        """`redact` replaces secrets in what is written. Raise RecordError if the file is damaged."""
        self._path = path
        self._redact = redact
        self.results: dict[str, ValidatorResult] = (path and read_json(path, dict[str, ValidatorResult])) or {}

    @property
    def files(self) -> frozenset[str]:
        """The Python files whose test functions ran at the baseline, by the reports. Doctests, in sources, do not count."""
        ids = (identifier for result in self.results.values() for identifier in result.test_ids)
        files = (_file(identifier) for identifier in ids if "::test" in identifier.lower())
        return frozenset(path for path in files if path.endswith(".py"))

    def keep(self, results: Iterable[ValidatorResult]) -> None:
        """Take these as the results of the baseline. Raise RecordError if they cannot be written."""
        self.results = {result.name: result for result in results}
        written = {}
        for name, result in self.results.items():
            texts = {key: self._redact(getattr(result, key)) for key in ("feedback", "command", "summary")}
            written[name] = result.model_copy(update=texts).model_dump(mode="json")
        if self._path is not None:
            write_json(self._path, written)


def missing_tests(base: ValidatorResult, now: ValidatorResult, protected: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the tests in protected files that passed or failed at the baseline and neither pass nor fail now, sorted.

    `protected` is asked with a file's path, relative to the workspace. Variants of a parametrised test may have other
    names as long as there are no fewer of them. A file that could not be collected then must have some test now.
    """
    there = set(now.test_ids)
    files = {_file(identifier) for identifier in there}
    variants = Counter(map(_function, there))
    before = Counter(map(_function, base.test_ids))
    # If there are very many tests, only the first are recorded; tests after them cannot be missing.
    end = now.test_ids[-1] if len(now.test_ids) >= TEST_IDS else None

    def ran(identifier: str) -> bool:
        if "[" in identifier:
            return variants[_function(identifier)] >= before[_function(identifier)]
        return identifier in variants or ("::" not in identifier and identifier in files)

    missing = [identifier for identifier in base.test_ids if identifier not in there and not ran(identifier)]
    return tuple(one for one in missing if (end is None or one <= end) and protected(_file(one)))


def _red(now: ValidatorResult, summary: str, feedback: str = "") -> ValidatorResult:
    feedback = f"exit {now.exit_code or 0}, but {feedback or summary}.\n{_RULE}"
    return now.model_copy(update={"passed": False, "reason": "red", "summary": summary, "feedback": feedback})


def _file(identifier: str) -> str:
    return identifier.partition("::")[0]


def _function(identifier: str) -> str:
    """Return a test without its parameters."""
    file, mark, rest = identifier.partition("::")
    return f"{file}{mark}{rest.partition('[')[0]}"


def complete(
    answers: Sequence[Answer],
    base: BaseResults,
    rules: Protection,
    start: StartFiles,
    free: Sequence[Difference],
) -> tuple[tuple[Answer, ...], tuple[str, ...]]:
    """Return the answers, red if a protected test of the start did not run, and their labels.

    The files of `free` may lose tests.
    """
    changed = {item.path for item in free}

    def is_protected(path: str) -> bool:
        return path not in changed and rules.rule(path) is not None and not rules.allowed(path)

    suite = bool(start.tests) and not free and start.protected(rules).issuperset(start.tests)

    def is_needed(path: str) -> bool:
        return suite if path.startswith(GO) else is_protected(path)

    found = [
        (compared(base.results.get(now.name), now, is_needed, suite=suite, freed=bool(free)), output)
        for now, output in answers
    ]
    labels = dict.fromkeys(label for (_, more), _ in found for label in more)
    return tuple((result, output) for (result, _), output in found), tuple(labels)


def compared(
    base: ValidatorResult | None, now: ValidatorResult, protected: Callable[[str], bool], *, suite: bool, freed: bool
) -> tuple[ValidatorResult, tuple[str, ...]]:
    """Return a result, red if it is green with fewer protected tests than the baseline, and its labels.

    `suite` says that all tests of the start are protected, `freed` that the agent may have changed checks.
    """
    if not now.passed:
        return now, ()
    labels = [Label.TESTS_FILTERED.about(", ".join(now.suite.filters))] if now.suite.filters else []
    if base is None or base.suite.varying:
        return now, tuple(labels)
    base = _legible(base, now)
    if gone := missing_tests(base, now, protected):
        count = f"{len(gone)} protected test{'' if len(gone) == 1 else 's'}"
        summary = f"{count} did not run: {gone[0]}{', ...' if len(gone) > 1 else ''}"
        return _red(now, summary, f"{count} of the start did not run: {some(gone, _NAMED_IN_FEEDBACK)}"), ()
    moved = {identifier.partition("::")[2] for identifier in {*now.test_ids} - {*base.test_ids}}
    lost = missing_tests(base, now, lambda path: not protected(path))
    if others := [identifier for identifier in lost if identifier.partition("::")[2] not in moved]:
        labels.append(Label.FEWER_TESTS.about(some(others, _NAMED)))
    for runner in dict.fromkeys(count.runner for count in base.suite.counts):
        wrong, label = _of_runner(runner, base, now, suite=suite, freed=freed)
        if wrong:
            return _red(now, wrong), ()
        labels += [label] if label else []
    return now, tuple(labels)


def _legible(base: ValidatorResult, now: ValidatorResult) -> ValidatorResult:
    """Return the baseline without Rust tests if such tests ran now and their names cannot be parsed."""
    ran = any(count.ran for count in now.suite.counts if count.runner == "cargo test")
    if not ran or any(_RUST.match(identifier) for identifier in now.test_ids):
        return base
    ids = tuple(identifier for identifier in base.test_ids if not _RUST.match(identifier))
    return base.model_copy(update={"test_ids": ids})


def ended_early(now: ValidatorResult, program: str) -> ValidatorResult:
    """Return a green result as red because a test program started and printed no result."""
    why = f"{program} started and was ended before its result (an exit in the code under test?)"
    return _red(now, why)


def _of_runner(
    runner: str, base: ValidatorResult, now: ValidatorResult, *, suite: bool, freed: bool
) -> tuple[str, str]:
    """Return why one runner's tests make the result red, and a label."""
    before, after = ([count for count in each.suite.counts if count.runner == runner] for each in (base, now))
    certain, total = needed(before)
    first, skipped, ran = sum(c.skipped for c in before), sum(c.skipped for c in after), sum(c.ran for c in after)
    if not after:
        if not (total or first) or (runner == "pytest" and now.tests_run is not None):
            return "", ""
        if base.suite.quiet or (freed and any(count.ran for count in now.suite.counts)):
            return "", Label.NO_TEST_SUMMARY.about(runner)
        return f"no summary of {runner}, which printed one at the start", ""
    if not (base.suite.whole and now.suite.whole):
        return "", ""
    # Unit tests of Rust are in the sources that the agent changes.
    if ran < certain and suite and runner != "cargo test":
        noun = ("package" if runner == "go test" else "test") + ("" if ran == 1 else "s")
        return f"{runner} ran {ran} {noun}, and {certain} at the start", ""
    if ran < total:
        return "", Label.FEWER_TESTS.about(f"{runner} ran {ran}, {total} at the start")
    if skipped > first and ran == total:
        return "", Label.MORE_SKIPPED.about(f"{runner} {skipped}, {first} at the start")
    return "", ""


def needed(before: Sequence[RunnerCount]) -> tuple[int, int]:
    """Return how many tests must run again, and how many there were.

    After a summary with failures, a summary with no more tests may be a retry of the same tests.
    """
    certain = total = largest_red = 0
    for count in before:
        total += count.ran
        if not count.certain:
            continue
        certain += count.ran if not largest_red or count.ran > largest_red else 0
        largest_red = max(largest_red, count.ran) if count.failed else largest_red
    return certain, total


_FIXTURES = frozenset(
    "self tmp_path tmpdir monkeypatch capsys capfd capsysbinary caplog recwarn request tmp_path_factory".split()  # noqa: SIM905
)
"""Fixtures of pytest itself, which skip no test."""
_SKIPPING = re.compile(rb"pytestmark|importorskip|allow_module_level|__test__")
_ENVIRONMENT = frozenset({"os", "platform", "shutil", "sys"})
"""Names in the conditions of tests that are skipped because of the environment alone."""


async def with_uncollected(
    results: Sequence[ValidatorResult], read: Callable[[str], Awaitable[bytes | None]]
) -> list[ValidatorResult]:
    """Return the results, with the tests in files that could not be imported added to those that ran.

    `read` returns the content of a file at the start. A validator that selects single tests is left as it is.
    """
    found: list[ValidatorResult] = []
    for result in results:
        ids = {*result.test_ids}
        selects = result.suite.filters or "::" in result.command
        files = [name for name in result.test_ids if name.endswith(".py") and "::" not in name]
        for path in () if selects else files:
            source = await read(path) or b""
            tests = tests_in(source)
            ids |= {f"{path}::{name}" for name in tests}
            if not tests and _skips_by_environment(source):
                ids.remove(path)  # all its tests may be skipped here once it can be imported
        found.append(result.model_copy(update={"test_ids": tuple(sorted(ids))}))
    return found


def tests_in(source: bytes) -> tuple[str, ...]:
    """Return the tests of a file that pytest runs in any environment once it can import it: "test_a", "TestB::test_c".

    Tests with other marks and fixtures than the known ones are left out, because those may skip them.
    """
    body = [] if _SKIPPING.search(source) else _parsed(source).body
    found = _tests_of(body)
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test") and not (node.bases or node.decorator_list):
            methods = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
            if not any(name.startswith(("__init__", "setup")) for name in methods):
                found += [f"{node.name}::{name}" for name in _tests_of(node.body)]
    return tuple(dict.fromkeys(found))


def _skips_by_environment(source: bytes) -> bool:
    """Return whether `skipif` skips tests of a file on conditions of the environment alone, not of the code."""
    calls = [node for node in ast.walk(_parsed(source)) if isinstance(node, ast.Call)]
    given = [[*call.args, *call.keywords] for call in calls if _name(call.func) in ("skipif", "skipIf", "skipUnless")]
    named = [{node.id for one in each for node in ast.walk(one) if isinstance(node, ast.Name)} for each in given]
    others = re.search(rb"importorskip|allow_module_level|SkipTest", source)
    return bool(named) and all(names and names <= _ENVIRONMENT for names in named) and not others


def _parsed(source: bytes) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _tests_of(body: Sequence[ast.stmt]) -> list[str]:
    """Return the tests among functions that have no marks and known fixtures, so that only their own code can skip them."""
    functions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test")]
    plain = [one for one in functions if not one.decorator_list and _FIXTURES.issuperset(a.arg for a in one.args.args)]
    skips = re.compile("skip|xfail", re.IGNORECASE)
    return [one.name for one in plain if not any(skips.search(_name(node)) for node in ast.walk(one))]
