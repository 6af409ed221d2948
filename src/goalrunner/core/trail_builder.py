"""The trail of a chat or a transcript: calls are paired with their results.

Results of tools are observations, texts of the agent are claims. What a person wrote is
kept apart from both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from sys import intern
from typing import Any, Literal

from goalrunner.core.call_order import CallOrder, removed_by
from goalrunner.core.field_types import Unchecked
from goalrunner.core.messages import clean
from goalrunner.core.observation import (
    FORGEABLE,
    RESPONSE,
    Claim,
    Observation,
    Trail,
    UserText,
    source_of,
    trail_with_texts_at,
)
from goalrunner.core.tool_arguments import (
    argument_texts,
    command_of,
    is_subagent,
    only_path,
    shown_arguments,
)
from goalrunner.core.user_messages import persons_text
from goalrunner.core.written_files import LONGEST_COMMAND, WrittenFiles

Deliverable = Literal["workspace", "response"]
"""What is judged: the files of the workspace, or the agent's last text."""

_LONGEST_PATH = 80
_BACKGROUND_COMMAND = "<task_type>local_bash</task_type>"
"""The mark of a background command in a result of Claude Code's TaskOutput."""
_MARK_WITHIN = 300
"""The first characters of a result, which contain the mark."""
# A transcript of 100 MB may have 80,000 items, which are all kept.
_new_observation = Unchecked(Observation)
_new_claim = Unchecked(Claim)


@dataclass(frozen=True, slots=True)
class _Call:
    """A tool call that may still get a result."""

    tool: str = "tool"
    command: str = ""
    texts: tuple[str, ...] = ()
    """Its arguments that are texts."""
    forgeable: str = ""
    """A file of the agent whose content its output may show; empty: none."""
    summary: bool = False
    """Whether its result is the report of another agent."""
    waiting: int = 1
    """How many calls with its id have no result."""
    started: int | None = None
    number: int = 0
    """Its place among the calls."""
    path: str = ""
    """The only file on which its result depends; empty: all files."""

    def merged_with(self, other: _Call) -> _Call:
        """Return a call that stands for two calls with the same id.

        A result with this id may belong to either of them, so the merged call has the
        doubts of both, and no command.
        """
        return _Call(
            texts=self.texts + other.texts,
            forgeable=self.forgeable or other.forgeable,
            summary=self.summary or other.summary,
            waiting=self.waiting + 1,
            # The earlier call, so that more changes make the result outdated.
            number=min(self.number, other.number),
        )


