"""Turns without a message, and processes that the agent left running."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from goalrunner import run_goal
from goalrunner.core.agent_ports import Message, Recorder, RoundReply
from goalrunner.core.errors import AgentError


class _Silent:
    """An agent that works and says nothing."""

    def __init__(
        self, *turns: Callable[[], object], left: tuple[str, ...] = ()
    ) -> None:
        self.turns = list(turns)
        self.left = left
        self.messages: list[Message] = []

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        self.messages.append({"role": "user", "content": prompt})
        recorder.message(self.messages[-1])
        self.turns.pop(0)()
        return RoundReply(
            "",
            left=self.left,
            failure=AgentError("the agent failed: it ended without a message"),
        )

    def checkpoint(self) -> object:
        return ()

    def restore(self, checkpoint: object) -> None:
        raise NotImplementedError


def test_a_silent_turn_that_changed_files_is_checked(tmp_path: Path) -> None:
    agent = _Silent((tmp_path / "other").touch, (tmp_path / "done").touch)
    outcome = run_goal(
        agent, "make it", validators=["test -e done"], workspace=tmp_path
    )
    assert (outcome.status, outcome.iterations) == ("complete", 2)


def test_a_silent_turn_that_changed_nothing_is_an_error(tmp_path: Path) -> None:
    outcome = run_goal(
        _Silent(list), "make it", validators=["test -e done"], workspace=tmp_path
    )
    assert (outcome.status, outcome.stop_reason) == ("failed", "agent_failed")
    assert "it ended without a message" in outcome.message


def test_the_next_prompt_names_the_processes_that_were_ended(tmp_path: Path) -> None:
    agent = _Silent(
        (tmp_path / "other").touch,
        (tmp_path / "done").touch,
        left=("redis-server", "esbuild"),
    )
    run_goal(agent, "make it", validators=["test -e done"], workspace=tmp_path)
    first, second = (str(message["content"]) for message in agent.messages)
    assert "redis-server" not in first
    assert (
        "The runner ended these processes, which you left running: redis-server, esbuild."
        in " ".join(second.split())
    )
    assert "let the check start it" in " ".join(second.split())
