"""Ignore rules as one list. Owns the reading of a .gitignore and its translation to the root of the workspace.

Git reads a .gitignore anew at every walk, so whoever writes one can hide files. The store reads them once, at the start
of a run, and turns them into one list of patterns that are all relative to the workspace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate

_SPECIAL = re.compile(rb"([*?\[\]\\])")
_BREAK = re.compile(rb"[\n\r]")


@dataclass(frozen=True)
class Rule:
    """One line of an ignore file, without its `!`."""

    body: bytes
    negated: bool = False

    @property
    def anchored(self) -> bool:
        """A slash at the start or inside binds a pattern to its own folder."""
        return b"/" in self.body.rstrip(b"/")

    def line(self, body: bytes) -> bytes:
        """The line for another body."""
        return (b"!" if self.negated else b"") + body


def parse(text: bytes) -> Iterator[Rule]:
    """The rules of an ignore file, as git reads it: no comments, no trailing blanks but escaped ones, no byte order mark."""
    for given in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = given.removesuffix(b"\r")
        while line.endswith(b" ") and not line.endswith(b"\\ "):
            line = line[:-1]
        negated = line.startswith(b"!")
        body = line.removeprefix(b"!")
        if line.startswith(b"#") or not body.strip(b"/"):
            continue
        yield Rule(body, negated)


def below(text: bytes, folder: bytes) -> list[bytes]:
    """The lines of an ignore file in `folder` (relative to the workspace, b"" for itself), for the whole workspace."""
    if not folder:
        return [rule.line(rule.body) for rule in parse(text)]
    base = b"/" + literal(folder) + b"/"
    return [
        rule.line(base + (rule.body.removeprefix(b"/") if rule.anchored else b"**/" + rule.body))
        for rule in parse(text)
    ]


def above(text: bytes, way: Sequence[bytes]) -> list[bytes]:
    """The lines of an ignore file in a folder above; `way` are the names of the folders from there to the workspace."""
    lines: list[bytes] = []
    for rule in parse(text):
        if not rule.anchored:
            lines.append(rule.line(rule.body))
            continue
        rests = _rests(tuple(rule.body.removeprefix(b"/").split(b"/")), tuple(way))
        lines += [rule.line(b"/" + b"/".join(rest)) for rest in rests]
    return lines


def literal(path: bytes) -> bytes:
    """A pattern that stands for exactly this path; a line break, which no line can hold, is any character."""
    return _BREAK.sub(b"?", _SPECIAL.sub(rb"\\\1", path))


def _rests(pattern: tuple[bytes, ...], way: tuple[bytes, ...]) -> list[tuple[bytes, ...]]:
    """What is left of a pattern after the folders of the way; more than one where `**` leaves a choice."""
    if not way:
        return [pattern] if any(pattern) else []
    if not pattern:
        return []
    if pattern[0] == b"**":
        return [*_rests(pattern[1:], way), *_rests(pattern, way[1:])]
    if not _same(pattern[0], way[0]):
        return []
    return _rests(pattern[1:], way[1:])


def _same(pattern: bytes, name: bytes) -> bool:
    """Whether a pattern without slashes matches a name, with git's `[^a]` and `\\x`."""
    text = re.sub(r"\\(.)", lambda found: f"[{found[1]}]", pattern.decode("latin-1").replace("[^", "[!"))
    return re.match(translate(text), name.decode("latin-1")) is not None
