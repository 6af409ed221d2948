"""Programs for the goal package of the OpenHands SDK, run with it and with the adapter: equal results."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.frameworks import openhands
from tests.support.fake_provider import FakeProvider, fail, run, say
from tests.support.recordings import judge as verdict
from tests.support.recordings import quote

pytestmark = [
    pytest.mark.adapters,
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(300),
]

PACKAGES = ("openhands.sdk.conversation.goal", "goalrunner.adapters.openhands")
"""What a program imports, before and after."""

DONE = verdict(("it passes", [quote("o1", "12 passed")]))["text"]
"""The answer of a judge; OpenHands ignores its citations."""
DONE_SECOND = verdict(("it passes", [quote("o2", "12 passed")]))["text"]
DONE_LATER = verdict(("it passes", [quote("o3", "12 passed")]))["text"]
MISSING = verdict(("it passes", []), missing="run the tests")["text"]


@dataclass
class World:
    """What the programs of the table use: the SDK, one of the two packages, and a folder."""

    sdk: Any
    goals: Any
    folder: Path

    def llm(self, *answers: Any, usage_id: str = "test", **fields: Any) -> Any:
        """Return a model that gives these answers: texts, commands in a list, errors."""
        testing = import_module("openhands.sdk.testing")
        script = [self._message(answer) for answer in answers]
        return testing.TestLLM.from_messages(script, usage_id=usage_id, **fields)

    def _message(self, answer: Any) -> Any:
        if isinstance(answer, Exception):
            return answer
        if isinstance(answer, str):
            content = [self.sdk.TextContent(text=answer)]
            return self.sdk.Message(role="assistant", content=content)
        calls = []
        for command in answer:
            call = import_module("openhands.sdk.llm").MessageToolCall(
                id=f"call_{os.urandom(4).hex()}",
                name="shell",
                arguments=json.dumps({"command": command}),
                origin="completion",
            )
            calls.append(call)
        return self.sdk.Message(role="assistant", content=[], tool_calls=calls)

    def real_llm(self, server: FakeProvider, usage_id: str) -> Any:
        """Return the SDK's own model, with short retries, and a server behind it."""
        return self.sdk.LLM(
            model="openai/fake",
            base_url=server.base_url("openai"),
            api_key="none",
            usage_id=usage_id,
            num_retries=3,
            retry_min_wait=0,
            retry_max_wait=0,
        )

    def conversation(self, *answers: Any, llm: Any = None, **options: Any) -> Any:
        """Return a conversation whose agent gives these answers and has a shell."""
        tool = import_module("tests.adapters.openhands_tool")
        agent = self.sdk.Agent(
            llm=llm or self.llm(*answers, usage_id="agent"),
            tools=[self.sdk.Tool(name=tool.NAME)],
        )
        report = self.folder / "all.txt"
        if not report.exists():
            report.write_text("12 passed\n")
            # It is older than the first call, whose time is known to 10 ms.
            time.sleep(0.05)
        return self.sdk.Conversation(
            agent, workspace=str(self.folder), visualizer=None, **options
        )

    def judge(self, *answers: Any, **fields: Any) -> Any:
        """Return a judge that gives these answers."""
        return self.llm(*answers, usage_id="judge", **fields)


def texts(conversation: Any, source: str) -> list[str]:
    """Return the texts of the messages of a source in a conversation."""
    kinds = import_module("openhands.sdk.event")
    sdk_llm = import_module("openhands.sdk.llm")
    messages = [
        event
        for event in conversation.state.events
        if isinstance(event, kinds.MessageEvent) and event.source == source
    ]
    return [
        "\n".join(sdk_llm.content_to_str(message.llm_message.content))
        for message in messages
    ]


def shown(outcome: Any) -> Any:
    """Return what OpenHands' outcome has."""
    status, score = str(outcome.status), outcome.verdict.score
    return status, outcome.iterations, score, outcome.verdict.complete


