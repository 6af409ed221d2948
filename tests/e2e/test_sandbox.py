"""Runs in a sandbox, from the goal file to the outcome: what is chosen, said and refused, and what an agent tries in one."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.events import RunStarted
from goalrunner.records.event_log import read_records
from tests.support.acp_bench import PROGRAM
from tests.support.command_line import GOAL, Ended, only_run, outcome_of
from tests.support.forking import goal
from tests.support.recordings import agent, recording, shell
from tests.support.sandboxes import needs_sandbox
from tests.support.workspaces import git

"""Beside the default run, which tries the sandbox itself and what it is for."""


def goal_file(
    place: Path,
    model: str,
    workspace: str,
    validator: str = "test -e done",
    extra: str = "",
) -> Path:
    path = place.parent / "goal.toml"
    path.write_text(
        f"objective = \"make done\"\nmodel = \"{model}\"\nvalidator = '''{validator}'''\nmax_iterations = 1\n"
        f'[workspace]\npath = "{place}"\n{workspace}\n{extra}\n'
    )
    return path


def drive(
    place: Path, *commands: str, workspace: str = 'sandbox = "bwrap"', **more: str
) -> Ended:
    """A run whose agent runs these commands, one after another."""
    env = {name: more.pop(name) for name in list(more) if name.isupper()}
    replies = (*(agent("", shell(command)) for command in commands), agent("made it"))
    return goal(
        "run",
        goal_file(
            place, recording(place.parent / "r.jsonl", *replies), workspace, **more
        ),
        cwd=place,
        env=env,
    )


def started(home: Path) -> RunStarted:
    return next(
        record.event
        for record in read_records(only_run(home) / "events.jsonl")
        if isinstance(record.event, RunStarted)
    )


def outputs(home: Path) -> str:
    """Everything that commands printed."""
    return "".join(
        path.read_text()
        for path in sorted((only_run(home) / "artifacts").rglob("*"))
        if path.is_file()
    )


@needs_sandbox
def test_an_honest_run_is_proven_in_the_sandbox(place: Path, own_home: Path) -> None:
    (place / "test_it.py").write_text(
        "from pathlib import Path\n\ndef test_it(tmp_path):\n    assert Path('done').exists()\n"
    )
    validator = f"{sys.executable} -m pytest -q -p no:cacheprovider && test -r $GOAL_RESPONSE_FILE"
    ended = drive(
        place,
        "echo x > /tmp/x",
        "mv /tmp/x done",
        workspace='sandbox = "auto"',
        validator=validator,
    )
    assert ended.code == 0, ended
    assert "sandbox: bwrap" in ended.out
    assert started(own_home).sandbox == "bwrap"
    assert list((own_home / "tmp").iterdir()) == []


@needs_sandbox
def test_a_python_validator_and_a_pattern_work_in_the_sandbox(
    place: Path, own_home: Path
) -> None:
    (place / "checks.py").write_text(
        "from pathlib import Path\ndef made(response, agent): return Path('done').exists()\n"
    )
    extra = '[[validators]]\npython = "checks:made"\n[[validators]]\nrun = "cat done"\nexpect = { output = "^o.e$" }\n'
    path = goal_file(
        place,
        recording(
            place.parent / "r.jsonl",
            agent("", shell("echo one > done")),
            agent("made it"),
        ),
        "",
    )
    text = path.read_text().replace("validator = '''test -e done'''\n", "")
    path.write_text(
        text.replace("[workspace]", '[workspace]\nsandbox = "bwrap"\nnetwork = false')
        + extra
    )
    ended = goal("run", path, cwd=place)
    assert ended.code == 0, ended
    assert "no network" in ended.out


@needs_sandbox
def test_goal_approve_from_inside_does_not_reach_the_run(
    place: Path, own_home: Path
) -> None:
    """A command that waits is approved by the one before it, in vain; what a person approves from outside is guarded."""
    words = " ".join(GOAL)
    tries = [
        f"GOAL_HOME={own_home} {words} approve {way}; {words} list; ls {own_home}"
        for way in ("", "a1")
    ]
    replies = (
        agent("", *(shell(one) for one in tries)),
        agent("", shell("touch done")),
        agent("made it"),
    )
    model = recording(place.parent / "r.jsonl", *replies)
    path = goal_file(
        place, model, 'sandbox = "bwrap"', extra='[approvals]\ncommands = ["touch *"]'
    )
    ended = goal("run", path, cwd=place)
    assert (ended.code, outcome_of(own_home)["stop_reason"]) == (
        3,
        "approval_required",
    ), ended
    run = only_run(own_home).name
    assert run not in outputs(own_home)
    assert goal("approve", run, cwd=place).code == 0
    assert goal("resume", run, cwd=place).code == 0
    outcome = outcome_of(own_home)
    assert (
        "unguarded approval" in outcome["labels"],
        outcome["approvals"][0]["guarded"],
    ) == (False, True)


def test_without_a_sandbox_an_approval_from_elsewhere_stays_unguarded(
    place: Path, own_home: Path
) -> None:
    model = recording(
        place.parent / "r.jsonl", agent("", shell("touch done")), agent("made it")
    )
    path = goal_file(place, model, "", extra='[approvals]\nrequire = ["shell"]')
    assert goal("run", path, cwd=place).code == 3
    assert goal("approve", only_run(own_home).name, cwd=place).code == 0
    assert "unguarded approval" in outcome_of(own_home)["labels"]


@needs_sandbox
def test_a_run_that_was_once_outside_of_a_sandbox_is_unguarded(
    place: Path, own_home: Path
) -> None:
    model = recording(
        place.parent / "r.jsonl",
        agent("", shell("true")),
        agent("", shell("touch done")),
        agent("made it"),
    )
    path = goal_file(
        place, model, 'sandbox = "auto"', extra='[approvals]\ncommands = ["touch *"]'
    )
    without = {"PATH": str(_programs_without_bwrap(place.parent))}
    assert goal("run", path, cwd=place, env=without).code == 3
    run = only_run(own_home).name
    ended = goal("resume", run, cwd=place)
    assert (ended.code, "sandbox: bwrap" in ended.out) == (3, True), ended
    assert goal("approve", run, cwd=place).code == 0
    assert "unguarded approval" in outcome_of(own_home)["labels"]


@needs_sandbox
def test_a_run_that_goes_on_without_its_sandbox_says_so(
    place: Path, own_home: Path
) -> None:
    model = recording(
        place.parent / "r.jsonl", agent("", shell("touch done")), agent("made it")
    )
    path = goal_file(
        place, model, 'sandbox = "auto"', extra='[approvals]\ncommands = ["touch *"]'
    )
    assert goal("run", path, cwd=place).code == 3
    without = {"PATH": str(_programs_without_bwrap(place.parent))}

    ended = goal("resume", only_run(own_home).name, cwd=place, env=without)

    assert (ended.code, "no sandbox: bwrap is not on PATH" in ended.out) == (3, True), (
        ended
    )


USERS_OWN = """
argv = ["x"]
stream = "json"
install = "the secret"
[[rules]]
kind = "text"
fields = { text = "message.text" }
"""


@needs_sandbox
def test_neither_keys_nor_logins_nor_the_home_of_goal_are_seen(
    place: Path, own_home: Path, tmp_path: Path
) -> None:
    user = tmp_path / "user"
    for name in (
        ".ssh/id_ed25519",
        ".claude.json",
        ".codex/auth.json",
        ".config/goal/agents/x.toml",
    ):
        (user / name).parent.mkdir(parents=True, exist_ok=True)
        (user / name).write_text(USERS_OWN if name.endswith("toml") else "the secret\n")
    look = f"cat ~/.ssh/* ~/.claude.json ~/.codex/* ~/.config/goal/agents/*; ls -AR {own_home} $HOME/.local/state/goal; env"
    procs = "cat /proc/[0-9]*/environ | tr '\\0' '\\n'"
    ended = drive(
        place, look, procs, "touch done", validator=f"{look}; {procs}; test -e done",
        HOME=str(user), ANTHROPIC_API_KEY="sk-ant-the-key", SSH_AUTH_SOCK="/tmp/agent.9",
    )  # fmt: skip
    assert ended.code == 0, ended
    seen = outputs(own_home)
    assert (
        "the secret" in seen,
        "sk-ant-the-key" in seen,
        "agent.9" in seen,
        "events" in seen,
    ) == (False,) * 4


@needs_sandbox
def test_what_cannot_be_hidden_because_it_cannot_be_read_is_refused_before_anything_is_written(
    place: Path, own_home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "user/.config/goal/agents/broken.toml"
    file.parent.mkdir(parents=True)
    file.write_text("argv = 'x'\n")
    ended = drive(place, "touch done", HOME=str(tmp_path / "user"), XDG_CONFIG_HOME="")
    assert (
        ended.code,
        f"{file}:1:8  argv must be a list" in ended.err,
        "correct that file" in ended.err,
    ) == (
        2,
        True,
        True,
    )
    assert not (own_home / "runs").exists()
    assert (
        drive(
            place,
            "touch done",
            workspace="",
            HOME=str(tmp_path / "user"),
            XDG_CONFIG_HOME="",
        ).code
        == 0
    )


@needs_sandbox
def test_the_agent_cannot_write_what_the_checks_have_as_tmp(
    place: Path, own_home: Path
) -> None:
    ended = drive(
        place,
        "echo planted > /tmp/planted; touch done",
        validator="test ! -e /tmp/planted && test -e done",
    )
    assert ended.code == 0, ended


@needs_sandbox
def test_a_home_that_commands_would_write_has_no_sandbox(place: Path) -> None:
    env = {"HOME": str(place)}
    ended = drive(place, "touch done", workspace='sandbox = "bwrap"', **env)
    assert (
        ended.code,
        "your home folder" in ended.err,
        "--workspace" in ended.err,
    ) == (2, True, True), ended
    ended = drive(place, "touch done", workspace='sandbox = "auto"', **env)
    assert (ended.code, "no sandbox" in ended.out) == (0, True), ended


def _programs_without_bwrap(folder: Path) -> Path:
    """A PATH with every program but bwrap."""
    made = folder / "programs"
    made.mkdir()
    for entry in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(entry).glob("*"):
            (made / program.name).unlink(missing_ok=True)
            (made / program.name).symlink_to(program)
    (made / "bwrap").unlink(missing_ok=True)
    return made


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is Linux's")
def test_without_bwrap_auto_goes_on_and_says_so_and_what_insists_is_refused(
    place: Path, own_home: Path
) -> None:
    path = str(_programs_without_bwrap(place.parent))
    ended = goal(
        "run", goal_file(place, recording(place.parent / "r.jsonl", agent("", shell("touch done")), agent("done")), ""),
        cwd=place, env={"PATH": path},
    )  # fmt: skip
    assert (ended.code, "sandbox" in ended.out) == (0, False), ended
    for wish, code, said in (
        ('sandbox = "auto"', 0, "install bubblewrap"),
        ('sandbox = "bwrap"', 2, "install bubblewrap"),
        ('sandbox = "auto"\nnetwork = false', 2, "remove network = false"),
        ("network = false", 2, 'sandbox = "auto"'),
    ):
        ended = drive(place, "touch done", workspace=wish, PATH=path)
        assert (ended.code, said in f"{ended.out}{ended.err}") == (code, True), ended


SANDBOXES = [pytest.param("bwrap", marks=needs_sandbox), "none"]


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_hooks_of_the_repository_never_run_for_the_runner(
    place: Path, own_home: Path, sandbox: str
) -> None:
    git(place, "init", "-q", "-b", "main")
    names = "pre-commit post-checkout post-index-change post-commit reference-transaction fsmonitor-watchman"
    plant = (
        f"for n in {names}; do printf '#!/bin/sh\\ntouch {place}/hooked-'$n'\\n' > .git/hooks/$n; done; chmod +x .git/hooks/*;"
        "git config core.hooksPath .git/hooks; git config core.fsmonitor .git/hooks/fsmonitor-watchman; touch done"
    )
    ended = drive(place, plant, workspace=f'sandbox = "{sandbox}"')
    assert (ended.code, [path.name for path in place.glob("hooked-*")]) == (0, []), (
        ended
    )


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_programs_of_the_workspace_are_never_the_runners(
    place: Path, own_home: Path, sandbox: str
) -> None:
    """PATH begins in the workspace, where the agent puts a sh, a git, a bwrap and a python3."""
    (place / "bin").mkdir()
    script = "'#!/bin/sh\\ntouch ../pwned '$PWD'/pwned\\nexit 0\\n'"
    plant = f"for n in sh git bwrap; do printf {script} > bin/$n; chmod +x bin/$n; done"
    ended = drive(
        place, plant, "true", "true", workspace=f'sandbox = "{sandbox}"',
        PATH=f"{place / 'bin'}:./bin:{os.environ['PATH']}",
    )  # fmt: skip
    # The validator fails, because `done` was not made; a planted sh would have let it pass.
    assert (
        ended.code,
        (place / "pwned").exists(),
        (place.parent / "pwned").exists(),
    ) == (1, False, False), ended


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_a_planted_env_file_never_redirects_the_runner(
    place: Path, own_home: Path, sandbox: str
) -> None:
    """The models' library would read a `.env` of the folder that it is started in."""
    plant = "printf 'OPENAI_BASE_URL=http://127.0.0.1:9\\nGOAL_MODEL=scripted/x\\nPLANTED=1\\n' > .env; touch done"
    ended = drive(
        place,
        plant,
        workspace=f'sandbox = "{sandbox}"',
        validator='test -e done && test -z "$PLANTED"',
    )
    assert ended.code == 0, ended


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_file_tools_follow_no_link_that_a_command_made(
    place: Path, own_home: Path, sandbox: str
) -> None:
    def call(name: str, **arguments: str) -> dict[str, Any]:
        return {"name": name, "arguments": arguments}

    secret = own_home / "secret"
    secret.write_text("the secret of goal\n")
    tools = (
        shell(
            f"ln -s {own_home} home; ln -s {secret} file; ln -s /proc/self/root root; touch done"
        ),
        call("read_file", path="home/secret"),
        call("read_file", path="file"),
        call("read_file", path=f"root{secret}"),
        call("write_file", path="home/new", content="x"),
        call("write_file", path="file", content="x"),
        call("edit_file", path="file", old="secret", new="x"),
    )
    model = recording(place.parent / "r.jsonl", agent("", *tools), agent("made it"))
    ended = goal("run", goal_file(place, model, f'sandbox = "{sandbox}"'), cwd=place)
    assert ended.code == 0, ended
    assert (secret.read_text(), (own_home / "new").exists()) == (
        "the secret of goal\n",
        False,
    )
    assert "the secret of goal" not in outputs(own_home)
    assert (
        "outside the workspace" in (only_run(own_home) / "transcript.jsonl").read_text()
    )


