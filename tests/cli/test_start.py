"""`goal demo`, `goal init`, `goal check`, `goal schema`, `goal run` without a file, and completion."""

from __future__ import annotations

import json
import math
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from goalrunner.cli.main import main
from goalrunner.core.events import RECORD
from goalrunner.records.event_log import read_records
from tests.support import forking
from tests.support.command_line import Ended
from tests.support.scripted_api import ScriptedApi
from tests.support.terminal import Terminal
from tests.support.told_run import outcome, two_rounds

jsonschema: Any = pytest.importorskip("jsonschema")

QUICKSTART = Path(__file__).parents[2] / "src" / "goalrunner" / "quickstart"
SLUGS = (QUICKSTART / "slugs.py").read_text()
TESTS = (QUICKSTART / "test_slugs.py").read_text()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a failing test, in which no agent is installed."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "slugs.py").write_text(SLUGS)
    (tmp_path / "project" / "test_slugs.py").write_text(TESTS)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return tmp_path / "project"


OWN_BIN = Path(sys.executable).parent


def agents(folder: Path, *names: str) -> str:
    """A PATH on which these agents are installed."""
    for name in names:
        (folder / name).write_text("#!/bin/sh\necho 1.0.0\n")
        (folder / name).chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def goal(*arguments: str, cwd: Path, **env: str) -> Ended:
    return forking.goal(*arguments, cwd=cwd, env=env)


@pytest.mark.slow
def test_the_demo_completes_without_a_key_and_again(tmp_path: Path) -> None:
    # As `uvx` starts it: the command is not on the PATH afterwards.
    by_uvx = {"UV": "/bin/uv", "VIRTUAL_ENV": "", "PATH": f"{OWN_BIN}:/usr/bin:/bin"}
    for more in ({}, by_uvx):
        ended = goal(
            "demo",
            cwd=tmp_path,
            TMPDIR=str(tmp_path),
            GOAL_MODEL="openai/no-such-model",
            **more,
        )
        assert ended.code == 0, ended.err
        assert "complete   3 rounds" in ended.out
        assert "goal init" in ended.out
        begins = "\nuvx --from " if more else "\ngoal "
        assert f"{begins}" in ended.out.partition("Next:")[2]
        assert ("\nuv tool install " in ended.out) == bool(more)
    folders = [
        path for path in tmp_path.iterdir() if path.name.startswith("goal-demo-")
    ]
    assert len(folders) == 2
    assert all((folder / "slugs.py").read_text() != SLUGS for folder in folders)


@pytest.mark.slow
def test_init_writes_a_goal_file_that_check_and_the_schema_accept(
    project: Path, own_home: Path, tmp_path: Path
) -> None:
    path = agents(tmp_path, "claude")
    ended = goal("init", "--yes", cwd=project, PATH=path, ANTHROPIC_API_KEY="k")
    assert ended.code == 0, ended.err
    assert "✗ unittest python3 -m unittest" in ended.out
    assert ended.out.endswith("Wrote goal.toml.\nNext: goal check, then goal run\n")
    text = (project / "goal.toml").read_text()
    table = tomllib.loads(text)
    assert table == {
        "objective": "Make the tests pass.",
        "validator": "python3 -m unittest",
        "agent": "claude",
        "judge": "anthropic/claude-haiku-4-5",
        "max_iterations": 10,
        "timeout": "1h",
        "workspace": {},
    }
    assert str(tmp_path) not in text
    assert "#:schema" not in text
    schema = json.loads(goal("schema", cwd=project).out)
    jsonschema.Draft202012Validator(schema).validate(table)
    assert not list((own_home / "runs").glob("*"))
    ended = goal("check", "--json", cwd=project, PATH=path, ANTHROPIC_API_KEY="k")
    found = json.loads(ended.out)
    assert (ended.code, found["ready"], found["problems"]) == (0, True, [])
    assert found["baseline"]["standing"] == "red"
    assert not list((own_home / "runs").glob("*"))


