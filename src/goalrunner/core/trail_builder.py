"""The trail of a chat or a transcript: calls are paired with their results, and files
that the agent wrote are noted.

Results of tools are observations, texts of the agent are claims. What a person wrote is
kept apart from both. A later command that prints a file of the agent proves nothing, so
its output is marked as forgeable.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from goalrunner.core.call_order import CallOrder, removed_by
from goalrunner.core.freshness import start_of
from goalrunner.core.messages import (
    TIMESTAMP,
    Block,
    at,
    blocks_of,
    calls_of,
    clean,
    facts_of,
    items,
    json_of,
    text,
    text_of,
)
from goalrunner.core.observation import (
    FORGEABLE,
    RESPONSE,
    Claim,
    Observation,
    Trail,
    UserText,
    source_of,
    trail_with,
)
from goalrunner.core.user_messages import ORIGIN, persons_text

Deliverable = Literal["workspace", "response"]
"""What is judged: the files of the workspace, or the agent's last text."""

_SUBAGENTS = frozenset(
    """
    task agent agentoutputtool delegate delegatetask delegatetoagent spawnagent waitagent resumeagent sendinput
    closeagent invokeagent subagent newtask codebaseinvestigator
    """.split()
)
"""Tools whose result is the report of another agent, in lower case, letters only."""
_WRITERS = tuple(
    """
    write writefile writetofile edit editfile fileeditor editor edittool create createfile replace replaceinfile strreplace
    insert append savefile patch diff
    """.split()
)
"""Endings of the names of tools that write files, in lower case, letters only."""
_OF_ONE_FILE = (*_WRITERS, "read", "readfile", "view", "viewfile", "openfile", "cat")
_LOOKS = frozenset({"view", "undo_edit"})
_PATHS = (
    "file_path",
    "filePath",
    "path",
    "filename",
    "absolute_path",
    "notebook_path",
    "target_file",
)
"""Arguments of file tools that name the file."""
_COMMANDS = ("command", "cmd", "script", "code")
_LONGEST_PATH = 80
_COMMAND_TASK, _HEAD = "<task_type>local_bash</task_type>", 300


@dataclass(frozen=True, slots=True)
class _Call:
    """A tool call.

    `given` are its string arguments; `waiting` is how many calls with its id have no
    result.

    `number` is its place among the calls, `path` the only file on which its result
    depends.
    """

    tool: str = "tool"
    command: str = ""
    given: frozenset[str] = frozenset()
    forgeable: str = ""
    summary: bool = False
    waiting: int = 1
    started: int | None = None
    number: int = 0
    path: str = ""

    def beside(self, other: _Call) -> _Call:
        """Return what holds for a result of one of two calls with the same id: which of
        them is not known.
        """
        given, forgeable = self.given | other.given, self.forgeable or other.forgeable
        summary, waiting = self.summary or other.summary, self.waiting + 1
        return _Call(
            "tool",
            "",
            given,
            forgeable,
            summary,
            waiting,
            number=min(self.number, other.number),
        )


