"""What is found of agents on a machine: programs, versions, and what each can."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from goalrunner.agents import facts as agents
from goalrunner.agents.facts import (
    Abilities,
    AgentFacts,
    find_program,
    number_in,
    ways_of,
)
from goalrunner.core.agent_preset import Preset
from tests.support.programs import Programs

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs.new(tmp_path)


def candidate(name: str, **fields: object) -> tuple[str, Preset]:
    return name, Preset.model_validate(fields)


def survey(
    candidates: Sequence[tuple[str, Preset]], environ: Mapping[str, str]
) -> tuple[AgentFacts, ...]:
    presets = dict(candidates)
    return agents.survey(presets, dict.fromkeys(presets, "user"), environ)


def test_versions_are_asked_all_at_once(programs: Programs) -> None:
    """Each of the two waits until the other one has begun: one after another they would never end."""
    for name, other in (("one", "two"), ("two", "one")):
        programs.shell(
            name,
            f"touch {programs.root}/{name}; until [ -e {programs.root}/{other} ]; do sleep 0.05; done; echo {name} v1.2.3",
        )
    both = [
        candidate(name, argv=[name], version=[name, "--version"])
        for name in ("one", "two")
    ]
    facts = survey(both, programs.environ)
    assert [(one.name, one.installed, one.version) for one in facts] == [
        ("one", True, "1.2.3"),
        ("two", True, "1.2.3"),
    ]


def test_a_program_without_a_version_or_none_at_all_is_listed_all_the_same(
    programs: Programs,
) -> None:
    programs.shell("failing", "echo 9.9.9; exit 3")
    programs.shell("wordy", "echo; echo '  the best agent  '")
    found = survey(
        [
            candidate("failing", argv=["failing"], version=["failing"]),
            candidate("wordy", argv=["wordy"], version=["wordy"]),
            candidate("absent", argv=["absent"], version=["absent"], install="get it"),
        ],
        programs.environ,
    )
    assert [(one.installed, one.version, one.install) for one in found] == [
        (True, "", ""),
        (True, "the best agent", ""),
        (False, "", "get it"),
    ]


def test_a_warning_on_stderr_is_no_version_where_another_one_is_said(
    programs: Programs,
) -> None:
    programs.shell("warning", "echo 'retrying in 2.8s' >&2; echo 'the agent 1.16.0'")
    programs.shell("shy", "echo 'the agent 1.2.3' >&2")
    found = survey(
        [candidate(name, argv=[name], version=[name]) for name in ("warning", "shy")],
        programs.environ,
    )
    assert [one.version for one in found] == ["1.16.0", "1.2.3"]


def test_no_key_is_given_to_a_version_command(programs: Programs) -> None:
    programs.shell("nosy", "echo ${NOSY_KEY:-no} ${OPENAI_API_KEY:-key}")
    one = candidate("nosy", argv=["nosy"], version=["nosy"], keys=["NOSY_KEY"])
    environ = {**programs.environ, "NOSY_KEY": "1.1", "OPENAI_API_KEY": "2.2"}
    assert survey([one], environ)[0].version == "no key"


def test_what_an_agent_can_depends_on_how_it_is_driven(programs: Programs) -> None:
    programs.shell("both", "")
    preset = Preset(
        argv=("both",),
        resume=("both",),
        acp=("both-acp",),
        stream="codex",
        reports={"tokens": "turn"},
        login=(".x",),
    )
    command, acp = ways_of(preset, programs.environ)
    assert (command.by, command.path, acp.by, acp.path) == (
        "command",
        str(programs.bin / "both"),
        "acp",
        "",
    )
    assert command.can == Abilities(
        resume=True,
        usage=True,
        cost=False,
        cancel=True,
        permission=False,
        sandbox=False,
    )
    assert acp.can == Abilities(
        resume=True,
        usage=False,
        cost=False,
        cancel=True,
        permission=True,
        sandbox=False,
    )
    reporting = preset.model_copy(update={"acp_reports": {"cost_usd": "session"}})
    assert [
        (way.can.usage, way.can.cost) for way in ways_of(reporting, programs.environ)
    ] == [
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize(
    ("words", "program", "found"),
    [
        (("tool", "-x"), "tool", "bin/tool"),
        (("tool --json",), "tool", "bin/tool"),
        (("absent",), "absent", ""),
        (("./work.sh",), "./work.sh", "work/./work.sh"),
        (("./absent.sh",), "./absent.sh", ""),
    ],
)
def test_the_program_of_a_command_is_found(
    programs: Programs, words: tuple[str, ...], program: str, found: str
) -> None:
    programs.shell("tool", "")
    workspace = programs.root / "work"
    workspace.mkdir()
    (workspace / "work.sh").write_text("#!/bin/sh\n")
    (workspace / "work.sh").chmod(0o755)
    path = str(programs.root / found) if found else ""
    name, where = find_program(words, programs.environ, workspace)
    assert (name, os.path.normpath(where) if where else "") == (
        program,
        os.path.normpath(path) if path else "",
    )


def test_of_a_line_for_a_shell_the_shell_is_the_program(programs: Programs) -> None:
    assert find_program(("cat {prompt_file} | tool",), programs.environ)[0] == "sh"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("codex-cli 0.169.0\n", "0.169.0"),
        ("2.1.330 (Claude Code)", "2.1.330"),
        ("v22.1.0-beta.3+x y", "22.1.0-beta.3+x"),
        ("\n\nno number\n1.0", "1.0"),
        ("\n  nightly \n", "nightly"),
        ("", ""),
        ("x" * 100, "x" * 40),
    ],
)
def test_the_version_is_found_in_what_is_printed(said: str, version: str) -> None:
    assert number_in(said) == version
