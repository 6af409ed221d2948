"""Words of a shell line, with the known parts of words that contain expansions; options of a command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from tree_sitter import Node

_EXPANSION = "\0"
_EXPANSIONS = frozenset(
    """
    simple_expansion expansion command_substitution process_substitution arithmetic_expansion brace_expression
    translated_string ansi_c_string $
    """.split()  # noqa: SIM905 - a table, to be read
)
_QUOTES = re.compile(r"['\"\\]")


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


def text_of(source: bytes, begin: Node, end: Node | None = None) -> str:
    """Return the text from the beginning of a node to its end, or to the end of the node `end`."""
    return source[begin.start_byte : (end or begin).end_byte].decode(errors="replace")


def nodes_in(root: Node) -> Iterator[Node]:
    """Yield a node and all nodes within it, in the order of the text."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def words_of(source: bytes, nodes: Sequence[Node]) -> list[Word]:
    """Return the words of these nodes. Nodes with nothing but escaped characters between them are one word."""
    groups: list[list[Node]] = []
    for node in nodes:
        between = source[groups[-1][-1].end_byte : node.start_byte] if groups else b" "
        if re.fullmatch(rb"(?:\\.)*", between, re.DOTALL):
            groups[-1].append(node)
        else:
            groups.append([node])
    return [_word(source, group) for group in groups]


def _word(source: bytes, group: Sequence[Node]) -> Word:
    text = text_of(source, group[0], group[-1]).replace("\\\n", "")
    try:
        plain = " ".join(shlex.split(text))
    except ValueError:  # quotes in an expansion
        plain = text
    expansions = [node for part in group for node in nodes_in(part) if node.type in _EXPANSIONS]
    if not expansions:
        return Word(plain)
    head = source[group[0].start_byte : expansions[0].start_byte].decode(errors="replace")
    tail = source[max(node.end_byte for node in expansions) : group[-1].end_byte].decode(errors="replace")
    return Word(plain, _EXPANSION.join(_QUOTES.sub("", part) for part in (head, tail)))


def options(words: Sequence[Word], valued: frozenset[str], last: tuple[str, ...] = ()) -> tuple[int, dict[str, Word]]:
    """Return where the operands of a command begin, and its options with their values. An option in `last` ends them.

    `-ubob`, `-u bob`, `--user=bob`, `--user bob`, and `-nu bob` are understood.
    """
    at = 1
    found: dict[str, Word] = {}
    while at < len(words) and words[at].startswith("-") and words[at] != "-" and found.keys().isdisjoint(last):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else Word("")
        name, equals, value = word.partition("=")
        at += 1
        if word == "--":
            break
        if name.startswith("--") or name in valued:
            found[name] = following if name in valued and not equals else Word(value)
            at += name in valued and not equals
            continue
        for position, letter in enumerate(word[1:], 2):
            attached = Word(word[position:])
            found[f"-{letter}"] = attached or following
            if f"-{letter}" in valued:
                at += not attached
                break
    return min(at, len(words)), found