@pytest.mark.slow
def test_init_names_the_schema_that_lies_beside_the_goal_file(project: Path) -> None:
    (project / "goal.schema.json").write_text(goal("schema", cwd=project).out)
    ended = goal("init", "--yes", "--agent", "claude", cwd=project)
    assert ended.code == 0, ended.err
    assert (
        (project / "goal.toml").read_text().startswith("#:schema ./goal.schema.json\n")
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("logins", "key", "agent"),
    [
        ("codex", "", "codex"),
        ("claude codex", "", "claude"),
        ("", "OPENAI_API_KEY", ""),
        ("", "", "claude"),
    ],
)
def test_init_without_questions_prefers_what_is_signed_in(
    project: Path, tmp_path: Path, logins: str, key: str, agent: str
) -> None:
    sign_in(tmp_path / "home", logins)
    env = {key: "k"} if key else {}
    # With this key, Codex would be signed in.
    names = ("claude", "codex") if not key else ("claude",)
    ended = goal("init", "--yes", cwd=project, PATH=agents(tmp_path, *names), **env)
    assert ended.code == 0, ended.err
    table = tomllib.loads((project / "goal.toml").read_text())
    assert (table.get("agent", ""), "model" in table) == (agent, not agent)


def sign_in(home: Path, names: str) -> None:
    """Write the login files of agents."""
    for name, login in (
        ("claude", ".claude/.credentials.json"),
        ("codex", ".codex/auth.json"),
    ):
        if name in names.split():
            (home / login).parent.mkdir(parents=True)
            (home / login).write_text("{}")


@pytest.mark.slow
def test_the_objective_that_init_writes_for_green_tests_is_never_ready(
    project: Path,
) -> None:
    assert (
        goal(
            "init",
            "--yes",
            "--agent",
            "claude",
            "--validator",
            "true",
            "--judge",
            "a/b",
            cwd=project,
        ).code
        == 0
    )
    for command in ("check", "run"):
        ended = goal(command, cwd=project)
        assert ended.code == 2
        assert re.search(
            r"goal.toml:\d+:\d+ +objective is the placeholder that goal init wrote; say what",
            ended.err,
        )


@pytest.mark.slow
def test_init_writes_several_agents_in_the_order_in_which_they_take_over(
    project: Path, tmp_path: Path
) -> None:
    ended = goal(
        "init",
        "--yes",
        "--agent",
        "claude,codex",
        cwd=project,
        PATH=agents(tmp_path, "claude"),
    )
    assert ended.code == 0, ended.err
    assert "agent      claude, then codex\n" in ended.out
    assert (
        "warning    claude runs with its own permission checks off (--permission-mode bypassPermissions)"
        in ended.out
    )
    assert (
        "warning    codex runs with its own permission checks off (--dangerously-bypass-approvals-"
        in ended.out
    )
    assert tomllib.loads((project / "goal.toml").read_text())["agent"] == [
        "claude",
        "codex",
    ]


@pytest.mark.slow
def test_init_starts_pytest_so_that_tests_can_import_the_modules_of_the_folder(
    project: Path,
) -> None:
    (project / "test_slugs.py").unlink()
    (project / "tests").mkdir()
    (project / "tests" / "test_slugs.py").write_text(
        "from slugs import slugify\n\n\ndef test_empty():\n    assert slugify('') == 'untitled'\n"
    )
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    ended = goal("init", "--yes", cwd=project, PATH=path)
    assert ended.code == 0, ended.err
    assert "slugs is in this folder, but the tests cannot import it." in ended.out
    table = tomllib.loads((project / "goal.toml").read_text())
    assert (table["validator"], "1 failed" in ended.out) == (
        "python3 -m pytest -q",
        True,
    )


def test_init_does_not_replace_a_goal_file(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "goal.toml").write_text("mine")
    assert main(["init", "--yes"]) == 2
    assert "goal.toml exists already" in capsys.readouterr().err
    assert (project / "goal.toml").read_text() == "mine"


