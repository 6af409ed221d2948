"""The files and commands that the text of a goal asks to change by their names.

Examples: "Fix deploy.sh", "Add a make target lint".
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_LONGEST = 1_000
"""Maximum number of characters that are read of a sentence."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+|;\s+")
_NEGATED = re.compile(
    r"\b(?:not|never|no(?! longer)|without|except|cannot|instead of|rather than|leave"
    r"|keep|preserve|untouched|unchanged|as (?:it|they) (?:is|are)|alone|unmodified"
    r"|avoid)\b|n[\u2019']t\b",
    re.IGNORECASE,
)
_CHANGE = (
    r"add|adapt|adjust|change|clean up|complete|correct|create|document|edit|extend"
    r"|extract|fill in|finish|fix|generate|implement|improve|introduce|modify|move|port"
    r"|provide|refactor|regenerate|remove|delete|rename|repair|replace|rewrite|set up"
    r"|simplify|split|update|upgrade|write"
)
_PATH = r"[\w@.~/-]*[\w~/-]"
_OBJECT = re.compile(
    rf"\b(?:{_CHANGE})\s+"
    r"(?:(?:an?|the|our|its|new|missing|file|script|module)\s+)*"
    rf"[`'\"]?({_PATH})",
    re.IGNORECASE,
)
"""A verb of change with what it changes: "Fix the script deploy.sh"."""
_PLACE = re.compile(
    r"\b(?:add|append|declare|describe|document|explain|list|mention|note|put|record"
    r"|register|save|state|store|write)\b.*?"
    r"\b(?:at|in|into|to|under)\s+(?:(?:an?|the|our|new|file|script)\s+)*"
    rf"[`'\"]?({_PATH})",
    re.IGNORECASE,
)
"""A verb of writing with the place of what it writes.

Example: "Document the options in README.md".
"""
_COMMAND = re.compile(
    r"\b(?:make|npm|yarn|pnpm|bun)(?:\s+run)?(?:\s+(?:target|script|command))?\s+"
    r"[`'\"]?([\w:.-]*\w)"
    r"|\b(?:target|script)\s+(?:named\s+|called\s+)?[`'\"]?([\w:.-]*\w)"
    r"|[`'\"]([\w:.-]+)[`'\"]\s+(?:(?:make|npm|yarn|pnpm)\s+)?(?:target|script)\b",
    re.IGNORECASE,
)
"""A target of make or a script of package.json: "a make target lint"."""


@dataclass(frozen=True)
class NamedByGoal:
    """The names that objective and criteria ask to change.

    Names in a constraint or a negated sentence do not count.
    """

    paths: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    _unchanged: str = field(
        default="",
        repr=False,
    )
    """The text of constraints and negated sentences."""

    def names(self, path: str) -> bool:
        """Return whether a path, or the name of its file, is asked to be changed."""
        name = posixpath.basename(path)
        # A goal writes a path in one of these ways.
        is_named = not self.paths.isdisjoint((path, name, f"./{path}"))
        return is_named and not self._is_in_unchanged(name)

    def names_command(self, name: str) -> bool:
        """Return whether a target of make or a script of package.json is among them."""
        return name in self.commands and not self._is_in_unchanged(name)

    def _is_in_unchanged(self, name: str) -> bool:
        pattern = rf"(?<![\w.-]){re.escape(name)}(?![\w-])"
        return re.search(pattern, self._unchanged) is not None


def named_by_goal(texts: Iterable[str], constraints: Iterable[str] = ()) -> NamedByGoal:
    """Return what the texts of objective and criteria ask to change by its name."""
    paths: set[str] = set()
    commands: set[str] = set()
    unchanged = [*constraints]
    for sentence in _sentences(texts):
        # "Do not change a.py" must not allow a change of a.py.
        if _NEGATED.search(sentence):
            unchanged.append(sentence)
            continue
        for match in (*_OBJECT.finditer(sentence), *_PLACE.finditer(sentence)):
            paths.add(match[1])
            # "Fix a.py, b.py and c.py" changes all of them.
            paths.update(_listed(sentence, match.end()))
        for match in _COMMAND.finditer(sentence):
            commands.update(filter(None, match.groups()))
    return NamedByGoal(frozenset(paths), frozenset(commands), "\n".join(unchanged))


def _sentences(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        for sentence in _SENTENCE.split(text):
            # The patterns take long for a line of minified code.
            yield sentence[:_LONGEST]


_MORE = re.compile(rf"[`'\"]?(?:,\s*(?:and\s+)?|\s+and\s+)[`'\"]?({_PATH})")


def _listed(sentence: str, place: int) -> Iterator[str]:
    """Yield the words that a list names after its first one, which ends at a place."""
    while match := _MORE.match(sentence, place):
        yield match[1]
        place = match.end()
