"""What the documentation of Strands' GoalLoop says of its judge, for runs of the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import goalrunner
from goalrunner import (
    JUDGE_OUTCOME_SCHEMA,
    JUDGE_SYSTEM_PROMPT,
    JudgeConfig,
    JudgeOutcome,
    build_judge_prompt,
    load_goal,
    run_goal,
)
from goalrunner.judge.audit import judge_goal_async
from goalrunner.testing import ScriptedConversation
from tests.support.judge_model import ScriptedJudgeModel
from tests.support.library_runs import (
    Judge,
    answer_goal,
    chatting,
    feedback,
    misses,
    proves,
    said,
    scripted_llm,
)
from tests.support.recordings import agent, judge, quote

CONCISE = "At most 3 sentences, accessible to a 10-year-old, no jargon."


def test_g01_a_text_goal_is_judged_by_the_agents_own_model(tmp_path: Path) -> None:
    conversation = chatting(
        tmp_path,
        agent("Refraction and dispersion."),
        judge(("no jargon", []), missing="It has jargon."),
        agent("Light bends in drops."),
        judge(("no jargon", [quote("o2", "Light bends in drops.")])),
    )
    outcome = run_goal(conversation, answer_goal(CONCISE), max_iterations=3, prompt="Explain how rainbows form.")
    assert (outcome.passed, outcome.stop_reason, outcome.iterations) == (True, "satisfied", 2)
    assert outcome.models["judge"] == outcome.models["agent"]
    assert conversation.messages[0]["content"] == "Explain how rainbows form."
    assert "It has jargon." in conversation.messages[2]["content"]


def test_g03_a_text_beside_a_conversation_without_a_folder_judges_the_response() -> None:
    judge = Judge(misses("It has jargon."), proves("o2", "Light bends"))
    outcome = run_goal(ScriptedConversation("Refraction.", "Light bends in drops."), CONCISE, judge)
    assert (outcome.status, outcome.iterations) == ("complete", 2)
    assert [row.source for row in outcome.evidence] == ["response"]


def test_g29_the_judge_may_have_another_model(tmp_path: Path) -> None:
    scripted_llm(tmp_path / "cheap.jsonl", proves("o1", "short"))
    config = JudgeConfig(model=f"scripted/{tmp_path}/cheap.jsonl")
    outcome = run_goal(chatting(tmp_path, agent("short")), answer_goal(), config)
    assert outcome.passed
    assert (outcome.models["judge"], outcome.usage["judge"].calls) == (config.model, 1)
    assert outcome.models["agent"] != config.model


def test_g30_the_judge_may_have_another_system_prompt() -> None:
    default, strict = Judge(proves("o1", "short")), Judge(proves("o1", "short"))
    assert run_goal(ScriptedConversation("short"), "Be short.", default).passed
    config = JudgeConfig(model=strict, system_prompt="Be strict, as a teacher.")
    assert run_goal(ScriptedConversation("short"), "Be short.", config).passed
    assert [one.asked[0][0]["role"] for one in (default, strict)] == ["system", "system"]
    assert default.asked[0][0]["content"].startswith(JUDGE_SYSTEM_PROMPT)
    assert strict.asked[0][0]["content"].startswith("Be strict, as a teacher.")
    assert JUDGE_SYSTEM_PROMPT not in strict.prompts[0]


def test_g31_a_judge_config_may_hold_a_model_object(tmp_path: Path) -> None:
    llm = scripted_llm(tmp_path / "judge.jsonl", proves("o1", "short"))
    outcome = run_goal(ScriptedConversation("short"), "Be short.", JudgeConfig(model=llm, system_prompt="Be strict."))
    assert (outcome.passed, outcome.models["judge"], llm.usage.calls) == (True, llm.model, 1)


def test_g32_the_parts_of_a_judge_are_exported() -> None:
    names = {"build_judge_prompt", "JUDGE_SYSTEM_PROMPT", "JudgeOutcome", "JUDGE_OUTCOME_SCHEMA"}
    assert names <= set(goalrunner.__all__)
    assert set(JUDGE_OUTCOME_SCHEMA["required"]) == set(JudgeOutcome.model_fields)
    outcome = JudgeOutcome.model_validate_json(proves("o1", "short"))
    assert (outcome.passed, outcome.feedback) == (True, None)
    refused = JudgeOutcome.model_validate_json(misses("Be shorter."))
    assert (refused.passed, refused.feedback) == (False, "Be shorter.")


def test_g33_a_validator_may_be_a_judge_of_its_own() -> None:
    model = Judge(misses("Be shorter."), proves("o1", "short"))

    async def custom_judge(response: Any, agent: Any) -> dict[str, Any]:
        prompt = build_judge_prompt("Be concise.", agent.messages)
        rules = [{"role": "system", "content": JUDGE_SYSTEM_PROMPT}]
        outcome = JudgeOutcome.model_validate_json(model.complete([*rules, {"role": "user", "content": prompt}]))
        return {"passed": outcome.passed, "feedback": outcome.feedback}

    outcome = run_goal(
        ScriptedConversation("long and winding", "short"), "x", validators=custom_judge, max_iterations=3
    )
    assert (outcome.status, feedback(outcome)) == ("complete", ["validator custom_judge: Be shorter.", None])
    assert "Be concise." in model.prompts[0]
    assert "long and winding" in model.prompts[0]


def test_g34_a_judge_prompt_shows_messages_in_the_shape_of_strands() -> None:
    messages = [
        {"role": "user", "content": [{"text": "Run the tests."}]},
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "t1", "name": "shell", "input": {"command": "pytest"}}}],
        },
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "43 passed"}]}}]},
        {"role": "assistant", "content": [{"text": "All is green."}]},
    ]
    prompt = build_judge_prompt("The tests pass.", messages)
    assert all(words in prompt for words in ("The tests pass.", "pytest", "43 passed", "All is green."))
    assert prompt.index("[o1] shell") < prompt.index("43 passed") < prompt.index("All is green.")


def test_g35_a_judge_prompt_shows_messages_in_the_shape_of_anthropic() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Run the tests."},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "shell", "input": {"command": "pytest"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "43 passed"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "All is green."}]},
    ]
    prompt = build_judge_prompt("The tests pass.", messages)
    assert prompt.index("[o1] shell") < prompt.index("43 passed") < prompt.index("All is green.")
    assert "pytest" in prompt


def test_g40_each_attempt_has_a_judge_without_memory_and_its_usage_apart(tmp_path: Path) -> None:
    own = Judge(misses("Be shorter."), proves("o2", "short"))
    run_goal(ScriptedConversation("long", "short"), "Be short.", own)
    assert [[message["role"] for message in messages] for messages in own.asked] == [["system", "user"]] * 2
    assert "Be shorter." not in own.prompts[1]
    llm = scripted_llm(tmp_path / "judge.jsonl", misses("Be shorter."), proves("o2", "short"))
    outcome = run_goal(ScriptedConversation("long", "short"), "Be short.", llm)
    assert {account: usage.calls for account, usage in outcome.usage.items()} == {"agent": 2, "judge": 2}


async def test_g41_the_verdict_is_asked_for_as_structured_output() -> None:
    model: Any = ScriptedJudgeModel([proves("o1", "short")])
    goal = answer_goal()
    assert (await judge_goal_async(model, goal, [said("short")])).complete
    assert model.asked[0].schema == JUDGE_OUTCOME_SCHEMA
    assert JUDGE_OUTCOME_SCHEMA["additionalProperties"] is False


GOAL = """\
objective = "Be short."
deliverable = "response"
preserve_context = false
resume_prompt = "Again: {feedback}"
timeout = "90s"
max_iterations = inf
model = "openai/gpt-5"
[judge]
model = "scripted/judge.jsonl"
system_prompt = "Be strict."
"""


def test_g48_a_goal_file_has_all_settings(here: Path) -> None:
    (here / "goal.toml").write_text(GOAL)
    scripted_llm(here / "judge.jsonl", misses("Be shorter."), proves("o2", "short"))
    goal, conversation = load_goal(here / "goal.toml"), ScriptedConversation("long", "short")
    outcome = run_goal(conversation, goal)
    assert (outcome.status, goal.judge.system_prompt) == ("complete", "Be strict.")
    assert (outcome.limits["timeout"], outcome.limits["max_iterations"]) == (90.0, None)
    assert conversation.prompts == ["Be short.\n\nAgain: Be shorter."]


def test_g49_a_judge_may_be_a_model_of_another_library() -> None:
    class ForeignModel:
        """A model that is no LLM of this library."""

        async def complete(self, messages: Any) -> str:
            assert messages[0]["role"] == "system"
            return proves("o1", "short")

    def function(messages: Any) -> str:
        return proves("o1", "short")

    for model in (ForeignModel(), function):
        outcome = run_goal(ScriptedConversation("short"), "Be short.", model)
        assert (outcome.status, outcome.usage["judge"].calls) == ("complete", 1)
    assert json.loads(function([]))["complete"]
