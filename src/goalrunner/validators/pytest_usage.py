"""Options of pytest in a validator's own command line that the installed pytest does not know."""

from __future__ import annotations

import difflib
import re

from goalrunner.validators.runners import calls

PYTEST_USAGE = 4
"""pytest's exit code for a usage error."""

_UNKNOWN = re.compile(r"^\S+: error: unrecognized arguments: (.+)$", re.MULTILINE)
_PLUGIN = re.compile(r'^(?:ERROR: |ImportError: )?Error importing plugin "([\w.]+)": No module named', re.MULTILINE)

_PACKAGES = {
    "--alluredir": "allure-pytest",
    "--asyncio-mode": "pytest-asyncio",
    "--benchmark-": "pytest-benchmark",
    "--browser": "pytest-playwright",
    "--count": "pytest-repeat",
    "--cov": "pytest-cov",
    "--dist": "pytest-xdist",
    "--ds": "pytest-django",
    "--forked": "pytest-forked",
    "--headed": "pytest-playwright",
    "--html": "pytest-html",
    "--hypothesis-": "hypothesis",
    "--json-report": "pytest-json-report",
    "--mypy": "pytest-mypy",
    "--nbmake": "nbmake",
    "--nbval": "nbval",
    "--no-cov": "pytest-cov",
    "--numprocesses": "pytest-xdist",
    "--random-order": "pytest-random-order",
    "--randomly-seed": "pytest-randomly",
    "--reruns": "pytest-rerunfailures",
    "--snapshot-update": "syrupy",
    "--testmon": "pytest-testmon",
    "--timeout": "pytest-timeout",
    "-n": "pytest-xdist",
}
"""Options and beginnings of options, and the package that brings them."""
_MODULES = {package.replace("-", "_"): package for package in _PACKAGES.values()} | {"xdist": "pytest-xdist"}

_OPTIONS = tuple(
    """
    --basetemp --cache-clear --capture --collect-only --color --confcutdir --deselect --disable-warnings --doctest-glob
    --doctest-modules --durations --durations-min --exitfirst --failed-first --ignore --ignore-glob --import-mode
    --junit-xml --junitxml --last-failed --log-cli-level --log-level --maxfail --new-first --no-header --no-summary
    --noconftest --override-ini --pyargs --quiet --rootdir --runxfail --setup-show --showlocals --stepwise
    --strict-config --strict-markers --verbose
    """.split()  # noqa: SIM905 - a table, to be read
)


def usage_obstacle(command: str, output: str) -> str:
    """Return why pytest refuses an option of the line itself, and what helps; empty if the work may bring the option.

    An option that no known package brings may be one that a conftest.py of the workspace is to add.
    """
    words = {word for call in calls(command) if call.runner.name == "pytest" for word in call.arguments}
    if found := _UNKNOWN.search(output):
        for refused in found[1].split():
            name = refused.partition("=")[0]
            if refused in words or name in words:
                if package := _package(name):
                    return f"unrecognized arguments: {refused}; install {package}, or remove {name} from the goal file"
                if near := _similar(name):
                    return f"unrecognized arguments: {refused}; did you mean {near}?"
    if found := _PLUGIN.search(output):
        package = _MODULES.get(found[1].partition(".")[0], "")
        if package and ({found[1], f"-p{found[1]}"} & words):
            return f"No module named {found[1]}; install {package}, or remove -p {found[1]} from the goal file"
    return ""


def _package(option: str) -> str:
    exact = _PACKAGES.get(option)
    if exact or not option.startswith("--"):
        return exact or ""
    longer = (package for known, package in _PACKAGES.items() if option.startswith(f"{known.rstrip('-')}-"))
    return next(longer, "")


def _similar(option: str) -> str:
    near = difflib.get_close_matches(option, _OPTIONS, n=1, cutoff=0.85) if len(option) > 5 else []
    return near[0] if near else ""
