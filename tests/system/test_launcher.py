"""Real processes: output, exit codes, deadlines, and no process left behind."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from goalrunner.core.errors import RecordError
from goalrunner.core.ports import Completion
from goalrunner.system import processes
from goalrunner.system.launcher import ProcessLauncher
from tests.support.clocks import deadlines

linux = pytest.mark.skipif(
    sys.platform != "linux", reason="the sweep of descendants is Linux's"
)


class Shell:
    """Runs command lines through `sh -c` in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder / "output"
        self.launcher = ProcessLauncher()
        self.env = {"PATH": os.environ["PATH"]}

    async def __call__(
        self, command: str, *, timeout: float | None = 20, stdin: bytes | None = None
    ) -> Completion:
        return await self.launch(["sh", "-c", command], timeout=timeout, stdin=stdin)

    async def launch(
        self, argv: list[str], *, timeout: float | None = 20, stdin: bytes | None = None
    ) -> Completion:
        return await self.launcher.launch(
            argv,
            cwd=self.folder,
            env=self.env,
            output=self.output,
            timeout=timeout,
            stdin=stdin,
        )


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


ASLEEP = 'until [ -s pid ] && [ "$(cat /proc/$(cat pid)/comm)" = sleep ]; do sleep 0.01; done'
"""Waits until the process whose id is in the file has become `sleep`: until then it has the name of its shell."""


def alive_and_no_zombie(pid: int) -> bool:
    process = processes.entry(pid)
    return process is not None and process.living


async def pid_in(path: Path) -> int:
    """The id that a command writes into a file, as soon as it is there."""
    async with asyncio.timeout(10):
        while not (path.exists() and path.read_text().endswith("\n")):
            await asyncio.sleep(0.01)
    return int(path.read_text())


async def test_both_streams_go_to_one_file_in_their_order(shell: Shell) -> None:
    done = await shell("echo one; echo two >&2; echo three; exit 3")

    assert shell.output.read_text() == "one\ntwo\nthree\n"
    assert (done.exit_code, done.timed_out, done.error, done.survivors) == (
        3,
        False,
        "",
        (),
    )
    assert done.output == shell.output
    assert stat.S_IMODE(shell.output.stat().st_mode) == 0o600


async def test_the_environment_is_the_given_one_and_a_mark(shell: Shell) -> None:
    shell.env = {"PATH": os.environ["PATH"], "GREETING": "hello"}

    await shell.launch([shutil.which("env") or "env"])

    names = {line.partition("=")[0] for line in shell.output.read_text().splitlines()}
    assert names == {"PATH", "GREETING", "GOALRUNNER_LAUNCH"}


async def test_the_folder_that_the_environment_names_is_the_one_that_is_worked_in(
    shell: Shell,
) -> None:
    shell.env["PWD"] = "/"
    await shell.launch([sys.executable, "-c", "import os; print(os.environ['PWD'])"])
    assert shell.output.read_text() == f"{shell.folder}\n"


async def test_a_launch_inside_a_launch_keeps_the_outer_mark(shell: Shell) -> None:
    shell.env["GOALRUNNER_LAUNCH"] = "outer"

    await shell("printenv GOALRUNNER_LAUNCH")

    outer, guard, own = shell.output.read_text().strip().split(":")
    assert (outer, guard) == ("outer", shell.launcher.watchdog.token)
    assert len(own) == 16


async def test_standard_input_is_given_whole(shell: Shell) -> None:
    await shell("wc -c", stdin=b"x" * 1_000_000)

    assert shell.output.read_text().strip() == "1000000"


async def test_without_input_a_command_reads_the_end_at_once(shell: Shell) -> None:
    done = await shell("cat; echo done")

    assert shell.output.read_text() == "done\n"
    assert done.exit_code == 0


async def test_without_input_standard_input_is_no_file_that_a_search_would_read(
    shell: Shell,
) -> None:
    done = await shell("test -c /dev/stdin")

    assert done.exit_code == 0


async def test_a_command_that_does_not_read_its_input_does_not_block(
    shell: Shell,
) -> None:
    done = await shell("exit 0", stdin=b"x" * 1_000_000)

    assert done.exit_code == 0


