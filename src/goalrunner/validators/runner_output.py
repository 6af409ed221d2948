"""The output of a validator, with the summaries of test runners in it."""

from __future__ import annotations

import re

from goalrunner.core.tools import PYTEST_NO_TESTS, PYTEST_USAGE
from goalrunner.validators.runners import READERS, Summary

_MOST_SUMMARIES = 100
"""Summaries of one runner that are kept, from the end."""
_LAST_LINES = 60
"""Lines at the end of an output in which its result is looked for."""
_LONGEST_SUMMARY = 80
_LONGEST_ERROR = 300
"""Maximum number of characters of pytest's error in a summary."""
_PYTEST_ERROR = re.compile(r"(?:ERROR: |\S+: error: )(?!usage: ).+")
"""The line in which pytest says why it does not start."""
# "packages/a test$ vitest run"
_PNPM_SCRIPT = re.compile(r"^(\S+ [\w:.-]+)\$ .*$", re.MULTILINE)
# "a:test: 3 passed"
_TURBO_SCRIPT = re.compile(r"^([@\w/.-]+:[\w:-]*test[\w:-]*): ", re.MULTILINE)


class Output:
    """The end of a validator's output, without colour codes."""

    def __init__(self, text: str, *, whole: bool = True) -> None:
        self.text = without_prefixes(text)
        self.whole = whole
        """Whether it is the whole output."""
        self.summaries: dict[str, list[Summary]] = {}
        for runner, read in READERS.items():
            self.summaries[runner] = [*read(self.text)][-_MOST_SUMMARIES:]

    def last(self, runner: str) -> Summary | None:
        """Return the last summary of a runner; None if there is none."""
        return next(reversed(self.summaries[runner]), None)

    def summary(self, exit_code: int, *, passed: bool) -> str:
        """Return `43 passed`, or `exit 1` if no runner printed a summary.

        A red result always has its exit code or its failures.
        """
        ending = f"exit {exit_code}"
        last_lines = self.text.rstrip().splitlines(keepends=True)[-_LAST_LINES:]
        # Usage errors have no summary, but a line of their own.
        if exit_code == PYTEST_USAGE:
            for line in reversed(last_lines):
                if _PYTEST_ERROR.match(line):
                    return f"{ending}: {line.rstrip()[:_LONGEST_ERROR]}"
        last = self._last_since(len(self.text.rstrip()) - len("".join(last_lines)))
        if last is None:
            return ending
        text = last.text[:_LONGEST_SUMMARY]
        if exit_code == PYTEST_NO_TESTS and "deselected" in text:
            text = f"no test selected, {text}"
        # A summary without failures does not say why the result is red.
        is_enough = passed or last.failures or text.startswith("no tests")
        return text if is_enough else f"{ending}, {text}"

    def _last_since(self, position: int) -> Summary | None:
        """Return the last summary of any runner that begins at a position or later."""
        last: Summary | None = None
        for runner in self.summaries:
            summary = self.last(runner)
            if summary is None or summary.begin < position:
                continue
            if last is None or summary.end > last.end:
                last = summary
        return last


def without_prefixes(text: str) -> str:
    """Return an output in which the lines of each script stand together, unprefixed.

    In a workspace of several packages, pnpm writes `packages/a test: 3 passed` for a
    script that it announced by `packages/a test$ vitest run`, turbo `a:test: 3 passed`.
    The summaries of test runners are anchored to whole lines.
    """
    lines_of_scripts: dict[str, list[str]] = {}
    for prefix in (*_PNPM_SCRIPT.findall(text), *_TURBO_SCRIPT.findall(text)):
        lines_of_scripts[prefix] = []
    if not lines_of_scripts:
        return text
    other_lines: list[str] = []
    for line in text.split("\n"):
        prefix, mark, printed = line.partition(": ")
        if not mark and line.endswith(":"):
            # A script printed an empty line.
            prefix, mark = line[:-1], ":"
        if mark and prefix in lines_of_scripts:
            lines_of_scripts[prefix].append(printed)
        else:
            other_lines.append(line)
    blocks = (other_lines, *lines_of_scripts.values())
    return "\n".join("\n".join(lines) for lines in blocks)
