"""The ignore rules at the start of a run, which hold until its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import translate
from pathlib import Path

from goalrunner.core.errors import WorkspaceError
from goalrunner.records.files import keep_content, write_whole
from goalrunner.snapshots.git import Git
from goalrunner.snapshots.paths import printable_path
from goalrunner.snapshots.repositories import (
    Repository,
    content,
    repository_at,
)


def _rules(text: bytes) -> Iterator[tuple[bytes, bytes, bool]]:
    """Yield the rules of an ignore file as git reads it.

    Each is `!` or nothing, a pattern, and whether it is bound to the folder of the
    file.
    """
    # Git skips a byte order mark.
    for raw_line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = raw_line.removesuffix(b"\r")
        # A space at the end counts only if it is escaped.
        while line.endswith(b" ") and not line.endswith(b"\\ "):
            line = line[:-1]
        pattern = line.removeprefix(b"!")
        if not line.startswith(b"#") and pattern.strip(b"/"):
            sign = line[: len(line) - len(pattern)]
            yield sign, pattern, b"/" in pattern.rstrip(b"/")


def below(text: bytes, folder: bytes) -> list[bytes]:
    """Return the lines of an ignore file as lines for the whole workspace.

    `folder` is that of the file, relative to the workspace.
    """
    lines: list[bytes] = []
    base = b"/" + literal(folder) + b"/"
    for sign, pattern, is_bound in _rules(text):
        if not folder:
            lines.append(sign + pattern)
        elif is_bound:
            lines.append(sign + base + pattern.removeprefix(b"/"))
        else:
            lines.append(sign + base + b"**/" + pattern)
    return lines


def above(text: bytes, way: Sequence[bytes]) -> list[bytes]:
    """Return the lines of an ignore file in a parent folder, for the workspace.

    `way` are the folders between that folder and the workspace.
    """
    lines: list[bytes] = []
    for sign, pattern, is_bound in _rules(text):
        if not is_bound:
            lines.append(sign + pattern)
            continue
        parts = pattern.removeprefix(b"/").split(b"/")
        lines += [sign + b"/" + b"/".join(rest) for rest in _after_way(parts, way)]
    return lines


def literal(path: bytes) -> bytes:
    """Return a pattern that matches this path alone.

    Line breaks match any character, because a pattern cannot contain one.
    """
    escaped = re.sub(rb"([*?\[\]\\])", rb"\\\1", path)
    return re.sub(rb"[\n\r]", b"?", escaped)


def _after_way(pattern: Sequence[bytes], way: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Return the parts of a pattern after the folders of the way.

    With `**` there are several results, without a match none.
    """
    if not way:
        return [pattern] if any(pattern) else []
    if not pattern:
        return []
    if pattern[0] == b"**":
        return [*_after_way(pattern[1:], way), *_after_way(pattern, way[1:])]
    # `fnmatch` has another spelling of git's `[^a]`, and none of its `\x`.
    text = pattern[0].decode("latin-1").replace("[^", "[!")
    text = re.sub(r"\\(.)", r"[\1]", text)
    if not re.match(translate(text), way[0].decode("latin-1")):
        return []
    return _after_way(pattern[1:], way[1:])


class Start:
    """The saved ignore rules of a run, in a folder that a resumed run reads again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rules = folder / "ignore"
        """The file of ignore patterns."""
        self._data: bytes | None = None

    @property
    def frozen(self) -> bool:
        # `tracked` is written last, so a start that was interrupted is not frozen.
        return self.rules.is_file() and (self.folder / "tracked").is_file()

    def write(self, lines: list[bytes], commit: str) -> None:
        """Save the patterns, and the commit that is checked out; empty without one.

        Raise OSError.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self.rules, b"".join(line + b"\n" for line in lines), lasting=False)
        write_whole(self.folder / "commit", f"{commit}\n".encode(), lasting=False)

    def keep_rules(self) -> None:
        """Remember the patterns, or write them again if they were changed since.

        Raise OSError.
        """
        if self._data is None:
            self._data = self.rules.read_bytes()
        keep_content(self.rules, self._data)

    def write_tracked(self, paths: list[bytes]) -> None:
        """Save the ignored paths that the user's repositories track.

        To be called last: with this file, the start is frozen. Raise OSError.
        """
        data = b"".join(path + b"\0" for path in paths)
        write_whole(self.folder / "tracked", data, lasting=False)

    @property
    def commit(self) -> str | None:
        """The commit that was checked out; empty without one, None if not saved."""
        with contextlib.suppress(OSError):
            return (self.folder / "commit").read_text().strip()
        return None

    def tracked(self) -> frozenset[bytes]:
        """Return the ignored paths that are tracked by the user. Raise OSError."""
        return frozenset((self.folder / "tracked").read_bytes().split(b"\0")[:-1])