def raised(work: Callable[[], Any]) -> Any:
    """Return the kind and the text of the error of a call; its value if it raises none."""
    try:
        return work()
    except Exception as error:
        cause = getattr(error, "original_exception", error)
        return type(error).__name__, type(cause).__name__


Program = Callable[[World], Any]
TABLE: dict[str, Program] = {}


def row(name: str) -> Callable[[Program], Program]:
    """Add a program to the table."""

    def add(program: Program) -> Program:
        TABLE[name] = program
        return program

    return add


# The controller: what it is made of.


@row("an empty objective is a ValueError")
def _(world: World) -> Any:
    make = world.goals.GoalController
    return [raised(partial(make, text, world.judge())) for text in ("", "  \n")]


@row("no round is a ValueError")
def _(world: World) -> Any:
    make = world.goals.GoalController
    return [
        raised(partial(make, "x", world.judge(), max_iterations=limit))
        for limit in (0, -1)
    ]


@row("run_goal refuses the same")
def _(world: World) -> Any:
    conversation, judge = world.conversation(), world.judge()
    return [
        raised(lambda: world.goals.run_goal(conversation, "", judge)),
        raised(
            lambda: world.goals.run_goal(conversation, "x", judge, max_iterations=0)
        ),
        texts(conversation, "user"),
    ]


@row("an unknown keyword is a TypeError at once")
def _(world: World) -> Any:
    conversation, judge = world.conversation(), world.judge()
    return [
        raised(lambda: world.goals.GoalController("x", judge, max_iteration=3)),
        raised(lambda: world.goals.run_goal(conversation, "x", judge, rounds=3)),
        raised(lambda: world.goals.GoalController("x", judge, 3)),
        raised(lambda: world.goals.run_goal(conversation, "x", judge, 3)),
    ]


@row("a controller has objective, judge, limit and count")
def _(world: World) -> Any:
    judge = world.judge()
    made = world.goals.GoalController("pass {x} {}", judge)
    return made.objective, made.judge_llm is judge, made.max_iterations, made.iteration


@row("start returns the objective first, again and again")
def _(world: World) -> Any:
    made = world.goals.GoalController("pass {x} {}", world.judge(), max_iterations=3)
    first, second = made.start(), made.start()
    return first.startswith("pass {x} {}"), first == second, made.iteration


# The controller: its decisions.


def drive(world: World, conversation: Any, judge: Any, **options: Any) -> list[Any]:
    """Run the driver of the documentation; return its steps."""
    controller = world.goals.GoalController("the tests pass", judge, **options)
    message = controller.start()
    steps: list[Any] = []
    while True:
        conversation.send_message(message)
        conversation.run()
        step = controller.on_run_finished(conversation.state.events)
        steps.append((type(step).__name__, controller.iteration))
        if not isinstance(step, world.goals.GoalContinue):
            assert isinstance(step, world.goals.GoalDone)
            assert isinstance(step, world.goals.GoalStep)
            return [*steps, shown(step.outcome)]
        steps.append((step.verdict.complete, step.verdict.score))
        steps.append("run the tests" in step.followup)
        message = step.followup


@row("the judge is satisfied in round 1")
def _(world: World) -> Any:
    return drive(
        world, world.conversation(["cat all.txt"], "They pass."), world.judge(DONE)
    )


@row("the judge is satisfied in round 2")
def _(world: World) -> Any:
    conversation = world.conversation("They pass.", ["cat all.txt"], "Now.")
    steps = drive(world, conversation, world.judge(MISSING, DONE))
    return steps, len(texts(conversation, "user"))


@row("the limit ends it")
def _(world: World) -> Any:
    conversation = world.conversation("They pass.", "They do.")
    return drive(world, conversation, world.judge(MISSING, MISSING), max_iterations=2)


@row("a limit of one round")
def _(world: World) -> Any:
    judge = world.judge(MISSING)
    return drive(world, world.conversation("They pass."), judge, max_iterations=1)


