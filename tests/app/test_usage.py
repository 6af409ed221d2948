"""Wrong arguments of the library are usage errors at the call, and leave no run behind."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from goalrunner import (
    Goal,
    GoalController,
    JudgeConfig,
    aresume,
    arun_goal,
    chat_conversation,
    load_goal,
    read_transcript,
    resume,
    run_goal,
)
from goalrunner.adapters.library import Library
from goalrunner.core.errors import GoalFileError, UsageError
from goalrunner.testing import ScriptedConversation


@pytest.mark.parametrize(
    ("conversation", "said", "hint"),
    [
        (
            "openai/gpt",
            '"openai/gpt" is not a conversation',
            'chat_conversation("openai/gpt")',
        ),
        ("claude", '"claude" is not a conversation', 'run_goal_file("goal.toml")'),
        (None, "None is not a conversation", 'chat_conversation("provider/model")'),
        (
            ScriptedConversation,
            "ScriptedConversation is a class, not a conversation",
            "goalrunner.Conversation",
        ),
        (object(), "an object is not a conversation", "goalrunner.Conversation"),
    ],
)
def test_what_cannot_be_driven_is_refused(
    own_home: Path, conversation: Any, said: str, hint: str
) -> None:
    with pytest.raises(UsageError) as refusal:
        run_goal(conversation, "x", validators="true")
    assert said in refusal.value.message
    assert hint in refusal.value.hint
    assert list(own_home.iterdir()) == []


def test_paths_may_be_strings(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    workspace.mkdir()
    outcome = run_goal(
        ScriptedConversation("a"),
        "x",
        validators="true",
        home=str(home),
        workspace=str(workspace),
    )
    assert outcome.passed
    assert Path(outcome.run_path).parent == home / "runs"
    controller = GoalController("x", validators="true", home=str(home))
    controller.start()
    assert len(list((home / "runs").iterdir())) == 2
    (tmp_path / "goal.toml").write_text(
        'objective = "x"\nmodel = "a/b"\nvalidator = "true"\n'
    )
    assert load_goal(str(tmp_path / "goal.toml")).objective == "x"
    with pytest.raises(GoalFileError, match=r"/x\.toml"):
        load_goal("/x.toml")
    seen = [
        item.source
        for item in read_transcript(outcome.run_path).items
        if item.kind == "observation"
    ]
    assert seen == ["validator true"] * 2
    with pytest.raises(UsageError, match="/x: cannot read"):
        read_transcript("/x")


@pytest.mark.parametrize("model", ["", "  ", None, 5])
def test_a_model_without_a_name_is_refused(model: Any) -> None:
    with pytest.raises(UsageError, match="the agent's model has no name"):
        chat_conversation(model)


def test_a_field_that_the_agent_does_not_have_is_refused() -> None:
    with pytest.raises(
        UsageError,
        match=r"agent\.max_step: is not a field of AgentConfig; did you mean max_steps",
    ):
        chat_conversation("a/b", max_step=3)


def test_a_workspace_that_is_not_there_is_refused(
    tmp_path: Path, own_home: Path
) -> None:
    (tmp_path / "file").write_text("")
    for name, said in (("nope", "does not exist"), ("file", "is not a folder")):
        path = tmp_path / name
        with pytest.raises(UsageError, match=said):
            chat_conversation("a/b", workspace=path)
        with pytest.raises(UsageError, match=said):
            run_goal(
                ScriptedConversation("a"), "x", validators="true", workspace=str(path)
            )
        goal = Goal.model_validate({"objective": "x", "workspace": {"path": str(path)}})
        with pytest.raises(UsageError, match=said):
            GoalController(goal, validators="true").start()
    assert list(own_home.iterdir()) == []


def test_every_entry_point_takes_the_same_typed_keywords() -> None:
    library = Library(ScriptedConversation, lambda judge: judge)
    functions = (
        run_goal,
        arun_goal,
        resume,
        aresume,
        GoalController.__init__,
        GoalController.resume,
    )
    adapted = (library.run_goal, library.arun_goal, library.resume, library.aresume)
    for function in (*functions, *adapted):
        assert inspect.get_annotations(function)["options"] == "Unpack[RunKeywords]"


@pytest.mark.parametrize("function", [run_goal, GoalController])
def test_an_unknown_keyword_is_refused(function: Any) -> None:
    with pytest.raises(
        TypeError,
        match="unexpected keyword argument 'max_iteration'; did you mean 'max_iterations'",
    ):
        function(ScriptedConversation("a"), "x", max_iteration=3)


def test_a_judges_configuration_may_be_written_without_keywords() -> None:
    config = JudgeConfig("openai/gpt-5-mini", "Be strict.", minimum_score=0.5)
    assert (config.model, config.system_prompt, config.minimum_score) == (
        "openai/gpt-5-mini",
        "Be strict.",
        0.5,
    )
    assert JudgeConfig() == JudgeConfig(model="", system_prompt=None)
    assert JudgeConfig.model_validate(config.model_dump()) == config
    assert JudgeConfig.model_validate_json(config.model_dump_json()) == config
    with pytest.raises(ValueError, match=r"judge\.minimum_score\n"):
        Goal.model_validate({"objective": "x", "judge": {"minimum_score": 3}})
    with pytest.raises(ValueError, match=r"judge\.modle\n"):
        Goal.model_validate({"objective": "x", "judge": {"modle": "x"}})


@pytest.mark.parametrize(
    ("objective", "keywords", "message", "hint"),
    [
        ("", {}, "objective: is empty; write something", "help(goalrunner.run_goal)"),
        (3, {}, "objective: must be a string, not the number 3", "run_goal"),
        ("x", {"tokens": -1}, "tokens: must be greater than or equal to 1", "run_goal"),
        ("x", {"workspace": 3}, "workspace must be a path, not the number 3", "help"),
        ("x", {"validators": []}, "neither a validator nor a judge", "validators=["),
    ],
)
def test_a_wrong_argument_is_named_as_in_the_call(
    own_home: Path, objective: Any, keywords: Any, message: str, hint: str
) -> None:
    values = {"validators": [lambda: True], **keywords}
    with pytest.raises(UsageError) as refusal:
        run_goal(ScriptedConversation("x"), objective, **values)
    assert message in refusal.value.message
    assert "NoneType" not in refusal.value.message
    assert hint in str(refusal.value.hint)
