"""The trail of a saved transcript: calls are paired with their results, and texts are kept on disk."""

from __future__ import annotations

import json
import os
import re
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from goalrunner.core.errors import UsageError
from goalrunner.core.json_values import at, clean
from goalrunner.core.observation import FORGEABLE, RESPONSE, Claim, Observation, Trail, source_of
from goalrunner.transcripts.source import Deliverable
from goalrunner.transcripts.written_files import PATH_KEYS, WrittenFiles, is_writer

SUBAGENTS = frozenset(
    """
    task agent agentoutputtool delegate delegatetask delegatetoagent spawnagent waitagent resumeagent sendinput
    closeagent invokeagent subagent newtask codebaseinvestigator
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Tools whose result is the report of another agent, in lower case and without other characters than letters."""

_COMMANDS = ("command", "cmd", "script", "code")
_LONGEST_PATH = 80
_NO_TEXT = ("image", "image_url", "input_image", "audio", "video", "document", "tool_reference")


@dataclass(frozen=True)
class SavedTrail(Trail):
    """The trail of a saved transcript."""

    format: str = ""
    partial: str = ""
    """What is missing of the transcript; empty if nothing is. An audit of a partial one is no pass."""

    @property
    def forgeable(self) -> tuple[str, ...]:
        """The ids of observations whose output may be that of a file which the agent wrote."""
        found = (item for item in self.items if isinstance(item, Observation))
        return tuple(item.id for item in found if any(fact.startswith(FORGEABLE) for fact in item.facts))


@dataclass(frozen=True, slots=True)
class _Call:
    """A tool call that waits for its result. `given` are its string arguments."""

    tool: str = "tool"
    command: str = ""
    given: frozenset[str] = frozenset()
    forgeable: str = ""
    summary: bool = False


@dataclass(frozen=True, slots=True)
class _Entry:
    """One text: of an observation, or, without a tool, of the agent."""

    round: int
    place: tuple[int, int]
    tool: str = ""
    command: str = ""
    facts: tuple[str, ...] = ()
    summary: bool = False


class TrailBuilder:
    """Collects what a transcript contains, in its order. `reporter` is the agent's product, whose word the results are."""

    def __init__(self, reporter: str) -> None:
        self.reporter = reporter
        self._entries: list[_Entry] = []
        self._calls: dict[str, _Call] = {}
        self._written = WrittenFiles()
        self._texts = _Texts()
        self._round = 0

    def user(self) -> None:
        """Begin a round: a message of the user."""
        self._round += 1

    def said(self, text: str, *, summary: bool = False) -> None:
        """Add a text of the agent, which is a claim. `summary`: of a sub-agent or an earlier conversation."""
        if text.strip():
            self._entries.append(_Entry(self._round, self._texts.add(text), summary=summary))

    def called(
        self, identifier: str, tool: str, arguments: Any, *, summary: bool = False, writes: Sequence[str] = ()
    ) -> None:
        """Note a tool call: its arguments as a table or text.

        `summary`: another agent reports its result; `writes`: files that it writes, where the arguments do not name them.
        """
        line = command_of(arguments)
        for path in writes:
            self._written.add(path)
        self._calls[identifier] = _Call(
            tool=source_of(clean(tool)),
            command=clean(_shown(tool, arguments, line)),
            given=frozenset(_strings(arguments)),
            forgeable=next(iter(writes), "") or self._written.of_call(tool, arguments, line),
            summary=summary or re.sub(r"[^a-z]", "", tool.lower()) in SUBAGENTS,
        )

    def wrote(self, path: str) -> None:
        """Note a file that the agent wrote by other means than its tools."""
        self._written.add(path)

    def tool(self, identifier: str) -> str:
        """Return the tool of a call that waits for its result; empty if there is none."""
        call = self._calls.get(identifier)
        return call.tool if call else ""

    def result(self, identifier: str, text: str, facts: Sequence[str] = (), *, tool: str = "") -> None:
        """Add the result of a call, or of a tool whose call is not known.

        It is an observation, except for a sub-agent's report and a result that only repeats an argument (`finish`).
        """
        call = self._calls.pop(identifier, None) or _Call(source_of(clean(tool)) if tool else "tool")
        if call.summary or text.strip() in call.given:
            self.said(text, summary=call.summary)
            return
        if call.forgeable:
            path = clean(" ".join(call.forgeable.split()))
            short = path if len(path) <= _LONGEST_PATH else f"…{path[-_LONGEST_PATH:]}"
            facts = (*facts, f"{FORGEABLE}{short}")
        self._entries.append(_Entry(self._round, self._texts.add(text), call.tool, call.command, tuple(facts)))

    @property
    def length(self) -> int:
        """The number of texts, to `rewind` to."""
        return len(self._entries)

    def rewind(self, length: int) -> None:
        """Remove the texts behind the first `length`: the user took that part of the conversation back."""
        del self._entries[length:]

    def finish(self, deliverable: Deliverable) -> Trail:
        """Return the trail; afterwards the builder is empty.

        If the response is the deliverable, the last text of the agent is an observation as well.
        """
        said = (entry for entry in reversed(self._entries) if not entry.tool and not entry.summary)
        response = next(said, None) if deliverable == "response" else None
        found: list[Observation | Claim] = []
        by_id: dict[str, tuple[int, int]] = {}
        claims: dict[int, tuple[int, int]] = {}
        self._entries.reverse()
        while self._entries:  # each is freed when its item exists
            entry = self._entries.pop()
            if not entry.tool and entry is not response:
                claim = Claim(round=entry.round)
                found.append(claim)
                claims[id(claim)] = entry.place
                continue
            item = Observation(
                id=f"o{len(by_id) + 1}",
                source=entry.tool or RESPONSE,
                facts=entry.facts if entry.tool else (f"round {entry.round}",),
                command=entry.command,
                round=entry.round,
                reported_by=self.reporter if entry.tool else "",
            )
            found.append(item)
            by_id[item.id] = entry.place
        kept, texts = tuple(found), self._texts

        def read(item: Observation | Claim) -> str:
            return texts.read(by_id[item.id] if isinstance(item, Observation) else claims[id(item)])

        return Trail(items=kept, read=read)


class _Texts:
    """Texts in a temporary file, so that a long transcript needs little memory."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="goal-transcript-", buffering=0)  # noqa: SIM115 - closed with the object
        self._end = 0
        weakref.finalize(self, self._file.close)

    def add(self, text: str) -> tuple[int, int]:
        """Keep a text; return its place."""
        data = text.encode(errors="replace")
        place = self._end, len(data)
        self._end += len(data)
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise UsageError(
                f"the texts of the transcript cannot be kept in {tempfile.gettempdir()}: {error.strerror or error}",
                "Free room there, or set TMPDIR to another folder.",
            ) from None
        return place

    def read(self, place: tuple[int, int]) -> str:
        """Return the text at a place."""
        begin, length = place
        return os.pread(self._file.fileno(), length, begin).decode()


def as_text(value: Any) -> str:
    """Return a string as it is, the text of content blocks, other values as JSON, and an empty string for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list) and all(isinstance(block, str | dict) for block in value):
        return "\n".join(filter(None, map(_block, value)))
    return as_json(value)