@needs_sandbox
def test_an_external_agent_has_a_home_of_its_own_with_its_login_alone(
    place: Path, own_home: Path, tmp_path: Path
) -> None:
    """It renews its login, keeps a file of its own from round to round, and sees nothing else of the user's."""
    user = tmp_path / "user"
    for name in (
        ".mine/login",
        ".claude.json",
        ".ssh/id_ed25519",
        "letters",
        "bin/helper",
    ):
        (user / name).parent.mkdir(parents=True, exist_ok=True)
        (user / name).write_text(
            "#!/bin/sh\necho helped\n"
            if name == "bin/helper"
            else f"of the user: {name}\n"
        )
    (user / "bin/helper").chmod(0o755)
    script = user / "bin" / "agent.sh"
    script.write_text(
        f"cat $1; helper; ls -A ~ {own_home}; cat ~/letters ~/.claude.json ~/.ssh/*; echo renewed > ~/.mine/login\n"
        "echo x > ~/letters; cat ~/.kept; echo kept > ~/.kept; [ -e began ] && touch done; touch began; env\n"
    )
    path = tmp_path / "goal.toml"
    path.write_text(
        f'objective = "make done"\nvalidator = "test -e done"\nmax_iterations = 2\n'
        f'[agent]\nuse = "mine"\n[agents.mine]\nargv = ["sh", "{script}", "{{prompt_file}}"]\nhome = [".mine"]\n'
        f'[workspace]\npath = "{place}"\nsandbox = "bwrap"\n'
    )
    env = {
        "HOME": str(user),
        "PATH": f"{user / 'bin'}:{os.environ['PATH']}",
        "ANTHROPIC_API_KEY": "sk-ant-the-key",
    }
    ended = goal("run", path, cwd=place, env=env)
    assert ended.code == 0, ended
    assert started(own_home).sandbox == "bwrap"
    said = outputs(own_home) + (only_run(own_home) / "transcript.jsonl").read_text()
    assert (user / ".mine" / "login").read_text() == "renewed\n"
    assert (user / "letters").read_text() == "of the user: letters\n"
    assert ("make done" in said, "helped" in said, "kept" in said) == (
        True,
        True,
        True,
    ), said
    assert ("of the user" in said, "sk-ant" in said, "events" in said) == (
        False,
        False,
        False,
    ), said


