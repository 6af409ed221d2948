"""The files that an agent wrote during a session: what a later command prints of them proves nothing."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from goalrunner.core.json_values import items, text

PATH_KEYS = ("file_path", "filePath", "path", "filename", "absolute_path", "notebook_path", "target_file")
"""Arguments of file tools that name the file."""

_WRITERS = tuple(
    """
    write writefile writetofile edit editfile fileeditor editor edittool create createfile replace replaceinfile strreplace
    insert append savefile patch diff
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Ends of the names of tools that write files, in lower case and without other characters than letters."""
_LOOKS = frozenset({"view", "undo_edit"})
_PATCHED = re.compile(r"^\*\*\* (?:Add File|Update File|Move to): (.+)$", re.MULTILINE)
_WORDS = re.compile(r"[^\s'\"`=:,;|&<>()\[\]{}$]+")
_REDIRECTIONS = frozenset({">", ">>", ">|", "&>", "&>>", ">&"})
_COPIERS = frozenset({"cp", "mv", "install", "ln"})
_WRITING = re.compile(r">|\b(?:tee|cp|mv|install|ln|sed|perl)\b|\*\*\* ")
_NO_FILE = re.compile(r"/dev/\w+|&?\d+|-")
_DOCUMENT = re.compile(r"<<-?[ \t]*(['\"\\]?)(\w+)\1?([^\n]*\n)(?:.*\n)*?\t*\2(?=\n|$)")
_LONGEST = 50_000
"""Characters of a command in which written files are searched; the parser is slow."""


class WrittenFiles:
    """The paths that tool calls wrote so far."""

    def __init__(self) -> None:
        self._by_name: dict[str, set[str]] = {}

    def __contains__(self, path: str) -> bool:
        """Return whether a path, absolute or relative to a folder that is not known, is one of them."""
        path = posixpath.normpath(path)
        known = self._by_name.get(posixpath.basename(path), ())
        return any(path == one or path.endswith(f"/{one}") or one.endswith(f"/{path}") for one in known)

    def add(self, path: str) -> None:
        """Note a file."""
        path = posixpath.normpath(path)
        if path and path != "." and not _NO_FILE.fullmatch(path):
            self._by_name.setdefault(posixpath.basename(path), set()).add(path)

    def of_call(self, tool: str, arguments: Any, command: str | None) -> str:
        """Note what a call writes; return the first file written by the agent whose content its output may show."""
        if command is not None:
            return self._of_command(command)
        given = arguments if isinstance(arguments, dict) else {}
        paths = [path for key in PATH_KEYS if (path := text(given.get(key)))]
        paths += [path for entry in items(given.get("locations")) if (path := text(entry.get("path")))]
        if "patch" in tool.lower():
            body = arguments if isinstance(arguments, str) else "\n".join(map(text, given.values()))
            paths += _PATCHED.findall(body)
        if is_writer(tool) and given.get("command") not in _LOOKS:
            for path in paths:
                self.add(path)
        return self._first(paths)

    def _of_command(self, command: str) -> str:
        written = [*_targets(command)] if _WRITING.search(command) else []
        for path, _ in written:
            self.add(path)
        if not self._by_name:
            return ""
        named = Counter(posixpath.normpath(word) for word in _WORDS.findall(command[:_LONGEST]))
        named.subtract(posixpath.normpath(path) for path, is_shown in written if not is_shown)
        return self._first(path for path, number in named.items() if number > 0)

    def _first(self, paths: Iterable[str]) -> str:
        return next((path for path in paths if path in self), "")


def is_writer(tool: str) -> bool:
    """Return whether the name of a tool is that of one that writes files."""
    return re.sub(r"[^a-z]", "", tool.lower()).endswith(_WRITERS)


def _targets(command: str) -> Iterator[tuple[str, bool]]:
    """Yield the files that a shell command writes, as far as its text shows them, and whether it prints them as well."""
    line = _DOCUMENT.sub(r"\3", command[:_LONGEST])
    yield from ((path, True) for path in _PATCHED.findall(command[:_LONGEST]))
    words: list[str] = []
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        tokens = [*lexer]
    except ValueError:
        tokens = re.findall(r"[<>&|;]+|[^\s<>&|;'\"]+", line)
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        if token in _REDIRECTIONS and following:
            yield following, False
        if token and set(token) <= set(";|&()\n"):
            yield from _of_program(words)
            words = []
        else:
            words.append(token)
    yield from _of_program(words)


def _of_program(words: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield the files that the arguments of a program name as its output, and whether it prints them as well."""
    programs = {"tee", "sed", "perl", *_COPIERS}
    begin = next((at for at, word in enumerate(words) if posixpath.basename(word) in programs), None)
    if begin is None:
        return
    name, given = posixpath.basename(words[begin]), words[begin + 1 :]
    plain = [word for word in given if not word.startswith("-") and not set(word) & set("<>")]
    if name == "tee":
        yield from ((path, True) for path in plain)
    elif name in _COPIERS or any(word.startswith(("-i", "-pi", "--in-place")) for word in given):
        yield from ((path, False) for path in (plain[1:][-1:] if name in _COPIERS else plain[1:]))
