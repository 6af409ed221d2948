"""Ways out of the sandbox, each tried with real commands in a real one. None may lead anywhere."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from goalrunner.system.bubblewrap import choose
from goalrunner.system.sandbox_environment import visible_paths
from goalrunner.system.sandbox_view import Confinement, listening
from tests.support.sandboxes import CHOICE, SandboxedWorkspace, needs_sandbox

pytestmark = [pytest.mark.slow, needs_sandbox]


@pytest.fixture
def sandboxed(tmp_path: Path) -> SandboxedWorkspace:
    return SandboxedWorkspace(tmp_path)


async def test_only_the_workspace_and_tmp_can_be_written(
    sandboxed: SandboxedWorkspace,
) -> None:
    other = sandboxed.root / "other"
    other.mkdir()
    for path in (
        sandboxed.user / "new",
        other / "new",
        Path("/etc/goal-test"),
        Path("/usr/goal-test"),
        Path("/goal-test"),
    ):
        done = await sandboxed(f"echo x > {path}")
        assert (done.exit_code != 0, path.exists()) == (True, False), sandboxed.said
    assert (
        await sandboxed(
            "echo x > file && mkdir -p a/b && echo y > /tmp/z && cat /tmp/z"
        )
    ).exit_code == 0
    assert (sandboxed.workspace / "file").read_text() == "x\n"


async def test_the_home_of_goal_is_empty_and_stays_so(
    sandboxed: SandboxedWorkspace,
) -> None:
    log = sandboxed.home / "runs" / "r1" / "events.jsonl"
    for line in (
        f"cat {log}",
        f"ls -d {sandboxed.home}/*",
        f"echo x > {sandboxed.home}/new",
        f"mkdir {sandboxed.home}/runs",
    ):
        assert (await sandboxed(line)).exit_code != 0, sandboxed.said
    assert log.read_text() == "the log\n"


async def test_a_symlink_in_the_workspace_leads_nowhere(
    sandboxed: SandboxedWorkspace,
) -> None:
    (sandboxed.workspace / "runs").symlink_to(sandboxed.home / "runs")
    (sandboxed.workspace / "keys").symlink_to(sandboxed.user / ".ssh")
    (sandboxed.workspace / "system").symlink_to("/etc")
    assert (await sandboxed("cat runs/r1/events.jsonl")).exit_code != 0
    assert (await sandboxed("cat keys/id_ed25519")).exit_code != 0
    assert (await sandboxed("echo x > system/goal-test")).exit_code != 0
    assert not Path("/etc/goal-test").exists()


async def test_a_hard_link_to_what_is_hidden_cannot_be_made(
    sandboxed: SandboxedWorkspace,
) -> None:
    assert (
        await sandboxed(f"ln {sandboxed.home}/runs/r1/events.jsonl here")
    ).exit_code != 0
    assert (
        await sandboxed(f"ln {sandboxed.user}/.gitconfig here && echo x >> here")
    ).exit_code != 0
    assert "Ada" in (sandboxed.user / ".gitconfig").read_text()


async def test_proc_shows_no_process_and_no_environment_of_the_runner(
    sandboxed: SandboxedWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-runner")
    await sandboxed(
        f"cat /proc/[0-9]*/environ | tr '\\0' '\\n'; ls -d /proc/{os.getpid()}; cat /proc/$PPID/cmdline"
    )
    assert "sk-of-the-runner" not in sandboxed.said
    assert f"/proc/{os.getpid()}\n" not in sandboxed.said
    (sandboxed.workspace / "kill.py").write_text(
        f"import os\nos.kill({os.getpid()}, 9)\n"
    )
    assert (await sandboxed(f"{sys.executable} kill.py")).exit_code == 1
    assert "ProcessLookupError" in sandboxed.said


async def test_proc_leads_to_no_other_root(sandboxed: SandboxedWorkspace) -> None:
    log = f"{sandboxed.home}/runs/r1/events.jsonl"
    for way in (
        "/proc/1/root",
        "/proc/self/root",
        "/proc/$PPID/root",
        "/proc/1/cwd/../../../../../..",
    ):
        assert (await sandboxed(f"cat {way}{log}")).exit_code != 0, sandboxed.said
    await sandboxed(
        "for f in /proc/1/fd/* /proc/self/fd/*; do readlink $f; ls $f/ && cat $f/goal-home/runs/r1/events.jsonl; done"
    )
    assert "the log" not in sandboxed.said


async def test_the_kernel_cannot_be_told_anything(
    sandboxed: SandboxedWorkspace,
) -> None:
    """Each file is given back what stands in it: where this test fails, nothing has happened."""
    for name in (
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/sys/kernel/uevent_helper",
    ):
        if Path(name).exists():
            assert (
                await sandboxed(f'was=$(cat {name}); printf %s "$was" > {name}')
            ).exit_code != 0, name
    if Path("/proc/sysrq-trigger").exists():
        assert (await sandboxed("printf '' >> /proc/sysrq-trigger")).exit_code != 0


async def test_mounts_cannot_be_undone(sandboxed: SandboxedWorkspace) -> None:
    secret = f"cat {sandboxed.home}/runs/r1/events.jsonl"
    for way in (
        f"umount {sandboxed.home}; {secret}",
        f"umount -l /tmp; {secret}",
        "mount -o remount,rw / ; echo x > /goal-test",
        f"mount -t tmpfs x {sandboxed.workspace}; {secret}",
        f"unshare -Urm sh -c 'umount {sandboxed.home}; {secret}'",
        "unshare -Urm sh -c 'mount -o remount,rw,bind / ; echo x > /goal-test'",
        f"unshare -Urm sh -c 'umount -R /; {secret}'",
        f"mknod disk b $(stat -c '%Hd %Ld' /) && {secret}",
        f"chroot /proc/1/root {secret}",
    ):
        await sandboxed(way)
        assert "the log" not in sandboxed.said, way
        assert not Path("/goal-test").exists(), way


async def test_a_file_cannot_be_opened_past_the_mounts_by_its_handle(
    sandboxed: SandboxedWorkspace,
) -> None:
    (sandboxed.workspace / "handle.py").write_text(
        "import ctypes, os, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "class Handle(ctypes.Structure):\n"
        "    _fields_ = [('bytes', ctypes.c_uint), ('type', ctypes.c_int), ('data', ctypes.c_ubyte * 128)]\n"
        "handle, mount = Handle(bytes=128), ctypes.c_int()\n"
        "assert libc.name_to_handle_at(-100, b'file', ctypes.byref(handle), ctypes.byref(mount), 0) == 0\n"
        "here = os.open('.', os.O_RDONLY)\n"
        "opened = libc.open_by_handle_at(here, ctypes.byref(handle), os.O_RDONLY)\n"
        "print('opened' if opened >= 0 else os.strerror(ctypes.get_errno()))\n"
    )
    (sandboxed.workspace / "file").write_text("x")
    await sandboxed(f"{sys.executable} handle.py")
    assert sandboxed.said == "Operation not permitted\n"


async def test_what_an_earlier_command_left_in_tmp_leads_no_mount_astray(
    sandboxed: SandboxedWorkspace,
) -> None:
    """The folder over which the workspace is laid is made a link; the next command must still be in its own place."""
    top = Path(*sandboxed.workspace.parts[:3])
    if not top.is_relative_to("/tmp"):
        pytest.skip("the workspace is not in /tmp")
    assert (await sandboxed(f"mv {top} /tmp/moved")).exit_code != 0
    stands_as_tmp = sandboxed.home / "tmp"
    shutil.rmtree(stands_as_tmp / top.name)
    (stands_as_tmp / top.name).symlink_to("/etc")
    done = await sandboxed(f"echo x > file; cat {sandboxed.home}/runs/r1/events.jsonl")
    assert (done.exit_code != 0, (sandboxed.workspace / "file").read_text()) == (
        True,
        "x\n",
    )
    assert "the log" not in sandboxed.said


async def test_sockets_of_the_machine_are_not_there(
    sandboxed: SandboxedWorkspace,
) -> None:
    await sandboxed("find /run /var/run/ -type s; env")
    assert "/" not in sandboxed.said.partition("\nPATH")[0].split("=")[0]
    assert "SSH_AUTH_SOCK" not in sandboxed.said


async def test_who_listens_in_a_folder_that_is_read_cannot_be_talked_to(
    sandboxed: SandboxedWorkspace,
) -> None:
    """Docker's socket in a home folder would obey any process. A socket in the workspace belongs to the project."""
    docker = sandboxed.user / "d.sock"
    places = [docker, sandboxed.workspace / "own.sock"]
    talk = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    with ExitStack() as stack:
        for place in places:
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(str(place))
            server.listen()
        codes = [
            (await sandboxed(f"{sys.executable} -c '{talk}' {place}")).exit_code
            for place in places
        ]
    assert codes == [1, 0], sandboxed.said
    # No process listens any more: it is a file like any other.
    assert (await sandboxed(f"test -S {places[0]}")).exit_code == 0


