"""The same program over Strands' own GoalLoop and over ours: only the import differs."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tests.adapters.strands_stage import (
    Scene,
    Stage,
    asking,
    doubles,
    passes_at,
)

pytestmark = [
    pytest.mark.adapters,
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(120),
]

ORIGINAL = "strands.vended_plugins.goal"
OURS = "goalrunner.adapters.strands"


def raised(function: Callable[[], Any]) -> str:
    """Return the name of the error that a call raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function()
        except Exception as error:
            return type(error).__name__
    return ""


# The constructor and the names.


def wrong_parameters_raise(stage: Stage) -> Any:
    make = stage.goal.GoalLoop
    return [
        raised(lambda: make(None)),
        raised(lambda: make("x", max_attempts=0)),
        raised(lambda: make("x", max_attempts=-1)),
        raised(lambda: make("x", max_attempts="3")),
        raised(lambda: make("x", timeout=0)),
        raised(lambda: make("x", timeout=-1.0)),
        raised(lambda: make("x", max_attempt=3)),
        raised(lambda: make("x", 3)),
        raised(lambda: make()),
        raised(lambda: make("x", max_attempts=1)),
        raised(lambda: make(goal=len, timeout=5)),
    ]


def no_limit_is_warned_about_in_the_line_of_the_caller(stage: Stage) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stage.goal.GoalLoop("x")
        stage.goal.GoalLoop("x", timeout=1)
        stage.goal.GoalLoop("x", max_attempts=1)
    return [(one.category, one.filename, one.lineno) for one in caught]


def the_name_is_that_of_the_plugin(stage: Stage) -> Any:
    default = stage.goal.GoalLoop("x", timeout=1)
    other = stage.goal.GoalLoop("x", timeout=1, name="mine")
    return default.name, other.name


def results_are_dataclasses_with_equality_and_repr(stage: Stage) -> Any:
    goal = stage.goal
    one = goal.GoalAttempt(1, False, "no")
    result = goal.GoalResult(True, "satisfied", [one, goal.GoalAttempt(2, True)])
    return (
        [(field.name, field.default) for field in fields(goal.GoalAttempt)],
        one == goal.GoalAttempt(attempt=1, passed=False, feedback="no"),
        one == goal.GoalAttempt(1, False),
        repr(one),
        repr(result),
        repr(goal.GoalResult(passed=False, stop_reason="timeout")),
        result == goal.GoalResult(True, "satisfied", list(result.attempts)),
        goal.ValidationOutcome(False, "no") == goal.ValidationOutcome(False, "no"),
        repr(goal.ValidationOutcome(True)),
        repr(goal.JudgeConfig()),
        goal.JudgeConfig(system_prompt="x") == goal.JudgeConfig(None, "x"),
    )


def a_result_prints_and_compares_like_one_that_is_made(stage: Stage) -> Any:
    scene = stage.scene(["a", "b"])
    scene.ask()
    result = scene.loop.last_result(scene.agent)
    goal = stage.goal
    made = [goal.GoalAttempt(1, False), goal.GoalAttempt(2, True)]
    return repr(result), result == goal.GoalResult(True, "satisfied", made)


def the_names_of_judges_are_the_same(stage: Stage) -> Any:
    goal = stage.goal
    outcome = goal.JudgeOutcome(passed=False, feedback="no")
    message = {"role": "user", "content": [{"text": "Why?"}]}
    return (
        goal.JUDGE_SYSTEM_PROMPT,
        outcome.passed,
        outcome.feedback,
        goal.JudgeOutcome.model_json_schema(),
        goal.build_judge_prompt("Be brief.", [message]),
        goal.build_judge_prompt(description="x", transcript=[]),
        isinstance(passes_at(1), goal.Validator),
    )


# Validators.


def _returning(stage: Stage, value: Any) -> Any:
    scene = stage.scene(["a"], lambda response, agent: value, max_attempts=1)
    scene.ask()
    return scene.result


