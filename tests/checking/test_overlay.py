"""Overlays with real mounts and real processes, as the user who runs the tests and, if that is root, as another one too."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from goalrunner.checking import overlay
from goalrunner.checking.environment import File, Layer
from goalrunner.checking.namespace import Namespace
from goalrunner.checking.overlay import OpenOverlay, Overlay, probe, scratch_candidates
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.core.ports import Completion
from goalrunner.system import processes
from goalrunner.system.bubblewrap import choose
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.system.sandbox import SandboxedLauncher, SandboxPolicy, WritableRoot
from goalrunner.system.sandbox_environment import sandbox_environment
from goalrunner.system.sandbox_view import Confinement

ROOT = os.geteuid() == 0
ORDINARY = 65534
AS_ORDINARY = [
    "setpriv",
    "--reuid",
    str(ORDINARY),
    "--regid",
    str(ORDINARY),
    "--clear-groups",
    "--inh-caps=-all",
]
PROJECT = Path(__file__).parents[2]
NAP = f"4711{os.getpid():07}"
"""Seconds for which a process sleeps that must be ended: known from those of tests that run at the same time."""
as_root = pytest.mark.skipif(
    not ROOT,
    reason="only root can mount outside of a user namespace, and become another user",
)


def plain(text: str, mode: int = 0o644) -> File:
    return File(stat.S_IFREG | mode, text.encode())


def link(target: str) -> File:
    return File(stat.S_IFLNK | 0o777, target.encode())


@dataclass
class Place:
    """A workspace with a few live files, and a folder for the upper layers."""

    folder: Path
    workspace: Path
    scratch: Path
    output: Path

    @classmethod
    def new(cls, folder: Path, name: str = "ws") -> Place:
        place = cls(folder, folder / name, folder / "scratch", folder / "output")
        (place.workspace / "src").mkdir(parents=True)
        (place.workspace / "tests").mkdir()
        (place.workspace / "src/code.py").write_text("live\n")
        (place.workspace / "tests/test_code.py").write_text("live\n")
        return place

    @asynccontextmanager
    async def open(
        self,
        put: Mapping[str, File] | None = None,
        hide: set[str] | None = None,
        *more: Layer,
    ) -> AsyncIterator[Checks]:
        layer = Layer(self.workspace, put or {}, frozenset(hide or ()))
        async with Overlay(self.scratch, os.environ).open([layer, *more]) as opened:
            yield Checks(self, opened)

    def live(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.workspace)): path.read_text()
            for path in sorted(self.workspace.rglob("*"))
            if path.is_file()
        }


@dataclass
class Checks:
    """Runs commands in an open environment."""

    place: Place
    opened: OpenOverlay

    async def launch(
        self,
        argv: list[str],
        *,
        cwd: Path | None = None,
        timeout: float | None = 20,
        stdin: bytes | None = None,
        env: dict[str, str] | None = None,
        errors: Path | None = None,
    ) -> Completion:
        return await self.opened.launcher(ProcessLauncher()).launch(
            argv,
            cwd=cwd or self.place.workspace,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.place.folder),
                **(env or {}),
            },
            output=self.place.output,
            timeout=timeout,
            stdin=stdin,
            errors=errors,
        )

    async def __call__(self, line: str) -> str:
        """Return what a command line prints; it must exit with 0."""
        done = await self.launch(["/bin/sh", "-c", line])
        said = self.place.output.read_text()
        assert (done.exit_code, done.error) == (0, ""), said
        return said


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.new(tmp_path)


def living(marker: str) -> list[int]:
    """The processes with these words in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and marker.encode() in (
                entry / "cmdline"
            ).read_bytes().replace(b"\0", b" "):
                found.append(int(entry.name))
    return found


def eventually_gone(marker: str) -> bool:
    return within_seconds(lambda: not living(marker))


