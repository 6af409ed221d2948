"""What a call of the library costs in a program that calls an agent often: without records, with them, and in a bare loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from goalrunner import arun_goal
from tests.bench.measuring import Pairs, cpu_seconds, hold, pairs, remark

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

CALLS = 20
"""Calls of a measurement: one alone takes about as long as the clock of the processor ticks."""

REPETITIONS = 9


def says_yes(response: Any) -> bool:
    return "yes" in str(response)


class Agent:
    """A conversation whose second answer is right."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def send(self, prompt: str) -> str:
        answer = "yes" if self.messages else "no"
        self.messages += [
            {"role": "user", "content": prompt},
            {"role": "assistant", "content": answer},
        ]
        return answer


async def bare_loop() -> None:
    """What a framework's loop does at least: let the agent work, check the answer, and go on."""
    agent, prompt = Agent(), "The answer is yes."
    for _ in range(10):
        if says_yes(await agent.send(prompt)):
            return
        prompt = "That is not right yet."
    raise AssertionError("the second answer is right")


async def call(records: str) -> None:
    outcome = await arun_goal(
        Agent(), "The answer is yes.", validators=[says_yes], records=records
    )
    assert (outcome.status, outcome.iterations) == ("complete", 2)


def seconds_a_call(one: Callable[[], Any]) -> Callable[[], float]:
    """Return a measurement: the time of the processor, which other load does not lengthen."""

    async def calls() -> None:
        for _ in range(CALLS):
            await one()

    return lambda: cpu_seconds(lambda: asyncio.run(calls())) / CALLS


def test_a_call_without_records_is_quick(own_home: Any) -> None:
    bare = seconds_a_call(bare_loop)
    without = seconds_a_call(lambda: call("none"))
    with_records = seconds_a_call(lambda: call("all"))
    measured = pairs(without, with_records, REPETITIONS)
    loops = [bare() for _ in range(REPETITIONS)]
    remark("a bare loop", loops)
    beyond = [one - loop for one, loop in zip(measured.first, loops, strict=True)]
    hold(
        "a call without records, beyond a bare loop / 20 ms",
        Pairs(beyond, [0.02] * REPETITIONS),
    )
    hold("a call without records / a call with records", measured)


def test_a_call_of_goal_loop_is_quick_beside_strands_own(own_home: Any) -> None:
    strands = pytest.importorskip("strands", reason="strands-agents is not installed")
    theirs = import_module("strands.vended_plugins.goal")
    ours = import_module("goalrunner.adapters.strands")
    model = _scripted_model()

    def says_yes_to(response: Any, agent: Any) -> bool:
        return says_yes(response)

    async def ask(loop: Any) -> None:
        agent = strands.Agent(model=model(), plugins=[loop], callback_handler=None)
        await agent.invoke_async("The answer is yes.")
        assert loop.last_result(agent).passed

    bare = seconds_a_call(lambda: ask(theirs.GoalLoop(says_yes_to, max_attempts=3)))
    without = seconds_a_call(
        lambda: ask(ours.GoalLoop(says_yes_to, max_attempts=3, records="none"))
    )
    measured = pairs(without, bare, REPETITIONS)
    beyond = [
        one - loop for one, loop in zip(measured.first, measured.second, strict=True)
    ]
    remark("Strands' own loop", measured.second)
    hold(
        "GoalLoop without records, beyond Strands' own / 20 ms",
        Pairs(beyond, [0.02] * REPETITIONS),
    )


def _scripted_model() -> Any:
    """Return a class of Strands models that answer at once."""
    models = import_module("strands.models")

    class Scripted(models.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self._answers = iter(["no", "yes"])

        def update_config(self, **_: Any) -> None:
            """Do nothing: there is none."""

        def get_config(self) -> dict[str, Any]:
            return {}

        async def structured_output(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        async def stream(self, *_: Any, **__: Any) -> Any:
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": next(self._answers)}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}

    return Scripted