def every_result_of_a_validator_counts(stage: Stage) -> Any:
    outcome = stage.goal.ValidationOutcome
    values = [
        True,
        False,
        outcome(True),
        outcome(True, "well done"),
        outcome(False, "no"),
        outcome(passed=False, feedback="  two\n lines \n"),
        {"passed": True},
        {"passed": False},
        {"passed": False, "feedback": "no"},
        {"passed": True, "feedback": "well done"},
        {"passed": True, "score": 0.9},
        {"passed": 1},
        {"passed": 0, "feedback": ""},
        {"passed": None},
        {"feedback": "no"},
        {},
    ]
    return [_returning(stage, value) for value in values]


def long_feedback_is_kept_whole(stage: Stage) -> Any:
    words: list[Any] = []
    long = "x" * 20_000

    def template(feedback: Any) -> str:
        words.append(feedback)
        return "Again."

    scene = stage.scene(
        ["a", "b"],
        lambda response, agent: {"passed": len(words) == 1, "feedback": long},
        resume_prompt_template=template,
    )
    scene.ask()
    return scene.result, words


def a_result_of_another_kind_is_a_failed_attempt(stage: Stage) -> Any:
    shown = [_returning(stage, value) for value in (None, "yes", 1, object(), [True])]
    return [
        (passed, reason, attempts[0][:2], attempts[0][2].startswith("Validator error"))
        for passed, reason, attempts in shown
    ]


def a_validator_that_raises_is_a_failed_attempt_with_its_text(stage: Stage) -> Any:
    def validator(response: Any, agent: Any) -> Any:
        raise ValueError("the answer is too long")

    scene = stage.scene(["a"], validator, max_attempts=2)
    text = scene.ask()
    return text, scene.result, "Traceback" in str(scene.agent.messages)


