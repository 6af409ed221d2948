"""A whole run with an agent that is a program of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from goalrunner.app import session
from goalrunner.app.agent_findings import (
    check_installed,
    external_notes,
    refuse_unsupported,
)
from goalrunner.app.external_agent import resolve_agents
from goalrunner.app.readiness import readiness, run_notes
from goalrunner.app.resolve import resolve
from goalrunner.app.run_options import RunOptions
from goalrunner.app.sandbox import choose_sandbox
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import AgentNotInstalled, UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import (
    AgentConfig,
    Approvals,
    Budget,
    JudgeConfig,
    ValidatorSpec,
    WorkspaceConfig,
)
from goalrunner.core.outcome import GoalOutcome
from goalrunner.records.event_log import read_records
from tests.support.command_line import WITH_PLAIN
from tests.support.external import preset
from tests.support.model_server import Answer, ModelServer, fail, say
from tests.support.sandboxes import needs_sandbox

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.fixture(autouse=True)
def _plain_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(WITH_PLAIN["PYTHONPATH"])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


def goal(place: Path, agent: AgentConfig, **more: Any) -> Goal:
    """To make the file `done`."""
    checks = (ValidatorSpec(name="done", run="grep -q 3 done"),)
    workspace = WorkspaceConfig(path=str(place))
    return Goal.model_validate(
        {
            "objective": "make done hold a 3",
            "validators": checks,
            "workspace": workspace,
            "agent": agent,
            **more,
        }
    )


async def run(goal: Goal, home: Path) -> tuple[GoalOutcome, list[Any]]:
    """Run it; gives the outcome and the events."""
    outcome = await session.arun(goal, RunOptions(home=home))
    return outcome, [
        record.event for record in read_records(Path(outcome.run_path) / "events.jsonl")
    ]


@pytest.mark.parametrize(
    "refusal", [fail(401, "Incorrect API key provided: abc."), None]
)
async def test_the_judge_of_an_external_agent_is_asked_for_one_token_before_the_first_round(
    refusal: Answer | None, place: Path, tmp_path: Path
) -> None:
    agent = AgentConfig(use="command", command=("echo 3 > done",))
    with ModelServer(
        [refusal or say("y"), *([] if refusal else [say("no JSON")] * 9)]
    ) as server:
        judge = JudgeConfig(
            "openai/judge", api_base=server.base_url, params={"timeout": 20}
        )
        outcome, events = await run(
            goal(place, agent, judge=judge, max_iterations=1), tmp_path / "home"
        )
    assert server.bodies[0]["max_tokens"] == 1
    if refusal:
        assert (outcome.status, outcome.iterations) == ("failed", 0)
        assert "the key for openai/judge is missing (401)" in outcome.message
    else:
        assert outcome.iterations == 1
        names = [
            event.type
            for event in events
            if event.type in ("usage_recorded", "round_started")
        ]
        assert names[:2] == ["usage_recorded", "round_started"]


async def test_a_session_goes_on_and_what_is_reported_is_marked(
    place: Path, tmp_path: Path
) -> None:
    chosen = preset(
        tmp_path,
        """
        if not asked:
            say("session", id="s-1")
        say("call", id="c", tool="Bash", command="echo")
        Path("done").write_text("3" if asked == ["--resume", "s-1"] else "1")
        say("result", id="c", output="key sk-ant-api03-" + "A" * 93 + "AA", exit_code=0)
        say("usage", input=10, output=5, cost=0.5)
        say("text", text="finished")
        """,
        resumes=True,
    )
    config = AgentConfig(use="double")
    outcome, events = await run(
        goal(place, config, agents={"double": chosen}), tmp_path / "home"
    )
    assert (outcome.status, outcome.iterations) == ("complete", 2)
    assert outcome.usage["agent"].cost_usd == pytest.approx(1.0)
    results = [
        event.observation for event in events if event.type == "tool_result_recorded"
    ]
    assert [(item.source, item.facts, item.reported_by) for item in results] == [
        ("Bash", ("exit 0",), "double")
    ] * 2
    kept = b"".join(
        path.read_bytes()
        for path in Path(outcome.run_path).rglob("*")
        if path.is_file()
    )
    assert b"A" * 93 not in kept


async def test_a_script_without_permission_is_named_with_what_to_type(
    place: Path, tmp_path: Path
) -> None:
    (place / "agent.sh").write_text("#!/bin/sh\n")
    outcome, _ = await run(
        goal(place, AgentConfig(use="command", command=("./agent.sh", "{prompt}"))),
        tmp_path / "home",
    )
    assert (outcome.status, outcome.exit_code) == ("failed", 4)
    assert "./agent.sh: not executable: chmod +x ./agent.sh" in outcome.message


async def test_the_agent_has_its_own_key_and_no_other(
    place: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    for name in ("DOUBLE_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, f"value-of-{name}")
    chosen = preset(
        tmp_path,
        'Path("done").write_text("3"); say("text", text=" ".join(sorted(os.environ)))',
    )
    chosen = chosen.model_copy(
        update={"keys": ("DOUBLE_KEY", "OPENAI_API_KEY"), "env": {"EXTRA": "1"}}
    )
    checks = (
        ValidatorSpec(
            name="done", run='grep -q 3 done && test -z "$DOUBLE_KEY$OPENAI_API_KEY"'
        ),
    )
    wanted = goal(
        place, AgentConfig(use="double"), agents={"double": chosen}, validators=checks
    )
    outcome, events = await run(wanted, tmp_path / "home")
    assert outcome.status == "complete"
    (said,) = [
        event.text
        for event in events
        if event.type == "message" and event.role == "assistant"
    ]
    transcript = (
        (Path(outcome.run_path) / "transcript.jsonl")
        .read_bytes()[said.offset :][: said.length]
        .decode()
    )
    assert all(name in transcript for name in ("DOUBLE_KEY", "OPENAI_API_KEY", "EXTRA"))
    assert "GEMINI_API_KEY" not in transcript


async def test_its_workspace_is_where_its_environment_says_it_is(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PWD", "/")
    chosen = preset(
        tmp_path,
        'Path(os.environ["PWD"], "done").write_text("3"); say("text", text="finished")',
    )
    outcome, _ = await run(
        goal(place, AgentConfig(use="double"), agents={"double": chosen}),
        tmp_path / "home",
    )
    assert (outcome.status, (place / "done").read_text()) == ("complete", "3")


def named(place: Path, chosen: Preset, **more: Any) -> Any:
    (agent,) = resolve_agents(
        goal(place, AgentConfig(use="x"), agents={"x": chosen}, **more), os.environ
    )
    return agent


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"budget": Budget(cost_usd=1.0)}, "cost_usd"),
        ({"budget": Budget(tokens=100)}, "tokens"),
        ({"approvals": Approvals(require=("shell",))}, "shell"),
        ({"approvals": Approvals(commands=("rm *",))}, "commands"),
        ({"risk_class": "critical"}, "critical"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    place: Path, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        refuse_unsupported(named(place, Preset(argv=("x", "y")), **more))


def test_a_missing_key_and_login_is_a_note_of_the_run_and_no_error(
    place: Path, tmp_path: Path
) -> None:
    preset = Preset(
        argv=("sh", "-c", "true"),
        keys=("X_KEY",),
        login=(".x/login",),
        sign_in="x login",
    )
    one = named(place, preset)

    def notes(**more: str) -> str:
        environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **more}
        config = resolve(one.goal, RunOptions(home=tmp_path / "home", environ=environ))
        findings = readiness(config)
        assert not any(finding.error for finding in findings)
        return "\n".join(run_notes(findings, config))

    assert "is not signed in: X_KEY is not set" in notes()
    assert "x login" in notes()
    assert "X_KEY" not in notes(X_KEY="1")
    (tmp_path / ".x").mkdir()
    (tmp_path / ".x" / "login").touch()
    assert "X_KEY" not in notes()


def test_a_program_in_the_workspace_is_found_there(place: Path) -> None:
    one = named(place, Preset(argv=("./agent.sh", "-x")))
    with pytest.raises(AgentNotInstalled):
        check_installed(one, place, os.environ)
    (place / "agent.sh").touch(0o755)
    check_installed(one, place, os.environ)


@needs_sandbox
def test_an_agent_that_the_sandbox_hides_is_found_before_the_run(
    place: Path, tmp_path: Path
) -> None:
    user, own = tmp_path / "user", tmp_path / "own"
    user.mkdir()
    (user / "agent").write_text("true\n")
    (user / "agent").chmod(0o755)
    environ = {"PATH": os.environ["PATH"], "HOME": str(user)}
    wanted = goal(place, AgentConfig(use="command", command=(f"{user}/agent",)))
    wanted = wanted.model_copy(
        update={"workspace": wanted.workspace.model_copy(update={"sandbox": "auto"})}
    )
    (one,) = resolve_agents(wanted, environ)
    cell = choose_sandbox(wanted, tmp_path / "home", environ).agent_policy(own, ())
    with pytest.raises(
        AgentNotInstalled, match=f"{user}/agent: not found in the sandbox"
    ):
        check_installed(one, place, environ, cell)
    check_installed(one, place, environ)


async def test_the_model_of_an_external_agent_cannot_be_the_judge(
    place: Path, tmp_path: Path
) -> None:
    wanted = goal(
        place, AgentConfig(use="command", command=("true",)), judge=JudgeConfig("agent")
    )
    with pytest.raises(UsageError, match="cannot be the judge"):
        await session.arun(wanted, RunOptions(home=tmp_path / "home"))


def test_the_first_lines_show_the_command_without_places_that_hold_nothing(
    place: Path,
) -> None:
    chosen = Preset(argv=("mine", "{model}", "-p", "{args}", "{prompt}"))
    (named,) = resolve_agents(
        goal(place, AgentConfig(use="mine"), agents={"mine": chosen}), {}
    )
    assert named.words == "mine · mine -p '{prompt}'"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("claude", "claude · claude … --permission-mode bypassPermissions"),
        ("codex", "codex · codex … --dangerously-bypass-approvals-and-sandbox"),
        ("gemini", "gemini · gemini --output-format stream-json --yolo --skip…"),
        ("qwen", "qwen · qwen --output-format stream-json --yolo"),
        ("opencode", "opencode · opencode run --format json --auto"),
        ("openhands", "openhands · openhands … --always-approve"),
    ],
)
def test_the_first_lines_show_the_words_that_turn_permission_checks_off(
    name: str, words: str, place: Path
) -> None:
    (named,) = resolve_agents(goal(place, AgentConfig(use=name)), os.environ)
    assert named.words == words


def test_an_agent_with_its_permission_checks_off_is_named_with_the_sandbox_that_confines_it(
    place: Path,
) -> None:
    (claude,) = resolve_agents(goal(place, AgentConfig(use="claude")), os.environ)
    (note,) = external_notes(claude, sandboxed=False)
    assert note.startswith(
        "claude runs with its own permission checks off (--permission-mode bypassPermissions): "
    )
    assert note.endswith(
        'it can do what you can; [workspace] sandbox = "auto" confines it'
    )
    assert external_notes(claude, sandboxed=True) == ()
    (asking,) = resolve_agents(
        goal(place, AgentConfig(use="claude", protocol="acp")), os.environ
    )
    assert external_notes(asking, sandboxed=False) == ()
    (own,) = resolve_agents(
        goal(place, AgentConfig(use="claude", command=("claude", "-p"))), os.environ
    )
    assert external_notes(own, sandboxed=False) == ()


@pytest.mark.parametrize(
    ("protocol", "said"),
    [("acp", "npm install -g mine-acp"), ("command", "npm install -g mine")],
)
def test_what_is_missing_is_told_with_the_line_that_installs_that_very_program(
    place: Path, protocol: str, said: str
) -> None:
    chosen = Preset(
        argv=("no-mine",),
        acp=("no-mine-acp",),
        install="npm install -g mine",
        acp_install="npm install -g mine-acp",
    )
    config = AgentConfig.model_validate({"use": "mine", "protocol": protocol})
    (named,) = resolve_agents(goal(place, config, agents={"mine": chosen}), {})
    with pytest.raises(AgentNotInstalled) as error:
        check_installed(named, place, os.environ)
    assert error.value.hint == said
