"""Words and simple commands of a shell line, from their syntax nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Literal, Self

if TYPE_CHECKING:
    from tree_sitter import Node


_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\\n])')
_EXPANSIONS = frozenset(
    """
    simple_expansion expansion command_substitution process_substitution arithmetic_expansion brace_expression
    translated_string $
    """.split()  # noqa: SIM905 - a table, to be read
)
_ON_ONE_LINE = frozenset(
    """
    command command_name word concatenation variable_assignments declaration_command unset_command
    redirected_statement file_redirect herestring_redirect negated_command
    """.split()  # noqa: SIM905 - a table, to be read
)
_NO_NEWLINE = re.compile(rb"(?:\\.|[^\\\n])*\\?", re.DOTALL)
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_PIECES = tuple[str, bool]


class Word(str):
    """A word. `head` and `tail` are what is known of its beginning and end; both are the word if it has no expansion."""

    head: str
    tail: str
    __slots__ = ("head", "tail")

    def __new__(cls, text: str, head: str | None = None, tail: str | None = None) -> Self:
        """Return a word that is known as a whole, unless `head` and `tail` say otherwise."""
        word = super().__new__(cls, text)
        word.head = text if head is None else head
        word.tail = text if tail is None else tail
        return word

    @property
    def known(self) -> bool:
        """Whether the word has no expansion."""
        return self.head == str(self)

    @property
    def program(self) -> str:
        """The file name at the end of the word; empty if an expansion decides it."""
        return self.tail.rpartition("/")[2] if self.known or "/" in self.tail else ""

    def replaced(self, placeholder: str) -> Word:
        """Return the word with an expansion in the place of a placeholder, such as `{}` of find."""
        if not placeholder or placeholder not in self:
            return self
        head = self.head.partition(placeholder)[0]
        tail = self.tail.rpartition(placeholder)[2]
        return Word(self.replace(placeholder, "$@"), head, tail)


def word_of(nodes: Sequence[Node], source: bytes) -> Word:
    """Return the word that adjacent nodes make."""
    pieces = list(_between(nodes, source, nodes[0].start_byte, nodes[-1].end_byte))
    text = "".join(piece for piece, _ in pieces)
    head = "".join(piece for piece, _ in takewhile(lambda one: one[1], pieces))
    tail = [piece for piece, _ in takewhile(lambda one: one[1], reversed(pieces))]
    return Word(text, head, "".join(reversed(tail)))


def _between(nodes: Sequence[Node], source: bytes, begin: int, end: int, *, quoted: bool = False) -> Iterator[_PIECES]:
    """Yield the pieces from `begin` to `end`: those of the nodes, and the text between them."""
    for node in nodes:
        yield _plain(_text(source, begin, node.start_byte), quoted=quoted), True
        yield from _pieces(node, source, quoted=quoted)
        begin = node.end_byte
    yield _plain(_text(source, begin, end), quoted=quoted), True


def _pieces(node: Node, source: bytes, *, quoted: bool) -> Iterator[_PIECES]:
    text = text_of(source, node)
    if node.type in _EXPANSIONS:
        yield text, False
    elif node.type == "raw_string":
        yield text[1:-1], True
    elif node.type == "ansi_c_string":
        yield text[2:-1], "\\" not in text
    elif node.type == "string":
        inner = [child for child in node.children if child.type != '"']
        yield from _between(inner, source, node.start_byte + 1, node.end_byte - 1, quoted=True)
    elif node.type in ("concatenation", "command_name"):
        yield from _between(node.children, source, node.start_byte, node.end_byte)
    else:
        yield _plain(text, quoted=quoted), True


def _plain(text: str, *, quoted: bool) -> str:
    """Return a text without its backslashes."""
    found = _ESCAPED_IN_QUOTES if quoted else _ESCAPED
    return found.sub(lambda match: match[1].replace("\n", ""), text)


def text_of(source: bytes, node: Node) -> str:
    return _text(source, node.start_byte, node.end_byte)


def _text(source: bytes, begin: int, end: int) -> str:
    return source[begin:end].decode(errors="replace")


@dataclass(frozen=True)
class Lost:
    """An ignored exit code: the operator that causes this (`|`, `||`, `;`, `&`), and the text of the command that counts."""

    how: Literal["|", "||", ";", "&"]
    whole: str
    instead: str = ""


@dataclass(frozen=True)
class Command:
    """One simple command. `words` are without quotes, assignments and redirections."""

    words: tuple[Word, ...]
    assignments: tuple[str, ...] = ()
    text: str = ""
    lost: Lost | None = None
    negated: bool = False
    """Behind `!`: its failure is what is wanted."""
    fallback: bool = False
    """Behind `||`: it only runs when something else failed."""
    optional: bool = False
    """Within if, while, for, case or a function: it may not run."""
    detached: bool = False
    """Whether its exit code is used elsewhere: it is a condition, or in the body of a function."""
    last: bool = True
    """Nothing runs after it."""
    piped: bool = False
    """Whether it reads the output of another command."""
    stdin: str | None = None
    """The here-document or here-string that it reads."""


@dataclass(frozen=True)
class Line:
    """What a line holds. `nested` are the commands in its substitutions; `problem` says why it could not be read."""

    commands: tuple[Command, ...] = ()
    nested: tuple[Command, ...] = ()
    functions: frozenset[str] = frozenset()
    """Names of the functions that the line defines."""
    problem: str = ""


_RESERVED = frozenset({"{", "}", "!", "then", "else", "elif", "fi", "do", "done", "esac"})
"""Words that are no programs. tree-sitter takes them for one where it does not know a construct: `! { a; }`."""


class UnreadableError(Exception):
    """A construct is not known, or it is not known what a program runs."""


def simple_command(source: bytes, node: Node, text: str) -> Command:
    """Return the command of a node that is one. Raise UnreadableError if it begins with a reserved word."""
    assignments: list[str] = []
    words: list[Node] = []
    stdin: str | None = None
    for child in node.children:
        if child.type == "variable_assignment" and not words:
            assignments.append(text_of(source, child))
        elif child.type.endswith("_redirect"):
            behind, given = redirection(source, child)
            if behind:
                raise UnreadableError("words of a command stand behind a redirection in front of it")
            stdin = given if given is not None else stdin
        elif child.type != "comment":
            words.append(child)
    found = words_of(source, words, first=0)
    if found and found[0] in _RESERVED:
        raise UnreadableError(f'"{found[0]}" is not a program')
    return Command(tuple(found), tuple(assignments), text, stdin=stdin)


def redirection(source: bytes, node: Node) -> tuple[list[Word], str | None]:
    """Return the words behind the target of a redirection, and the text that it gives to its command, if that is known.

    The words are further ones of the command: `make 2>&1 test`. Raise UnreadableError if more is behind a here-document.
    """
    if node.type == "herestring_redirect":
        return [], str(word_of(node.named_children[-1:], source))
    if node.type == "heredoc_redirect":
        if any(child.type not in ("heredoc_start", "heredoc_body", "heredoc_end") for child in node.named_children):
            raise UnreadableError("a here-document in it is followed by more")
        body = "".join(text_of(source, child) for child in node.children if child.type == "heredoc_body")
        tabs = any(child.type == "<<-" for child in node.children)
        return [], re.sub(r"^\t+", "", body, flags=re.MULTILINE) if tabs else body
    return words_of(source, node.children_by_field_name("destination"))[1:], None


def words_of(source: bytes, nodes: Sequence[Node], first: int = -1) -> list[Word]:
    """Return the words that nodes make; the one with number `first` is a program."""
    groups: list[list[Node]] = []
    for node in nodes:
        if groups and re.fullmatch(rb"(?:\\.)*", source[groups[-1][-1].end_byte : node.start_byte], re.DOTALL):
            groups[-1].append(node)  # nothing but escaped characters is between them
        else:
            groups.append([node])
    words = [word_of(group, source) for group in groups]
    if 0 <= first < len(words):
        # A pattern (`gi?`, `{git,hg}`) is an expansion in the name of a program.
        text = _text(source, groups[first][0].start_byte, groups[first][-1].end_byte)
        plain = re.sub(r"'[^']*'|\"[^\"]*\"|\\.", "", text, flags=re.DOTALL)
        if re.search(r"[*?]|\[.+\]|\{.*,.*\}", plain):
            words[first] = Word(words[first], "", "")
    return words


def goes_on(source: bytes, node: Node) -> bool:
    """Return whether a newline without a backslash is in a node that cannot hold one.

    tree-sitter takes the second line of `a`, `\\b` for more words of the first.
    """
    if node.type not in _ON_ONE_LINE:
        return False
    begins = [node.start_byte, *(child.end_byte for child in node.children)]
    ends = [*(child.start_byte for child in node.children), node.end_byte]
    return not all(_NO_NEWLINE.fullmatch(source, *part) for part in zip(begins, ends, strict=True))


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
