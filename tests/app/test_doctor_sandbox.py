"""Where a goal asks for a sandbox, its agent is looked at in there: what the sandbox breaks is found before a run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from goalrunner.app.agent_findings import Finding
from goalrunner.app.doctor import Diagnosis, examine
from goalrunner.core.agent_preset import Preset
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AgentConfig, WorkspaceConfig
from goalrunner.goalfile.agents import preset_of_text
from tests.support.fake_provider import FakeProvider, run, say
from tests.support.programs import ASKING_PRESET, Programs, asking
from tests.support.sandboxes import needs_sandbox

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60), needs_sandbox]

ASKING = AgentConfig(use="asking")
PRESET = preset_of_text(ASKING_PRESET, "asking.toml")


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs.new(tmp_path / "machine")


def diagnosis(
    programs: Programs,
    agent: AgentConfig = ASKING,
    preset: Preset = PRESET,
    sandbox: str = "bwrap",
    *,
    with_round: bool = False,
    **environ: str,
) -> Diagnosis:
    workspace = programs.root / "workspace"
    workspace.mkdir(exist_ok=True)
    place = WorkspaceConfig.model_validate({"path": str(workspace), "sandbox": sandbox})
    goal = Goal(
        objective="x",
        agent=agent,
        workspace=place,
        agents={} if agent.use == "command" else {agent.use: preset},
    )
    return examine(goal, {**programs.environ, **environ}, with_round=with_round)


def tried(
    programs: Programs, preset: Preset = PRESET, sandbox: str = "bwrap"
) -> Diagnosis:
    """The diagnosis with a real round, whose model is a scripted server."""
    with FakeProvider(
        [run("printf 'it works' > goal-doctor.txt"), say("Done.")]
    ) as server:
        url = server.base_url("openai")
        return diagnosis(
            programs,
            ASKING,
            preset,
            sandbox,
            with_round=True,
            ASKING_KEY="the-key",
            ASKING_URL=url,
        )


def check(found: Diagnosis, name: str) -> Finding:
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
    found = tried(programs, sandbox=sandbox)
    assert found.usable, found
    assert check(found, "version").message == "3.2.1"
    assert (
        check(found, "sandbox").message == "bwrap works here, and the agent runs in it"
    )
    assert check(found, "round").state == "good"
    assert not (programs.home / "kept").exists()


def test_what_the_sandbox_hides_from_an_agent_is_found(programs: Programs) -> None:
    tool = programs.home / "tools" / "helper"
    tool.parent.mkdir()
    tool.write_text("helps")
    programs.python("asking", asking(effect=f"cat {tool} && "))
    assert tried(programs, sandbox="none").usable
    found = tried(programs)
    one = check(found, "round")
    assert (found.usable, one.state) == (False, "bad")
    assert "see what the sandbox hides" in one.hint
    shutil.rmtree(Path(one.hint.rpartition("goal show ")[2]).parents[2])


def test_a_program_that_is_a_link_to_a_hidden_place_is_found(
    programs: Programs,
) -> None:
    there = programs.root.parent / "elsewhere"
    programs.python("asking", asking()).rename(there)
    (programs.bin / "asking").symlink_to(there)
    found = diagnosis(programs, ASKING_KEY="x")
    program = check(found, "program")
    said = f"the agent asking cannot be started: {programs.bin}/asking: not found in the sandbox"
    assert (program.state, program.message) == ("bad", said)
    assert "PATH" in program.hint


@pytest.mark.parametrize(("home", "state"), [((), "bad"), ((".asking",), "good")])
def test_a_login_that_the_sandbox_hides_is_found(
    programs: Programs, home: tuple[str, ...], state: str
) -> None:
    programs.python("asking", asking())
    (programs.home / ".asking").mkdir()
    (programs.home / ".asking/login.json").write_text("{}")
    found = check(
        diagnosis(programs, preset=PRESET.model_copy(update={"home": home})), "sign-in"
    )
    assert (found.state, "~/.asking/login.json" in found.message) == (
        state,
        True,
    )
    assert ('home = [".asking/login.json"]' in found.hint) == (state == "bad")


def test_a_real_round_uses_the_login(programs: Programs) -> None:
    login = programs.home / ".asking/login.json"
    login.parent.mkdir()
    login.write_text("the login")
    programs.python("asking", asking(effect="test -e ~/.asking/login.json && "))
    assert tried(programs).usable


def test_the_program_of_a_goal_s_own_command_must_be_in_view(
    programs: Programs,
) -> None:
    seen = programs.shell("work", "true")
    hidden = programs.home / "work"
    shutil.copy(seen, hidden)
    for path, state in ((seen, "good"), (hidden, "bad")):
        found = check(
            diagnosis(
                programs, AgentConfig(use="command", command=(str(path),)), Preset()
            ),
            "program",
        )
        assert (found.state, "not found in the sandbox" in found.message) == (
            state,
            state == "bad",
        )


def test_an_agent_that_is_told_of_its_sandbox_is_told_in_the_round(
    programs: Programs,
) -> None:
    programs.python("asking", asking(effect='test yes = "$BOXED" && '))
    preset = PRESET.model_copy(update={"sandbox_env": {"BOXED": "yes"}})
    assert tried(programs, preset).usable
    found = tried(programs, preset, "none")
    assert not found.usable
    shutil.rmtree(
        Path(check(found, "round").hint.rpartition("goal show ")[2]).parents[2]
    )


def test_a_workspace_that_leaves_nothing_to_hide_is_told_as_a_run_would_tell_it(
    programs: Programs,
) -> None:
    programs.python("asking", asking())
    for sandbox, state in (("bwrap", "bad"), ("auto", "note")):
        place = WorkspaceConfig.model_validate(
            {"path": str(programs.root), "sandbox": sandbox}
        )
        goal = Goal(
            objective="x", agent=ASKING, workspace=place, agents={"asking": PRESET}
        )
        found = examine(goal, {**programs.environ, "ASKING_KEY": "x"})
        assert (
            check(found, "sandbox").state,
            "your home folder" in check(found, "sandbox").message,
        ) == (state, True)