@row("steps can be dumped and read back")
def _(world: World) -> Any:
    conversation = world.conversation("They pass.", ["cat all.txt"], "Now.")
    controller = world.goals.GoalController(
        "the tests pass", world.judge(MISSING, DONE)
    )
    dumped = []
    message = controller.start()
    for kind in (world.goals.GoalContinue, world.goals.GoalDone):
        conversation.send_message(message)
        conversation.run()
        step = controller.on_run_finished(conversation.state.events)
        dumped.append(step.model_dump())
        assert kind.model_validate_json(step.model_dump_json()) == step
        message = getattr(step, "followup", "")
    first, last = dumped
    known = ("score", "complete", "missing")
    return (
        [first["verdict"][name] for name in known if name != "missing"],
        "run the tests" in first["verdict"]["missing"],
        [last["outcome"][name] for name in ("status", "iterations")],
        [last["outcome"]["verdict"][name] for name in known],
    )


@row("the controller need not be started")
def _(world: World) -> Any:
    conversation = world.conversation(["cat all.txt"], "They pass.")
    conversation.send_message("make the tests pass")
    conversation.run()
    controller = world.goals.GoalController("the tests pass", world.judge(DONE))
    return shown(controller.on_run_finished(conversation.state.events).outcome)


@row("an error of the judge is raised, and the judge can be asked again")
def _(world: World) -> Any:
    conversation = world.conversation(["cat all.txt"], "They pass.")
    judge = world.judge(
        _error("LLMServiceUnavailableError"), _error("LLMRateLimitError"), DONE
    )
    controller = world.goals.GoalController("the tests pass", judge)
    conversation.send_message(controller.start())
    conversation.run()
    failures = []
    for _ in range(2):
        failures.append(
            raised(lambda: controller.on_run_finished(conversation.state.events))
        )
        failures.append(controller.iteration)
    step = controller.on_run_finished(conversation.state.events)
    return failures, shown(step.outcome), controller.iteration


def _error(name: str) -> Any:
    return getattr(import_module("openhands.sdk.llm.exceptions"), name)("busy")


@row("the controller works inside of a running event loop")
def _(world: World) -> Any:
    async def main() -> Any:
        return drive(
            world, world.conversation(["cat all.txt"], "They pass."), world.judge(DONE)
        )

    return asyncio.run(main())


@row("a judge that streams is asked without")
def _(world: World) -> Any:
    conversation = world.conversation(["cat all.txt"], "They pass.")
    judge = world.judge(DONE, stream=True)
    outcome = world.goals.run_goal(conversation, "the tests pass", judge)
    return shown(outcome), judge.stream


# run_goal


@row("run_goal by keywords")
def _(world: World) -> Any:
    conversation = world.conversation(["cat all.txt"], "They pass.")
    outcome = world.goals.run_goal(
        conversation=conversation,
        objective="the tests pass",
        judge_llm=world.judge(DONE),
        max_iterations=3,
    )
    return shown(outcome), len(texts(conversation, "user"))


@row("run_goal inside of a running event loop")
def _(world: World) -> Any:
    async def main() -> Any:
        conversation = world.conversation(["cat all.txt"], "They pass.")
        return world.goals.run_goal(conversation, "the tests pass", world.judge(DONE))

    return shown(asyncio.run(main()))


@row("the default limit is 10 rounds")
def _(world: World) -> Any:
    conversation, judge = (
        world.conversation(*["No."] * 11),
        world.judge(*[MISSING] * 11),
    )
    return shown(world.goals.run_goal(conversation, "the tests pass", judge))


@row("all turns are in the events of the conversation")
def _(world: World) -> Any:
    conversation = world.conversation("They pass.", ["cat all.txt"], "Now.")
    world.goals.run_goal(conversation, "the tests pass", world.judge(MISSING, DONE))
    said = texts(conversation, "user")
    kinds = [type(event).__name__ for event in conversation.state.events]
    return (
        said[0].startswith("the tests pass"),
        "run the tests" in said[1],
        texts(conversation, "agent"),
        [kind for kind in kinds if kind != "ConversationStateUpdateEvent"],
    )


