"""`GoalController`: the loop for callers that drive their own agent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Unpack

from goalrunner.app.build import Assembly
from goalrunner.app.enforcement import refuse_unconfined, refuse_unseen_actions, refuse_untold_usage, told_usage
from goalrunner.app.library import assemble_request, interrupting, refuse_no_chat, run_blocking
from goalrunner.app.run_options import JudgeChoice, RunOptions, request_of, shows_options
from goalrunner.app.session import settled
from goalrunner.core.agent_ports import Recorder, RoundReply, ToolResult
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.messages import trail_of
from goalrunner.core.observation import Claim, Observation
from goalrunner.core.outcome import GoalOutcome, Usage
from goalrunner.core.ports import Message
from goalrunner.core.steps import Finish, RunRound

CALLER = "the calling program"
"""Who reports what the agent of a GoalController did."""


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
    The time limit counts from `start()`. Raises UsageError for what cannot be enforced on an agent that the caller drives:
    approvals of single actions, and a sandbox.
    """

    @shows_options
    def __init__(self, objective: str | Goal, judge_llm: JudgeChoice = None, **options: Unpack[RunOptions]) -> None:
        self._request = request_of("GoalController", objective, judge_llm, options)
        goal = self._request.goal(has_model=False)
        refuse_unseen_actions(goal, has_validators=bool(goal.validators or self._request.own_validators()))
        refuse_unconfined(goal)
        self._budget = goal.budget
        self._agent = _ForeignAgent()
        self._assembly: Assembly | None = None
        self._round = 0
        self._taken: list[str] = []

    def start(self) -> str:
        """The first user message. Raises UsageError for a goal that cannot run."""
        if self._assembly is not None:
            raise UsageError("this controller has started already", "make a new GoalController for a new run")
        self._assembly = assemble_request(self._request, self._agent, needs_round=True)
        with settled(self._assembly, ended=self._is_over):
            step = self._advance(self._assembly)
        if isinstance(step, GoalDone):
            raise UsageError(f"the run ended before it began: {step.outcome.message}")
        return step.followup

    def on_run_finished(self, messages: Sequence[Message], *, usage: Usage | None = None) -> GoalContinue | GoalDone:
        """Check what the agent did. `messages` is its whole chat (OpenAI's shape); tool messages are what it reports.

        `usage` is what the agent used in this round; what it leaves out is unknown. A budget needs it. Raises UsageError
        before `start()`, after the end, for what is no chat, and for a missing usage; the round can be given once more then.
        """
        assembly = self._assembly
        if assembly is None or self._round == 0:
            raise UsageError("there is no round to check", "call start() first, and nothing after GoalDone")
        refuse_no_chat(messages)
        refuse_untold_usage(self._budget, usage)
        with settled(assembly, ended=self._is_over):
            # The first event since the agent began to work: from here on the time that it took counts.
            assembly.run.recorder.usage("agent", told_usage(usage))
            self._agent.messages = messages
            return self._advance(assembly, messages)

    def _advance(self, assembly: Assembly, messages: Sequence[Message] | None = None) -> GoalContinue | GoalDone:
        async def work() -> RunRound | Finish:
            if messages is not None:
                said = await self._take_in(messages, assembly.run.recorder)
                await asyncio.sleep(0)  # a deadline that is over ends the run here
                await assembly.run.finish_round(self._round, RoundReply(text=said))
            return await assembly.run.advance()

        step = run_blocking(assembly.run.guarded(work), "GoalController", "arun_goal")
        if isinstance(step, RunRound):
            self._round = step.prompt.round
            followup = assembly.run.begin_round(step.prompt)
            assembly.run.recorder.message({"role": "user", "content": followup})
            return GoalContinue(followup)
        return self._done(assembly, step)

    def _done(self, assembly: Assembly, finish: Finish) -> GoalDone:
        self._round = 0
        outcome = interrupting(assembly.run.end(finish))
        return GoalDone(outcome.model_copy(update={"run_path": str(assembly.folder.path)}))

    def _is_over(self) -> bool:
        return self._round == 0

    async def _take_in(self, messages: Sequence[Message], recorder: Recorder) -> str:
        """Record what is new in the chat; gives the last thing the agent said in this round.

        A chat that does not go on where the last one ended - a fresh one, or one that was shortened - is new as a whole.
        """
        trail = trail_of(messages)
        marks = [_mark(item, trail.read(item)) for item in trail.items]
        known = len(self._taken) if marks[: len(self._taken)] == self._taken else 0
        said = ""
        for item in trail.items[known:]:
            text = trail.read(item)
            if isinstance(item, Observation):
                await recorder.tool_result(_result(item, text))
            else:
                recorder.message({"role": "assistant", "content": text})
                said = text
        self._taken = marks
        return said


class _ForeignAgent:
    """Stands for an agent that the caller drives: it has messages, and is never sent anything."""

    name = CALLER

    def __init__(self) -> None:
        self.messages: Sequence[Message] = ()

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        raise NotImplementedError("the caller sends messages to its own agent")

    def checkpoint(self) -> object:
        return None

    def restore(self, checkpoint: object) -> None:
        raise NotImplementedError("the caller restores its own agent")


def _mark(item: Observation | Claim, text: str) -> str:
    """What makes an item the same one again."""
    source = f"{item.source}\0{item.command}" if isinstance(item, Observation) else ""
    return sha256(f"{item.kind}\0{source}\0{text}".encode(errors="replace")).hexdigest()


def _result(item: Observation, text: str) -> ToolResult:
    return ToolResult(
        tool_call_id=item.id,
        tool=item.source,
        command=item.command,
        facts=item.facts,
        output=text.encode("utf-8", errors="replace"),
        reported_by=CALLER,
    )
