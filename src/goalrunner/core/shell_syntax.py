"""The simple commands of a shell line, as tree-sitter-bash reads it, and the effect of the exit code of each."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal, Self

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_EXPANSION = "\0"
_EXPANSIONS = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion"}
    | {"brace_expression", "translated_string", "ansi_c_string", "$"}
)
_LONGEST, _MOST_DOCUMENTS = 200_000, 200
"""The most characters and here-documents of a line."""
_DOCUMENT = re.compile(r"<<-?[ \t]*(['\"\\]?)(\w+)['\"]?([^\n]*)\n((?:.*\n)*?)[ \t]*\2(?=\n|$)")
_GIVEN = "\1"
"""Prefix of the file name that replaces a here-document."""
_RESERVED = frozenset({"{", "}", "!", "then", "else", "elif", "fi", "do", "done", "esac"})
"""Reserved words. tree-sitter reports them as programs in constructs that it does not know: `! { a; }`."""
_CLAUSES = frozenset({"elif_clause", "else_clause", "do_group"})
_CONDITIONAL = frozenset({"if_statement", "elif_clause", "while_statement"})
_LOOPS = _CONDITIONAL | _CLAUSES | {"for_statement", "c_style_for_statement"}
_NO_STATEMENTS = frozenset({"variable", "value", "initializer", "condition", "update"})
"""Fields of the heads of loops and of the items of `case`."""
_PATTERN = re.compile(r"[*?]|\[.+\]|\{.*,.*\}")


class Word(str):
    """A word. `shape` is the word with a null character in the place of each expansion."""

    shape: str
    __slots__ = ("shape",)

    def __new__(cls, text: str, shape: str | None = None) -> Self:
        """Return a word without expansions, unless `shape` says otherwise."""
        word = super().__new__(cls, text)
        word.shape = text if shape is None else shape
        return word

    @property
    def known(self) -> bool:
        """Whether the word has no expansion."""
        return _EXPANSION not in self.shape

    @property
    def head(self) -> str:
        """The known beginning of the word."""
        return self.shape.partition(_EXPANSION)[0]

    @property
    def program(self) -> str:
        """The file name at the end of the word; empty if an expansion decides it."""
        tail = self.shape.rpartition(_EXPANSION)[2]
        return tail.rpartition("/")[2] if self.known or "/" in tail else ""

    def replaced(self, placeholder: str, head: str = "") -> Word:
        """Return the word with an expansion in the place of a placeholder, such as `{}` of find."""
        return Word(self.replace(placeholder, "$@"), self.shape.replace(placeholder, head + _EXPANSION))

    def unknown(self) -> Word:
        """Return the word as an expansion with an unknown value."""
        return Word(self, _EXPANSION)


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
    """One simple command, without redirections. Its words are without quotes.

    `negated`: behind `!`, so its failure is what is wanted. `fallback`: behind `||`, so it only runs if something else
    failed. `optional`: within if, while, for, case or a function, so it may not run. `last`: nothing runs after it.
    """

    words: tuple[Word, ...] = ()
    assignments: tuple[str, ...] = ()
    lost: Lost | None = None
    negated: bool = False
    fallback: bool = False
    optional: bool = False
    last: bool = True

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
    if len(line) > _LONGEST or line.count("<<") > _MOST_DOCUMENTS or "\0" in line:
        raise UnreadableError("it is too long, or contains a null character")
    # tree-sitter misreads what follows the mark of a here-document, and a line that begins with a backslash.
    text = re.sub(r"(\n[ \t]*)\\(?=\w|\n)", r"\1", _DOCUMENT.sub(_redirection, line))
    source = text.encode(errors="replace")
    # Only ASCII is parsed: tree-sitter-bash reads beyond its tables for other characters, which can end the process.
    root = _parser().parse(source.translate(bytes(range(128)) + b"." * 128)).root_node
    if root.has_error:
        raise UnreadableError("its syntax cannot be parsed")
    reader, nodes = _Reader(source), [*_nodes_in(root)]
    files = [reader.source_of(node) for node in nodes if node.type == "file_redirect"]
    if text.count(_GIVEN) != sum(re.match(rf'\d*<"{_GIVEN}', file) is not None for file in files):
        raise UnreadableError("a `<<` in it does not start a here-document")
    try:
        commands = tuple(reader.sequence(root.children, around or Command()))
        inner = [node for node in nodes if node.type in ("command_substitution", "process_substitution")]
        nested = tuple(command for node in inner for command in reader.sequence(node.children, Command()))
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
def _parser() -> Parser:
    # Imported late: most commands of `goal` do not parse shell lines.
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _nodes_in(root: Node) -> Iterator[Node]:
    """Yield a node and all nodes within it, in the order of the text."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def _parts_of(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"]


