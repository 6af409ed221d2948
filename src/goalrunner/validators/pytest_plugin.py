"""A plugin that writes what pytest itself says of a run: one JUnit file per pytest process.

It is never imported here: `pytest_report` hands its text to the pytest of a check, so it uses the standard library of
Python 3.7 alone. Its folder is on PYTHONPATH for its own import only; environment and sys.path are put back at once, so
that a pytest within the tests is not watched.
"""

from __future__ import annotations

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


def _end(node: str, ending: str) -> None:
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
    _stopped.append(_first_line(excinfo))


def pytest_internalerror(excrepr: Any, excinfo: Any) -> None:
    """Record an error outside of the tests."""
    _stopped.append(_first_line(excinfo))


def pytest_sessionfinish(session: Any) -> None:
    """Write what was seen, whole or not at all; a worker of pytest-xdist and a forked test leave it to their parent."""
    if hasattr(session.config, "workerinput") or os.getpid() != _PROCESS:
        return
    root = str(getattr(session.config, "rootpath", None) or session.config.rootdir)
    lines = [
        "<?xml version='1.0' encoding='ascii'?>",
        f"<testsuite {_attributes(rootdir=root, stopped='; '.join(_stopped))}>",
    ]
    marks = {"passed": "", "failed": "<failure/>", "xfailed": "<skipped type='pytest.xfail'/>", "skipped": "<skipped/>"}
    for node, ending in _endings.items():
        file, _, name = node.partition("::")
        lines.append(f"<testcase {_attributes(nodeid=node, file=file, name=name)}>{marks[ending]}</testcase>")
    path = os.path.join(_FOLDER, f"{_PROCESS}.xml")  # noqa: PTH118
    with open(path + ".part", "w", encoding="ascii") as sink:  # noqa: PTH123
        sink.write("\n".join([*lines, "</testsuite>\n"]))
    os.replace(path + ".part", path)  # noqa: PTH105


def _first_line(excinfo: Any) -> str:
    return str((excinfo.exconly().splitlines() or ["it was interrupted"])[0])


def _attributes(**attributes: str) -> str:
    return " ".join("%s='%s'" % (name, _escaped(value)) for name, value in attributes.items())  # noqa: UP031


def _escaped(text: str) -> str:
    return "".join(c if c in _PLAIN else "&#%d;" % ord(c) if _fits(ord(c)) else "\\x%02x" % ord(c) for c in text)  # noqa: UP031


def _fits(code: int) -> bool:
    """Return whether XML can hold the character."""
    return code in (9, 10, 13) or 32 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or code > 0xFFFF


_PLAIN = frozenset(chr(code) for code in range(32, 127)) - frozenset("<>&'\"")

_put_back("PYTEST_PLUGINS", ",", __name__)
_put_back("PYTHONPATH", os.pathsep, _FOLDER)
sys.path[:] = [entry for entry in sys.path if entry != _FOLDER]
with open(os.path.join(_FOLDER, f"{_PROCESS}.began"), "w", encoding="ascii"):  # noqa: PTH118, PTH123
    pass
