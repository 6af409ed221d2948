"""A plugin of pytest that writes the endings of all tests of a run.

Each pytest process writes one JSON file. The plugin is never imported here:
`pytest_report` gives its text to the pytest of a check, so it uses pytest and the
standard library of Python 3.7 alone. Its folder is on PYTHONPATH for its own import
only; environment and sys.path are put back at once, so that a pytest within the tests
is not watched.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest

_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
_PROCESS = os.getpid()
_RANK = {"": 0, "skipped": 1, "xfailed": 2, "passed": 3, "failed": 4}
_endings: dict[str, str] = {}
_skipped_at: dict[str, str] = {}
_stopped: list[str] = []
_uncollected: list[str] = []


def _put_back(variable: str, separator: str, added: str) -> None:
    entries = os.environ.get(variable, "").split(separator)
    other_entries = [entry for entry in entries if entry != added]
    if any(other_entries):
        os.environ[variable] = separator.join(other_entries)
    else:
        os.environ.pop(variable, None)


def _plain(text: str) -> str:
    # Ids may contain lone surrogates, which no file can hold.
    return text.encode("utf-8", "backslashreplace").decode()


def _end(node: str, ending: str) -> None:
    node = _plain(node)
    if _RANK[ending] >= _RANK.get(_endings.get(node, ""), 0):
        _endings[node] = ending


def _note_skip(report: Any) -> None:
    """Record the file in which a skip was raised. The place of a mark is the test."""
    if isinstance(report.longrepr, (tuple, list)) and report.longrepr:
        path = os.path.abspath(str(report.longrepr[0]))  # noqa: PTH100
        _skipped_at[_plain(report.nodeid)] = _plain(path)


def _is_watched(session: Any) -> bool:
    """Return whether this process reports, and not its parent."""
    is_worker = hasattr(session.config, "workerinput")  # of pytest-xdist
    is_fork = os.getpid() != _PROCESS
    return not is_worker and not is_fork


def _path(ending: str) -> str:
    return os.path.join(_FOLDER, f"{_PROCESS}{ending}")  # noqa: PTH118


def pytest_sessionstart(session: Any) -> None:
    """Record that the run began."""
    if _is_watched(session):
        open(_path(".began"), "w").close()  # noqa: PTH123


def pytest_collection_finish(session: Any) -> None:
    """Record the selected tests; a controller of pytest-xdist has none of its own."""
    for item in session.items:
        _end(item.nodeid, "")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Any) -> None:
    """Record the tests that a worker of pytest-xdist selected."""
    for identifier in ids:
        _end(identifier, "")


def pytest_runtest_logreport(report: Any) -> None:
    """Record one phase of a test.

    A test passes when its call does; it fails when any phase does.
    """
    if report.outcome == "failed":
        _end(report.nodeid, "failed")
    elif report.outcome == "skipped" and hasattr(report, "wasxfail"):
        _end(report.nodeid, "xfailed")
    elif report.outcome == "skipped":
        _end(report.nodeid, "skipped")
        _note_skip(report)
    elif report.outcome == "passed" and report.when == "call":
        _end(report.nodeid, "passed")


def pytest_collectreport(report: Any) -> None:
    """Record a file that cannot be collected, or that skips itself."""
    if report.outcome == "failed":
        _end(report.nodeid, "failed")
        _uncollected.append(_plain(report.nodeid))
    elif report.outcome == "skipped":
        _note_skip(report)


def pytest_keyboard_interrupt(excinfo: Any) -> None:
    """Record Ctrl-C and pytest.exit()."""
    lines = excinfo.exconly().splitlines() or ["it was interrupted"]
    _stopped.append(_plain(lines[0]))


def pytest_internalerror(excrepr: Any, excinfo: Any) -> None:
    """Record an error outside of the tests."""
    pytest_keyboard_interrupt(excinfo)


def pytest_sessionfinish(session: Any, exitstatus: int) -> None:
    """Write the report, whole or not at all."""
    if not _is_watched(session):
        return
    # pytest before 6.1 has no rootpath.
    root = getattr(session.config, "rootpath", None) or session.config.rootdir
    content = {
        "root": _plain(str(root)),
        "stopped": "; ".join(_stopped),
        "endings": _endings,
        "skipped_at": _skipped_at,
        "uncollected": _uncollected,
        "cut_short": bool(session.shouldstop or session.shouldfail),
        "exit_status": int(exitstatus),
    }
    with open(_path(".part"), "w", encoding="ascii") as sink:  # noqa: PTH123
        json.dump(content, sink)
    os.replace(_path(".part"), _path(".json"))  # noqa: PTH105


_put_back("PYTEST_PLUGINS", ",", __name__)
_put_back("PYTHONPATH", os.pathsep, _FOLDER)
sys.path[:] = [entry for entry in sys.path if entry != _FOLDER]
