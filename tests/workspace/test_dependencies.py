"""Where a clean checkout's packages come from, with real environments, and when they are no longer trusted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goalrunner.process import ProcessLauncher
from goalrunner.workspace.dependencies import Dependencies, Provided
from goalrunner.workspace.protection import Protection
from goalrunner.workspace.surroundings import environment
from tests.support.rooms import RIGHT, Project, plain_environment, run

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


@pytest.fixture
async def project(tmp_path: Path) -> AsyncIterator[Project]:
    ignored = ".venv\nnode_modules\n"
    more = {"tests/test_calc.py": UNITTEST, "pyproject.toml": PACKAGED, "built.py": BUILT, ".gitignore": ignored}
    project = Project(tmp_path, **more)
    await project.begin()
    yield project
    project.store.close()


def dependencies(project: Project, *, setup: str = "", link: tuple[str, ...] = ()) -> Dependencies:
    return Dependencies(project.folder, project.root.parent / "home", ProcessLauncher(), setup=setup, link=link)


def environment_in(folder: Path) -> Path:
    """A virtual environment without pip: quick."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / SITE


def refused(provided: Provided) -> list[str]:
    return [f"{refusal.path}: {refusal.rule}" for refusal in provided.refusals]


async def test_a_linked_environment_is_seen_in_the_room_and_stays_whole(project: Project, tmp_path: Path) -> None:
    site = environment_in(project.folder / ".venv")
    (site / "dependency.py").write_text("x = 1\n")
    project.write("src/calc.py", "import dependency\n" + RIGHT)
    wanted = dependencies(project, link=(".venv",))
    assert await wanted.remember() == ()
    room = await project.room(linked=wanted.link)

    command = "PYTHONPATH=src .venv/bin/python -m unittest -q tests/test_calc.py"
    provided = await wanted.provide(room, plain_environment(), [command], tmp_path / "out")

    assert provided.refusals == ()
    assert run(room.path, command, provided.env)[0] == 0
    assert run(room.path, "git status --porcelain", provided.env) == (0, "")
    assert await room.disturbed() == ()
    assert await wanted.changed() == ()
    await room.close()
    assert (site / "dependency.py").exists()
    assert not (site / "__pycache__").exists()


async def test_a_planted_sitecustomize_in_a_linked_environment_is_refused(project: Project, tmp_path: Path) -> None:
    site = environment_in(project.folder / ".venv")
    wanted = dependencies(project, link=(".venv",))
    await wanted.remember()
    (site / "sitecustomize.py").write_text("import os\nos._exit(0)\n")
    room = await project.room(linked=wanted.link)

    provided = await wanted.provide(room, plain_environment(), [".venv/bin/python -m unittest"], tmp_path / "out")

    (refusal,) = provided.refusals
    assert str(refusal) == (
        f".venv/{SITE}/sitecustomize.py: added since the start, and .venv is linked; "
        '[workspace] setup = "..." in place of link, or put .venv back as it was'
    )


async def test_a_planted_compiled_module_is_never_read(project: Project, tmp_path: Path) -> None:
    site = environment_in(project.folder / ".venv")
    (site / "dependency.py").write_text("x = 1\n")
    wanted = dependencies(project, link=(".venv",))
    await wanted.remember()
    plant = (
        "import py_compile, os; s = 'dependency.py'; t = os.stat(s); open('e.py', 'w').write('x = 2\\n'); "
        "os.utime('e.py', ns=(t.st_atime_ns, t.st_mtime_ns)); "
        f"py_compile.compile('e.py', cfile='__pycache__/dependency.{sys.implementation.cache_tag}.pyc'); os.unlink('e.py')"
    )
    subprocess.run([sys.executable, "-c", plant], cwd=site, check=True)
    assert run(project.folder, ".venv/bin/python -c 'import dependency; print(dependency.x)'") == (0, "2\n")
    room = await project.room(linked=wanted.link)

    provided = await wanted.provide(room, plain_environment(), [".venv/bin/python"], tmp_path / "out")

    assert provided.refusals == ()
    assert run(room.path, ".venv/bin/python -c 'import dependency; print(dependency.x)'", provided.env) == (0, "1\n")


