"""A shell line is split into its commands.

What is not read is an error: arithmetic, deep substitutions, some quotes.

The commands in substitutions (`$(...)`) are unknown, and the text of here-documents is
no command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

# A line may be written by an agent that wants to confuse its reader: what is not
# clearly understood is an error, and possessive quantifiers (`*+`, `++`) keep the time
# linear.
_LONGEST, _MOST = 100_000, 1_000
"""The most characters and commands of a line that is read."""
_VARIABLE = (
    r"\$\{(?=[\w@*#?!-])(?:[^'\"`{}$]|\$\w+|\$\{[^'\"`{}$]*\})*+\}"
    r"|\$\(\([\w\s$+*/%<>=!?:,-]*\)\)"
)
"""A variable, or arithmetic that runs no command."""
_INSIDE = r"(?:[^()'\"`\\]|\\.|'[^']*'|\"[^\"]*\")"
_NESTED = rf"\((?:{_INSIDE}|\({_INSIDE}*+\))*+\)"
_SUBSTITUTION = rf"[$<>]\((?:{_INSIDE}|{_NESTED})*+\)|`[^`]*`"
_KNOWN = re.compile(
    rf"(?:[^ \t\n;&|()<>'\"`\\$]|\\.|\$(?!['\"({{])|{_VARIABLE}|'[^']*'"
    rf"|\"(?:[^\"\\`$]|\\.|\$(?![({{])|{_VARIABLE})*+\")++",
    re.DOTALL,
)
"""Parts of a word whose quotes and variables are understood."""
_SUBSTITUTED = re.compile(
    rf"{_SUBSTITUTION}|\"(?:[^\"\\`$]|\\.|\$(?![({{])|{_VARIABLE}|{_SUBSTITUTION})*+\"",
    re.DOTALL,
)
_MESSAGE = re.compile(r"\"\$\(cat <<'(\w+)'\n(?:(?!\1\n).*\n)*+\1\n\s*\)\"")
"""How agents write a long text: `git commit -m "$(cat <<'EOF' ...)"`. Its `cat` runs
nothing else."""
_ARRAY = re.compile(r"\w+\+?=\([^()'\"`$]*\)")
_BLANK = re.compile(r"(?:[ \t]|\\\n|#[^\n]*)+")
_REDIRECTION = re.compile(r"\d*(?:<<<|<<-?|<>|<&|<(?!\()|>>|>\||>&|>(?!\())|&>>?")
_OPERATOR = re.compile(r"&&|\|\|?|;;?|&(?!>)|\n|\([ \t]*\)|\((?!\()|\)")
_LINE = re.compile(r"[^\n]*\n?")
_QUOTED = re.compile(r"'[^']*'$")
_BEHIND_WORD = " \t\n;&|()<>"
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_CLOSING = {
    "if": "fi",
    "while": "done",
    "until": "done",
    "for": "done",
    "case": "esac",
    "{": "}",
    "(": ")",
}
_DIVIDING = frozenset({"then", "elif", "else", "do"})
RESERVED = frozenset(
    {*_CLOSING, *_CLOSING.values(), *_DIVIDING, "!", "select", "function"}
)
"""Words that have a meaning of their own at the beginning of a command."""


class UnreadableError(Exception):
    """A line has a construct that is not read, or what it runs is unknown."""


@dataclass(frozen=True)
class Lost:
    """An exit code that does not count, by the operator behind its command.

    `instead` has the words of the command that counts.
    """

    how: Literal["|", "||", ";", "&"]
    instead: str = ""


@dataclass(frozen=True)
class Command:
    """One simple command, without redirections. Its words are without quotes.

    `negated`: behind `!`, so its failure is what is wanted. `fallback`: behind `||`, so
    it only runs if something else failed. `optional`: within if, while or for, so it
    may not run. `last`: nothing runs after it.
    """

    words: tuple[str, ...] = ()
    assignments: tuple[str, ...] = ()
    expanded: frozenset[str] = frozenset()
    """Those of its words that contain variables outside of single quotes."""
    lost: Lost | None = None
    negated: bool = False
    fallback: bool = False
    optional: bool = False
    last: bool = True


@dataclass(frozen=True)
class ShellLine:
    """The commands of a line in their order.

    `substitutes`: whether it has substitutions, such as `$(...)`.
    """

    commands: tuple[Command, ...]
    substitutes: bool


def read_line(text: str) -> ShellLine:
    """Return the commands of a line. Raise UnreadableError."""
    if len(text) > _LONGEST or "\0" in text:
        raise UnreadableError("it is too long, or contains a null character")
    tokens = _Tokens(text)
    splitter = _Splitter()
    for part, is_word in tokens:
        splitter.add(part, is_word)
    return ShellLine(tuple(splitter.finish()), tokens.substitutes)


@dataclass(frozen=True)
class _Document:
    """A here-document whose text follows the line at hand."""

    delimiter: str
    """The word that ends it, with its quotes."""
    ignores_tabs: bool
    """Whether tabs before its lines do not count, as after `<<-`."""


class _Tokens:
    """The words and operators of a text.

    Redirections and the text of here-documents are left out.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._documents: list[_Document] = []
        """Those that follow this line."""
        self.substitutes = False

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        """Yield words with their quotes, and operators; and whether it is a word."""
        is_ambiguous = False
        while self._has_more():
            if operator := self._next(_OPERATOR):
                is_ambiguous = False
                yield operator, False
                if operator == "\n":
                    self._skip_documents()
            elif redirection := self._next(_REDIRECTION):
                is_ambiguous = is_ambiguous or redirection.startswith("&")
                self._redirect(redirection.lstrip("0123456789"))
            elif is_ambiguous:
                raise UnreadableError(
                    "words behind `&>` are another command in some shells"
                )
            else:
                yield self._word(), True
        if self._documents:
            raise UnreadableError("the text of a here-document is missing")

    def _next(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]

    def _has_more(self) -> bool:
        """Skip blanks and comments, and return whether something follows."""
        blank = self._next(_BLANK)
        self._refuse_newline(blank)
        return self._at < len(self._text)

    def _refuse_newline(self, text: str) -> None:
        if self._documents and "\n" in text:
            raise UnreadableError("the line of a here-document is continued")

    def _redirect(self, operator: str) -> None:
        self._has_more()
        word = self._word()
        if operator in ("<<", "<<-"):
            self._documents.append(_Document(word, operator == "<<-"))

    def _word(self) -> str:
        begin = self._at
        if not self._next(_ARRAY):
            while self._next(_MESSAGE) or self._next(_KNOWN) or self._substitution():
                pass
        word = self._text[begin : self._at]
        if not word or self._text[self._at : self._at + 1] not in _BEHIND_WORD:
            raise UnreadableError(
                f"{self._text[begin : begin + 20]!r} is not understood"
            )
        self._refuse_newline(word)
        return word

    def _substitution(self) -> str:
        part = self._next(_SUBSTITUTED)
        self.substitutes = self.substitutes or bool(part)
        return part

    def _skip_documents(self) -> None:
        for document in self._documents:
            self._skip_document(document)
        self._documents.clear()

    def _skip_document(self, document: _Document) -> None:
        delimiter = _without_quotes(document.delimiter)
        # With quotes around its delimiter, the shell takes the text as it is.
        is_expanded = document.delimiter == delimiter
        line = None
        while line != delimiter:
            if self._at == len(self._text):
                raise UnreadableError(
                    f"the end {delimiter} of a here-document is missing"
                )
            line = self._next(_LINE).removesuffix("\n")
            if document.ignores_tabs:
                line = line.lstrip("\t")
            may_substitute = "$(" in line or "`" in line or line.endswith("\\")
            if is_expanded and may_substitute:
                self.substitutes = True


