"""Commands in the sandbox behave as they do outside of it: exit codes, words for what cannot be started, what they are given."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.errors import AgentNotInstalled
from goalrunner.system import bubblewrap
from goalrunner.system.bubblewrap import Bubblewrap, choose
from goalrunner.system.connection import ProcessConnector
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.system.sandbox import SandboxedLauncher, WritableRoot
from goalrunner.system.sandbox_view import Confinement
from tests.support.sandboxes import SandboxedWorkspace, needs_sandbox


class Unbuildable(Bubblewrap):
    """A sandbox over a folder that is gone when it is to be built."""

    def confine(
        self, argv: Sequence[str], *, cwd: Path, within: Confinement
    ) -> tuple[str, ...]:
        words = super().confine(argv, cwd=cwd, within=within)
        at = words.index("--chdir")
        return (*words[:at], "--ro-bind", "/no/such/folder", "/mnt", *words[at:])


class Hanging(Bubblewrap):
    """A sandbox that is built just after a listening process has closed its socket."""

    def confine(
        self, argv: Sequence[str], *, cwd: Path, within: Confinement
    ) -> tuple[str, ...]:
        words = super().confine(argv, cwd=cwd, within=within)
        for name in {word for word in words if word.endswith("/brief.sock")}:
            Path(name).unlink()
        return words


def _in(sandboxed: SandboxedWorkspace, **changes: Any) -> SandboxedLauncher:
    """A launcher in the policy of a sandboxed, but for these changes."""
    return SandboxedLauncher(ProcessLauncher(), replace(sandboxed.policy, **changes))


@pytest.fixture
def sandboxed(tmp_path: Path) -> SandboxedWorkspace:
    return SandboxedWorkspace(tmp_path)


@needs_sandbox
async def test_a_socket_that_is_gone_before_it_is_hidden_keeps_no_command_from_running(
    sandboxed: SandboxedWorkspace,
) -> None:
    sandbox = sandboxed.policy.sandbox
    assert isinstance(sandbox, Bubblewrap)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(sandboxed.user / "brief.sock"))
        server.listen()
        launcher = _in(sandboxed, sandbox=Hanging(sandbox.program, sandbox.own_users))
        done = await launcher.launch(
            ["/bin/sh", "-c", "echo ran >> file; exit 3"],
            cwd=sandboxed.workspace,
            env=sandboxed.env,
            output=sandboxed.output,
        )
    assert (done.exit_code, (sandboxed.workspace / "file").read_text()) == (
        3,
        "ran\n",
    ), done
    assert not (sandboxed.user / "brief.sock").exists()


@needs_sandbox
async def test_exit_codes_pass_through_and_a_signal_is_128_and_its_number(
    sandboxed: SandboxedWorkspace,
) -> None:
    assert [(await sandboxed(f"exit {code}")).exit_code for code in (0, 1, 3, 124)] == [
        0,
        1,
        3,
        124,
    ]
    assert (await sandboxed("kill -9 $$")).exit_code == 137


@needs_sandbox
async def test_what_cannot_be_started_is_said_in_the_same_words_as_outside(
    sandboxed: SandboxedWorkspace,
) -> None:
    (sandboxed.workspace / "plain").write_text("x")
    (sandboxed.workspace / "script").write_text("#!/no/such/interpreter\n")
    (sandboxed.workspace / "script").chmod(0o755)
    bare = ProcessLauncher()
    gone = sandboxed.root / "gone"
    for argv, cwd in (
        (["nosuch"], None),
        (["./nosuch"], None),
        (["./plain"], None),
        (["true"], gone),
        ([], None),
    ):
        inside = await sandboxed.launch(argv, cwd=cwd)
        out = await bare.launch(
            argv,
            cwd=cwd or sandboxed.workspace,
            env=sandboxed.env,
            output=sandboxed.output,
        )
        assert (inside.exit_code, inside.error) == (out.exit_code, out.error)
    assert (await sandboxed.launch(["./script"])).exit_code == 127
    assert (await sandboxed("nosuch")).exit_code == 127


@needs_sandbox
async def test_a_sandbox_that_cannot_be_set_up_is_never_an_exit_code(
    sandboxed: SandboxedWorkspace,
) -> None:
    """A check that expects exit code 1 must not be green because its command never ran."""
    broken = _in(sandboxed, sandbox=Unbuildable(Path("/usr/bin/bwrap")))
    done = await broken.launch(
        ["false"], cwd=sandboxed.workspace, env=sandboxed.env, output=sandboxed.output
    )
    assert (done.exit_code, "sandbox could not be set up" in done.error) == (
        None,
        True,
    ), done


@needs_sandbox
async def test_a_filter_that_cannot_be_opened_is_never_an_exit_code(
    sandboxed: SandboxedWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        bubblewrap, "filter_path", lambda: f"/proc/{os.getpid()}/fd/9999"
    )
    done = await sandboxed("exit 1")
    assert (done.exit_code, "filter of system calls" in done.error) == (None, True), (
        done
    )


@needs_sandbox
async def test_tmp_lasts_from_command_to_command_and_is_private(
    sandboxed: SandboxedWorkspace,
) -> None:
    mine = Path(f"/tmp/goal-test-{os.getpid()}")
    await sandboxed(f"echo kept > {mine}; echo x > /var/tmp/y")
    assert (await sandboxed(f"cat {mine}")).exit_code == 0
    assert not mine.exists()
    assert (await sandboxed("ls /var/tmp/y")).exit_code != 0


@needs_sandbox
async def test_what_is_shared_is_there_and_the_rest_of_its_folder_is_not(
    sandboxed: SandboxedWorkspace,
) -> None:
    scratch = sandboxed.home / "runs" / "r1"
    (scratch / "given").write_text("for the check\n")
    (scratch / "answers").mkdir()
    line = f"cat {scratch}/given; echo done > {scratch}/answers/one; ls {scratch}"
    assert (
        await sandboxed(line, shared=(scratch / "given", scratch / "answers"))
    ).exit_code == 0
    assert sandboxed.said == "for the check\nanswers\ngiven\n"
    assert (scratch / "answers" / "one").read_text() == "done\n"


@needs_sandbox
async def test_a_room_in_what_is_hidden_is_in_view_and_sees_the_workspace_without_writing_it(
    sandboxed: SandboxedWorkspace,
) -> None:
    root = sandboxed.home / "checkouts" / "now"
    root.mkdir(parents=True)
    (sandboxed.workspace / "installed").write_text("linked\n")
    both = (
        WritableRoot(root, sees=(sandboxed.workspace,)),
        WritableRoot(sandboxed.workspace),
    )
    launcher = _in(sandboxed, roots=both)
    line = f"echo x > here; cat {sandboxed.workspace}/installed; echo x > {sandboxed.workspace}/new; ls {sandboxed.home}"
    await launcher.launch(
        ["/bin/sh", "-c", line], cwd=root, env=sandboxed.env, output=sandboxed.output
    )
    assert (root / "here").exists()
    assert not (sandboxed.workspace / "new").exists()
    assert sandboxed.said.startswith("linked\n")
    assert sandboxed.said.endswith("\ncheckouts\n")


@needs_sandbox
async def test_a_command_that_starts_in_no_room_writes_nothing(
    sandboxed: SandboxedWorkspace,
) -> None:
    other = sandboxed.root / "other"
    other.mkdir()
    done = await sandboxed.launch(["/bin/sh", "-c", "pwd; echo x > new"], cwd=other)
    assert (done.exit_code != 0, list(other.iterdir())) == (True, [])


@needs_sandbox
async def test_a_home_of_its_own_holds_what_was_shown_of_the_real_one(
    sandboxed: SandboxedWorkspace,
) -> None:
    agent_home = sandboxed.home / "agent-home"
    (sandboxed.user / ".agent").mkdir()
    (sandboxed.user / ".agent.json").write_text("{}")
    (sandboxed.user / "private").write_text("x")
    within = Confinement(
        hidden=(sandboxed.home,),
        writable=(sandboxed.user / ".agent", sandboxed.user / ".agent.json"),
        readable=(
            sandboxed.user / ".gitconfig",
            *sandboxed.policy.within.readable[:-1],
        ),
        home=(sandboxed.user, agent_home),
    )
    launcher = _in(sandboxed, within=within)

    async def run(line: str) -> str:
        await launcher.launch(
            ["/bin/sh", "-c", line],
            cwd=sandboxed.workspace,
            env=sandboxed.env,
            output=sandboxed.output,
        )
        return sandboxed.said

    assert (
        await run("cd; ls -A; git config user.name")
        == ".agent\n.agent.json\n.gitconfig\nAda\n"
    )
    await run(
        "cd; echo in > .agent/login; echo 2 > .agent.json; echo mine > .bashrc; echo x >> .gitconfig; rm -r .agent"
    )
    assert (sandboxed.user / ".agent" / "login").exists() is False
    assert (sandboxed.user / ".agent.json").read_text() == "2\n"
    assert not (sandboxed.user / ".bashrc").exists()
    assert "mine" in await run("cat ~/.bashrc")
    # A name that it makes a link does not lead the next one elsewhere.
    (agent_home / ".agent").rmdir()
    (agent_home / ".agent").symlink_to(sandboxed.user)
    assert await run("ls -A ~/.agent; ls ~/private") != "private"
    assert not (agent_home / ".agent").is_symlink()


@needs_sandbox
async def test_stderr_in_a_file_of_its_own_and_stdin_pass_through(
    sandboxed: SandboxedWorkspace,
) -> None:
    errors = sandboxed.root / "errors"
    await _in(sandboxed).launch(
        ["/bin/sh", "-c", "cat; echo bad >&2"],
        cwd=sandboxed.workspace,
        env=sandboxed.env,
        output=sandboxed.output,
        errors=errors,
        stdin=b"given",
    )
    assert (sandboxed.said, errors.read_text()) == ("given", "bad\n")


def test_where_there_is_no_bwrap_it_says_what_to_install(tmp_path: Path) -> None:
    choice = choose({"PATH": str(tmp_path)}, ())
    assert choice.sandbox is None
    if sys.platform == "linux":
        assert (choice.why, "install bubblewrap" in choice.remedy) == (
            "bwrap is not on PATH",
            True,
        )


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is Linux's")
def test_a_bwrap_that_does_not_work_says_its_own_words(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    choice = choose({"PATH": str(tmp_path)}, ())
    assert (choice.sandbox, "setting up uid map: Permission denied" in choice.why) == (
        None,
        True,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is Linux's")
def test_a_bwrap_that_confines_nothing_is_no_sandbox(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text(
        '#!/bin/sh\nwhile [ "$1" != -- ]; do [ "$1" = --chdir ] && cd "$2"; shift; done; shift; exec "$@"\n'
    )
    program.chmod(0o755)
    choice = choose({"PATH": f"{tmp_path}:{os.environ['PATH']}"}, ())
    assert (
        choice.sandbox,
        "write read-only folders" in choice.why or "exit 1" in choice.why,
    ) == (None, True)


def test_the_sandbox_itself_is_never_asked_for_a_terminal_nor_told_to_kill_silently() -> (
    None
):
    words = Bubblewrap(Path("/usr/bin/bwrap")).confine(
        ["true"], cwd=Path("/"), within=Confinement(network=False)
    )
    assert "--unshare-net" in words
    assert "--die-with-parent" not in words
    assert words[-2:] == ("--", "true")


@needs_sandbox
@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"),
    reason="only root can become another user",
)
def test_an_ordinary_user_has_the_same_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = 65534
    folder = Path(tempfile.mkdtemp(prefix="goal-nobody-", dir="/var/tmp"))
    try:
        for name in ("ws", "home", "home/tmp"):
            (folder / name).mkdir()
        (folder / "home" / "secret").write_text("the secret\n")
        for path in (folder, *folder.rglob("*")):
            os.chown(path, nobody, nobody)
        monkeypatch.setattr(os, "geteuid", lambda: nobody)
        # The filter of system calls is an open file of this process, which no other user may read.
        monkeypatch.setattr(bubblewrap, "filter_path", lambda: "")
        within = Confinement(
            hidden=(folder / "home",),
            writable=(folder / "ws",),
            tmp=folder / "home" / "tmp",
        )
        tries = f"cat {folder}/home/secret; unshare -Urm umount {folder}/home; echo x > {folder}/new"
        line = f"id -u; echo x > made; echo y > /tmp/kept; {tries}"
        program = Path(shutil.which("bwrap") or "bwrap")
        words = Bubblewrap(program).confine(
            ["/bin/sh", "-c", line], cwd=folder / "ws", within=within
        )
        become = ["setpriv", f"--reuid={nobody}", f"--regid={nobody}", "--clear-groups"]
        done = subprocess.run(
            [*become, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
            cwd="/",
        )
        assert (done.stdout, (folder / "ws" / "made").exists()) == (
            f"{nobody}\n",
            True,
        ), done
        assert ((folder / "home/tmp/kept").exists(), (folder / "new").exists()) == (
            True,
            False,
        )
    finally:
        shutil.rmtree(folder)


@needs_sandbox
async def test_who_is_talked_to_is_in_the_sandbox_as_well(
    sandboxed: SandboxedWorkspace,
) -> None:
    connector = ProcessConnector(policy=sandboxed.policy)
    left = "setsid sh -c 'echo > up; exec sleep 7601' & until [ -e up ]; do :; done"
    line = f"read word; cat {sandboxed.home}/runs/r1/events.jsonl; {left}; echo $word; read word; echo $word"
    errors = sandboxed.root / "errors"
    async with connector.connect(
        ["/bin/sh", "-c", line],
        cwd=sandboxed.workspace,
        env=sandboxed.env,
        errors=errors,
    ) as one:
        one.mark()
        await one.write(b"hello\n")
        assert await one.read() == b"hello\n"
        assert len(await one.sweep()) == 1
        await one.write(b"still there\n")
        assert await one.read() == b"still there\n"
    assert "No such file" in errors.read_text()
    with pytest.raises(AgentNotInstalled, match="nosuch: not found"):
        async with connector.connect(
            ["nosuch"], cwd=sandboxed.workspace, env=sandboxed.env, errors=errors
        ):
            pass
