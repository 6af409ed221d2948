"""What a later clean checkout reads of the baseline's compiled modules, and what it never reads."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goalrunner.workspace.bytecode import Bytecode
from goalrunner.workspace.cleanroom import Checkout
from goalrunner.workspace.surroundings import compiled, environment
from tests.support.rooms import Project, plain_environment, plant_module, run

SAY = "python3 -c 'import installed; print(installed.x)'"


@pytest.fixture
async def project(tmp_path: Path) -> AsyncIterator[Project]:
    """With a package that is installed outside of the workspace."""
    project = Project(tmp_path)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "installed.py").write_text("x = 1\n")
    await project.begin()
    yield project
    project.store.close()


def say(project: Project, room: Checkout, command: str = SAY) -> str:
    env = environment(plain_environment(PYTHONPATH=str(project.folder.parent / "site")), project.folder, room)
    code, output = run(room.path, command, env)
    assert code == 0, output
    return output.strip()


def cached(room: Checkout, source: Path) -> Path:
    name = f"{source.stem}.{sys.implementation.cache_tag}.pyc"
    return compiled(room) / str(source.parent).lstrip("/") / name


async def baseline(project: Project, bytecode: Bytecode, command: str = SAY) -> None:
    room = await project.room()
    bytecode.learn(room)
    assert say(project, room, command) == "1"
    await room.close()


async def lent(project: Project, bytecode: Bytecode) -> Checkout:
    room = await project.room()
    bytecode.lend(room)
    return room


async def test_an_installed_module_is_compiled_once_in_a_run(project: Project) -> None:
    bytecode = Bytecode()
    await baseline(project, bytecode)
    for _ in range(2):
        room = await lent(project, bytecode)
        here = cached(room, project.folder.parent / "site" / "installed.py")
        before = here.stat()
        assert say(project, room) == "1"
        assert (here.stat().st_ino, here.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
        await room.close()


async def test_the_modules_of_the_project_are_compiled_anew(project: Project) -> None:
    bytecode = Bytecode()
    await baseline(project, bytecode, "cd src && python3 -c 'import calc; print(calc.add(2, 1))'")
    room = await lent(project, bytecode)
    assert compiled(room).is_dir()
    assert not cached(room, room.path / "src" / "calc.py").exists()
    await room.close()


@pytest.mark.parametrize("name", ["installed", "argparse"])
async def test_what_a_later_check_planted_is_never_read(project: Project, name: str) -> None:
    """One takes the place of a known module, one is new; both would be believed."""
    bytecode = Bytecode()
    await baseline(project, bytecode)
    spec = importlib.util.find_spec("argparse")
    assert spec is not None
    assert spec.origin is not None
    source = project.folder.parent / "site" / "installed.py" if name == "installed" else Path(spec.origin)
    command = SAY.replace("installed", name)
    room = await lent(project, bytecode)
    target = cached(room, source)
    target.parent.mkdir(parents=True, exist_ok=True)
    plant_module(target)
    assert say(project, room, command) == "2"
    await room.close()

    room = await lent(project, bytecode)
    assert not cached(room, source).exists()
    assert say(project, room, f"python3 -c 'import {name}; print(getattr({name}, \"x\", 1))'") == "1"
    await room.close()


async def test_a_folder_of_compiled_modules_that_became_a_link_is_not_followed(project: Project) -> None:
    bytecode = Bytecode()
    await baseline(project, bytecode)
    room = await lent(project, bytecode)
    elsewhere = project.folder.parent / "elsewhere"
    compiled(room).rename(elsewhere)
    compiled(room).symlink_to(elsewhere)
    await room.close()

    room = await lent(project, bytecode)
    assert not compiled(room).exists()
    await room.close()


async def test_without_a_baseline_nothing_is_lent(project: Project) -> None:
    first = Bytecode()
    await baseline(project, first)
    room = await lent(project, Bytecode())
    assert not compiled(room).exists()
    await room.close()
