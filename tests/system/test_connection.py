"""Connections to real processes: both pipes, stderr in a file, and no process left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from goalrunner.core.errors import AgentNotInstalled, RecordError
from goalrunner.system.connection import ProcessConnection, ProcessConnector
from goalrunner.system.processes import entry

linux = pytest.mark.skipif(
    sys.platform != "linux", reason="the sweep of descendants is Linux's"
)

RUNNER = """
import asyncio, os, sys
from pathlib import Path
from goalrunner.system.connection import ProcessConnector

async def main():
    argv = ["sh", "-c", sys.argv[1]]
    async with ProcessConnector().connect(argv, cwd=Path.cwd(), env=dict(os.environ), errors=Path("errors")) as child:
        Path("connected").touch()
        while await child.read():
            pass

asyncio.run(main())
"""


class Bench:
    """Connects to `sh -c` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.errors = folder / "errors"
        self.connector = ProcessConnector()

    @asynccontextmanager
    async def __call__(self, command: str) -> AsyncIterator[ProcessConnection]:
        async with self.connect("sh", "-c", command) as child:
            yield child

    @asynccontextmanager
    async def connect(
        self, *argv: str, connector: ProcessConnector | None = None
    ) -> AsyncIterator[ProcessConnection]:
        env = {"PATH": os.environ["PATH"]}
        async with (
            asyncio.timeout(30),
            (connector or self.connector).connect(
                argv, cwd=self.folder, env=env, errors=self.errors
            ) as child,
        ):
            yield child


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def everything(child: ProcessConnection) -> bytes:
    data = b""
    while piece := await child.read():
        data += piece
    return data


def code(child: ProcessConnection) -> int | None:
    return child.exit_code


def living(pid: int) -> bool:
    one = entry(pid)
    return one is not None and one.living


def leads_a_session(pid: int) -> bool:
    """Return whether setsid has run in a process."""
    process = entry(pid)
    return process is not None and process.session == pid


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def pid_in(path: Path) -> int:
    await until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


async def test_what_is_written_is_read_by_the_child_and_the_other_way_round(
    bench: Bench,
) -> None:
    async with bench("read line; echo got $line; echo aside >&2; exit 4") as child:
        assert code(child) is None
        await child.write(b"this\n")
        assert await everything(child) == b"got this\n"
        await until(lambda: child.exit_code is not None)
        assert code(child) == 4

    assert code(child) == 4
    assert bench.errors.read_text() == "aside\n"


async def test_a_child_that_is_killed_says_by_what(bench: Bench) -> None:
    async with bench("kill -9 $$") as child:
        assert await everything(child) == b""
        await until(lambda: child.exit_code is not None)

    assert child.exit_code == -signal.SIGKILL


async def test_more_than_a_pipe_holds_goes_through_in_both_directions_at_once(
    bench: Bench,
) -> None:
    data = os.urandom(4_000_000)
    async with bench("exec cat") as child:
        writing = asyncio.create_task(child.write(data))
        echo = b""
        while len(echo) < len(data):
            echo += await child.read()
        await writing

    assert echo == data


async def test_a_flood_on_stderr_does_not_block(bench: Bench) -> None:
    async with bench("head -c 3000000 /dev/zero >&2; echo done") as child:
        assert await everything(child) == b"done\n"

    assert bench.errors.stat().st_size == 3_000_000


async def test_a_child_that_is_gone_or_listens_no_more_is_an_error(
    bench: Bench,
) -> None:
    async with bench("exec 0<&-; echo closed; sleep 60") as child:
        assert await child.read() == b"closed\n"
        with pytest.raises(ConnectionError):
            await child.write(b"x")
    with pytest.raises(ConnectionError):
        await child.write(b"x")
    assert await child.read() == b""


async def test_writing_to_a_child_that_dies_without_reading_ends(bench: Bench) -> None:
    async with bench("sleep 60 & sleep 0.1; kill -9 $$") as child:
        with pytest.raises(ConnectionError):
            await child.write(b"x" * 10_000_000)


async def test_reading_ends_with_the_child_though_another_process_holds_the_pipe(
    bench: Bench,
) -> None:
    async with bench("setsid sleep 600 & echo $! > left; echo last words") as child:
        assert await everything(child) == b"last words\n"
    assert not living(await pid_in(bench.folder / "left"))


async def test_reading_can_be_given_up_and_taken_up_again(bench: Bench) -> None:
    async with bench("read line; echo heard") as child:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await child.read()
        await child.write(b"now\n")
        assert await child.read() == b"heard\n"


async def test_a_program_that_is_missing_is_not_installed(bench: Bench) -> None:
    with pytest.raises(AgentNotInstalled, match="no-such-program: not found"):
        async with bench.connect("no-such-program"):
            raise AssertionError


