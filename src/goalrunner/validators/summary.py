"""One line for people from a test runner's last lines. Owns its wording; decides nothing."""

from __future__ import annotations

import re

from goalrunner.validators.pytest_usage import PYTEST_USAGE
from goalrunner.validators.runners import RUNNERS

_LAST_LINES = 60
_LONGEST = 80
_LONGEST_LINE = 300
"""Characters of a summary line; no test runner writes a longer one, and patterns shall not be tried on what is no summary."""
_ERROR = re.compile(r"(?:ERROR: |\S+: error: )(?!usage: ).+")
"""The line in which pytest says why it does not start."""


def summary_of(output: str, exit_code: int, passed: bool) -> str:
    """`43 passed`, or where no known runner speaks `exit 1`. A red result is never summed up as if all were well."""
    ending = f"exit {exit_code}"
    lines = output.splitlines()[-_LAST_LINES:]
    if exit_code == PYTEST_USAGE and (error := next(filter(_ERROR.fullmatch, reversed(lines)), "")):
        return f"{ending}: {error[:_LONGEST_LINE]}"
    found = [summary for runner in RUNNERS if (summary := runner.read(lines))]
    if not found:
        return ending
    last = max(found, key=lambda summary: summary.end)
    text = last.text[:_LONGEST]
    return text if passed or last.says or text.startswith("no tests") else f"{ending}, {text}"
