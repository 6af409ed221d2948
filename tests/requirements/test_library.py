"""Requirements that only a short run of the library shows, and that no test beside the code shows already."""

from __future__ import annotations

import asyncio
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from goalrunner import (
    Goal,
    GoalContinue,
    GoalController,
    GoalVerdict,
    Recorder,
    RoundReply,
    arun_goal,
    build_judge_prompt,
    chat_conversation,
    judge_goal,
    load_goal,
    read_events,
    read_state,
    run_goal,
)
from goalrunner.cli.main import main
from goalrunner.core import events
from goalrunner.core.errors import AgentError, Outage, UsageError
from goalrunner.core.run_state import BudgetState, WorkingMemory
from goalrunner.testing import ScriptedConversation, ScriptedRound, shell_result
from tests.support.recordings import agent, judge, quote, recording, shell, write_file

ROOT = Path(__file__).parents[2]


def answers(*results: Any) -> Any:
    """Return a validator that returns these values in turn."""
    remaining = list(results)
    return lambda response: remaining.pop(0)


def is_good(response: Any) -> bool:
    """Validate that the response contains the word good."""
    return "good" in response["content"][0]["text"]


def chatting(folder: Path, *replies: dict[str, Any]) -> Any:
    """Return the built-in agent in a folder, with scripted replies."""
    return chat_conversation(
        recording(folder / "replies.jsonl", *replies), workspace=folder
    )


def proof(words: str) -> str:
    """Return a complete verdict that quotes words of the first observation."""
    return str(judge(("it holds", [quote("o1", words)]))["text"])