@row("an error of the agent is raised, and the conversation can go on")
def _(world: World) -> Any:
    conversation = world.conversation(
        _error("LLMServiceUnavailableError"), ["cat all.txt"], "They pass."
    )
    judge = world.judge(DONE)
    failure = raised(
        lambda: world.goals.run_goal(conversation, "the tests pass", judge)
    )
    status = conversation.state.execution_status.value
    outcome = world.goals.run_goal(conversation, "the tests pass", judge)
    return failure, status, shown(outcome)


@row("a key that is refused is raised")
def _(world: World) -> Any:
    conversation = world.conversation(_error("LLMAuthenticationError"))
    return raised(lambda: world.goals.run_goal(conversation, "x", world.judge(DONE)))


@row("an error of the judge ends run_goal")
def _(world: World) -> Any:
    conversation = world.conversation(["cat all.txt"], "They pass.")
    judge = world.judge(_error("LLMRateLimitError"))
    return raised(lambda: world.goals.run_goal(conversation, "the tests pass", judge))


@row("any other error of the judge ends run_goal")
def _(world: World) -> Any:
    conversation = world.conversation(["cat all.txt"], "They pass.")
    judge = world.judge(ValueError("no"))
    return raised(lambda: world.goals.run_goal(conversation, "the tests pass", judge))


@row("a message that waits is answered in round 1")
def _(world: World) -> Any:
    conversation = world.conversation(["cat all.txt"], "They pass.")
    conversation.send_message("Reports are in German.")
    outcome = world.goals.run_goal(conversation, "the tests pass", world.judge(DONE))
    said = texts(conversation, "user")
    return shown(outcome), said[0], said[1].startswith("the tests pass")


@row("a result of an earlier run of the conversation is evidence")
def _(world: World) -> Any:
    conversation = world.conversation(["cat all.txt"], "They pass.", "As shown above.")
    conversation.send_message("Run the tests.")
    conversation.run()
    outcome = world.goals.run_goal(conversation, "the tests pass", world.judge(DONE))
    return shown(outcome)


@row("a second goal in the same conversation")
def _(world: World) -> Any:
    conversation = world.conversation(["cat all.txt"], "They pass.", "As shown above.")
    return [
        shown(world.goals.run_goal(conversation, "the tests pass", world.judge(DONE)))
        for _ in range(2)
    ]


@row("a conversation that pauses is checked, and goes on")
def _(world: World) -> Any:
    def pause(event: Any) -> None:
        if type(event).__name__ == "ObservationEvent" and not paused:
            paused.append(event)
            # The status is set with the lock that this thread has.
            conversation.pause()

    paused: list[Any] = []
    conversation = world.conversation(["cat all.txt"], "They pass.", callbacks=[pause])
    judge = world.judge(MISSING, DONE)
    outcome = world.goals.run_goal(conversation, "the tests pass", judge)
    return shown(outcome), len(paused), conversation.state.execution_status.value


@row("a conversation that is paused before it starts goes on")
def _(world: World) -> Any:
    conversation = world.conversation(["cat all.txt"], "They pass.")
    conversation.pause()
    outcome = world.goals.run_goal(conversation, "the tests pass", world.judge(DONE))
    return shown(outcome)


@row("in confirmation mode, the next round confirms")
def _(world: World) -> Any:
    policies = import_module("openhands.sdk.security.confirmation_policy")
    conversation = world.conversation(["cat all.txt"], "They pass.")
    conversation.set_confirmation_policy(policies.AlwaysConfirm())
    outcome = world.goals.run_goal(
        conversation, "the tests pass", world.judge(MISSING, DONE)
    )
    return shown(outcome), conversation.state.execution_status.value


