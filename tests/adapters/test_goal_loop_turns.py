"""Turns of a Strands agent that do not simply end."""

from __future__ import annotations

import asyncio
import json
import logging
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from goalrunner import Goal, read_events
from goalrunner.core.events import WorkFailed
from tests.adapters.strands_stage import Scene, Stage, asking, doubles, passes_at

pytestmark = [
    pytest.mark.adapters,
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(120),
]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Return a stage with our GoalLoop; its runs keep their records in a folder."""
    pytest.importorskip("strands", reason="SKIPPED: strands-agents is not installed")
    monkeypatch.setenv("GOAL_HOME", str(tmp_path / "home"))
    return Stage(import_module("goalrunner.adapters.strands"), tmp_path)


def verdict(**fields: Any) -> str:
    """Return a verdict that is not complete, as a judge answers it."""
    return json.dumps({"criteria": [], "score": 0.1, "complete": False, **fields})


def statuses(stage: Stage) -> list[str]:
    """Return the stop reasons of all runs, in order of their names."""
    paths = (stage.folder / "home" / "runs").glob("*/outcome.json")
    outcomes = [json.loads(path.read_text()) for path in paths]
    return sorted(outcome["stop_reason"] for outcome in outcomes)


def answered(result: Any) -> list[Any]:
    """Return the answers to the interrupts of a result."""
    return [
        {"interruptResponse": {"interruptId": one.id, "response": "yes"}}
        for one in result.interrupts
    ]


def outcome_of(scene: Scene) -> Any:
    """Return the whole outcome of the last run."""
    return scene.loop.last_result(scene.agent).outcome


def test_an_attempt_goes_on_after_the_answer_to_its_interrupt(stage: Stage) -> None:
    call = doubles().call
    answers = [
        call("delete", "c1", path="a"),
        "Deleted a.",
        call("delete", "c2", path="b"),
        "Deleted b.",
    ]
    scene = stage.scene(answers, agent=asking())
    result = scene.agent("Delete both.")
    stops = [(result.stop_reason, scene.result)]
    while result.stop_reason == "interrupt":
        result = scene.agent(answered(result))
        stops.append((result.stop_reason, scene.result))
    assert stops == [
        ("interrupt", None),
        ("interrupt", None),
        ("end_turn", (True, "satisfied", [(1, False, None), (2, True, None)])),
    ]
    assert statuses(stage) == ["satisfied"]


def test_waiting_for_a_person_is_no_time_of_the_loop(stage: Stage) -> None:
    answers = [doubles().call("delete", path="a"), "Deleted."]
    scene = stage.scene(answers, passes_at(1), agent=asking(), timeout=1)
    result = scene.agent("Delete a.")
    asyncio.run(asyncio.sleep(1.1))
    scene.agent(answered(result))
    assert scene.result == (True, "satisfied", [(1, True, None)])


def test_a_cancelled_agent_is_not_resumed(stage: Stage) -> None:
    scene = stage.scene(["a", "b"], lambda *_: False)
    hooks = import_module("strands.hooks")
    scene.agent.add_hook(lambda _: scene.agent.cancel(), hooks.BeforeModelCallEvent)
    assert scene.agent("Go.").stop_reason == "cancelled"
    assert scene.result == (False, "cancelled", [])
    assert outcome_of(scene).message == "the agent was cancelled"


def test_a_stream_that_is_closed_early_ends_the_run(stage: Stage) -> None:
    scene = stage.scene(["a", "b", "c"], passes_at(2))

    async def closed() -> None:
        stream = scene.agent.stream_async("Go.")
        async for event in stream:
            if "data" in event:
                break
        await stream.aclose()

    # OpenTelemetry reports that its context ends elsewhere.
    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(closed())
    finally:
        logging.disable(logging.NOTSET)
    assert scene.result == (False, "cancelled", [])
    assert scene.ask() == "c"
    assert statuses(stage) == ["cancelled", "satisfied"]


def test_a_check_that_is_cancelled_ends_the_run(stage: Stage) -> None:
    began = asyncio.Event()

    async def endless(response: Any, agent: Any) -> bool:
        began.set()
        await asyncio.sleep(100)
        return True

    scene = stage.scene(["a", "b"], endless)

    async def cancelled() -> None:
        work = asyncio.create_task(scene.agent.invoke_async("Go."))
        await asyncio.wait_for(began.wait(), 60)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(cancelled())
    assert scene.result == (False, "interrupted", [])
    assert statuses(stage) == ["interrupted"]


def test_the_run_of_an_invocation_that_did_not_begin_has_an_outcome(
    stage: Stage,
) -> None:
    scene = stage.scene(["a"], passes_at(1))
    errors = [ValueError("not yet")]

    def refuse(event: Any) -> None:
        if errors:
            raise errors.pop()

    hooks = import_module("strands.hooks")
    scene.agent.add_hook(refuse, hooks.BeforeInvocationEvent)
    assert scene.ask() == "ValueError: not yet"
    assert scene.ask() == "a"
    assert statuses(stage) == ["cancelled", "satisfied"]


def test_a_failed_agent_has_an_outcome_with_a_verdict(stage: Stage) -> None:
    scene = stage.scene([ValueError("no such model")], passes_at(1))
    assert scene.ask() == "ValueError: no such model"
    assert scene.result == (False, "agent_failed", [])
    verdict = outcome_of(scene).verdict
    assert (verdict.score, verdict.complete) == (0.0, False)
    assert "no such model" in verdict.missing


def test_a_judge_whose_answer_is_cut_is_asked_again(stage: Stage) -> None:
    verdicts = [doubles().Cut('{"criteria": ['), doubles().Verdict(True)]
    scene = stage.scene(["The first.", "The second."], "Be brief.", verdicts)
    assert scene.ask() == "The first."
    assert scene.result == (True, "satisfied", [(1, True, None)])


@pytest.mark.parametrize(
    "answer",
    [
        "I think that it is fine.",
        verdict(missing="more", questions=["Which colour?"]),
        verdict(missing="more", blocked="a person has to do it"),
    ],
    ids=["unreadable", "a question", "blocked"],
)
def test_no_answer_of_the_judge_ends_the_loop_early(stage: Stage, answer: str) -> None:
    scene = stage.scene(["The answer."], "Be brief.", [answer] * 9)
    scene.ask()
    passed, reason, attempts = scene.result
    assert (passed, reason, len(attempts)) == (False, "max_attempts", 3)


def test_no_path_of_this_machine_goes_to_a_model(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "goalrunner")
    fields: dict[str, bool] = {}
    scene = stage.scene(
        ["a"], lambda *_: 1 / 0, validators=[lambda *_: fields["missing"]]
    )
    scene.ask()
    folder = str(Path(__file__).parent)
    assert all(folder not in request for request in scene.model.requests)
    assert "division by zero" in scene.model.requests[-1]
    assert "Validator error: 'missing'" in scene.model.requests[-1]
    # A person finds the line in the log.
    assert folder in caplog.text


def test_runs_without_records_give_the_same(stage: Stage) -> None:
    scene = stage.scene(["a", "b"], records="none")
    assert scene.ask() == "b"
    assert scene.result == (True, "satisfied", [(1, False, None), (2, True, None)])
    judged = stage.scene(
        ["The answer."], "Be brief.", [doubles().Verdict(True)], records="none"
    )
    judged.ask()
    assert judged.result[:2] == (True, "satisfied")
    assert not (stage.folder / "home").exists()


def test_the_limits_of_a_goal_hold_if_the_loop_names_none(stage: Stage) -> None:
    goal = Goal(objective="b", deliverable="response", max_iterations=2)
    scene = stage.scene(
        ["a"], goal, max_attempts=float("inf"), validators=[lambda *_: False]
    )
    scene.ask()
    assert (scene.result[1], len(scene.result[2])) == ("max_attempts", 2)


def test_a_folder_that_cannot_be_made_is_no_reason_to_fail(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stage.folder / "file").write_text("")
    monkeypatch.setenv("GOAL_HOME", str(stage.folder / "file"))
    scene = stage.scene(["a", "b"])
    with pytest.warns(RuntimeWarning, match="does not record its runs: cannot make"):
        assert scene.ask() == "b"
    assert scene.result == (True, "satisfied", [(1, False, None), (2, True, None)])
    # A folder that the program names must be there.
    named = stage.scene(["a"], home=stage.folder / "file")
    assert named.ask().startswith("UsageError: cannot make the run's folder")


def test_a_new_prompt_begins_a_run_if_an_interrupt_was_dropped(stage: Stage) -> None:
    answers = [doubles().call("delete", path="a"), "Something else."]
    scene = stage.scene(answers, passes_at(1), agent=asking())
    before = scene.agent.take_snapshot(preset="session")
    assert scene.agent("Delete a.").stop_reason == "interrupt"
    scene.agent.load_snapshot(before)
    assert scene.ask("Something else?") == "Something else."
    assert scene.result == (True, "satisfied", [(1, True, None)])
    assert statuses(stage) == ["cancelled", "satisfied"]


async def test_a_throttled_model_says_that_a_wait_can_help(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    retries = import_module("strands.event_loop._retry").ModelRetryStrategy
    monkeypatch.setattr(retries, "_calculate_delay", lambda *_: 0)
    throttled = import_module("strands.types.exceptions").ModelThrottledException
    strands = import_module("strands")
    model = doubles().ScriptedModel([throttled("slow down")])
    agent = strands.Agent(model=model, callback_handler=None)
    outcome = await stage.goal.arun_goal(agent, "Be good.", validators=[passes_at(1)])
    assert (outcome.stop_reason, len(model.requests)) == ("agent_failed", 6)
    failures = [one for one in read_events(outcome) if isinstance(one, WorkFailed)]
    assert [(one.kind, one.was_retried) for one in failures] == [("limit", True)]


async def test_a_run_is_resumed_after_the_program_answered_an_interrupt(
    stage: Stage,
) -> None:
    strands = import_module("strands")
    answers = [doubles().call("delete", path="a"), "Deleted a.", "All is done."]
    model = doubles().ScriptedModel(answers)
    agent = strands.Agent(model=model, callback_handler=None, **asking())

    def done(response: Any) -> bool:
        return bool(response["content"][0]["text"] == "All is done.")

    stopped = await stage.goal.arun_goal(agent, "Delete a.", validators=[done])
    assert stopped.stop_reason == "agent_failed"
    assert "interrupt, which only your program can answer" in stopped.message
    assert "then resume(outcome, agent)" in stopped.message
    await agent.invoke_async(answered_state(agent))
    outcome = await stage.goal.aresume(stopped, agent, validators=[done])
    assert (outcome.status, outcome.iterations) == ("complete", 1)
    # The agent keeps the result of its tool, and is not told that it was cut.
    assert "Deleted a." in model.requests[-1]
    assert "yes" in model.requests[-1]


def answered_state(agent: Any) -> list[Any]:
    """Return the answers to the interrupts for which an agent waits."""
    snapshot = agent.take_snapshot(include=["interrupt_state"])
    waiting = snapshot.data["interrupt_state"]["interrupts"]
    return [
        {"interruptResponse": {"interruptId": one, "response": "yes"}}
        for one in waiting
    ]
