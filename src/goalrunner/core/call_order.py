"""Freshness in a saved chat, where the order of the calls decides.

A chat has no times of files.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

from goalrunner.core.errors import some
from goalrunner.core.freshness import depends_on
from goalrunner.core.observation import Observation

_REMOVED = re.compile(
    r"(?:^|[;&|(\n]|\bsudo)[ \t]*(?:git[ \t]+)?(?:rm|rmdir|touch|truncate)\b"
    r"((?:[ \t]+[^\s;&|<>()]+)+)"
)
_GIT = re.compile(
    r"\bgit(?:[ \t]+-\S+)*[ \t]+(?:checkout|switch|restore|reset|stash|apply|am|revert"
    r"|merge|rebase|pull|clean)\b"
)
_PATCH = re.compile(r"(?:^|[;&|(\n])[ \t]*patch\b")
_OUTSIDE = re.compile(r"/tmp/[^/]+|/(?:dev|proc)/.*")  # noqa: S108 - in a command
"""A file of /tmp itself; a folder in it may be the workspace."""


def removed_by(command: str) -> list[str]:
    """Return what a command line removes or touches.

    git and patch do not name the files that they change: "git checkout" or "patch" is
    returned instead.
    """
    paths = []
    for words in _REMOVED.findall(command):
        paths += [word for word in words.split() if not word.startswith("-")]
    for match in _GIT.finditer(command):
        paths.append(" ".join(match[0].split()))
    paths += ["patch" for _ in _PATCH.findall(command)]
    return paths


@dataclass(frozen=True)
class _Result:
    """The result of a call, and the only file that it depends on; empty: all files."""

    call: int
    observation: Observation
    path: str


class CallOrder:
    """The calls of a chat by their numbers, with the files that they change."""

    def __init__(self) -> None:
        self._last_changes: dict[str, int] = {}
        """By file, in the order of the changes: the number of the last call that
        changes it."""
        self._results: list[_Result] = []

    def changed(self, call: int, paths: Iterable[str]) -> None:
        """Note the files of the workspace that a call changes."""
        for path in paths:
            if _OUTSIDE.fullmatch(path):
                continue
            normal_path = posixpath.normpath(path)
            # Removed first, so that it becomes the newest.
            self._last_changes.pop(normal_path, None)
            self._last_changes[normal_path] = call

    def observed(self, call: int, item: Observation, path: str) -> None:
        """Note the result of a call.

        `path` is the only file that it depends on; empty: all files.
        """
        self._results.append(_Result(call, item, path))

    def stale(self) -> dict[str, str]:
        """Return by id of an observation why it is outdated.

        A later call changed a file on which it depends.
        """
        reasons = {}
        for result in self._results:
            identifier = result.observation.id
            if paths := self._changed_after(result):
                reasons[identifier] = f"{some(paths, 3)} changed after {identifier}"
        return reasons

    def _changed_after(self, result: _Result) -> list[str]:
        paths = []
        for path, call in self._last_changes.items():
            if call > result.call and depends_on(result.observation, path, ()):
                paths.append(path)
        if not result.path:
            return paths
        return [path for path in paths if _may_be_same(path, result.path)]


def _may_be_same(path: str, other: str) -> bool:
    """Return whether two paths may be one file.

    The folder to which they are relative is not known.
    """
    path, other = posixpath.normpath(path), posixpath.normpath(other)
    return path == other or path.endswith(f"/{other}") or other.endswith(f"/{path}")
