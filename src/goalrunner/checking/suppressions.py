"""Comments and marks in a diff that silence a checker or skip a test.

Examples: `# noqa`, `@ts-ignore`, `@pytest.mark.skip`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from goalrunner.checking.start_files import language_of

_COMMENTS = (
    r"noqa\b|type:\s*ignore"
    r"|(?:pyright|ty|pyrefly|mypy|ruff):\s*(?:file-)?(?:ignore|disable)"
    r"|pylint:\s*disable|pragma:\s*no\s*cover|nosec\b|nosemgrep|isort:\s*skip"
    r"|fmt:\s*(?:off|skip)|yapf:\s*disable|eslint-disable|oxlint-disable|biome-ignore"
    r"|prettier-ignore|stylelint-disable|@ts-(?:ignore|expect-error|nocheck)"
    r"|(?:istanbul|c8|v8)\s+ignore|nolint\b|lint:ignore|rubocop:\s*(?:disable|todo)"
    r"|shellcheck\s+disable|swiftlint:disable|ktlint-disable|@phpstan-ignore"
    r"|@psalm-suppress|phpcs:\s*ignore|@codeCoverageIgnore|NOSONAR|NOLINT"
    r"|clang-format\s+off|LCOV_EXCL|GCOVR_EXCL|coverage:\s*ignore"
)
_MARKS = (
    r"@(?:\w+\.)*(?:skip|skipIf|skipUnless|skipif|xfail|expectedFailure"
    r"|no_type_check)\b|\bmark\.(?:skip|skipif|xfail)\b"
    r"|\bpytest\.(?:skip|xfail|importorskip)\(|\.skipTest\("
    r"|\braise\s+(?:\w+\.)*SkipTest\b"
    r"|\b(?:it|test|describe|suite|context|bench)(?:\.\w+(?:\([^()]*\))?)*"
    r"\.(?:skip|skipIf|todo|fixme|fails|failing)\b"
    r"|\bx(?:it|describe|test|context|specify)\s*\("
    r"|\b(?:t|tb|b|s|suite)\.(?:skip|todo|Skip|Skipf|SkipNow)\("
    r"|\bskip:\s*(?:true|['\"`])"
    r"|#!?\[\s*(?:cfg_attr\(.*,\s*)?(?:allow|expect|ignore)\b"
    r"|@(?:SuppressWarnings|Suppress|Disabled|Ignore)\b"
    r"|#pragma\s+warning\s+disable|\[(?:Fact|Theory)\(\s*Skip\b|\[Ignore\b"
    r"|\bmarkTest(?:Skipped|Incomplete)\("
)
_SUPPRESSION = re.compile(
    rf"(?:#|//|/\*|--|;|\*|%|<!--).*?(?P<comment>{_COMMENTS})|(?P<mark>{_MARKS})"
)
_LONGEST = 1_000
"""Number of characters that are read at the beginning, and at the end, of a line."""
_FILE = re.compile(r"(?:\+\+\+ (?:b/)?|--- (?:a/)?)(.*?)\t?$")
_NO_FILE = "/dev/null"
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@dataclass(frozen=True)
class _Suppression:
    """A suppression with its line."""

    line: str
    text: str
    """In one spelling, without spaces."""


def count_suppressions(diff: str) -> int:
    """Return how many suppressions a unified diff adds to code.

    A line that was moved, and one that had the same suppression before it was changed,
    adds none.
    """
    added: Counter[_Suppression] = Counter()
    removed: Counter[_Suppression] = Counter()
    for hunk in _hunks(diff):
        before = list(_suppressions(hunk, "-"))
        for suppression in _suppressions(hunk, "+"):
            earlier = _earlier(suppression, before)
            if earlier is None:
                added[suppression] += 1
            else:
                before.remove(earlier)
        # It may have been moved to another hunk.
        removed.update(before)
    return (added - removed).total()


def _earlier(
    suppression: _Suppression,
    before: Sequence[_Suppression],
) -> _Suppression | None:
    """Return the same suppression before the change; that of the same line first."""
    if suppression in before:
        return suppression
    for earlier in before:
        if earlier.text == suppression.text:
            return earlier
    return None


def _suppressions(
    hunk: Sequence[tuple[str, str]],
    wanted_sign: str,
) -> Iterator[_Suppression]:
    """Yield the suppressions in the removed ("-") or the added ("+") lines."""
    for sign, line in hunk:
        if sign != wanted_sign:
            continue
        # Minified code has lines of a megabyte.
        for part in (line[:_LONGEST], line[_LONGEST:][-_LONGEST:]):
            for match in _SUPPRESSION.finditer(part):
                text = match["comment"] or match["mark"]
                yield _Suppression(line.strip(), re.sub(r"\s", "", text))


def _hunks(diff: str) -> Iterator[list[tuple[str, str]]]:
    """Yield the removed and added lines of each hunk of a file of code.

    Each line has "-" or "+".
    """
    path = ""
    # The numbers of lines that the hunk still has.
    old = new = 0
    lines: list[tuple[str, str]] = []
    # Not `splitlines`: a line may contain a form feed.
    for line in diff.split("\n"):
        # In a hunk, "--- a" is a removed line, and no heading.
        if old > 0 or new > 0:
            sign = line[:1]
            old -= sign in ("-", " ", "")
            new -= sign in ("+", " ", "")
            if sign in ("-", "+"):
                lines.append((sign, line[1:]))
        elif hunk := _HUNK.match(line):
            yield lines
            lines = []
            old, new = _count(hunk[1]), _count(hunk[2])
        elif file := _FILE.match(line):
            # A removed file has its name before the change alone.
            if file[1] != _NO_FILE:
                path = file[1]
            yield lines
            lines = []
        # Git quotes a path with special characters.
        if language_of(path.strip('"')) is None:
            lines = []
    yield lines


def _count(number: str | None) -> int:
    """Return the number of lines in the heading of a hunk, which leaves out a 1."""
    return 1 if number is None else int(number)
