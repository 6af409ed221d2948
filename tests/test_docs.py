"""The pages in docs/ name files, packages and markers that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "goalrunner"
PAGES = sorted((ROOT / "docs").glob("*.md"))
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`((?:\w+/)*\w+/\w+\.py|(?:docs|tests|src)/[\w/.]+)`", page.read_text())
    assert named or page.name not in ("architecture.md", "contributing.md")
    assert [name for name in named if not ((PACKAGE / name).exists() or (ROOT / name).exists())] == []


def test_the_architecture_lists_the_packages_from_top_to_bottom() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    contracts = SETTINGS["tool"]["importlinter"]["contracts"]
    layers = next(item["layers"] for item in contracts if item["type"] == "layers")
    order = [name.strip() for layer in layers for name in layer.split("|")]
    assert sorted(rows) == sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
    assert sorted(order) == sorted(rows)


def test_the_markers_on_the_page_for_contributors_exist() -> None:
    named = set(re.findall(r"pytest .*?-m (\w+)", (ROOT / "docs" / "contributing.md").read_text()))
    markers = {line.partition(":")[0] for line in SETTINGS["tool"]["pytest"]["ini_options"]["markers"]}
    assert named
    assert named <= markers
