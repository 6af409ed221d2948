"""What people call often starts without what it does not need. Seen in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.told_run import summary

HEAVY = (
    "litellm",
    "openai",
    "httpx",
    "tiktoken",
    "pydantic",
    "pydantic_core",
    "rich.console",
    "asyncio",
    "concurrent.futures",
)
"""What costs tens of milliseconds and more to import."""

CALL = """
import json, sys
from goalrunner.cli.main import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""
"""Runs a command line, then says on stderr its exit code and what is imported."""

QUICKSTART = Path(__file__).parents[2] / "src" / "goalrunner" / "quickstart"


@pytest.fixture
def one_run(own_home: Path, tmp_path: Path) -> str:
    """The id of a run of the workspace `tmp_path` that is over."""
    values = summary(workspace=str(tmp_path))
    folder = own_home / "runs" / str(values["run_id"])
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps(values), encoding="utf-8")
    return str(values["run_id"])


def _imported(folder: Path, *arguments: str) -> tuple[int, set[str]]:
    """Exit code and imported modules of a command line."""
    command = [sys.executable, "-c", CALL, *arguments]
    ended = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, timeout=60, check=True
    )
    assert ended.stdout
    code, names = json.loads(ended.stderr)
    return code, set(names)


@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "--version",
        "list",
        "list --json --all",
        "status",
        "status RUN",
        "status RUN --json",
    ],
)
def test_a_plain_command_imports_nothing_heavy(
    line: str, one_run: str, tmp_path: Path
) -> None:
    code, imported = _imported(
        tmp_path, *(one_run if word == "RUN" else word for word in line.split())
    )
    assert code == 0
    assert not imported & set(HEAVY)


HELP_OF_EACH = """
import json, sys
from goalrunner.cli.main import main
imported = {}
for line in sys.argv[1:]:
    assert main([*line.split(), "--help"]) == 0
    imported[line] = sorted(sys.modules)
print(json.dumps(imported), file=sys.stderr)
"""
"""Prints the help of command lines, then says on stderr what is imported after each."""


def test_the_help_of_a_command_imports_neither_litellm_nor_rich(tmp_path: Path) -> None:
    commands = [
        *("run", "status", "show", "diff", "report", "restore", "verify"),
        *("memory", "memory add", "memory list", "memory forget"),
    ]
    ended = subprocess.run(
        [sys.executable, "-c", HELP_OF_EACH, *commands],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=True,
    )
    imported = json.loads(ended.stderr)
    assert list(imported) == commands
    unwanted = {"litellm", "openai", "httpx", "rich.console", "asyncio"}
    for line, names in imported.items():
        assert not unwanted.intersection(names), line


def test_the_state_of_a_run_is_told_without_typer(one_run: str, tmp_path: Path) -> None:
    for line in (["list"], ["status", one_run]):
        assert "typer" not in _imported(tmp_path, *line)[1]


@pytest.mark.slow
def test_a_dry_run_of_recorded_models_imports_neither_litellm_nor_rich(
    tmp_path: Path,
) -> None:
    code, imported = _imported(
        tmp_path, "run", str(QUICKSTART / "goal.toml"), "--dry-run"
    )
    assert code == 0
    assert not imported & {"litellm", "openai", "httpx", "rich.console"}


def test_a_run_without_model_calls_of_its_own_imports_no_litellm(
    own_home: Path, tmp_path: Path
) -> None:
    text = 'objective = "x"\nvalidator = "test -f done"\nagent = {use = "command", command = "touch done"}\n'
    (tmp_path / "goal.toml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", CALL, "run", "--json", "--quiet"]
    ended = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True
    )
    code, imported = json.loads(ended.stderr.splitlines()[-1])
    assert code == 0
    assert not {"litellm", "openai", "httpx"}.intersection(imported)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("openai/gpt-5", "OPENAI_API_KEY is not set"),
        pytest.param("nope/x", "unknown provider", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_cannot_start_imports_no_litellm(
    model: str, said: str, own_home: Path, tmp_path: Path
) -> None:
    line = ("check", "--json")
    text = f'objective = "x"\nvalidator = "true"\nmodel = "{model}"\n[budget]\ncost_usd = 1\n'
    (tmp_path / "goal.toml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", CALL, *line]
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith("_API_KEY")
    }
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=True,
        env=environ,
    )
    assert said in ended.stdout
    assert "litellm" not in json.loads(ended.stderr.splitlines()[-1])[1]


def test_the_package_itself_imports_only_its_version(tmp_path: Path) -> None:
    code = "import sys, goalrunner; print([name for name in sys.modules if name.startswith('goalrunner.')])"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=True,
    )
    assert ended.stdout == "['goalrunner.core']\n"