@needs_sandbox
def test_an_agent_that_speaks_acp_is_in_the_sandbox(
    place: Path, own_home: Path, tmp_path: Path
) -> None:
    user = tmp_path / "user"
    (user / ".ssh").mkdir(parents=True)
    (user / "letters").write_text("of the user\n")
    shutil.copy(PROGRAM, place / "agent.py")
    tries = f"cat ~/letters; ls -A ~ {own_home}; env; touch done"
    (place / "script.json").write_text(
        json.dumps({"prompts": [[["shell", tries], ["say", "made it"]]]})
    )
    path = tmp_path / "goal.toml"
    path.write_text(
        f'objective = "make done"\nvalidator = "test -e done"\nmax_iterations = 1\n[agent]\nuse = "acp"\n'
        f'command = ["{sys.executable}", "agent.py", "script.json"]\n[workspace]\npath = "{place}"\nsandbox = "bwrap"\n'
    )
    ended = goal(
        "run",
        path,
        cwd=place,
        env={"HOME": str(user), "ANTHROPIC_API_KEY": "sk-ant-the-key"},
    )
    assert ended.code == 0, ended
    said = outputs(own_home) + (only_run(own_home) / "transcript.jsonl").read_text()
    assert "XDG_CACHE_HOME=/tmp/.cache" in said, said
    assert ("of the user" in said, "sk-ant" in said, "events" in said) == (
        False,
        False,
        False,
    ), said


