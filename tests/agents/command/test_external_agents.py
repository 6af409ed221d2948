"""Agents of other packages: a class that is registered as an entry point, by a real dist-info folder on sys.path."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goalrunner.agents.external_agents import (
    BUILT_IN,
    agent_names,
    parser_class,
    registered_names,
)
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.goalfile.agents import preset_named
from goalrunner.goalfile.loading import load_goal_text
from tests.support.agents import MemoryRecorder
from tests.support.command_line import WITH_PLAIN
from tests.support.external import conversation, program
from tests.support.forking import goal


def register(folder: Path, name: str, target: str) -> None:
    """Write the dist-info folder of a package that registers an agent."""
    info = folder / f"{name}_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}-package\nVersion: 1.0\n"
    )
    (info / "entry_points.txt").write_text(f"[goalrunner.agents]\n{name} = {target}\n")


def test_the_class_of_another_package_is_found_by_its_entry_point() -> None:
    assert {"plain", "plain_totals"} <= set(registered_names())
    assert "plain" in agent_names()
    assert set(BUILT_IN) < set(agent_names())
    assert parser_class("plain").__module__ == "plain_agent"


def test_its_preset_is_an_agent_that_a_goal_may_name() -> None:
    goal: Goal = load_goal_text(
        "objective = 'x'\nvalidator = 'y'\nagent = 'plain'", "goal.toml", {}, {}
    )
    assert preset_named(goal.agent.use, goal.agents, {}) == parser_class("plain").preset


async def test_its_parser_reads_the_output_of_a_preset_that_names_it(
    tmp_path: Path,
) -> None:
    argv = program(tmp_path, 'say("text", text="read")')
    text = f"[agents.mine]\nargv = {list(argv)}\nstream = 'plain'\n"
    goal = load_goal_text(
        f"objective = 'x'\nvalidator = 'y'\nagent = 'mine'\n{text}", "goal.toml", {}, {}
    )
    reply = await conversation(tmp_path, goal.agents["mine"]).send(
        "go", MemoryRecorder(tmp_path)
    )
    assert reply.text == "read"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "absent_module:Agent",
            "the agent other cannot be imported from absent_module:Agent: No module named",
        ),
        ("plain_agent:Absent", "cannot be imported from plain_agent:Absent"),
        (
            "plain_agent:not_a_parser",
            "plain_agent:not_a_parser is not a subclass of AgentParser",
        ),
    ],
)
def test_a_class_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, message: str
) -> None:
    register(tmp_path, "other", target)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=message) as error:
        parser_class("other")
    assert "entry-point group goalrunner.agents" in (error.value.hint or "")


def test_no_package_replaces_a_built_in_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(tmp_path, "claude", "plain_agent:Plain")
    monkeypatch.syspath_prepend(tmp_path)
    assert "claude" not in registered_names()
    assert parser_class("claude").preset == parser_class("claude").preset


def test_an_unknown_name_has_no_class() -> None:
    with pytest.raises(KeyError):
        parser_class("absent")


def test_an_installed_agent_is_listed(tmp_path: Path) -> None:
    listed = goal(
        "agents", "--json", cwd=tmp_path, env={**WITH_PLAIN, "HOME": str(tmp_path)}
    )
    origins = {one["name"]: one["origin"] for one in json.loads(listed.out)}
    assert (origins["plain"], origins["claude"]) == ("installed", "built in")


def test_a_parser_that_is_missing_is_an_error_before_round_1(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='no parser "absent" is installed'):
        conversation(tmp_path, Preset(argv=("true",), stream="absent"))
