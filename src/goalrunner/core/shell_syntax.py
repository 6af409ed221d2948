"""The simple commands of a shell line, and the effect of the exit code of each. Runs nothing.

The syntax is read by tree-sitter-bash. A line with a syntax error or an unknown construct is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal

from goalrunner.core.shell_words import Word, nodes_in, text_of, words_of

if TYPE_CHECKING:
    from tree_sitter import Language, Node

_LONGEST = 200_000
"""Maximum length of a line, in characters."""
_MOST_DOCUMENTS = 200
_DOCUMENT = re.compile(r"<<-?[ \t]*(['\"\\]?)(\w+)['\"]?([^\n]*)\n((?:.*\n)*?)[ \t]*\2(?=\n|$)")
_GIVEN = "\1"
"""Prefix of the file name that replaces a here-document."""
_ASCII = bytes(range(128)) + b"." * 128
_TERMINATORS = frozenset({";", "&", "\n", ";;", ";&", ";;&"})
_RESERVED = frozenset({"{", "}", "!", "then", "else", "elif", "fi", "do", "done", "esac"})
"""Reserved words. tree-sitter reports them as programs in constructs that it does not know: `! { a; }`."""
_CLAUSES = frozenset({"elif_clause", "else_clause", "do_group"})
_CONDITIONAL = frozenset({"if_statement", "elif_clause", "while_statement"})
_LOOPS = _CONDITIONAL | _CLAUSES | {"for_statement", "c_style_for_statement"}
_NO_STATEMENTS = frozenset({"variable", "value", "initializer", "condition", "update"})
"""Fields of the heads of loops and of the items of `case`."""
_PATTERN = re.compile(r"[*?]|\[.+\]|\{.*,.*\}")


class UnreadableError(Exception):
    """A construct is unknown, or the commands that a program runs are unknown."""


@dataclass(frozen=True)
class Lost:
    """An ignored exit code: the operator that causes this (`|`, `||`, `;`, `&`), and the text of the command that counts."""

    how: Literal["|", "||", ";", "&"]
    whole: str
    instead: str = ""


@dataclass(frozen=True)
class Command:
    """One simple command. `words` are without quotes, assignments and redirections."""

    words: tuple[Word, ...] = ()
    assignments: tuple[str, ...] = ()
    lost: Lost | None = None
    negated: bool = False
    """Behind `!`: its failure is what is wanted."""
    fallback: bool = False
    """Behind `||`: it only runs when something else failed."""
    optional: bool = False
    """Within if, while, for, case or a function: it may not run."""
    last: bool = True
    """Nothing runs after it."""

    def within(self, lost: Lost | None, *, last: bool) -> Command:
        """Return the context of the commands in a part of a construct; `self` is the context of the construct."""
        return replace(self, lost=lost or self.lost, last=self.last and last)


@dataclass(frozen=True)
class Line:
    """The commands of a line, those in its substitutions (`nested`), and the names of the functions that it defines."""

    commands: tuple[Command, ...] = ()
    nested: tuple[Command, ...] = ()
    functions: frozenset[str] = frozenset()


def parse(line: str, around: Command | None = None) -> Line:
    """Return the commands of a line in their order. Raise UnreadableError if it cannot be read.

    `around` is the context of all commands: that of the command that runs the line as a script.
    """
    if len(line) > _LONGEST or line.count("<<") > _MOST_DOCUMENTS:
        raise UnreadableError("it is too long")
    if "\0" in line:
        raise UnreadableError("it contains a null character")
    # tree-sitter misreads what follows the mark of a here-document, and a line that begins with a backslash.
    text = re.sub(r"(\n[ \t]*)\\(?=\w|\n)", r"\1", _DOCUMENT.sub(_redirection, line))
    source = text.encode(errors="replace")
    # Only ASCII is parsed: tree-sitter-bash reads beyond its tables for other characters, which can end the process.
    # Imported late: most commands of `goal` do not parse shell lines.
    from tree_sitter import Parser

    root = Parser(_bash()).parse(source.translate(_ASCII)).root_node
    if root.has_error:
        raise UnreadableError("its syntax cannot be parsed")
    reader, nodes = _Reader(source), [*nodes_in(root)]
    files = [text_of(source, node) for node in nodes if node.type == "file_redirect"]
    if text.count(_GIVEN) != len([file for file in files if re.match(rf'\d*<"{_GIVEN}', file)]):
        raise UnreadableError("a `<<` in it does not start a here-document")
    try:
        commands = tuple(reader.sequence(root.children, around or Command()))
        nested = tuple(
            command
            for node in nodes
            if node.type in ("command_substitution", "process_substitution")
            for command in reader.sequence(node.children, Command())
        )
    except RecursionError:
        raise UnreadableError("it is nested too deeply") from None
    functions = (reader.text(node.named_children[0]) for node in nodes if node.type == "function_definition")
    return Line(commands, nested, frozenset(functions))


def _redirection(document: re.Match[str]) -> str:
    """Return the redirection that replaces a here-document, with its text if that is expanded, and the rest of the line."""
    quote, _, rest, body = document.groups()
    if rest.endswith("\\"):
        raise UnreadableError("a here-document in it begins behind a continued line")
    text = "" if quote else body.replace('"', "")
    return f'<"{_GIVEN}{text}"{rest}'


@cache
def _bash() -> Language:
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


def _parts_of(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"]


class _Reader:
    """Turns syntax nodes into commands. `around` is the context of all commands in a node."""

    def __init__(self, source: bytes) -> None:
        self._source = source

    def text(self, node: Node) -> str:
        return re.sub(rf'<"{_GIVEN}[^"]*"', "</dev/null", text_of(self._source, node))

    def sequence(self, nodes: Iterable[Node], around: Command) -> Iterator[Command]:
        """Yield the commands of statements that follow each other."""
        statements: list[tuple[Node, str]] = []
        for node in nodes:
            if node.type == "&" and statements:
                statements[-1] = (statements[-1][0], "&")
            elif node.type not in _TERMINATORS and node.is_named and node.type != "comment":
                statements.append((node, ";"))
        final = statements[-1][0] if statements else None
        for node, end in statements:
            lost = None
            if end == "&":
                lost = Lost("&", f"{self.text(node)} &")
            elif node is not final and final is not None:
                lost = Lost(";", f"{self.text(node)}; {self.text(final)}", self.text(final))
            yield from self._statement(node, around.within(lost, last=node is final))

    def _statement(self, node: Node, around: Command) -> Iterator[Command]:
        match node.type:
            case "list":
                yield from self._list(node, around)
            case "pipeline":
                yield from self._pipeline(node, around)
            case "negated_command":
                yield from self._statement(_parts_of(node)[-1], replace(around, negated=not around.negated))
            case "redirected_statement":
                yield from self._redirected(node, around)
            case "compound_statement" if node.children[0].type == "((":
                yield replace(around, words=(Word("(("),))
            case "compound_statement" | "subshell":
                yield from self.sequence(node.children, around)
            case "function_definition":
                body = node.child_by_field_name("body")
                inside = replace(around, lost=None, optional=True, last=True)
                yield from self._statement(body, inside) if body else ()
            case "case_statement":
                for item in (child for child in node.named_children if child.type == "case_item"):
                    yield from self._branches(item, around)
            case kind if kind in _LOOPS:
                yield from self._branches(node, around)
            case _:
                yield self._simple(node, around)

    def _list(self, node: Node, around: Command) -> Iterator[Command]:
        parts: list[tuple[str, Node]] = []
        while node.type == "list":
            left, right = _parts_of(node)[:2]
            parts.append((next(child.type for child in node.children if child.type in ("&&", "||")), right))
            node = left
        parts.append(("", node))
        later = ""
        contexts: list[tuple[Node, Command]] = []
        for operator, part in parts:
            lost = Lost("||", f"{self.text(part)} || {later}", later) if later else None
            inside = around.within(lost, last=not contexts)
            contexts.append((part, replace(inside, fallback=around.fallback or operator == "||")))
            later = self.text(part) if operator == "||" else later
        for part, inside in reversed(contexts):
            yield from self._statement(part, inside)

    def _pipeline(self, node: Node, around: Command) -> Iterator[Command]:
        first, *others = _parts_of(node)
        if first.type == "negated_command":
            first, around = _parts_of(first)[-1], replace(around, negated=not around.negated)
        last = others[-1] if others else first
        lost = Lost("|", self.text(node), self.text(last))
        for part in (first, *others):
            yield from self._statement(part, around.within(None if part is last else lost, last=True))

    def _redirected(self, node: Node, around: Command) -> Iterator[Command]:
        body = node.child_by_field_name("body")
        redirections = [child for child in node.named_children if child != body]
        if body is not None and body.type == "command":
            yield self._simple(body, around, redirections)
            return
        if self._behind(redirections):
            raise UnreadableError("words follow a redirection of more than one command")
        yield from self._statement(body, around) if body is not None else ()

    def _behind(self, redirections: Iterable[Node]) -> list[Word]:
        """Return the words that follow the targets of redirections: `make 2>&1 test`."""
        targets = [words_of(self._source, node.children_by_field_name("destination")) for node in redirections]
        return [word for words in targets for word in words[1:]]

    def _simple(self, node: Node, around: Command, redirections: Sequence[Node] = ()) -> Command:
        """Return the command of a node that is a single command, with the redirections that follow it."""
        match node.type:
            case "command":
                before = [child for child in node.children if child.type.endswith("_redirect")]
                words = [child for child in node.named_children if child not in before and child.type != "comment"]
                own = [child for child in words if child.type != "variable_assignment"]
                assigned = words[: words.index(own[0])] if own else words
                found = (*words_of(self._source, words[len(assigned) :]), *self._behind([*before, *redirections]))
                if found and found[0] in _RESERVED:
                    raise UnreadableError(f'"{found[0]}" is not a program')
                if found and _PATTERN.search(found[0]):
                    found = (found[0].unknown(), *found[1:])
                return replace(around, words=found, assignments=tuple(map(self.text, assigned)))
            case "variable_assignment":
                return replace(around, assignments=(self.text(node),))
            case "variable_assignments":
                return replace(around, assignments=tuple(map(self.text, node.named_children)))
            case "declaration_command" | "unset_command":
                return replace(around, words=tuple(words_of(self._source, node.children)))
            case "test_command":
                return replace(
                    around, words=(Word(node.children[0].type), *words_of(self._source, node.children[1:-1]))
                )
            case kind:
                raise UnreadableError(f"it contains an unknown construct: {kind}")

    def _branches(self, node: Node, around: Command) -> Iterator[Command]:
        """Yield the commands of a compound command; an exit code of its condition is not lost."""
        inside = replace(around, optional=True, last=True)
        begin = 0
        if node.type in _CONDITIONAL:
            begin = next(at for at, child in enumerate(node.children) if child.type in ("then", "do_group"))
            yield from self.sequence(node.children[:begin], replace(inside, lost=None))
        fields = [node.field_name_for_child(at) for at in range(begin, len(node.children))]
        rest = [
            child for child, field in zip(node.children[begin:], fields, strict=True) if field not in _NO_STATEMENTS
        ]
        yield from self.sequence((child for child in rest if child.type not in _CLAUSES), inside)
        for child in (child for child in node.children if child.type in _CLAUSES):
            yield from self._branches(child, around)