@needs_sandbox
def test_without_network_an_external_agent_keeps_it_and_that_is_said(
    place: Path, own_home: Path, tmp_path: Path
) -> None:
    net = "readlink /proc/self/ns/net"
    path = tmp_path / "goal.toml"
    path.write_text(
        f'objective = "make done"\nvalidator = "{net}; test -e done"\nmax_iterations = 1\n'
        f"[agent]\nuse = \"command\"\ncommand = ['sh', '-c', '{net}; touch done']\n"
        f'[workspace]\npath = "{place}"\nsandbox = "bwrap"\nnetwork = false\n'
    )
    ended = goal("run", path, cwd=place)
    assert (
        ended.code,
        "applies only to the validators: command must reach its model" in ended.out,
    ) == (0, True), ended
    own = str(Path("/proc/self/ns/net").readlink())
    said = outputs(own_home) + (only_run(own_home) / "transcript.jsonl").read_text()
    assert own in said
    assert (
        len(
            {
                word
                for word in said.replace("\\n", " ").replace('"', " ").split()
                if word.startswith("net:[")
            }
        )
        > 1
    )


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_an_agent_is_told_that_it_is_in_a_sandbox_where_it_is_in_one(
    place: Path, own_home: Path, tmp_path: Path, sandbox: str
) -> None:
    path = tmp_path / "goal.toml"
    path.write_text(
        f'objective = "make done"\nvalidator = "test -e done"\nmax_iterations = 1\nagent = "mine"\n'
        f"[agents.mine]\nargv = ['sh', '-c', 'echo \"[$BOXED]\" > done']\nsandbox_env = {{ BOXED = \"yes\" }}\n"
        f'[workspace]\npath = "{place}"\nsandbox = "{sandbox}"\n'
    )
    ended = goal("run", path, cwd=place)
    assert ended.code == 0, ended
    assert (place / "done").read_text() == ("[yes]\n" if sandbox == "bwrap" else "[]\n")


