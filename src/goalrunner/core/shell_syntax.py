"""The simple commands of a shell line, and the effect of the exit code of each. Runs nothing.

The syntax is read by tree-sitter-bash. A line with a syntax error holds no commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from goalrunner.core.shell_words import (
    Command,
    Line,
    Lost,
    UnreadableError,
    Word,
    goes_on,
    is_literal,
    nodes_in,
    redirection,
    simple_command,
    text_of,
    words_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_DEEPEST = 50
_LONGEST = 200_000
"""Characters of a line that is read."""
_MOST_DOCUMENTS = 200
_ASCII = bytes(range(128)) + b"." * 128
_TERMINATORS = frozenset({";", "&", "\n", ";;", ";&", ";;&"})
_SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
_LOOPS = frozenset(
    """
    while_statement for_statement c_style_for_statement do_group elif_clause else_clause if_statement
    """.split()  # noqa: SIM905 - a table, to be read
)
_NO_STATEMENTS = ("variable", "value", "initializer", "condition", "update")
"""Fields of the heads of loops."""
_BACKQUOTED = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)


_DOCUMENT = re.compile(r"<<-?[ \t]*(['\"\\]?)(\w+)['\"]?([^\n]*)\n((?:.*\n)*?)\t*\2(?=\n|$)")


def parse(line: str) -> Line:
    """Return the commands of a line, in their order.

    tree-sitter misreads some here-documents. A line without them is then read, and each of their lines as if it were one.
    """
    found = _parsed(line)
    if not found.problem or "<<" not in line or line.count("<<") > _MOST_DOCUMENTS:
        return found
    without = _parsed(_DOCUMENT.sub(r"</dev/null\3", line))
    if without.problem or "\\\n" in line:
        return found
    rows = (row for document in _DOCUMENT.finditer(line) for row in document[4].splitlines())
    inner = [command for row in rows for command in _perhaps_run(row)]
    return replace(without, nested=(*without.nested, *inner))


def _perhaps_run(row: str) -> tuple[Command, ...]:
    """Return the commands of a line that may also be text; if it cannot be parsed, all parts that may be commands."""
    read = _parsed(row)
    parts = re.split(r"[;&|(){}`]+|\b(?:then|do|else|if|while)\b", row) if read.problem else ()
    return (*read.commands, *read.nested, *(Command(tuple(map(Word, part.split()))) for part in parts if part.split()))


def _parsed(line: str) -> Line:
    if len(line) > _LONGEST:
        return Line(problem=f"it has more than {_LONGEST:,} characters")
    if "\0" in line:
        return Line(problem="it contains a null character")
    source = line.encode(errors="replace")
    # Only ASCII is parsed: tree-sitter-bash reads beyond its tables for other characters, which can end the process.
    root = _parser()(source.translate(_ASCII))
    if root.has_error:
        return Line(problem="its syntax cannot be parsed")
    reader, nodes = _Reader(source), [*nodes_in(root)]
    if any(goes_on(source, node) for node in nodes):
        return Line(problem="a command in it seems to go on in the next line")
    try:
        commands = tuple(reader.sequence(root.children, 0))
        nested = tuple(command for node in nodes for command in reader.substituted(node))
    except UnreadableError as error:
        return Line(problem=str(error))
    functions = (text_of(source, node.named_children[0]) for node in nodes if node.type == "function_definition")
    return Line(commands, nested, frozenset(functions))


@cache
def _parser() -> Callable[[bytes], Any]:
    # Imported late: most commands of the command line read no shell line.
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    language = Language(tree_sitter_bash.language())
    return lambda source: Parser(language).parse(source).root_node


@dataclass
class _Pipeline:
    parts: list[tuple[list[Command], str]]
    """Of each part the commands, and its text."""
    negated: bool = False

    @property
    def text(self) -> str:
        return " | ".join(text for _, text in self.parts)


_AndOr = list[tuple[str, _Pipeline]]


class _Reader:
    """Turns syntax nodes into commands."""

    def __init__(self, source: bytes) -> None:
        self._source = source

    def sequence(self, nodes: Iterable[Node], depth: int) -> Iterator[Command]:
        """Yield the commands of statements that follow each other."""
        lines: list[tuple[list[Command], str, str]] = []
        for node in nodes:
            if node.type in _TERMINATORS:
                if node.type == "&" and lines:
                    lines[-1] = (*lines[-1][:2], "&")
            elif node.is_named and node.type != "comment":
                lines.append((*self._statement(node, depth + 1), ";"))
        for number, (commands, text, end) in enumerate(lines):
            last = number == len(lines) - 1
            lost: Lost | None = None
            if end == "&":
                lost = Lost("&", f"{text} &")
            elif not last:
                lost = Lost(";", f"{text}; {lines[-1][1]}", lines[-1][1])
            for command in commands:
                yield _within(command, lost=lost, last=last or command.optional)

    def substituted(self, node: Node) -> Iterator[Command]:
        """Yield the commands of a substitution, or of the backquotes in a here-document."""
        if node.type in _SUBSTITUTIONS:
            yield from self.sequence(node.children, 0)
        elif node.type == "heredoc_redirect" and not is_literal(self._source, node):
            for body in (child for child in node.children if child.type == "heredoc_body"):
                for found in _BACKQUOTED.findall(text_of(self._source, body)):
                    inner = parse(found)
                    if inner.problem:
                        raise UnreadableError(inner.problem)
                    yield from (*inner.commands, *inner.nested)

    def _statement(self, node: Node, depth: int) -> tuple[list[Command], str]:
        if depth > _DEEPEST:
            raise UnreadableError("it is nested too deeply")
        pipelines = self._and_or(node, depth)
        text = " ".join(f"{operator} {pipeline.text}".strip() for operator, pipeline in pipelines)
        found: list[Command] = []
        for number, (operator, pipeline) in enumerate(pipelines):
            after = [later for how, later in pipelines[number + 1 :] if how == "||"]
            lost = Lost("||", f"{pipeline.text} || {after[0].text}", after[0].text) if after else None
            final, count = number == len(pipelines) - 1, len(pipeline.parts)
            for at, (part, _) in enumerate(pipeline.parts):
                taken = Lost("|", pipeline.text, pipeline.parts[-1][1]) if at < count - 1 else None
                found += [
                    replace(
                        _within(_within(one, lost=taken, last=final), lost=lost, last=final),
                        negated=one.negated != pipeline.negated,
                        fallback=one.fallback or operator == "||",
                        piped=one.piped or at > 0,
                    )
                    for one in part
                ]
        return found, text

    def _and_or(self, node: Node, depth: int) -> _AndOr:
        """Return the pipelines of a list, each with the operator before it."""
        if depth > _DEEPEST:
            raise UnreadableError("it is nested too deeply")
        match node.type:
            case "list":
                left, right = (self._and_or(child, depth + 1) for child in node.named_children[:2])
                operator = next(child.type for child in node.children if child.type in ("&&", "||"))
                return [*left, (operator, right[0][1]), *right[1:]]
            case "redirected_statement":
                return self._redirected(node, depth)
            case "negated_command":
                inner = self._and_or(node.named_children[-1], depth + 1)
                inner[0][1].negated = not inner[0][1].negated
                return inner
            case "pipeline":
                first, *others = node.named_children
                negated = first.type == "negated_command"
                parts = [first.named_children[-1] if negated else first, *others]
                return [("", _Pipeline([self._statement(part, depth + 1) for part in parts], negated))]
            case _:
                return [("", _Pipeline([(self._single(node, depth), text_of(self._source, node))]))]

    def _redirected(self, node: Node, depth: int) -> _AndOr:
        body = node.child_by_field_name("body")
        found = self._and_or(body, depth + 1) if body else [("", _Pipeline([([], "")]))]
        given = [redirection(self._source, redirect) for redirect in node.children_by_field_name("redirect")]
        more = [word for words, _ in given for word in words]
        stdin = next((text for _, text in given if text is not None), None)
        behind = text_of(self._source, node)[len(text_of(self._source, body)) if body else 0 :]
        commands, text = found[-1][1].parts[-1]
        if more and len(commands) != 1:
            raise UnreadableError("words stand behind a redirection of more than one command")
        commands = [
            replace(one, words=(*one.words, *more), stdin=stdin if one.stdin is None else one.stdin) for one in commands
        ]
        found[-1][1].parts[-1] = commands, text + ("" if "<<" in behind else behind)
        return found

    def _single(self, node: Node, depth: int) -> list[Command]:
        """Return the commands of a node that is no list and no pipeline."""
        text = text_of(self._source, node)
        match node.type:
            case "command":
                return [simple_command(self._source, node, text)]
            case "variable_assignment":
                return [Command((), (text,), text)]
            case "variable_assignments":
                return [Command((), tuple(text_of(self._source, child) for child in node.named_children), text)]
            case "declaration_command" | "unset_command":
                return [Command(tuple(words_of(self._source, node.children)), text=text)]
            case "test_command":
                inner = words_of(self._source, node.children[1:-1])
                return [Command((Word(node.children[0].type), *inner), text=text)]
            case "compound_statement" if node.children[0].type == "((":
                return [Command((Word("(("),), text=text)]
            case "compound_statement" | "subshell":
                return list(self.sequence(node.children, depth))
            case "function_definition":
                body = node.child_by_field_name("body")
                inside = self._statement(body, depth + 1)[0] if body else []
                return [replace(command, optional=True, detached=True) for command in inside]
            case "case_statement":
                items = [child for child in node.named_children if child.type == "case_item"]
                return [command for item in items for command in self._branches(item, ("value",), depth)]
            case kind if kind in _LOOPS:
                return self._branches(node, _NO_STATEMENTS, depth)
            case _:
                raise UnreadableError(f"it contains an unknown construct: {node.type}")

    def _branches(self, node: Node, fields: Sequence[str], depth: int) -> list[Command]:
        """Return the commands of a compound command. `fields` are those of its parts that are no statements."""
        statements: list[Node] = []
        conditions: list[Node] = []
        inner: list[Command] = []
        conditional = node.type in ("if_statement", "elif_clause", "while_statement")
        for at, child in enumerate(node.children):
            if child.type in ("then", "do_group"):
                conditional = False
            if child.type in ("elif_clause", "else_clause", "do_group"):
                inner += self._branches(child, (), depth + 1)
            elif conditional:
                conditions.append(child)
            elif node.field_name_for_child(at) not in fields:
                statements.append(child)
        tests = [replace(one, detached=True, lost=None) for one in self.sequence(conditions, depth)]
        return [replace(one, optional=True) for one in (*tests, *self.sequence(statements, depth), *inner)]


def _within(command: Command, *, lost: Lost | None, last: bool) -> Command:
    """Return the command with what the surrounding construct adds; an exit code that is lost inside stays lost."""
    kept = command.lost or (None if command.detached else lost)
    return replace(command, lost=kept, last=command.last and last)
