"""`goal agents`, as people and programs read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goalrunner.cli.main import main
from tests.support.forking import goal
from tests.support.programs import ASKING_PRESET, Programs, asking, goal_environment

pytestmark = pytest.mark.timeout(120)

GOAL = """
objective = "x"
validator = "true"
agent = "ours"
[agents.ours]
argv = ["asking", "{args}"]
acp = ["asking-acp"]
"""


LIMITED = """
objective = "x"
validator = "false"
[agent]
use = "command"
command = "true"
[budget]
allow_unenforced = ["tokens"]
"""


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    made = Programs.new(tmp_path)
    made.python("asking", asking())
    made.preset("asking", ASKING_PRESET)
    return made


def environment(programs: Programs, **more: str) -> dict[str, str]:
    return {**goal_environment(programs, {}), "XDG_CONFIG_HOME": "", **more}


@pytest.mark.slow
def test_the_agents_are_a_table_with_where_each_comes_from(programs: Programs) -> None:
    file = programs.root / "goal.toml"
    file.write_text(GOAL)
    told = goal("agents", "--goal", file, cwd=programs.root, env=environment(programs))
    assert (told.code, told.err) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in told.out.splitlines() if line}
    assert rows["AGENT"][:3] == ["VERSION", "DRIVEN", "BY"]
    assert rows["builtin"][1] == "itself"
    assert rows["asking"] == [
        "3.2.1",
        "command",
        "yes",
        "yes",
        "no",
        "yes",
        "acp",
        "yes",
        "user",
    ]
    assert rows["ours"] == [
        "unknown",
        "command",
        "acp",
        "no",
        "no",
        "yes",
        "acp",
        "yes",
        "goal",
        "file",
    ]
    assert "npm install -g @anthropic-ai/claude-code" in told.out


def test_the_agents_in_json_say_each_way_to_drive_them(programs: Programs) -> None:
    told = goal("agents", "--json", cwd=programs.root, env=environment(programs))
    agents = {one["name"]: one for one in json.loads(told.out)}
    assert agents["builtin"]["ways"][0]["by"] == "itself"
    one = agents["asking"]
    assert (one["installed"], one["version"], one["origin"]) == (True, "3.2.1", "user")
    assert [
        (way["by"], bool(way["path"]), way["can"]["permission"]) for way in one["ways"]
    ] == [
        ("command", True, False),
        ("acp", False, True),
    ]


def test_a_file_that_does_not_hold_is_told_and_hides_no_other_agent(
    programs: Programs,
) -> None:
    file = programs.preset("broken", 'argv = ["x"]\ndenied = 5\n')
    told = goal("agents", cwd=programs.root, env=environment(programs))
    assert told.code == 2
    assert (
        told.err
        == f"Error: {file}:2:10  denied must be a list of strings, not the number 5\n"
    )
    assert "asking" in told.out


@pytest.mark.slow
def test_the_check_of_an_agent_says_what_to_type_and_exits_with_4_until_it_is_done(
    programs: Programs,
) -> None:
    told = goal("agents", "asking", cwd=programs.root, env=environment(programs))
    assert told.code == 4
    assert (
        "sign-in    ✗ asking is not signed in: ASKING_KEY is not set, and there is no ~/.asking/login.json\n"
        in told.out
    )
    assert "           run asking login\n" in told.out
    assert told.out.endswith("           asking cannot be used: 1 problem found\n")
    mended = goal(
        "agents", "asking", cwd=programs.root, env=environment(programs, ASKING_KEY="x")
    )
    assert mended.code == 0, mended.out
    assert mended.out.endswith("           asking can be used\n")


@pytest.mark.slow
def test_the_check_of_an_agent_in_json_and_for_the_agent_of_a_goal_or_of_the_environment(
    programs: Programs,
) -> None:
    file = programs.root / "goal.toml"
    file.write_text(GOAL)
    told = goal(
        "agents",
        "ours",
        "--goal",
        file,
        "--json",
        cwd=programs.root,
        env=environment(programs),
    )
    found = json.loads(told.out)
    assert (told.code, found["agent"], found["usable"]) == (0, "ours", True)
    assert found["checks"][0] == {
        "name": "program",
        "state": "good",
        "message": str(programs.bin / "asking"),
        "hint": "",
    }
    # The earlier name works, too. Without an agent, it is the only one that checks the agent of the environment.
    told = goal(
        "doctor",
        "--json",
        cwd=programs.root,
        env=environment(programs, GOAL_AGENT="asking", ASKING_KEY="x"),
    )
    assert json.loads(told.out)["agent"] == "asking"
    assert (
        told.err
        == "goal doctor is now goal agents AGENT; the earlier name will be removed\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("askin",), '--agent "askin" is unknown; did you mean "asking"?'),
        (
            ("acp",),
            'the agent "acp" has no command; write command = "..." beside it in [agent]',
        ),
        (("--goal", "absent.toml"), "absent.toml  no such file"),
    ],
)
def test_the_check_without_a_known_agent_is_a_usage_error(
    programs: Programs, words: tuple[str, ...], said: str
) -> None:
    told = goal("agents", *words, cwd=programs.root, env=environment(programs))
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"Error: {said}")


def test_the_agent_of_a_run_is_chosen_on_the_command_line(programs: Programs) -> None:
    words = ("run", "--objective", "x", "--validator", "true", "--dry-run", "--json")
    told = goal(
        *words, "--agent", "asking", cwd=programs.root, env=environment(programs)
    )
    assert json.loads(told.out)["agent"]["use"] == "asking"
    wrong = goal(
        *words, cwd=programs.root, env=environment(programs, GOAL_AGENT="askng")
    )
    assert wrong.code == 2
    assert wrong.err.startswith(
        'Error: GOAL_AGENT "askng" is unknown; did you mean "asking"?'
    )


@pytest.mark.slow
def test_nothing_is_written_where_goal_agents_is_called(programs: Programs) -> None:
    place = programs.root / "place"
    place.mkdir()
    for words in (("agents",), ("agents", "asking")):
        goal(*words, cwd=place, env=environment(programs, ASKING_KEY="x"))
    assert not list(place.iterdir())


def test_built_in_agents_fit_into_eighty_columns(tmp_path: Path) -> None:
    empty = Programs.new(tmp_path)
    told = goal("agents", cwd=tmp_path, env=environment(empty))
    table = told.out.partition("\n\n")[0].splitlines()
    assert "FROM" not in table[0]
    assert max(map(len, table)) <= 80


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ((), "10 rounds · 4 h (default; --timeout inf lifts it) · no budget"),
        (("--timeout", "inf"), "10 rounds · no timeout · no budget"),
        (("--timeout", "2h"), "10 rounds · 2 h · no budget"),
        (("--tokens", "1000"), "10 rounds · no timeout · 1,000 tokens"),
    ],
)
def test_the_timeout_of_an_external_agent_is_said_with_what_lifts_it(
    options: tuple[str, ...],
    limits: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "goal.toml").write_text(LIMITED)
    assert main(["run", "goal.toml", "--dry-run", *options]) == 0
    assert f"limits     {limits}\n" in capsys.readouterr().out
