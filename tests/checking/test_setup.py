"""What `setup` installs for checks, with real environments, and when it is used again."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from goalrunner.checking.environment import EnvironmentFailed, File
from goalrunner.checking.in_place import InPlace
from goalrunner.checking.overlay import Overlay
from goalrunner.checking.setup import was_set_up
from goalrunner.snapshots.store_folder import store_of
from tests.support.setups import RIGHT, WRONG, Project, plain_environment, run

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
    """A project with ignored folders. `npm` counts its calls."""
    ignored = ".venv\nnode_modules\nbuild\n__pycache__\n"
    more = {
        "tests/test_calc.py": UNITTEST,
        "pyproject.toml": PACKAGED,
        "built.py": BUILT,
        ".gitignore": ignored,
    }
    project = Project(tmp_path, **more)
    project.git("init", "-q")
    project.commit("first")
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(
        f"#!/bin/sh\nmkdir -p node_modules/a; echo 1 > {INSTALLED}\necho >> {tmp_path}/calls\n"
    )
    npm.chmod(0o755)
    yield project
    project.store.close()


@pytest.fixture
def npm(project: Project, tmp_path: Path) -> Overlay:
    """Environments that `npm ci` installs into."""
    return project.overlay("npm ci", with_programs(tmp_path))


def with_programs(folder: Path) -> dict[str, str]:
    return plain_environment(PATH=f"{folder}/bin{os.pathsep}{os.environ['PATH']}")


async def calls(project: Project, environment: Overlay, script: str = "true") -> int:
    """Run a script in an environment, and return how often `npm` was called up to now."""
    async with environment.open(project.layer()) as opened:
        assert await run(opened, project, f"cat {INSTALLED} && {script}") == (0, "1\n")
    assert not (project.folder / INSTALLED).exists()
    return len((project.home.parent / "calls").read_text())


async def test_an_editable_install_imports_the_code_of_the_agent(
    project: Project,
) -> None:
    command = "python -m unittest -q tests/test_calc.py"
    environment = project.overlay("pip install -q --no-index --no-build-isolation -e .")
    before = sorted(Path(sys.prefix, SITE).iterdir())

    async with environment.open(project.layer()) as opened:
        inside = opened.environ(plain_environment())
        assert inside["VIRTUAL_ENV"] == f"{project.folder}/.venv"
        assert (await run(opened, project, command))[0] == 1
        assert await run(opened, project, "git status --porcelain") == (0, "")

    project.write("src/calc.py", RIGHT)
    async with environment.open(project.layer()) as opened:
        assert (await run(opened, project, command))[0] == 0
        where = await run(
            opened,
            project,
            "python -c 'import calc, sys; print(calc.__file__, sys.prefix)'",
        )
        assert where == (0, f"{project.folder}/src/calc.py {project.folder}/.venv\n")
    assert len(list(project.checks.glob("setup-*"))) == 1
    assert not (project.folder / ".venv").exists()
    assert sorted(Path(sys.prefix, SITE).iterdir()) == before


async def test_it_runs_once_for_each_state_of_its_inputs(
    project: Project, npm: Overlay
) -> None:
    assert await calls(project, npm) == 1
    project.write("src/calc.py", RIGHT)
    assert await calls(project, npm) == 1
    project.write("package-lock.json", "{}")
    assert await calls(project, npm) == 2
    (project.folder / "package-lock.json").unlink()
    assert await calls(project, npm) == 2, "the first installation is kept"


async def test_original_inputs_are_those_of_the_layer(
    project: Project, npm: Overlay
) -> None:
    project.write("package-lock.json", "original")
    assert await calls(project, npm) == 1
    project.write("package-lock.json", "changed")
    original = File(stat.S_IFREG | 0o644, b"original")
    async with npm.open(project.layer({"package-lock.json": original})) as opened:
        assert await run(opened, project, "cat package-lock.json") == (0, "original")
    assert await calls(project, npm) == 2


async def test_another_run_uses_the_same_installation(
    project: Project, npm: Overlay, tmp_path: Path
) -> None:
    assert await calls(project, npm) == 1
    assert await calls(project, project.overlay("npm ci", with_programs(tmp_path))) == 1


async def test_checks_at_the_same_time_install_once(
    project: Project, npm: Overlay, tmp_path: Path
) -> None:
    (tmp_path / "bin" / "npm").write_text(
        f"#!/bin/sh\nmkdir -p node_modules/a; sleep 0.3; echo 1 > {INSTALLED}\necho >> {tmp_path}/calls\n"
    )
    other = project.overlay("npm ci", with_programs(tmp_path))

    async def check(environment: Overlay) -> None:
        async with environment.open(project.layer()) as opened:
            assert (opened.files.parent / "p").is_dir()

    await asyncio.gather(check(npm), check(other))
    assert len((tmp_path / "calls").read_text()) == 1


async def test_ignored_files_of_the_workspace_do_not_exist(
    project: Project, npm: Overlay
) -> None:
    for path in (
        "node_modules/b/index.js",
        "build/lib/calc.py",
        "new.pyc",
        "src/__pycache__/calc.pyc",
    ):
        project.write(path, "of the user")
    project.write(".gitignore", "node_modules\nbuild\n*.pyc\n")
    project.store.close()
    async with npm.open(project.layer()) as opened:
        assert await run(
            opened, project, "ls node_modules src; ls build new.pyc 2>/dev/null; true"
        ) == (
            0,
            "node_modules:\na\n\nsrc:\ncalc.py\n",
        )


async def test_a_folder_that_the_agent_installs_later_is_not_merged(
    project: Project, npm: Overlay
) -> None:
    assert await calls(project, npm) == 1
    project.write("node_modules/a/planted.js", "planted")
    async with npm.open(project.layer()) as opened:
        assert await run(opened, project, "ls node_modules/a") == (0, "index.js\n")


@pytest.mark.parametrize(
    "script",
    [f"echo 2 > {INSTALLED}", "rm -r node_modules", "touch node_modules/planted"],
)
async def test_what_a_check_does_to_it_is_discarded(
    project: Project, npm: Overlay, script: str
) -> None:
    assert await calls(project, npm, script) == 1
    assert await calls(project, npm) == 1


async def test_an_installation_that_was_changed_is_made_again(
    project: Project, npm: Overlay
) -> None:
    assert await calls(project, npm) == 1
    (installed,) = project.checks.glob(f"setup-*/u/{INSTALLED}")
    installed.write_text("planted")
    assert await calls(project, npm) == 2


async def test_an_interrupted_installation_is_made_again(
    project: Project, npm: Overlay, tmp_path: Path
) -> None:
    assert await calls(project, npm) == 1
    (state,) = project.checks.glob("setup-*/state")
    state.unlink()
    assert await calls(project, project.overlay("npm ci", with_programs(tmp_path))) == 2


async def test_only_the_last_installations_are_kept(
    project: Project, npm: Overlay
) -> None:
    for number in range(10):
        project.write("package-lock.json", str(number))
        assert await calls(project, npm) == number + 1
    assert len(list(project.checks.glob("setup-*"))) == 8
    assert await calls(project, npm) == 10


async def test_changes_of_files_of_the_project_are_not_kept(
    project: Project, tmp_path: Path
) -> None:
    setup = "rm -r tests; mkdir tests; echo new > tests/new; echo x > src/calc.py; ln -sf x built.py; echo made > src/made"
    environment = project.overlay(setup)
    for text in (WRONG, RIGHT):
        project.write("src/calc.py", text)
        async with environment.open(project.layer()) as opened:
            script = "cat src/calc.py src/made; ls tests; head -c 8 built.py"
            assert await run(opened, project, script) == (
                0,
                f"{text}made\nnew\ntest_calc.py\n\nimport ",
            )


async def test_a_file_of_the_agent_is_never_covered(
    project: Project, tmp_path: Path
) -> None:
    npm = tmp_path / "bin" / "npm"
    npm.write_text("#!/bin/sh\necho setup > lib.txt\n")
    environment = project.overlay("npm ci", with_programs(tmp_path))
    async with environment.open(project.layer()) as opened:
        assert await run(opened, project, "cat lib.txt") == (0, "setup\n")
    project.write("lib.txt", "agent\n")
    async with environment.open(project.layer()) as opened:
        assert await run(opened, project, "cat lib.txt") == (0, "agent\n")


async def test_programs_that_it_installed_come_first_on_path(project: Project) -> None:
    setup = "mkdir -p .venv/bin node_modules/.bin; for f in .venv/bin node_modules/.bin; do echo > $f/tool; chmod +x $f/*; done"
    env = plain_environment(VIRTUAL_ENV="/outside")
    async with project.overlay(setup, env).open(project.layer()) as opened:
        inside = opened.environ(env)
        assert (
            inside["PATH"]
            == f"{project.folder}/.venv/bin:{project.folder}/node_modules/.bin:{env['PATH']}"
        )
        assert "VIRTUAL_ENV" not in inside


async def test_programs_in_a_folder_of_the_workspace_do_not(project: Project) -> None:
    project.write(".venv/bin/pytest", "#!/bin/sh\n", mode=0o755)
    async with project.overlay("true").open(project.layer()) as opened:
        assert (
            opened.environ(plain_environment())["PATH"] == plain_environment()["PATH"]
        )


async def test_a_setup_that_fails_is_an_error_with_the_end_of_its_output(
    project: Project,
) -> None:
    setup = "seq 20; echo no network >&2; exit 3"

    with pytest.raises(EnvironmentFailed) as caught:
        async with project.overlay(setup).open(project.layer()):
            pass

    lines = str(caught.value).splitlines()
    assert lines[0] == f"[workspace] setup failed (exit 3): {setup}"
    assert lines[1:-1] == [*(f"  {number}" for number in range(14, 21)), "  no network"]
    assert (
        lines[-1]
        == "correct it in the goal file; it runs without ignored files, as after `git clone`"
    )
    assert not list(project.checks.glob("setup-*/state"))
    assert not list(project.checks.glob("overlay-*"))
    assert not list(project.home.glob("*.setup"))


async def test_cancelling_it_leaves_nothing_behind(project: Project) -> None:
    async def check() -> None:
        async with project.overlay("echo begun > made; sleep 60").open(project.layer()):
            pass

    task = asyncio.create_task(check())
    while not list(project.checks.glob("overlay-*/0/u/made")):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not list(project.checks.glob("overlay-*"))
    assert not list(project.checks.glob("setup-*/*"))


# --- In place ---


async def test_in_place_it_installs_into_the_workspace_once(
    project: Project, tmp_path: Path
) -> None:
    environment = InPlace(
        project.store,
        project.home,
        setup=project.setup("npm ci", with_programs(tmp_path)),
    )
    store = store_of(project.folder, project.home)
    assert not was_set_up(store, project.home)
    for _ in range(2):
        async with environment.open(project.layer()) as opened:
            assert await run(opened, project, f"cat {INSTALLED}") == (0, "1\n")
    assert (project.folder / INSTALLED).exists()
    assert was_set_up(store, project.home)
    project.write("package.json", "{}")
    async with environment.open(project.layer()):
        pass
    assert len((tmp_path / "calls").read_text()) == 2
