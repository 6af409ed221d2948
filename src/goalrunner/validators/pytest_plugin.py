"""A plugin that writes what pytest itself says of a run: one JSON file per pytest process.

It is never imported here: `pytest_report` hands its text to the pytest of a check, so it uses pytest and the standard
library of Python 3.7 alone. Its folder is on PYTHONPATH for its own import only; environment and sys.path are put back
at once, so that a pytest within the tests is not watched.
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


def _put_back(variable: str, separator: str, own: str) -> None:
    kept = [
        entry for entry in os.environ.get(variable, "").split(separator) if entry != own
    ]
    if any(kept):
        os.environ[variable] = separator.join(kept)
    else:
        os.environ.pop(variable, None)


def _plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _end(node: str, ending: str) -> None:
    node = _plain(node)
    if _RANK[ending] >= _RANK.get(_endings.get(node, ""), 0):
        _endings[node] = ending


def _note_skip(report: Any) -> None:
    """Record the file in which a skip was raised. The place of a mark is the test."""
    if isinstance(report.longrepr, (tuple, list)) and report.longrepr:
        _skipped_at[_plain(report.nodeid)] = _plain(
            os.path.abspath(str(report.longrepr[0]))  # noqa: PTH100
        )


def _is_watched(session: Any) -> bool:
    """Return whether this process reports; a worker of pytest-xdist and a forked test leave it to their parent."""
    return not hasattr(session.config, "workerinput") and os.getpid() == _PROCESS


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
    """Record one phase of a test. A test passes when its call does; it fails when any phase does."""
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
    """Record a file that cannot be collected as failed, and where a file skips itself."""
    if report.outcome == "failed":
        _end(report.nodeid, "failed")
        _uncollected.append(_plain(report.nodeid))
    elif report.outcome == "skipped":
        _note_skip(report)


def pytest_keyboard_interrupt(excinfo: Any) -> None:
    """Record Ctrl-C and pytest.exit()."""
    _stopped.append(
        _plain((excinfo.exconly().splitlines() or ["it was interrupted"])[0])
    )


def pytest_internalerror(excrepr: Any, excinfo: Any) -> None:
    """Record an error outside of the tests."""
    pytest_keyboard_interrupt(excinfo)


def pytest_sessionfinish(session: Any, exitstatus: int) -> None:
    """Write what was seen, whole or not at all."""
    if not _is_watched(session):
        return
    content = {
        "root": _plain(
            str(getattr(session.config, "rootpath", None) or session.config.rootdir)
        ),
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
