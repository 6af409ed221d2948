"""The words and operators of a shell command line. Owns quoting; expands nothing: `$HOME` stays as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_OPERATOR = re.compile(r"&&|\|\||\|&|[;&|()\n]")
_REDIRECTION = re.compile(r"(?:[0-9]*|&)(?:>>|>\||>&|<&|<>|<<<|>|<)")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_BLANK = " \t\r"
_ENDS = frozenset(" \t\r\n;&|()<>")
_DUPLICATE = re.compile(r"[0-9]+-?|-")


class Unreadable(Exception):
    """The line uses what this reader does not know (here documents, functions, `;;`), or a quote is not closed."""


@dataclass(frozen=True)
class Token:
    """A piece of the line, from `begin` to `end`; a word's text is without its quotes."""

    kind: Literal["word", "assignment", "operator", "bracket"]
    text: str
    begin: int
    end: int


def tokens(line: str) -> Iterator[Token]:
    """Every word and operator in order, without redirections and comments. Raises Unreadable."""
    at = 0
    fresh = True  # at the beginning of a command
    while at < len(line):
        if line[at] in _BLANK or line.startswith("\\\n", at):
            at += 1 if line[at] in _BLANK else 2
            continue
        if line[at] == "#":
            at = _until(line, "\n", at)
            continue
        if found := _REDIRECTION.match(line, at):
            at = _redirected(line, found.end(), found[0])
            continue
        if found := _OPERATOR.match(line, at):
            if line.startswith(";;", at):
                raise Unreadable
            yield Token("operator", found[0], at, found.end())
            at, fresh = found.end(), True
            continue
        text, end = _word(line, at)
        if line[at:end] in ("{", "}") and fresh:
            yield Token("bracket", text, at, end)
        else:
            kind: Literal["word", "assignment"] = "assignment" if _ASSIGNMENT.match(line, at) else "word"
            yield Token(kind, text, at, end)
            fresh = False
        at = end


def _redirected(line: str, at: int, operator: str) -> int:
    """The end of a redirection's target."""
    if line.startswith("<", at) and operator.endswith("<"):
        raise Unreadable  # a here document
    if operator.endswith("&") and (found := _DUPLICATE.match(line, at)):
        return found.end()
    while at < len(line) and line[at] in _BLANK:
        at += 1
    if at == len(line) or line[at] in _ENDS:
        raise Unreadable
    return _word(line, at)[1]


def _word(line: str, at: int) -> tuple[str, int]:
    """A word without its quotes, and where it ends."""
    text: list[str] = []
    while at < len(line) and line[at] not in _ENDS:
        match line[at]:
            case "'":
                end = _closing(line, "'", at + 1)
                text.append(line[at + 1 : end])
                at = end + 1
            case '"':
                inner, at = _quoted(line, at + 1)
                text.append(inner)
            case "\\":
                text.append(line[at + 1 : at + 2].replace("\n", ""))
                at += 2
            case "$" | "`":
                end = _expansion(line, at)
                text.append(line[at:end])
                at = end
            case other:
                text.append(other)
                at += 1
    return "".join(text), min(at, len(line))


def _quoted(line: str, at: int) -> tuple[str, int]:
    """What stands between double quotes, and the place behind them."""
    text: list[str] = []
    while at < len(line):
        match line[at]:
            case '"':
                return "".join(text), at + 1
            case "\\" if line[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
                text.append(line[at + 1].replace("\n", ""))
                at += 2
            case "$" | "`":
                end = _expansion(line, at)
                text.append(line[at:end])
                at = end
            case other:
                text.append(other)
                at += 1
    raise Unreadable


def _expansion(line: str, at: int) -> int:
    """The end of `$name`, `${...}`, `$(...)` or a piece in backquotes, which begins at `at`."""
    if line[at] == "`":
        return _closing(line, "`", at + 1) + 1
    opening = line[at + 1 : at + 2]
    if opening not in ("(", "{"):
        return at + 1
    closing, depth, at = {"(": ")", "{": "}"}[opening], 1, at + 2
    while depth:
        if at >= len(line):
            raise Unreadable
        if line[at] == "'" and closing == ")":
            at = _closing(line, "'", at + 1)
        elif line[at] == "\\":
            at += 1
        elif line[at] in (opening, closing):
            depth += 1 if line[at] == opening else -1
        at += 1
    return at


def _closing(line: str, mark: str, at: int) -> int:
    end = line.find(mark, at)
    if end < 0:
        raise Unreadable
    return end


def _until(line: str, mark: str, at: int) -> int:
    end = line.find(mark, at)
    return len(line) if end < 0 else end