async def test_a_flood_on_standard_error_does_not_deadlock(shell: Shell) -> None:
    done = await shell("head -c 3000000 /dev/zero >&2")

    assert done.exit_code == 0
    assert shell.output.stat().st_size == 3_000_000


async def test_a_signal_gives_no_exit_code(shell: Shell) -> None:
    done = await shell("kill -SEGV $$")

    assert (done.exit_code, done.error) == (None, "killed by SIGSEGV")


@pytest.mark.parametrize(
    ("make", "code", "reason"),
    [
        (lambda folder: ["no-such-program"], 127, "no-such-program: not found"),
        (
            lambda folder: [str(folder / "plain")],
            126,
            "{folder}/plain: permission denied",
        ),
        (
            lambda folder: [str(folder / "orphaned")],
            127,
            "{folder}/orphaned: its interpreter is missing",
        ),
        (
            lambda folder: [str(folder.parent)],
            126,
            "{folder.parent}: permission denied",
        ),
        (lambda folder: ["true", "\0"], 126, "true: embedded null byte"),
        (lambda folder: ["true", "x" * 200_000], 126, "true: argument list too long"),
        (lambda folder: [], 127, "there is no command to run"),
    ],
)
async def test_what_cannot_be_started_says_why(
    shell: Shell, make: Callable[[Path], list[str]], code: int, reason: str
) -> None:
    (shell.folder / "plain").write_text("echo hello\n")
    (shell.folder / "orphaned").write_text("#!/no/such/interpreter\n")
    (shell.folder / "orphaned").chmod(0o755)

    done = await shell.launch(make(shell.folder))

    assert (done.exit_code, done.error) == (code, reason.format(folder=shell.folder))


async def test_a_missing_folder_says_so(shell: Shell) -> None:
    missing = shell.folder / "missing"

    done = await shell.launcher.launch(
        ["true"], cwd=missing, env=shell.env, output=shell.output
    )

    assert (done.exit_code, done.error) == (126, f"the folder {missing} does not exist")


async def test_an_output_that_cannot_be_written_is_an_error(shell: Shell) -> None:
    shell.output = shell.folder / "missing" / "output"

    with pytest.raises(
        RecordError, match=r"cannot write .*/missing/output: No such file or directory"
    ):
        await shell("true")


async def test_a_link_in_the_place_of_the_output_is_not_followed(shell: Shell) -> None:
    victim = shell.folder / "victim"
    victim.write_text("precious")
    shell.output.symlink_to(victim)

    with pytest.raises(RecordError, match="cannot write"):
        await shell("echo overwritten")

    assert victim.read_text() == "precious"


async def test_a_deadline_cuts_the_command(shell: Shell) -> None:
    for seconds in deadlines():
        done = await shell("echo begun; sleep 100; echo never", timeout=seconds)

        assert (done.exit_code, done.timed_out, done.error) == (
            None,
            True,
            f"timed out after {seconds:g} s",
        )
        assert done.survivors == ()
        assert done.duration < 50
        if shell.output.read_text():
            break
    assert shell.output.read_text() == "begun\n"


async def test_a_command_that_ignores_the_first_signal_is_killed(shell: Shell) -> None:
    for seconds in deadlines():
        done = await shell(
            "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done", timeout=seconds
        )

        assert done.timed_out
        if (shell.folder / "pid").exists():
            break
    assert not alive(await pid_in(shell.folder / "pid"))


async def test_a_command_that_exits_with_0_after_its_deadline_has_no_exit_code(
    shell: Shell,
) -> None:
    done = await shell("trap 'exit 0' TERM; while :; do sleep 0.05; done", timeout=0.2)

    assert (done.exit_code, done.timed_out) == (None, True)


async def test_a_runaway_output_is_cut(shell: Shell) -> None:
    shell.launcher = ProcessLauncher(output_limit=1_000_000)

    done = await shell("while :; do head -c 100000 /dev/zero; sleep 0.01; done")

    assert (done.exit_code, done.timed_out, done.error) == (
        None,
        False,
        "output limit of 1 MB",
    )
    assert shell.output.stat().st_size == 1_000_000