async def ignore_rules(
    git: Git,
    parent: Repository | None,
    home: Path,
) -> tuple[list[bytes], list[Repository]]:
    """Return the lines of all current ignore files, the strongest last.

    The second result are the repositories in the workspace.
    """
    workspace = git.workspace
    lines = _from_above(workspace, parent) if parent else []
    repositories: list[Repository] = []
    closed = await _ignored_folders(git)
    for folder, names in await asyncio.to_thread(_folders, workspace, closed):
        place = workspace / os.fsdecode(folder)
        repository = repository_at(place) if b".git" in names else None
        if repository:
            repositories.append(repository)
            # Only its own rules apply to a nested repository.
            if folder:
                lines.append(b"!/" + literal(folder) + b"/**")
            lines += below(content(repository.common / "info" / "exclude"), folder)
        # Git does not read one that is a link.
        if b".gitignore" in names and not (place / ".gitignore").is_symlink():
            lines += below(content(place / ".gitignore"), folder)
    # GOAL_HOME is no part of the workspace.
    if home.is_relative_to(workspace):
        lines.append(b"/" + literal(os.fsencode(home.relative_to(workspace))) + b"/")
    return lines, repositories


async def _ignored_folders(git: Git) -> frozenset[bytes]:
    """Return the folders of the workspace that its `.gitignore` files ignore."""
    answer = await git.ask(
        "ls-files",
        "--others",
        "--ignored",
        "--directory",
        "--exclude-per-directory=.gitignore",
        "-z",
        tree=git.workspace,
        # All files are others of an index that does not exist.
        index=git.store / "none",
    )
    return frozenset(
        path.rstrip(b"/") for path in answer.split(b"\0") if path.endswith(b"/")
    )


def _from_above(workspace: Path, parent: Repository) -> list[bytes]:
    """Return the lines of the ignore files between a repository and the workspace."""
    way = workspace.relative_to(parent.root).parts
    names = list(map(os.fsencode, way))
    lines = above(content(parent.common / "info" / "exclude"), names)
    for depth in range(len(way)):
        ignore_file = parent.root.joinpath(*way[:depth], ".gitignore")
        lines += above(content(ignore_file), names[depth:])
    return lines


_NAMES = frozenset({b".git", b".gitignore"})


def _folders(
    workspace: Path,
    closed: frozenset[bytes],
) -> list[tuple[bytes, frozenset[bytes]]]:
    """Return every folder that is not ignored, outer ones first.

    With each, return which of `_NAMES` it contains. Raise WorkspaceError.
    """
    root = os.fsencode(workspace)
    folders: list[tuple[bytes, frozenset[bytes]]] = []
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        names: set[bytes] = set()
        inner_folders: set[bytes] = set()
        try:
            with os.scandir(os.path.join(root, folder)) as entries:
                for entry in entries:
                    names.add(entry.name)
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if is_folder and entry.name != b".git":
                        inner_folders.add(os.path.join(folder, entry.name))
        except OSError as error:
            # The agent may have closed or removed any other folder.
            if not folder:
                raise WorkspaceError(
                    f"{printable_path(root)} cannot be read: {error.strerror}"
                ) from error
        folders.append((folder, _NAMES & names))
        waiting += inner_folders - closed
    return folders
