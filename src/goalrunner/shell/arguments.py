"""Where the command begins in the arguments of the programs that start others."""

from __future__ import annotations

from collections.abc import Iterator

from goalrunner.shell.words import Word
from goalrunner.shell.wrappers import Wrapper

_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_ANY = Word("$@", "", "")
"""Arguments that are only known when the command runs."""

_Words = tuple[Word, ...]
Given = list[tuple[str, Word]]
"""Options with their values."""


def options(words: _Words, valued: frozenset[str]) -> tuple[int, Given]:
    """Return where the operands of a command begin, and its options with their values.

    `-ubob`, `-u bob`, `--user=bob`, `--user bob`, and `-nu bob` are understood, and long options may be shortened.
    """
    at = 1
    found: Given = []
    empty = Word("")
    while at < len(words):
        word = words[at]
        if word == "--":
            return at + 1, found
        if not word.startswith("-") or word == "-":
            break
        following = words[at + 1] if at + 1 < len(words) else empty
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            name = next((full for full in sorted(valued) if full.startswith(name)), name)
        if name in valued and not equals:
            found.append((name, following))
            at += 1
        elif name.startswith("--"):
            found.append((name, Word(value)))
        else:
            for position, letter in enumerate(word[1:], 2):
                if f"-{letter}" in valued:
                    attached = word[position:]
                    found.append((f"-{letter}", Word(attached) if attached else following))
                    at += not attached
                    break
                found.append((f"-{letter}", empty))
        at += 1
    return min(at, len(words)), found


def command_part(words: _Words, wrapper: Wrapper) -> _Words:
    """Return the words of a wrapper from its subcommand on; none if it has another subcommand."""
    if not wrapper.behind:
        return words
    rest = words[options(words, wrapper.valued)[0] :]
    for names in wrapper.behind:
        if rest[: len(names)] == names:
            return rest[len(names) - 1 :]
    # `yarn jest` is short for `yarn exec jest`.
    return words if rest and rest[0] in wrapper.direct else ()


def line_option(words: _Words, at: int, given: Given, wrapper: Wrapper) -> str | None:
    """Return the line for a shell among the options of a wrapper, also behind its operands: `su bob -c LINE`."""
    values = [value for name, value in given if name in wrapper.scripts]
    rest = words[at:]
    later = next((where for where, word in enumerate(rest) if word in wrapper.scripts), len(rest))
    if later <= wrapper.operands:
        values += rest[later + 1 : later + 2]
    return values[0] if values else None


def with_inputs(name: str, words: _Words, given: Given) -> _Words:
    """Return the words of a command with those that are read from the input of `xargs` or `parallel`."""
    placeholders = [str(value) for option, value in given if option in ("-I", "-J", "--replace")]
    if any(option in ("-i", "--replace") for option, _ in given) or name == "parallel":
        placeholders.append("{}")
    if name == "parallel":
        words = words[: next((at for at, word in enumerate(words) if word.startswith(":::")), len(words))]
    replaced = words
    for placeholder in placeholders:
        replaced = tuple(word.replaced(placeholder) for word in replaced)
    if not words:
        return ()
    return replaced if replaced != words or (placeholders and name == "xargs") else (*words, _ANY)


def executed(words: _Words) -> Iterator[_Words]:
    """Yield the commands of `find -exec`. A name that is found begins with where it was looked for."""
    roots = [word for word in words[1:2] if not word.startswith("-")] or [Word(".")]
    only = len(words) < 3 or words[2].startswith("-") or words[1].startswith("-")
    at = 1
    while at < len(words):
        at += 1
        if words[at - 1] in _EXECUTING:
            end = next((end for end in range(at, len(words)) if words[end] in (";", "+")), len(words))
            head = roots[0].head if only else ""
            yield tuple(Word("$@", head, "") if word == "{}" else word.replaced("{}") for word in words[at:end])
            at = end
