"""What prevents the use of an agent is found, with the command that helps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from goalrunner.app.agent_findings import Finding, sign_in_finding
from goalrunner.app.doctor import Diagnosis, examine
from goalrunner.core.agent_preset import Preset
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AgentConfig, WorkspaceConfig
from goalrunner.goalfile.agents import preset_of_text
from tests.support.fake_provider import FakeProvider, run, say
from tests.support.programs import ASKING_PRESET, Programs, asking, asking_acp

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

ASKING = AgentConfig(use="asking")
PRESET = preset_of_text(ASKING_PRESET, "asking.toml")
SCRIPT = (run("printf 'it works' > goal-doctor.txt"), say("Done."))


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.setattr(
        "tempfile.tempdir", str(tmp_path)
    )  # the folder of a failed round is kept
    return Programs.new(tmp_path)


def diagnosis(
    programs: Programs,
    agent: AgentConfig = ASKING,
    preset: Preset = PRESET,
    *,
    with_round: bool = False,
    sandbox: str = "none",
    **environ: str,
) -> Diagnosis:
    workspace = programs.root / "workspace"
    workspace.mkdir(exist_ok=True)
    place = WorkspaceConfig.model_validate({"path": str(workspace), "sandbox": sandbox})
    goal = Goal(
        objective="x",
        agent=agent,
        workspace=place,
        agents={} if agent.use in ("builtin", "command") else {agent.use: preset},
    )
    return examine(goal, {**programs.environ, **environ}, with_round=with_round)


def check(found: Diagnosis, name: str) -> Finding:
    (one,) = (check for check in found.checks if check.name == name)
    return one


def test_an_agent_that_works_can_be_used(programs: Programs) -> None:
    programs.python("asking", asking())
    found = diagnosis(programs, ASKING_KEY="the-real-one")
    assert found.usable
    assert check(found, "program").message == str(programs.bin / "asking")
    assert check(found, "version").message == "3.2.1"
    assert check(found, "sign-in") == Finding("sign-in", "good", "ASKING_KEY is set")
    assert check(found, "ACP") == Finding("ACP", "note", "asking-acp is not on PATH")
    assert "round" not in {one.name for one in found.checks}
    assert found.used is None


def tried(
    programs: Programs,
    agent: AgentConfig = ASKING,
    preset: Preset = PRESET,
    **options: Any,
) -> Diagnosis:
    """The diagnosis with a real round, whose model is a scripted server."""
    with FakeProvider(SCRIPT) as server:
        url = server.base_url("openai")
        settings = programs.home / ".asking/settings.json"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(json.dumps({"address": url}))
        found = diagnosis(
            programs,
            agent,
            preset,
            with_round=True,
            ASKING_KEY="the-key",
            ASKING_URL=url,
            **options,
        )
        assert {one.key for one in server.requests} <= {"the-key"}
    return found


def test_a_real_round_creates_a_file_in_a_temporary_folder_and_its_usage_is_known(
    programs: Programs,
) -> None:
    seen = programs.root / "seen"
    programs.python("asking", asking(effect=f"pwd >> {seen}; "))
    found = tried(programs)
    assert found.usable, found
    assert check(found, "round").message.startswith("the agent created a file in ")
    assert found.used is not None
    assert found.used.tokens == 30
    folder = Path(seen.read_text().strip())
    assert folder.name == "workspace"
    assert not folder.exists()
    assert not list((programs.root / "workspace").iterdir())


def test_a_program_that_is_missing_is_reported_with_how_to_install_it(
    programs: Programs,
) -> None:
    found = diagnosis(programs, ASKING_KEY="x")
    assert not found.usable
    assert check(found, "program") == Finding(
        "program",
        "bad",
        "the agent asking cannot be started: asking: not found",
        "apt install asking",
    )
    assert "version" not in {check.name for check in found.checks}


def test_a_login_file_is_as_good_as_a_key(programs: Programs) -> None:
    programs.python("asking", asking())
    (programs.home / ".asking").mkdir()
    (programs.home / ".asking/login.json").write_text("{}")
    assert check(diagnosis(programs), "sign-in") == Finding(
        "sign-in", "good", "~/.asking/login.json exists"
    )


@pytest.mark.parametrize(("platform", "state"), [("linux", "bad"), ("darwin", "note")])
def test_neither_key_nor_login_stands_in_the_way_unless_there_is_a_keychain(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, platform: str, state: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    found = sign_in_finding("asking", PRESET, {**programs.environ, "ASKING_KEY": "  "})
    assert (found.state, found.hint) == (state, "run asking login")
    start = (
        "asking is not signed in"
        if state == "bad"
        else "no sign-in of asking was found"
    )
    assert found.message.startswith(
        f"{start}: ASKING_KEY is not set, and there is no ~/.asking/login.json"
    )


@pytest.mark.parametrize(
    "added", [{"args": ("--provider", "mine")}, {"env": {"ASK_ANOTHER": "1"}}]
)
def test_what_the_goal_adds_may_sign_it_in(
    programs: Programs, added: dict[str, Any]
) -> None:
    programs.python("asking", asking())
    found = check(diagnosis(programs, AgentConfig(use="asking", **added)), "sign-in")
    assert (found.state, found.hint) == ("note", "run asking login")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (asking(effect="false && "), "the agent did not create the file"),
        (
            asking().replace('"type": "turn.completed"', '"type": "cost"'),
            "the file was created, but the agent reported no tokens",
        ),
    ],
)
def test_a_round_that_lacks_something_is_a_problem(
    programs: Programs, script: str, message: str
) -> None:
    programs.python("asking", script)
    found = check(tried(programs), "round")
    assert (found.state, found.message) == ("bad", message)
    assert found.hint


def test_an_agent_that_fails_is_quoted(programs: Programs) -> None:
    programs.shell("asking", "echo 'no such option' >&2; exit 2")
    found = check(tried(programs), "round")
    assert found.state == "bad"
    assert "no such option" in f"{found.message}\n{found.hint}"


def test_no_round_is_run_while_another_check_fails(programs: Programs) -> None:
    seen = programs.root / "seen"
    programs.python("asking", asking(effect=f"touch {seen}; "))
    found = diagnosis(programs, with_round=True)
    assert (found.usable, found.used) == (False, None)
    assert not seen.exists()


def test_an_agent_without_keys_and_logins_is_a_note(programs: Programs) -> None:
    programs.shell("plain", "touch tried")
    found = diagnosis(programs, AgentConfig(use="plain"), Preset(argv=("plain",)))
    assert found.usable
    assert check(found, "sign-in").state == "note"
    assert not (programs.root / "workspace/tried").exists()


def test_a_command_of_the_goal_is_looked_for_and_runs_in_a_real_round_only(
    programs: Programs,
) -> None:
    config = AgentConfig(use="command", command=("./work.sh",))
    assert check(diagnosis(programs, config, Preset()), "program") == Finding(
        "program",
        "bad",
        "the agent command cannot be started: ./work.sh: not found",
        "install it, or correct [agent] command; a relative path begins at the workspace",
    )
    script = programs.root / "workspace/work.sh"
    script.write_text("#!/bin/sh\nprintf 'it works' > goal-doctor.txt\n")
    script.chmod(0o755)
    assert diagnosis(programs, config, Preset()).usable
    found = tried(programs, config, Preset())
    assert found.usable, found
    assert [path.name for path in script.parent.iterdir()] == ["work.sh"]


def test_without_git_no_agent_can_be_used(programs: Programs) -> None:
    programs.shell("plain", "")
    found = diagnosis(
        programs,
        AgentConfig(use="plain"),
        Preset(argv=("plain",)),
        PATH=str(programs.bin),
    )
    assert not found.usable
    assert check(found, "git").hint == "install git"


def test_a_sandbox_is_needed_only_where_the_goal_insists_on_one(
    programs: Programs,
) -> None:
    programs.shell("plain", "")
    agent, preset = AgentConfig(use="plain"), Preset(argv=("plain",))
    for wanted, state in (("none", "note"), ("auto", "note"), ("bwrap", "bad")):
        workspace = WorkspaceConfig.model_validate(
            {"path": str(programs.root), "sandbox": wanted}
        )
        goal = Goal(
            objective="x", agent=agent, workspace=workspace, agents={"plain": preset}
        )
        found = examine(goal, {**programs.environ, "PATH": str(programs.bin)})
        assert check(found, "sandbox").state == state


def test_the_built_in_agent_needs_a_model_that_can_be_asked(programs: Programs) -> None:
    assert check(diagnosis(programs, AgentConfig(), Preset()), "model") == Finding(
        "model",
        "bad",
        "neither an agent nor a model is set",
        'name an agent, such as agent = "claude" (goal agents lists them), or a model of'
        ' the built-in agent: model = "provider/name"',
    )
    missing = check(
        diagnosis(
            programs, AgentConfig(model="openai/x", api_key_env="NO_KEY"), Preset()
        ),
        "model",
    )
    assert missing.state == "bad"
    assert missing.hint == "export NO_KEY=..."


def test_the_built_in_agent_is_tried_with_its_own_model(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, usable in (("right", True), ("wrong", False)):
        monkeypatch.setenv("CHAT_KEY", key)
        with FakeProvider(SCRIPT, api_key="right") as server:
            config = AgentConfig(
                model="openai/m",
                api_base=server.base_url("openai"),
                api_key_env="CHAT_KEY",
            )
            found = diagnosis(programs, config, Preset(), with_round=True, CHAT_KEY=key)
        assert found.usable == usable, found
        assert (found.used is not None and found.used.tokens == 30) == usable


BY_ACP = AgentConfig(use="asking", protocol="acp")


def test_an_agent_that_speaks_acp_is_tried_with_acp(programs: Programs) -> None:
    programs.python("asking-acp", asking_acp())
    found = tried(programs, BY_ACP)
    assert found.usable, found
    assert check(found, "program").message == str(programs.bin / "asking-acp")
    assert found.used is not None
    assert found.used.tokens == 30


def test_tokens_that_are_promised_over_acp_must_be_reported(programs: Programs) -> None:
    programs.python("asking-acp", asking_acp("--silent"))
    assert "reported no tokens" in check(tried(programs, BY_ACP), "round").message


def test_a_program_that_does_not_speak_acp_cannot_be_used(programs: Programs) -> None:
    programs.shell("asking-acp", "echo no protocol; exit 1")
    one = check(tried(programs, BY_ACP), "round")
    said, *_, hint, show = one.hint.splitlines()
    assert (
        "the agent asking (asking-acp) does not speak ACP: it ended (exit 1) without an answer"
        in said
    )
    assert hint == 'write protocol = "command", or update it: apt install asking'
    assert Path(show.removeprefix("goal show "), "events.jsonl").is_file()
