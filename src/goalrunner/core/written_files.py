"""The files that an agent wrote with its tools and commands.

A later command that prints such a file proves nothing: the agent chose what it prints.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from goalrunner.core.messages import at, items, text
from goalrunner.core.tool_arguments import PATH_ARGUMENTS, is_writer

LONGEST_COMMAND = 50_000
"""Characters of a command in which written files are searched."""

_LOOKS = frozenset({"view", "undo_edit"})
"""Values of the argument `command` with which such a tool writes no file."""
_PATCHED = re.compile(
    r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE
)
_WORDS = re.compile(r"[^\s'\"`=:,;|&<>()\[\]{}$]+")
_DOCUMENT = re.compile(r"<<-?[ \t]*(['\"\\]?)(\w+)\1?([^\n]*\n)(?:.*\n)*?\t*\2(?=\n|$)")
_QUOTED = re.compile(r"(['\"])([\w./~${}-]*)\1")
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"")
_REDIRECTED = re.compile(r">[>|&]?[ \t]*([^\s;&|<>()'\"]+)")
_TEE = re.compile(r"\btee\b((?:[ \t]+[^\s;&|<>()'\"]+)+)")
_COPIED = re.compile(
    r"(?:\b(?:cp|mv|ln|(?:sed|perl)(?=[^;&|\n]* -(?:p?i|-in-place)))"
    # `pip install pytest` writes no file of that name.
    r"|(?:^|[;&|(]|\bsudo)[ \t]*install)\b"
    r"[^;&|<>\n]*[ \t]([^\s;&|<>()'\"]+)",
    re.MULTILINE,
)
# Agents edit files with short programs in a command: open("app.py", "w"),
# Path("app.py").write_text(...), or the same of a variable.
_WRITTEN = re.compile(
    r"\bopen\(\s*([^,()\n]{1,200}?)\s*,\s*(?:mode\s*=\s*)?"
    r"['\"](?:[wax]b?\+?|r\+)['\"]"
    # Without the first condition, a long word would be tried from each character.
    r"|(?<![\w.])([\w.]{1,80}(?:\([^()\n]{0,200}\))?)\.write_(?:text|bytes)\("
    r"|\bwriteFile(?:Sync)?\(\s*([^,()\n]{1,200}?)\s*,"
)
_ASSIGNED = re.compile(r"\b([A-Za-z_]\w{0,80})\s*=\s*([^=\n;][^\n;]{0,200})")
_LITERAL = re.compile(r"['\"]([^'\"\n]+)['\"]")
_NO_FILE = re.compile(r"/dev/\w+|&?\d+|-.*")


class WrittenFiles:
    """The paths that tool calls wrote so far."""

    def __init__(self) -> None:
        self._by_name: dict[str, set[str]] = {}
        self.newest: list[str] = []
        """Those that were added since this list was cleared."""

    def __contains__(self, path: str) -> bool:
        """Return whether a path may be one of them.

        It is absolute, or relative to a folder that is not known.
        """
        path = posixpath.normpath(path)
        candidates = self._by_name.get(posixpath.basename(path), ())
        return any(
            path == one or path.endswith(f"/{one}") or one.endswith(f"/{path}")
            for one in candidates
        )

    def add(self, path: str) -> None:
        """Note a file."""
        path = posixpath.normpath(path)
        if path and path != "." and not _NO_FILE.fullmatch(path):
            self._by_name.setdefault(posixpath.basename(path), set()).add(path)
            self.newest.append(path)

    def of_call(self, tool: str, arguments: Any, command: str | None) -> str:
        """Note what a call writes.

        Return the first file written by the agent whose content the call's output may
        show; empty if there is none.
        """
        if command is not None:
            return self._of_command(command[:LONGEST_COMMAND])
        table = arguments if isinstance(arguments, dict) else {}
        paths = _named_paths(table)
        if "patch" in tool.lower():
            is_patch = isinstance(arguments, str)
            patch = arguments if is_patch else "\n".join(map(text, table.values()))
            paths += _PATCHED.findall(patch)
        if is_writer(tool) and table.get("command") not in _LOOKS:
            for path in paths:
                self.add(path)
        return self._first_written(paths)

    def _of_command(self, command: str) -> str:
        line = _without_texts(command)
        silent = _REDIRECTED.findall(line) + _COPIED.findall(line)
        silent += _written_by_program(command)
        # `tee` and `apply_patch` print what they write, or its name.
        printed = _PATCHED.findall(command) + " ".join(_TEE.findall(line)).split()
        for path in (*silent, *printed):
            self.add(path)
        if not self._by_name:
            return ""
        # A redirection or a copy names its target once and prints nothing of it. Only a
        # path that the command names more often may be printed.
        mentions = Counter(map(posixpath.normpath, _WORDS.findall(command)))
        mentions.subtract(map(posixpath.normpath, silent))
        return self._first_written(
            path for path, count in mentions.items() if count > 0
        )

    def _first_written(self, paths: Iterable[str]) -> str:
        return next((path for path in paths if path in self), "")


def _named_paths(arguments: Mapping[str, Any]) -> list[str]:
    """Return the paths in the arguments of a file tool."""
    values = [arguments.get(key) for key in PATH_ARGUMENTS]
    # Locations of the Agent Client Protocol, and changes of files of Codex.
    for key in ("locations", "changes"):
        values += [at(entry, "path") for entry in items(arguments.get(key))]
    return list(filter(None, map(text, values)))


def _written_by_program(command: str) -> list[str]:
    """Return the files that a program in a command writes, as far as it names them."""
    paths: list[str] = []
    writes = list(_WRITTEN.finditer(command))
    if not writes:
        return paths
    values = dict(_ASSIGNED.findall(command))
    for match in writes:
        expression = next(filter(None, match.groups()))
        literal = _LITERAL.search(values.get(expression, expression))
        if literal:
            paths.append(literal[1])
    return paths


def _without_texts(command: str) -> str:
    """Return a command without here-documents and quoted texts.

    These may contain anything. `$OUT/x` becomes the path OUT/x.
    """
    line = _DOCUMENT.sub(r"\3", command)
    # A single quoted word may be a path; other quoted texts are emptied.
    line = _QUOTED.sub(r"\2", line)
    line = _TEXT.sub("''", line)
    return re.sub(r"[${}]", "", line)