@row("actions that wait are rejected in a driver")
def _(world: World) -> Any:
    policies = import_module("openhands.sdk.security.confirmation_policy")
    conversation = world.conversation(["touch made"], "Then not.", ["cat all.txt"])
    conversation.set_confirmation_policy(policies.AlwaysConfirm())
    controller = world.goals.GoalController("the tests pass", world.judge(MISSING))
    conversation.send_message(controller.start())
    conversation.run()
    conversation.reject_pending_actions("no")
    conversation.run()
    step = controller.on_run_finished(conversation.state.events)
    made = (world.folder / "made").exists()
    return type(step).__name__, step.verdict.complete, made


@row("the steps of a run are limited")
def _(world: World) -> Any:
    conversation = world.conversation(
        ["echo 1"], ["echo 2"], ["cat all.txt"], "They pass.", max_iteration_per_run=2
    )
    judge = world.judge(MISSING, DONE_LATER)
    return shown(world.goals.run_goal(conversation, "the tests pass", judge))


@row("a stop hook keeps the agent at work")
def _(world: World) -> Any:
    hooks = import_module("openhands.sdk.hooks")
    script = world.folder.parent / "hook.sh"
    script.write_text(
        f"test -e {script}.ran && exit 0\ntouch {script}.ran\n"
        "echo run the tests >&2\nexit 2\n"
    )
    config = hooks.HookConfig.model_validate(
        {"stop": [{"hooks": [{"type": "command", "command": f"sh {script}"}]}]}
    )
    conversation = world.conversation(
        "Done.", ["cat all.txt"], "They pass.", hook_config=config
    )
    outcome = world.goals.run_goal(conversation, "the tests pass", world.judge(DONE))
    return shown(outcome), Path(f"{script}.ran").exists()


@row("a critic refines inside of a round")
def _(world: World) -> Any:
    critics = import_module("openhands.sdk.critic.base")
    scores = iter([0.1, 0.9])

    class Doubtful(critics.CriticBase):  # type: ignore[misc, name-defined]
        """Refuses the first work."""

        def evaluate(self, events: Sequence[Any], git_patch: str | None = None) -> Any:
            """Return the next score."""
            return critics.CriticResult(score=next(scores), message="look again")

    made = world.conversation("They pass.", ["cat all.txt"], "Now they do.")
    critic = Doubtful(iterative_refinement=critics.IterativeRefinementConfig())
    conversation = world.sdk.Conversation(
        made.agent.model_copy(update={"critic": critic}),
        workspace=str(world.folder),
        visualizer=None,
    )
    outcome = world.goals.run_goal(
        conversation, "the tests pass", world.judge(MISSING, DONE)
    )
    return shown(outcome), next(scores, None)


@row("the usage of the judge is in its own metrics")
def _(world: World) -> Any:
    conversation = world.conversation(["cat all.txt"], "They pass.")
    judge = world.judge(DONE)
    world.goals.run_goal(conversation, "the tests pass", judge)
    return judge.call_count, conversation.agent.llm.call_count


@row("an agent that interrupts is checked, and goes on")
def _(world: World) -> Any:
    def interrupt(event: Any) -> None:
        if type(event).__name__ == "ObservationEvent" and not interrupted:
            interrupted.append(event)
            conversation.interrupt()

    interrupted: list[Any] = []
    # A call of the model that is under way when the turn is cut takes one of these.
    look = ["cat all.txt"]
    conversation = world.conversation(
        ["echo 1"], look, look, "They pass.", "They pass.", callbacks=[interrupt]
    )
    judge = world.judge(MISSING, DONE_SECOND)
    return shown(world.goals.run_goal(conversation, "the tests pass", judge))