async def test_what_an_agent_listens_at_hides_no_file_from_a_check(
    sandboxed: SandboxedWorkspace,
) -> None:
    """The kernel tells a path as the listener spelled it: here in a home of his own."""
    assert CHOICE.sandbox is not None
    rules, own = sandboxed.user / "rules", sandboxed.root / "own"
    rules.write_text("strict\n")
    own.mkdir()
    listen = f"import socket; s = socket.socket(socket.AF_UNIX); s.bind({str(rules)!r}); s.listen()"
    within = Confinement(
        writable=(sandboxed.workspace,),
        readable=visible_paths(sandboxed.env),
        home=(sandboxed.user, own),
    )
    argv = [sys.executable, "-c", f"{listen}; print(flush=True); input()"]
    with subprocess.Popen(
        CHOICE.sandbox.confine(argv, cwd=sandboxed.workspace, within=within),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"\n"
        done = await sandboxed(f"grep -q strict {rules}")
        agent.communicate(b"\n")
    assert (done.exit_code, (own / "rules").is_socket()) == (0, True), sandboxed.said


def test_a_path_with_a_line_of_the_table_in_it_names_nothing_and_breaks_nothing(
    tmp_path: Path,
) -> None:
    file, place = tmp_path / "file", tmp_path / "a\x0bb"
    file.write_text("no socket\n")
    row = "0000000000000000: 00000002 00000000 00010000 0001 01 7"
    table = tmp_path / "unix"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        table.write_text(
            f"Num Path\n{row} x\n0: 2 0 zz 1 1 1 /y\n{row} {file}\n{row} {tmp_path}\n{row} {place}\n"
        )
        assert listening(table) == (place,)


async def test_without_network_no_abstract_socket_of_the_machine_answers(
    sandboxed: SandboxedWorkspace,
) -> None:
    """An X server listens there, and would type for every process that connects."""
    with socket.socket(socket.AF_UNIX) as server:
        name = f"goal-test-{os.getpid()}"
        server.bind(f"\0{name}")
        server.listen()
        talk = (
            f'import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + "{name}")'
        )
        sandboxed.network = False
        assert (await sandboxed(f"{sys.executable} -c '{talk}'")).exit_code == 1
        assert "ConnectionRefusedError" in sandboxed.said


_KEYRING = """
import ctypes, errno, platform
add, request, keyctl = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}[platform.machine()]
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    found = libc.syscall(number, *arguments)
    return found if found >= 0 else errno.errorcode[ctypes.get_errno()]
"""
_HAS_KEYS = platform.machine() in ("x86_64", "aarch64")


@pytest.mark.skipif(
    not _HAS_KEYS, reason="the numbers of the calls are not known for this machine"
)
async def test_keys_that_the_kernel_keeps_for_the_session_are_out_of_reach(
    sandboxed: SandboxedWorkspace,
) -> None:
    """A session's keyring is inherited like the environment: tickets and keys of disks lie in it."""
    (sandboxed.workspace / "keys.py").write_text(
        f"{_KEYRING}\nprint(call(keyctl, 11, -3, None, 0), call(keyctl, 10, -3, b'user', b'goal-test', 0), "
        "call(request, b'user', b'goal-test', None, 0), call(add, b'user', b'x', b'y', 1, -3))\n"
    )
    runner = f"{_KEYRING}\ncall(keyctl, 1, None)\nprint(call(add, b'user', b'goal-test', b'secret', 6, -3))\n"
    outside = sandboxed.root / "outside.py"
    outside.write_text(
        f"{runner}import asyncio, os, sys\nfrom pathlib import Path\nfrom tests.support.sandboxes import SandboxedWorkspace\n"
        f"(root := Path({str(sandboxed.root)!r}, 'own')).mkdir()\nsandboxed = SandboxedWorkspace(root)\n"
        f"line = '{sys.executable} - < {sandboxed.workspace}/keys.py'\n"
        "os.link(sys.argv[1], root / 'ws' / 'keys.py')\n"
        f"asyncio.run(sandboxed('{sys.executable} keys.py'))\nprint(sandboxed.said)\n"
    )
    root = Path(__file__).parents[3]
    env = {**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}"}
    command = [sys.executable, str(outside), str(sandboxed.workspace / "keys.py")]
    done = subprocess.run(
        command,
        cwd=root,
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    made, said = done.stdout.splitlines()[:2]
    if not made.isdigit():
        pytest.skip(f"this machine keeps no keys: {made}")
    assert said == "EPERM EPERM EPERM EPERM"


async def test_what_a_command_printed_cannot_be_given_a_second_name(
    sandboxed: SandboxedWorkspace,
) -> None:
    """A link to it in the workspace could be written later, when it is evidence."""
    (sandboxed.workspace / "link.py").write_text(
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.linkat(1, b'', -100, b'one', 0x1000), libc.linkat(-100, b'/proc/self/fd/1', -100, b'two', 0x400))\n"
        "print(sorted(os.listdir('/proc/self/fd'))[:4], os.listdir('/dev/pts'))\n"
        "print(os.path.exists('/dev/tty') and os.open('/dev/tty', os.O_RDWR))\n"
    )
    assert (await sandboxed(f"{sys.executable} link.py")).exit_code == 1
    assert sandboxed.said.splitlines()[:2] == ["-1 -1", "['0', '1', '2', '3'] ['ptmx']"]
    assert "No such device or address: '/dev/tty'" in sandboxed.said
    assert not {"one", "two"} & {path.name for path in sandboxed.workspace.iterdir()}


async def test_without_network_nothing_answers_not_even_on_this_machine(
    sandboxed: SandboxedWorkspace,
) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
    line = f"{sys.executable} -c 'import socket; socket.create_connection((\"127.0.0.1\", {server.getsockname()[1]}), 2)'"
    sandboxed.network = False
    assert (await sandboxed(line)).exit_code == 1
    assert (await sandboxed(f"unshare -Urn {line}")).exit_code != 0
    sandboxed.network = True
    assert (await sandboxed(line)).exit_code == 0, sandboxed.said
    server.close()


async def test_a_server_of_its_own_can_be_reached_without_network(
    sandboxed: SandboxedWorkspace,
) -> None:
    sandboxed.network = False
    (sandboxed.workspace / "own.py").write_text(
        "import socket, threading\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "threading.Thread(target=lambda: server.accept()[0].sendall(b'hello')).start()\n"
        "print(socket.create_connection(server.getsockname()).recv(9))\n"
    )
    assert (await sandboxed(f"{sys.executable} own.py")).exit_code == 0, sandboxed.said


async def test_a_program_named_bwrap_in_the_workspace_is_never_the_sandbox(
    sandboxed: SandboxedWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = sandboxed.workspace / "bwrap"
    planted.write_text(f"#!/bin/sh\ntouch {sandboxed.root}/pwned\n")
    planted.chmod(0o755)
    for entry in (str(sandboxed.workspace), ".", ""):
        choice = choose(
            {"PATH": f"{entry}:{os.environ['PATH']}"}, (sandboxed.workspace,)
        )
        assert choice.sandbox is not None
        words = choice.sandbox.confine(
            ["true"], cwd=sandboxed.root, within=Confinement()
        )
        assert not any(word.startswith(str(sandboxed.workspace)) for word in words)
    assert not (sandboxed.root / "pwned").exists()


async def test_no_process_is_left_behind_and_ended_ones_are_named(
    sandboxed: SandboxedWorkspace,
) -> None:
    inner = "sh -c 'echo > began; sleep 7103 & sleep 7104'"
    line = f"sleep 7101 & (setsid sleep 7102 &) ; (env -i setsid {inner} &) ; until [ -e began ]; do :; done; sleep 0.1"
    done = await sandboxed(line)
    assert done.exit_code == 0
    assert sorted(done.survivors) == ["sh", "sleep", "sleep", "sleep", "sleep"]
    assert not _alive("sleep 710")


async def test_a_deadline_ends_every_process(sandboxed: SandboxedWorkspace) -> None:
    done = await sandboxed("setsid sleep 7201 & trap '' TERM; sleep 7202", timeout=0.5)
    assert (done.timed_out, done.exit_code) == (True, None)
    assert not _alive("sleep 720")


async def test_a_cancelled_command_leaves_no_process(
    sandboxed: SandboxedWorkspace,
) -> None:
    task = asyncio.create_task(sandboxed("echo > here; setsid sleep 7301 & sleep 7302"))
    async with asyncio.timeout(10):
        while not (sandboxed.workspace / "here").exists():
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _alive("sleep 730")


RUNNER = """
import asyncio, sys
from pathlib import Path
from tests.support.sandboxes import SandboxedWorkspace

asyncio.run(SandboxedWorkspace(Path(sys.argv[1]))(sys.argv[2], timeout=None))
"""


@pytest.mark.parametrize(
    ("line", "of_it"),
    [("setsid {} 1 & {} 2", 7400), ("(env -i setsid {} 1 &); {} 2", 7500)],
)
async def test_who_is_in_a_sandbox_dies_with_a_runner_that_is_killed(
    tmp_path: Path, line: str, of_it: int
) -> None:
    sleep = f"sleep {of_it}"
    root = Path(__file__).parents[3]
    (tmp_path / "sandboxed").mkdir()
    command = [
        sys.executable,
        "-c",
        RUNNER,
        str(tmp_path / "sandboxed"),
        f"echo > began; {line.format(sleep, sleep)}",
    ]
    with subprocess.Popen(
        command, cwd=root, env={**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}"}
    ) as runner:
        async with asyncio.timeout(20):
            while len(_alive(sleep)) < 2:
                await asyncio.sleep(0.01)
        runner.kill()
        async with asyncio.timeout(5):
            while _alive(sleep):
                await asyncio.sleep(0.01)


def _alive(begin: str) -> list[str]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode().strip())
        except OSError:
            continue
    return [line for line in lines if line.startswith(begin)]
