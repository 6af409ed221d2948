"""`GoalController`: the loop for people who drive their own agent. A blocking façade over the same driver and policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.api.loop import assemble_request, run_blocking
from goalrunner.api.request import JudgeChoice, Request
from goalrunner.compose import Assembly
from goalrunner.errors import UsageError
from goalrunner.events import Event
from goalrunner.model.dialogue import trail_of
from goalrunner.model.goal import Goal
from goalrunner.model.observation import Claim, Observation
from goalrunner.model.outcome import GoalOutcome
from goalrunner.policy import Finish, RunRound
from goalrunner.ports import Message, Recorder, RoundReply, ToolResult


@dataclass(frozen=True)
class GoalContinue:
    """Go on: send `followup` to the agent as a user message and let it work."""

    followup: str


@dataclass(frozen=True)
class GoalDone:
    """Stop: the run ended with `outcome`."""

    outcome: GoalOutcome


class GoalController:
    """Decides after each run of your agent whether to go on. (Source: OpenHands' GoalController.)

    Call `start()` for the first user message, then `on_run_finished(messages)` after each run of the agent, with its
    whole chat so far. Both block: validators run and the judge is asked inside. Keywords are those of `arun_goal`.
    """

    def __init__(
        self,
        objective: str | Goal,
        judge_llm: JudgeChoice = None,
        *,
        on_event: Callable[[Event], None] | None = None,
        home: Path | None = None,
        **options: Any,
    ) -> None:
        self._request = Request(objective=objective, judge_llm=judge_llm, **options)
        self._agent = _ForeignAgent()
        self._on_event = on_event
        self._home = home
        self._assembly: Assembly | None = None
        self._round = 0
        self._taken = 0

    def start(self) -> str:
        """The first user message. Raises UsageError for a goal that cannot run."""
        if self._assembly is not None:
            raise UsageError("this controller has started already", "make a new GoalController for a new run")
        self._assembly = assemble_request(self._request, self._agent, self._on_event, self._home)
        step = self._advance(self._assembly)
        if isinstance(step, GoalDone):
            raise UsageError(f"the run ended before it began: {step.outcome.message}")
        return step.followup

    def on_run_finished(self, messages: Sequence[Message]) -> GoalContinue | GoalDone:
        """Check what the agent did. `messages` is its whole chat (OpenAI's shape); tool messages are what really happened.

        Raises UsageError before `start()` and after the end.
        """
        assembly = self._assembly
        if assembly is None or self._round == 0:
            raise UsageError("there is no round to check", "call start() first, and nothing after GoalDone")
        self._agent.messages = messages
        assembly.run.finish_round(self._round, RoundReply(text=self._take_in(messages, assembly.run.recorder)))
        return self._advance(assembly)

    def _advance(self, assembly: Assembly) -> GoalContinue | GoalDone:
        step = run_blocking(assembly.run.guarded(assembly.run.advance), "GoalController", "arun_goal")
        if isinstance(step, RunRound):
            self._round = step.prompt.round
            followup = assembly.run.begin_round(step.prompt)
            assembly.run.recorder.message({"role": "user", "content": followup})
            return GoalContinue(followup)
        return self._done(assembly, step)

    def _done(self, assembly: Assembly, finish: Finish) -> GoalDone:
        self._round = 0
        outcome = assembly.run.end(finish)
        assembly.write_outcome()
        assembly.close()
        return GoalDone(outcome.model_copy(update={"run_path": str(assembly.folder.path)}))

    def _take_in(self, messages: Sequence[Message], recorder: Recorder) -> str:
        """Record what is new in the chat; gives the text of the last thing the agent said."""
        trail = trail_of(messages)
        said = ""
        for number, item in enumerate(trail.items):
            text = trail.read(item)
            said = text if isinstance(item, Claim) else said
            if number < self._taken:
                continue
            if isinstance(item, Observation):
                recorder.tool_result(_result(item, text))
            else:
                recorder.message({"role": "assistant", "content": text})
        self._taken = len(trail.items)
        return said


class _ForeignAgent:
    """Stands for an agent that somebody else drives: it has messages, and is never sent anything."""

    def __init__(self) -> None:
        self.messages: Sequence[Message] = ()

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        raise NotImplementedError("the caller sends messages to its own agent")

    def checkpoint(self) -> object:
        return None

    def restore(self, checkpoint: object) -> None:
        raise NotImplementedError("the caller restores its own agent")


def _result(item: Observation, text: str) -> ToolResult:
    return ToolResult(
        tool_call_id=item.id,
        tool=item.source,
        command=item.command,
        facts=item.facts,
        output=text.encode("utf-8", errors="replace"),
    )