async def test_a_fast_flood_is_over_the_limit_too(shell: Shell) -> None:
    shell.launcher = ProcessLauncher(output_limit=1_000_000)

    done = await shell("head -c 1000001 /dev/zero")

    assert (done.exit_code, done.error) == (None, "output limit of 1 MB")
    assert shell.output.stat().st_size == 1_000_000


@linux
@pytest.mark.parametrize(
    "command",
    [
        pytest.param("sleep 1000 & echo $! > pid", id="background"),
        pytest.param("nohup sleep 1000 > /dev/null 2>&1 & echo $! > pid", id="nohup"),
        pytest.param(
            "setsid sh -c 'echo $$ > pid; exec sleep 1000' & :", id="own session"
        ),
        pytest.param(
            "(setsid sh -c 'echo $$ > pid; exec sleep 1000' &) ; :", id="two forks"
        ),
        pytest.param(
            "env -i setsid sh -c 'echo $$ > pid; exec sleep 1000' & :",
            id="no environment",
        ),
        pytest.param(
            "env -i prlimit --msgqueue=1:1 setsid -f sh -c 'echo $$ > pid; exec sleep 1000'",
            id="no tags",
            marks=linux,
        ),
        pytest.param(
            "trap '' TERM HUP; sh -c 'trap \"\" TERM; echo $$ > pid; exec sleep 1000' & :",
            id="deaf",
        ),
    ],
)
async def test_a_process_that_is_left_behind_is_ended_and_named(
    shell: Shell, command: str
) -> None:
    done = await shell(f"{command}; {ASLEEP}; echo over")

    assert not alive(await pid_in(shell.folder / "pid"))
    assert (done.exit_code, done.survivors) == (0, ("sleep",))
    assert shell.output.read_text() == "over\n"


@linux
async def test_a_whole_family_that_was_left_behind_is_ended(shell: Shell) -> None:
    family = "setsid sh -c 'sleep 1000 & echo $! > one; setsid sleep 1001 & echo $! > pid; wait' &"

    done = await shell(f"{family} {ASLEEP}; {ASLEEP.replace('pid', 'one')}")

    assert sorted(done.survivors) == ["sh", "sleep", "sleep"]


