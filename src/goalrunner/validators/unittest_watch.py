"""A sitecustomize that records whether `python -m unittest` came to its end.

It writes a file when unittest starts, and one at its end. It is never imported here:
`runner_reports` gives its text to the Python of a check, so it uses the standard
library of Python 3.7 alone. Its folder is on PYTHONPATH for its own import only; the
environment is put back at once, so that a unittest within the tests is not watched, and
the sitecustomize that it covers is imported.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
_PROCESS = os.getpid()


def _put_back() -> None:
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    other_entries = [entry for entry in entries if entry != _FOLDER]
    if any(other_entries):
        os.environ["PYTHONPATH"] = os.pathsep.join(other_entries)
    else:
        os.environ.pop("PYTHONPATH", None)
    sys.path[:] = [entry for entry in sys.path if entry != _FOLDER]


def _import_covered() -> None:
    this_module = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError:
        # There is no other one.
        if this_module is not None:
            sys.modules["sitecustomize"] = this_module


def _is_unittest() -> bool:
    words = getattr(sys, "orig_argv", [])
    return ("-m", "unittest") in zip(words, words[1:])  # noqa: B905, RUF007


def _note(ending: str) -> None:
    path = os.path.join(_FOLDER, f"{_PROCESS}{ending}")  # noqa: PTH118
    open(path, "w").close()  # noqa: PTH123


def _watch() -> None:
    from unittest.main import TestProgram

    run_tests = TestProgram.runTests

    def watched(program: Any) -> None:
        try:
            run_tests(program)
        finally:
            # The fork of a test may leave through here as well.
            if os.getpid() == _PROCESS:
                _note(".ended")

    TestProgram.runTests = watched  # type: ignore[assignment, method-assign]
    _note(".began")


_put_back()
if _is_unittest():
    _watch()
_import_covered()
