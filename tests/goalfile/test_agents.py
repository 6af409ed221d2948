"""Which agents a goal may name, and what it may say of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.agent_preset import Preset, StreamRule
from goalrunner.core.errors import GoalFileError, UsageError
from goalrunner.core.goal import AgentConfig, Goal
from goalrunner.goalfile import all_presets, dump_goal, load_goal, load_goal_text, preset_named
from goalrunner.goalfile.parsing import preset_of_text
from goalrunner.presets import builtin, builtin_names, builtin_text, protocol_of

HEAD = "objective = 'x'\nvalidator = 'y'\n"
MINE = """
[agents.mine]
argv = ["mine", "--json", "{model}", "{args}"]
resume = ["mine", "--session", "{session}", "{model}"]
model = ["--model", "{name}"]
stream = "json"
[[agents.mine.rules]]
kind = "session"
when = { type = "begin", ok = true, n = 1, of = ["a", "b"] }
fields = { id = "session.id" }
[[agents.mine.rules]]
kind = "usage"
each = "turns"
where = { type = "usage" }
fields = { input = ["in"], output = ["out", "usage.out"] }
cumulative = true
"""


def load(text: str, overrides: dict[str, Any] | None = None, environ: dict[str, str] | None = None) -> Goal:
    return load_goal_text(HEAD + text, "goal.toml", overrides or {}, environ or {})


def refusal(text: str, overrides: dict[str, Any] | None = None, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(GoalFileError) as caught:
        load(text, overrides, environ)
    return str(caught.value)


@pytest.mark.parametrize("name", builtin_names())
def test_an_agent_that_comes_along_needs_nothing_but_its_name(name: str) -> None:
    goal = load(f"agent = '{name}'")
    assert goal.agent == AgentConfig(use=name)
    assert not goal.agents
    assert preset_named(name, goal.agents, {}) == builtin()[name]


@pytest.mark.parametrize("name", builtin_names())
def test_what_comes_along_holds_by_the_rules_for_everybody_s_presets(name: str) -> None:
    assert preset_of_text(builtin_text(name), name) == builtin()[name]


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
def test_a_command_is_a_line_or_a_list_of_words(use: str, written: str, words: tuple[str, ...]) -> None:
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
    stream="json",
    rules=(
        StreamRule(
            kind="session",
            when={"type": "begin", "ok": True, "n": 1, "of": ("a", "b")},
            fields={"id": ("session.id",)},
        ),
        StreamRule(
            kind="usage",
            each="turns",
            where={"type": "usage"},
            fields={"input": ("in",), "output": ("out", "usage.out")},
            cumulative=True,
        ),
    ),
)


@pytest.mark.parametrize("variable", ["XDG_CONFIG_HOME", "HOME"])
def test_a_file_of_the_user_s_is_an_agent_and_becomes_part_of_the_goal(tmp_path: Path, variable: str) -> None:
    folder = tmp_path / ("goal" if variable == "XDG_CONFIG_HOME" else ".config/goal") / "agents"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text("argv = ['mine']")
    (folder / "claude.toml").write_text("argv = ['my-claude']")
    (folder / "broken.toml").write_text("argv = ")
    environ = {variable: str(tmp_path)}
    goal = load("agent = 'mine'", environ=environ)
    assert goal.agents == {"mine": Preset(argv=("mine",))}
    assert load_goal_text(dump_goal(goal), "frozen", {}, {}) == goal
    assert load("agent = 'claude'", environ=environ).agents == {"claude": Preset(argv=("my-claude",))}
    own = load("agent = 'mine'\n[agents.mine]\nargv = ['other']", environ=environ)
    assert own.agents == {"mine": Preset(argv=("other",))}


def test_a_program_that_makes_a_goal_reads_the_user_s_file_as_a_goal_file_does(tmp_path: Path) -> None:
    folder = tmp_path / "goal/agents"
    folder.mkdir(parents=True)
    rule = "[[rules]]\nkind = 'session'\nfields = { id = 'session.id' }\n"
    (folder / "mine.toml").write_text(f"argv = ['mine']\nstream = 'json'\n{rule}")
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    mine = preset_named("mine", {}, environ)
    assert mine.rules == (StreamRule(kind="session", fields={"id": ("session.id",)}),)
    assert all_presets({"own": Preset()}, environ) == {**builtin(), "mine": mine, "own": Preset()}
    with pytest.raises(UsageError, match='there is no agent "other"'):
        preset_named("other", {}, environ)


def test_what_is_wrong_in_the_user_s_file_is_said_with_its_own_path(tmp_path: Path) -> None:
    folder = tmp_path / "goal/agents"
    folder.mkdir(parents=True)
    file = folder / "mine.toml"
    file.write_text('argv = ["mine", "{promt}"]\nrusume = []\n[[rules]]\nkind = "txt"\n')
    assert refusal("agent = 'mine'", environ={"XDG_CONFIG_HOME": str(tmp_path)}) == (
        f"{file}:1:17  argv names {{promt}}, which does not exist; did you mean {{prompt}}? {PLACES}\n"
        f'{file}:2:1  unknown key "rusume"; did you mean "resume"?\n'
        f'{file}:3:3  rules are for lines of JSON; write stream = "json", or remove them\n'
        f'{file}:4:8  rules.kind "txt" is unknown; did you mean "text"? valid: {KINDS}'
    )


PLACES = "valid: {prompt}, {prompt_file}, {session}, {workspace}, {model}, {args}"
KINDS = '"session", "text", "delta", "call", "result", "usage", "error"'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("agent = 'command'", '3:1  the agent "command" has no command; write command = "..." beside it in [agent]'),
        (
            "[agent]\nuse = 'claude'\ncommand = 'x'",
            ('5:1  agent.command is for use = "command" or "acp", and "claude" has its own; '
            "add words with args, or describe an agent in [agents.NAME]"),
        ),
        (
            "model = 'a/b'\n[agent]\ncommand = 'x'",
            '5:1  agent.command is for external agents; name one with use = "...", or remove it',
        ),
        (
            "[agent]\nuse = 'command'\ncommand = []",
            '5:11  agent.command is empty; write a command line, or a list of words: ["my-agent", "--json"]',
        ),
        (
            "[agent]\nuse = 'command'\ncommand = ['x', '{prompt-file} {promptfile}']",
            ("5:17  agent.command names {promptfile}, which does not exist; did you mean {prompt_file}? "
            "valid: {prompt}, {prompt_file}, {workspace}"),
        ),
        (
            "[agent]\nuse = 'command'\ncommand = 'x'\nargs = ['y']",
            "6:1  agent.args is for agents with a preset; write its words in command",
        ),
        (
            "[agent]\nuse = 'command'\ncommand = 'x'\nmodel = 'y'",
            "6:1  agent.model is for agents with a preset; write it in command",
        ),
        (
            "[agent]\nuse = 'command'\ncommand = 'x'\nprotocol = 'acp'",
            '6:12  agent.protocol "acp" does not fit use = "command"; remove it',
        ),
        (
            "[agent]\nuse = 'mine'\n[agents.mine]\nargv = ['x']\nhints = { no = 1 }",
            "7:16  agents.mine.hints.no must be a string, not the number 1",
        ),
        (
            "[agent]\nuse = 'mine'\nprotocol = 'acp'\n[agents.mine]\nargv = ['x']",
            '5:12  agent.protocol "acp" cannot be spoken by "mine"; remove it, or say how in [agents.mine]: acp = ["..."]',
        ),
        (
            "[agent]\nuse = 'mine'\nmodel = 'y'\n[agents.mine]\nargv = ['x']",
            ('5:1  agent.model cannot be chosen for "mine"; remove it, or say how in [agents.mine]: '
            "model, and {model} in argv"),
        ),
        *(
            (
                f"[agent]\nuse = 'claude'\n{key} = {value}",
                f'5:1  agent.{key} is for the agent "chat" alone, and "claude" has no such thing; remove it',
            )
            for key, value in (
                ("max_steps", "3"),
                ("system_prompt", "'x'"),
                ("params", "{ temperature = 1 }"),
                ("api_base", "'http://x'"),
                ("api_key_env", "'X'"),
            )
        ),
        (
            "judge = 'agent'\nagent = 'claude'",
            ('3:9  judge "agent" is the model of the agent, and "claude" lends nobody its own; '
            'write judge = "provider/model"'),
        ),
        ("[agents.acp]\nargv = ['x']", '3:9  "acp" is built in and cannot be described anew; give the agent another name'),
        ("[agents.x]", "3:9  [agents.x] has no command; write argv = [...], or acp = [...] where it speaks ACP"),
        (
            "[agents.x]\nargv = 'x --json'",
            '4:8  agents.x.argv must be a list of words: ["my-agent", "--json"], not a string',
        ),
        (
            "[agents.x]\nargv = ['x']\nmodel = ['--model={name}']",
            "5:1  model is never used; write {model} where its words go, in argv, resume or acp",
        ),
        (
            "[agents.x]\nargv = ['x', '-m={model}']",
            '4:14  agents.x.argv "-m={model}": {model} stands for several words; write it as a word of its own',
        ),
        (
            "[agents.x]\nargv = ['x']\nresume = ['x', '{session}']",
            '5:1  resume names {session}, which no rule finds; add one of kind "session", or session_after = "..."',
        ),
        (
            "[agents.x]\nargv = ['x']\nsession_after = 'Session:'",
            '5:1  session_after is for a line between lines of JSON; write stream = "json"',
        ),
        (
            "[agents.x]\nargv = ['x']\nlogin = ['/root/.x']",
            '5:10  agents.x.login "/root/.x" must be a path below HOME, such as ".my-agent/login.json"',
        ),
        (
            "[agents.x]\nargv = ['x']\nacp_reports = { tokens = 'turn' }",
            "5:1  acp_reports is of an agent that speaks ACP; write acp = [...], its command",
        ),
        (
            "[agents.x]\nacp = ['x']\nacp_reports = { token = 'turn' }",
            '5:17  unknown key "token" in [agents.x.acp_reports]; did you mean "tokens"?',
        ),
        (
            "[agents.x]\nacp = ['x']\nacp_reports = { tokens = 'sesion' }",
            '5:26  agents.x.acp_reports.tokens "sesion" is unknown; did you mean "session"? valid: "turn", "session"',
        ),
        (
            "[agents.x]\nacp = ['x']\nacp_reports = ['tokens']",
            "5:15  agents.x.acp_reports must be a table, such as { tokens = \"turn\", cost_usd = \"session\" }, not a list",
        ),
        (
            "[agents.x]\nargv = ['x']\nwire = 'openai'\nserver_files = { '../x' = 'a' }",
            '6:18  "../x" must be the path of a file below HOME, such as ".my-agent/settings.json"',
        ),
        (
            "[agents.x]\nargv = ['x']\nwire = 'openai'\nserver_files = '.x'",
            (
                '6:16  agents.x.server_files must be a table of files, such as { ".my-agent/settings.json" = "{}" }, '
                'not the string ".x"'
            ),
        ),
        (
            "[agents.x]\nargv = ['x']\nserver = { A = 'B' }",
            '5:1  server needs wire, which says what is spoken there: "openai", "responses", "anthropic", "gemini"',
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_agent_is_refused_by_name(text: str, problem: str) -> None:
    asked = "" if text.startswith(("agent", "[agent]", "model", "judge")) else "model = 'a/b'\n"
    line, rest = problem.split(":", 1)
    where = int(line) + bool(asked)
    assert refusal(asked + text) == f"goal.toml:{where}:{rest}"


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("fields = { text = 'x' }", f"5:12  a rule needs a kind: {KINDS}"),
        ("kind = 'text'", '5:12  a rule of kind "text" needs fields = { text = ["path.of.it"] }'),
        ("kind = 'usage'\nfields = {}", '5:12  a rule of kind "usage" needs fields = { input = ["path.of.it"] }'),
        (
            "kind = 'result'\nfields = { exitcode = 'x' }",
            (
                '7:12  a rule of kind "result" finds no "exitcode"; did you mean "exit_code"? '
                'valid: "id", "output", "exit_code", "failed", "tool", "command"'
            ),
        ),
        (
            "kind = 'text'\nfields = { text = 'x' }\ncumulative = true",
            '8:1  cumulative is for rules of kind "usage" alone; remove it',
        ),
        (
            "kind = 'text'\nfields = { text = 'x' }\nends = true",
            '8:1  ends is for rules of kind "error" alone; remove it',
        ),
        (
            "kind = 'text'\nfields = { text = 'x' }\nwhere = { a = 1 }",
            '8:1  where looks at the items of a list; name the list: each = "path.of.it"',
        ),
        (
            "kind = 'text'\nfields = { text = 5 }",
            "7:19  agents.x.rules.fields.text must be a list of strings, not the number 5",
        ),
        (
            "kind = 'text'\nfields = { text = 'x' }\nwhen = { a = 1.5 }",
            (
                "8:14  agents.x.rules.when.a must be a string, a whole number, true, false, or a list of strings, "
                "not the number 1.5"
            ),
        ),
    ],
)
def test_one_problem_of_a_rule_is_one_line(rule: str, problem: str) -> None:
    text = f"[agents.x]\nargv = ['x']\nstream = 'json'\n[[agents.x.rules]]\n{rule}"
    line, rest = problem.split(":", 1)
    assert refusal(f"model = 'a/b'\n{text}") == f"goal.toml:{int(line) + 2}:{rest}"


def test_the_command_line_and_the_environment_choose_the_agent() -> None:
    assert load(
        "model = 'a/b'", environ={"GOAL_AGENT": "claude", "GOAL_MODEL": "c/d"}, overrides={"agent.model": "opus"}
    ) == (load("", {"agent.use": "claude", "agent.model": "opus"}))
    assert load("agent = 'claude'", {"agent.use": "chat", "agent.model": "a/b"}).agent == AgentConfig(model="a/b")
    assert refusal("", {"agent.use": "cluade"}).startswith(
        '--agent "cluade" is unknown; did you mean "claude"? valid: '
    )


@pytest.mark.parametrize("variable", ["GOAL_MODEL", "LLM_MODEL"])
def test_a_variable_that_names_a_model_is_for_the_built_in_agent_alone(variable: str) -> None:
    assert load("agent = 'claude'", environ={variable: "a/b"}).agent.model == ""
    assert load("", environ={variable: "a/b"}).agent.model == "a/b"


def test_what_the_file_says_of_its_own_agent_is_for_no_other(tmp_path: Path) -> None:
    file = tmp_path / "goal.toml"
    file.write_text(HEAD + "model = 'a/b'\nagent.max_steps = 3\n")
    with pytest.raises(GoalFileError) as caught:
        load_goal(file, {"agent.use": "claude"}, {})
    assert str(caught.value) == (
        f'{file}:3:1  model is for the agent "chat", not for --agent "claude"; give --model as well, or remove it\n'
        f'{file}:4:7  agent.max_steps is for the agent "chat" alone, and "claude" has no such thing; remove it'
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
def test_an_agent_is_driven_as_a_command_where_it_can_be(config: AgentConfig, preset: Preset, protocol: str) -> None:
    assert protocol_of(config, preset) == protocol