async def test_caches_of_node_modules_are_the_rooms_own(project: Project, tmp_path: Path) -> None:
    project.write("node_modules/a/index.js", "")
    project.write("node_modules/.cache/babel/x.json", "{}")
    wanted = dependencies(project, link=("node_modules",))
    await wanted.remember()
    project.write("node_modules/.cache/babel/evil.json", "{}")
    room = await project.room(linked=wanted.link)

    provided = await wanted.provide(room, plain_environment(), ["npx jest"], tmp_path / "out")
    (room.path / "node_modules" / ".cache").mkdir()

    assert provided.refusals == ()
    assert (room.path / "node_modules" / "a" / "index.js").exists()
    assert list((room.path / "node_modules" / ".cache").iterdir()) == []


async def test_many_changes_are_counted(project: Project) -> None:
    project.write("node_modules/a/index.js", "")
    wanted = dependencies(project, link=("node_modules",))
    await wanted.remember()
    for number in range(15):
        project.write(f"node_modules/b/{number:02}.js", "")

    changed = await wanted.changed()

    assert len(changed) == 11
    assert str(changed[-1]).startswith("node_modules: 5 more paths changed since the start; ")


async def test_a_link_that_is_not_there_is_said_at_the_start(project: Project) -> None:
    assert [str(refusal) for refusal in await dependencies(project, link=("node_modules",)).remember()] == [
        "node_modules: is named by link and is no folder; install it first, or take it out of [workspace] link"
    ]


async def test_an_npm_workspace_is_refused_at_the_start(project: Project) -> None:
    project.write("packages/a/index.js", "")
    (project.folder / "node_modules").mkdir()
    (project.folder / "node_modules" / "a").symlink_to("../packages/a")

    (refusal,) = await dependencies(project, link=("node_modules",)).remember()

    assert (refusal.path, refusal.rule) == (
        "node_modules/a",
        f"is a link into the live workspace ({project.folder}/packages/a)",
    )


async def test_the_fingerprints_of_the_start_outlive_the_process(project: Project, tmp_path: Path) -> None:
    project.write("node_modules/a/index.js", "")
    await dependencies(project, link=("node_modules",)).remember(tmp_path / "record")
    project.write("node_modules/a/index.js", "evil")
    again = dependencies(project, link=("node_modules",))

    await again.remember(tmp_path / "record")

    assert [refusal.path for refusal in await again.changed()] == ["node_modules/a/index.js"]


async def test_an_editable_install_into_the_workspace_is_refused(project: Project, tmp_path: Path) -> None:
    site = environment_in(tmp_path / "outer")
    (site / "_calc.pth").write_text(f"{project.folder}/src\n")
    wanted = dependencies(project)
    room = await project.room()

    env = plain_environment(PATH=f"{tmp_path}/outer/bin{os.pathsep}/usr/bin{os.pathsep}/bin")
    provided = await wanted.provide(room, env, ["python -m unittest"], tmp_path / "out")
    loose = await wanted.provide(room, env, ["python -m unittest"], tmp_path / "out", strict=False)

    assert refused(provided) == [f"{site}/_calc.pth: imports resolve into the live workspace ({project.folder}/src)"]
    assert refused(loose) == []