@needs_sandbox
@pytest.mark.parametrize(
    "had", [True, False], ids=["there before", "made by the agent"]
)
def test_a_program_in_the_home_of_an_agent_is_none_of_the_checks(
    place: Path, own_home: Path, tmp_path: Path, had: bool
) -> None:
    """PATH begins in ~/.local/bin, where the agent puts a grep that is content with everything."""
    user = tmp_path / "user"
    (user / ".local/bin" if had else user).mkdir(parents=True)
    plant = "mkdir -p ~/.local/bin; printf '#!/bin/sh\\n' > ~/.local/bin/grep; chmod +x ~/.local/bin/grep; echo 1 > done"
    path = tmp_path / "goal.toml"
    path.write_text(
        f'objective = "make done hold a 3"\nvalidator = "grep -q 3 done"\nmax_iterations = 1\n'
        f'[agent]\nuse = "command"\ncommand = ["sh", "-c", "{plant}"]\n[workspace]\npath = "{place}"\nsandbox = "bwrap"\n'
    )
    env = {"HOME": str(user), "PATH": f"{user / '.local/bin'}:{os.environ['PATH']}"}
    ended = goal("run", path, cwd=place, env=env)
    assert (ended.code, (place / "done").read_text()) == (1, "1\n"), ended
    assert not (user / ".local/bin/grep").exists()
