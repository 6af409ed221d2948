"""Where a goal asks for a sandbox, its agent is looked at in there: what the sandbox breaks is found before a run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from goalrunner.app.doctor import Diagnosis, Patient, examine
from goalrunner.app.sandbox_check import Check
from goalrunner.core.agent_preset import Preset
from goalrunner.core.goal import AgentConfig, WorkspaceConfig
from goalrunner.goalfile.parsing import preset_of_text
from tests.support.jails import needs_jail
from tests.support.programs import ASKING_PRESET, Programs, asking

pytestmark = [pytest.mark.timeout(60), needs_jail]

ASKING = AgentConfig(use="asking")
PRESET = preset_of_text(ASKING_PRESET, "asking.toml")


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs.new(tmp_path / "machine")


def diagnosis(
    programs: Programs, agent: AgentConfig = ASKING, preset: Preset = PRESET, sandbox: str = "bwrap", **environ: str
) -> Diagnosis:
    workspace = programs.root / "workspace"
    workspace.mkdir(exist_ok=True)
    place = WorkspaceConfig.model_validate({"path": str(workspace), "sandbox": sandbox})
    return examine(Patient(agent, preset, place), {**programs.environ, **environ})


def check(found: Diagnosis, name: str) -> Check:
    (one,) = (check for check in found.checks if check.name == name)
    return one


@pytest.mark.parametrize("sandbox", ["bwrap", "auto"])
def test_an_agent_is_tried_in_the_sandbox_that_it_would_be_in_and_that_is_said(
    programs: Programs, sandbox: str
) -> None:
    """It finds a HOME of its own under the name of the user's, and nothing of /tmp but its own."""
    (programs.home / "letters").write_text("x")
    (programs.root.parent / "beside").write_text("x")
    seen = f"test $HOME = {programs.home} && test ! -e ~/letters && test ! -e {programs.root.parent}/beside && echo > ~/kept && "
    programs.python("asking", asking(effect=seen))
    found = diagnosis(programs, sandbox=sandbox, ASKING_KEY="the-real-one")
    assert found.usable, found
    assert check(found, "version").said == "3.2.1"
    assert check(found, "sandbox").said == "bwrap works here, and the agent runs in it"
    assert check(found, "a round").said.startswith("in the sandbox (bwrap), against a scripted server, in ")
    assert not (programs.home / "kept").exists()


def test_what_the_sandbox_hides_from_an_agent_is_found(programs: Programs) -> None:
    tool = programs.home / "tools" / "helper"
    tool.parent.mkdir()
    tool.write_text("helps")
    programs.python("asking", asking(effect=f"cat {tool} && "))
    assert diagnosis(programs, sandbox="none", ASKING_KEY="x").usable
    found = diagnosis(programs, ASKING_KEY="x")
    said = check(found, "a round")
    assert (found.usable, said.state) == (False, "bad")
    assert "had no effect; outside of the sandbox it works" in said.said
    assert said.remedy


def test_a_program_that_is_a_link_to_a_hidden_place_is_found(programs: Programs) -> None:
    there = programs.root.parent / "elsewhere"
    programs.python("asking", asking()).rename(there)
    (programs.bin / "asking").symlink_to(there)
    found = diagnosis(programs, ASKING_KEY="x")
    program = check(found, "program")
    assert (program.state, program.said) == ("bad", f"{programs.bin}/asking is not seen in the sandbox")
    assert "PATH" in program.remedy
    assert "a round" not in {check.name for check in found.checks}


@pytest.mark.parametrize(("home", "state"), [((), "bad"), ((".asking",), "good")])
def test_a_login_that_the_sandbox_hides_is_found(programs: Programs, home: tuple[str, ...], state: str) -> None:
    programs.python("asking", asking())
    (programs.home / ".asking").mkdir()
    (programs.home / ".asking/login.json").write_text("{}")
    found = check(diagnosis(programs, preset=PRESET.model_copy(update={"home": home})), "sign-in")
    assert (found.state, "~/.asking/login.json is there" in found.said) == (state, True)
    assert ('home = [".asking/login.json"]' in found.remedy) == (state == "bad")


def test_the_round_sees_no_login_and_changes_none(programs: Programs) -> None:
    login = programs.home / ".asking/login.json"
    login.parent.mkdir()
    login.write_text("the login")
    programs.python(
        "asking", asking(effect="test ! -e ~/.asking/login.json && mkdir -p ~/.asking && echo > ~/.asking/x && ")
    )
    assert diagnosis(programs).usable
    assert [path.name for path in login.parent.iterdir()] == ["login.json"]


def test_the_program_of_a_goal_s_own_command_must_be_in_view(programs: Programs) -> None:
    seen = programs.shell("work", "true")
    hidden = programs.home / "work"
    shutil.copy(seen, hidden)
    for path, state in ((seen, "good"), (hidden, "bad")):
        found = check(diagnosis(programs, AgentConfig(use="command", command=(str(path),)), Preset()), "program")
        assert (found.state, "not seen in the sandbox" in found.said) == (state, state == "bad")


def test_an_agent_that_is_told_of_its_sandbox_is_told_in_the_round(programs: Programs) -> None:
    programs.python("asking", asking(effect='test yes = "$BOXED" && '))
    preset = PRESET.model_copy(update={"jailed_env": {"BOXED": "yes"}})
    assert diagnosis(programs, preset=preset, ASKING_KEY="x").usable
    assert not diagnosis(programs, preset=preset, sandbox="none", ASKING_KEY="x").usable


def test_a_workspace_that_leaves_nothing_to_hide_is_told_as_a_run_would_tell_it(programs: Programs) -> None:
    programs.python("asking", asking())
    for sandbox, state in (("bwrap", "bad"), ("auto", "note")):
        place = WorkspaceConfig.model_validate({"path": str(programs.root), "sandbox": sandbox})
        found = examine(Patient(ASKING, PRESET, place), {**programs.environ, "ASKING_KEY": "x"})
        assert (check(found, "sandbox").state, "your home folder" in check(found, "sandbox").said) == (state, True)
        assert check(found, "a round").said.startswith("against a scripted server")