def within_seconds(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def reaped() -> bool:
    """Reap the processes that this one adopted, as init does elsewhere; the kernel waits for that."""
    for pid in processes.children(os.getpid()):
        if (one := processes.entry(pid)) is not None and not one.living:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
    return True


# What a check sees.


async def test_files_of_put_replace_the_live_ones(place: Place) -> None:
    put = {
        "tests/test_code.py": plain("original\n"),
        "new/deep/run.sh": plain("#!/bin/sh\necho ran\n", 0o755),
    }
    async with place.open(put) as checks:
        assert (
            await checks("cat tests/test_code.py src/code.py; ./new/deep/run.sh")
            == "original\nlive\nran\n"
        )
    assert place.live() == {"src/code.py": "live\n", "tests/test_code.py": "live\n"}


async def test_hidden_paths_do_not_exist(place: Place) -> None:
    (place.workspace / "planted").mkdir()
    (place.workspace / "planted/a").write_text("a\n")
    async with place.open(
        hide={"planted", "tests/test_code.py", "not/there"}
    ) as checks:
        assert (
            await checks(
                "find . -type f; ls tests; cat planted/a 2>/dev/null || echo gone"
            )
            == "./src/code.py\ngone\n"
        )
        assert await checks("ls -A; mkdir planted && ls -A planted") == "src\ntests\n"
    assert (place.workspace / "planted/a").exists()


async def test_a_path_of_put_below_a_hidden_folder_stands_there_alone(
    place: Place,
) -> None:
    for path in ("lib/a/one", "lib/a/two", "lib/b/three"):
        (place.workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (place.workspace / path).write_text("live\n")
    async with place.open(
        {"lib/a/one": plain("original\n"), "lib/c/new": plain("new\n")},
        {"lib", "lib/b"},
    ) as checks:
        assert (
            await checks("find lib | sort; cat lib/a/one")
            == "lib\nlib/a\nlib/a/one\nlib/c\nlib/c/new\noriginal\n"
        )


async def test_a_parent_that_is_a_link_or_a_file_becomes_a_folder(place: Place) -> None:
    outside = place.folder / "outside"
    outside.mkdir()
    (place.workspace / "linked").symlink_to(outside)
    (place.workspace / "file").write_text("live\n")
    put = {"linked/conftest.py": plain("original\n"), "file/x/y": plain("deep\n")}
    async with place.open(put) as checks:
        assert await checks(
            "test ! -L linked && cat linked/conftest.py file/x/y && ls -A linked"
        ) == ("original\ndeep\nconftest.py\n")
    assert not list(outside.iterdir())
    assert (place.workspace / "linked").is_symlink()


async def test_links_are_put_as_links_and_files_replace_live_links_and_folders(
    place: Place,
) -> None:
    (place.workspace / "dir").mkdir()
    (place.workspace / "dir/inner").write_text("live\n")
    (place.workspace / "link").symlink_to("src/code.py")
    put = {
        "link": plain("original\n"),
        "dir": plain("a file\n"),
        "tests/test_code.py": link("../src/code.py"),
    }
    async with place.open(put) as checks:
        assert await checks(
            "test ! -L link && cat link dir; readlink tests/test_code.py; cat tests/test_code.py"
        ) == ("original\na file\n../src/code.py\nlive\n")


async def test_modes_are_kept_and_times_are_fresh_while_folders_keep_theirs(
    place: Place,
) -> None:
    old = (1_000_000_000, 1_000_000_000)
    (place.workspace / "tests").chmod(0o750)
    for path in (
        place.workspace / "tests/test_code.py",
        place.workspace / "tests",
        place.workspace,
    ):
        os.utime(path, old)
    before = int(time.time()) - 1
    async with place.open(
        {"tests/test_code.py": plain("original\n", 0o640)}, {"src/code.py"}
    ) as checks:
        said = await checks("stat -c '%a %Y' tests/test_code.py tests .")
        (mode, written), folder, root = (line.split() for line in said.splitlines())
    assert (mode, int(written) >= before) == ("640", True)
    assert folder == ["750", "1000000000"]
    assert root == [f"{stat.S_IMODE(place.workspace.stat().st_mode):o}", "1000000000"]


async def test_a_stale_pyc_does_not_serve_a_file_that_was_put(place: Place) -> None:
    source = place.workspace / "src/code.py"
    source.write_text("print('agent')  #\n")
    os.utime(source, (1_000_000_000, 1_000_000_000))
    subprocess.run([sys.executable, "-m", "compileall", "-q", source], check=True)
    async with place.open({"src/code.py": plain("print('origin')  \n")}) as checks:
        line = "import sys; sys.path.insert(0, 'src'); import code"
        assert await checks(f'{sys.executable} -S -c "{line}"') == "origin\n"


async def test_writes_and_deletions_do_not_reach_the_live_tree(place: Place) -> None:
    before = place.live()
    async with place.open(
        {"tests/test_code.py": plain("original\n")}, {"nothing"}
    ) as checks:
        await checks(
            "echo x > new; echo x >> src/code.py; rm -r tests; mkdir -p a/b; ln -s / root; mv src moved || true"
        )
        assert "new" in await checks("ls")
        assert set(checks.opened.uppers[0].written()) >= {"new"}
        assert "tests/test_code.py" not in checks.opened.uppers[0].written()
    assert place.live() == before
    async with place.open() as checks:
        assert await checks("ls") == "src\ntests\n"


async def test_written_names_what_checks_wrote_and_not_what_was_put(
    place: Place,
) -> None:
    async with place.open({"a": plain("a\n"), "b": plain("b\n")}) as checks:
        assert checks.opened.uppers[0].written() == []
        await checks(
            "echo more >> b; mkdir -p out; echo x > out/report.xml; mkfifo out/pipe; ln -s a out/link"
        )
        assert sorted(checks.opened.uppers[0].written()) == ["b", "out/report.xml"]


async def test_commands_run_as_the_same_user_in_the_right_folder(place: Place) -> None:
    async with place.open() as checks:
        assert await checks("id -u; id -g") == f"{os.geteuid()}\n{os.getegid()}\n"
        done = await checks.launch(
            ["pwd"], cwd=place.workspace / "src", env={"PWD": "/wrong"}
        )
        assert (done.exit_code, place.output.read_text()) == (
            0,
            f"{place.workspace}/src\n",
        )
        await checks.launch(
            ["env"], cwd=place.workspace / "src", env={"PWD": "/wrong", "odd.name": "1"}
        )
        said = place.output.read_text().splitlines()
        assert {f"PWD={place.workspace}/src", "odd.name=1"} < set(said)
        assert not any(line.startswith("OLDPWD=") for line in said)


async def test_a_command_starts_in_a_folder_that_exists_in_the_environment_alone(
    place: Place,
) -> None:
    async with place.open({"only/here/x": plain("x\n")}) as checks:
        done = await checks.launch(
            ["/bin/sh", "-c", "pwd; cat x"],
            cwd=place.workspace / "only/here",
            env={"PWD": "/"},
        )
        assert (done.exit_code, place.output.read_text()) == (
            0,
            f"{place.workspace}/only/here\nx\n",
        )
        await checks.launch(
            ["env"], cwd=place.workspace / "only/here", env={"PWD": "/wrong"}
        )
        assert "PWD=" not in place.output.read_text()


async def test_an_absolute_link_as_the_working_folder_leads_into_the_environment(
    place: Place,
) -> None:
    (place.workspace / "here").symlink_to(place.workspace / "tests")
    (place.folder / "ws-link").symlink_to(place.workspace)
    async with place.open({"tests/test_code.py": plain("original\n")}) as checks:
        for folder in (
            place.workspace / "here",
            place.folder / "ws-link" / "src/../tests",
        ):
            await checks.launch(["cat", "test_code.py"], cwd=folder)
            assert place.output.read_text() == "original\n"


async def test_a_workspace_that_is_a_link_is_overlaid_where_it_leads(
    place: Place,
) -> None:
    entrance = place.folder / "entrance"
    entrance.symlink_to(place.workspace)
    layer = Layer(entrance, {"tests/test_code.py": plain("original\n")})
    async with Overlay(place.scratch, os.environ).open([layer]) as opened:
        assert opened.path == entrance
        checks = Checks(place, opened)
        assert (
            await checks(
                f"cat {entrance}/tests/test_code.py {place.workspace}/tests/test_code.py"
            )
            == "original\n" * 2
        )


def test_the_probe_finds_its_programs_on_path(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "defpath", "/nowhere")  # as on NixOS
    assert probe(place.workspace, place.scratch) == ""


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "a:b",
        "a,b",
        "a\\b",
        'it\'s "x"',
        "two\nlines",
        "ünï",
        "$HOME;`id`",
        "-o",
        "no-utf8-\udcff",
    ],
)
async def test_strange_paths(tmp_path: Path, name: str) -> None:
    place = Place.new(tmp_path, name)
    place.scratch = tmp_path / f"s {name}"
    assert probe(place.workspace, place.scratch) == ""
    put = {
        f"tests/{name}": plain("original\n"),
        "tests/test_code.py": plain("original\n"),
    }
    async with place.open(put, {"src/code.py"}) as checks:
        done = await checks.launch(["cat", f"tests/{name}", "tests/test_code.py"])
        assert (done.exit_code, place.output.read_text()) == (0, "original\n" * 2)
        await checks("ls src; echo x > new")
        assert await checks.opened.collect(["new"]) == ("new",)
    assert not list(place.scratch.iterdir())