async def test_an_editable_install_with_setup_imports_from_the_checkout(project: Project, tmp_path: Path) -> None:
    outer = environment_in(tmp_path / "outer")
    (outer / "_calc.pth").write_text(f"{project.folder}/src\n")
    before = sorted(outer.iterdir())
    env = plain_environment(PATH=f"{tmp_path}/outer/bin{os.pathsep}/usr/bin{os.pathsep}/bin")
    setup = "pip install -q --no-index --no-build-isolation -e ."
    wanted = dependencies(project, setup=setup)
    command = "python -m unittest -q tests/test_calc.py"

    first = await project.room()
    provided = await wanted.provide(first, env, [command], tmp_path / "out")
    assert refused(provided) == [], (tmp_path / "out").read_text()
    assert (provided.reused, provided.touched) == (False, ())
    assert run(first.path, command, provided.env)[0] == 1
    await first.close()

    project.write("src/calc.py", RIGHT)
    second = await project.room()
    again = await wanted.provide(second, env, [command], tmp_path / "out")
    code, output = run(second.path, command, again.env)
    assert (code, refused(again), again.reused) == (0, [], True), output
    where = run(second.path, "python -c 'import calc; print(calc.__file__)'", again.env)[1].strip()
    assert where == str(second.path / "src" / "calc.py")
    assert sorted(outer.iterdir()) == before
    await second.close()


async def test_the_products_of_setup_are_used_again_until_an_input_changes_or_somebody_touches_them(
    project: Project, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    npm = tmp_path / "bin" / "npm"
    npm.write_text("#!/bin/sh\nmkdir -p node_modules/a && echo 1 > node_modules/a/index.js\n")
    npm.chmod(0o755)
    env = plain_environment(PATH=f"{npm.parent}{os.pathsep}{os.environ['PATH']}")
    wanted = dependencies(project, setup="npm ci")
    reused = []

    async def proof(spoil: bool = False) -> None:
        room = await project.room(Protection(protect=["tests/**"], allow=["package-lock.json"]))
        provided = await wanted.provide(room, env, ["node x"], tmp_path / "out")
        assert (room.path / "node_modules" / "a" / "index.js").read_text() == "1\n"
        assert await room.disturbed() == ()
        if spoil:
            (room.path / "node_modules" / "a" / "index.js").write_text("2\n")
        reused.append(provided.reused)
        await room.close()

    await proof()
    project.write("src/calc.py", RIGHT)
    await proof()
    await proof(spoil=True)
    await proof()
    project.write("package-lock.json", "{}")
    await proof()

    assert reused == [False, True, True, False, False]


async def test_a_setup_that_touches_what_is_protected_is_undone(project: Project, tmp_path: Path) -> None:
    setup = "echo 'pass' > tests/test_calc.py; touch conftest.py; mkdir -p .venv && touch .venv/pyvenv.cfg .venv/conftest.py"
    wanted = dependencies(project, setup=setup)
    room = await project.room()

    provided = await wanted.provide(room, plain_environment(), ["node x"], tmp_path / "out")

    assert [f"{entry.path} {entry.kind}" for entry in provided.touched] == [
        "conftest.py planted",
        "tests/test_calc.py changed",
    ]
    assert (room.path / "tests" / "test_calc.py").read_text() == UNITTEST
    assert not (room.path / "conftest.py").exists()
    assert (room.path / ".venv" / "conftest.py").exists()


async def test_a_setup_that_fails_is_refused_with_where_to_look(project: Project, tmp_path: Path) -> None:
    wanted = dependencies(project, setup="echo no network >&2; exit 3")
    room = await project.room()

    provided = await wanted.provide(room, plain_environment(), ["node x"], tmp_path / "out", strict=False)

    assert [str(refusal) for refusal in provided.refusals] == [
        f"[workspace] setup: `echo no network >&2; exit 3` failed in the clean checkout (exit 3); see {tmp_path}/out"
    ]


async def test_the_environment_of_the_room_names_the_workspace_no_more(project: Project) -> None:
    room = await project.room()
    env = {
        "PATH": f"{project.folder}/.venv/bin:/usr/bin::bin",
        "PYTHONPATH": f"{project.folder}/src",
        "PWD": "/x",
        "A": "b:c",
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    assert environment(env, project.folder, room) == {
        "PATH": f"{room.path}/.venv/bin:/usr/bin::bin",
        "PYTHONPATH": f"{room.path}/src",
        "PWD": str(room.path),
        "A": "b:c",
        "PYTHONPYCACHEPREFIX": str(room.here / "pycache"),
    }