@dataclass(frozen=True)
class _Group:
    """A group that is not closed.

    `outer` holds for the group, `inner` for the commands in it.
    """

    opening: str
    outer: Command
    inner: Command


@dataclass(frozen=True)
class _Behind:
    """The operator behind a command, and how deep in groups it is."""

    operator: str
    depth: int


class _Splitter:
    """Makes commands of words and operators."""

    def __init__(self) -> None:
        self._commands: list[Command] = []
        self._behind: list[_Behind] = []
        """By command."""
        self._groups: list[_Group] = []
        self._around = Command()
        """What holds for all commands of a pipeline."""
        self._words: list[str] = []
        self._assignments: list[str] = []
        self._state: Literal["start", "command", "closed", "head"] = "start"
        """What is read: the start of a command, its words, what follows a group, or the
        words behind `for` or `case`."""

    def add(self, part: str, is_word: bool) -> None:
        """Add a part. Raise UnreadableError if it is out of place."""
        may_be_reserved = is_word and self._state in ("start", "closed")
        if self._state == "head":
            self._skip(part, is_word)
        elif part == ")" or (may_be_reserved and part in _CLOSING.values()):
            self._close(part)
        elif self._state == "start" and part in _CLOSING:
            self._open(part)
        elif may_be_reserved and part in _DIVIDING:
            self._divide(part)
        elif not is_word:
            self._end(part)
        elif self._state == "start" and part == "!":
            self._around = replace(self._around, negated=not self._around.negated)
        elif (may_be_reserved and part in RESERVED) or self._state == "closed":
            raise UnreadableError(f"`{part}` is not read here")
        else:
            self._state = "command"
            if self._words or not _ASSIGNMENT.match(part):
                self._words.append(part)
            else:
                self._assignments.append(part)

    def _skip(self, part: str, is_word: bool) -> None:
        """Skip the words between `for` or `case` and the first command."""
        end = ("in",) if self._groups[-1].opening == "case" else (";", "\n")
        if part in end:
            self._state = "start"
        elif not is_word or part == "do":
            raise UnreadableError(f"`{part}` is out of place")

    def finish(self) -> Iterator[Command]:
        """Yield the commands, with what becomes of their exit codes."""
        if self._state == "command":
            self._add_command("")
        if self._groups or self._is_incomplete():
            raise UnreadableError("its end is missing")
        if len(self._commands) > _MOST:
            raise UnreadableError("it has too many commands")
        for index, command in enumerate(self._commands):
            yield replace(
                command, lost=self._lost(index), last=index + 1 == len(self._commands)
            )

    def _open(self, part: str) -> None:
        inner = replace(
            self._around, optional=self._around.optional or part not in "({"
        )
        self._groups.append(_Group(part, self._around, inner))
        self._around = inner
        self._state = "head" if part in ("for", "case") else "start"

    def _close(self, part: str) -> None:
        opening = self._groups[-1].opening if self._groups else ""
        if part == ")" and opening == "case":  # behind a pattern
            self._words.clear()
            self._state = "start"
            return
        if self._state == "command":
            self._add_command("")
        if _CLOSING.get(opening) != part or self._is_incomplete():
            raise UnreadableError(f"`{part}` is out of place")
        self._around = self._groups.pop().outer
        self._state = "closed"

    def _divide(self, part: str) -> None:
        """Begin the next part of `if` or a loop.

        The exit code before it decides what runs.
        """
        if (
            not self._groups
            or self._groups[-1].opening in "({"
            or self._is_incomplete()
        ):
            raise UnreadableError(f"`{part}` is out of place")
        depth = len(self._groups)
        if self._commands and self._behind[-1].depth >= depth:
            self._behind[-1] = _Behind(part, depth)
        self._state = "start"

    def _end(self, operator: str) -> None:
        """End a command or a group with the operator behind it."""
        if operator[0] == "(":
            self._name_function(operator)
            return
        if self._state == "start" and operator not in ("\n", ";;"):
            raise UnreadableError(f"a command is missing before `{operator}`")
        if self._state == "command":
            self._add_command(operator)
        elif self._state == "closed" and self._commands:
            self._behind[-1] = _Behind(operator, len(self._groups))
        if operator != "|" and self._state != "start":
            self._around = self._groups[-1].inner if self._groups else Command()
            self._around = replace(
                self._around, fallback=self._around.fallback or operator == "||"
            )
        self._state = "start"

    def _name_function(self, operator: str) -> None:
        """Take the word before `()` as the name of a function, whose body follows."""
        if operator == "(" or len(self._words) != 1 or self._assignments:
            raise UnreadableError("a `(` is out of place")
        self._words.clear()
        self._around = replace(self._around, optional=True)
        self._state = "start"

    def _add_command(self, operator: str) -> None:
        command = replace(
            self._around,
            words=tuple(map(_without_quotes, self._words)),
            assignments=tuple(self._assignments),
            expanded=frozenset(
                _without_quotes(word)
                for word in self._words
                if "$" in word and not _QUOTED.match(word)
            ),
        )
        self._commands.append(command)
        self._behind.append(_Behind(operator, len(self._groups)))
        self._words.clear()
        self._assignments.clear()

    def _is_incomplete(self) -> bool:
        if self._state != "start" or not self._behind:
            return False
        return self._behind[-1].operator in ("&&", "||", "|")

    def _lost(self, index: int) -> Lost | None:
        """Return why the exit code of a command does not count.

        None if it does, or decides a condition.
        """
        depth = self._behind[index].depth
        for at in range(index, len(self._behind)):
            behind = self._behind[at]
            if behind.depth > depth:
                # Within a later group.
                continue
            leaves_group = behind.depth < depth
            depth = behind.depth
            match behind.operator:
                case "|" if at == index or leaves_group:
                    return Lost("|", self._words_of(self._end_of_pipeline(at)))
                case "||":
                    return Lost("||", self._words_of(at + 1))
                case "&":
                    return Lost("&")
                case ";" | "\n":
                    is_last = at + 1 == len(self._commands)
                    return None if is_last else Lost(";", self._words_of(-1))
                case "|" | "&&":
                    # A failure behind these is one of the whole: look further.
                    continue
                case _:
                    return None
        return None

    def _end_of_pipeline(self, index: int) -> int:
        """Return the index of the last command of a pipeline."""
        while index < len(self._behind) and self._behind[index].operator == "|":
            index += 1
        return index

    def _words_of(self, index: int) -> str:
        commands = self._commands[index:]
        return " ".join(commands[0].words) if commands else ""


def _without_quotes(word: str) -> str:
    try:
        return " ".join(shlex.split(word.replace("\\\n", "")))
    except ValueError:  # quotation marks in a substitution
        return word
