"""Rules for the whole source that no linter checks: docstrings, and what lies at the top level of the repository."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TOP_LEVEL = {
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "src",
    "tests",
    "goals",
    "docs",
}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_modules_have_a_docstring() -> None:
    assert [_name(path) for path in SOURCES if not ast.get_docstring(_tree(path))] == []


def test_the_top_level_holds_only_the_files_and_folders_of_the_design() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    if not listed:
        pytest.skip("not a git checkout")
    top = {name.split("/")[0] for name in listed}
    assert {name for name in top if not name.startswith(".")} <= TOP_LEVEL


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph(
        "goalrunner", cache_dir=None
    )  # imports in functions and for type checks included
    sorter = TopologicalSorter(
        {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    )
    try:
        sorter.prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


UNCLEAR = re.compile(
    r"\b(?:nobody|somebody|whoever|anybody|everybody|(?:is|are|was|were) told|owns)\b",
    re.IGNORECASE,
)
"""Words of a private style; a plain sentence names the person, the program or the rule."""


def test_sources_avoid_words_that_name_no_one() -> None:
    lines = (
        (path, number, line)
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
    )
    found = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()}"
        for path, number, line in lines
        if UNCLEAR.search(line)
    ]
    assert found == []


def _public_names(path: Path) -> Iterator[str]:
    for node in _tree(path).body:
        if isinstance(
            node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and not node.name.startswith("_"):
            yield node.name


def test_defaults_of_fields_are_visible_to_type_checkers() -> None:
    """Only `Field(default=...)` and `default_factory` are; a positional default makes the field required."""
    positional = [
        (_name(path), node.lineno)
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Field"
        and node.args
    ]
    assert positional == []


def test_a_public_name_is_defined_in_one_module() -> None:
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        # Commands and functions of the library have the names that people type, adapters those of their frameworks,
        # and child.py is a program.
        is_exempt = path.parent.name in (
            "cli",
            "adapters",
            "quickstart",
        ) or path.name in ("commands.py", "library.py", "child.py")
        if not is_exempt:
            for name in _public_names(path):
                modules[name].append(_name(path))
    assert {name: places for name, places in modules.items() if len(places) > 1} == {}
