"""A goal with telemetry where its packages are not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import GOAL, environment

HIDE = """\
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
"""


@pytest.mark.parametrize(
    "command", [pytest.param("run", marks=pytest.mark.slow), "check"]
)
def test_the_error_names_the_command_that_installs_them(
    tmp_path: Path, own_home: Path, command: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDE)
    (tmp_path / "goal.toml").write_text(
        'objective = "x"\nvalidator = "true"\nmodel = "scripted/none.jsonl"\n[telemetry]\notlp = "http://localhost:4318"\n'
    )
    (tmp_path / "none.jsonl").touch()
    ended = subprocess.run(
        [sys.executable, *GOAL[1:], command, "goal.toml"],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(tmp_path), GOAL_HOME=str(own_home)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 2
    printed = ended.stdout + ended.stderr
    assert "[telemetry] needs the packages of the extra `telemetry`" in printed
    assert "pip install 'goalrunner[telemetry]'" in printed
