"""The goal files and presets in the README and in docs/ can be loaded, and the table of agents matches the presets."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from goalrunner.agents.registry import builtin
from goalrunner.app.agents import CHAT_FACTS, Way, ways_of
from goalrunner.goalfile import load_goal_text
from goalrunner.goalfile.parsing import preset_of_text

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [README, *(page.read_text() for page in sorted((ROOT / "docs").glob("*.md")))]
BLOCKS = [block for page in PAGES for block in re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)]
NEEDED = {"objective": 'objective = "x"', "model": 'model = "a/b"', "validator": 'validator = "y"'}


@pytest.mark.parametrize("block", BLOCKS, ids=[str(number) for number in range(len(BLOCKS))])
def test_every_example_in_toml_holds(block: str, tmp_path: Path) -> None:
    if block.startswith("# ~/.config/goal/agents/"):
        assert preset_of_text(block, "README.md")
        return
    table = tomllib.loads(block)
    given = set(table) | ({"model"} if "agent" in table else set())
    given |= {"validator"} if given & {"validators", "judge"} else set()
    head = "".join(f"{line}\n" for key, line in NEEDED.items() if key not in given)
    assert load_goal_text(head + block, "README.md", {}, {}, base=tmp_path).objective


def test_there_are_examples() -> None:
    assert len(BLOCKS) > 5


def test_the_table_of_agents_is_what_the_presets_say() -> None:
    table = README.partition("<!-- agents -->\n")[2].partition("\n\n")[0].splitlines()[2:]
    rows = {cells[1].strip(" `"): [cell.strip() for cell in cells[3:7]] for cells in (row.split("|") for row in table)}
    expected = {"chat": abilities(CHAT_FACTS.ways)}
    expected |= {name: abilities(ways_of(preset, {})) for name, preset in builtin().items()}
    assert {name: row for name, row in rows.items() if name not in ("command", "acp")} == expected


def abilities(ways: tuple[Way, ...]) -> list[str]:
    """Of an agent as it is usually driven, else as it can be driven as well."""
    return [ability(ways, name) for name in ("resume", "usage", "cost", "permission")]


def ability(ways: tuple[Way, ...], name: str) -> str:
    usual, *others = (getattr(way.can, name) for way in ways)
    return "yes" if usual else 'with `protocol = "acp"`' if any(others) else "no"
