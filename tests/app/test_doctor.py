"""What stands in the way of an agent is found, with the line that mends it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from goalrunner.app.doctor import Diagnosis, Patient, examine
from goalrunner.app.sandbox_check import Check
from goalrunner.core.agent_preset import Preset
from goalrunner.core.goal import AgentConfig, WorkspaceConfig
from goalrunner.goalfile.parsing import preset_of_text
from tests.support.programs import ASKING_PRESET, Programs, asking, asking_acp

pytestmark = pytest.mark.timeout(60)

ASKING = AgentConfig(use="asking")
PRESET = preset_of_text(ASKING_PRESET, "asking.toml")


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs.new(tmp_path)


def diagnosis(programs: Programs, agent: AgentConfig = ASKING, preset: Preset = PRESET, **environ: str) -> Diagnosis:
    workspace = programs.root / "workspace"
    workspace.mkdir(exist_ok=True)
    patient = Patient(agent, preset, WorkspaceConfig(path=str(workspace)))
    return examine(patient, {**programs.environ, **environ})


def check(found: Diagnosis, name: str) -> Check:
    (one,) = (check for check in found.checks if check.name == name)
    return one


def test_an_agent_that_works_can_be_used(programs: Programs) -> None:
    programs.python("asking", asking())
    found = diagnosis(programs, ASKING_KEY="the-real-one")
    assert found.usable
    assert check(found, "program").said == str(programs.bin / "asking")
    assert check(found, "version").said == "3.2.1"
    assert check(found, "sign-in") == Check("sign-in", "good", "ASKING_KEY is set")
    assert check(found, "ACP") == Check("ACP", "note", "asking-acp is not on PATH")
    said = check(found, "a round").said
    assert said.startswith("against a scripted server, in ")
    assert said.endswith(" s: command run, answer understood, session named, 30 tokens reported")


def test_the_round_sees_neither_the_key_nor_the_home_of_the_user(programs: Programs) -> None:
    seen = programs.root / "seen"
    programs.python("asking", asking(effect=f"echo $ASKING_KEY $HOME $PWD >> {seen}; "))
    assert diagnosis(programs, ASKING_KEY="the-real-one").usable
    key, home, folder = seen.read_text().split()
    assert key != "the-real-one"
    assert home != str(programs.home)
    assert Path(home).parent == Path(folder).parent
    assert not Path(home).exists()


def test_a_program_that_is_missing_is_told_with_how_to_install_it(programs: Programs) -> None:
    found = diagnosis(programs, ASKING_KEY="x")
    assert not found.usable
    assert check(found, "program") == Check("program", "bad", "asking is not on PATH", "apt install asking")
    assert "a round" not in {check.name for check in found.checks}


def test_a_login_file_is_as_good_as_a_key(programs: Programs) -> None:
    programs.python("asking", asking())
    (programs.home / ".asking").mkdir()
    (programs.home / ".asking/login.json").write_text("{}")
    assert check(diagnosis(programs), "sign-in") == Check("sign-in", "good", "~/.asking/login.json is there")


@pytest.mark.parametrize(("platform", "state"), [("linux", "bad"), ("darwin", "note")])
def test_neither_key_nor_login_stands_in_the_way_unless_there_is_a_keychain(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, platform: str, state: str
) -> None:
    from goalrunner.app.doctor import sign_in_check

    monkeypatch.setattr(sys, "platform", platform)
    found = sign_in_check(PRESET, {**programs.environ, "ASKING_KEY": "  "})
    assert (found.state, found.remedy) == (state, "run asking login")
    assert found.said.startswith("ASKING_KEY is not set, and there is no ~/.asking/login.json")


@pytest.mark.parametrize("added", [{"args": ("--provider", "mine")}, {"env": {"ASK_ANOTHER": "1"}}])
def test_what_the_goal_adds_may_sign_it_in(programs: Programs, added: dict[str, Any]) -> None:
    programs.python("asking", asking())
    found = check(diagnosis(programs, AgentConfig(use="asking", **added)), "sign-in")
    assert (found.state, found.remedy) == ("note", "run asking login")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (asking(effect="false && "), "the command that it was told to run had no effect"),
        (asking(result="outcome"), "no tool result was found in its output"),
        (asking().replace('"begin"', '"start"'), "no session was found in its output"),
        (asking().replace('"type": "usage"', '"type": "cost"'), "no tokens were found in its output"),
    ],
)
def test_a_round_that_leaves_not_what_it_must_stands_in_the_way(programs: Programs, script: str, said: str) -> None:
    programs.python("asking", script)
    found = check(diagnosis(programs, ASKING_KEY="x"), "a round")
    assert (found.state, found.said) == ("bad", f"against a scripted server it ended, but {said}")
    assert "[agents.NAME]" in found.remedy


def test_an_agent_that_breaks_is_told_in_its_own_words(programs: Programs) -> None:
    programs.shell("asking", "echo 'no such option' >&2; exit 2")
    found = check(diagnosis(programs, ASKING_KEY="x"), "a round")
    assert found.state == "bad"
    assert "no such option" in found.said


def test_an_agent_that_cannot_be_pointed_anywhere_is_not_tried(programs: Programs) -> None:
    programs.shell("plain", "touch tried")
    found = diagnosis(programs, AgentConfig(use="plain"), Preset(argv=("plain",)))
    assert found.usable
    assert check(found, "a round") == Check("a round", "note", "not tried: it cannot be pointed at a scripted server")
    assert check(found, "sign-in").state == "note"
    assert not (programs.root / "workspace/tried").exists()


def test_a_command_of_the_goal_s_is_looked_for_and_never_run(programs: Programs) -> None:
    config = AgentConfig(use="command", command=("./work.sh --fast",))
    assert check(diagnosis(programs, config, Preset()), "program") == Check(
        "program",
        "bad",
        "./work.sh does not exist, or cannot be run",
        "put a program there that can be run (chmod +x ./work.sh), or name another in [agent] command",
    )
    script = programs.root / "workspace/work.sh"
    script.write_text("#!/bin/sh\ntouch ran\n")
    script.chmod(0o755)
    assert diagnosis(programs, config, Preset()).usable
    assert not (script.parent / "ran").exists()


def test_without_git_no_agent_can_be_used(programs: Programs) -> None:
    programs.shell("plain", "")
    found = diagnosis(programs, AgentConfig(use="plain"), Preset(argv=("plain",)), PATH=str(programs.bin))
    assert not found.usable
    assert check(found, "git").remedy == "install git"


def test_a_sandbox_is_needed_only_where_the_goal_insists_on_one(programs: Programs) -> None:
    programs.shell("plain", "")
    agent, preset = AgentConfig(use="plain"), Preset(argv=("plain",))
    for wanted, state in (("none", "note"), ("auto", "note"), ("bwrap", "bad")):
        workspace = WorkspaceConfig.model_validate({"path": str(programs.root), "sandbox": wanted})
        found = examine(Patient(agent, preset, workspace), {**programs.environ, "PATH": str(programs.bin)})
        assert check(found, "sandbox").state == state


def test_the_built_in_agent_needs_a_model_that_can_be_asked(programs: Programs) -> None:
    assert check(diagnosis(programs, AgentConfig(), Preset()), "model") == Check(
        "model", "bad", "no model is named", "export GOAL_MODEL=provider/name, or give --goal FILE"
    )
    missing = check(diagnosis(programs, AgentConfig(model="openai/x", api_key_env="NO_KEY"), Preset()), "model")
    assert missing.state == "bad"
    assert missing.remedy == "export NO_KEY=..."


BY_ACP = AgentConfig(use="asking", protocol="acp")


def test_an_agent_that_speaks_acp_is_tried_so_where_its_settings_alone_name_the_server(programs: Programs) -> None:
    programs.python("asking-acp", asking_acp())
    found = diagnosis(programs, BY_ACP, ASKING_KEY="the-real-one")
    assert found.usable
    assert check(found, "program").said == str(programs.bin / "asking-acp")
    said = check(found, "a round").said
    assert said.startswith("against a scripted server, in ")
    assert said.endswith(" s: command run, answer understood, session named, 30 tokens reported")
    assert not (programs.home / ".asking").exists()


def test_tokens_that_are_promised_over_acp_must_be_reported(programs: Programs) -> None:
    programs.python("asking-acp", asking_acp("--silent"))
    found = diagnosis(programs, BY_ACP, ASKING_KEY="x")
    assert not found.usable
    assert "no tokens were found in its output" in check(found, "a round").said


def test_what_does_not_speak_acp_cannot_be_used(programs: Programs) -> None:
    programs.shell("asking-acp", "echo no protocol; exit 1")
    found = diagnosis(programs, BY_ACP, ASKING_KEY="x")
    assert not found.usable
    one = check(found, "a round")
    assert "the agent asking (asking-acp) does not speak ACP: it ended (exit 1) without an answer" in one.said
    assert one.remedy == 'write protocol = "command", or update it: apt install asking'


def test_one_that_never_reaches_the_server_by_acp_is_no_proof(programs: Programs) -> None:
    """A preset says how its command is pointed at a server. What speaks ACP may take another way."""
    programs.python("asking-acp", asking_acp())
    preset = PRESET.model_copy(update={"server_files": {}})
    found = diagnosis(programs, BY_ACP, preset, ASKING_KEY="x")
    assert found.usable
    said = check(found, "a round").said
    assert said.startswith("against a scripted server it failed: ")
    assert said.endswith(" (it may not have taken the server's address)")