async def test_a_file_for_stderr_that_cannot_be_written_is_an_error(
    bench: Bench,
) -> None:
    bench.errors = bench.folder / "missing" / "errors"

    with pytest.raises(RecordError, match="cannot write"):
        async with bench("true"):
            raise AssertionError


async def test_an_orderly_child_goes_by_itself_when_its_input_ends(
    bench: Bench,
) -> None:
    async with bench("cat > /dev/null; echo bye > bye; exit 7") as child:
        pass

    assert child.exit_code == 7
    assert (bench.folder / "bye").exists()


@pytest.mark.slow
async def test_a_stubborn_child_is_killed(bench: Bench) -> None:
    began = time.monotonic()
    async with bench("trap '' TERM; echo ready; while :; do sleep 0.1; done") as child:
        await child.read()

    assert child.exit_code == -signal.SIGKILL
    assert time.monotonic() - began < 5


@linux
@pytest.mark.parametrize(
    "command",
    [
        "sleep 600 &",
        "setsid sleep 600 &",
        "(setsid sleep 600 &) &",
        "setsid env -i sleep 600 &",
    ],
)
async def test_at_the_end_every_process_is_ended_in_whatever_session(
    bench: Bench, command: str
) -> None:
    async with bench(f"{command} sleep 0.2; exec cat") as child:
        await until(lambda: len(child._child.living()) > 0)
        pids = list(child._child.living())

    assert pids
    assert not any(map(living, pids))


async def test_when_the_caller_is_cancelled_every_process_is_ended(
    bench: Bench,
) -> None:
    async def talk() -> None:
        async with bench("setsid sleep 600 & echo $! > left; exec sleep 600") as child:
            await child.read()

    talking = asyncio.create_task(talk())
    left = await pid_in(bench.folder / "left")
    talking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await talking

    assert not living(left)


@linux
async def test_after_a_round_those_that_began_in_it_apart_are_ended_and_named(
    bench: Bench,
) -> None:
    script = """
        setsid sleep 601 & echo $! > helper
        sleep 602 & echo $! > own
        read line
        setsid sleep 603 & echo $! > left
        setsid sh -c 'trap "" TERM; sleep 604 & wait; wait' & echo $! > stubborn
        sleep 605 & echo $! > later
        echo ready
        read line
        echo still here
    """
    async with bench(script) as child:
        helper, own = [await pid_in(bench.folder / name) for name in ("helper", "own")]
        await until(lambda: leads_a_session(helper))
        child.mark()
        await child.write(b"go\n")
        assert await child.read() == b"ready\n"
        left, stubborn, later = [
            await pid_in(bench.folder / name) for name in ("left", "stubborn", "later")
        ]
        await until(
            lambda: (
                Path(f"/proc/{left}/comm").read_text() == "sleep\n"
                and leads_a_session(left)
            )
        )
        await until(lambda: len(child._child.living()) >= 6)

        names = await child.sweep()

        assert sorted(set(names)) == ["sh", "sleep"]
        assert not any(map(living, (left, stubborn)))
        assert all(map(living, (helper, own, later))), "these are the child's own"
        assert await child.sweep() == ()
        await child.write(b"end\n")
        assert await child.read() == b"still here\n"
    assert not any(map(living, (helper, own, later)))


@linux
@pytest.mark.parametrize(
    "command", ["exec sleep 600", "setsid sleep 600 & exec sleep 600"]
)
async def test_when_the_runner_is_killed_so_is_the_child(
    tmp_path: Path, command: str
) -> None:
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, f"echo $$ > pid; {command}"],
        cwd=tmp_path,
        start_new_session=True,
    )
    child = await pid_in(tmp_path / "pid")
    await until((tmp_path / "connected").exists)

    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()

    await until(lambda: not living(child))


@linux
async def test_helpers_that_are_known_by_name_stay_with_their_children_and_no_deeper_processes(
    bench: Bench,
) -> None:
    script = """
        ln -s /bin/sh keeper
        read line
        setsid ./keeper -c 'setsid sh -c "setsid sleep 606 & echo \\$! > below; wait; exec sleep 608" & echo $! > held; wait' &
        echo $! > kept
        setsid sleep 607 & echo $! > left
        echo ready
        read line
    """
    async with bench(script) as child:
        child.mark()
        await child.write(b"go\n")
        assert await child.read() == b"ready\n"
        kept, held, below, left = [
            await pid_in(bench.folder / name)
            for name in ("kept", "held", "below", "left")
        ]
        there = ["keeper", "sh", "sleep", "sleep"]
        await until(
            lambda: sorted(one.name for one in child._child.living().values()) == there
        )

        names = await child.sweep(["keeper"])

        assert set(names) == {"sleep"}
        assert (living(kept), living(held), living(below), living(left)) == (
            True,
            True,
            False,
            False,
        )
        await until(lambda: Path(f"/proc/{held}/comm").read_text() == "sleep\n")
        assert set(await child.sweep()) == {"keeper", "sleep"}
    assert not any(map(living, (kept, held)))