@linux
async def test_a_process_that_forks_and_exits_while_it_is_searched_for_does_not_escape(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing, found = processes.children, shell.folder / "found"

    def children(pid: int, *, recursive: bool = False) -> list[int]:
        listed = listing(pid, recursive=recursive)
        found.touch()
        while alive_and_no_zombie(int((shell.folder / "leader").read_text())):
            time.sleep(0.01)
        return listed

    monkeypatch.setattr("goalrunner.system.child.processes.children", children)
    leader = "echo $$ > leader; until [ -e found ]; do sleep 0.01; done; sleep 1000 & echo $! > pid"
    done = await shell(
        f"setsid sh -c '{leader}; {ASLEEP}' & until [ -s leader ]; do sleep 0.01; done"
    )

    assert not alive(await pid_in(shell.folder / "pid"))
    assert done.survivors == ("sleep",)


@linux
@pytest.mark.slow
async def test_the_deadline_ends_those_who_moved_away_and_names_them(
    shell: Shell,
) -> None:
    for seconds in deadlines():
        done = await shell(
            f"setsid sh -c 'echo $$ > pid; exec sleep 1000' & {ASLEEP}; touch up; sleep 1001",
            timeout=seconds,
        )
        if (shell.folder / "up").exists():
            break

    assert not alive(await pid_in(shell.folder / "pid"))
    assert done.survivors == ("sleep",)


@linux
async def test_who_is_on_the_way_out_is_let_go(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goalrunner.system.child._PARTING", 5)
    done = await shell("(sleep 0.02; echo late) & echo early")

    assert shell.output.read_text() == "early\nlate\n"
    assert done.survivors == ()


@linux
async def test_no_zombie_of_ours_is_left(shell: Shell) -> None:
    before = _zombies()  # what other tests killed may have become ours: a launch makes its process the one that adopts
    await shell("for i in 1 2 3 4 5; do (setsid sleep 1000 &); done; sleep 0.05")

    assert _zombies() - before == set()


def _zombies() -> set[str]:
    """The ids of this process's dead children that were not waited for."""
    stats = [
        path.read_text() for path in Path("/proc").glob("[0-9]*/stat") if path.exists()
    ]
    dead = (
        one
        for one in stats
        if one.rpartition(")")[2].split()[:2] == ["Z", str(os.getpid())]
    )
    return {one.split()[0] for one in dead}


@linux
async def test_launches_side_by_side_leave_each_other_alone(tmp_path: Path) -> None:
    shells = []
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        shells.append(Shell(tmp_path / name))
    long = "(setsid sh -c 'sleep 0.5; echo survived' &) ; (env -i setsid sleep 0.4 &); sleep 0.7"

    first, *others = await asyncio.gather(
        shells[0]("setsid sleep 1000 & sleep 0.1"),
        *(other(long) for other in shells[1:]),
    )

    assert first.survivors == ("sleep",)
    assert [other.survivors for other in others] == [(), ()]
    assert [other.output.read_text() for other in others] == [
        "survived\n",
        "survived\n",
    ]


@linux
async def test_a_child_of_another_part_of_this_program_is_left_alone(
    shell: Shell,
) -> None:
    ordinary = await asyncio.create_subprocess_exec("sleep", "1000")
    detached = await asyncio.create_subprocess_exec(
        "sleep", "1000", start_new_session=True
    )

    done = await shell(f"sleep 1000 & echo $! > pid; {ASLEEP}")

    assert done.survivors == ("sleep",)
    assert (ordinary.returncode, detached.returncode) == (None, None)
    assert alive(ordinary.pid)
    assert alive(detached.pid)
    for process in (ordinary, detached):
        process.kill()
        assert await process.wait() == -9


async def test_cancelling_ends_every_process_and_continues(shell: Shell) -> None:
    task = asyncio.create_task(
        shell("trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done")
    )
    pid = await pid_in(shell.folder / "pid")
    began = time.monotonic()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not alive(pid)
    assert time.monotonic() - began < 1.5


async def test_cancelling_twice_does_not_wait_for_the_grace(shell: Shell) -> None:
    shell.launcher = ProcessLauncher(grace=30)
    task = asyncio.create_task(
        shell("trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done")
    )
    pid = await pid_in(shell.folder / "pid")
    began = time.monotonic()

    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not alive(pid)
    assert time.monotonic() - began < 1.5


def test_the_end_of_the_event_loop_ends_every_process(shell: Shell) -> None:
    async def abandon() -> int:
        shell.running = asyncio.create_task(shell("echo $$ > pid; sleep 1000"))  # type: ignore[attr-defined]
        return await pid_in(shell.folder / "pid")

    assert not alive(asyncio.run(abandon()))


async def test_a_lost_exit_status_is_no_success(shell: Shell) -> None:
    before = signal.signal(
        signal.SIGCHLD, signal.SIG_IGN
    )  # the kernel reaps every child itself, and keeps no status
    try:
        done = await shell("exit 0")
    finally:
        signal.signal(signal.SIGCHLD, before)

    assert (done.exit_code, done.error) == (None, "its exit status was lost")


async def test_without_files_for_processes_the_end_is_polled(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(pid: int) -> int:
        raise OSError(errno.ENOSYS, "no pidfd")

    monkeypatch.setattr("goalrunner.system.child.os.pidfd_open", missing)

    ended = await shell("sleep 0.05; exit 4")
    cut = await shell("sleep 1000", timeout=0.1)

    assert ended.exit_code == 4
    assert cut.error == "timed out after 0.1 s"


@linux
async def test_without_adoption_the_mark_finds_them(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goalrunner.system.child.adopt_orphans", lambda: False)

    done = await shell(f"(setsid sh -c 'echo $$ > pid; exec sleep 1000' &) ; {ASLEEP}")

    assert done.survivors == ("sleep",)