def _block(block: Any) -> str:
    """Return the text of a content block; of an image and the like its kind alone."""
    if isinstance(block, str):
        return clean(block)
    for found in (block.get("text"), at(block, "content", "text")):
        if isinstance(found, str):
            return clean(found)
    return f"({block['type']})" if block.get("type") in _NO_TEXT else as_json(block)


def as_json(value: Any) -> str:
    """Return the value as JSON."""
    return clean(json.dumps(value, ensure_ascii=False, default=str))


def number(value: Any) -> int | None:
    """Return an integer; None for anything else."""
    return value if type(value) is int and abs(value) < 2**63 else None


def exit_fact(*codes: Any) -> tuple[str, ...]:
    """Return the fact of the first exit code that is an integer; none if there is none."""
    return next(((f"exit {code}",) for code in map(number, codes) if code is not None), ())


def command_of(arguments: Any) -> str | None:
    """Return the command line of a shell-like call; None for other calls."""
    if isinstance(arguments, dict) and not any(isinstance(arguments.get(key), str) for key in PATH_KEYS):
        for key in _COMMANDS:
            given = arguments.get(key)
            if isinstance(given, str):
                return clean(given)
            if isinstance(given, list) and given and all(isinstance(word, str) for word in given):
                shell = len(given) == 3 and given[1] in ("-c", "-lc")
                return clean(given[2] if shell else " ".join(given))
    return None


def _shown(tool: str, arguments: Any, line: str | None) -> str:
    """Return the command line, the path that a file tool was given, else the arguments.

    Only of tools that write files other texts are left out: what a result repeats of them is marked as forgeable.
    """
    if line is not None:
        return line
    if isinstance(arguments, dict):
        texts = {key for key, value in arguments.items() if isinstance(value, str)}
        path = next((arguments[key] for key in PATH_KEYS if key in texts), None)
        if path is not None and (is_writer(tool) or texts <= {*PATH_KEYS, "command"}):
            return f"{arguments['command']} {path}" if "command" in texts else path
    return arguments if isinstance(arguments, str) else as_json(arguments) if arguments else ""


def _strings(arguments: Any) -> list[str]:
    values = arguments.values() if isinstance(arguments, dict) else [arguments]
    values = [*values, *(at(value, "message") for value in values)]
    return [value.strip() for value in values if isinstance(value, str) and value.strip()]