def an_error_is_logged_as_a_warning(stage: Stage) -> Any:
    records: list[logging.LogRecord] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Handler()
    loggers = [logging.getLogger(name) for name in ("strands", "goalrunner")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        stage.scene(["a"], lambda *_: 1 / 0, max_attempts=1).ask()
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
    return [
        (record.levelname, "division by zero" in record.getMessage())
        for record in records
        # Milestones of a run are told at INFO, which Strands has not.
        if record.levelno >= logging.WARNING
    ]


def a_validator_may_be_async(stage: Stage) -> Any:
    calls: list[int] = []

    async def validator(response: Any, agent: Any) -> Any:
        await asyncio.sleep(0)
        calls.append(1)
        return len(calls) == 2

    scene = stage.scene(["a", "b"], validator)
    return scene.ask(), scene.result


def a_validator_may_return_an_awaitable(stage: Stage) -> Any:
    async def later() -> Any:
        return {"passed": True, "feedback": "fine"}

    scene = stage.scene(["a"], lambda response, agent: later())
    return scene.ask(), scene.result


def a_validator_may_be_an_object_or_a_method(stage: Stage) -> Any:
    class Check:
        def __call__(self, response: Any, agent: Any, **kwargs: Any) -> bool:
            return True

        async def check(self, response: Any, agent: Any) -> bool:
            return True

    return [stage.scene(["a"], one).ask() for one in (Check(), Check().check)]


def a_validator_of_one_argument_is_a_failed_attempt(stage: Stage) -> Any:
    scene = stage.scene(["a"], lambda response: True, max_attempts=1)
    scene.ask()
    passed, reason, attempts = scene.result
    return passed, reason, "argument" in attempts[0][2]


def a_validator_gets_the_last_message_and_the_agent_themselves(stage: Stage) -> Any:
    same: list[bool] = []

    def validator(response: Any, agent: Any) -> bool:
        same.append(response is agent.messages[-1])
        same.append(agent is scene.agent)
        return len(same) > 2

    scene = stage.scene(["a", "b"], validator)
    scene.ask()
    return same


def a_validator_runs_in_the_thread_of_the_event_loop(stage: Stage) -> Any:
    threads: list[bool] = []

    def validator(response: Any, agent: Any) -> bool:
        asyncio.get_running_loop()
        threads.append(threading.current_thread() is here)
        return True

    here = threading.current_thread()
    scene = stage.scene(["a"], validator)
    asyncio.run(scene.agent.invoke_async("Go."))
    return threads, scene.result


def an_attempt_is_validated_once(stage: Stage) -> Any:
    calls: list[str] = []
    scene = stage.scene(
        ["a", "b", "c"],
        lambda response, agent: calls.append(response["content"][0]["text"]),
    )
    scene.ask()
    return calls


def errors_that_end_a_program_are_raised(stage: Stage) -> Any:
    def interrupted(response: Any, agent: Any) -> Any:
        raise KeyboardInterrupt

    def left(response: Any, agent: Any) -> Any:
        raise SystemExit(3)

    return [stage.scene(["a"], one).ask() for one in (interrupted, left)]


def a_validator_may_ask_another_agent(stage: Stage) -> Any:
    strands, scripted = import_module("strands"), doubles()
    goal = stage.goal

    async def custom_judge(response: Any, agent: Any) -> Any:
        judge = strands.Agent(
            model=model,
            callback_handler=None,
            system_prompt=goal.JUDGE_SYSTEM_PROMPT,
            structured_output_model=goal.JudgeOutcome,
        )
        prompt = goal.build_judge_prompt("Be brief.", agent.messages)
        outcome = (await judge.invoke_async(prompt)).structured_output
        return {"passed": outcome.passed, "feedback": outcome.feedback}

    verdicts = [scripted.Verdict(False, "shorter"), scripted.Verdict(True)]
    model = scripted.ScriptedModel([""], verdicts)
    scene = stage.scene(
        ["long", "short"], custom_judge, resume_prompt_template=lambda _: "Again."
    )
    return scene.ask(), scene.result, model.judged


def a_sync_validator_may_ask_another_agent(stage: Stage) -> Any:
    strands, scripted = import_module("strands"), doubles()
    model = scripted.ScriptedModel(["no", "yes"])

    def ask(response: Any, agent: Any) -> bool:
        judge = strands.Agent(model=model, callback_handler=None)
        return str(judge("Is it good?")).strip() == "yes"

    scene = stage.scene(["a", "b"], ask)
    return scene.ask(), scene.result


# The loop.


def each_invocation_is_a_run_of_its_own(stage: Stage) -> Any:
    scene = stage.scene(["a", "b", "c"], lambda r, agent: len(agent.messages) > 2)
    before = scene.result
    first = scene.ask("One."), scene.result
    second = scene.ask("Two."), scene.result
    return before, first, second, scene.chat, scene.model.requests[:1]


def a_result_is_none_while_a_run_is_in_flight(stage: Stage) -> Any:
    seen: list[Any] = []

    def validator(response: Any, agent: Any) -> bool:
        seen.append(scene.result)
        return True

    scene = stage.scene(["a"], validator)
    scene.ask()
    scene.ask()
    return seen


def attempts_end_at_their_maximum(stage: Stage) -> Any:
    shown = []
    for most in (1, 2, 2.5, True, 12):
        scene = stage.scene(["a"], lambda *_: False, max_attempts=most)
        shown.append((scene.ask(), scene.result, len(scene.model.requests)))
    return shown


def many_attempts_are_all_kept(stage: Stage) -> Any:
    scene = stage.scene(["a"], passes_at(105), max_attempts=200)
    scene.ask()
    return len(scene.result[2]), scene.result[2][0], scene.result[:2]


def the_retry_is_a_user_message(stage: Stage) -> Any:
    scene = stage.scene(["a", "b"])
    scene.ask()
    return scene.chat


def templates_get_the_trimmed_feedback(stage: Stage) -> Any:
    shown = []
    for feedback in (None, "", " \n", "  no \n"):
        words: list[Any] = []

        def template(text: Any, words: Any = words) -> Any:
            words.append(text)
            return "START OVER"

        outcome = {"passed": False, "feedback": feedback}
        scene = stage.scene(
            ["a"],
            lambda *_, outcome=outcome: outcome,
            max_attempts=2,
            resume_prompt_template=template,
        )
        scene.ask()
        shown.append((words, scene.chat))
    return shown


def templates_return_what_an_agent_takes(stage: Stage) -> Any:
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    message = {"role": "user", "content": [{"text": "whole"}]}
    values = ["text", [{"text": "one"}, {"text": "two"}], [image], [message], ""]
    shown = []
    for value in values:
        scene = stage.scene(
            ["a", "b"], resume_prompt_template=lambda _, value=value: value
        )
        shown.append((scene.ask(), scene.chat, scene.result))
    return shown


def an_error_of_a_template_is_raised(stage: Stage) -> Any:
    def template(feedback: Any) -> Any:
        raise LookupError("no template")

    scene = stage.scene(["a", "b"], resume_prompt_template=template)
    return scene.ask()


def the_time_limit_is_checked_between_attempts(stage: Stage) -> Any:
    def slowly(passed: bool) -> Any:
        time.sleep(1.1)
        return passed

    # A turn that ends after the limit is not validated; a validator is not cut.
    late = stage.scene(["a"], lambda *_: slowly(True), timeout=1)
    late.ask()
    over = stage.scene(["a"], lambda *_: slowly(False), timeout=1)
    over.ask()
    return late.result, over.result


def without_context_a_retry_starts_from_the_input(stage: Stage) -> Any:
    scene = stage.scene(
        ["zero", "a", "b", "c"], passes_at(4), preserve_context=False, max_attempts=4
    )
    scene.agent.messages.append({"role": "user", "content": [{"text": "Hi."}]})
    scene.agent.messages.append({"role": "assistant", "content": [{"text": "Hm."}]})
    scene.agent.state.set("kept", 1)
    text = scene.ask("Count.")
    return text, scene.chat, scene.result, scene.agent.state.get("kept")


def without_context_the_system_prompt_comes_back(stage: Stage) -> Any:
    def validator(response: Any, agent: Any) -> bool:
        prompts.append(agent.system_prompt)
        agent.system_prompt = "changed"
        agent.state.set("tries", len(prompts))
        return len(prompts) == 3

    prompts: list[Any] = []
    options = {"system_prompt": "original"}
    scene = stage.scene(["a"], validator, agent=options, preserve_context=False)
    scene.ask()
    return prompts, scene.agent.state.get("tries")


# Input.


def an_agent_without_a_prompt_answers_pending_messages(stage: Stage) -> Any:
    scene = stage.scene(["a", "b"])
    scene.agent.messages.append({"role": "user", "content": [{"text": "Why?"}]})
    return scene.ask(None), scene.chat, scene.result


def an_agent_without_any_message_is_invoked(stage: Stage) -> Any:
    scene = stage.scene(["a", "b"])
    return scene.ask(None), scene.chat, scene.result


def every_kind_of_input_is_taken(stage: Stage) -> Any:
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    document = {
        "document": {"format": "pdf", "name": "a", "source": {"bytes": b"%PDF"}}
    }
    turns = [
        {"role": "user", "content": [{"text": "One."}]},
        {"role": "assistant", "content": [{"text": "Two."}]},
        {"role": "user", "content": [{"text": "Three."}]},
    ]
    prompts = ["", " ", [{"text": "x"}], [image], [document, {"text": "y"}], [], turns]
    shown = []
    for prompt in prompts:
        scene = stage.scene(["a", "b"])
        shown.append((scene.ask(prompt), scene.chat, scene.result))
    return shown


def every_kind_of_input_is_judged(stage: Stage) -> Any:
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    verdict = doubles().Verdict
    shown = []
    for prompt in (None, "", [image], "Why?"):
        scene = stage.scene(
            ["The first one.", "The second one."],
            "Be brief.",
            [verdict(False, "shorter"), verdict(True)],
        )
        shown.append((scene.ask(prompt), scene.chat, scene.result))
    return shown


def an_answer_without_text_is_validated(stage: Stage) -> Any:
    scene = stage.scene([""], lambda response, agent: response["content"] == [])
    scene.ask()
    return scene.result, scene.chat


# What the framework does around it.


class City(BaseModel):
    """A structured output."""

    name: str


def structured_output_is_validated(stage: Stage) -> Any:
    call = doubles().call
    names: list[Any] = []

    def validator(response: Any, agent: Any) -> Any:
        uses = [block["toolUse"] for block in response["content"] if "toolUse" in block]
        names.append(uses[0]["input"]["name"])
        return names[-1] == "Rome"

    answers = [call("City", "c1", name="Bern"), call("City", "c2", name="Rome")]
    scene = stage.scene(answers, validator)
    result = scene.agent("Which?", structured_output_model=City)
    return result.structured_output, names, scene.result, scene.chat


def structured_output_is_judged(stage: Stage) -> Any:
    scripted = doubles()
    answers = [scripted.call("City", "c1", name="Bern")]
    verdicts = [scripted.Verdict(True)]
    scene = stage.scene(answers, "Name the capital of Switzerland.", verdicts)
    result = scene.agent("Which?", structured_output_model=City)
    return result.structured_output, scene.result, "Bern" in scene.model.judged[0]


def the_old_call_for_structured_output_works(stage: Stage) -> Any:
    scene = stage.scene(['{"name": "Bern"}', "a"], lambda *_: True)
    city = scene.agent.structured_output(City, "Which?")
    return city, scene.ask(), scene.result


def every_event_is_streamed(stage: Stage) -> Any:
    async def streamed() -> list[Any]:
        shown = []
        async for event in scene.agent.stream_async("Go."):
            if "result" in event:
                shown.append(("result", str(event["result"])))
            elif "data" in event:
                shown.append(("data", event["data"]))
            else:
                shown.append(tuple(sorted(event)))
        return shown

    scene = stage.scene(["a", "b"])
    return asyncio.run(streamed()), scene.result


def a_callback_handler_gets_every_event(stage: Stage) -> Any:
    shown: list[Any] = []
    scene = stage.scene(["a", "b"])
    scene.agent.callback_handler = lambda **event: shown.append(
        event.get("data") or sorted(event)
    )
    scene.ask()
    return shown


def hooks_see_every_turn(stage: Stage) -> Any:
    hooks = import_module("strands.hooks")
    names = [
        "BeforeInvocationEvent",
        "AfterInvocationEvent",
        "BeforeModelCallEvent",
        "AfterModelCallEvent",
        "MessageAddedEvent",
        "BeforeToolCallEvent",
        "AfterToolCallEvent",
    ]
    shown: list[str] = []
    scene = stage.scene([doubles().call("add", a=1), "2", "3"], agent=_adding())
    for name in names:
        scene.agent.add_hook(
            lambda event, name=name: shown.append(name), getattr(hooks, name)
        )
    scene.ask()
    return shown, scene.result


def _adding() -> dict[str, Any]:
    """Return the options of an agent with a tool."""

    def add(a: int) -> int:
        """Add one to a number.

        Args:
            a: The number.
        """
        return a + 1

    return {"tools": [import_module("strands").tool(add)]}


def tools_run_in_every_attempt(stage: Stage) -> Any:
    call = doubles().call
    answers = [call("add", "c1", a=1), "two", call("add", "c2", a=2), "three"]
    scene = stage.scene(answers, agent=_adding())
    return scene.ask(), scene.result, scene.chat


def the_judge_sees_tools_and_earlier_turns(stage: Stage) -> Any:
    scripted = doubles()
    answers = [scripted.call("add", a=41), "It is so.", "Red.", "The third answer."]
    verdicts = [scripted.Verdict(True)]
    scene = stage.scene(answers, "Be brief.", verdicts, agent=_adding())
    scene.ask("How many?")
    scene.ask("And the colour?")
    scene.ask("And why?")
    words = ("How many?", "And the colour?", "42", "It is so.", "The third answer.")
    return [[word in text for word in words] for text in scene.model.judged]


def the_judge_is_asked_with_its_own_model_and_prompt(stage: Stage) -> Any:
    scripted = doubles()
    own = scripted.ScriptedModel([""], [scripted.Verdict(True)])
    config = stage.goal.JudgeConfig(model=own, system_prompt="Judge as a physicist.")
    scene = stage.scene(["Light bends."], "Be brief.", judge=config)
    scene.ask()
    rules = [text.splitlines()[0] for text in own.judged]
    return scene.result, scene.model.judged, rules


def the_auxiliary_model_judges(stage: Stage) -> Any:
    scripted = doubles()
    aux = scripted.ScriptedModel([""], [scripted.Verdict(True)])
    scene = stage.scene(["Light bends."], "Be brief.", agent={"aux_model": aux})
    scene.ask()
    return scene.result, len(aux.judged), len(scene.model.judged)


def a_judge_is_ignored_beside_a_callable(stage: Stage) -> Any:
    config = stage.goal.JudgeConfig(system_prompt="x")
    scene = stage.scene(["a", "b"], judge=config)
    scene.ask()
    return scene.result, scene.model.judged


def an_error_of_the_judge_is_a_failed_attempt(stage: Stage) -> Any:
    verdicts = [ConnectionError("the judge is down"), doubles().Verdict(True)]
    scene = stage.scene(["The first.", "The second."], "Be brief.", verdicts)
    text = scene.ask()
    always = stage.scene(["The first."], "Be brief.", verdicts[:1])
    always.ask()
    return text, scene.result, scene.chat, always.result


def a_throttled_judge_is_asked_again(stage: Stage) -> Any:
    throttled = import_module("strands.types.exceptions").ModelThrottledException
    verdicts = [throttled("slow down"), throttled("slow"), doubles().Verdict(True)]
    scene = stage.scene(["The first one."], "Be brief.", verdicts)
    return scene.ask(), scene.result, len(scene.model.judged)


def a_throttled_agent_is_asked_again(stage: Stage) -> Any:
    throttled = import_module("strands.types.exceptions").ModelThrottledException
    scene = stage.scene([throttled("slow down"), "a", throttled("slow down"), "b"])
    return scene.ask(), scene.result, scene.chat


def a_session_is_stored_and_restored(stage: Stage) -> Any:
    manager = import_module("strands.session").FileSessionManager
    folder = str(stage.folder / "sessions")

    def scene(answers: Any) -> Scene:
        session = manager(session_id="s", storage_dir=folder)
        return stage.scene(answers, agent={"session_manager": session})

    first = scene(["a", "b"])
    first.ask("One.")
    second = scene(["c", "d"])
    restored = second.chat
    second.ask("Two.")
    third = scene(["e"])
    stored = len(list(Path(folder).rglob("message_*.json")))
    return first.chat, restored, second.chat, third.chat, second.result, stored


def an_interrupt_is_answered_by_the_next_call(stage: Stage) -> Any:
    call = doubles().call
    scene = stage.scene(
        [call("delete", path="a"), "Deleted."], lambda *_: True, agent=asking()
    )
    interrupted = scene.agent("Delete a.")
    answers = [
        {"interruptResponse": {"interruptId": one.id, "response": "yes"}}
        for one in interrupted.interrupts
    ]
    reasons = [interrupted.stop_reason, [one.name for one in interrupted.interrupts]]
    return reasons, scene.ask(answers), scene.result, scene.chat


def an_interrupt_is_answered_in_another_process(stage: Stage) -> Any:
    manager = import_module("strands.session").FileSessionManager
    folder = str(stage.folder / "sessions")

    def scene(answers: Any) -> Scene:
        session = manager(session_id="s", storage_dir=folder)
        options = {**asking(), "session_manager": session}
        return stage.scene(answers, lambda *_: True, agent=options)

    interrupted = scene([doubles().call("delete", path="a")]).agent("Delete a.")
    answers = [
        {"interruptResponse": {"interruptId": one.id, "response": "yes"}}
        for one in interrupted.interrupts
    ]
    again = scene(["Deleted."])
    return again.ask(answers), again.result, again.chat


def an_error_of_the_model_is_raised(stage: Stage) -> Any:
    scene = stage.scene([ValueError("no such model"), "a", "b"])
    return scene.ask(), scene.ask(), scene.result


def the_result_of_the_call_is_that_of_the_last_attempt(stage: Stage) -> Any:
    scene = stage.scene(["a", "b"])
    result = scene.agent("Go.", invocation_state={"mine": 1})
    used = result.metrics.accumulated_usage
    return (
        result.stop_reason,
        result.message["content"],
        used,
        result.metrics.cycle_count,
    )


def limits_of_an_invocation_hold(stage: Stage) -> Any:
    call = doubles().call
    scene = stage.scene(
        [call("add", "c1", a=1), call("add", "c2", a=2), "b"],
        lambda *_: True,
        agent=_adding(),
    )
    result = scene.agent("Go.", limits={"turns": 1})
    return result.stop_reason, scene.result


def one_plugin_serves_several_agents_at_once(stage: Stage) -> Any:
    strands, scripted = import_module("strands"), doubles()
    loop = stage.goal.GoalLoop(
        lambda response, agent: len(agent.messages) > 2, max_attempts=3
    )
    agents = [
        strands.Agent(
            model=scripted.ScriptedModel([name, name.upper()]),
            plugins=[loop],
            callback_handler=None,
        )
        for name in "ab"
    ]

    async def both() -> list[str]:
        results = await asyncio.gather(*(agent.invoke_async("Go.") for agent in agents))
        return [str(result).strip() for result in results]

    return asyncio.run(both()), [loop.last_result(one).passed for one in agents]


def an_agent_has_one_loop(stage: Stage) -> Any:
    strands, scripted = import_module("strands"), doubles()
    loops = [stage.goal.GoalLoop(len, timeout=1, name=name) for name in "ab"]
    model = scripted.ScriptedModel(["a"])
    return raised(lambda: strands.Agent(model=model, plugins=loops))


def a_result_lives_as_long_as_its_agent(stage: Stage) -> Any:
    import gc

    scene = stage.scene(["a"], lambda *_: True)
    scene.ask()
    agent = weakref.ref(scene.agent)
    del scene.agent
    gc.collect()
    return agent()


def a_loop_may_be_subclassed(stage: Stage) -> Any:
    class Brief(stage.goal.GoalLoop):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__(passes_at(2), max_attempts=3, name="brief")

    strands, scripted = import_module("strands"), doubles()
    loop = Brief()
    model = scripted.ScriptedModel(["a", "b"])
    agent = strands.Agent(model=model, plugins=[loop], callback_handler=None)
    return str(agent("Go.")), loop.name, loop.last_result(agent).passed


def an_agent_may_be_a_tool_and_a_node(stage: Stage) -> Any:
    strands, scripted = import_module("strands"), doubles()
    multiagent = import_module("strands.multiagent")
    inner = stage.scene(["a", "b", "c"])
    outer = strands.Agent(
        model=scripted.ScriptedModel([scripted.call("inner", input="Go."), "Done."]),
        tools=[inner.agent.as_tool(name="inner", description="Works.")],
        callback_handler=None,
    )
    text = str(outer("Go.")).strip()
    node = stage.scene(["a", "b", "c"])
    builder = multiagent.GraphBuilder()
    builder.add_node(node.agent, "work")
    builder.set_entry_point("work")
    status = builder.build()("Go.").status.value
    return text, inner.result, status, node.result


STORIES: list[Callable[[Stage], Any]] = [
    value
    for name, value in list(globals().items())
    if getattr(value, "__module__", "") == __name__
    and getattr(value, "__annotations__", {}).get("stage") == "Stage"
    and not name.startswith("_")
]


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip without Strands; let its retries wait for no time."""
    pytest.importorskip("strands", reason="SKIPPED: strands-agents is not installed")
    retries = import_module("strands.event_loop._retry").ModelRetryStrategy
    monkeypatch.setattr(retries, "_calculate_delay", lambda *_: 0)
    monkeypatch.setenv("GOAL_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_both_loops_give_the_same(
    story: Callable[[Stage], Any], tmp_path: Path
) -> None:
    results = []
    for module in (ORIGINAL, OURS):
        folder = tmp_path / module
        folder.mkdir()
        results.append(story(Stage(import_module(module), folder)))
    assert results[0] == results[1]
