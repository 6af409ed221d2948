"""The rules that hold for the whole source: layers, types, lint, size."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["lint-imports", "--no-cache"], id="layers"),
        pytest.param(["ruff", "check", "--no-cache", "."], id="lint"),
        pytest.param(["ruff", "format", "--check", "--no-cache", "."], id="format"),
        pytest.param(["mypy"], id="types"),
    ],
)
@pytest.mark.timeout(300)
def test_the_source_passes(command: list[str]) -> None:
    program = Path(sys.executable).with_name(command[0])
    done = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_is_short_documented_and_made_of_short_functions(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert len(text.splitlines()) <= 300
    assert ast.get_docstring(tree), "a module says what it owns"
    assert [where for where, size in _functions(tree) if size > 70] == []


def _functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{node.name}:{node.lineno}", (node.end_lineno or node.lineno) - node.lineno + 1


def test_the_top_level_holds_what_the_design_names_and_no_more() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not listed:
        pytest.skip("not a git checkout")
    top = {name.split("/")[0] for name in listed}
    known = {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "src", "tests", "goals"}
    assert {name for name in top if not name.startswith(".")} <= known