@row("the SDK's retries stay in force")
def _(world: World) -> Any:
    answers = [
        fail(503, "busy", times=1),
        fail(429, "slow down", times=1),
        run("cat all.txt"),
        say("Yes."),
    ]
    judged = [fail(503, "busy", times=1), say(DONE)]
    with (
        FakeProvider(answers, fresh=True, plain=True) as server,
        FakeProvider(judged, fresh=True, plain=True) as second,
    ):
        conversation = world.conversation(llm=world.real_llm(server, "agent"))
        judge = world.real_llm(second, "judge")
        outcome = world.goals.run_goal(conversation, "the tests pass", judge)
    return shown(outcome), len(server.requests), len(second.requests)


@row("when the SDK's retries are over, its error is raised")
def _(world: World) -> Any:
    with FakeProvider([fail(429, "slow down")] * 9, fresh=True, plain=True) as server:
        conversation = world.conversation(llm=world.real_llm(server, "agent"))
        failure = raised(
            partial(world.goals.run_goal, conversation, "x", world.judge(DONE))
        )
    return failure, len(server.requests)


@row("a conversation that is stuck is checked, and goes on")
def _(world: World) -> Any:
    conversation = world.conversation(*[["false"]] * 9, stuck_detection=True)
    judge = world.judge(MISSING)
    outcome = world.goals.run_goal(
        conversation, "the tests pass", judge, max_iterations=1
    )
    return shown(outcome), conversation.state.execution_status.value


@row("a saved conversation goes on in a new object")
def _(world: World) -> Any:
    saved = str(world.folder.parent / "saved")
    first = world.conversation(["cat all.txt"], "They pass.", persistence_dir=saved)
    world.goals.run_goal(
        first, "the tests pass", world.judge(MISSING), max_iterations=1
    )
    identity = first.state.id
    first.close()
    again = world.conversation(
        "As shown.", persistence_dir=saved, conversation_id=identity
    )
    outcome = world.goals.run_goal(again, "the tests pass", world.judge(DONE))
    return shown(outcome), len(texts(again, "user"))


@row("an agent that has finished goes on")
def _(world: World) -> Any:
    conversation = world.conversation("Hello.", ["cat all.txt"], "They pass.")
    conversation.send_message("Hello?")
    conversation.run()
    before = conversation.state.execution_status.value
    outcome = world.goals.run_goal(conversation, "the tests pass", world.judge(DONE))
    return before, shown(outcome), conversation.state.execution_status.value


@row("callbacks and visualizers see every event")
def _(world: World) -> Any:
    seen: list[str] = []
    conversation = world.conversation(
        ["cat all.txt"], "They pass.", callbacks=[lambda one: seen.append(one.kind)]
    )
    world.goals.run_goal(conversation, "the tests pass", world.judge(DONE))
    return [kind for kind in seen if kind != "ConversationStateUpdateEvent"]


@row("a callback that raises ends the run as there")
def _(world: World) -> Any:
    def fail_once(event: Any) -> None:
        if event.kind == "ObservationEvent":
            raise KeyError("mine")

    conversation = world.conversation(
        ["cat all.txt"], "They pass.", callbacks=[fail_once]
    )
    return raised(partial(world.goals.run_goal, conversation, "x", world.judge(DONE)))


@row("a driver may pass a list of events")
def _(world: World) -> Any:
    conversation = world.conversation(["cat all.txt"], "They pass.")
    controller = world.goals.GoalController("the tests pass", world.judge(DONE))
    conversation.send_message(controller.start())
    conversation.run()
    return shown(controller.on_run_finished(list(conversation.state.events)).outcome)


@row("a driver whose conversation fails can run it again")
def _(world: World) -> Any:
    conversation = world.conversation(
        _error("LLMServiceUnavailableError"), ["cat all.txt"], "They pass."
    )
    controller = world.goals.GoalController("the tests pass", world.judge(DONE))
    conversation.send_message(controller.start())
    failure = raised(conversation.run)
    conversation.run()
    step = controller.on_run_finished(conversation.state.events)
    return failure, shown(step.outcome)


