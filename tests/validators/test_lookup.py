"""Where a check's programs are looked up, and which files of the workspace they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.model.goal import ValidatorSpec
from goalrunner.validators.lookup import named_programs, names, searched
from goalrunner.workspace.lookup import lookup_of

MACHINE = "/usr/bin:/bin"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = {
        "bin/accept": "#!/bin/sh\n",
        "sub/tools/accept": "#!/bin/sh\n",
        "check.py": "#!/usr/bin/env -S LANG=C python3 -u\n",
        "own.py": "#!.venv/bin/python\n",
        "plain.txt": "hello\n",
        ".venv/bin/python": "#!/bin/sh\n",
        ".venv/bin/python3": "#!/bin/sh\n",
    }
    for name, text in made.items():
        path = tmp_path / "ws" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return tmp_path / "ws"


def spec(run: str, **more: object) -> ValidatorSpec:
    return ValidatorSpec.model_validate({"name": "check", "run": run, **more})


@pytest.mark.parametrize(
    ("line", "started"),
    [
        ("pytest -q && ruff check", ("pytest", "ruff")),
        ("env A=1 timeout 60 uv run pytest", ("env", "timeout", "uv", "pytest")),
        ("./check.py", ("./check.py", "/usr/bin/env", "python3")),
        ("sh own.py", ("sh", ".venv/bin/python")),
        ("$TOOL check", ()),
        ("cat plain.txt", ("cat",)),
    ],
)
def test_the_programs_that_start_a_check_are_those_of_its_line_and_its_scripts(
    workspace: Path, line: str, started: tuple[str, ...]
) -> None:
    assert names(spec(line), workspace) == started


@pytest.mark.parametrize(
    ("check", "path", "folders"),
    [
        (spec("accept"), "{ws}/bin:/usr/bin", {"bin"}),
        (spec("accept"), f".:{MACHINE}", {""}),
        (spec("accept", cwd="sub"), f"tools:{MACHINE}", {"sub/tools"}),
        (spec("cd sub && accept"), f"tools:{MACHINE}", {"tools", "sub/tools"}),
        (spec("accept", env={"PATH": "bin"}), MACHINE, {"bin"}),
        (spec("PATH=$PWD/bin:${PWD}/sub/tools:$HOME/x:$PATH accept"), MACHINE, {"bin", "sub/tools"}),
        (spec("export PATH=bin:$PATH; accept"), MACHINE, {"bin"}),
        (spec("PATH=$HOME/bin accept"), MACHINE, set()),
        (spec("accept"), MACHINE, set()),
        (spec("accept"), "{ws}/../elsewhere", set()),
    ],
)
def test_folders_of_the_workspace_that_path_names_are_found(
    workspace: Path, check: ValidatorSpec, path: str, folders: set[str]
) -> None:
    ways = searched(check, {"PATH": path.replace("{ws}", str(workspace))}, workspace)
    assert {way.folder for way in lookup_of(ways, workspace, {}).ways} == folders


@pytest.mark.parametrize(
    ("line", "path", "found"),
    [
        ("accept", "{ws}/bin", ("bin/accept",)),
        ("accept", MACHINE, ()),
        ("./check.py", "{ws}/.venv/bin", (".venv/bin/python3", "check.py")),
        ("./own.py", MACHINE, (".venv/bin/python", "own.py")),
    ],
)
def test_a_program_of_the_workspace_is_the_ruler_of_the_check_that_it_starts(
    workspace: Path, line: str, path: str, found: tuple[str, ...]
) -> None:
    assert named_programs(spec(line), {"PATH": path.replace("{ws}", str(workspace))}, workspace) == found


def test_a_link_in_a_folder_of_path_is_named_by_its_own_path(workspace: Path) -> None:
    """An environment's python is a link that leads out; it is the link that must not change."""
    link = workspace / ".venv/bin/python3"
    link.unlink()
    link.symlink_to("/bin/sh")
    found = named_programs(spec("./check.py"), {"PATH": f"{workspace}/.venv/bin"}, workspace)
    assert found == (".venv/bin/python3", "check.py")


def test_only_what_the_machine_has_too_is_stood_before(workspace: Path) -> None:
    lookup = lookup_of([(f"{workspace}/bin{os.pathsep}/bin", workspace)], workspace, {})
    assert lookup.before("bin/sh") == "the program sh"
    assert (lookup.before("bin/accept"), lookup.before("sub/sh"), lookup.before("sh")) == (None, None, None)
    behind = lookup_of([(f"/bin{os.pathsep}{workspace}/bin{os.pathsep}", workspace)], workspace, {})
    assert (behind.before("bin/sh"), behind.before("sh")) == (None, None)
    assert (lookup.leads("bin"), lookup.leads("sub"), lookup.leads("bin/x")) == (True, False, False)