class TrailBuilder:
    """Collects the items of a chat in order.

    `reporter` is the program that reports the results, if it is an external one.

    `subagents`: whether results of tools with names like `task` are reports of other
    agents, and so claims. `store` keeps a text elsewhere and returns its place; `read`
    returns the text at a place.
    """

    def __init__(
        self,
        reporter: str = "",
        store: Callable[[str], Any] = str,
        read: Callable[[Any], str] = str,
        *,
        subagents: bool = True,
    ) -> None:
        self.reporter = reporter
        self._subagents = subagents
        self._store, self._read = store, read
        self._items: list[Observation | Claim] = []
        self._places: list[Any] = []
        self._observed = 0
        self._response: int | None = (
            None  # the index of the last text of the agent itself
        )
        self._calls: dict[str, _Call] = {}
        self._written = WrittenFiles()
        self._order = CallOrder()
        self._called = 0
        self._round = 0
        self._user_texts: list[UserText] = []

    def user(self, text: str = "") -> None:
        """Begin a round with a message of the user.

        What a person wrote in it is kept; without a text that is unknown.
        """
        self._round += 1
        if own := persons_text(text):
            self._user_texts.append(UserText(self._round, own))

    def claimed(self, text: str, *, summary: bool = False) -> None:
        """Add a text of the agent, which is a claim.

        `summary`: of a sub-agent or an earlier conversation.
        """
        if text.strip():
            self._response = self._response if summary else len(self._items)
            self._items.append(Claim(round=self._round))
            self._places.append(self._store(text))

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
        """Note a tool call with its arguments, a dict or a text.

        `summary`: its result is the report of another agent. `writes`: files that it
        writes and its arguments omit. `started`: a time before it started, in
        nanoseconds since 1970, if one is known.
        """
        line = command_of(arguments)
        self._called += 1
        self._written.newest.clear()
        for path in writes:
            self.wrote(path)
        before = self._calls.get(identifier)
        call = _Call(
            tool=source_of(clean(tool)),
            command=clean(_shown(tool, arguments, line)),
            given=frozenset(_strings(arguments)),
            forgeable=next(iter(writes), "")
            or self._written.of_call(tool, arguments, line),
            summary=summary or (self._subagents and _letters(tool) in _SUBAGENTS),
            started=started,
            number=self._called,
            path="" if line is not None else _only_path(tool, arguments),
        )
        self._order.changed(
            self._called,
            [*self._written.newest, *removed_by(line[:_LONGEST] if line else "")],
        )
        self._calls[identifier] = (
            before.beside(call) if before and before.waiting else call
        )

    def wrote(self, path: str) -> None:
        """Note a file that the agent wrote by other means than its tools."""
        self._written.add(path)
        self._order.changed(self._called, [path])

    def tool(self, identifier: str) -> str:
        """Return the tool of a call that waits for its result; empty if there is
        none."""
        call = self._calls.get(identifier)
        return call.tool if call and call.waiting else ""

    def result(
        self, identifier: str, text: str, facts: Sequence[str] = (), *, tool: str = ""
    ) -> None:
        """Add the result of a call, or of a tool whose call is not known.

        It is an observation, except for a sub-agent's report and a result that only
        repeats an argument (`finish`).
        """
        known = self._calls.pop(identifier, None)
        call = known or _Call(
            source_of(clean(tool)) if tool else "tool", number=self._called
        )
        if known and (
            identifier or known.waiting > 1
        ):  # a further result with this id belongs to no known call
            given, left = (
                (call.given, call.waiting - 1)
                if call.waiting > 1
                else (frozenset[str](), 0)
            )
            self._calls[identifier] = replace(
                call, tool="tool", command="", given=given, waiting=left
            )
        # TaskOutput returns the output of a background command, or the report of
        # another agent.
        is_output = self._subagents and call.tool == "TaskOutput"
        is_report = call.summary or (is_output and _COMMAND_TASK not in text[:_HEAD])
        if is_report or text.strip() in call.given:
            self.claimed(text, summary=is_report)
            return
        if call.forgeable:
            path = clean(" ".join(call.forgeable.split()))
            short = path if len(path) <= _LONGEST_PATH else f"…{path[-_LONGEST_PATH:]}"
            facts = (*facts, f"{FORGEABLE}{short}")
        self._observed += 1
        item = Observation(
            id=f"o{self._observed}",
            source=call.tool,
            facts=tuple(facts),
            command=call.command,
            round=self._round,
            started=call.started,
            reported_by=self.reporter,
        )
        self._order.observed(call.number, item, call.path)
        self._items.append(item)
        self._places.append(self._store(text))

    def finish(self, deliverable: Deliverable) -> Trail:
        """Return the trail.

        If the response is the deliverable, the last text of the agent is an
        observation.
        """
        if deliverable == "response" and self._response is not None:
            number, identifier = (
                self._items[self._response].round,
                f"o{self._observed + 1}",
            )
            response = Observation(
                id=identifier, source=RESPONSE, facts=(f"round {number}",), round=number
            )
            self._items[self._response] = response
        stored = trail_with(zip(self._items, self._places, strict=True))
        stale = self._order.stale() if deliverable == "workspace" else {}
        said = tuple(self._user_texts)
        return replace(
            stored,
            read=lambda item: self._read(stored.read(item)),
            said=said,
            stale=stale,
        )