async def test_git_status_and_commit_work_and_stay_inside(place: Place) -> None:
    git = "git -c user.name=A -c user.email=a@example.org"
    subprocess.run(
        f"git init -q && git add . && {git} commit -qm one",
        shell=True,
        cwd=place.workspace,
        check=True,
    )
    head = (place.workspace / ".git/HEAD").read_text()
    (place.workspace / "src/code.py").write_text("changed\n")
    async with place.open({"tests/test_code.py": plain("live\n")}) as checks:
        assert await checks("git status --porcelain") == " M src/code.py\n"
        assert (
            await checks(f"{git} commit -qam two && git log --format=%s")
            == "two\none\n"
        )
    log = subprocess.run(
        ["git", "log", "--format=%s"],
        cwd=place.workspace,
        check=True,
        capture_output=True,
        text=True,
    )
    assert (log.stdout, head) == ("one\n", (place.workspace / ".git/HEAD").read_text())


async def test_a_worktree_has_its_git_folder_overlaid_as_well(place: Place) -> None:
    git = "git -c user.name=A -c user.email=a@example.org"
    tree = place.folder / "tree"
    line = f"git init -q && git add . && {git} commit -qm one && git worktree add -q {tree} -b side"
    subprocess.run(
        line, shell=True, cwd=place.workspace, check=True, stdout=subprocess.DEVNULL
    )
    main, place.workspace = place.workspace, tree
    async with place.open(None, None, Layer(main / ".git")) as checks:
        (tree / "src/code.py").write_text("changed\n")
        assert (
            await checks(f"{git} commit -qam two && git log --format=%s")
            == "two\none\n"
        )
        assert all(
            not path.startswith(".git") for path in checks.opened.uppers[0].written()
        )
    log = subprocess.run(
        ["git", "log", "--format=%s", "side"],
        cwd=main,
        check=True,
        capture_output=True,
        text=True,
    )
    assert log.stdout == "one\n"
    assert probe(tree, place.scratch, [main / ".git"]) == ""


