"""Whatever stands in a preset, it is read or refused in words; and what was read is the same when it was frozen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import GoalFileError
from goalrunner.core.goal import AgentConfig, Goal, ValidatorSpec, WorkspaceConfig
from goalrunner.goalfile import dump_goal, load_goal_text, resolve_goal

PRESET_KEYS = tuple(Preset.model_fields)

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from(["{model}", "{session}"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(PRESET_KEYS), st.text(max_size=4)), inner, max_size=4),
    ),
    max_leaves=12,
)
TABLES = st.dictionaries(st.one_of(st.sampled_from(list(PRESET_KEYS)), st.text(max_size=4)), VALUES, max_size=6)


@settings(deadline=None)
@given(st.one_of(VALUES, st.dictionaries(st.sampled_from(["mine", "chat", "a b"]), st.one_of(TABLES, VALUES))))
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
        acp_reports=draw(st.dictionaries(st.sampled_from(["tokens", "cost_usd"]), scope)) if speaks else {},
        model=("--model", "{name}") if chooses else (),
        env=draw(ENV),
        keys=tuple(draw(st.lists(NAME, max_size=2))),
        version=draw(st.one_of(st.just(()), COMMAND)),
        install=draw(st.one_of(st.just(""), LINE)),
        acp_install=draw(st.one_of(st.just(""), LINE)),
        asking=draw(ENV),
        helpers=tuple(draw(st.lists(LINE, max_size=2))),
        jailed_env=draw(ENV),
        denied=tuple(draw(st.lists(WORD, max_size=2))),
        hints=draw(st.dictionaries(WORD, LINE, max_size=2)),
        stream=stream,
        reports=draw(st.dictionaries(st.sampled_from(["tokens", "cost_usd"]), scope)) if stream != "text" else {},
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
