"""Freshness in a saved chat: there are no times of files, so the order of the calls
decides.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from goalrunner.core.errors import some
from goalrunner.core.freshness import depends_on
from goalrunner.core.observation import Observation

_REMOVED = re.compile(
    r"(?:^|[;&|(\n]|\bsudo)[ \t]*(?:git[ \t]+)?(?:rm|rmdir|touch|truncate)\b((?:[ \t]+[^\s;&|<>()]+)+)"
)
_GIT = re.compile(
    r"\bgit(?:[ \t]+-\S+)*[ \t]+(?:checkout|switch|restore|reset|stash|apply|am|revert|merge|rebase|pull|clean)\b"
)
_PATCH = re.compile(r"(?:^|[;&|(\n])[ \t]*patch\b")
_OUTSIDE = re.compile(r"/tmp/[^/]+|/(?:dev|proc)/.*")  # noqa: S108 - a path in a command
"""A file of /tmp itself; a folder in it may be the workspace."""


def removed_by(command: str) -> list[str]:
    """Return what a command line removes or touches; for git and patch, which change
    files that they do not name, a name.
    """
    found = [
        word
        for words in _REMOVED.findall(command)
        for word in words.split()
        if not word.startswith("-")
    ]
    found += [" ".join(match.group().split()) for match in _GIT.finditer(command)]
    return found + ["patch" for _ in _PATCH.findall(command)]


class CallOrder:
    """The calls of a chat by their numbers, with the files that they change."""

    def __init__(self) -> None:
        self._changes: list[tuple[int, str]] = []
        self._seen: list[tuple[int, Observation, str]] = []

    def changed(self, call: int, paths: Iterable[str]) -> None:
        """Note the files that a call changes; those outside of the workspace are left
        out.
        """
        for path in paths:
            if not _OUTSIDE.fullmatch(path):
                self._changes.append((call, posixpath.normpath(path)))

    def observed(self, call: int, item: Observation, path: str) -> None:
        """Note the result of a call.

        `path` is the only file that it depends on; empty: all files.
        """
        self._seen.append((call, item, path))

    def stale(self) -> dict[str, str]:
        """Return by id of an observation why it is outdated: a later call changed a
        file.
        """
        reasons = {}
        for number, item, own in self._seen:
            later = (
                path
                for call, path in self._changes
                if call > number and depends_on(item, path, ())
            )
            paths = [
                path for path in dict.fromkeys(later) if not own or _is_same(path, own)
            ]
            if paths:
                reasons[item.id] = f"{some(paths, 3)} changed after {item.id}"
        return reasons


def _is_same(path: str, other: str) -> bool:
    """Return whether two paths may be one file; the folder to which they are relative
    is not known.
    """
    path, other = posixpath.normpath(path), posixpath.normpath(other)
    return path == other or path.endswith(f"/{other}") or other.endswith(f"/{path}")