@row("a driver works in an event loop with arun")
def _(world: World) -> Any:
    async def main() -> Any:
        conversation = world.conversation(["cat all.txt"], "They pass.")
        controller = world.goals.GoalController("the tests pass", world.judge(DONE))
        conversation.send_message(controller.start())
        await conversation.arun()
        return controller.on_run_finished(conversation.state.events).outcome

    return shown(asyncio.run(main()))


@row("the judge may be the model of the agent")
def _(world: World) -> Any:
    conversation = world.conversation(["cat all.txt"], "They pass.", DONE)
    judge = conversation.agent.llm
    outcome = world.goals.run_goal(conversation, "the tests pass", judge)
    return shown(outcome), judge.call_count


# judge_goal


@row("judge_goal gives a verdict on events")
def _(world: World) -> Any:
    conversation = world.conversation(["cat all.txt"], "They pass.")
    conversation.send_message("Run the tests.")
    conversation.run()
    judge = world.judge(DONE, MISSING)
    found = [
        world.goals.judge_goal(judge, "the tests pass", conversation.state.events)
        for _ in range(2)
    ]
    return [(one.score, one.complete) for one in found]


@row("an answer that is no JSON is not complete")
def _(world: World) -> Any:
    # The adapter asks again for a readable one.
    judge = world.judge(*["I think so."] * 3)
    found = world.goals.judge_goal(judge, "the tests pass", [])
    return found.score, found.complete, bool(found.missing)


@row("judge_goal inside of a running event loop")
def _(world: World) -> Any:
    conversation = world.conversation(["cat all.txt"], "They pass.")
    conversation.send_message("Run the tests.")
    conversation.run()

    async def main() -> Any:
        return world.goals.judge_goal(
            world.judge(DONE), "the tests pass", conversation.state.events
        )

    return asyncio.run(main()).complete


@row("judge_goal raises the error of the judge")
def _(world: World) -> Any:
    return [
        raised(partial(world.goals.judge_goal, world.judge(error), "x", []))
        for error in (_error("LLMRateLimitError"), ValueError("no"))
    ]


@row("judge_goal without an event is not complete")
def _(world: World) -> Any:
    return world.goals.judge_goal(world.judge(MISSING), "x", []).complete


# The records.


@row("the records are made by their fields")
def _(world: World) -> Any:
    goals = world.goals
    judged = goals.GoalVerdict(score=1.0, complete=True)
    outcome = goals.GoalOutcome(status="complete", iterations=2, verdict=judged)
    status = goals.GoalStatus(
        active=True, status="running", iteration=0, max_iterations=3, objective="x"
    )
    step = goals.GoalContinue(followup="go on", verdict=judged)
    return (
        shown(outcome),
        shown(goals.GoalDone(outcome=outcome).outcome),
        status.model_dump(),
        step.followup,
        judged.missing,
        isinstance(step, goals.GoalStep),
    )


@row("wrong values of the records are refused")
def _(world: World) -> Any:
    goals = world.goals
    judged = goals.GoalVerdict(score=1.0, complete=True)
    return [
        raised(lambda: goals.GoalVerdict(score=2.0, complete=True)),
        raised(lambda: goals.GoalOutcome(status="won", iterations=1, verdict=judged)),
        raised(lambda: goals.GoalOutcome(status="complete", iterations=1)),
        raised(lambda: goals.GoalContinue(followup="go on")),
        raised(lambda: goals.GoalDone()),
    ]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOAL_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("name", TABLE)
def test_a_program_gives_the_same_result_with_both_packages(
    name: str, tmp_path: Path
) -> None:
    openhands()
    results = []
    for package in PACKAGES:
        folder = tmp_path / package / "work"
        folder.mkdir(parents=True)
        world = World(import_module("openhands.sdk"), import_module(package), folder)
        with contextlib.chdir(folder):
            results.append(TABLE[name](world))
    theirs, ours = results
    assert ours == theirs


def test_every_name_of_openhands_is_here() -> None:
    openhands()
    theirs, ours = map(import_module, PACKAGES)
    assert set(theirs.__all__) <= set(ours.__all__)
