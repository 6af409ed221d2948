"""taplo, the program behind the TOML support of editors, checks goal files by the schema that they name."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from goalrunner.cli.main import main

taplo = shutil.which("taplo")
pytestmark = pytest.mark.skipif(
    taplo is None, reason="taplo is not installed: pip install taplo"
)


@pytest.fixture
def lint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Lint:
    """Return a function that checks the text of a goal file."""
    main(["schema"])
    (tmp_path / "schema.json").write_text(capsys.readouterr().out)
    return Lint(tmp_path)


class Lint:
    """taplo with the schema of goal files."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "goal.toml"

    def __call__(self, text: str) -> tuple[int, str]:
        """Return the exit code, and what is wrong."""
        self._file.write_text(f"#:schema ./schema.json\n{text}")
        argv = [str(taplo), "lint", "--no-auto-config", self._file.name]
        done = subprocess.run(
            argv, cwd=self._file.parent, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('agemt = "claude"', "'agemt' was unexpected"),
        ('max_iterations = "many"', '"many" is not valid'),
        ("[judge]\nmodle = 'x'", "is not valid"),
        ('[workspace]\ncheck = "overly"', '"overly" is not valid'),
    ],
)
def test_a_mistake_is_shown_with_its_place(lint: Lint, line: str, said: str) -> None:
    code, errors = lint(f'objective = "x"\nvalidator = "true"\n{line}\n')
    assert code == 1
    assert said in errors
    assert "goal.toml:" in errors
