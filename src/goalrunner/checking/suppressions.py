"""Comments and marks in a diff that silence a checker or skip a test: `# noqa`, `@ts-ignore`, `@pytest.mark.skip`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from goalrunner.checking.start_files import language_of

_COMMENTS = (
    r"noqa\b|type:\s*ignore|(?:pyright|ty|pyrefly|mypy|ruff):\s*(?:file-)?(?:ignore|disable)|pylint:\s*disable|pragma:\s*no\s*cover|nosec\b"
    r"|nosemgrep|isort:\s*skip|fmt:\s*(?:off|skip)|yapf:\s*disable|eslint-disable|oxlint-disable|biome-ignore|prettier-ignore"
    r"|stylelint-disable|@ts-(?:ignore|expect-error|nocheck)|(?:istanbul|c8|v8)\s+ignore|nolint\b|lint:ignore"
    r"|rubocop:\s*(?:disable|todo)|shellcheck\s+disable|swiftlint:disable|ktlint-disable|@phpstan-ignore|@psalm-suppress"
    r"|phpcs:\s*ignore|@codeCoverageIgnore|NOSONAR|NOLINT|clang-format\s+off|LCOV_EXCL|GCOVR_EXCL|coverage:\s*ignore"
)
_MARKS = (
    r"@(?:\w+\.)*(?:skip|skipIf|skipUnless|skipif|xfail|expectedFailure|no_type_check)\b|\bmark\.(?:skip|skipif|xfail)\b"
    r"|\bpytest\.(?:skip|xfail|importorskip)\(|\.skipTest\(|\braise\s+(?:\w+\.)*SkipTest\b"
    r"|\b(?:it|test|describe|suite|context|bench)(?:\.\w+(?:\([^()]*\))?)*\.(?:skip|skipIf|todo|fixme|fails|failing)\b"
    r"|\bx(?:it|describe|test|context|specify)\s*\(|\b(?:t|tb|b|s|suite)\.(?:skip|todo|Skip|Skipf|SkipNow)\(|\bskip:\s*(?:true|['\"`])"
    r"|#!?\[\s*(?:cfg_attr\(.*,\s*)?(?:allow|expect|ignore)\b|@(?:SuppressWarnings|Suppress|Disabled|Ignore)\b"
    r"|#pragma\s+warning\s+disable|\[(?:Fact|Theory)\(\s*Skip\b|\[Ignore\b|\bmarkTest(?:Skipped|Incomplete)\("
)
_SUPPRESSION = re.compile(
    rf"(?:#|//|/\*|--|;|\*|%|<!--).*?(?P<comment>{_COMMENTS})|(?P<mark>{_MARKS})"
)
_LONGEST = 1_000
"""Number of characters that are read at the beginning, and at the end, of a line."""
_FILE = re.compile(r"\+\+\+ (?:b/)?(.*?)\t?$")
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def count_suppressions(diff: str) -> int:
    """Return how many suppressions a unified diff adds to code.

    A line that was moved, and one that had the same suppression before it was changed, adds none.
    """
    added: Counter[tuple[str, str]] = Counter()
    removed: Counter[tuple[str, str]] = Counter()
    for hunk in _hunks(diff):
        before = [*_suppressions(hunk, "-")]
        for item in _suppressions(hunk, "+"):
            same = (
                item
                if item in before
                else next((one for one in before if one[1] == item[1]), None)
            )
            if same is None:
                added[item] += 1
            else:
                before.remove(same)
        removed.update(before)
    return (added - removed).total()


def _suppressions(
    hunk: Iterable[tuple[str, str]], wanted: str
) -> Iterator[tuple[str, str]]:
    """Yield the lines with suppressions among the removed or the added ones, each with its suppression in one spelling."""
    for sign, line in hunk:
        for part in (
            (line[:_LONGEST], line[_LONGEST:][-_LONGEST:]) if sign == wanted else ()
        ):
            for found in _SUPPRESSION.finditer(part):
                yield line.strip(), re.sub(r"\s", "", found["comment"] or found["mark"])


def _hunks(diff: str) -> Iterator[list[tuple[str, str]]]:
    """Yield the removed and added lines of each hunk of a file of code, with "-" or "+"."""
    path, old, new = "", 0, 0
    lines: list[tuple[str, str]] = []
    for line in diff.split("\n"):  # a line may contain a form feed
        if old > 0 or new > 0:
            sign = line[:1]
            old -= sign in ("-", " ", "")
            new -= sign in ("+", " ", "")
            if sign in ("-", "+"):
                lines.append((sign, line[1:]))
        elif hunk := _HUNK.match(line):
            yield lines
            lines = []
            old, new = (
                int(count) if count is not None else 1 for count in hunk.groups()
            )
        elif (found := _FILE.match(line)) or line.startswith("--- "):
            path = found[1] if found else path
            yield lines
            lines = []
        if language_of(path.strip('"')) is None:
            lines = []
    yield lines
