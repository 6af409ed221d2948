"""The reader of chat histories of aider, which are Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goalrunner.core.observation import FORGEABLE
from goalrunner.transcripts.row_reader import RowReader
from goalrunner.transcripts.source import TranscriptSource

_START = b"# aider chat started at "
_USER = "#### "
_QUOTE = ">"
_RUNNING = "Running "
_EDITED = "Applied edit to "
_USERS_COMMANDS = ("/run ", "/test ", "! ", "!")
# Questions and reports of the program after the output of a command.
_ENDS = (
    "Attempt to fix ",
    "Add command output to the chat",
    "Add ",
    "Added ",
    _EDITED,
    "Commit ",
    "Tokens: ",
)
# The text of the agent is in the same file and may have the same form.
_FORGEABLE_FACT = f"{FORGEABLE}text into the same file"


class AiderReader(RowReader):
    """Histories: `.aider.chat.history.md`.

    Commands that the program or the user ran are observations, other texts are claims.
    """

    DESCRIPTION = "chat history of aider (Markdown)"
    reporter = "aider"
    fault = "text"

    def __init__(self) -> None:
        super().__init__()
        self._said: list[str] = []
        """Lines of the agent's text."""
        self._asked: list[str] = []
        """Lines of a message of the user."""
        self._command = ""
        """The command whose output follows; empty if none was run."""
        self._facts: tuple[str, ...] = ()
        self._output: list[str] = []
        self._count = 0

    def matches(self, source: TranscriptSource) -> bool:
        return source.head.startswith(_START)

    def rows(self, source: TranscriptSource) -> Iterator[Any]:
        if not self.matches(source):
            raise source.error("not a chat history of aider")
        return source.text_lines()

    def is_valid(self, row: Any) -> bool:
        return isinstance(row, str)

    def add(self, row: str) -> None:
        line = row.rstrip()
        # Not ">>>>>>> REPLACE" of an edit.
        if line == _QUOTE or line.startswith(f"{_QUOTE} "):
            self._end_texts()
            self._add_quoted(line[2:])
            return
        self._end_command()
        if line.startswith(_USER):
            self._end_said()
            self._asked.append(line.removeprefix(_USER))
        elif line.encode().startswith(_START):
            self._end_texts()
        else:
            self._end_asked()
            self._said.append(line)

    def end(self) -> None:
        self._end_command()
        self._end_texts()

    def _add_quoted(self, words: str) -> None:
        """Add a line of the program, or of the output of a command."""
        if self._command and words.startswith(_ENDS):
            self._end_command()
        # Output may have such a line as well, so it ends with its block of lines.
        if not self._command and words.startswith(_RUNNING):
            self._command = words.removeprefix(_RUNNING)
        elif self._command:
            self._output.append(words)
        elif words.startswith(_EDITED):
            self.trail.wrote(words.removeprefix(_EDITED))

    def _end_texts(self) -> None:
        self._end_asked()
        self._end_said()

    def _end_said(self) -> None:
        self.trail.claimed("\n".join(self._said).strip())
        self._said.clear()

    def _end_asked(self) -> None:
        if not self._asked:
            return
        words = "\n".join(self._asked)
        self._asked.clear()
        for prefix in _USERS_COMMANDS:
            if words.startswith(prefix):
                self._command = words.removeprefix(prefix)
                self._facts = ("run by the user",)
                return
        self.trail.user(words)

    def _end_command(self) -> None:
        if not self._command or not (self._output or not self._facts):
            return
        self._count += 1
        identifier = f"command-{self._count}"
        self.trail.called(identifier, "shell", {"command": self._command})
        facts = (*self._facts, _FORGEABLE_FACT)
        self.trail.result(identifier, "\n".join(self._output), facts)
        self._command = ""
        self._facts = ()
        self._output.clear()
