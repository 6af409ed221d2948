"""What a person wrote is told from prompts of the runner, reminders of programs and results of tools."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from goalrunner.adapters.strands import default_resume_prompt
from goalrunner.agents.chat_history import with_history
from goalrunner.agents.external_chat import GO_ON
from goalrunner.core.chat_trail import trail_of
from goalrunner.core.decision import RunRound
from goalrunner.core.events import PromptKind
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.run_state import Interruption
from goalrunner.core.user_messages import LONGEST_USER_TEXT, persons_text
from goalrunner.engine.prompts import Prompts

GOAL = Goal(
    objective="Make parse() accept empty input.",
    validators=(ValidatorSpec(name="tests", run="pytest -q"),),
)


@pytest.mark.parametrize("kind", get_args(PromptKind))
@pytest.mark.parametrize("keeps", [True, False])
def test_the_prompts_of_a_run_are_not_what_a_person_wrote(
    kind: PromptKind, keeps: bool
) -> None:
    goal = GOAL.model_copy(update={"preserve_context": keeps})
    prompt = Prompts(goal).render(
        RunRound(kind, 2, "1 failed", Interruption(note="Look again."))
    )
    if (
        kind != "refine"
    ):  # the words of the critic and the objective alone: known because they were sent
        assert persons_text(prompt) == ""
    assert persons_text(prompt, [prompt]) == ""
    assert persons_text(f"[goal hook]: {prompt}", [prompt]) == ""


def test_other_prompts_of_the_program_are_not_what_a_person_wrote() -> None:
    history = with_history(
        [
            {"role": "user", "content": "Fix it."},
            {"role": "assistant", "content": "Done."},
        ],
        "Go.",
    )
    for prompt in (
        GO_ON,
        history,
        default_resume_prompt(None),
        default_resume_prompt("1 failed"),
    ):
        assert persons_text(prompt) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "<system-reminder>\nThe file was changed.\n</system-reminder>",
        "<command-name>/clear</command-name>",
        "<local-command-stdout>3 passed</local-command-stdout>",
        "<task-notification><status>completed</status></task-notification>",
        "[Request interrupted by user for tool use]",
        "This session is being continued from a previous conversation that ran out of context.",
        "Stop hook feedback:\n- [goal hook claude]: 1 failed",
        "<environment_context><cwd>/src</cwd></environment_context>",
        "# AGENTS.md instructions for /src",
        "<returncode>0</returncode>\n<output>3 passed</output>",
        "EXECUTION RESULT of [execute_bash]:\n3 passed",
        "Observation: 3 passed",
    ],
)
def test_texts_of_programs_are_not_what_a_person_wrote(text: str) -> None:
    assert persons_text(text) == ""


def test_a_persons_words_stay_without_the_reminders_around_them() -> None:
    text = "Errors must be in German.<system-reminder>\nBe brief.\n</system-reminder>\n"
    assert persons_text(text, ["Go on."]) == "Errors must be in German."
    assert persons_text("Go on.", ["Go on."]) == ""
    assert persons_text("Go on. But in German.", ["Go on."]) == "Go on. But in German."


def test_a_long_text_is_shortened() -> None:
    own = persons_text("a" * 3 * LONGEST_USER_TEXT + "z")
    assert len(own) < LONGEST_USER_TEXT + 100
    assert own.endswith("z")


def test_a_chat_keeps_what_a_person_wrote_apart_from_results() -> None:
    chat: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a coder."},
        {"role": "user", "content": "Errors must be in German."},
        {"role": "assistant", "content": "Yes."},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": "ok"},
                {"text": "Go on"},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a result"},
        {"role": "user", "content": [{"type": "text", "text": "And in French."}]},
    ]
    assert [(one.round, one.text) for one in trail_of(chat).said] == [
        (1, "Errors must be in German."),
        (3, "And in French."),
    ]
