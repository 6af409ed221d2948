"""Programs of users are accepted by type checkers without a plugin and run; wrong ones are rejected."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
WRONG = sorted((HERE / "wrong").glob("*.py"))
Errors = dict[tuple[str, int], set[str]]
"""The codes of the errors by file and line."""


def pinned(column: int) -> Errors:
    """Return the expected errors: `# expect: CODES_OF_MYPY / CODES_OF_PYRIGHT`, `-` for none."""
    errors: Errors = {}
    for path in WRONG:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := re.search(r"# expect: (.*) / (.*)$", line):
                codes = set(match[column].split()) - {"-"}
                if codes:
                    errors[path.name, number] = codes
    return errors


def mypy_errors(files: list[Path], cache: Path) -> Errors:
    """Return the errors of `mypy --strict` with the settings of no project."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file="]
    done = subprocess.run(
        [*command, f"--cache-dir={cache}", "--output=json", *map(str, files)],
        cwd=cache,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    errors: Errors = defaultdict(set)
    for line in done.stdout.splitlines():
        row = json.loads(line)
        if row["severity"] == "error":
            errors[Path(row["file"]).name, row["line"]].add(row["code"])
    return dict(errors)


def pyright_command() -> str:
    """Return pyright, or basedpyright, which brings its own Node.js. Skip without them."""
    for name in ("pyright", "basedpyright"):
        path = shutil.which(
            name, path=f"{Path(sys.executable).parent}"
        ) or shutil.which(name)
        if path is None:
            continue
        tried = subprocess.run([path, "--version"], capture_output=True, check=False)
        if tried.returncode == 0:
            return path
    pytest.skip("neither pyright nor basedpyright is installed")


def pyright_errors(files: list[Path], folder: Path) -> Errors:
    """Return the errors of pyright's standard mode."""
    settings = folder / "pyrightconfig.json"
    settings.write_text(json.dumps({"typeCheckingMode": "standard"}))
    # Beside the settings, so that no others count.
    for path in files:
        shutil.copy(path, folder)
    done = subprocess.run(
        [
            pyright_command(),
            "--outputjson",
            f"--pythonpath={sys.executable}",
            f"--project={settings}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr + done.stdout
    errors: Errors = defaultdict(set)
    for row in json.loads(done.stdout)["generalDiagnostics"]:
        if row["severity"] == "error":
            line = row["range"]["start"]["line"] + 1
            errors[Path(row["file"]).name, line].add(row["rule"])
    return dict(errors)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_of_a_user_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOAL_HOME", str(tmp_path / "home"))
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    runpy.run_path(str(path))["main"]()


@pytest.mark.slow
def test_mypy_accepts_the_programs_and_finds_the_mistakes(tmp_path: Path) -> None:
    assert mypy_errors([*PROGRAMS, *WRONG], tmp_path) == pinned(1)


@pytest.mark.slow
def test_pyright_accepts_the_programs_and_finds_the_mistakes(tmp_path: Path) -> None:
    assert pyright_errors([*PROGRAMS, *WRONG], tmp_path) == pinned(2)


def test_every_wrong_program_has_expected_errors() -> None:
    assert {name for name, _ in pinned(1)} == {path.name for path in WRONG}
