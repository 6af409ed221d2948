"""In-place check environments on real files and real git: what validators see, and that all of it is undone."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from goalrunner.checking import in_place
from goalrunner.checking.environment import (
    CheckEnvironment,
    File,
    Layer,
    OpenEnvironment,
)
from goalrunner.checking.in_place import InPlace, InPlaceCheck
from goalrunner.checking.journal import checks_folder
from goalrunner.checking.undo import undo_checks
from goalrunner.core.errors import EnvironmentFailed, WorkspaceError
from goalrunner.core.ports import Completion
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.launcher import ProcessLauncher
from tests.checking.test_overlay import (
    AS_ORDINARY,
    ORDINARY,
    PROJECT,
    ordinary,
    path_here,
)
from tests.support.in_place import (
    VALIDATOR,
    layers,
    make_workspace,
    pending,
    picture,
    status,
    times,
)
from tests.support.workspaces import git, write

pytestmark = pytest.mark.slow

TEXT = stat.S_IFREG | 0o644


class Scene:
    """A workspace, its store and home, and what it looked like at the start."""

    def __init__(self, workspace: Path, home: Path) -> None:
        home.mkdir(exist_ok=True)
        self.workspace = workspace
        self.home = home
        self.start = home / "start"
        self.store = SnapshotStore(workspace, home, start=self.start)
        self.launcher = ProcessLauncher()
        self.checks = self.environment()
        self.before = self.look()

    def look(self) -> tuple[object, ...]:
        said = status(self.workspace) if (self.workspace / ".git").exists() else ""
        return picture(self.workspace), times(self.workspace), said

    def environment(self, *outputs: str) -> InPlace:
        return InPlace(self.store, self.home, start=self.start, outputs=outputs)

    @asynccontextmanager
    async def opened(self, *given: Layer) -> AsyncIterator[OpenEnvironment]:
        async with self.checks.open(given) as opened:
            yield opened

    async def run(self, opened: OpenEnvironment, script: str) -> str:
        """The output of a script that succeeds, started in the environment."""
        output = self.home / "output"
        started = opened.launcher(self.launcher)
        done = await started.launch(
            ["/bin/sh", "-c", script],
            cwd=self.workspace,
            env=opened.environ(os.environ),
            output=output,
        )
        assert done.exit_code == 0, output.read_text()
        return output.read_text()

    def journals(self) -> list[Path]:
        return list(checks_folder(self.home).glob("*/journal"))

    def close(self) -> None:
        self.launcher.close()
        self.store.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(make_workspace(tmp_path / "ws"), tmp_path / "home")
    yield made
    made.close()


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Scene]:
    """A workspace without git."""
    write(
        tmp_path / "ws", {"a.py": "a\n", "tests/t.py": "changed\n", "out/old": "old\n"}
    )
    made = Scene(tmp_path / "ws", tmp_path / "home")
    yield made
    made.close()


async def test_validators_see_the_layers_and_nothing_is_left_of_it(
    scene: Scene,
) -> None:
    async with scene.opened(*layers(scene.workspace)) as opened:
        assert opened.path == scene.workspace
        seen = picture(scene.workspace)
        began = time.time()

    assert seen["tests/test_a.py"] == ("-rw-r--r--", b"original\n")
    assert seen["gone.py"] == ("-rwxr-xr-x", b"g\n")
    assert seen["link/inside.py"][1] == b"i\n"
    assert seen["fresh/deep/link"][1] == Path("../../src/a.py")
    assert seen["planted/original"][1] == b"o\n"
    assert (
        not {"planted/conftest.py", "build", "build/out.bin", "missing"} & seen.keys()
    )
    assert scene.look() == scene.before
    assert not scene.journals()
    assert time.time() - began < 10


async def test_put_files_are_new(scene: Scene) -> None:
    began = time.time_ns() - 10**8
    async with scene.opened(*layers(scene.workspace)):
        assert (scene.workspace / "tests/test_a.py").stat().st_mtime_ns > began


async def test_what_a_validator_does_to_existing_files_is_undone(scene: Scene) -> None:
    environment = scene.environment()
    async with environment.open(layers(scene.workspace)) as opened:
        await scene.run(opened, VALIDATOR)
        assert scene.look() != scene.before
    await asyncio.sleep(0.05)

    assert scene.look() == scene.before
    contents = set()
    for path in (scene.store.folder / "refs/snapshots").iterdir():
        tree = f"{path.read_text().strip()}:tree/content/src/a.py"
        contents.add(
            git(scene.store.folder, f"--git-dir={scene.store.folder}", "show", tree)
        )
    assert len(contents) == 2, "the state before the reset is kept"
    assert (scene.workspace / "empty/made/new.py").read_text() == "n\n"
    assert (scene.workspace / "made-repo/.git/HEAD").exists()


async def test_a_check_that_changes_nothing_resets_nothing(scene: Scene) -> None:
    environment = scene.environment()
    stamps = {path: path.lstat().st_ctime_ns for path in scene.workspace.rglob("src/*")}
    async with environment.open(layers(scene.workspace)) as opened:
        await scene.run(opened, "cat tests/test_a.py")

    assert {
        path: path.lstat().st_ctime_ns for path in scene.workspace.rglob("src/*")
    } == stamps


async def test_ignored_files_stay_as_the_check_left_them(scene: Scene) -> None:
    async with scene.opened() as opened:
        await scene.run(
            opened,
            "echo more >> cache.log; mkdir -p build/sub; echo n > build/sub/new; rm build/out.bin",
        )

    assert (scene.workspace / "cache.log").read_text() == "log\nmore\n"
    assert (scene.workspace / "build/sub/new").exists()
    assert not (scene.workspace / "build/out.bin").exists()


async def test_outputs_stay_wherever_they_are(scene: Scene) -> None:
    (scene.workspace / "report.txt").write_text("old\n")
    scene.checks = scene.environment("report.txt", "cov.xml", "tests/")
    script = "echo new > report.txt; mkdir build; echo c > build/cov.xml; echo t > tests/test_a.py; echo x > x.py"
    async with scene.opened(*layers(scene.workspace)) as opened:
        await scene.run(opened, script)
        assert await opened.collect(["report.txt"]) == ()

    assert (scene.workspace / "report.txt").read_text() == "new\n"
    assert (scene.workspace / "build/out.bin").read_text() == "built\n"
    assert (scene.workspace / "tests/test_a.py").read_text() == "weakened\n"
    assert (scene.workspace / "x.py").exists()


async def test_processes_that_leave_their_session_are_ended_before_the_undo(
    plain: Scene,
) -> None:
    script = "setsid sh -c 'while true; do echo late > a.py; echo late > late.py; done' >/dev/null 2>&1 & sleep 0.1"
    started = _Unguarded()
    async with plain.opened() as opened:
        await opened.launcher(started).launch(
            ["/bin/sh", "-c", script],
            cwd=plain.workspace,
            env=opened.environ(os.environ),
            output=plain.home / "o",
        )
    await asyncio.sleep(0.1)

    assert plain.look() == plain.before


class _Unguarded:
    """A launcher that leaves the processes of its commands running."""

    async def launch(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: Path,
        **_: Any,
    ) -> Completion:
        done = subprocess.run(argv, cwd=cwd, env=env, check=True)
        return Completion(done.returncode, 0.0, timed_out=False, output=output)


async def test_cancelled_in_mid_check_it_is_undone_first(scene: Scene) -> None:
    async def checked() -> None:
        async with scene.opened(*layers(scene.workspace)) as opened:
            await scene.run(opened, "echo x > src/a.py; sleep 30")

    task = asyncio.create_task(checked())
    while not scene.journals() or (scene.workspace / "src/a.py").read_text() != "x\n":
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert scene.look() == scene.before
    assert not scene.journals()


@pytest.mark.parametrize("moment", [0.0, 0.02, 0.05, 0.08, 0.12, 0.16, 0.2])
async def test_cancelled_twice_at_any_moment_it_is_undone(
    scene: Scene, moment: float
) -> None:
    async def checked() -> None:
        async with scene.opened(*layers(scene.workspace)):
            (scene.workspace / "src/a.py").write_text("x\n")

    task = asyncio.create_task(checked())
    await asyncio.sleep(moment)
    task.cancel()
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert scene.look() == scene.before
    assert not scene.journals()


async def test_an_error_in_the_check_goes_on_after_the_undo(scene: Scene) -> None:
    with pytest.raises(ZeroDivisionError):
        async with scene.opened(*layers(scene.workspace)):
            raise ZeroDivisionError

    assert scene.look() == scene.before


class Crash(BaseException):
    """Stands for the end of the process."""


CALLS = (
    "rename",
    "replace",
    "mkdir",
    "rmdir",
    "unlink",
    "chmod",
    "symlink",
    "utime",
    "makedirs",
    "fchmod",
    "mkfifo",
)


def crash_at(patch: pytest.MonkeyPatch, number: int) -> Callable[[], bool]:
    """From the n-th change of the file system on, every one fails before it is made; gives whether it came to that."""
    count = 0

    def failing(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count > number:
                raise Crash
            return function(*given, **named)

        return call

    for name in CALLS:
        patch.setattr(os, name, failing(getattr(os, name)))
    return lambda: count > number


async def interrupted(scene: Scene, number: int, *, in_undo: bool) -> bool:
    """Whether set-up, or the undo, came to its n-th change, at which it ends as a killed process does."""
    check = InPlaceCheck(scene.checks, layers(scene.workspace))
    with pytest.MonkeyPatch.context() as patch:
        crashed = crash_at(patch, number if not in_undo else 1_000_000)
        try:
            await check.set_up()
            if in_undo:
                write(scene.workspace, {"src/a.py": "x\n", "result.out": "new\n"})
                shutil.rmtree(scene.workspace / "planted")
                (scene.workspace / "planted").write_text("file\n")
                (scene.workspace / "src/staged.py").chmod(0o600)
                (scene.workspace / "src/deep/b.py").chmod(0o640)
                (scene.workspace / "tests/nested/n.py").unlink()
                patch.undo()
                crashed = crash_at(patch, number)
                await check.undo()
        except Crash:
            pass
    if check.journal and check._handle >= 0:
        with contextlib.suppress(OSError):
            check.release()
    scene.store.close()
    return crashed()


@pytest.mark.parametrize("in_undo", [False, True])
async def test_interrupted_at_any_change_the_next_command_undoes_it(
    scene: Scene, in_undo: bool
) -> None:
    number = 0
    output = scene.workspace / "result.out"
    output.write_text("old\n")
    scene.checks = scene.environment("*.out")
    scene.before = scene.look()
    while await interrupted(scene, number, in_undo=in_undo):
        lines = await asyncio.to_thread(undo_checks, scene.workspace, scene.home)
        assert output.read_text() == ("new\n" if in_undo else "old\n"), number
        output.write_text("old\n")
        assert scene.look() == scene.before, number
        assert not any("not undone" in line for line in lines), number
        assert not scene.journals()
        number += 7

    assert number > 14
    await asyncio.to_thread(undo_checks, scene.workspace, scene.home)
    output.write_text("old\n")
    assert scene.look() == scene.before


async def test_the_watchdog_and_the_journal_come_before_the_first_change(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def look(given: Sequence[Any]) -> None:
        seen.append(scene.look() == scene.before)
        seen.append(len(scene.journals()))
        seen.append(len(_processes(str(scene.home.resolve() / "checks"))))
        set_aside(given)

    set_aside = in_place._set_aside
    monkeypatch.setattr(in_place, "_set_aside", look)
    async with scene.opened(*layers(scene.workspace)):
        pass

    assert seen == [True, 1, 1]
    assert _processes(str(scene.home.resolve() / "checks")) == []


def _processes(text: str) -> list[str]:
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "command="],
        capture_output=True,
        text=True,
        check=True,
    )
    return [
        line
        for line in listed.stdout.splitlines()
        if text in line and "goal-watchdog" in line
    ]


async def left_open(scene: Scene) -> None:
    """A check whose runner and watchdog are gone."""
    check = InPlaceCheck(scene.environment(), layers(scene.workspace))
    await check.set_up()
    check.release()
    scene.store.close()


async def test_git_of_the_dead_runner_is_ended_before_the_undo(scene: Scene) -> None:
    await left_open(scene)
    argument = f"--git-dir={scene.store.folder}"
    late = subprocess.Popen(
        ["/bin/sh", "-c", "sleep 2; echo late > src/a.py", argument],
        cwd=scene.workspace,
    )
    assert pending(scene.home) == (scene.workspace,)
    await asyncio.to_thread(undo_checks, scene.workspace, scene.home)

    assert late.wait(5) == -9
    assert scene.look() == scene.before
    assert pending(scene.home) == ()


async def test_what_a_person_does_after_an_undo_that_left_something_stays(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next command tries again only what is left."""
    await left_open(scene)
    (folder,) = (journal.parent for journal in scene.journals())

    async def failing(*_: object) -> None:
        raise WorkspaceError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(SnapshotStore, "restore", failing)
        write(scene.workspace, {"src/a.py": "by the check\n"})
        (line,) = await asyncio.to_thread(undo_checks, scene.workspace, scene.home)
        assert "is not undone: no space left" in line
        write(scene.workspace, {"tests/test_a.py": "new\n"})
        git(scene.workspace, "commit", "-q", "--allow-empty", "-m", "by a person")
        work = status(scene.workspace)
        assert (
            len(await asyncio.to_thread(undo_checks, scene.workspace, scene.home)) == 1
        )
        assert status(scene.workspace) == work
    lines = await asyncio.to_thread(undo_checks, scene.workspace, scene.home)
    assert lines[0] == f"An interrupted check in {scene.workspace} was undone."
    assert (scene.workspace / "src/a.py").read_text() == "a\n"
    assert git(scene.workspace, "log", "-1", "--format=%s") == "by a person\n"
    assert not folder.exists()


