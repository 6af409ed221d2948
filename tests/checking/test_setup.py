"""What `setup` installs into a fresh checkout, with real environments, and when a later checkout uses it again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from goalrunner.checking.checkout import ROOM, FreshCheckout
from goalrunner.checking.environment import EnvironmentFailed
from tests.support.checkouts import RIGHT, Project, plain_environment, run

pytestmark = pytest.mark.slow

UNITTEST = """
import unittest
from calc import add

class T(unittest.TestCase):
    def test(self):
        self.assertEqual(add(1, 2), 3)
"""
BUILT = """
import pathlib, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "calc-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.writestr("_calc.pth", str(pathlib.Path("src").resolve()))
        wheel.writestr("calc-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: calc\\nVersion: 1\\n")
        wheel.writestr("calc-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("calc-1.dist-info/RECORD", "")
    return name
"""
PACKAGED = """
[build-system]
requires = []
build-backend = "built"
backend-path = ["."]

[project]
name = "calc"
version = "1"
"""
SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
INSTALLED = "node_modules/a/index.js"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """The ignored folders of the workspace are not in a checkout. `npm` counts its calls."""
    ignored = ".venv\nnode_modules\n"
    more = {"tests/test_calc.py": UNITTEST, "pyproject.toml": PACKAGED, "built.py": BUILT, ".gitignore": ignored}
    project = Project(tmp_path, **more)
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    install = f"mkdir -p node_modules/a node_modules/.cache; echo 1 > {INSTALLED}; touch node_modules/.cache/npm"
    npm.write_text(f"#!/bin/sh\n{install}\necho >> {tmp_path}/calls\n")
    npm.chmod(0o755)
    yield project
    project.store.close()


@pytest.fixture
def npm(project: Project, tmp_path: Path) -> FreshCheckout:
    """Checkouts that `npm ci` installs into."""
    return project.checkouts("npm ci", env=plain_environment(PATH=f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}"))


async def calls(project: Project, environment: FreshCheckout, spoil: str = "") -> int:
    """Make a checkout, run a command in it, and return how often `npm` was called up to now."""
    async with environment.open(project.layer()) as opened:
        assert (opened.path / INSTALLED).read_text() == "1\n"
        assert not (opened.path / INSTALLED).is_symlink()
        if spoil:
            run(opened.path, spoil)
    assert [path.name for path in project.root.iterdir()] in ([], ["kept"])
    return len((project.home.parent / "calls").read_text())


async def test_an_editable_install_imports_from_the_checkout(project: Project, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "outer")], check=True)
    outer = tmp_path / "outer" / SITE
    (outer / "_calc.pth").write_text(f"{project.folder}/src\n")
    before = sorted(outer.iterdir())
    env = plain_environment(PATH=f"{tmp_path}/outer/bin{os.pathsep}/usr/bin{os.pathsep}/bin", VIRTUAL_ENV="/x")
    command = "python -m unittest -q tests/test_calc.py"
    environment = project.checkouts("pip install -q --no-index --no-build-isolation -e .", [command], env)

    async with environment.open(project.layer()) as opened:
        inside = opened.environ(env)
        assert inside["VIRTUAL_ENV"] == str(project.root / ROOM / "env")
        assert run(opened.path, command, inside)[0] == 1
        made = (project.root / ROOM / "env" / "pyvenv.cfg").stat().st_ino

    project.write("src/calc.py", RIGHT)
    async with environment.open(project.layer()) as opened:
        assert (project.root / ROOM / "env" / "pyvenv.cfg").stat().st_ino == made
        code, output = run(opened.path, command, opened.environ(env))
        assert code == 0, output
        where = run(opened.path, "python -c 'import calc; print(calc.__file__)'", opened.environ(env))[1].strip()
        assert where == str(opened.path / "src" / "calc.py")
    assert sorted(outer.iterdir()) == before


async def test_products_are_used_again_until_an_input_changes(project: Project, npm: FreshCheckout) -> None:
    assert await calls(project, npm) == 1
    project.write("src/calc.py", RIGHT)
    assert await calls(project, npm) == 1
    project.write("package-lock.json", "{}")
    assert await calls(project, npm) == 2
    (project.folder / "package-lock.json").unlink()
    assert await calls(project, npm) == 3


async def test_a_large_input_counts_by_its_content(project: Project, npm: FreshCheckout) -> None:
    project.write("package-lock.json", "x" * 2_500_000)
    assert await calls(project, npm) == 1
    assert await calls(project, npm) == 1
    project.write("package-lock.json", "y" * 2_500_000)
    assert await calls(project, npm) == 2


@pytest.mark.parametrize(
    "spoil",
    [
        f"echo 2 > {INSTALLED}",
        "touch node_modules/planted",
        "rm -r node_modules",
        "mv node_modules moved; ln -s moved node_modules",
    ],
)
async def test_products_that_a_check_changed_are_not_used_again(
    project: Project, npm: FreshCheckout, spoil: str
) -> None:
    assert await calls(project, npm, spoil) == 1
    assert await calls(project, npm) == 2
    assert await calls(project, npm) == 2


async def test_caches_of_tools_are_dropped_and_do_not_count_as_changes(project: Project, npm: FreshCheckout) -> None:
    assert await calls(project, npm, "touch node_modules/.cache/x") == 1
    async with npm.open(project.layer()) as opened:
        assert not (opened.path / "node_modules" / ".cache").exists()
    assert await calls(project, npm) == 1


async def test_a_product_whose_place_is_taken_is_not_used(project: Project, npm: FreshCheckout) -> None:
    project.write(".gitignore", "")
    assert await calls(project, npm) == 1
    project.write("node_modules/b.js", "in the workspace")
    assert await calls(project, npm) == 2
    async with npm.open(project.layer()) as opened:
        assert (opened.path / "node_modules" / "b.js").exists()
    assert await calls(project, npm) == 2


async def test_products_are_never_moved_through_a_link(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "made").mkdir(parents=True)
    (elsewhere / "made" / "file").write_text("of the user")
    (tmp_path / "bin" / "npm").write_text(f"#!/bin/sh\nmkdir -p src/made; touch src/made/x; echo >> {tmp_path}/calls\n")
    env = plain_environment(PATH=f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    environment = project.checkouts("npm ci", env=env)
    async with environment.open(project.layer()) as opened:
        run(opened.path, f"rm -r src && ln -s {elsewhere} src")
    assert (elsewhere / "made" / "file").read_text() == "of the user"

    async with environment.open(project.layer()):
        pass
    assert len((tmp_path / "calls").read_text()) == 2
    (elsewhere / "made").rename(tmp_path / "old")
    (project.folder / "src").rename(project.folder / "code")
    (project.folder / "src").symlink_to(elsewhere)
    async with environment.open(project.layer()):
        pass
    assert len((tmp_path / "calls").read_text()) == 3


@pytest.mark.parametrize("command", ["rm built.py", "echo x > built.py"])
async def test_a_setup_that_changes_files_of_the_project_runs_for_every_checkout(
    project: Project, tmp_path: Path, command: str
) -> None:
    environment = project.checkouts(f"echo >> {tmp_path}/calls; touch made; {command}")
    for number in (1, 2):
        async with environment.open(project.layer()) as opened:
            assert (opened.path / "made").exists()
            built = opened.path / "built.py"
            assert not built.exists() or built.read_text() == "x\n"
        assert len((tmp_path / "calls").read_text()) == number


async def test_programs_that_setup_installed_come_first_on_path(project: Project) -> None:
    setup = "mkdir -p .venv/bin node_modules/.bin; for f in .venv/bin node_modules/.bin; do echo > $f/tool; chmod +x $f/*; done"
    env = plain_environment(VIRTUAL_ENV="/outside")
    async with project.checkouts(setup, env=env).open(project.layer()) as opened:
        inside = opened.environ(env)
        assert inside["PATH"] == f"{opened.path}/.venv/bin:{opened.path}/node_modules/.bin:{env['PATH']}"
        assert "VIRTUAL_ENV" not in inside
        assert run(opened.path, "git status --porcelain", inside) == (0, "")


async def test_a_setup_that_fails_is_an_error_with_the_end_of_its_output(project: Project) -> None:
    setup = "seq 20; echo no network >&2; exit 3"

    with pytest.raises(EnvironmentFailed) as caught:
        async with project.checkouts(setup).open(project.layer()):
            pass

    lines = str(caught.value).splitlines()
    assert lines[0] == f"[workspace] setup failed in the fresh checkout (exit 3): {setup}"
    assert lines[1:-1] == [*(f"  {number}" for number in range(14, 21)), "  no network"]
    assert lines[-1] == "correct it in the goal file; it runs in a checkout without ignored files, as after `git clone`"
    assert list(project.root.iterdir()) == []
    assert list(project.home.glob("*.setup")) == []
