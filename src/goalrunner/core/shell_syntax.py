"""Reads the simple commands of a shell line, and what becomes of the exit code of each. Runs nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from goalrunner.core.shell_words import (
    ASSIGNMENT,
    REDIRECTION,
    SYNTAX,
    Command,
    Document,
    Line,
    Lost,
    UnreadableError,
    Word,
    WordReader,
)

_LONGEST = 200_000
"""Characters of a line that is read."""
_CASE_ENDS = (";;", ";&", ";;&")


def parse(line: str) -> Line:
    """Return the commands of a line, in their order. A line that cannot be read has a problem and no commands."""
    if len(line) > _LONGEST:
        return Line(problem=f"it has more than {_LONGEST:,} characters")
    if "\0" in line:
        return Line(problem="it contains a null character")
    reader = _Reader(line)
    try:
        commands = reader.sequence()
    except UnreadableError as error:
        return Line(problem=str(error))
    return Line(tuple(commands), tuple(reader.nested), frozenset(reader.functions))


class _Reader(WordReader):
    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text, depth)
        self.functions: set[str] = set()
        self._compounds: dict[str, Callable[[], list[Command]]] = {
            **dict.fromkeys(("while", "until", "for", "select"), self._loop),
            "(": lambda: self._group("(", ")"),
            "{": lambda: self._group("{", "}"),
            "((": self._arithmetic,
            "[[": self._test,
            "if": self._if,
            "case": self._case,
            "function": self._function,
        }

    def sequence(self, *ends: str) -> list[Command]:
        """Return the commands of statements up to one of these tokens, or to the end of the text if there is none."""
        self._deeper()
        lines: list[tuple[list[Command], str, str]] = []
        while (token := self._next_line()) and token not in ends:
            commands, text = self._and_or()
            end = self._next()
            lines.append((commands, text, end))
            if end in (";", "&"):
                self._at += 1
            elif end not in ("", "\n", *ends):
                raise UnreadableError(SYNTAX)
        if not token and (ends or self._pending):
            raise UnreadableError(SYNTAX)
        self._deeper(-1)
        found = []
        for number, (commands, text, end) in enumerate(lines):
            last, lost = number == len(lines) - 1, None
            if end == "&":
                lost = Lost("&", f"{text} &")
            elif not last:
                lost = Lost(";", f"{text}; {lines[-1][1]}", lines[-1][1])
            found += [_within(one, lost=lost, last=last or one.optional) for one in commands]
        return found

    def _and_or(self) -> tuple[list[Command], str]:
        """Return the commands of pipelines with `&&` and `||` between them, and their text."""
        operators = [""]
        pipelines = [self._pipeline()]
        while (operator := self._next()) in ("&&", "||"):
            self._at += 2
            operators.append(operator)
            pipelines.append(self._pipeline())
        found: list[Command] = []
        for number, (operator, (commands, text)) in enumerate(zip(operators, pipelines, strict=True)):
            after = operators.index("||", number + 1) if "||" in operators[number + 1 :] else 0
            instead = pipelines[after][1]
            lost = Lost("||", f"{text} || {instead}", instead) if after else None
            final = number == len(pipelines) - 1
            around = (_within(one, lost=lost, last=final) for one in commands)
            found += [replace(one, fallback=one.fallback or operator == "||") for one in around]
        return found, " ".join(f"{how} {text}".strip() for how, (_, text) in zip(operators, pipelines, strict=True))

    def _pipeline(self) -> tuple[list[Command], str]:
        negated = False
        while self._next_line() == "!":
            self._at += 1
            negated = not negated
        parts = [self._part()]
        while (operator := self._next()) in ("|", "|&"):
            self._at += len(operator)
            parts.append(self._part())
        text = " | ".join(text for _, text in parts)
        found: list[Command] = []
        for at, (commands, _) in enumerate(parts):
            lost = Lost("|", text, parts[-1][1]) if at < len(parts) - 1 else None
            around = (_within(one, lost=lost) for one in commands)
            found += [replace(one, negated=one.negated != negated, piped=one.piped or at > 0) for one in around]
        return found, text

    def _part(self) -> tuple[list[Command], str]:
        """Return the commands of a simple or compound command with its redirections, and its text."""
        token, begin = self._next_line(), self._at
        compound = self._compounds.get("((" if self._follows("((") else token)
        commands = compound() if compound else self._simple()
        end, document = self._at, None
        while compound and self._next() and (found := REDIRECTION.match(self._text, self._at)):
            document = self._redirection(found[0]) or document
            end = self._at
        self._at = end
        return [replace(one, document=one.document or document) for one in commands], self._text[begin:end]

    def _group(self, begin: str, end: str) -> list[Command]:
        self._expect(begin)
        found = self.sequence(end)
        self._expect(end)
        return found

    def _condition(self, end: str) -> list[Command]:
        return [replace(one, detached=True, lost=None) for one in self._group(self._next(), end)]

    def _if(self) -> list[Command]:
        found: list[Command] = []
        while self._next() in ("if", "elif"):
            found += self._condition("then") + self.sequence("elif", "else", "fi")
        if self._next() == "else":
            found += self._group("else", "fi")
        else:
            self._expect("fi")
        return [replace(one, optional=True) for one in found]

    def _loop(self) -> list[Command]:
        """Return the commands of `while`, `until`, `for` and `select`."""
        found: list[Command] = []
        if (kind := self._next()) in ("while", "until"):
            found += self._condition("do")
        else:
            self._expect(kind)
            if self._next() and self._follows("(("):
                self._parentheses()
            while self._next_line() not in (";", "do"):
                self._word()
            self._at += self._next() == ";"
            self._expect("do")
        found += self.sequence("done")
        self._expect("done")
        return [replace(one, optional=True) for one in found]

    def _case(self) -> list[Command]:
        self._expect("case")
        self._next()
        self._word()
        self._expect("in")
        found: list[Command] = []
        while self._next_line() != "esac":
            self._at += self._next() == "("
            while self._next_line() != ")":
                self._at += self._next() == "|"
                self._next()
                self._word()
            self._expect(")")
            found += self.sequence(*_CASE_ENDS, "esac")
            if (end := self._next()) in _CASE_ENDS:
                self._expect(end)
        self._expect("esac")
        return [replace(one, optional=True) for one in found]

    def _function(self) -> list[Command]:
        self._expect("function")
        self._next()
        return self._body(self._word())

    def _body(self, name: str) -> list[Command]:
        """Return the commands of a function, from behind its name on."""
        self.functions.add(name)
        if self._next() == "(":
            self._expect("(")
            self._expect(")")
        return [replace(one, optional=True, detached=True) for one in self._part()[0]]

    def _arithmetic(self) -> list[Command]:
        self._parentheses()
        return [Command((Word("(("),))]

    def _test(self) -> list[Command]:
        words: list[Word] = []
        while "]]" not in words:
            self._next_line()
            if self._follows(*"|&;()<>") and not self._follows("<(", ">("):
                self._at += 1
            else:
                words.append(self._word())
        return [Command(tuple(words))]

    def _simple(self) -> list[Command]:
        words: list[Word] = []
        assignments: list[str] = []
        document: Document | None = None
        begin = end = self._at
        while self._next():
            start = self._at
            if found := REDIRECTION.match(self._text, start):
                document = self._redirection(found[0]) or document
            elif self._follows(*"|&;()\n"):
                break
            else:
                word = self._word(program=not words)
                if not words and ASSIGNMENT.match(self._text, start, self._at):
                    assignments.append(self._text[start : self._at])
                else:
                    words.append(word)
            end = self._at
            if len(words) == 1 and not assignments and self._next() == "(":
                return self._body(words[0])
        if end == begin:
            raise UnreadableError(SYNTAX)
        self._at = end
        command = Command(tuple(words), tuple(assignments), self._text[begin:end], document=document)
        return [command] if words or assignments else []


def _within(command: Command, *, lost: Lost | None, last: bool = True) -> Command:
    """Return the command with what its surroundings add to it; what is lost inside is lost."""
    kept = command.lost or (None if command.detached else lost)
    return replace(command, lost=kept, last=command.last and last)
