"""Which agents a goal may name, and what it may say of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goalrunner.agents.external_agents import (
    BUILT_IN,
    agent_names,
    parser_class,
    protocol_of,
)
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import GoalFileError, UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AgentConfig, ValidatorSpec, WorkspaceConfig
from goalrunner.goalfile.agents import all_presets, preset_named, preset_of_text
from goalrunner.goalfile.dumping import dump_goal
from goalrunner.goalfile.loading import load_goal, load_goal_text, resolve_goal

HEAD = "objective = 'x'\nvalidator = 'y'\n"
MINE = """
[agents.mine]
argv = ["mine", "--json", "{model}", "{args}"]
resume = ["mine", "--session", "{session}", "{model}"]
model = ["--model", "{name}"]
stream = "claude"
reports = { tokens = "session" }
"""


def load(
    text: str,
    overrides: dict[str, Any] | None = None,
    environ: dict[str, str] | None = None,
) -> Goal:
    return load_goal_text(HEAD + text, "goal.toml", overrides or {}, environ or {})


def refusal(
    text: str,
    overrides: dict[str, Any] | None = None,
    environ: dict[str, str] | None = None,
) -> str:
    with pytest.raises(GoalFileError) as caught:
        load(text, overrides, environ)
    return str(caught.value)


@pytest.mark.parametrize("name", BUILT_IN)
def test_an_agent_that_comes_along_needs_nothing_but_its_name(name: str) -> None:
    goal = load(f"agent = '{name}'")
    assert goal.agent == AgentConfig(use=name)
    assert not goal.agents
    assert preset_named(name, goal.agents, {}) == parser_class(name).preset


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_presets_follow_the_rules_for_user_presets(name: str) -> None:
    table = parser_class(name).preset.model_dump(mode="json", exclude_defaults=True)
    assert preset_of_text(tomli_w.dumps(table), name) == parser_class(name).preset


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("'./work.sh < {prompt_file}'", ("./work.sh < {prompt_file}",)),
        ("['work', '--to', '']", ("work", "--to", "")),
        ("['my agent']", ("'my agent'",)),
        ("['awk', '{print}']", ("awk", "{print}")),
    ],
)
@pytest.mark.parametrize("use", ["command", "acp"])
def test_a_command_is_a_line_or_a_list_of_words(
    use: str, written: str, words: tuple[str, ...]
) -> None:
    goal = load(f"[agent]\nuse = '{use}'\ncommand = {written}")
    assert goal.agent == AgentConfig(use=use, command=words)
    assert load_goal_text(dump_goal(goal), "frozen", {}, {}) == goal


def test_a_preset_of_the_goal_s_own_is_read_and_frozen() -> None:
    goal = load(f"[agent]\nuse = 'mine'\nmodel = 'm/1'\nargs = ['-v', '']\n{MINE}")
    assert goal.agents == {"mine": PRESET}
    assert goal.agent == AgentConfig(use="mine", model="m/1", args=("-v", ""))
    assert load_goal_text(dump_goal(goal), "frozen", {}, {}) == goal


PRESET = Preset(
    argv=("mine", "--json", "{model}", "{args}"),
    resume=("mine", "--session", "{session}", "{model}"),
    model=("--model", "{name}"),
    stream="claude",
    reports={"tokens": "session"},
)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_goal_with_a_copy_of_a_built_in_preset_is_frozen_and_read_again(
    name: str,
) -> None:
    goal = Goal(
        objective="x",
        validator="y",
        agent={"use": "mine"},
        agents={"mine": parser_class(name).preset},
    )
    assert load_goal_text(dump_goal(goal), "frozen", {}, {}).agents == goal.agents


@pytest.mark.parametrize("variable", ["XDG_CONFIG_HOME", "HOME"])
def test_a_file_of_the_user_s_is_an_agent_and_becomes_part_of_the_goal(
    tmp_path: Path, variable: str
) -> None:
    folder = (
        tmp_path
        / ("goal" if variable == "XDG_CONFIG_HOME" else ".config/goal")
        / "agents"
    )
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text("argv = ['mine']")
    (folder / "claude.toml").write_text("argv = ['my-claude']")
    (folder / "broken.toml").write_text("argv = ")
    environ = {variable: str(tmp_path)}
    goal = load("agent = 'mine'", environ=environ)
    assert goal.agents == {"mine": Preset(argv=("mine",))}
    assert load_goal_text(dump_goal(goal), "frozen", {}, {}) == goal
    assert load("agent = 'claude'", environ=environ).agents == {
        "claude": Preset(argv=("my-claude",))
    }
    own = load("agent = 'mine'\n[agents.mine]\nargv = ['other']", environ=environ)
    assert own.agents == {"mine": Preset(argv=("other",))}


def test_a_program_that_makes_a_goal_reads_the_user_s_file_as_a_goal_file_does(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "goal/agents"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(
        "argv = ['mine']\nstream = 'codex'\nreports = { tokens = 'turn' }\n"
    )
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    mine = preset_named("mine", {}, environ)
    assert mine == Preset(argv=("mine",), stream="codex", reports={"tokens": "turn"})
    presets = {name: parser_class(name).preset for name in BUILT_IN}
    assert all_presets({"own": Preset()}, environ) == {
        **presets,
        "mine": mine,
        "own": Preset(),
    }
    with pytest.raises(UsageError, match='there is no agent "other"'):
        preset_named("other", {}, environ)


def test_what_is_wrong_in_the_user_s_file_is_said_with_its_own_path(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "goal/agents"
    folder.mkdir(parents=True)
    file = folder / "mine.toml"
    file.write_text('argv = ["mine", "{promt}"]\nrusume = []\n')
    assert refusal("agent = 'mine'", environ={"XDG_CONFIG_HOME": str(tmp_path)}) == (
        f"{file}:1:17  argv names {{promt}}, which does not exist; {PLACES}\n"
        f'{file}:2:1  unknown key "rusume"; did you mean "resume"?'
    )


def test_the_old_name_of_the_variables_of_a_sandbox_is_an_error_that_names_the_new_one() -> (
    None
):
    said = refusal("[agents.mine]\nargv = ['mine']\njailed_env = { A = 'b' }")
    assert "agents.mine.jailed_env was renamed; write sandbox_env" in said


PLACES = "valid: {prompt}, {prompt_file}, {session}, {workspace}, {model}, {args}"


def test_the_command_line_and_the_environment_choose_the_agent() -> None:
    assert load(
        "model = 'a/b'",
        environ={"GOAL_AGENT": "claude", "GOAL_MODEL": "c/d"},
        overrides={"agent.model": "opus"},
    ) == (load("", {"agent.use": "claude", "agent.model": "opus"}))
    assert load(
        "agent = 'claude'", {"agent.use": "builtin", "agent.model": "a/b"}
    ).agent == AgentConfig(model="a/b")
    assert refusal("", {"agent.use": "cluade"}).startswith(
        '--agent "cluade" is unknown; did you mean "claude"? valid: '
    )


@pytest.mark.parametrize("variable", ["GOAL_MODEL", "LLM_MODEL"])
def test_a_variable_that_names_a_model_is_for_the_built_in_agent_alone(
    variable: str,
) -> None:
    assert load("agent = 'claude'", environ={variable: "a/b"}).agent.model == ""
    assert load("", environ={variable: "a/b"}).agent.model == "a/b"


def test_what_the_file_says_of_its_own_agent_is_for_no_other(tmp_path: Path) -> None:
    file = tmp_path / "goal.toml"
    file.write_text(HEAD + "model = 'a/b'\nagent.max_steps = 3\nagent.command = 'x'\n")
    with pytest.raises(GoalFileError) as caught:
        load_goal(file, {"agent.use": "claude"}, {})
    assert str(caught.value) == (
        f'{file}:3:1  model is for the agent "builtin", not for --agent "claude"; remove it\n'
        f'{file}:4:7  agent.max_steps is only for the built-in agent, and "claude" does not support it; remove it\n'
        f'{file}:5:7  agent.command is for the agent "builtin", not for --agent "claude"; remove it'
    )


@pytest.mark.parametrize(
    ("config", "preset", "protocol"),
    [
        (AgentConfig(use="command"), Preset(), "command"),
        (AgentConfig(use="acp"), Preset(), "acp"),
        (AgentConfig(use="x"), Preset(argv=("x",), acp=("x",)), "command"),
        (AgentConfig(use="x"), Preset(acp=("x",)), "acp"),
        (AgentConfig(use="x", protocol="acp"), Preset(argv=("x",), acp=("x",)), "acp"),
    ],
)
def test_an_agent_is_driven_as_a_command_where_it_can_be(
    config: AgentConfig, preset: Preset, protocol: str
) -> None:
    assert protocol_of(config, preset) == protocol


def test_a_stream_that_no_parser_reads_is_refused() -> None:
    names = ", ".join(f'"{name}"' for name in ("text", *agent_names()))
    why = f'the stream "cluade" of the agent "mine" is unknown; valid: {names}'
    assert (
        refusal("agent = 'mine'\n[agents.mine]\nargv = ['x']\nstream = 'cluade'\n")
        == f"goal.toml:6:1  {why}"
    )


PRESET_KEYS = tuple(Preset.model_fields)

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["{model}", "{session}"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.sampled_from(PRESET_KEYS), st.text(max_size=4)),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)
TABLES = st.dictionaries(
    st.one_of(st.sampled_from(list(PRESET_KEYS)), st.text(max_size=4)),
    VALUES,
    max_size=6,
)


@settings(deadline=None)
@given(
    st.one_of(
        VALUES,
        st.dictionaries(
            st.sampled_from(["mine", "builtin", "a b"]), st.one_of(TABLES, VALUES)
        ),
    )
)
def test_anything_is_read_or_refused_in_words(agents: object) -> None:
    table = {"objective": "x", "validator": "y", "agent": "mine", "agents": agents}
    refused, goal = None, None
    try:
        goal = resolve_goal(table, {}, {})
    except GoalFileError as error:
        refused = error
    if goal is not None:
        assert "mine" in goal.agents
    else:
        assert refused is not None
        assert all(problem.message for problem in refused.problems)


ANY = st.characters(exclude_characters="\0{}", codec="utf-8")
WORD = st.text(ANY, min_size=1, max_size=6).filter(str.strip)
LINE = WORD.filter(str.isprintable)
NAME = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True)
COMMAND = st.lists(WORD, min_size=1, max_size=3).map(tuple)
ENV = st.dictionaries(NAME, st.text(ANY, max_size=5), max_size=2)


@st.composite
def presets(draw: st.DrawFn) -> Preset:
    stream: Any = draw(st.sampled_from(["claude", "text"]))
    chooses = draw(st.booleans())
    speaks = draw(st.booleans())
    scope = st.sampled_from(["turn", "session"])
    return Preset(
        argv=(*draw(COMMAND), "{prompt}", *(["{model}"] if chooses else [])),
        resume=draw(st.one_of(st.just(()), COMMAND)),
        acp=draw(COMMAND) if speaks else (),
        acp_reports=draw(
            st.dictionaries(st.sampled_from(["tokens", "cost_usd"]), scope)
        )
        if speaks
        else {},
        model=("--model", "{name}") if chooses else (),
        env=draw(ENV),
        keys=tuple(draw(st.lists(NAME, max_size=2))),
        version=draw(st.one_of(st.just(()), COMMAND)),
        install=draw(st.one_of(st.just(""), LINE)),
        acp_install=draw(st.one_of(st.just(""), LINE)),
        asking=draw(ENV),
        helpers=tuple(draw(st.lists(LINE, max_size=2))),
        sandbox_env=draw(ENV),
        denied=tuple(draw(st.lists(WORD, max_size=2))),
        hints=draw(st.dictionaries(WORD, LINE, max_size=2)),
        stream=stream,
        reports=draw(st.dictionaries(st.sampled_from(["tokens", "cost_usd"]), scope))
        if stream != "text"
        else {},
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(presets())
def test_a_preset_is_the_same_when_it_was_frozen(preset: Preset) -> None:
    goal = Goal(
        objective="x",
        agent=AgentConfig(use="mine"),
        agents={"mine": preset},
        validators=(ValidatorSpec(name="y", run="y"),),
        workspace=WorkspaceConfig(path=str(Path.cwd().resolve())),
    )
    assert load_goal_text(dump_goal(goal), "frozen", {}, {}) == goal


@pytest.mark.parametrize(
    "text",
    [
        'agent = ["claude", "codex"]',
        '[agent]\nuse = ["claude", "codex"]\nmodel = "haiku"',
        '[agent]\nuse = ["command", "codex"]\ncommand = "./fix.sh"',
        'agent = ["a", "b"]\n[agents.a]\nargv = ["a", "b"]\nexit_codes = { 75 = "limit" }\n[agents.b]\nacp = ["c", "d"]',
    ],
)
def test_a_list_of_agents_is_the_first_one_and_those_that_take_over(text: str) -> None:
    goal = load_goal_text(
        f'objective = "x"\nvalidator = "true"\n{text}', "goal.toml", {}, {}
    )
    first, second = goal.agent.names
    assert (goal.agent.use, goal.agent.fallbacks) == (first, (second,))
    assert load_goal_text(dump_goal(goal), "frozen", {}, {}) == goal
    assert Goal.model_validate(goal.model_dump()) == goal


def test_a_list_of_one_agent_is_that_agent() -> None:
    assert Goal(objective="x", agent=["claude"]) == Goal(objective="x", agent="claude")


@pytest.mark.parametrize(
    ("option", "variable", "names"),
    [
        (None, None, ("claude", "codex")),
        ("gemini", None, ("gemini",)),
        ("gemini, qwen", None, ("gemini", "qwen")),
        (None, "qwen,codex", ("qwen", "codex")),
        ("gemini", "qwen,codex", ("gemini",)),
    ],
)
def test_options_and_variables_replace_the_whole_list(
    option: str | None, variable: str | None, names: tuple[str, ...]
) -> None:
    text = 'objective = "x"\nvalidator = "true"\nagent = ["claude", "codex"]'
    environ = {"GOAL_AGENT": variable} if variable else {}
    assert (
        load_goal_text(text, "goal.toml", {"agent.use": option}, environ).agent.names
        == names
    )


def test_what_is_written_for_the_program_of_the_first_agent_is_not_for_the_others() -> (
    None
):
    config = AgentConfig(
        use=["claude", "codex"],
        model="haiku",
        args=("-x",),
        env={"A": "1"},
        protocol="acp",
    )
    assert config.alone("claude") == config.model_copy(update={"fallbacks": ()})
    assert config.alone("codex") == AgentConfig(use="codex", protocol="acp")