@dataclass(frozen=True)
class _Reader:
    """Turns syntax nodes into commands. `around` is the context of all commands in a node."""

    source: bytes

    def source_of(self, begin: Node, end: Node | None = None) -> str:
        """Return the text from the beginning of a node to its end, or to the end of the node `end`."""
        return self.source[begin.start_byte : (end or begin).end_byte].decode(errors="replace")

    def text(self, node: Node) -> str:
        """Return the text of a node for people."""
        return re.sub(rf'<"{_GIVEN}[^"]*"', "</dev/null", self.source_of(node))

    def words(self, nodes: Sequence[Node]) -> list[Word]:
        """Return the words of these nodes. Nodes with nothing but escaped characters between them are one word."""
        groups: list[list[Node]] = []
        for node in nodes:
            between = self.source[groups[-1][-1].end_byte : node.start_byte] if groups else b" "
            if re.fullmatch(rb"(?:\\.)*", between, re.DOTALL):
                groups[-1].append(node)
            else:
                groups.append([node])
        return [*map(self._word, groups)]

    def _word(self, group: Sequence[Node]) -> Word:
        text = self.source_of(group[0], group[-1]).replace("\\\n", "")
        try:
            plain = " ".join(shlex.split(text))
        except ValueError:  # quotes in an expansion
            plain = text
        expansions = [node for part in group for node in _nodes_in(part) if node.type in _EXPANSIONS]
        if not expansions:
            return Word(plain)
        head = self.source[group[0].start_byte : expansions[0].start_byte].decode(errors="replace")
        tail = self.source[max(node.end_byte for node in expansions) : group[-1].end_byte].decode(errors="replace")
        return Word(plain, _EXPANSION.join(re.sub(r"['\"\\]", "", part) for part in (head, tail)))

    def sequence(self, nodes: Iterable[Node], around: Command) -> Iterator[Command]:
        """Yield the commands of statements that follow each other."""
        statements: list[tuple[Node, str]] = []
        for node in nodes:
            if node.type == "&" and statements:
                statements[-1] = (statements[-1][0], "&")
            elif node.is_named and node.type != "comment":
                statements.append((node, ";"))
        for node, end in statements:
            final, lost = statements[-1][0], None
            if end == "&":
                lost = Lost("&", f"{self.text(node)} &")
            elif node is not final:
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
                if body := node.child_by_field_name("body"):
                    yield from self._statement(body, replace(around, lost=None, optional=True, last=True))
            case "case_statement":
                for item in (child for child in node.named_children if child.type == "case_item"):
                    yield from self._branches(item, around)
            case kind if kind in _LOOPS:
                yield from self._branches(node, around)
            case _:
                yield self._simple(node, around)

    def _list(self, node: Node, around: Command) -> Iterator[Command]:
        left, right = _parts_of(node)[:2]
        is_or = any(child.type == "||" for child in node.children)
        lost = Lost("||", f"{self.text(left)} || {self.text(right)}", self.text(right)) if is_or else None
        yield from self._statement(left, around.within(lost, last=False))
        yield from self._statement(right, replace(around, fallback=around.fallback or is_or))

    def _pipeline(self, node: Node, around: Command) -> Iterator[Command]:
        parts = _parts_of(node)
        if parts[0].type == "negated_command":
            parts[0], around = _parts_of(parts[0])[-1], replace(around, negated=not around.negated)
        lost = Lost("|", self.text(node), self.text(parts[-1]))
        for part in parts:
            yield from self._statement(part, around.within(None if part is parts[-1] else lost, last=True))

    def _redirected(self, node: Node, around: Command) -> Iterator[Command]:
        body = node.child_by_field_name("body")
        redirections = [child for child in node.named_children if child != body]
        if body is not None and body.type == "command":
            yield self._simple(body, around, redirections)
        elif self._behind(redirections):
            raise UnreadableError("words follow a redirection of more than one command")
        elif body is not None:
            yield from self._statement(body, around)

    def _behind(self, redirections: Iterable[Node]) -> list[Word]:
        """Return the words that follow the targets of redirections: `make 2>&1 test`."""
        targets = [self.words(node.children_by_field_name("destination")) for node in redirections]
        return [word for words in targets for word in words[1:]]

    def _simple(self, node: Node, around: Command, redirections: Sequence[Node] = ()) -> Command:
        """Return the command of a node that is a single command, with the redirections that follow it."""
        match node.type:
            case "command":
                before = [child for child in node.children if child.type.endswith("_redirect")]
                words = [child for child in node.named_children if child not in before and child.type != "comment"]
                own = [child for child in words if child.type != "variable_assignment"]
                assigned = words[: words.index(own[0])] if own else words
                found = (*self.words(words[len(assigned) :]), *self._behind([*before, *redirections]))
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
                return replace(around, words=tuple(self.words(node.children)))
            case "test_command":
                return replace(around, words=(Word(node.children[0].type), *self.words(node.children[1:-1])))
            case kind:
                raise UnreadableError(f"it contains an unknown construct: {kind}")

    def _branches(self, node: Node, around: Command) -> Iterator[Command]:
        """Yield the commands of a compound command; an exit code of its condition is not lost."""
        inside = replace(around, optional=True, last=True)
        begin = 0
        if node.type in _CONDITIONAL:
            begin = next(at for at, child in enumerate(node.children) if child.type in ("then", "do_group"))
            yield from self.sequence(node.children[:begin], replace(inside, lost=None))
        clauses = [child for child in node.children if child.type in _CLAUSES]
        fields = {child: node.field_name_for_child(at) for at, child in enumerate(node.children) if at >= begin}
        statements = [child for child in fields if child not in clauses and fields[child] not in _NO_STATEMENTS]
        yield from self.sequence(statements, inside)
        for clause in clauses:
            yield from self._branches(clause, around)
