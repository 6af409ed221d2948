"""Simple commands and redirections, from their syntax nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from goalrunner.shell.words import Command, Word, adjacent, program_word, word_of

if TYPE_CHECKING:
    from tree_sitter import Node

_RESERVED = frozenset({"{", "}", "!", "then", "else", "elif", "fi", "do", "done", "esac"})
"""Words that are no programs. tree-sitter takes them for one where it does not know a construct: `! { a; }`."""


class UnreadableError(Exception):
    """A construct is not known."""


def simple_command(source: bytes, node: Node, text: str) -> Command:
    """Return the command of a node that is one. Raise UnreadableError if it begins with a reserved word."""
    assignments: list[str] = []
    words: list[Node] = []
    extra: tuple[Word, ...] = ()
    stdin: str | None = None
    for child in node.children:
        if child.type == "variable_assignment" and not words:
            assignments.append(text_of(source, child))
        elif child.type.endswith("_redirect"):
            more, given = redirection(source, child)
            extra, stdin = (*extra, *more), given if given is not None else stdin
        else:
            words.append(child)
    found = words_of(source, words, first=0)
    # What stands behind the target of a redirection in front of the program: `>log curl x`.
    found = [*extra, *found] if extra and words and words[0].start_byte > node.start_byte else [*found, *extra]
    if found and found[0] in _RESERVED:
        raise UnreadableError(f'"{found[0]}" stands where a program is expected')
    return Command(tuple(found), tuple(assignments), text, stdin=stdin)


def redirection(source: bytes, node: Node) -> tuple[tuple[Word, ...], str | None]:
    """Return the words of the command that are behind a redirection, and the text that it gives to the command."""
    if node.type == "heredoc_redirect":
        inside = [redirection(source, child)[0] for child in node.children if child.type == "file_redirect"]
        extra = [word for words in inside for word in words]
        extra += words_of(source, list(node.children_by_field_name("argument")))
        body = "".join(text_of(source, child) for child in node.children if child.type == "heredoc_body")
        tabs = any(child.type == "<<-" for child in node.children)
        return tuple(extra), re.sub(r"^\t+", "", body, flags=re.MULTILINE) if tabs else body
    if node.type == "herestring_redirect":
        return (), str(word_of(node.named_children[-1:], source))
    return tuple(words_of(source, node.children_by_field_name("destination"))[1:]), None


def words_of(source: bytes, nodes: Sequence[Node], first: int = -1) -> list[Word]:
    """Return the words that nodes make; the one with number `first` is a program."""
    groups: list[list[Node]] = []
    for node in nodes:
        if groups and adjacent(groups[-1][-1], node, source):
            groups[-1].append(node)
        else:
            groups.append([node])
    return [(program_word if at == first else word_of)(group, source) for at, group in enumerate(groups)]


def is_literal(source: bytes, redirect: Node) -> bool:
    """Return whether nothing is expanded in a here-document: its mark is quoted."""
    marks = [text_of(source, child) for child in redirect.children if child.type == "heredoc_start"]
    return any(set("'\"\\") & set(mark) for mark in marks)


def nodes_in(root: Node) -> Iterator[Node]:
    """Yield a node and all named nodes within it."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.named_children))


def text_of(source: bytes, node: Node) -> str:
    """Return the text of a node."""
    return source[node.start_byte : node.end_byte].decode(errors="replace")