@pytest.fixture(autouse=True)
def empty_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return the current folder, which is empty."""
    folder = tmp_path_factory.mktemp("here")
    monkeypatch.chdir(folder)
    return folder


def test_without_context_earlier_turns_of_the_conversation_stay() -> None:
    conversation = ScriptedConversation("earlier answer", "a", "b")
    assert run_goal(conversation, "EARLIER", validators=answers(True)).passed
    run_goal(conversation, "x", validators=answers(False, True), preserve_context=False)
    assert conversation.prompts[0].startswith("EARLIER")
    assert [message["content"] for message in conversation.messages[1::2]] == [
        "earlier answer",
        "b",
    ]


def test_without_context_the_files_of_an_attempt_stay(tmp_path: Path) -> None:
    conversation = chatting(
        tmp_path, agent("", write_file("made.txt", "one\n")), agent("a"), agent("b")
    )
    run_goal(conversation, "x", validators=answers(False, True), preserve_context=False)
    assert (tmp_path / "made.txt").read_text() == "one\n"
    assert [message["role"] for message in conversation.messages] == [
        "user",
        "assistant",
    ]


def test_without_context_the_followup_of_a_controller_has_the_original_input() -> None:
    controller = GoalController(
        "Be good.", validators=is_good, preserve_context=False, prompt="ORIGINAL"
    )
    assert controller.start() == "ORIGINAL"
    step = controller.on_run_finished([{"role": "assistant", "content": "bad"}])
    assert isinstance(step, GoalContinue)
    assert step.followup.startswith("ORIGINAL\n")
    controller.close()


async def test_the_same_settings_serve_several_agents_at_once() -> None:
    settings: dict[str, Any] = {
        "objective": "Be good.",
        "validators": is_good,
        "max_iterations": 2,
    }
    slow = ScriptedConversation(ScriptedRound("bad", delay=0.05), "good")
    outcomes = await asyncio.gather(
        *(arun_goal(one, **settings) for one in (slow, ScriptedConversation("a", "b")))
    )
    assert [outcome.status for outcome in outcomes] == ["complete", "capped"]


def test_all_validators_are_green_in_the_same_round() -> None:
    validators = [answers(True, False, True), answers(False, True, True)]
    outcome = run_goal(ScriptedConversation("a", "b", "c"), "x", validators=validators)
    assert [one.passed for one in outcome.attempts] == [False, False, True]


def test_an_agent_that_said_nothing_has_an_empty_response() -> None:
    seen: list[Any] = []

    def check(response: Any) -> bool:
        seen.append(response)
        return bool(response["content"][0]["text"])

    assert (
        run_goal(ScriptedConversation("", "words"), "x", validators=check).iterations
        == 2
    )
    assert seen[0] == {"role": "assistant", "content": [{"text": ""}]}


def test_a_conversation_with_a_history_goes_on() -> None:
    conversation = ScriptedConversation("good", "good, too")
    for objective in ("Be good.", "Be good again."):
        run_goal(conversation, objective, validators=is_good)
    assert [prompt.partition("\n")[0] for prompt in conversation.prompts] == [
        "Be good.",
        "Be good again.",
    ]


def test_an_agent_with_a_critic_of_its_own_makes_one_round_of_its_turns() -> None:
    class Critical(ScriptedConversation):
        """An agent that refines its answer until its own critic likes it."""

        async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
            reply = await super().send(prompt, recorder)
            return (
                reply
                if "good" in reply.text
                else await self.send("Refine it.", recorder)
            )

    outcome = run_goal(
        Critical("bad", "good"), "Be good.", validators=is_good, max_iterations=1
    )
    assert (outcome.status, outcome.iterations) == ("complete", 1)


def test_checks_run_in_the_workspace_of_the_conversation(
    tmp_path: Path, empty_folder: Path
) -> None:
    (empty_folder / "done").touch()
    outcome = run_goal(
        chatting(tmp_path, agent("a")), "x", validators="test -e done", max_iterations=1
    )
    assert (outcome.status, outcome.workspace) == ("capped", str(tmp_path))
    conversation = chatting(tmp_path, agent("", shell("touch done")), agent("b"))
    assert run_goal(conversation, "x", validators="test -e done").passed
    with pytest.raises(UsageError, match="the conversation works in"):
        run_goal(conversation, "x", validators="test -e done", workspace=empty_folder)


def test_a_keyword_overrides_the_field_of_the_goal() -> None:
    goal = Goal(objective="x", max_iterations=3, timeout=60)
    options: list[dict[str, Any]] = [
        {},
        {"max_iterations": 10},
        {"max_iterations": None},
    ]
    outcomes = [
        run_goal(ScriptedConversation("good"), goal, validators=is_good, **one)
        for one in options
    ]
    assert [outcome.limits["max_iterations"] for outcome in outcomes] == [3, 10, None]
    assert {outcome.limits["timeout"] for outcome in outcomes} == {60.0}


@pytest.mark.parametrize(
    ("options", "status"),
    [({}, "failed"), ({"wait": "1m"}, "complete"), ({"wait": 0}, "failed")],
)
def test_a_program_waits_for_a_limit_only_if_it_says_so(
    options: dict[str, Any], status: str
) -> None:
    class UsedUp(AgentError):
        def __getattribute__(self, name: str) -> Any:
            if name == "outage":
                return Outage(
                    "limit", "usage limit", datetime.now(UTC) + timedelta(seconds=0.3)
                )
            return super().__getattribute__(name)

    conversation = ScriptedConversation(
        ScriptedRound(error=UsedUp("it is used up")), "good"
    )
    assert run_goal(conversation, "x", validators=is_good, **options).status == status


def test_a_goal_file_has_all_settings(tmp_path: Path) -> None:
    verdicts = (
        judge(("it holds", []), missing="More."),
        judge(("it holds", [quote("o2", "short")])),
    )
    model = recording(tmp_path / "judge.jsonl", *verdicts)
    (tmp_path / "goal.toml").write_text(
        'objective = "Be short."\ndeliverable = "response"\npreserve_context = false\n'
        'resume_prompt = "Again: {feedback}"\ntimeout = "90s"\nmax_iterations = inf\n'
        'model = "openai/gpt-5"\n'
        f'[judge]\nmodel = "{model}"\nsystem_prompt = "Be strict."\n'
    )
    goal, conversation = (
        load_goal(tmp_path / "goal.toml"),
        ScriptedConversation("long", "short"),
    )
    outcome = run_goal(conversation, goal)
    assert (outcome.status, goal.judge.system_prompt) == ("complete", "Be strict.")
    assert (outcome.limits["timeout"], outcome.limits["max_iterations"]) == (90.0, None)
    assert conversation.prompts == ["Be short.\n\nAgain: More."]


STRANDS: list[dict[str, Any]] = [
    {"role": "user", "content": [{"text": "Run the tests."}]},
    {
        "role": "assistant",
        "content": [
            {
                "toolUse": {
                    "toolUseId": "t1",
                    "name": "shell",
                    "input": {"command": "pytest -q"},
                }
            }
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "toolResult": {
                    "toolUseId": "t1",
                    "content": [{"text": "3 passed in 0.1s"}],
                }
            }
        ],
    },
    {"role": "assistant", "content": [{"text": "All 3 tests pass."}]},
]


def test_messages_of_strands_are_judged_as_they_are() -> None:
    goal = Goal(objective="The tests pass.")
    prompt = build_judge_prompt(goal.objective, STRANDS)
    assert (
        prompt.index("[o1] shell")
        < prompt.index("3 passed in 0.1s")
        < prompt.index("All 3 tests pass.")
    )
    assert judge_goal(lambda messages: proof("3 passed"), goal, STRANDS).complete
    assert not judge_goal(
        lambda messages: proof("All 3 tests pass"), goal, STRANDS
    ).complete
    with pytest.raises(UsageError, match="unknown kind"):
        judge_goal(
            lambda messages: "",
            goal,
            [{"role": "user", "content": [{"toolSomething": {}}]}],
        )


def test_a_judge_sees_results_and_claims_and_no_other_prompts() -> None:
    chat = [
        {"role": "system", "content": "You are a SECRET system prompt."},
        {"role": "user", "content": "Make them pass, dear USER."},
        {"role": "tool", "tool_call_id": "c1", "content": "3 passed in 0.1s"},
        {"role": "assistant", "content": "They pass."},
    ]
    prompt = build_judge_prompt("The tests pass.", chat)
    for words in ("The tests pass.", "3 passed in 0.1s", "They pass."):
        assert words in prompt
    assert "SECRET" not in prompt
    of_the_user = prompt.partition("<said ")[2].partition("</said ")[0]
    assert "round 1: Make them pass, dear USER." in of_the_user
    assert prompt.count("dear USER") == 1


def test_a_verdict_has_a_score_between_0_and_1() -> None:
    for wrong in (-0.1, 1.1):
        with pytest.raises(ValueError, match="score"):
            GoalVerdict(score=wrong, complete=False)


def test_a_run_that_judges_itself_is_labelled(tmp_path: Path) -> None:
    goal = Goal(objective="Be good.", deliverable="response")
    replies = (agent("good"), judge(("it holds", [quote("o1", "good")])))
    judges: dict[Any, Any] = {
        None: ("self-judged",),
        "agent": ("self-judged",),
        (lambda messages: proof("good")): (),
    }
    for model, labels in judges.items():
        outcome = run_goal(chatting(tmp_path, *replies), goal, model)
        assert (outcome.status, outcome.labels) == ("complete", labels)


def test_records_have_the_fields_of_the_pattern() -> None:
    fields: dict[Any, str] = {
        events.GoalRecord: (
            "goal_id run_id owner description success_criteria constraints risk_class status created_at updated_at"
        ),
        WorkingMemory: (
            "run_id goal_id current_step completed_steps pending_steps open_questions constraints"
            " evidence_refs tool_result_refs approval_refs budget_state stop_reason version"
        ),
        BudgetState: "iteration_count token_estimate cost_cents deadline_at",
        events.GoalCreated: "goal",
        events.StepStarted: "step_id description",
        events.ToolResultRecorded: "tool_call_id evidence_ref",
        events.ApprovalRecorded: "approval_id decision",
        events.QuestionOpened: "question",
        events.QuestionAnswered: "question evidence_ref",
        events.BlockReported: "reason",
        events.RunEnded: "stop_reason message",
    }
    for record, names in fields.items():
        assert set(names.split()) <= set(record.model_fields), record


def test_the_risk_classes_are_four() -> None:
    for risk in ("low", "medium", "high", "critical"):
        assert Goal(objective="x", risk_class=risk).risk_class == risk
    with pytest.raises(ValueError, match="risk_class"):
        Goal.model_validate({"objective": "x", "risk_class": "huge"})


def test_the_stop_conditions_are_in_the_first_event() -> None:
    goal = Goal(objective="x", budget={"tokens": 5000}, stall_rounds=7)
    outcome = run_goal(
        ScriptedConversation("good"),
        goal,
        validators=is_good,
        max_iterations=4,
        timeout=60,
    )
    first = next(read_events(outcome))
    assert isinstance(first, events.GoalCreated)
    plan = first.plan
    assert (plan.max_iterations, plan.timeout, plan.tokens, plan.stall_rounds) == (
        4,
        60.0,
        5000,
        7,
    )


def test_the_state_is_smaller_than_the_transcript() -> None:
    tools = (shell_result("c1", "pytest", "1 failed\n" + "x" * 9_000, 1),)
    rounds = [ScriptedRound(tools=tools) for _ in range(6)]
    outcome = run_goal(
        ScriptedConversation(*rounds), "x", validators=is_good, max_iterations=6
    )
    transcript = (Path(outcome.run_path) / "transcript.jsonl").stat().st_size
    state = read_state(outcome)
    assert (
        transcript
        > 5 * len(state.model_dump_json())
        > 10 * len(state.memory.model_dump_json())
    )
    assert "xxxx" not in state.model_dump_json()


def test_reading_a_run_writes_nothing_and_needs_no_transcript() -> None:
    outcome = run_goal(
        ScriptedConversation("good, says the agent"), "x", validators=is_good
    )
    log = Path(outcome.run_path) / "events.jsonl"
    before = log.read_bytes()
    for command in ("status", "show", "verify"):
        assert main([command, outcome.run_id]) == 0
    assert log.read_bytes() == before
    assert b"says the agent" not in before
    (log.parent / "transcript.jsonl").unlink()
    assert read_state(outcome).status == "complete"


def test_the_packages_are_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name in ("typer", "rich", "litellm", "pydantic", "tomli-w"):
        assert any(line.startswith(name) for line in project["dependencies"]), name
