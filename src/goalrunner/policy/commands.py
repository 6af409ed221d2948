"""A command line as the words of the programs that it names. Pure; a reader of words, no shell.

What a shell would only find out by running is not known here: variables, aliases, functions, a script's own content.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

_BREAKS = frozenset({";", ";;", "&", "&&", "|", "||", "|&", "(", ")", "\n", "{", "}", "!"})
_KEYWORDS = frozenset({"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "case", "esac", "coproc"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_HEREDOC = re.compile(r"(?<!<)<<(-?)[ \t]*(['\"\\]?)([\w.-]+)['\"]?")
_SUBSTITUTION = re.compile(r"\$\((?!\()|`|[<>]\(")
_QUOTES = re.compile(r"['\"\\]")
_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_DEEPEST = 5

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "busybox"})
_WRAPPERS: dict[str, frozenset[str]] = {
    "sudo": frozenset({"-u", "-g", "-h", "-p", "-C", "-D"}),
    "doas": frozenset({"-u"}),
    "env": frozenset({"-u", "-C", "-S"}),
    "nice": frozenset({"-n"}),
    "ionice": frozenset({"-c", "-n"}),
    "timeout": frozenset({"-s", "-k"}),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "xargs": frozenset({"-n", "-I", "-P", "-L", "-d", "-a", "-s"}),
    "time": frozenset({"-f", "-o"}),
    "watch": frozenset({"-n"}),
    "flock": frozenset({"-w"}),
    **dict.fromkeys(("nohup", "setsid", "exec", "command", "builtin", "unshare", "strace", "script"), frozenset()),
}
"""Programs whose arguments are another command, and their options that take a value."""

_OPERANDS = {"timeout": 1, "flock": 1}
"""Words of a wrapper's own before the command."""


def commands_in(line: str) -> Iterator[tuple[str, ...]]:
    """Each command that a line names, as its words without quotes: the program first, by its path as it stands there.

    Also those behind `sudo`, `env`, `xargs`, `sh -c`, `find -exec`, in `$(...)`, and in a here-document for a shell.
    """
    yield from _commands(line, 0)


def _commands(text: str, depth: int) -> Iterator[tuple[str, ...]]:
    line, documents = _without_documents(text.replace("\\\n", " "))
    for words in _simple(line):
        yield from _unwrapped(words, depth)
        if documents and program(words) in _SHELLS and depth < _DEEPEST:
            for document in documents:
                yield from _commands(document, depth + 1)
    # A here-document is expanded as well. Each piece may hold more than the substitution: too much, rather than too little.
    for source in (line, *documents):
        for piece in _SUBSTITUTION.split(source)[1:]:
            for words in _simple(piece):
                yield from _unwrapped(words, depth)


def program(words: tuple[str, ...]) -> str:
    """The name of the program, without its folder."""
    return words[0].rpartition("/")[2] if words else ""


def _simple(line: str) -> Iterator[tuple[str, ...]]:
    """The commands between `;`, `&&`, pipes and their like, without assignments and redirections."""
    words: list[str] = []
    skip = False
    for token in _tokens(line):
        if token in _BREAKS or (token and set(token) <= set(";&|()\n")):
            yield tuple(words)
            words = []
        elif skip:
            skip = False
        elif token and set(token) <= set("<>&") and token not in _BREAKS:
            skip = True
            if words and words[-1].isdigit():
                words.pop()
        elif not words and (_ASSIGNMENT.match(token) or token in _KEYWORDS):
            continue
        else:
            words.append(token)
    yield tuple(words)


def _tokens(line: str) -> list[str]:
    try:
        return list(_lexer(line))
    except ValueError:  # an open quote: this is a piece of a line; here every word counts
        return list(_lexer(_QUOTES.sub(" ", line)))


def _lexer(line: str) -> shlex.shlex:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    return lexer


def _unwrapped(words: tuple[str, ...], depth: int) -> Iterator[tuple[str, ...]]:
    """The command itself, and the one that it runs where it is there to run another."""
    if not words:
        return
    yield words
    name = program(words)
    if depth >= _DEEPEST:
        return
    if name in _SHELLS or name == "eval":
        for script in _scripts(name, words):
            yield from _commands(script, depth + 1)
    elif name == "find" or name in _EXECUTING:
        at = next((at for at, word in enumerate(words) if word in _EXECUTING), len(words))
        yield from _unwrapped(words[at + 1 :], depth + 1)
        more = next((later for later in range(at + 1, len(words)) if words[later] in _EXECUTING), len(words))
        yield from _unwrapped(words[more + 1 :], depth + 1)
    elif name in _WRAPPERS:
        yield from _unwrapped(_inner(name, words[1:]), depth + 1)


def _scripts(name: str, words: tuple[str, ...]) -> Iterator[str]:
    if name == "eval":
        yield " ".join(words[1:])
        return
    for at, word in enumerate(words[1:-1], start=1):
        if word.startswith("-") and not word.startswith("--") and "c" in word:
            yield words[at + 1]


def _inner(name: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """What a wrapper runs: its arguments without its own options, assignments and operands."""
    operands, at = _OPERANDS.get(name, 0), 0
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if word.startswith("-") and len(word) > 1:
            at += 2 if word in _WRAPPERS[name] else 1
        elif _ASSIGNMENT.match(word):
            at += 1
        elif operands:
            operands -= 1
            at += 1
        else:
            break
    return words[at:]


def _without_documents(text: str) -> tuple[str, list[str]]:
    """The lines that are commands, and the here-documents between them."""
    kept: list[str] = []
    documents: list[str] = []
    waiting: list[tuple[str, bool]] = []
    body: list[str] = []
    for line in text.split("\n"):
        if waiting:
            ending, tabs = waiting[0]
            if (line.lstrip("\t") if tabs else line) == ending:
                waiting.pop(0)
                documents.append("\n".join(body))
                body = []
            else:
                body.append(line)
            continue
        waiting = [(found[3], bool(found[1])) for found in _HEREDOC.finditer(line)]
        kept.append(_HEREDOC.sub(" ", line))
    if body:
        documents.append("\n".join(body))
    return "\n".join(kept), documents