async def test_replay_of_another_workspace_does_nothing(
    scene: Scene, tmp_path: Path
) -> None:
    await left_open(scene)
    changed = scene.look()

    assert undo_checks(tmp_path, scene.home) == ()
    assert scene.look() == changed != scene.before
    await asyncio.to_thread(undo_checks, scene.workspace, scene.home)


async def test_a_check_in_a_copy_is_undone_and_refused_in_that_copy_alone(
    scene: Scene, tmp_path: Path
) -> None:
    of_workspace = scene.store
    scene.store = SnapshotStore(
        scene.workspace, scene.home, start=scene.start, folder=tmp_path / "store"
    )
    await left_open(scene)
    changed = scene.look()
    assert undo_checks(scene.workspace, scene.home) == ()
    assert scene.look() == changed != scene.before
    checks = InPlace(of_workspace, scene.home, start=scene.start)
    async with checks.open(()):
        pass
    of_workspace.close()
    lines = await asyncio.to_thread(
        undo_checks, scene.workspace, scene.home, store=tmp_path / "store"
    )
    assert lines == (f"An interrupted check in {scene.workspace} was undone.",)
    assert scene.look() == scene.before


async def test_a_removed_folder_of_the_journal_loses_only_what_was_in_it(
    scene: Scene,
) -> None:
    with pytest.raises(EnvironmentFailed) as raised:
        async with scene.opened(*layers(scene.workspace)) as opened:
            await scene.run(
                opened,
                f"rm -rf {scene.home}/checks; git commit -qm x --allow-empty; echo x > src/a.py",
            )

    found = scene.look()[0]
    assert isinstance(found, dict)
    before = scene.before[0]
    assert isinstance(before, dict)
    # Ignored content is in no snapshot. Everything else is there.
    differing = {
        path
        for path in before
        if found.get(path) != before[path] and not path.startswith(".git/")
    }
    assert differing == {"build", "build/out.bin"}
    assert f"{scene.workspace}/build: the check removed" in raised.value.message
    assert scene.journals() == []
    async with scene.opened():
        pass  # the next check is not refused