async def test_an_editable_install_serves_the_files_of_the_environment(
    place: Place,
) -> None:
    site = place.workspace / ".venv/site"
    site.mkdir(parents=True)
    (site / "editable.pth").write_text(f"{place.workspace}/src\n")
    (place.workspace / "src/mine.py").write_text("print('live')\n")
    async with place.open({"src/mine.py": plain("print('original')\n")}) as checks:
        line = f"import site; site.addsitedir({str(site)!r}); import mine"
        assert (
            await checks(f"{shlex.quote(sys.executable)} -c {shlex.quote(line)}")
            == "original\n"
        )


async def test_fifos_sockets_and_special_files_work(place: Place) -> None:
    os.mkfifo(place.workspace / "live-pipe")
    server = (
        "import os, socket; s = socket.socket(socket.AF_UNIX); s.bind('new'); s.listen(); os.rename('new', 'sock'); "
        "s.accept()[0].sendall(b'hello')"
    )
    client = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('sock'); print(s.recv(9).decode())"
    async with place.open() as checks:
        assert (
            await checks("echo through > live-pipe & cat live-pipe; wait")
            == "through\n"
        )
        wait = "while [ ! -S sock ]; do sleep 0.01; done"
        assert (
            await checks(
                f'{sys.executable} -c "{server}" & {wait}; {sys.executable} -c "{client}"; wait'
            )
            == "hello\n"
        )
    assert not (place.workspace / "sock").exists()


async def test_a_socket_of_the_live_workspace_does_not_break_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(place.workspace)
        server.bind("sock")
        async with place.open(hide={"sock"}) as checks:
            assert await checks("ls") == "src\ntests\n"


async def test_stdin_and_a_separate_file_for_errors(place: Place) -> None:
    async with place.open() as checks:
        errors = place.folder / "errors"
        done = await checks.launch(
            ["/bin/sh", "-c", "cat; echo wrong >&2"], stdin=b"given\n", errors=errors
        )
        assert (done.exit_code, place.output.read_text(), errors.read_text()) == (
            0,
            "given\n",
            "wrong\n",
        )


# How commands end.


async def test_exit_codes_signals_and_missing_programs_are_those_of_a_plain_launch(
    place: Place,
) -> None:
    (place.workspace / "no-interpreter").write_text("#!/no/such/thing\n")
    (place.workspace / "no-interpreter").chmod(0o755)
    (place.workspace / "plain").write_text("#!/bin/sh\n")
    env = {"PATH": "/usr/bin:/bin"}
    for argv in (
        ["/bin/sh", "-c", "exit 7"],
        ["/bin/sh", "-c", "exit 126"],
        ["/bin/sh", "-c", "echo mine >&2; exit 127"],
        ["/bin/sh", "-c", "kill -9 $$"],
        ["/bin/sh", "-c", "kill -TERM $$"],
        ["no-such-program"],
        ["./no-such-program"],
        ["/no/such/program"],
        ["./no-interpreter"],
        [f"{place.workspace}/no-interpreter"],
        ["./plain"],
        ["./src"],
        ["cat", "x\0y"],
    ):
        bare = await ProcessLauncher().launch(
            argv, cwd=place.workspace, env=env, output=place.folder / "bare"
        )
        async with place.open() as checks:
            done = await checks.launch(argv, env=env)
        said = (place.output.read_text(), (place.folder / "bare").read_text())
        assert (done.exit_code, bool(done.error), said[0]) == (
            bare.exit_code,
            bool(bare.error),
            said[1],
        ), argv[:1]


async def test_a_missing_working_folder_is_named(place: Place) -> None:
    async with place.open(hide={"src"}) as checks:
        for folder in ("src", "none", "tests/test_code.py"):
            done = await checks.launch(["true"], cwd=place.workspace / folder)
            assert done.exit_code == 126
            assert done.error.startswith(
                f"cannot change directory to '{place.workspace / folder}': "
            )


async def test_a_program_that_exists_in_the_environment_alone_is_found(
    place: Place,
) -> None:
    (place.workspace / "bin").mkdir()
    (place.workspace / "bin/live").write_text("#!/bin/sh\necho live\n")
    (place.workspace / "bin/live").chmod(0o755)
    async with place.open(
        {"bin/tool": plain("#!/bin/sh\necho tool\n", 0o755)}, {"bin/live"}
    ) as checks:
        env = {"PATH": f"{place.workspace}/bin:/usr/bin:/bin"}
        assert (await checks.launch(["tool"], env=env)).exit_code == 0
        assert place.output.read_text() == "tool\n"
        assert (
            await checks.launch(["live"], env=env)
        ).error == "'live': No such file or directory"


