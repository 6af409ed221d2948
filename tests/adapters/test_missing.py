"""The adapters where their framework is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

_BLOCKED = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("strands", "openhands"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""

_USES = {
    "GoalLoop": ("strands", "GoalLoop('be brief', max_attempts=1)"),
    "run_goal over a Strands agent": ("strands", "run_goal(object(), 'be brief')"),
    "run_goal over an OpenHands conversation": (
        "openhands",
        "run_goal(object(), 'pass the tests')",
    ),
    "judge_goal with OpenHands events": (
        "openhands",
        "judge_goal(None, 'pass the tests', [])",
    ),
}


@pytest.mark.parametrize("use", _USES)
@pytest.mark.slow
def test_the_first_use_names_the_extra_and_importing_does_not_fail(use: str) -> None:
    framework, call = _USES[use]
    script = f"{_BLOCKED}\nfrom goalrunner.adapters import {framework}\nprint('imported')\n{framework}.{call}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout == "imported\n"
    assert f"run: pip install 'goalrunner[{framework}]'" in done.stderr.splitlines()[-1]
