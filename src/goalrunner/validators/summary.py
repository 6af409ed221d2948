"""One line for people from a test runner's last lines. Owns a few known forms; decides nothing."""

from __future__ import annotations

import re

_LAST_LINES = 30
_LONGEST = 80

_PYTEST = re.compile(r"^=*\s*((?:\d+ \w+(?:, )?)+|no tests ran) in [\d.]+s(?: \([\d:]+\))?\s*=*$")
_JEST = re.compile(r"^Tests:\s+(.+), \d+ total$")
_CARGO = re.compile(r"^test result: \w+\. (\d+ passed; \d+ failed)")
_UNITTEST = re.compile(r"^(OK|FAILED)(?: \((.+)\))?$")
_UNITTEST_COUNT = re.compile(r"^Ran (\d+ tests?) in ")
_BAD = re.compile(r"(?:[1-9]\d*) (?:fail|error)|FAILED|no tests")


def summary_of(output: str, exit_code: int, passed: bool) -> str:
    """`43 passed`, or where no known runner speaks `exit 1`. A red result is never summed up as if all were well."""
    ending = f"exit {exit_code}"
    known = _known(output.splitlines()[-_LAST_LINES:])
    if not known:
        return ending
    return known if passed or _BAD.search(known) else f"{ending}, {known}"


def _known(lines: list[str]) -> str:
    for at in range(len(lines) - 1, -1, -1):
        line = lines[at].strip()
        if found := _PYTEST.match(line) or _JEST.match(line):
            return found[1][:_LONGEST]
        if found := _CARGO.match(line):
            return found[1].replace(";", ",")
        if found := _UNITTEST.match(line):
            return _unittest(lines[:at], found)
    return ""


def _unittest(before: list[str], ending: re.Match[str]) -> str:
    count = next((found[1] for line in reversed(before) if (found := _UNITTEST_COUNT.match(line))), "")
    return ", ".join(part for part in (count, ending[1], ending[2]) if part)[:_LONGEST] if count else ""