async def test_a_command_past_its_deadline_is_ended_with_its_daemons(
    place: Place,
) -> None:
    async with place.open() as checks:
        line = f"setsid sleep {NAP} & env -i setsid sleep {NAP} & sleep {NAP}"
        done = await checks.launch(["/bin/sh", "-c", line], timeout=0.5)
        assert (done.timed_out, done.error) == (True, "timed out after 0.5 s")
        assert not living(f"sleep {NAP}")


async def test_what_a_command_leaves_behind_is_ended(place: Place) -> None:
    double = f"import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); os.execlp('sleep', 'sleep', '{NAP}')"
    (place.workspace / "double.py").write_text(double)
    async with place.open() as checks:
        line = f"setsid sleep {NAP} & env -i /usr/bin/setsid /bin/sleep {NAP} & {sys.executable} double.py; sleep 0.3"
        done = await checks.launch(["/bin/sh", "-c", f"{line}; exit 3"])
        assert done.exit_code == 3
        assert not living(f"sleep {NAP}")


@pytest.mark.slow
async def test_a_daemon_that_ignores_sigterm_is_ended_too(place: Place) -> None:
    async with place.open() as checks:
        line = f"trap '' TERM; setsid sleep {NAP} & sleep 0.2"
        assert (await checks.launch(["/bin/sh", "-c", line])).exit_code == 0
        assert not living(f"sleep {NAP}")


@pytest.mark.slow
async def test_commands_side_by_side_do_not_end_each_other(place: Place) -> None:
    async with place.open() as checks:
        launcher = checks.opened.launcher(ProcessLauncher())

        async def run(line: str, number: int) -> Completion:
            env = {"PATH": os.environ["PATH"]}
            output = place.folder / f"output-{number}"
            return await launcher.launch(
                ["/bin/sh", "-c", line], cwd=place.workspace, env=env, output=output
            )

        long = "(sleep 0.6; echo kept > kept) & wait"
        daemon = "(setsid sh -c 'sleep 0.6; echo kept > daemon' &) ; sleep 0.9"
        _, first, second = await asyncio.gather(
            run(f"setsid sleep {NAP} & sleep 0.2", 0), run(long, 1), run(daemon, 2)
        )
        assert not living(f"sleep {NAP}")
        assert (first.exit_code, second.exit_code) == (0, 0)
        assert await checks("cat kept daemon") == "kept\nkept\n"


async def test_zombies_are_reaped(place: Place) -> None:
    async with place.open() as checks:
        states = "cat /proc/[0-9]*/stat 2>/dev/null"
        line = (
            f"for i in 1 2 3 4; do (sleep 0.01 &) ; done; while {states} | grep -q '(sleep) [^Z]'; do :; done; "
            f"for try in $(seq 100); do {states} | cut -d')' -f2 | grep -q Z || exit 0; done; exit 1"
        )
        assert (await checks.launch(["/bin/sh", "-c", line])).exit_code == 0


async def test_a_check_cannot_end_the_environment(place: Place) -> None:
    async with place.open() as checks:
        await checks(
            "kill -TERM 1; kill -HUP 1; kill -9 1; pkill -9 -P 1 cat || true; sleep 0.05"
        )
        assert await checks("echo still") == "still\n"


async def test_an_environment_that_is_gone_gives_no_result(place: Place) -> None:
    async with place.open() as checks:
        first = checks.opened.namespace.first
        running = asyncio.ensure_future(checks.launch(["sleep", NAP]))
        while not living(f"sleep {NAP}"):
            await asyncio.sleep(0.01)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(EnvironmentFailed, match="ended while a check ran"):
            await running


# How an environment ends.


async def test_nothing_is_left_at_the_end(place: Place) -> None:
    async with place.open({"a/b": plain("x")}) as checks:
        await checks(
            "mkdir -p locked/in && touch locked/in/x && chmod 0 locked/in && chmod 500 locked; rm -r src"
        )
        first = checks.opened.namespace.first
    assert not Path(f"/proc/{first}").exists()
    assert not list(place.scratch.iterdir())
    assert str(place.workspace) not in Path("/proc/self/mountinfo").read_text()


RUNNER = """\
import asyncio, os, sys
from pathlib import Path
from goalrunner.checking.environment import Layer
from goalrunner.checking.overlay import Overlay
from goalrunner.system.launcher import ProcessLauncher

async def main(folder):
    async with Overlay(folder / "scratch", os.environ).open([Layer(folder / "ws")]) as opened:
        (folder / "first").write_text(str(opened.namespace.first))
        line = "setsid sleep NAP & env -i /usr/bin/setsid /bin/sleep NAP & echo started; sleep NAP"
        await opened.launcher(ProcessLauncher()).launch(
            ["/bin/sh", "-c", line], cwd=folder / "ws", env={"PATH": os.environ["PATH"]}, output=folder / "output")

asyncio.run(main(Path(sys.argv[1])))
"""


