"""Freshness without times of files, where the order of the calls decides.

That is so in a saved chat, and in a run that takes no snapshots.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import re
from array import array
from collections.abc import Iterable
from typing import Any

from goalrunner.core.errors import some
from goalrunner.core.freshness import depends_on
from goalrunner.core.observation import (
    OWNER,
    RESPONSE,
    VALIDATOR,
    Claim,
    Observation,
)
from goalrunner.core.tool_arguments import is_file_tool, only_path
from goalrunner.core.written_files import LONGEST_COMMAND, WrittenFiles

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


class CallOrder:
    """The calls of a chat by their numbers, with the files that they change."""

    def __init__(self) -> None:
        self._last_changes: dict[str, int] = {}
        """By file, in the order of the changes: the number of the last call that
        changes it."""
        # The results of calls, in three lists of the same length, which take a quarter
        # of the memory of objects.
        self._observations: list[Observation] = []
        self._calls = array("q")
        self._paths: list[str] = []

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
        self._observations.append(item)
        self._calls.append(call)
        self._paths.append(path)

    def stale(self) -> dict[str, str]:
        """Return by id of an observation why it is outdated.

        A later call changed a file on which it depends.
        """
        reasons = {}
        for number, observation in enumerate(self._observations):
            if paths := self._changed_after(number):
                identifier = observation.id
                reasons[identifier] = f"{some(paths, 3)} changed after {identifier}"
        return reasons

    def _changed_after(self, number: int) -> list[str]:
        """Return the changed files on which the result of this number depends."""
        observation, only_file = self._observations[number], self._paths[number]
        paths = []
        for path, call in self._last_changes.items():
            if call > self._calls[number] and depends_on(observation, path, ()):
                paths.append(path)
        if not only_file:
            return paths
        return [path for path in paths if _may_be_same(path, only_file)]


def stale_by_order(items: Iterable[Observation | Claim]) -> dict[str, str]:
    """Return by id of an observation of a run why a later call made it outdated.

    It is for a run without snapshots. Each observation is a call; its tool and its
    command say which files the call writes. A response and the words of a person depend
    on no file.
    """
    order, written = CallOrder(), WrittenFiles()
    for number, item in enumerate(items):
        if not isinstance(item, Observation) or item.source in (RESPONSE, OWNER):
            continue
        if item.source.startswith(VALIDATOR) and not item.reported_by:
            # A check writes no file, and the name of a function is no command line.
            order.observed(number, item, "")
            continue
        arguments = _arguments_of(item)
        command = item.command[:LONGEST_COMMAND] if arguments is None else None
        written.newest.clear()
        written.of_call(item.source, arguments, command)
        order.changed(number, (*written.newest, *removed_by(command or "")))
        order.observed(number, item, item.path or only_path(item.source, arguments))
    return order.stale()


def _arguments_of(item: Observation) -> Any:
    """Return the arguments of a call as far as its observation has them.

    None for a command line.
    """
    command = item.command
    if item.path is not None:
        return {"path": item.path}
    if command.startswith("{"):
        with contextlib.suppress(ValueError):
            return json.loads(command)
    if not is_file_tool(item.source):
        return None
    if "\n" in command:
        # A patch, which names its files itself.
        return command
    # Of a tool with several actions, the action is the first word: "view a.py".
    action, _, path = command.partition(" ")
    if path and action.isidentifier():
        return {"command": action, "path": path}
    return {"path": command}


def _may_be_same(path: str, other: str) -> bool:
    """Return whether two paths may be one file.

    The folder to which they are relative is not known.
    """
    path, other = posixpath.normpath(path), posixpath.normpath(other)
    return path == other or path.endswith(f"/{other}") or other.endswith(f"/{path}")
