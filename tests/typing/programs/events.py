"""Reads the events of a run while it works, and afterwards."""

from collections.abc import Iterator
from typing import Any

from goalrunner import (
    Event,
    GoalAttempt,
    RunState,
    json_schema,
    read_attempts,
    read_chat,
    read_events,
    read_state,
    run_goal,
)
from goalrunner.testing import ScriptedConversation, ScriptedRound, shell_result


def main() -> None:
    commands: list[str] = []

    def follow(event: Event) -> None:
        if event.type == "tool_called":
            commands.append(event.summary)

    agent = ScriptedConversation(
        ScriptedRound("done", tools=(shell_result("c1", "make", "ok"),))
    )
    outcome = run_goal(agent, "Make it.", validators=lambda: True, on_event=follow)
    assert commands == ["make"]
    rounds: list[int] = [
        event.round for event in read_events(outcome) if event.type == "round_started"
    ]
    attempts: Iterator[GoalAttempt] = read_attempts(outcome.run_path)
    state: RunState = read_state(outcome.run_id)
    chat: list[dict[str, Any]] = read_chat(outcome)
    assert (rounds, next(attempts).passed, state.round) == ([1], True, 1)
    assert chat[0]["role"] == "user"
    assert json_schema("goal")
