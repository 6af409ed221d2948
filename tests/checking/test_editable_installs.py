"""Editable installs through which a check in a checkout would import from the live workspace."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from goalrunner.checking.setup import editable_installs


class Machine:
    """A Python environment beside a workspace and its checkout."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "ws"
        self.checkout = folder / "checkout"
        self.prefix = folder / "env"
        self.site = self.prefix / "lib" / "python3.11" / "site-packages"
        for path in (self.workspace / "src", self.checkout, self.site, self.prefix / "bin"):
            path.mkdir(parents=True)
        (self.prefix / "bin" / "python").symlink_to(sys.executable)
        (self.prefix / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
        self.program("pytest", f"#!{self.prefix}/bin/python\n")
        self.env = {"PATH": f"{self.prefix}/bin{os.pathsep}/usr/bin{os.pathsep}/bin"}

    def program(self, name: str, content: str) -> Path:
        path = self.prefix / "bin" / name
        path.write_text(content)
        path.chmod(0o755)
        return path

    def found(self, *commands: str) -> list[str]:
        installs = editable_installs(commands, self.env, self.checkout, self.workspace)
        return [str(file.relative_to(self.site)) for file in installs]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_an_environment_without_editable_installs_is_fine(machine: Machine) -> None:
    (machine.site / "distutils-precedence.pth").write_text("import os; var = 'X'\n")
    (machine.site / "other.pth").write_text(f"{machine.workspace}-other/src\n# {machine.workspace}\n")

    assert machine.found("pytest -q") == []


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q",
        "python -m pytest",
        "cd sub && pytest",
        "A=1 python3 -c x; python -c y",
        "env X=1 pytest",
        "{bin}/python -m x",
    ],
)
def test_a_path_into_the_workspace_is_found_where_a_command_leads_to_it(machine: Machine, command: str) -> None:
    (machine.site / "_calc.pth").write_text(f"{machine.workspace}/src\n")

    assert machine.found(command.replace("{bin}", f"{machine.prefix}/bin")) == ["_calc.pth"]


def test_an_environment_that_no_command_leads_to_does_not_count(machine: Machine) -> None:
    (machine.site / "_calc.pth").write_text(f"{machine.workspace}/src\n")
    other = Machine(machine.workspace.parent / "second")

    assert machine.found(f"{other.prefix}/bin/python -m pytest") == []
    assert machine.found("uv run pytest") == []
    assert machine.found("cd web && npm test", "go test ./...") == []


def test_a_program_that_is_not_of_python_imports_nothing(machine: Machine) -> None:
    (machine.site / "_calc.pth").write_text(f"{machine.workspace}/src\n")
    machine.program("ruff", "\x7fELF\x02")

    assert machine.found("ruff check .") == []
    assert machine.found("ruff check . && pytest") == ["_calc.pth"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("calc.egg-link", "{ws}\n.\n"),
        ("__editable___calc_finder.py", "MAPPING = {{'calc': '{ws}/src/calc'}}\n"),
        ("_calc_editable_loader.py", 'install({{"calc"}}, "{ws}/build/cp311")\n'),
        ("code.pth", "import sys; sys.path.insert(0, '{ws}/src')\n"),
    ],
)
def test_every_kind_of_editable_install(machine: Machine, name: str, content: str) -> None:
    (machine.site / name).write_text(content.format(ws=machine.workspace))

    assert machine.found("pytest") == [name]
