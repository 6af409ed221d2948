"""`GoalController`: the loop for callers that drive their own agent."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from functools import partial
from typing import Self, Unpack

from goalrunner.app.goal_models import goal_redactor
from goalrunner.app.library import (
    goal_and_options,
    interrupting,
    load_earlier,
    prepare_conversation,
    refuse_unconfined,
    run_blocking,
)
from goalrunner.app.previous_run import Reference, sent_prompts
from goalrunner.app.resolve import refuse_unseen_work
from goalrunner.app.resuming import EarlierRun
from goalrunner.app.run_options import KEYWORD_DEFAULTS, JudgeChoice, RunKeywords
from goalrunner.app.session import HostedRun
from goalrunner.core.agent_ports import Message, Recorder, RoundReply
from goalrunner.core.approval_rules import guarding_key
from goalrunner.core.constructors import shows_keywords
from goalrunner.core.errors import UsageError
from goalrunner.core.field_types import Frozen
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import Budget
from goalrunner.core.messages import refuse_no_chat
from goalrunner.core.observation import Claim, Observation, Trail
from goalrunner.core.outcome import GoalOutcome, Usage
from goalrunner.core.state_outcome import last_verdict
from goalrunner.core.verdict import GoalVerdict
from goalrunner.engine.conversations import NoAgent
from goalrunner.engine.reported_chat import ReportedChat
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.redaction import Redactor
from goalrunner.records.transcript_file import read_message

# The source of reports about the agent of a GoalController.
CALLER = "the calling program"

# The fields of a usage, one of which has to be set for a budget of tokens.
_TOKENS = frozenset({"input_tokens", "output_tokens"})


class GoalContinue(Frozen):
    """Send `followup` to the agent as a user message.

    >>> from goalrunner import GoalContinue
    >>> GoalContinue(followup="Not yet: add a test.").followup
    'Not yet: add a test.'
    """

    __match_args__ = ("followup", "verdict")

    followup: str
    verdict: GoalVerdict | None = None
    """The verdict on the round that was just checked."""


class GoalDone(Frozen):
    """The run ended with `outcome`.

    >>> from goalrunner import GoalController, GoalDone
    >>> controller = GoalController("Say hi.", validators=lambda: True)
    >>> chat = [{"role": "user", "content": controller.start()}]
    >>> chat.append({"role": "assistant", "content": "hi"})  # what your agent answers
    >>> step = controller.on_run_finished(chat)
    >>> isinstance(step, GoalDone) and step.outcome.passed
    True
    """

    __match_args__ = ("outcome",)

    outcome: GoalOutcome


class GoalController:
    """Decides after each run of your agent whether it has to continue.

    (Source: OpenHands' GoalController.)

    Call `start()` for the first user message, then `on_run_finished(messages)` after
    each run of the agent, with its whole chat so far. Both block: validators run and
    the judge is asked inside; in an event loop, await `astart()` and
    `aon_run_finished(messages)`. Keywords are those of `arun_goal`. The time limit
    counts from `start()`. Raise UsageError for what cannot be enforced on an agent that
    the caller drives: approvals of single actions, and a sandbox.

    >>> from goalrunner import GoalController, GoalDone
    >>> controller = GoalController("Say hi.", validators=lambda: True)
    >>> chat = [{"role": "user", "content": controller.start()}]
    >>> chat.append({"role": "assistant", "content": "hi"})  # what your agent answers
    >>> step = controller.on_run_finished(chat)
    >>> step.outcome.status.value if isinstance(step, GoalDone) else step.followup
    'complete'
    """

    caller = CALLER  # who reports what the agent did
    # Whether the agent keeps working during checks. Checks then never run in place, and
    # the agent did all changes of a
    # round, even those made while this program was closed.
    live = False
    _host: HostedRun | None = None  # the run, once it has started
    _earlier: EarlierRun | None = None  # the run that `start` continues

    @shows_keywords(RunKeywords, KEYWORD_DEFAULTS)
    def __init__(
        self,
        objective: str | Goal,
        judge_llm: JudgeChoice = None,
        **options: Unpack[RunKeywords],
    ) -> None:
        goal, run_options = goal_and_options(objective, judge_llm, options)
        key = guarding_key(goal.approvals, goal.risk_class)
        if key:
            raise UsageError(
                "GoalController sees what the agent did only afterwards, so "
                f"{key} cannot be enforced",
                "remove it, or use run_goal with a conversation that asks, such as "
                "chat_conversation",
            )
        has_validator = bool(goal.validators or run_options.validators)
        refuse_unseen_work(goal, "the agent", unseen=not has_validator)
        refuse_unconfined(goal)
        self._goal = goal
        self._given = judge_llm, options
        # The caller asks for the first message, so there is a first round.
        self._options = replace(run_options, needs_round=True)
        self._agent = NoAgent(self.caller, live=self.live)
        self._chat = ReportedChat(self.caller)

    @classmethod
    def resume(
        cls,
        run: Reference,
        judge_llm: JudgeChoice = None,
        **options: Unpack[RunKeywords],
    ) -> Self:
        """Return a controller that continues a run.

        Its `start()` returns the next message; keywords as for `aresume`. The calling
        program restores the chat of its agent. Messages that the run has recorded are
        not recorded again.
        """
        # Not with __init__, which is for a new goal.
        self = cls.__new__(cls)
        self._agent = NoAgent(cls.caller, live=cls.live)
        self._given = judge_llm, options
        self._earlier = earlier = load_earlier(run, self._agent, judge_llm, options)
        assert earlier.goal is not None, "it was loaded"
        self._goal, self._options = earlier.goal, earlier.options
        redactor = goal_redactor(self._goal, self._options.environ)
        self._chat = ReportedChat(cls.caller, redactor.text)
        self._chat.continue_from(_reported(earlier, cls.caller))
        self._chat.note_prompts(*sent_prompts(earlier.folder))
        return self

    @property
    def objective(self) -> str:
        """The objective."""
        return self._goal.objective

    @property
    def max_iterations(self) -> int | None:
        """The limit of rounds; None if there is none."""
        if self._host is None:
            return self._goal.max_iterations
        # A run that is resumed may have another limit than its goal.
        return self._host.prepared.run.state.plan.max_iterations

    @property
    def iteration(self) -> int:
        """How many rounds were checked."""
        return self._host.prepared.run.state.iterations if self._host else 0

    @property
    def run_path(self) -> str:
        """The run's folder, for `resume`.

        Empty before `start()`, and if nothing of the run is kept.
        """
        folder = self._host.prepared.records.folder if self._host else None
        return str(folder.path) if folder is not None else ""

    def start(self) -> str:
        """Run `astart` in an event loop of its own."""
        return run_blocking(self.astart(), "GoalController.start", "controller.astart")

    async def astart(self) -> str:
        """Return the first user message.

        Raise UsageError for a goal that cannot run.
        """
        if self._host is not None:
            raise UsageError(
                "this controller has started already",
                "make a new GoalController for a new run",
            )
        if self._earlier is not None:
            prepared = await self._earlier.resume()
        else:
            prepared = prepare_conversation(self._goal, self._options, self._agent)
        self._host = HostedRun(prepared, records=True)
        step = await self._next()
        if isinstance(step, GoalDone):
            raise UsageError(f"the run ended before it began: {step.outcome.message}")
        return step.followup

    def on_run_finished(
        self, messages: Sequence[Message], *, usage: Usage | None = None
    ) -> GoalContinue | GoalDone:
        """Run `aon_run_finished` in an event loop of its own.

        The KeyboardInterrupt of a validator is raised here.
        """
        work = self.aon_run_finished(messages, usage=usage)
        step = run_blocking(
            work, "GoalController.on_run_finished", "controller.aon_run_finished"
        )
        if isinstance(step, GoalDone):
            interrupting(step.outcome)
        return step

    async def aon_run_finished(
        self, messages: Sequence[Message], *, usage: Usage | None = None
    ) -> GoalContinue | GoalDone:
        """Check what the agent did.

        `messages` is its whole chat (OpenAI's shape); tool messages are its reports.

        `usage` is what the agent used in this round; fields that are not set are
        unknown. A budget requires it. Raise UsageError before `start()`, after the end,
        for an invalid chat, and for a missing usage; the call can be repeated.
        """
        if self._host is None or self._host.round == 0:
            raise UsageError(
                "there is no round to check",
                "call start() first, and nothing after GoalDone",
            )
        refuse_no_chat(messages)
        _refuse_missing_usage(self._goal.budget, usage)
        self._agent.messages = messages
        return await self._next(
            self._reply(messages, self._host.prepared.run.recorder),
            reported_usage(usage),
        )

    async def _acheck_again(
        self, messages: Sequence[Message]
    ) -> GoalContinue | GoalDone:
        """Go on with a run that a failure of its judge ended: the judge is asked again.

        `messages` is the whole chat.
        """
        if not self.run_path:
            raise UsageError(
                "the run has ended, and nothing of it is kept to go on with",
                'keep records: records="last:20"',
            )
        judge_llm, options = self._given
        keywords = options.copy()
        # They are fixed when a run begins.
        keywords.pop("workspace", None)
        keywords.pop("preserve_context", None)
        keywords.pop("records", None)
        self._agent.messages = messages
        earlier = load_earlier(self.run_path, self._agent, judge_llm, keywords)
        self._host = HostedRun(await earlier.resume(), records=True)
        await self._chat.record(messages, self._host.prepared.run.recorder)
        return await self._next()

    async def _reply(
        self, messages: Sequence[Message], recorder: Recorder
    ) -> RoundReply:
        return RoundReply(text=await self._chat.record(messages, recorder))

    async def _next(
        self, turn: Awaitable[RoundReply] | None = None, usage: Usage | None = None
    ) -> GoalContinue | GoalDone:
        assert self._host is not None, "it has started"
        step = await self._host.next(turn, usage)
        if isinstance(step, GoalOutcome):
            return GoalDone(outcome=step)
        self._chat.note_prompts(step)
        verdict = last_verdict(self._host.prepared.run.state)
        return GoalContinue(followup=step, verdict=verdict)

    def close(self) -> None:
        """Close a run that has not ended; `GoalController.resume` continues it.

        After the end, do nothing.
        """
        if self._host is not None:
            self._host.close()


def _reported(earlier: EarlierRun, reporter: str) -> Trail:
    """Return the recorded part of the chat.

    It has the results that `reporter` reported, and the agent's texts.
    """
    artifacts = ArtifactStore(earlier.folder.artifacts, Redactor({}))
    trail = earlier.loaded.evidence.trail(
        artifacts.read, partial(read_message, earlier.folder.transcript)
    )
    items: list[Observation | Claim] = []
    for item in trail.items:
        # The runner's own observations, of validators, are no part of the chat.
        if isinstance(item, Claim) or item.reported_by == reporter:
            items.append(item)
    return replace(trail, items=tuple(items))


def _refuse_missing_usage(budget: Budget, usage: Usage | None) -> None:
    """Raise UsageError if the usage lacks a field that a budget needs.

    `Usage.unknown()` has all of them.
    """
    if not isinstance(usage, Usage | None):
        raise UsageError(
            f"usage must be a Usage, not a {type(usage).__name__}",
            "pass usage=Usage(input_tokens=...)",
        )
    reported = usage.model_fields_set if usage is not None else frozenset()
    for name in budget.limited:
        fields = _TOKENS if name == "tokens" else {name}
        if name in budget.unenforced or reported & fields:
            continue
        example = "input_tokens=1200, output_tokens=300"
        if name == "cost_usd":
            example = "cost_usd=0.05"
        raise UsageError(
            f"the goal has a budget of {name}, and on_run_finished was not given the "
            "agent's usage",
            f"pass usage=Usage({example}), or set allow_unenforced to count only what "
            "is known",
        )


def reported_usage(usage: Usage | None) -> Usage:
    """Return the usage of one run of the agent.

    Fields that are not set are unknown, not 0.
    """
    if usage is None:
        return Usage.unknown()
    values = {**usage.model_dump(), "calls": usage.calls or 1}
    if not usage.model_fields_set & _TOKENS:
        values |= {
            "input_tokens": None,
            "output_tokens": None,
            "uncounted_calls": values["calls"],
        }
    if "cost_usd" not in usage.model_fields_set:
        values["cost_usd"] = None
    return Usage.model_validate(values)