async def test_a_mount_point_is_refused_and_the_rest_undone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def busy(source: str, target: str) -> None:
        if source.endswith("/planted"):
            raise OSError(errno.EBUSY, "Device or resource busy", source)
        rename(source, target)

    monkeypatch.setattr(os, "rename", busy)
    with pytest.raises(
        EnvironmentFailed,
        match=r"planted cannot be set aside for the check: it is a mount point",
    ):
        async with scene.opened(*layers(scene.workspace)):
            raise AssertionError
    assert scene.look() == scene.before
    assert not scene.journals()


@pytest.mark.parametrize("path", ["../x", "/x", "", "a//b", "a/./b"])
async def test_a_path_outside_of_the_layer_is_refused(scene: Scene, path: str) -> None:
    with pytest.raises(EnvironmentFailed, match="is not a path below"):
        async with scene.opened(Layer(scene.workspace, hide=frozenset({path}))):
            raise AssertionError
    assert scene.look() == scene.before
    assert list(checks_folder(scene.home).iterdir()) == []


@pytest.mark.parametrize("repository", [True, False])
async def test_home_on_another_disk_is_not_needed(
    tmp_path: Path, repository: bool
) -> None:
    """Live files wait in a hidden folder of the workspace."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    workspace = make_workspace(tmp_path / "ws")
    if not repository:
        shutil.rmtree(workspace / ".git")
    with tempfile.TemporaryDirectory(dir=memory) as home:
        scene = Scene(workspace, Path(home))
        async with scene.opened(*layers(workspace)) as opened:
            await scene.run(
                opened, "echo x > src/a.py; rm -rf src/deep; echo o > out.txt"
            )
            assert len(list(workspace.glob(".goal-checks-*"))) == 1
        scene.close()
        assert (workspace / "out.txt").read_text() == "o\n"
        (workspace / "out.txt").unlink()
        assert scene.look() == scene.before


async def test_home_in_another_subvolume_is_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between subvolumes of one mount, the rename of a file that does not exist fails because it does not exist."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    rename = os.rename

    def looking_first(source: str, target: str) -> None:
        os.lstat(source)
        rename(source, target)

    monkeypatch.setattr(os, "rename", looking_first)
    with tempfile.TemporaryDirectory(dir=memory) as home:
        scene = Scene(make_workspace(tmp_path / "ws"), Path(home))
        async with scene.opened(*layers(scene.workspace)):
            assert len(list(scene.workspace.glob(".goal-checks-*"))) == 1
        scene.close()
        assert scene.look() == scene.before


async def test_git_folders_are_never_changed(scene: Scene) -> None:
    git_folder = scene.workspace / ".git"
    write(
        git_folder,
        {
            "hooks/post-checkout": "#!/bin/sh\ntouch hooked\n",
            "hooks/pre-commit": "#!/bin/sh\nexit 1\n",
        },
    )
    for hook in git_folder.glob("hooks/*"):
        hook.chmod(0o755)
    scene.before = scene.look()
    layer = Layer(
        scene.workspace,
        {".git/hooks/old": File(TEXT, b"original\n")},
        frozenset({".git/hooks/pre-commit"}),
    )
    async with scene.opened(layer) as opened:
        assert scene.look() == scene.before
        await scene.run(
            opened,
            "git checkout -q HEAD -- plain.txt; git commit -q --allow-empty -m 'by the validator'",
        )
    assert git(scene.workspace, "log", "-1", "--format=%s") == "by the validator\n"
    assert not (scene.workspace / "hooked").exists()


async def test_hooks_of_the_start_run(scene: Scene) -> None:
    hook = scene.workspace / ".git/hooks/post-commit"
    write(hook.parent, {"post-commit": "#!/bin/sh\ntouch hooked\n"})
    hook.chmod(0o755)
    async with scene.opened(*layers(scene.workspace)) as opened:
        await scene.run(opened, "git commit -q --allow-empty -m x")
    assert (scene.workspace / "hooked").exists()


async def test_new_files_stay_and_are_named(scene: Scene) -> None:
    async with scene.opened(*layers(scene.workspace)) as opened:
        script = "echo c > coverage.xml; mkdir snaps; echo s > snaps/a.snap; echo x > src/a.py; echo l > new.log"
        await scene.run(opened, script)
        assert await opened.changed() == ("src/a.py",)
    assert scene.checks.made.names == ("coverage.xml", "new.log", "snaps/a.snap")
    assert (scene.workspace / "coverage.xml").read_text() == "c\n"
    assert (scene.workspace / "src/a.py").read_text() == "a\n"


async def made_by(scene: Scene, script: str) -> tuple[str, ...]:
    """Run a script in a check; return the files that checks made up to now."""
    async with scene.opened(*layers(scene.workspace)) as opened:
        await scene.run(opened, script)
    return scene.checks.made.names


async def test_new_files_are_no_change_and_do_not_exist_in_the_next_check(
    scene: Scene,
) -> None:
    base = await scene.store.snapshot()
    names = ("cover[age].xml", "new.log", "snaps/deep/a.snap")
    script = "test ! -e snaps; test ! -e 'cover[age].xml'; test ! -e new.log; mkdir -p snaps/deep; echo s > snaps/deep/a.snap;"
    for text in ("1", "2", "2"):
        assert (
            await made_by(
                scene,
                f"set -e; {script} echo {text} > new.log; echo {text} > 'cover[age].xml'",
            )
            == names
        )
        for path in ("new.log", "cover[age].xml"):
            assert (scene.workspace / path).read_text() == f"{text}\n"
        now = await scene.store.snapshot()
        assert await scene.store.changes(base, now) == ()
        assert await scene.store.changed_entries(base, now) == {}
        assert (await scene.store.diff_stat(base, now)).files == 0
        assert await scene.store.patches([(base, now)]) == [""]
    await made_by(scene, "true")
    assert (scene.workspace / "snaps/deep/a.snap").exists(), (
        "what a check does not make again stays"
    )


async def test_files_of_checks_are_the_agents_once_it_changes_them(
    scene: Scene,
) -> None:
    base = await scene.store.snapshot()
    await made_by(
        scene,
        "echo 1 > report.xml; echo 1 > new.log; mkdir snaps; echo s > snaps/a; echo s > snaps/b",
    )
    write(
        scene.workspace,
        {"report.xml": "agent\n", "new.log": "agent\n", "snaps/a": "agent\n"},
    )
    assert [
        item.path
        for item in await scene.store.changes(base, await scene.store.snapshot())
    ] == [
        "report.xml",
        "snaps/a",
    ]
    seen = "cat report.xml new.log snaps/a; test ! -e snaps/b; echo 2 > report.xml"
    async with scene.opened(*layers(scene.workspace)) as opened:
        assert await scene.run(opened, seen) == "agent\nagent\nagent\n"
        assert await opened.changed() == ("report.xml",)
    assert (scene.workspace / "report.xml").read_text() == "agent\n"


async def test_a_later_process_knows_the_files_of_checks(scene: Scene) -> None:
    base = await scene.store.snapshot()
    await made_by(scene, "echo 1 > report.xml; echo 1 > new.log")
    scene.store.left_by_checks = {}
    scene.checks = scene.environment()
    assert await scene.store.changes(base, await scene.store.snapshot()) == ()
    await made_by(scene, "test ! -e report.xml && test ! -e new.log")


async def test_a_commit_of_a_validator_is_no_change(scene: Scene) -> None:
    before = await scene.store.snapshot()
    await made_by(scene, "git commit -q --allow-empty -m x")
    after = await scene.store.snapshot()
    assert before.id != after.id
    assert await scene.store.changes(before, after) == ()
    git(scene.workspace, "commit", "-q", "--allow-empty", "-m", "by the agent")
    assert [
        item.path
        for item in await scene.store.changes(after, await scene.store.snapshot())
    ] == [".git"]


async def test_modes_of_files_that_keep_their_content(scene: Scene) -> None:
    write(scene.workspace, {"tool": "#!/bin/sh\n", "data/own.log": "ignored\n"})
    (scene.workspace / "tool").chmod(0o755)
    scene.before = scene.look()
    environment = scene.environment()
    async with environment.open(()) as opened:
        await scene.run(
            opened,
            "chmod 600 src/a.py; chmod 700 tool; chmod 644 secret; chmod 600 data/own.log",
        )

    assert (scene.workspace / "data/own.log").stat().st_mode & 0o777 == 0o600
    (scene.workspace / "data/own.log").chmod(0o644)
    assert scene.look() == scene.before


@pytest.mark.parametrize(
    "script", ["rm -rf src; echo f > src", "rm -rf src; ln -s /etc src"]
)
async def test_a_file_in_place_of_a_folder_and_the_other_way_round(
    scene: Scene, script: str
) -> None:
    script += "; rm plain.txt; mkdir plain.txt; echo i > plain.txt/in"
    async with scene.opened(*layers(scene.workspace)) as opened:
        await scene.run(opened, script)

    # Files that were reset have a new modification time, so that build tools see them.
    assert picture(scene.workspace) == scene.before[0]
    assert status(scene.workspace) == scene.before[2]


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="another user is needed"
)
def test_folders_without_permissions_do_not_prevent_the_undo() -> None:
    """Run by a user whom permissions hold for."""
    script = (
        "mkdir build; echo x > src/a.py; chmod 000 src; mkdir new; echo n > new/n; chmod 000 new; rmdir hollow;"
        "chmod 555 tests .; chmod 000 planted build"
    )
    with ordinary() as python, tempfile.TemporaryDirectory() as name:
        root = Path(name)
        workspace, home = make_workspace(root / "ws"), root / "home"
        home.mkdir()
        before = picture(workspace), status(workspace)
        (root / "script.py").write_text(
            "import asyncio, sys\nfrom pathlib import Path\nfrom tests.support.in_place import check\n"
            "sys.exit(asyncio.run(check(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Path(sys.argv[2], 'out'))))\n"
        )
        subprocess.run(["chown", "-R", str(ORDINARY), root], check=True)
        done = subprocess.run(
            [*AS_ORDINARY, python, root / "script.py", workspace, home, script],
            cwd="/",
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": f"{PROJECT}:{path_here()}",
                "HOME": str(home),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        subprocess.run(["chown", "-R", "0", root], check=True)
        assert (picture(workspace), status(workspace)) == before


async def test_a_full_disk_is_named(
    plain: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with plain.opened() as opened:
        assert opened.full() == ""
        real = shutil.disk_usage(plain.workspace)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: real._replace(free=0))
        assert opened.full() == f"no space left in {plain.workspace}"
        monkeypatch.undo()


async def test_home_may_lie_in_the_workspace(tmp_path: Path) -> None:
    write(tmp_path / "ws", {"a.py": "a\n"})
    (tmp_path / "ws/home").mkdir()
    scene = Scene(tmp_path / "ws", tmp_path / "ws/home")
    layer = Layer(scene.workspace, {"a.py": File(TEXT, b"put")})
    async with scene.opened(layer) as opened:
        await scene.run(
            opened, "echo x > a.py; echo o > o.txt; mkdir home/of-another; echo n > new"
        )
    scene.close()

    assert {path.name for path in scene.workspace.iterdir()} == {
        "a.py",
        "o.txt",
        "new",
        "home",
    }
    assert (scene.workspace / "a.py").read_text() == "a\n"
    assert (scene.home / "of-another").is_dir()


def test_it_is_a_check_environment(scene: Scene) -> None:
    made: CheckEnvironment = scene.environment()
    assert made.kind == "in-place"


async def test_names_that_are_no_text_are_put_back(plain: Scene) -> None:
    name = os.fsdecode(b"caf\xe9 \\ \n")
    (plain.workspace / name).write_text("live")
    plain.before = plain.look()
    layer = Layer(plain.workspace, {name: File(TEXT, b"put")}, frozenset({"out"}))
    async with plain.opened(layer):
        assert (plain.workspace / name).read_text() == "put"
        new = plain.workspace / os.fsdecode(b"new\xe9")
        new.write_text("x")

    new.unlink()
    assert plain.look() == plain.before
