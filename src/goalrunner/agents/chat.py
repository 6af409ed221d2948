"""The built-in agent: a chat model with tools.

In a turn it calls the model, and the tools that the model asks for, until the model
answers without a call.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from goalrunner.agents.model_chat import shorten, size
from goalrunner.agents.toolbox import (
    Described,
    Toolbox,
    refused,
    tool_message,
    tool_message_text,
)
from goalrunner.core.agent_ports import (
    Message,
    Recorder,
    RoundReply,
    ToolResult,
    Unfinished,
)
from goalrunner.core.errors import (
    ApprovalDenied,
    ContextWindowExceeded,
    ModelError,
    RecordError,
    one_line,
)
from goalrunner.core.goal_tables import DEFAULT_MAX_STEPS
from goalrunner.core.messages import text_of
from goalrunner.llm import LLM, Reply, ToolCall

# Other roles that a caller's chat may contain, and the roles under which they are
# recorded.
_RECORDED_AS = {"developer": "system", "function": "tool"}

# The fraction of a chat that stays when it is too long. The smaller it is, the more
# rarely a chat is truncated, and each truncation invalidates the provider's cache.
_TRUNCATED = 0.6

CUT = (
    "The run was interrupted while this was running. "
    "It is not known what it did: look before you do it again.\n"
)
"""The result of a call that was interrupted in an earlier process."""


SYSTEM_PROMPT = """\
You are a software agent. You work on your own, without a person to ask, until the \
objective is reached.

Your workspace is the folder {workspace}. You act through your tools alone: commands \
run there, and files are read and \
written there and nowhere else.

After your turn a runner checks by itself whether the objective is reached: it runs \
its own checks and reads what your tool \
calls really gave. Only observed results count. What you say about your work counts \
for nothing, so let a command show it.

- Look before you change: read the files concerned, and run the existing checks.
- Keep to what is asked. Never weaken a test or a check to make it pass.
- When a call fails, read its output and find the cause before you try again.
- When the work is done, clean up what you do not need, and then check last: run the \
commands whose output shows that each \
requirement holds, on the final state of the files.
- If the objective cannot be reached, say so, and show by a command why.