@pytest.mark.parametrize("name", ["", "README.md"])
def test_init_without_a_test_command_says_what_to_type(
    tmp_path: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if name:
        (tmp_path / name).touch()
    assert main(["init", "--yes"]) == 2
    said = capsys.readouterr().err
    assert ("no test command was found" if name else "this folder is empty") in said
    assert 'goal init --validator "CMD"' in said


@pytest.mark.slow
def test_init_of_green_tests_says_that_they_pass_already(project: Path) -> None:
    ended = goal(
        "init", "--yes", "--agent", "claude", "--validator", "true", cwd=project
    )
    assert ended.code == 0, ended.err
    assert "baseline" not in tomllib.loads((project / "goal.toml").read_text())
    assert "the validator passes already" in ended.out


@pytest.mark.slow
def test_init_at_a_terminal_asks_for_the_objective_and_before_it_writes(
    project: Path,
) -> None:
    with Terminal("init", "--agent", "claude", cwd=project) as terminal:
        terminal.wait_for("What is the agent to do?")
        terminal.type('Make "slugs" clean\n')
        terminal.wait_for("Write this to goal.toml?")
        assert not (project / "goal.toml").exists()
        terminal.type("\n")
        assert terminal.end() == 0
    assert (
        tomllib.loads((project / "goal.toml").read_text())["objective"]
        == 'Make "slugs" clean'
    )


@pytest.mark.slow
def test_check_names_what_keeps_a_run_from_starting_and_still_runs_the_baseline(
    project: Path,
) -> None:
    text = 'objective = "x"\nvalidator = "python3 -m unittest"\nmodel = "openai/gpt-5"\njudge = "anthropic/claude-haiku-4-5"\n'
    (project / "goal.toml").write_text(text)
    ended = goal("check", cwd=project)
    assert ended.code == 4
    assert "OPENAI_API_KEY is not set" in ended.out
    assert "ANTHROPIC_API_KEY is not set" in ended.out
    assert re.findall(r"api_key_env in \[(\w+)\]", ended.out) == ["agent", "judge"]
    assert "baseline   failed" in ended.out
    assert "AssertionError" in ended.out
    assert "result     a run cannot start: 2 problems found" in ended.out


def test_check_of_a_goal_without_a_check_is_an_error_in_the_goal_file_and_proposes_a_judge_that_can_judge(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "goal.toml").write_text(
        'objective = "x"\n[agent]\ncommand = ["sh"]\nuse = "command"\n'
    )
    assert main(["check"]) == 2
    said = capsys.readouterr().out
    assert "✗ the goal has neither a validator nor a judge" in said
    assert 'a judge (judge = "openai/gpt-5-mini")' in said
    assert main(["run"]) == 2
    assert 'or judge = "openai/gpt-5-mini" (or give --judge)' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            'validator = "true"\nparent = "zzzz"\n[agent]\nuse = "command"\ncommand = "true"\n',
            "start      ✗ parent: there is no run",
        ),
        (
            'validator = "true"\n[agent]\nuse = "command"\ncommand = "true"\n[workspace]\nnetwork = false\n',
            "sandbox    ✗ network = false needs a sandbox",
        ),
        (
            'validator = "true"\nmodel = "scripted/none.jsonl"\njudge = "scripted/none.jsonl"\n',
            "model      ✗ the recording",
        ),
    ],
)
def test_check_names_and_counts_one_problem_once(
    project: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    (project / "goal.toml").write_text(f'objective = "x"\n{text}')
    assert main(["check"]) != 0
    said = capsys.readouterr().out
    assert said.count("✗") - ("✗ true" in said) == 1, said
    assert problem in said
    assert "problem    " not in said
    assert "result     a run cannot start: 1 problem found" in said
    main(["check", "--json"])
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '[[validators]]\nrun = "sh c.sh"\nfixes = ["t.py::a"]\nknown_failures = "baseline"\n',
            "goal.toml:7:18  known_failures needs",
        ),
        (
            '[[validators]]\nrun = "true"\nfixes = ["t.py::a"]\n',
            "goal.toml:6:9  fixes needs the names of tests",
        ),
        (
            '[approvals]\nchecks = "judge"\n',
            'goal.toml:5:10  approvals.checks "judge" needs a judge',
        ),
    ],
)
def test_check_names_the_line_of_what_the_validators_do_not_allow(
    project: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    (project / "c.sh").write_text("exit 1\n")
    (project / "goal.toml").write_text(
        f'objective = "x"\nagent = {{ use = "command", command = "true" }}\n\n{text}'
    )
    assert main(["check"]) == 2
    assert says in capsys.readouterr().err


def test_check_says_why_no_validator_was_run(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = '[agent]\nuse = "command"\ncommand = "true"\n'
    (project / "goal.toml").write_text(
        f'objective = "x"\n{agent}[[validators]]\npython = "checks:count"\n'
    )
    assert main(["check"]) == 0
    assert (
        "baseline   not run: hidden validators and those in Python run only after a round"
        in capsys.readouterr().out
    )


@pytest.mark.slow
def test_init_where_nothing_can_be_written_is_an_error_with_the_path(
    project: Path,
) -> None:
    (project / "goal.toml").mkdir()
    ended = goal(
        "init",
        "--yes",
        "--force",
        "--agent",
        "claude",
        "--validator",
        "false",
        cwd=project,
    )
    assert ended.code == 2
    assert "cannot write goal.toml: Is a directory\ncheck the path" in ended.err


@pytest.mark.parametrize(
    "name", ["outcome", "state", pytest.param("events", marks=pytest.mark.slow), "goal"]
)
def test_the_schemas_are_valid(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", name]) == 0
    jsonschema.Draft202012Validator.check_schema(json.loads(capsys.readouterr().out))


def test_the_schemas_accept_what_a_run_writes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    golden = Path(__file__).parents[1] / "records" / "golden"
    records = list(read_records(max(golden.glob("*.jsonl"))))
    schemas: dict[str, Any] = {}
    for name in ("events", "outcome"):
        main(["schema", name])
        schemas[name] = json.loads(capsys.readouterr().out)
    for record in records:
        jsonschema.Draft202012Validator(schemas["events"]).validate(
            json.loads(RECORD.dump_json(record))
        )
    jsonschema.Draft202012Validator(schemas["outcome"]).validate(
        outcome().model_dump(mode="json")
    )


def _without_inf(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_inf(item) for key, item in value.items()}
    return None if isinstance(value, float) and math.isinf(value) else value


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> ScriptedApi:
    return ScriptedApi([outcome()], two_rounds()).install(monkeypatch)


def test_run_uses_the_goal_file_of_the_folder_and_says_so(
    project: Path, api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "goal.toml").write_text(
        'objective = "Mine."\nvalidator = "true"\nmodel = "openai/gpt-5"\n'
    )
    assert main(["run"]) == 0
    assert capsys.readouterr().err == "Using goal.toml\n"
    assert api.goals[0].objective == "Mine."


def test_run_uses_the_table_of_pyproject(
    project: Path, api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '[tool.other]\nx = 1\n[tool.goal]\nobjective = "Mine."\nvalidator = "true"\nmodel = "openai/gpt-5"\n'
    (project / "pyproject.toml").write_text(text)
    assert main(["run"]) == 0
    assert capsys.readouterr().err == "Using pyproject.toml [tool.goal]\n"
    assert api.goals[0].objective == "Mine."
    (project / "pyproject.toml").write_text(f"{text}timeot = 3\n")
    assert main(["run"]) == 2
    assert (
        'pyproject.toml:7:1  unknown key "timeot"; did you mean "timeout"?'
        in capsys.readouterr().err
    )
    (project / "pyproject.toml").write_text("[tool.other]\n")
    assert main(["run", "pyproject.toml"]) == 2
    assert "has no table [tool.goal]" in capsys.readouterr().err


def test_a_sentence_is_the_objective_and_the_test_command_the_validator(
    project: Path, api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "goal.toml").write_text('objective = "Another."\n')
    assert main(["run", "make the tests pass", "--model", "openai/gpt-5"]) == 0
    assert capsys.readouterr().err == (
        "goal.toml is not used: the objective is given on the command line\n"
        "Validator: python3 -m unittest (test_slugs.py uses unittest)\n"
    )
    (given,) = api.goals
    assert (given.objective, [spec.run for spec in given.validators]) == (
        "make the tests pass",
        ["python3 -m unittest"],
    )


def test_the_only_installed_agent_is_used_and_several_are_an_error(
    project: Path,
    tmp_path: Path,
    api: ScriptedApi,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (project / "goal.toml").write_text('objective = "Mine."\nvalidator = "true"\n')
    assert main(["run"]) == 2
    assert "neither an agent nor a model is named" in capsys.readouterr().err
    monkeypatch.setenv("PATH", agents(tmp_path, "claude"))
    assert main(["run"]) == 0
    assert (
        "Using the agent claude, since neither an agent nor a model is named"
        in capsys.readouterr().err
    )
    assert api.goals[0].agent.use == "claude"
    agents(tmp_path, "codex")
    assert main(["run"]) == 2
    assert (
        "none is chosen: claude (not signed in), codex (not signed in)"
        in capsys.readouterr().err
    )
    (project / "goal.toml").write_text(
        'objective = "Mine."\nvalidator = "true"\nagent = "builtin"\n'
    )
    assert main(["run"]) == 2
    assert "the built-in agent has no model" in capsys.readouterr().err


def test_the_only_agent_that_is_signed_in_is_used(
    project: Path,
    tmp_path: Path,
    api: ScriptedApi,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (project / "goal.toml").write_text('objective = "Mine."\nvalidator = "true"\n')
    monkeypatch.setenv("PATH", agents(tmp_path, "claude", "codex"))
    sign_in(tmp_path / "home", "codex")
    assert main(["run"]) == 0
    said = capsys.readouterr().err
    assert (
        "Using the agent codex, since neither an agent nor a model is named; claude is not signed in\n"
        in said
    )
    sign_in(tmp_path / "home", "claude")
    assert main(["run"]) == 2
    assert "none is chosen: claude, codex" in capsys.readouterr().err


@pytest.mark.slow
def test_several_agents_are_a_choice_at_a_terminal(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", agents(tmp_path, "claude", "codex"))
    with Terminal(
        "run", "make the tests pass", "--validator", "true", "--dry-run", cwd=project
    ) as terminal:
        terminal.wait_for("Agent [1-2, default 1]:")
        terminal.type("codex\n")
        terminal.wait_for("agent      codex")
        assert terminal.end() == 0


@pytest.mark.parametrize(
    "shell",
    [
        "bash",
        pytest.param("zsh", marks=pytest.mark.slow),
        pytest.param("fish", marks=pytest.mark.slow),
    ],
)
def test_completion_knows_commands_runs_agents_and_validators(
    project: Path, own_home: Path, shell: str
) -> None:
    folder = own_home / "runs" / "k3f9-make"
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(
        '{"run_id": "k3f9-make", "status": "complete", "started_at": "2026-01-01"}'
    )
    assert "schema" in completed(project, shell, "goal sch")
    assert "canary" in completed(project, shell, "goal judge ca")
    assert "k3f9-make" in completed(project, shell, "goal memory add k3")
    assert "codex" in completed(project, shell, "goal agents cod")
    assert "k3f9-make" in completed(project, shell, "goal show k3")
    assert "k3f9-make" in completed(project, shell, "goal status k3")
    assert "codex" in completed(project, shell, "goal run --agent cod")
    command = r"python3\ -m\ unittest" if shell == "bash" else "python3 -m unittest"
    assert command in completed(project, shell, "goal run --validator python3")


def completed(folder: Path, shell: str, line: str) -> str:
    """What a shell shows for the last word of a line."""
    words = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
        "_TYPER_COMPLETE_ARGS": line,
    }
    last = {
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_GOAL_COMPLETE": f"complete_{shell}",
    }
    return goal(cwd=folder, **words, **last).out


@pytest.mark.parametrize("name", ["package.json", "pyproject.toml"])
def test_init_names_a_file_that_it_cannot_read_and_why(
    tmp_path: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text('{"scripts": {"test": \n')
    for command in (["init", "--yes"], ["run", "make it", "--agent", "claude"]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert re.search(
            rf"no test command was found in .*; {name} cannot be read: .+ line \d", said
        ), said
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to(name)  # no file of that name can be opened
    assert main(["init", "--yes"]) == 2
    assert (
        f"; {name} cannot be read: Too many levels of symbolic links"
        in capsys.readouterr().err
    )
    (tmp_path / "Makefile").write_text("check:\n")
    assert main(["init", "--yes", "--agent", "claude"]) == 0
    assert f"warning    {name} cannot be read: " in capsys.readouterr().out
