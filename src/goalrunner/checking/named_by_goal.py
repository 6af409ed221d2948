"""The files and commands that the text of a goal asks to change, literally: "Fix deploy.sh", "Add a make target lint"."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_LONGEST = 1_000
"""Maximum number of characters that are read of a sentence."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+|;\s+")
_NEGATED = re.compile(
    r"\b(?:not|never|no(?! longer)|without|except|cannot|instead of|rather than|leave|keep|preserve|untouched|unchanged"
    r"|as (?:it|they) (?:is|are)|alone|unmodified|avoid)\b|n[\u2019']t\b",
    re.IGNORECASE,
)
_CHANGE = (
    r"add|adapt|adjust|change|clean up|complete|correct|create|document|edit|extend|extract|fill in|finish|fix|generate"
    r"|implement|improve|introduce|modify|move|port|provide|refactor|regenerate|remove|delete|rename|repair|replace|rewrite"
    r"|set up|simplify|split|update|upgrade|write"
)
_PATH = r"[\w@.~/-]*[\w~/-]"
_OBJECT = re.compile(
    rf"\b(?:{_CHANGE})\s+(?:(?:an?|the|our|its|new|missing|file|script|module)\s+)*[`'\"]?({_PATH})",
    re.IGNORECASE,
)
"""A verb of change with what it changes: "Fix the script deploy.sh"."""
_PLACE = re.compile(
    rf"\b(?:add|append|declare|describe|document|explain|list|mention|note|put|record|register|save|state|store|write)\b.*?"
    rf"\b(?:at|in|into|to|under)\s+(?:(?:an?|the|our|new|file|script)\s+)*[`'\"]?({_PATH})",
    re.IGNORECASE,
)
"""A verb of writing with the place of what it writes: "Document the options in README.md"."""
_COMMAND = re.compile(
    r"\b(?:make|npm|yarn|pnpm|bun)(?:\s+run)?(?:\s+(?:target|script|command))?\s+[`'\"]?([\w:.-]*\w)"
    r"|\b(?:target|script)\s+(?:named\s+|called\s+)?[`'\"]?([\w:.-]*\w)"
    r"|[`'\"]([\w:.-]+)[`'\"]\s+(?:(?:make|npm|yarn|pnpm)\s+)?(?:target|script)\b",
    re.IGNORECASE,
)
"""A target of make or a script of package.json: "a make target lint", "`npm run build`"."""


@dataclass(frozen=True)
class NamedByGoal:
    """What objective and criteria ask to change by its name, and no constraint or negated sentence names."""

    paths: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    _kept: str = field(default="", repr=False)

    def names(self, path: str) -> bool:
        """Return whether a path, or the name of its file, is among them, and stands in no text that keeps it."""
        name = posixpath.basename(path)
        is_named = path in self.paths or name in self.paths or f"./{path}" in self.paths
        return is_named and not re.search(
            rf"(?<![\w.-]){re.escape(name)}(?![\w-])", self._kept
        )

    def names_command(self, name: str) -> bool:
        """Return whether a target of make or a script of package.json is among them."""
        return name in self.commands and not re.search(
            rf"(?<![\w.-]){re.escape(name)}(?![\w-])", self._kept
        )


def named_by_goal(
    wanted: Iterable[str], constraints: Iterable[str] = ()
) -> NamedByGoal:
    """Return what the `wanted` texts, objective and criteria, ask to change by its name."""
    paths: set[str] = set()
    commands: set[str] = set()
    kept = [*constraints]
    for sentence in (
        part[:_LONGEST] for text in wanted for part in _SENTENCE.split(text)
    ):
        if _NEGATED.search(sentence):
            kept.append(sentence)
            continue
        # "Fix a.py, b.py and c.py" changes all of them.
        for found in (*_OBJECT.finditer(sentence), *_PLACE.finditer(sentence)):
            paths.add(found[1])
            paths.update(_listed(sentence, found.end()))
        commands |= {
            name
            for found in _COMMAND.finditer(sentence)
            for name in found.groups()
            if name
        }
    return NamedByGoal(frozenset(paths), frozenset(commands), "\n".join(kept))


_MORE = re.compile(rf"[`'\"]?(?:,\s*(?:and\s+)?|\s+and\s+)[`'\"]?({_PATH})")


def _listed(sentence: str, place: int) -> Iterable[str]:
    """Yield the words that a list names after its first one, which ends at a place."""
    while found := _MORE.match(sentence, place):
        yield found[1]
        place = found.end()