End your turn with a short summary and no tool call."""

ANSWER_PROMPT = """\
You answer on your own, without a person to ask. After your turn a runner checks your \
last message against the objective, so \
put the whole answer into it and nothing else."""
"""The prompt of an agent without tools."""


class ChatConversation:
    """The built-in agent and its chat. Implements the port `Conversation`.

    `messages` is the chat without the system prompt. Callers may change the list
    between rounds; a system message at its beginning replaces `system_prompt`.
    `system_prompt=None` selects the built-in prompt, `""` none. `max_steps` limits the
    model calls of one round.

    >>> from goalrunner import LLM, ChatConversation
    >>> ChatConversation(LLM("openai/gpt-5-mini"), max_steps=5).messages
    []
    """

    def __init__(
        self,
        llm: LLM,
        *,
        toolbox: Toolbox | None = None,
        system_prompt: str | None = None,
        max_steps: int = DEFAULT_MAX_STEPS,
        messages: Sequence[Message] = (),
    ) -> None:
        self.llm = llm
        self.toolbox = toolbox
        self.supports_approvals = True
        self.max_steps = max_steps
        self.messages: list[dict[str, Any]] = [dict(message) for message in messages]
        if system_prompt is None:
            system_prompt = _built_in_prompt(toolbox)
        self.system_prompt = system_prompt
        # The index of the first prompt of the run.
        self._objective: int | None = None
        # The index of the prompt of this round.
        self._prompt: int | None = None
        # How many messages are recorded.
        self._recorded = 0
        # The system prompt that is recorded.
        self._recorded_prompt: str | None = None
        self._recorder: Recorder | None = None
        # Whether a call waits for a person's decision.
        self._undecided = False

    @property
    def workspace(self) -> Path | None:
        """The folder of the tools; None without tools."""
        return self.toolbox.workspace if self.toolbox else None

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Send a user message and run tool calls until an answer has none.

        End at `max_steps` model calls. Raise ModelError and BudgetExhausted. However
        the turn ends, every tool call in `messages` has an answer.
        """
        async with self._turn(recorder):
            self._settle()
            if recorder is not self._recorder:
                self._begin_run(recorder)
            if not self._has_own_system_message():
                self._record_system_prompt(recorder)
            self._prompt = len(self.messages)
            if self._objective is None:
                self._objective = self._prompt
            self._add({"role": "user", "content": prompt}, recorder)
            return await self._work(recorder)

    def load(
        self, messages: Sequence[Message], unfinished: Unfinished, recorder: Recorder
    ) -> None:
        """Continue the chat that an earlier process recorded.

        A system message at its beginning is left out.
        """
        chat = [dict(message) for message in messages]
        # An empty transcript has no system prompt yet.
        self._recorded_prompt = self.system_prompt if chat else None
        if chat and chat[0].get("role") == "system":
            del chat[0]
        self.messages[:] = chat
        self._recorder = recorder
        self._recorded = len(self.messages)
        self._objective = unfinished.objective
        self._prompt = None
        for index, message in enumerate(self.messages):
            if message.get("role") == "user":
                self._prompt = index

    def adopt_history(self, messages: Sequence[Message], recorder: Recorder) -> None:
        """Begin a run with the chat of another run, and record that chat.

        The new run has its own objective.
        """
        self.messages[:] = map(dict, messages)
        self._settle()
        self._begin_run(recorder)
        self._record_system_prompt(recorder)
        self._record(recorder)

    async def resume_turn(
        self, notice: str, unfinished: Unfinished, recorder: Recorder
    ) -> RoundReply:
        """Continue an interrupted turn.

        Calls that had not begun are run; those that had begun are reported as
        interrupted.
        """
        async with self._turn(recorder):
            for due in calls_due(self.messages):
                function = due["function"]
                call = ToolCall(due["id"], function["name"], function["arguments"])
                await self._catch_up(call, unfinished, recorder)
            last = self.messages[-1] if self.messages else {}
            if notice:
                self._prompt = len(self.messages)
                self._add({"role": "user", "content": notice}, recorder)
            elif last.get("role") == "assistant" and not last.get("tool_calls"):
                # The turn had ended; only its end was not recorded.
                return RoundReply(text_of(last.get("content")), "answered", 0)
            return await self._work(recorder)

    @asynccontextmanager
    async def _turn(self, recorder: Recorder) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            # A call that waits for approval gets its answer after a resume.
            if not self._undecided:
                self._settle()
            raise
        finally:
            self._undecided = False
            # A full disk must not hide the error that is raised.
            with suppress(RecordError):
                self._record(recorder)

    async def _catch_up(
        self, call: ToolCall, unfinished: Unfinished, recorder: Recorder
    ) -> None:
        """Answer a call of an earlier process with its result, or as interrupted.

        Run it if it had not begun.
        """
        recorded = unfinished.results.get(call.id)
        if recorded is None and call.id not in unfinished.cut:
            await self._run(call, recorder)
            return
        if recorded is None:
            described = self._described(call)
            interrupted = ToolResult(
                call.id,
                described.tool,
                one_line(described.text),
                ("interrupted",),
                CUT.encode(),
                summary="interrupted",
            )
            recorded = await recorder.tool_result(interrupted)
        self._add(tool_message(call.id, tool_message_text(recorded)), recorder)

    def checkpoint(self) -> tuple[object, ...]:
        """Return a copy of messages, system prompt and model, without its usage."""
        messages = copy.deepcopy(self.messages)
        return (messages, self.system_prompt, self.llm, self._objective)

    def restore(self, checkpoint: object) -> None:
        """Return to a checkpoint; `messages` stays the same list.

        Raise TypeError if the checkpoint is of another kind of conversation.
        """
        match checkpoint:
            case (
                list(messages),
                str(prompt),
                LLM() as llm,
                (int() | None) as objective,
            ):
                self.messages[:] = copy.deepcopy(messages)
                self.system_prompt, self.llm, self._objective = prompt, llm, objective
                self._recorded = min(self._recorded, len(self.messages))
            case _:
                raise TypeError(
                    f"not a checkpoint of a chat: {type(checkpoint).__name__}"
                )

    async def _work(self, recorder: Recorder) -> RoundReply:
        text = ""
        for step in range(1, self.max_steps + 1):
            reply = await self._ask(recorder)
            text = reply.text
            self._add(reply.message(), recorder)
            if not reply.tool_calls:
                return RoundReply(text, "answered", step)
            for call in reply.tool_calls:
                await self._run(call, recorder)
        return RoundReply(text, "max_steps", self.max_steps)

    async def _ask(self, recorder: Recorder) -> Reply:
        """Return one answer.

        A chat that is too long for the model is truncated and sent again as long as
        truncation makes it shorter.
        """
        on_text = recorder.text if recorder.streams_text else None
        tools = self.toolbox.specs if self.toolbox else ()
        while True:
            recorder.check_budget()
            before = self.llm.usage
            try:
                reply = await self.llm.complete(
                    self._chat(), tools=tools, on_text=on_text
                )
            except (ModelError, asyncio.CancelledError) as error:
                # The cost of a cancelled call counts too.
                if self.llm.usage != before:
                    recorder.usage("agent", self.llm.usage.since(before))
                if isinstance(error, ContextWindowExceeded) and self._shorten():
                    continue
                raise
            recorder.usage("agent", reply.usage)
            return reply

    async def _run(self, call: ToolCall, recorder: Recorder) -> None:
        """Run a call, after its approval, and answer it.

        Raise ApprovalDenied and ApprovalPending.
        """
        described = self._described(call)
        kind = described.kind
        summary = one_line(described.text)
        denial: str | None = None
        ending: ApprovalDenied | None = None
        self._undecided = kind is not None
        try:
            if kind:
                denial = await recorder.permit(
                    call.id, kind, described.text, described.preview
                )
        except ApprovalDenied as error:
            # The agent gets the denial as the call's answer: the run may be resumed.
            denial, ending = error.reply, error
        self._undecided = False
        recorder.tool_called(call.id, described.tool, summary)
        if denial is not None:
            result = refused(call, described.tool, summary, denial, "denied")
        elif self.toolbox:
            result = await self.toolbox.run(call, recorder.scratch)
        else:
            reason = "this conversation has no tools"
            result = refused(call, described.tool, summary, reason)
        text = tool_message_text(await recorder.tool_result(result))
        self._add(tool_message(call.id, text), recorder)
        if ending is not None:
            raise ending

    def _described(self, call: ToolCall) -> Described:
        return self.toolbox.describe(call) if self.toolbox else Described()

    def _begin_run(self, recorder: Recorder) -> None:
        """Begin a new run.

        Its transcript begins with the whole chat. Its first prompt is the objective.
        """
        self._recorder = recorder
        self._recorded = 0
        self._recorded_prompt = None
        self._objective = None

    def _record_system_prompt(self, recorder: Recorder) -> None:
        """Record the system prompt, unless it is recorded already."""
        if self.system_prompt and self.system_prompt != self._recorded_prompt:
            recorder.message({"role": "system", "content": self.system_prompt})
            self._recorded_prompt = self.system_prompt

    def _add(self, message: dict[str, Any], recorder: Recorder) -> None:
        self.messages.append(message)
        self._record(recorder)

    def _record(self, recorder: Recorder) -> None:
        """Record new messages, including those that a caller has put into the list."""
        while self._recorded < len(self.messages):
            message = self.messages[self._recorded]
            # Counted first, so that a message whose record failed is not repeated.
            self._recorded += 1
            role = _RECORDED_AS.get(message["role"], message["role"])
            recorder.message({**message, "role": role})

    def _settle(self) -> None:
        """Answer the open calls: providers reject a chat with a call without answer."""
        self.messages.extend(answers_due(self.messages))
        self._recorded = min(self._recorded, len(self.messages))

    def _has_own_system_message(self) -> bool:
        return bool(self.messages) and self.messages[0].get("role") == "system"

    def _chat(self) -> list[Message]:
        if self._has_own_system_message() or not self.system_prompt:
            return list(self.messages)
        return [{"role": "system", "content": self.system_prompt}, *self.messages]

    def _shorten(self) -> bool:
        """Truncate the chat to a fraction of its length, or as near as possible.

        Return whether it became shorter.
        """
        # The task, the objective and the newest prompt are never truncated.
        protected: set[int] = set()
        for index, message in enumerate(self.messages):
            if message.get("role") == "user":
                protected.add(index)
                break
        for prompt in (self._objective, self._prompt):
            if prompt is not None:
                protected.add(prompt)
        before = size(*self.messages)
        self.messages[:] = shorten(self.messages, int(before * _TRUNCATED), protected)
        return size(*self.messages) < before


def _built_in_prompt(toolbox: Toolbox | None) -> str:
    if toolbox is None:
        return ANSWER_PROMPT
    return SYSTEM_PROMPT.format(workspace=toolbox.workspace)


INTERRUPTED = "interrupted; its effect is unknown"
NOT_RUN = "not run: the turn was interrupted before it"


def answers_due(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the tool messages that are missing at the end of the chat, in order."""
    # Calls run one after another: the first without an answer may have begun, the
    # others have not.
    answers = []
    text = INTERRUPTED
    for call in calls_due(messages):
        answers.append(tool_message(call["id"], text))
        text = NOT_RUN
    return answers


def calls_due(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the tool calls at the end of the chat that have no answer, in order."""
    answered = 0
    for message in reversed(messages):
        if message.get("role") != "tool":
            break
        answered += 1
    if answered == len(messages):
        return []
    asking = messages[-1 - answered]
    if asking.get("role") != "assistant":
        return []
    calls = asking.get("tool_calls") or []
    return list(calls[answered:])