class TrailBuilder:
    """Collects the items of a chat in order.

    `reporter` is the program that reports the results, if it is an external one.
    `subagents`: whether results of tools with names like `task` are reports of other
    agents, and so claims. `store` keeps a text elsewhere; `read` returns the text that
    was stored first for 0, and so on. By default, the texts are in memory.
    """

    def __init__(
        self,
        reporter: str = "",
        store: Callable[[str], object] | None = None,
        read: Callable[[int], str] | None = None,
        *,
        subagents: bool = True,
    ) -> None:
        self.reporter = reporter
        self.withdrawn = False
        """Whether what follows was withdrawn by the user: only changes of files count.

        A program that removes messages from a conversation keeps changed files.
        """
        self._subagents = subagents
        texts: list[str] = []
        self._store = store or texts.append
        self._read = read or texts.__getitem__
        self._items: list[Observation | Claim] = []
        self._observation_count = 0
        self._response_index: int | None = None
        """The index of the last text of the agent itself."""
        self._facts: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._calls: dict[str, _Call] = {}
        """By id: those that wait, or whose further results are doubtful."""
        self._answered: dict[str, int] = {}
        """By id: the numbers of the other ones that have a result."""
        self._written = WrittenFiles()
        self._order = CallOrder()
        self._call_count = 0
        self._withdrawn_count = 0
        self._has_results = False
        self._round = 0
        self._user_texts: list[UserText] = []

    def user(self, text: str = "") -> None:
        """Begin a round with a message of the user.

        What a person wrote in it is kept; without a text, that is unknown.
        """
        if self.withdrawn:
            return
        self._round += 1
        if persons_words := persons_text(text):
            self._user_texts.append(UserText(self._round, persons_words))

    def claimed(self, text: str, *, summary: bool = False) -> None:
        """Add a text of the agent, which is a claim.

        `summary`: it is of a sub-agent or an earlier conversation, and so never the
        agent's response.
        """
        if self.withdrawn or not text.strip():
            return
        if not summary:
            self._response_index = len(self._items)
        self._add_item(_new_claim(round=self._round), text)

    def _add_item(self, item: Observation | Claim, text: str) -> None:
        self._items.append(item)
        self._store(text)

    def called(
        self,
        identifier: str,
        tool: str,
        arguments: Any,
        *,
        summary: bool = False,
        writes: Sequence[str] = (),
        started: int | None = None,
    ) -> None:
        """Note a tool call with its arguments: a dict, or a text.

        `summary`: its result is the report of another agent. `writes`: files that it
        writes and its arguments omit. `started`: a time before it started, in
        nanoseconds since 1970, if one is known.
        """
        command = command_of(arguments)
        self._call_count += 1
        self._withdrawn_count += self.withdrawn
        if writes:
            for path in writes:
                self.wrote(path)
            forgeable = writes[0]
        else:
            forgeable = self._note_written(tool, arguments, command)
        if command:
            self._order.changed(self._call_count, removed_by(command[:LONGEST_COMMAND]))
        call = _Call(
            # One name for all calls of a tool.
            tool=intern(source_of(clean(tool))),
            command=clean(shown_arguments(tool, arguments, command)),
            texts=tuple(argument_texts(arguments)),
            forgeable=forgeable,
            summary=summary or (self._subagents and is_subagent(tool)),
            started=started,
            number=self._call_count,
            path="" if command is not None else only_path(tool, arguments),
        )
        before = self._calls.get(identifier)
        if before is not None and before.waiting:
            call = before.merged_with(call)
        self._calls[identifier] = call

    def _note_written(self, tool: str, arguments: Any, command: str | None) -> str:
        """Note the files that a call writes, by its arguments.

        Return the written file whose content its output may show; empty if none.
        """
        self._written.newest.clear()
        forgeable = self._written.of_call(tool, arguments, command)
        self._order.changed(self._call_count, self._written.newest)
        return forgeable

    def wrote(self, path: str) -> None:
        """Note a file that the agent wrote by other means than its tools."""
        self._written.add(path)
        self._order.changed(self._call_count, [path])

    def tool(self, identifier: str) -> str:
        """Return the tool of a call that waits for its result; else empty."""
        call = self._calls.get(identifier)
        return call.tool if call and call.waiting else ""

    def result(
        self,
        identifier: str,
        text: str,
        facts: Sequence[str] = (),
        *,
        tool: str = "",
        summary: bool = False,
    ) -> None:
        """Add the result of a call, or of a tool whose call is not known.

        `summary` is whether it is one of a sub-agent, as far as the result says so.

        It is an observation, except for a sub-agent's report and a result that only
        repeats an argument, as the result of a tool named `finish` does.
        """
        call = self._call_of_result(identifier, tool)
        if self.withdrawn:
            return
        self._has_results = True
        is_report = summary or call.summary or self._is_report(call, text)
        if is_report or text.strip() in call.texts:
            self.claimed(text, summary=is_report)
            return
        if call.forgeable:
            facts = (*facts, _forgeable_fact(call.forgeable))
        self._observation_count += 1
        known_facts = tuple(facts)
        observation = _new_observation(
            id=f"o{self._observation_count}",
            source=call.tool,
            # A long transcript repeats the same few facts and commands.
            facts=self._facts.setdefault(known_facts, known_facts),
            command=intern(call.command),
            round=self._round,
            started=call.started,
            reported_by=self.reporter,
        )
        self._order.observed(call.number, observation, call.path)
        self._add_item(observation, text)

    def _call_of_result(self, identifier: str, tool: str) -> _Call:
        """Return the call that a result belongs to. It no longer waits for this one."""
        call = self._calls.pop(identifier, None)
        if call is None:
            return self._call_without_doubts(identifier, tool)
        is_shared = call.waiting > 1
        # Calls without an id say nothing about later results without an id.
        if identifier or is_shared:
            self._keep_doubts(identifier, call)
        return call

    def _call_without_doubts(self, identifier: str, tool: str) -> _Call:
        """Return a call that has its result already, or one that is not known."""
        number = self._answered.get(identifier)
        if number is not None:
            return _Call(number=number)
        source = source_of(clean(tool)) if tool else "tool"
        return _Call(source, number=self._call_count)

    def _keep_doubts(self, identifier: str, call: _Call) -> None:
        """Keep what a further result with the id of a call has: its doubts."""
        if call.waiting <= 1 and not call.forgeable and not call.summary:
            # Nearly all calls; a number takes a tenth of the memory.
            self._answered[identifier] = call.number
            return
        is_shared = call.waiting > 1
        self._calls[identifier] = _Call(
            texts=call.texts if is_shared else (),
            forgeable=call.forgeable,
            summary=call.summary,
            waiting=max(call.waiting - 1, 0),
            number=call.number,
        )

    def _is_report(self, call: _Call, text: str) -> bool:
        """Return whether a result is the report of another agent, by its text.

        Claude Code's TaskOutput returns a report or a background command's output.
        """
        if not self._subagents or call.tool != "TaskOutput":
            return False
        return _BACKGROUND_COMMAND not in text[:_MARK_WITHIN]

    def finish(self, deliverable: Deliverable) -> Trail:
        """Return the trail. Nothing can be added afterwards.

        If the response is the deliverable, the last text of the agent is an
        observation.
        """
        if deliverable == "response" and self._response_index is not None:
            number = self._items[self._response_index].round
            self._items[self._response_index] = Observation(
                id=f"o{self._observation_count + 1}",
                source=RESPONSE,
                facts=(f"round {number}",),
                round=number,
            )
        calls = self._call_count - self._withdrawn_count
        # What only pairs calls with results makes room for the rest.
        del self._calls, self._answered
        # No later change of a file makes a response outdated.
        stale = self._order.stale() if deliverable == "workspace" else {}
        return replace(
            trail_with_texts_at(self._items, self._read),
            said=tuple(self._user_texts),
            unanswered=0 if self._has_results else calls,
            stale=stale,
        )


def _forgeable_fact(path: str) -> str:
    """Return the fact that an output may come from a file that the agent wrote."""
    path = clean(" ".join(path.split()))
    # The end of a path says more than its beginning.
    if len(path) > _LONGEST_PATH:
        path = f"…{path[-_LONGEST_PATH:]}"
    return f"{FORGEABLE}{path}"
