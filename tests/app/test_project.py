"""Detection of test commands, source folders and agents."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from goalrunner.app.project import (
    InstalledAgent,
    Project,
    detect,
    detect_project,
    installed_agents,
    judge_for,
    with_keys,
)
from goalrunner.app.proposal import Proposal

PYTEST = "[tool.pytest.ini_options]\n"
CASES: dict[str, tuple[dict[str, str], str, list[str]]] = {
    "pytest by its table": (
        {"pyproject.toml": PYTEST, "tests/test_a.py": ""},
        "pytest",
        ["pytest -q"],
    ),
    "pytest.ini": ({"pytest.ini": "[pytest]\n"}, "pytest", ["pytest -q"]),
    "setup.cfg": ({"setup.cfg": "[tool:pytest]\n"}, "pytest", ["pytest -q"]),
    "a requirement": ({"requirements-dev.txt": "pytest>=8\n"}, "pytest", ["pytest -q"]),
    "an extra": (
        {"pyproject.toml": '[project.optional-dependencies]\ntest = ["pytest>=8"]\n'},
        "pytest",
        ["pytest -q"],
    ),
    "a plugin": ({"requirements.txt": "pytest-cov\n"}, "", ["pytest -q"]),
    "conftest": ({"tests/conftest.py": ""}, "pytest", ["pytest -q"]),
    "a test function": (
        {"test_a.py": "def test_a() -> None: ...\n"},
        "pytest",
        ["pytest -q"],
    ),
    "its own environment": (
        {"pytest.ini": "[pytest]", "test_a.py": ""},
        ".venv/bin/pytest pytest",
        [".venv/bin/pytest -q"],
    ),
    "uv": ({"pytest.ini": "[pytest]", "uv.lock": ""}, "uv", ["uv run pytest -q"]),
    "uv beside an environment": (
        {"pytest.ini": "[pytest]", "uv.lock": ""},
        "uv .venv/bin/pytest",
        ["uv run pytest -q"],
    ),
    "uv is not installed": (
        {"pytest.ini": "[pytest]", "uv.lock": ""},
        "pytest",
        ["pytest -q"],
    ),
    "poetry": (
        {"pytest.ini": "[pytest]", "pyproject.toml": "[tool.poetry]"},
        "poetry",
        ["poetry run pytest -q"],
    ),
    "unittest beside the code": (
        {"test_a.py": "import unittest\n"},
        "",
        ["python3 -m unittest"],
    ),
    "unittest in a folder": (
        {"tests/test_a.py": "import unittest\n"},
        "",
        ["python3 -m unittest discover -s tests"],
    ),
    "unittest in a package": (
        {"tests/test_a.py": "import unittest\n", "tests/__init__.py": ""},
        "",
        ["python3 -m unittest"],
    ),
    "a helper of tests is no test": (
        {"tests/__init__.py": "", "tests/data.py": ""},
        "",
        [],
    ),
    "tool is no table": ({"pyproject.toml": "tool = 3\n"}, "", []),
    "tox after pytest": ({"tox.ini": "[tox]\n[pytest]\n"}, "", ["pytest -q", "tox"]),
    "nox": ({"noxfile.py": ""}, "", ["nox"]),
    "npm": ({"package.json": '{"scripts": {"test": "vitest run"}}'}, "", ["npm test"]),
    "the default of npm init": (
        {
            "package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\""}}'
        },
        "",
        [],
    ),
    "pnpm": (
        {"package.json": '{"scripts": {"test": "jest"}}', "pnpm-lock.yaml": ""},
        "",
        ["pnpm test"],
    ),
    "a broken package.json": ({"package.json": "{"}, "", []),
    "a list as package.json": ({"package.json": "[1]"}, "", []),
    "cargo": ({"Cargo.toml": "[package]"}, "", ["cargo test"]),
    "go": ({"go.mod": "module x"}, "", ["go test ./..."]),
    "make": ({"Makefile": "all:\n\tcc\ntest: all\n\t./run\n"}, "", ["make test"]),
    "a variable of make": ({"Makefile": "test := 1\n"}, "", []),
    "a broken pyproject": ({"pyproject.toml": "["}, "", []),
    "two languages": (
        {"Cargo.toml": "", "Makefile": "check:\n"},
        "",
        ["cargo test", "make check"],
    ),
    "nothing": ({}, "", []),
}


@pytest.mark.parametrize("case", CASES)
def test_the_test_commands(case: str) -> None:
    files, programs, expected = CASES[case]
    found = detect(
        files, lambda name: files.get(name, ""), programs.split().__contains__
    )
    assert [item.command for item in found.commands] == expected
    assert all(item.why for item in found.commands)
    assert found.is_empty is (not files)


MEMBERS: dict[str, tuple[dict[str, str], str, str]] = {
    "uv": ({"pytest.ini": "[pytest]"}, "uv.lock", "uv run pytest -q"),
    "poetry": ({"pytest.ini": "[pytest]"}, "poetry.lock", "poetry run pytest -q"),
    "pnpm": (
        {"package.json": '{"scripts": {"test": "jest"}}'},
        "pnpm-lock.yaml",
        "pnpm test",
    ),
    "pnpm before its first install": (
        {"package.json": '{"scripts": {"test": "jest"}}'},
        "pnpm-workspace.yaml",
        "pnpm test",
    ),
    "npm": (
        {"package.json": '{"scripts": {"test": "jest"}}'},
        "package-lock.json",
        "npm test",
    ),
}


@pytest.mark.parametrize("is_repository", [True, False])
@pytest.mark.parametrize("case", MEMBERS)
def test_a_member_of_a_workspace_is_tested_with_the_tool_of_the_workspace(
    case: str, is_repository: bool, tmp_path: Path
) -> None:
    files, lock, expected = MEMBERS[case]
    member = tmp_path / "packages" / "api"
    member.mkdir(parents=True)
    for name, text in files.items():
        (member / name).write_text(text)
    (tmp_path / lock).touch()
    if is_repository:
        (tmp_path / ".git").mkdir()
    (tmp_path / "bin").mkdir()
    environ = program(tmp_path / "bin", "uv", "poetry", "pytest")
    (found,) = detect_project(member, environ).commands
    without = {"pnpm test": "npm test"}.get(
        expected, expected.removeprefix(f"{case} run ")
    )
    assert found.command == (expected if is_repository else without)


@pytest.mark.parametrize(
    ("is_active", "command"), [(True, "pytest -q"), (False, ".venv/bin/pytest -q")]
)
def test_a_program_of_an_activated_environment_has_no_path(
    is_active: bool, command: str, tmp_path: Path
) -> None:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environ = program(tmp_path / ".venv/bin", "pytest")
    (found,) = detect_project(
        tmp_path, environ if is_active else program(tmp_path / "bin", "pytest")
    ).commands
    assert found.command == command


@pytest.mark.parametrize(
    ("command", "module"),
    [
        ("pytest -q", "python3 -m pytest -q"),
        ("uv run pytest -q", "uv run python -m pytest -q"),
        ("poetry run pytest -q", "poetry run python -m pytest -q"),
        (".venv/bin/pytest -q", ".venv/bin/python -m pytest -q"),
        ("python3 -m pytest -q", "python3 -m pytest -q"),
        ("make test", "make test"),
    ],
)
def test_pytest_is_started_as_a_module_of_the_same_environment(
    command: str, module: str
) -> None:
    assert Proposal(Project(), command, "", None, "").as_module == module


FOLDERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "src layout": (
        "src/a/b.py tests/test_b.py setup.py pyproject.toml docs/conf.py",
        ("src/**",),
    ),
    "flat layout": ("pkg/a.py pkg/__init__.py tests/test_b.py", ("pkg/**",)),
    "a module": ("slugs.py test_slugs.py conftest.py", ()),
    "go": ("a.go a_test.go sub/b.go sub/b_test.go", ()),
    "tests beside the sources": ("src/a.ts src/a.test.ts", ()),
    "tests in the package": ("pkg/a.py pkg/tests/test_a.py", ()),
    "rust": ("src/lib.rs tests/api.rs build.rs", ("src/**",)),
    "no tests": ("src/a.py README.md", ()),
    "only tests": ("tests/test_a.py", ()),
    "a configuration is no source": ("lib/a.js vite.config.js test/a.js", ("lib/**",)),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_the_folders_that_may_change_are_those_of_sources_alone(case: str) -> None:
    names, editable = FOLDERS[case]
    assert detect(names.split(), lambda _: "", lambda _: False).editable == editable


def test_a_goal_file_proposes_the_folders_only_as_a_comment() -> None:
    project = Project(editable=("src/**",))
    text = Proposal(project, "pytest -q", "", None, "").text("Do it.")
    assert "#:schema" not in text
    assert tomllib.loads(text)["workspace"] == {}
    assert '# editable = ["src/**"] ' in text
    assert "all that the agent may change\n" in text


@pytest.mark.parametrize("editable", [("src/**",), ()])
def test_a_proposed_goal_file_fits_a_terminal_of_80_columns(
    editable: tuple[str, ...],
) -> None:
    failing = [f"tests/test_{name}.py::test" for name in "abcd"]
    text = Proposal(Project(editable=editable), "pytest -q", "", None, "").text(
        "Do it.", failing=failing[:1]
    )
    assert max(map(len, text.splitlines())) <= 80


def test_a_real_folder_is_read_without_ignored_files(tmp_path: Path) -> None:
    (tmp_path / "node_modules/x").mkdir(parents=True)
    (tmp_path / "node_modules/x/test_a.py").write_text("def test_a(): ...\n")
    (tmp_path / "go.mod").write_text("module x\n")
    assert [item.command for item in detect_project(tmp_path, {}).commands] == [
        "go test ./..."
    ]


def test_an_empty_folder_is_empty(tmp_path: Path) -> None:
    assert detect_project(tmp_path, {}) == Project(is_empty=True)


def program(folder: Path, *names: str) -> dict[str, str]:
    """An environment in which these programs are installed."""
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder), "HOME": str(folder)}


def test_installed_agents_with_a_key_come_first(tmp_path: Path) -> None:
    environ = program(tmp_path, "claude", "codex")
    assert {agent.name for agent in installed_agents(environ)} == {"claude", "codex"}
    first, second = installed_agents({**environ, "OPENAI_API_KEY": "k"})
    assert (first.name, first.note) == ("codex", "")
    assert second.note == "not signed in"


def test_a_key_gives_a_model_and_a_judge() -> None:
    assert [
        agent.model.partition("/")[0] for agent in with_keys({"OPENAI_API_KEY": "k"})
    ] == ["openai"]
    assert judge_for({"OPENAI_API_KEY": "k"}) == "openai/gpt-5-mini"
    assert judge_for({"OPENAI_API_KEY": "k", "GOAL_JUDGE": "x/y"}) == "x/y"
    assert judge_for({}) == ""


@pytest.mark.parametrize(
    ("signed_in", "agent", "judge"),
    [
        ("claude", "claude", "claude"),
        ("claude codex", "claude", "codex"),
        ("claude codex", "codex", "claude"),
        ("codex claude", "", "claude"),
        ("", "claude", ""),
    ],
)
def test_without_a_key_a_signed_in_program_is_the_judge(
    tmp_path: Path, signed_in: str, agent: str, judge: str
) -> None:
    environ = program(tmp_path, "claude", "codex", "openhands")
    for name, login in (
        ("claude", ".claude/.credentials.json"),
        ("codex", ".codex/auth.json"),
    ):
        if name in signed_in:
            (tmp_path / login).parent.mkdir()
            (tmp_path / login).write_text("{}")
    assert judge_for(environ, InstalledAgent(agent) if agent else None) == judge
    assert (
        judge_for({**environ, "OPENAI_API_KEY": "k"}, InstalledAgent("claude"))
        == "openai/gpt-5-mini"
    )
    assert judge_for(environ, InstalledAgent("builtin", model="a/b")) == "agent"
