"""A plugin that writes what pytest itself says of a run: one JSON file per pytest process.

It is never imported here: `shell_validator` hands its text to the pytest of a check, so it uses the standard library of
Python 3.7 alone. Its folder is on PYTHONPATH for its own import only; environment and sys.path are put back at once, so
that a pytest within the tests is not watched.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
_PROCESS = os.getpid()
_RANK = {"skipped": 0, "xfailed": 1, "passed": 2, "failed": 3}
_endings: dict[str, str] = {}
_stopped: list[str] = []


def _put_back(variable: str, separator: str, own: str) -> None:
    kept = [entry for entry in os.environ.get(variable, "").split(separator) if entry != own]
    if any(kept):
        os.environ[variable] = separator.join(kept)
    else:
        os.environ.pop(variable, None)


def _plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _end(node: str, ending: str) -> None:
    node = _plain(node)
    if _RANK[ending] >= _RANK.get(_endings.get(node, ""), -1):
        _endings[node] = ending


def pytest_runtest_logreport(report: Any) -> None:
    """Record one phase of a test. A test passes when its call does; it fails when any phase does."""
    if report.outcome == "failed":
        _end(report.nodeid, "failed")
    elif report.outcome == "skipped":
        _end(report.nodeid, "xfailed" if hasattr(report, "wasxfail") else "skipped")
    elif report.outcome == "passed" and report.when == "call":
        _end(report.nodeid, "passed")


def pytest_collectreport(report: Any) -> None:
    """Record a file that cannot be collected as failed."""
    if report.outcome == "failed":
        _end(report.nodeid, "failed")


def pytest_keyboard_interrupt(excinfo: Any) -> None:
    """Record Ctrl-C and pytest.exit()."""
    _stopped.append(_plain((excinfo.exconly().splitlines() or ["it was interrupted"])[0]))


def pytest_internalerror(excrepr: Any, excinfo: Any) -> None:
    """Record an error outside of the tests."""
    pytest_keyboard_interrupt(excinfo)


def pytest_sessionfinish(session: Any) -> None:
    """Write what was seen, whole or not at all; a worker of pytest-xdist and a forked test leave it to their parent."""
    if hasattr(session.config, "workerinput") or os.getpid() != _PROCESS:
        return
    root = str(getattr(session.config, "rootpath", None) or session.config.rootdir)
    path = os.path.join(_FOLDER, f"{_PROCESS}.json")  # noqa: PTH118
    with open(path + ".part", "w", encoding="ascii") as sink:  # noqa: PTH123
        json.dump({"root": _plain(root), "stopped": "; ".join(_stopped), "endings": _endings}, sink)
    os.replace(path + ".part", path)  # noqa: PTH105


_put_back("PYTEST_PLUGINS", ",", __name__)
_put_back("PYTHONPATH", os.pathsep, _FOLDER)
sys.path[:] = [entry for entry in sys.path if entry != _FOLDER]