def test_a_runner_that_is_killed_leaves_no_process_and_the_next_one_clears_up(
    place: Place,
) -> None:
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER.replace("NAP", NAP), str(place.folder)],
        env=os.environ | {"PYTHONPATH": path_here()},
    )
    deadline = time.monotonic() + 60
    while (
        not (place.output.exists() and "started" in place.output.read_text())
        and time.monotonic() < deadline
    ):
        time.sleep(0.02)
    (left,) = place.scratch.iterdir()
    assert len(living(f"sleep {NAP}")) >= 3
    runner.kill()
    runner.wait()
    assert eventually_gone(f"sleep {NAP}")
    first = Path("/proc", (place.folder / "first").read_text())
    assert within_seconds(lambda: reaped() and not first.exists())
    os.utime(left, (0, 0))
    assert probe(place.workspace, place.scratch) == ""
    assert not list(place.scratch.iterdir())


def path_here() -> str:
    return os.pathsep.join(
        [
            str(PROJECT / "src"),
            *(path for path in sys.path if path.endswith("-packages")),
        ]
    )


async def test_the_folder_of_a_running_environment_is_never_stale(place: Place) -> None:
    async with place.open() as first:
        (folder,) = place.scratch.iterdir()
        os.utime(folder, (0, 0))
        async with place.open() as second:
            assert (
                await second("echo x > only-second; ls") == "only-second\nsrc\ntests\n"
            )
            assert await first("ls") == "src\ntests\n"
        assert folder.exists()


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.003, 0.006, 0.01, 0.02, 0.04])
async def test_cancellation_leaves_nothing(place: Place, delay: float) -> None:
    async def use() -> None:
        async with place.open({"a": plain("x")}) as checks:
            await checks(f"setsid sleep {NAP} & sleep {NAP}")

    task = asyncio.ensure_future(use())
    await asyncio.sleep(delay)
    task.cancel()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not living(f"sleep {NAP}")
    assert not living(str(place.scratch))
    assert not place.scratch.exists() or not list(place.scratch.iterdir())


async def test_a_cancelled_tear_down_is_carried_out(place: Place) -> None:
    opened = asyncio.Event()

    async def use() -> None:
        async with place.open():
            opened.set()
        await asyncio.sleep(10)

    task = asyncio.ensure_future(use())
    await opened.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not list(place.scratch.iterdir())


