"""Options of pytest that only a person can correct."""

from __future__ import annotations

import pytest

from goalrunner.validators.baseline_status import usage_obstacle

_USAGE = """\
ERROR: usage: pytest [options] [file_or_dir] [file_or_dir] [...]
pytest: error: unrecognized arguments: {}
  inifile: None
  rootdir: /w
"""


@pytest.mark.parametrize(
    ("line", "refused", "why"),
    [
        (
            "pytest -q --cov",
            "--cov",
            "pytest does not know --cov; install its plugin, or remove it from the goal file",
        ),
        (
            "pytest --cov-fail-under=90",
            "--cov-fail-under=90",
            "pytest does not know --cov-fail-under; install its plugin, or remove it from the goal file",
        ),
        (
            "uv run pytest -n 4",
            "-n",
            "pytest does not know -n; install its plugin, or remove it from the goal file",
        ),
        # A conftest.py of the workspace may be what brings these.
        ("pytest --runslow", "--runslow", ""),
        ("pytest --integration", "--integration", ""),
        # Configuration of the workspace names these, not the goal file.
        ("pytest -q", "--cov", ""),
        ("make test", "--cov", ""),
    ],
)
def test_an_option_of_the_line_itself_is_a_persons_to_correct(line: str, refused: str, why: str) -> None:
    assert usage_obstacle(line, _USAGE.format(refused)) == why
