"""The clean checkout against real pytest and real git: what an agent may do to the ruler, and what it may not lose."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from goalrunner.errors import WorkspaceError
from goalrunner.model.snapshot import Snapshot
from goalrunner.workspace.protection import Protection
from goalrunner.workspace.store import SnapshotStore
from goalrunner.workspace.surroundings import environment
from tests.support.rooms import RIGHT, TEST, Project, plain_environment, run


@pytest.fixture
async def project(tmp_path: Path) -> AsyncIterator[Project]:
    project = Project(tmp_path)
    await project.begin()
    yield project
    project.store.close()


def deleted_tests(project: Project) -> None:
    (project.folder / "tests" / "test_calc.py").unlink()
    project.write("tests/test_other.py", "def test_nothing():\n    pass\n")


def weakened_test(project: Project) -> None:
    project.write("tests/test_calc.py", TEST.replace("== 3", "!= 3"))


def skipped_by_a_conftest(project: Project) -> None:
    hook = "def pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if 'ok' in i.name]\n"
    project.write("conftest.py", hook)
    project.write("src/test_ok.py", "def test_ok():\n    pass\n")


def ignored_by_a_planted_setting(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\naddopts = --ignore=tests\n")
    project.write("src/test_ok.py", "def test_ok():\n    pass\n")


def a_local_module_pytest(project: Project) -> None:
    project.write("pytest.py", "import sys\nprint('1 passed in 0.01s')\nsys.exit(0)\n")


def a_local_module_of_the_standard_library(project: Project) -> None:
    project.write("argparse.py", "import os\nprint('1 passed in 0.01s', flush=True)\nos._exit(0)\n")


def a_plugin_by_an_entry_point(project: Project) -> None:
    project.write("cheat.py", "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n")
    project.write("cheat.egg-info/PKG-INFO", "Metadata-Version: 2.1\nName: cheat\nVersion: 1\n")
    project.write("cheat.egg-info/entry_points.txt", "[pytest11]\ncheat = cheat\n")


def the_folder_of_tests_is_a_link(project: Project) -> None:
    elsewhere = project.folder.parent / "elsewhere"
    (project.folder / "tests").rename(elsewhere)
    (elsewhere / "test_calc.py").write_text("def test_add():\n    pass\n")
    (project.folder / "tests").symlink_to(elsewhere)


def a_protected_file_is_a_folder(project: Project) -> None:
    (project.folder / "tests" / "test_calc.py").unlink()
    project.write("tests/test_calc.py/test_ok.py", "def test_ok():\n    pass\n")


def a_conftest_behind_a_link(project: Project) -> None:
    outside = project.folder.parent / "outside"
    outside.mkdir()
    (outside / "conftest.py").write_text("import os\nprint('1 passed', flush=True)\nos._exit(0)\n")
    (outside / "test_ok.py").write_text("def test_ok():\n    pass\n")
    (project.folder / "extra").symlink_to(outside)


def hidden_by_an_ignore_file(project: Project) -> None:
    skipped_by_a_conftest(project)
    project.write(".gitignore", "conftest.py\n.gitignore\n")


ATTACKS: dict[Callable[[Project], None], list[str]] = {
    deleted_tests: [
        'tests/test_calc.py was deleted; protect = "tests/**"',
        'tests/test_other.py was planted; protect = "tests/**"',
    ],
    weakened_test: ['tests/test_calc.py was changed; protect = "tests/**"'],
    skipped_by_a_conftest: ["conftest.py was planted; steers pytest (conftest.py)"],
    ignored_by_a_planted_setting: ["pytest.ini was planted; steers pytest (pytest.ini)"],
    a_local_module_pytest: ["pytest.py was planted; shadows the module pytest"],
    a_local_module_of_the_standard_library: ["argparse.py was planted; shadows the module argparse"],
    a_plugin_by_an_entry_point: [
        "cheat.egg-info/PKG-INFO was planted; steers pytest's plugins (*.egg-info)",
        "cheat.egg-info/entry_points.txt was planted; steers pytest's plugins (*.egg-info)",
    ],
    the_folder_of_tests_is_a_link: [
        'tests was planted; protect = "tests/**"',
        'tests/test_calc.py was deleted; protect = "tests/**"',
    ],
    a_protected_file_is_a_folder: [
        'tests/test_calc.py was deleted; protect = "tests/**"',
        'tests/test_calc.py/test_ok.py was planted; protect = "tests/**"',
    ],
    a_conftest_behind_a_link: [
        "extra was planted; a new link that leads out of the workspace (OUTSIDE); make it relative"
    ],
    hidden_by_an_ignore_file: [
        ".gitignore was planted; steers what tools leave out (.gitignore)",
        "conftest.py was planted; steers pytest (conftest.py)",
    ],
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
async def test_an_attack_that_fools_pytest_in_the_workspace_is_red_in_the_room(
    project: Project, attack: Callable[[Project], None]
) -> None:
    attack(project)
    command = "python -m pytest -q -p no:cacheprovider"
    env = plain_environment()
    if attack is a_plugin_by_an_entry_point:
        del env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"]
    assert run(project.folder, command, env)[0] == 0

    room = await project.room()

    code, output = run(room.path, command, env)
    assert (code, "1 failed" in output) == (1, True), output
    outside = str(project.folder.parent / "outside")
    assert [str(entry).replace(outside, "OUTSIDE") for entry in room.touched] == ATTACKS[attack]
    assert room.refusals == ()


async def test_honest_work_is_whole_in_the_room(project: Project) -> None:
    project.write("src/calc.py", RIGHT)
    project.write("src/more/test_more.py", "def test_more():\n    pass\n")
    project.write("build/generated.txt", "generated\n")
    project.write("run.sh", "#!/bin/sh\n", mode=0o755)
    (project.folder / "latest").symlink_to("src/calc.py")
    project.write("tests/__pycache__/x.pyc", "cache")
    project.write(".coverage", "cache")

    room = await project.room()

    assert room.touched == ()
    assert room.refusals == ()
    assert room.protected == 2
    found = sorted(
        p.relative_to(room.path).as_posix() for p in room.path.rglob("*") if ".git" not in p.parts and not p.is_dir()
    )
    assert found == [
        "build/generated.txt", "latest", "pyproject.toml", "run.sh", "src/calc.py", "src/more/test_more.py",
        "tests/test_calc.py",
    ]  # fmt: skip
    assert os.access(room.path / "run.sh", os.X_OK)
    assert (room.path / "latest").readlink() == Path("src/calc.py")
    assert (room.path / "src" / "calc.py").stat().st_nlink == 1
    code, output = run(room.path)
    assert (code, "2 passed" in output) == (0, True)


async def test_an_allowed_edit_stays(project: Project) -> None:
    project.write("pyproject.toml", '[project]\ndependencies = ["rich"]\n')

    room = await project.room(Protection(protect=["tests/**"], allow=["pyproject.toml"]))

    assert room.touched == ()
    assert "rich" in (room.path / "pyproject.toml").read_text()


async def test_without_protect_nothing_is_restored_but_what_is_always_protected(project: Project) -> None:
    project.write("check.sh", "#!/bin/sh\nexit 1\n", 0o755)
    await project.begin()
    weakened_test(project)
    project.write("check.sh", "#!/bin/sh\nexit 0\n", 0o755)

    room = await project.room(Protection(always={"check.sh": 'named by validator "check"'}))

    assert [str(entry) for entry in room.touched] == ['check.sh was changed; named by validator "check"']
    assert run(room.path, "./check.sh")[0] == 1
    assert run(room.path)[0] == 0


async def test_the_room_has_a_git_of_its_own(project: Project, tmp_path: Path) -> None:
    project.write(".gitignore", "*.log\n")
    project.write("kept.log", "tracked though ignored\n")
    hooks = project.folder / ".git" / "hooks"
    hooks.mkdir(parents=True)
    for name in ("pre-commit", "post-commit", "post-checkout"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
        (hooks / name).chmod(0o755)

    room = await project.room(Protection(protect=["tests/**"], allow=[".gitignore"]), linked=("node_modules",))

    (room.path / "node_modules").mkdir()
    (room.path / "node_modules" / "a.js").write_text("")
    assert run(room.path, "git status --porcelain") == (0, "")
    assert run(room.path, "git ls-files")[1].split() == [
        ".gitignore", "kept.log", "pyproject.toml", "src/calc.py", "tests/test_calc.py",
    ]  # fmt: skip
    assert run(room.path, "git log --oneline")[1].split(maxsplit=1)[1] == "the proven snapshot\n"
    assert run(room.path, "git rev-parse --show-toplevel")[1].strip() == str(room.path.resolve())
    assert not (tmp_path / "sprung").exists()


async def test_the_callers_git_variables_and_configuration_do_not_count(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "template" / "hooks" / "pre-commit"
    trap.parent.mkdir(parents=True)
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\nexit 1\n")
    trap.chmod(0o755)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(trap.parents[1]))

    room = await project.room()

    assert (room.path / ".git" / "HEAD").exists()
    assert not (tmp_path / "sprung").exists()
    assert not (tmp_path / "elsewhere").exists()


async def test_a_link_of_the_base_into_the_workspace_is_refused(project: Project) -> None:
    (project.folder / "lib").symlink_to(project.folder / "src")
    await project.begin()

    room = await project.room()

    assert [str(refusal) for refusal in room.refusals] == [
        "lib: is a link into the live workspace; make the link relative, or remove it"
    ]


async def test_protected_tests_that_lie_outside_are_refused(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "shared"
    (project.folder / "tests").rename(outside)
    (project.folder / "tests").symlink_to("../shared")
    await project.begin()

    room = await project.room()

    (refusal,) = room.refusals
    assert str(refusal) == (
        'tests: protect = "tests/**", but it is a link to ../shared, which is in no snapshot; '
        'move the files into the workspace, or write [workspace] allow = ["tests"]'
    )


async def test_tests_behind_a_link_of_the_base_are_restored(project: Project) -> None:
    (project.folder / "tests").rename(project.folder / "suite")
    (project.folder / "tests").symlink_to("suite")
    await project.begin()
    project.write("suite/test_calc.py", "def test_add():\n    pass\n")

    room = await project.room()

    assert [entry.path for entry in room.touched] == ["suite/test_calc.py"]
    assert (room.path / "tests" / "test_calc.py").read_text() == TEST


async def test_a_planted_environment_is_gone(project: Project) -> None:
    project.write(".venv/pyvenv.cfg", "home = /usr/bin\n")
    project.write(".venv/bin/pytest", "#!/bin/sh\necho 1 passed\n", 0o755)
    project.write("tests/sub/node_modules/a/package.json", "{}")

    room = await project.room()

    assert [entry.path for entry in room.touched] == [".venv/", "tests/sub/node_modules/"]
    assert sorted(p.name for p in room.path.iterdir()) == [".git", "pyproject.toml", "src", "tests"]
    assert not (room.path / "tests" / "sub").exists()


async def test_what_runs_in_the_room_may_disturb_it_and_is_seen(project: Project) -> None:
    room = await project.room()
    tests = room.path / "tests" / "test_calc.py"
    was = tests.stat()
    tests.write_text(TEST.replace("== 3", "< 3"))
    os.utime(tests, ns=(was.st_atime_ns, was.st_mtime_ns))
    (room.path / "conftest.py").write_text("")
    (room.path / "report.xml").write_text("")
    (room.path / "tests" / "__pycache__").mkdir()
    (room.path / "tests" / "__pycache__" / "x.pyc").write_text("")
    (room.path / "pyproject.toml").unlink()

    disturbed = await room.disturbed()
    await room.mend(disturbed)

    assert [(entry.path, entry.kind) for entry in disturbed] == [
        ("conftest.py", "planted"),
        ("pyproject.toml", "deleted"),
        ("tests/test_calc.py", "changed"),
    ]
    assert tests.read_text() == TEST
    assert await room.disturbed() == ()


async def test_a_closed_room_leaves_nothing_and_can_be_made_again(project: Project) -> None:
    room = await project.room()
    locked = room.path / "locked"
    locked.mkdir()
    (locked / "file").write_text("")
    locked.chmod(0o500)

    await room.close()

    assert list(project.root.iterdir()) == []
    again = await project.room()
    assert (again.path / "tests" / "test_calc.py").exists()
    assert again.path == room.path


class ForgetfulStore(SnapshotStore):
    """Holds names and no content."""

    async def read(self, snapshot: Snapshot, path: str) -> bytes | None:
        return None


async def test_a_protected_path_that_cannot_be_put_back_is_an_error(project: Project) -> None:
    project.store.close()
    project.store = ForgetfulStore(project.folder, project.folder.parent / "home")
    await project.begin()
    weakened_test(project)

    with pytest.raises(WorkspaceError) as caught:
        await project.room()

    assert str(caught.value) == (
        "tests/test_calc.py was changed and cannot be put back: the snapshot at the start does not hold it\n"
        'put it back by hand, or write [workspace] allow = ["tests/test_calc.py"]'
    )


async def test_a_program_planted_on_path_is_not_found(project: Project) -> None:
    real = plain_environment()
    env = {
        **real,
        "PATH": f"{project.folder}/bin{os.pathsep}.{os.pathsep}{real['PATH']}",
        "PYTHONPATH": str(project.folder),
    }
    for path in ("bin/pytest", "pytest"):
        project.write(path, "#!/bin/sh\necho 1 passed\n", 0o755)
    project.write("sitecustomize.py", "import os\nos._exit(0)\n")
    assert run(project.folder, env=env) == (0, "1 passed\n")

    room = await project.room()

    code, output = run(room.path, env=environment(env, project.folder, room))
    assert (code, "1 failed" in output) == (1, True), output
    assert [entry.path for entry in room.touched] == ["bin/pytest", "pytest", "sitecustomize.py"]


async def test_the_attributes_of_the_project_change_no_content(project: Project) -> None:
    project.write(".gitattributes", "*.txt text eol=crlf working-tree-encoding=UTF-16\n*.md filter=evil ident\n")
    project.write("a.txt", "no UTF-16\n")
    project.write("a.md", "$Id$\n")

    room = await project.room()

    assert run(room.path, "git show HEAD:a.txt HEAD:a.md") == (0, "no UTF-16\n$Id$\n")
    assert run(room.path, "git status --porcelain") == (0, "")


async def test_odd_names_are_put_back(project: Project) -> None:
    odd = "tests/two\nlines \\ caf\udce9.txt"
    project.write(odd, "at the start")
    await project.begin()
    (project.folder / odd).unlink()

    room = await project.room()

    assert [entry.path for entry in room.touched] == ["tests/two\\x0alines \\x5c caf\\xe9.txt"]
    assert (room.path / odd).read_text() == "at the start"
    (room.path / odd).unlink()
    await room.mend(await room.disturbed())
    assert (room.path / odd).read_text() == "at the start"


async def test_a_nested_repository_is_content_like_any_other(project: Project) -> None:
    nested = project.folder / "tests" / "nested"
    nested.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=nested, check=True)
    project.write("tests/nested/test_ok.py", "def test_ok():\n    pass\n")

    room = await project.room()

    assert [entry.path for entry in room.touched] == ["tests/nested/test_ok.py"]
    assert not (room.path / "tests" / "nested").exists()
