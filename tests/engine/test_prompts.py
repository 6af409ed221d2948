"""The words of a round."""

from __future__ import annotations

from goalrunner.core.decision import RunRound
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AgentConfig, ValidatorSpec, WorkspaceConfig
from goalrunner.engine.prompts import Prompts

GOAL = Goal(
    objective="Make parse() accept empty input.",
    success_criteria=("pytest passes",),
    constraints=("keep the signature of parse()",),
    validators=(ValidatorSpec(name="tests", run="pytest -q"),),
)


def test_the_first_message_says_what_done_means_and_who_checks() -> None:
    assert Prompts(GOAL).render(RunRound("first", 1)) == (
        "Make parse() accept empty input.\n\n"
        "It is complete when all of this holds:\n- pytest passes\n\n"
        "Keep to this all the way:\n- keep the signature of parse()\n\n"
        "When you finish, this is run to check your work:\n- pytest -q\n\n"
        "Clean up first, then run your checks last: a result counts only if nothing changed after it."
    )


def test_the_first_message_names_the_patterns_of_what_may_change() -> None:
    prompt = Prompts(
        GOAL.model_copy(update={"workspace": WorkspaceConfig(editable=("src/**",))})
    ).render(RunRound("first", 1))
    assert (
        "\n\nChange only files that match these patterns; your work is also checked without changes of others:\n- src/**\n\n"
        in prompt
    )


def test_a_response_is_asked_for_without_advice_on_checks() -> None:
    goal = Goal(objective="Explain rainbows.", deliverable="response")
    assert Prompts(goal).render(RunRound("first", 1)) == "Explain rainbows."


def test_the_retry_carries_the_feedback_verbatim() -> None:
    prompt = Prompts(GOAL).render(RunRound("retry", 2, "E assert {a} == '%s'"))
    assert "round 2" in prompt
    assert "\nE assert {a} == '%s'\n" in prompt
    assert prompt.endswith("Make parse() accept empty input.")


def test_empty_feedback_has_a_form_of_its_own() -> None:
    assert "did not say what is missing" in Prompts(GOAL).render(RunRound("retry", 2))


def test_the_goals_template_is_filled_in() -> None:
    goal = GOAL.model_copy(
        update={"resume_prompt": "{iteration}: {feedback} | {missing} | {objective}"}
    )
    assert (
        Prompts(goal).render(RunRound("retry", 3, "no"))
        == "3: no | no | Make parse() accept empty input."
    )


def test_a_template_without_feedback_says_so() -> None:
    goal = GOAL.model_copy(update={"resume_prompt": "{feedback}"})
    assert (
        Prompts(goal).render(RunRound("retry", 3))
        == "the check did not say what is missing"
    )


def test_a_callable_gets_the_feedback_or_none() -> None:
    prompts = Prompts(GOAL, resume_prompt=lambda feedback: f"<{feedback}>")
    assert prompts.render(RunRound("retry", 2, "red")) == "<red>"
    assert prompts.render(RunRound("retry", 2)) == "<None>"


def test_without_context_the_original_input_comes_along() -> None:
    goal = Goal(
        objective="Explain rainbows.", preserve_context=False, deliverable="response"
    )
    prompts = Prompts(goal, resume_prompt=lambda feedback: f"Not yet: {feedback}")
    assert (
        prompts.render(RunRound("retry", 2, "too long"))
        == "Explain rainbows.\n\nNot yet: too long"
    )


def test_the_callers_own_input_replaces_the_first_message() -> None:
    prompts = Prompts(
        Goal(objective="at most three sentences", preserve_context=False),
        first="Explain rainbows.",
    )
    assert prompts.render(RunRound("first", 1)) == "Explain rainbows."
    assert prompts.render(RunRound("retry", 2, "too long")).startswith(
        "Explain rainbows.\n\nThe objective is not complete"
    )


def test_an_unreadable_judge_is_not_mentioned() -> None:
    prompt = Prompts(GOAL).render(RunRound("neutral", 2))
    assert "judge" not in prompt
    assert "missing" not in prompt


def test_an_external_agent_is_told_of_no_tool_that_it_does_not_have() -> None:
    external = Goal(
        objective="Do it.", agent=AgentConfig(use="command", command=("x",))
    )
    told = Prompts(external).render(RunRound("stalled", 4, "it is red"))
    assert "say so." in told
    assert "report_blocked" not in told
    assert "report_blocked" in Prompts(GOAL).render(RunRound("stalled", 4, "it is red"))