def command_of(arguments: Any) -> str | None:
    """Return the command line of a shell-like call; None for other calls."""
    if isinstance(arguments, dict) and not any(
        isinstance(arguments.get(key), str) for key in _PATHS
    ):
        for given in map(arguments.get, _COMMANDS):
            if isinstance(given, str):
                return clean(given)
            if (
                isinstance(given, list)
                and given
                and all(isinstance(word, str) for word in given)
            ):
                shell = len(given) == 3 and given[1] in ("-c", "-lc")
                return clean(given[2] if shell else " ".join(given))
    return None


def _shown(tool: str, arguments: Any, line: str | None) -> str:
    """Return the command line, the path of a file tool, or else the arguments.

    Other texts are left out only for tools that write files: their results are marked
    as forgeable.
    """
    if line is not None:
        return line
    if isinstance(arguments, dict):
        texts = {key for key, value in arguments.items() if isinstance(value, str)}
        path = next((arguments[key] for key in _PATHS if key in texts), None)
        if path is not None and (_is_writer(tool) or texts <= {*_PATHS, "command"}):
            return f"{arguments['command']} {path}" if "command" in texts else path
    return (
        arguments
        if isinstance(arguments, str)
        else json_of(arguments)
        if arguments
        else ""
    )


def _strings(arguments: Any) -> list[str]:
    values = arguments.values() if isinstance(arguments, dict) else [arguments]
    values = [*values, *(at(value, "message") for value in values)]
    return [
        value.strip() for value in values if isinstance(value, str) and value.strip()
    ]


def _letters(tool: str) -> str:
    return re.sub(r"[^a-z]", "", tool.lower())


def _is_writer(tool: str) -> bool:
    return _letters(tool).endswith(_WRITERS)


def _only_path(tool: str, arguments: Any) -> str:
    """Return the file that a tool reads or writes; empty for a tool that may look at
    others.
    """
    given = arguments if isinstance(arguments, dict) else {}
    return (
        next(filter(None, map(text, map(given.get, _PATHS))), "")
        if _letters(tool).endswith(_OF_ONE_FILE)
        else ""
    )


_PATCHED = re.compile(r"^\*\*\* (?:Add File|Update File|Move to): (.+)$", re.MULTILINE)
_WORDS = re.compile(r"[^\s'\"`=:,;|&<>()\[\]{}$]+")
_DOCUMENT = re.compile(r"<<-?[ \t]*(['\"\\]?)(\w+)\1?([^\n]*\n)(?:.*\n)*?\t*\2(?=\n|$)")
_QUOTED = re.compile(r"(['\"])([\w./~${}-]*)\1")
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"")
_REDIRECTED = re.compile(r">[>|&]?[ \t]*([^\s;&|<>()'\"]+)")
_TEE = re.compile(r"\btee\b((?:[ \t]+[^\s;&|<>()'\"]+)+)")
_COPIED = re.compile(
    # `pip install pytest` writes no file of that name.
    r"(?:\b(?:cp|mv|ln|(?:sed|perl)(?=[^;&|\n]* -(?:p?i|-in-place)))|(?:^|[;&|(]|\bsudo)[ \t]*install)\b"
    r"[^;&|<>\n]*[ \t]([^\s;&|<>()'\"]+)",
    re.MULTILINE,
)
_NO_FILE = re.compile(r"/dev/\w+|&?\d+|-.*")
_LONGEST = 50_000
"""Characters of a command in which written files are searched."""


