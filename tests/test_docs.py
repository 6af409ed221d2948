"""The README and the pages in docs/ name what exists, and their examples can be run, loaded or parsed."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, cast

import click
import pytest
import typer.main
from typer.core import TyperGroup

from goalrunner.agents.external_agents import BUILT_IN, parser_class
from goalrunner.agents.facts import CHAT_FACTS, Way, ways_of
from goalrunner.cli.app import DEFAULTS, app
from goalrunner.goalfile.agents import preset_of_text
from goalrunner.goalfile.loading import load_goal_text
from tests.support import reference
from tests.support.programs import Programs

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "goalrunner"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
NEEDED = {
    "objective": 'objective = "x"',
    "model": 'model = "a/b"',
    "validator": 'validator = "y"',
}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(*languages: str) -> list[object]:
    """The code blocks of all pages in these languages, without the indentation of a list."""
    found: list[object] = []
    for page in PAGES:
        for number, (indent, language, text) in enumerate(
            re.findall(
                r"^( *)```(\w+)\n(.*?)^ *```$",
                page.read_text(),
                re.MULTILINE | re.DOTALL,
            )
        ):
            if language in languages:
                block = "".join(
                    line.removeprefix(indent) for line in text.splitlines(keepends=True)
                )
                found.append(pytest.param(block, id=f"{name_of(page)}-{number}"))
    return found


def test_there_are_examples_and_each_has_a_language() -> None:
    assert [
        len(blocks(language)) > 0 for language in ("toml", "sh", "python", "yaml")
    ] == [True] * 4
    known = ("toml", "sh", "bash", "python", "yaml", "text", "json")
    fences = [
        (name_of(page), line)
        for page in PAGES
        for line in re.findall(r"^ *```(\w*)$", page.read_text(), re.MULTILINE)
    ]
    opening = fences[::2]
    assert [fence for fence in opening if fence[1] not in known] == []


@pytest.mark.parametrize("block", blocks("toml"))
def test_every_example_in_toml_can_be_loaded(block: str, tmp_path: Path) -> None:
    if block.startswith("# ~/.config/goal/agents/"):
        assert preset_of_text(block, "README.md")
        return
    table = tomllib.loads(block)
    given = set(table) | ({"model"} if "agent" in table else set())
    given |= {"validator"} if given & {"validators", "judge"} else set()
    head = "".join(f"{line}\n" for key, line in NEEDED.items() if key not in given)
    programs = Programs.new(tmp_path / "machine")
    programs.shell("claude", "")  # a judge must be installed
    assert load_goal_text(
        head + block, "README.md", {}, programs.environ, base=tmp_path
    ).objective


@pytest.mark.parametrize("block", blocks("python"))
def test_every_example_in_python_can_be_compiled(block: str) -> None:
    assert ast.parse(block).body


@pytest.mark.parametrize("block", blocks("yaml"))
def test_every_example_in_yaml_is_a_workflow_a_pipeline_or_a_hook(block: str) -> None:
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(block).keys() & {"jobs", "repos", "include"}


@pytest.mark.parametrize("block", blocks("sh", "bash"))
def test_every_command_line_has_commands_and_options_that_exist(block: str) -> None:
    group = cast("click.Group", typer.main.get_command(app))
    lines = [line for line in block.splitlines() if re.match(r"goal ", line)]
    for part in (
        part.strip()
        for line in lines
        for part in re.split(r"&&|\|", line.partition(" #")[0])
    ):
        words = shlex.split(part)
        if words[0] != "goal" or words[1:] == ["--install-completion"]:
            continue
        command: Any = group.get_command(click.Context(group), words[1])
        assert command is not None, part
        rest = words[2:]
        if isinstance(command, TyperGroup):
            default, _ = DEFAULTS.get(words[1], ("", False))
            name = rest.pop(0) if rest and rest[0] in command.commands else default
            context: Any = click.Context(cast("Any", command))
            command = command.get_command(context, name)
            assert command is not None, part
        # It raises an error for an unknown option.
        command.make_parser(click.Context(command)).parse_args(rest)


@pytest.mark.parametrize("page", PAGES, ids=[name_of(page) for page in PAGES])
def test_no_page_installs_a_name_that_is_not_published(page: Path) -> None:
    by_name = r"(?:pip install|uv tool install|uvx|pipx \w+)(?: -\S+)* goalrunner\b"
    assert re.findall(by_name, page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=[name_of(page) for page in PAGES])
def test_every_link_between_pages_leads_to_a_file(page: Path) -> None:
    links = [
        link.partition("#")[0]
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    ]
    local = [link for link in links if link and not link.startswith("https://")]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=[name_of(page) for page in PAGES])
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(
        r"`((?:\w+/)+\w+\.py|(?:docs|tests|src)/[\w/.]+)`", page.read_text()
    )
    assert named or page.name not in ("architecture.md", "contributing.md")
    assert [
        name
        for name in named
        if not ((PACKAGE / name).exists() or (ROOT / name).exists())
    ] == []


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    listed = set(
        re.findall(
            r"- ([\w/-]+\.md)$", (ROOT / ".mkdocs.yml").read_text(), re.MULTILINE
        )
    )
    assert listed == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


@pytest.mark.parametrize("name", reference.PARTS)
def test_the_reference_is_generated_from_the_present_program(name: str) -> None:
    current = (reference.PAGES / f"{name}.md").read_text()
    assert current == reference.page(name), (
        "write it again: python -m tests.support.reference"
    )


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 1000


@pytest.mark.slow
def test_the_tutorial_leads_to_a_verified_run(tmp_path: Path) -> None:
    text = (DOCS / "tutorial.md").read_text()
    script = "\n".join(
        re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    )
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GOAL_", "LLM_", "XDG_"))
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=tmp_path,
        env={**environ, "PATH": path, "HOME": str(tmp_path), "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    blocks = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert [
        line
        for block in blocks
        for line in ("round 2    ✓", "complete   2 rounds")
        if line in block
    ]
    for block in blocks[1:]:  # the first one is a command
        for part in block.split(
            "...\n"
        ):  # a line with dots stands for lines that are left out
            assert _comparable(part) in _comparable(done.stdout)


def _comparable(text: str) -> str:
    """Return an output without what differs from machine to machine."""
    text = re.sub(r"\d+(?:\.\d+)? s\b", "TIME", text)
    text = re.sub(r"\b\w{4}-parse-accepts", "RUN", text)
    return re.sub(
        r"^(agent     |judge     |sandbox   |checks    |Next:) .*",
        r"\1",
        text,
        flags=re.MULTILINE,
    )


def test_the_architecture_lists_the_packages_from_top_to_bottom() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \|", (DOCS / "architecture.md").read_text(), re.MULTILINE
    )
    contracts = SETTINGS["tool"]["importlinter"]["contracts"]
    layers = next(item["layers"] for item in contracts if item["type"] == "layers")
    order = [name.strip() for layer in layers for name in re.split("[|:]", layer)]
    packages = [
        path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()
    ]
    assert sorted(rows) == sorted(packages)
    assert sorted(order) == sorted(rows)


def test_the_markers_on_the_page_for_contributors_exist() -> None:
    named = set(
        re.findall(r"pytest .*?-m (\w+)", (DOCS / "contributing.md").read_text())
    )
    markers = {
        line.partition(":")[0]
        for line in SETTINGS["tool"]["pytest"]["ini_options"]["markers"]
    }
    assert named
    assert named <= markers


def test_the_table_of_agents_is_what_the_presets_say() -> None:
    page = (DOCS / "how-to" / "agents.md").read_text()
    table = page.partition("<!-- agents -->\n")[2].partition("\n\n")[0].splitlines()[2:]
    rows = {
        cells[1].strip(" `"): [cell.strip() for cell in cells[3:7]]
        for cells in (row.split("|") for row in table)
    }
    expected = {"builtin": abilities(CHAT_FACTS.ways)}
    expected |= {
        name: abilities(ways_of(preset, {}))
        for name, preset in ((name, parser_class(name).preset) for name in BUILT_IN)
    }
    assert {
        name: row for name, row in rows.items() if name not in ("command", "acp")
    } == expected


def abilities(ways: tuple[Way, ...]) -> list[str]:
    """Of an agent as it is usually driven, else as it can be driven as well."""
    return [ability(ways, name) for name in ("resume", "usage", "cost", "permission")]


def ability(ways: tuple[Way, ...], name: str) -> str:
    usual, *others = (getattr(way.can, name) for way in ways)
    return "yes" if usual else 'with `protocol = "acp"`' if any(others) else "no"