async def test_a_process_that_cannot_be_ended_is_reported_even_if_the_folder_cannot_be_removed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Namespace.close

    def never_ends(self: Namespace) -> None:
        close(self)
        raise EnvironmentFailed("a process of a check cannot be ended")

    def busy(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(Namespace, "close", never_ends)
    monkeypatch.setattr(overlay, "remove", busy)
    with pytest.raises(EnvironmentFailed, match="cannot be ended"):
        async with place.open():
            pass


# Files that are collected.


async def test_collect_copies_matching_files_and_no_others(place: Place) -> None:
    (place.workspace / "reports").mkdir()
    (place.workspace / "reports/old.xml").write_text("old\n")
    async with place.open({"reports/put.xml": plain("put\n")}) as checks:
        line = "echo new > reports/old.xml; mkdir -p reports/deep; echo x > reports/deep/x.xml; chmod 750 reports/deep/x.xml"
        await checks(
            f"{line}; echo y > other.txt; ln -s /etc/passwd reports/link.xml; mkfifo reports/pipe.xml; rm src/code.py"
        )
        assert sorted(
            await checks.opened.collect(["reports/*.xml", "deep/", "src/code.py"])
        ) == [
            "reports/deep/x.xml",
            "reports/old.xml",
        ]
    deep = place.workspace / "reports/deep/x.xml"
    assert sorted(path.name for path in deep.parents[1].iterdir()) == [
        "deep",
        "old.xml",
    ]
    assert (place.workspace / "reports/old.xml").read_text() == "new\n"
    assert (deep.read_text(), stat.S_IMODE(deep.stat().st_mode)) == ("x\n", 0o750)
    assert (place.workspace / "src/code.py").exists()


async def test_collect_follows_no_link_of_the_live_tree(place: Place) -> None:
    outside = place.folder / "outside"
    outside.mkdir()
    (outside / "target").write_text("outside\n")
    (place.workspace / "folder").symlink_to(outside)
    (place.workspace / "file").symlink_to(outside / "target")
    (place.workspace / "taken").mkdir()
    async with place.open(hide={"folder", "file", "taken"}) as checks:
        await checks("mkdir folder; echo x > folder/x; echo x > file; echo x > taken")
        assert await checks.opened.collect(["*"]) == ("file",)
    assert [path.name for path in outside.iterdir()] == ["target"]
    assert (outside / "target").read_text() == "outside\n"
    assert (place.workspace / "file").read_text() == "x\n"
    assert not (place.workspace / "file").is_symlink()
    assert not list(place.workspace.glob("**/.goal-*"))


# Where it does not work.


def test_probe_leaves_the_workspace_as_it_is(place: Place) -> None:
    before = place.live()
    times = [
        path.stat().st_mtime_ns
        for path in (place.workspace, place.workspace / "src/code.py")
    ]
    assert probe(place.workspace, place.scratch) == ""
    assert place.live() == before
    assert times == [
        path.stat().st_mtime_ns
        for path in (place.workspace, place.workspace / "src/code.py")
    ]
    assert not list(place.scratch.iterdir())
    assert (
        probe(place.folder / "none", place.scratch)
        == f"{place.folder / 'none'} cannot be read: No such file or directory"
    )


async def test_scratch_below_the_workspace_is_refused(place: Place) -> None:
    with pytest.raises(EnvironmentFailed, match="lies below"):
        async with Overlay(place.workspace / "scratch", os.environ).open(
            [Layer(place.workspace)]
        ):
            pass
    assert "lies below" in probe(place.workspace, place.workspace / "scratch")
    assert not (place.workspace / "scratch").exists()


async def test_scratch_that_others_can_write_is_refused(place: Place) -> None:
    place.scratch.mkdir()
    place.scratch.chmod(0o777)
    assert "can be written by other users" in probe(place.workspace, place.scratch)


def test_programs_are_never_taken_from_the_workspace(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("unshare", "nsenter", "mount", "umount", "cat"):
        (place.workspace / name).write_text(
            f"#!/bin/sh\ntouch {place.folder}/used\nexit 1\n"
        )
        (place.workspace / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place.workspace}:{os.environ['PATH']}")
    monkeypatch.chdir(place.workspace)
    with OpenedNow(place) as opened:
        assert opened.namespace.alive
    assert not (place.folder / "used").exists()


class OpenedNow:
    """An open environment outside of an event loop."""

    def __init__(self, place: Place) -> None:
        self._opened = OpenOverlay(place.scratch, os.environ, [Layer(place.workspace)])

    def __enter__(self) -> OpenOverlay:
        self._opened.set_up()
        return self._opened

    def __exit__(self, *_: object) -> None:
        self._opened.tear_down()


def test_missing_programs_are_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goalrunner.checking.namespace.SYSTEM_PATH", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    assert probe(place.workspace, place.scratch) == "unshare is not installed"


def test_scratch_candidates_leave_out_the_workspace(place: Place) -> None:
    home = place.folder / "home"
    found = list(scratch_candidates(home, place.workspace))
    assert found[0] == home / "checks"
    assert set(found[1:]) <= {
        Path(base, f"goal-checks-{os.geteuid()}")
        for base in ("/dev/shm", "/var/tmp", "/tmp")
    }
    assert home / "checks" not in list(scratch_candidates(home, place.folder))


def as_script(command: str, *arguments: str) -> str:
    """Run a command line in a mount namespace of its own, as root; return what it prints."""
    done = subprocess.run(
        ["unshare", "--mount", "/bin/sh", "-ec", command, "sh", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path_here(), "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


PROBE = (
    "import sys; from pathlib import Path; from goalrunner.checking.overlay import probe; "
    "print(probe(*map(Path, sys.argv[1:])))"
)


@as_root
@pytest.mark.slow
def test_two_overlays_are_the_limit_and_probe_says_so(place: Place) -> None:
    line = 'cd "$1"; for n in 1 2; do mkdir u$n w$n; mount -t overlay -o lowerdir=ws,upperdir=u$n,workdir=w$n x ws; done; '
    said = as_script(
        f'{line} {sys.executable} -c "{PROBE}" "$1/ws" "$1/scratch"', str(place.folder)
    )
    assert said.startswith("the overlay could not be mounted (")


@as_root
def test_a_workspace_on_one_overlay_works(place: Place) -> None:
    line = 'cd "$1"; mkdir u w; mount -t overlay -o lowerdir=ws,upperdir=u,workdir=w x ws; '
    assert (
        as_script(
            f'{line} {sys.executable} -c "{PROBE}" "$1/ws" "$1/scratch"',
            str(place.folder),
        )
        == ""
    )


@as_root
@pytest.mark.slow
def test_an_upper_layer_on_an_overlay_fails_in_words(place: Place) -> None:
    line = 'cd "$1"; mkdir u w scratch; mount -t overlay -o lowerdir=scratch,upperdir=u,workdir=w x scratch; chmod 700 scratch;'
    said = as_script(
        f'{line} {sys.executable} -c "{PROBE}" "$1/ws" "$1/scratch"', str(place.folder)
    )
    assert said.startswith("the overlay could not be mounted (")


@as_root
def test_a_mount_below_the_workspace_is_named(place: Place) -> None:
    line = 'mkdir "$1/ws/m"; mount -t tmpfs x "$1/ws/m";'
    said = as_script(
        f'{line} {sys.executable} -c "{PROBE}" "$1/ws" "$1/scratch"', str(place.folder)
    )
    assert (
        said
        == f"{place.workspace}/m is mounted below {place.workspace}, and an overlay does not show it"
    )


@pytest.mark.slow
@as_root
def test_a_masked_proc_is_named() -> None:
    with ordinary() as python, given() as place:
        user = shlex.join([*AS_ORDINARY, python])
        line = f'mount --bind /dev/null /proc/keys; {user} -c "{PROBE}" "$1/ws" "$1/scratch"'
        said = as_script(line, str(place.folder))
        assert said.startswith("namespaces are not permitted here (mount /proc failed")


@as_root
def test_no_user_namespaces_is_said_in_words() -> None:
    with ordinary() as python, given() as place:
        # No user namespace can be made below a changed root.
        (place.folder / "root").mkdir()
        user = shlex.join([*AS_ORDINARY, python])
        line = f'mount --rbind / "$1/root"; chroot "$1/root" {user} -c "{PROBE}" "$1/ws" "$1/scratch"'
        said = as_script(line, str(place.folder))
        assert said.startswith("namespaces are not permitted here (")


@as_root
async def test_no_space_is_said_in_words(place: Place) -> None:
    small = place.folder / "small"
    small.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "x", small], check=True
    )
    try:
        place.scratch = small / "scratch"
        async with place.open() as checks:
            assert checks.opened.full() == ""
            done = await checks.launch(
                ["dd", "if=/dev/zero", "of=big", "bs=1M", "count=8"]
            )
            assert done.exit_code == 1
            assert checks.opened.full() == f"no space left in {place.scratch}"
        with pytest.raises(
            EnvironmentFailed, match="No space left on device"
        ) as failed:
            async with place.open({"big": plain("x" * 8_000_000)}):
                pass
        assert "GOAL_HOME" in failed.value.hint
        assert not list(place.scratch.iterdir())
    finally:
        subprocess.run(["umount", small], check=True)


# Together with the sandbox.


@pytest.mark.parametrize("network", [True, False])
async def test_the_sandbox_works_inside(place: Place, network: bool) -> None:
    sandbox = choose(os.environ, (place.workspace,), network=network).sandbox
    if sandbox is None:
        pytest.skip("no bubblewrap here")
    async with place.open(
        {"tests/test_code.py": plain("original\n")}, {"src/code.py"}
    ) as checks:
        hidden = place.folder / "secret"
        hidden.mkdir()
        (hidden / "key").write_text("key\n")
        policy = SandboxPolicy(
            sandbox,
            (WritableRoot(place.workspace),),
            Confinement(hidden=(hidden,), network=network),
        )
        launcher = SandboxedLauncher(checks.opened.launcher(ProcessLauncher()), policy)
        line = f"cat tests/test_code.py; ls src {hidden}; echo x > new; (echo x > /usr/new) 2>/dev/null || echo kept; id -u;"
        done = await launcher.launch(
            ["/bin/sh", "-c", f"{line} setsid sleep {NAP} & sleep 0.2; exit 4"],
            cwd=place.workspace,
            env=sandbox_environment({"PATH": os.environ["PATH"]}),
            output=place.output,
        )
        assert (
            place.output.read_text()
            == f"original\n{hidden}:\n\nsrc:\nkept\n{os.geteuid()}\n"
        )
        assert (done.exit_code, done.error) == (4, "")
        assert checks.opened.uppers[0].written() == ["new"]
    assert not living(f"sleep {NAP}")
    assert not (place.workspace / "new").exists()


# As another user.


@contextlib.contextmanager
def given() -> Iterator[Place]:
    """A place that belongs to the ordinary user; the folders of pytest are closed to other users."""
    with tempfile.TemporaryDirectory(prefix="goal-ordinary-") as base:
        place = Place.new(Path(base))
        subprocess.run(["chown", "-R", f"{ORDINARY}:{ORDINARY}", base], check=True)
        yield place


@contextlib.contextmanager
def ordinary() -> Iterator[str]:
    """The path of a Python that the ordinary user can run with this project's packages; skips without one."""
    env = {"PYTHONPATH": path_here(), "PATH": "/usr/bin:/bin"}
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        # A shell starts it, as setpriv still opens it with the rights of root.
        argv = [
            *AS_ORDINARY,
            "/bin/sh",
            "-c",
            'exec "$@"',
            "sh",
            python,
            "-c",
            "import pytest, pathspec, goalrunner.checking.overlay",
        ]
        with contextlib.suppress(OSError):
            if (
                subprocess.run(argv, env=env, capture_output=True, cwd="/").returncode
                == 0
            ):
                yield python
                return
    pytest.skip("no Python here that an ordinary user can run")


@pytest.mark.slow
@as_root
def test_all_of_this_holds_for_an_ordinary_user() -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    with ordinary() as python, given() as place:
        base = place.folder
        done = subprocess.run(
            [
                *(
                    *AS_ORDINARY,
                    python,
                    "-m",
                    "pytest",
                    "-q",
                    "-n",
                    "0",
                    "-p",
                    "no:cacheprovider",
                ),
                *(
                    f"--basetemp={base}/t",
                    f"--rootdir={PROJECT}",
                    "-c",
                    f"{PROJECT}/pyproject.toml",
                    __file__,
                ),
            ],
            env={
                "PYTHONPATH": path_here(),
                "PATH": "/usr/bin:/bin",
                "HOME": str(base),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            cwd=PROJECT,
            timeout=110,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        assert " passed" in done.stdout