class WrittenFiles:
    """The paths that tool calls wrote so far."""

    def __init__(self) -> None:
        self._by_name: dict[str, set[str]] = {}
        self.newest: list[str] = []
        """Those that were added since this list was cleared."""

    def __contains__(self, path: str) -> bool:
        """Return whether a path, absolute or relative to a folder that is not known, is
        one of them.
        """
        path = posixpath.normpath(path)
        known = self._by_name.get(posixpath.basename(path), ())
        return any(
            path == one or path.endswith(f"/{one}") or one.endswith(f"/{path}")
            for one in known
        )

    def add(self, path: str) -> None:
        """Note a file."""
        path = posixpath.normpath(path)
        if path and path != "." and not _NO_FILE.fullmatch(path):
            self._by_name.setdefault(posixpath.basename(path), set()).add(path)
            self.newest.append(path)

    def of_call(self, tool: str, arguments: Any, command: str | None) -> str:
        """Note what a call writes; return the first file written by the agent whose
        content its output may show.
        """
        if command is not None:
            return self._of_command(command[:_LONGEST])
        given = arguments if isinstance(arguments, dict) else {}
        paths = [path for key in _PATHS if (path := text(given.get(key)))]
        paths += [
            path
            for entry in items(given.get("locations"))
            if (path := text(at(entry, "path")))
        ]
        if "patch" in tool.lower():
            body = (
                arguments
                if isinstance(arguments, str)
                else "\n".join(map(text, given.values()))
            )
            paths += _PATCHED.findall(body)
        if _is_writer(tool) and given.get("command") not in _LOOKS:
            for path in paths:
                self.add(path)
        return self._first(paths)

    def _of_command(self, command: str) -> str:
        # Without here-documents and quoted texts, which may contain anything; `$OUT/x`
        # is the path OUT/x.
        line = re.sub(
            r"[${}]",
            "",
            _TEXT.sub("''", _QUOTED.sub(r"\2", _DOCUMENT.sub(r"\3", command))),
        )
        silent = _REDIRECTED.findall(line) + _COPIED.findall(line)
        printed = _PATCHED.findall(command) + " ".join(_TEE.findall(line)).split()
        for path in (*silent, *printed):
            self.add(path)
        if not self._by_name:
            return ""
        named = Counter(map(posixpath.normpath, _WORDS.findall(command)))
        named.subtract(map(posixpath.normpath, silent))
        return self._first(path for path, number in named.items() if number > 0)

    def _first(self, paths: Iterable[str]) -> str:
        return next((path for path in paths if path in self), "")


_AUTHORS: dict[Any, bool] = {"user": False, "assistant": True}
"""Roles of messages with results in blocks, and whether these are results of tools that
ran at the provider."""


def trail_of(
    messages: Sequence[Mapping[str, Any]], *, deliverable: Deliverable = "workspace"
) -> Trail:
    """Return the trail of a chat in OpenAI's format, oldest first: observations
    numbered from o1, rounds by user messages.

    `content` is a string, None or a list of blocks, also those of Anthropic, Strands
    and Bedrock for calls and results.
    """
    trail = TrailBuilder(subagents=False)  # a program's own tools may have any name
    for message in messages:
        add_message(trail, message)
    return trail.finish(deliverable)


def add_message(
    trail: TrailBuilder, message: Mapping[str, Any], *, claims: bool = False
) -> None:
    """Add a chat message: text of the assistant is a claim, results of tools are
    observations unless all are `claims`.
    """
    content, role = message.get("content"), message.get("role")
    said, tool = clean(text_of(content)), ""
    results = [
        one
        for one in blocks_of(content)
        if one.kind == "result" and bool(one.name) == _AUTHORS.get(role)
    ]
    # A user message may contain only tool results; a text begins a round.
    if role == "user" and not claims and (said.strip() or not results):
        # Beside results, a text of a program is as likely.
        is_persons = not results and message.get(ORIGIN, "user") == "user"
        trail.user(said if is_persons else "")
    elif role == "assistant":
        trail.claimed(said, summary=claims)
        for call in calls_of(message):
            started = start_of(message.get(TIMESTAMP))
            trail.called(
                call.id, call.name, call.given, summary=claims, started=started
            )
    elif role in (
        "tool",
        "function",
    ):  # a function is the old form, whose calls have no id
        tool, results = (
            text(message.get("name")),
            [Block("result", id=str(message.get("tool_call_id") or ""), text=said)],
        )
    for result in results:
        if claims:
            trail.claimed(result.text, summary=True)
        else:
            trail.result(
                result.id,
                result.text,
                facts_of(result.text, failed=result.failed),
                tool=tool,
            )
