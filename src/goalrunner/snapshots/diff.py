"""The differences between snapshots, and patterns of paths in the form of .gitignore, such as those of caches."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from goalrunner.core.errors import UsageError, WorkspaceError
from goalrunner.core.observation import Change, DiffStat, Snapshot
from goalrunner.snapshots.files import read_manifest
from goalrunner.snapshots.git import Git, GitFailed
from goalrunner.snapshots.objects import (
    Entry,
    EntryPair,
    object_id,
    printable_path,
    raw,
)

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


_PATCH = (
    *(
        "-c",
        "core.bigFileThreshold=1m",
        "diff-tree",
        "--stdin",
        "-r",
        "-p",
        "--no-renames",
        "--no-ext-diff",
    ),
    *(
        "--no-textconv",
        "--no-color",
        "--relative=content/",
        "--src-prefix=a/",
        "--dst-prefix=b/",
    ),
)
"""The git command of patches. Larger files are not shown line by line."""
_BEGINNING = re.compile(rb"^[0-9a-f]{40,64} [0-9a-f]{40,64}\n", re.MULTILINE)
"""The line that begins the patch of two trees; lines of a file begin with a space, "+", "-" or a backslash."""

_ROW = re.compile(rb":(\d+) (\d+) (\w+) (\w+) \w+\0([^\0]+)\0|\w+ \w+\n")
"""A path that differs, or the line that begins the comparison of two trees."""

_LISTED = re.compile(rb"(\d+) blob (\w+)\tcontent/([^\0]+)")
"""Mode, blob and path of a file in the output of `ls-tree -z`."""

Step = dict[str, tuple[str, str]]
"""What differs between two snapshots: by path, what identifies its content before and after, empty where it does not exist."""


_MANIFEST = ""
"""The path, in the differences of two trees, of the list of unstored content."""
_NOT_KEPT = " not kept"
"""The end of what identifies a content that is not stored."""


class SnapshotReader:
    """Reads snapshots. The tree of a snapshot contains `content`, and `unstored` if some content is not kept.

    Paths are in the form of `objects.shown`. Caches and the goal's `outputs` match `passing`.
    """

    def __init__(self, git: Git, passing: Patterns) -> None:
        self.git = git
        self._passing = passing
        self.left: dict[str, list[str]] = {}
        """By file that checks made in the workspace, the contents that they gave it. These are no differences."""

    async def entries(self, snapshot: Snapshot) -> Mapping[str, Entry]:
        """Return the entry of every path of a snapshot. Raise WorkspaceError if it is not in the store."""
        rows = await self._rows_of(snapshot)
        kept = {
            printable_path(path): Entry(mode.decode(), blob.decode())
            for mode, blob, path in rows
        }
        return {**kept, **await self.unstored(snapshot)}

    async def unstored(self, snapshot: Snapshot) -> Mapping[str, Entry]:
        """Return the paths of a snapshot whose content is not kept."""
        row = (
            await self.git.ask(
                "ls-tree", "-z", "--full-tree", snapshot.tree, "unstored"
            )
        ).split()
        return (
            read_manifest((await self._lists([row[2].decode()]))[row[2].decode()])
            if row
            else {}
        )

    async def read(self, snapshot: Snapshot, path: str) -> bytes | None:
        """Return the content of a file, or the target of a link; None if the path does not exist.

        Raise WorkspaceError if the content was not kept, or is not what the snapshot recorded.
        """
        listed = await self.git.ask(
            "ls-tree", "-z", "--full-tree", snapshot.tree, b"content/" + raw(path)
        )
        for _, blob, name in _LISTED.findall(listed):
            if printable_path(name) == path:
                return (await self.contents({blob.decode(): path}))[blob.decode()]
        if path in await self.unstored(snapshot):
            raise WorkspaceError(
                f"{path} is in the snapshot only as a hash; its content was not stored"
            )
        return None

    def changed(self, what: str) -> WorkspaceError:
        """Return the error for an object with another content than its id says; git does not compare them."""
        return WorkspaceError(
            f"the kept content of {what} differs from the snapshot: a file in {self.git.store} was changed",
            f"remove {self.git.store} and start a new run; the original content is lost",
        )

    async def listing(self, snapshot: Snapshot) -> tuple[list[str], dict[str, str]]:
        """Return all paths of a snapshot, and the targets of the kept symbolic links; ten times faster than `entries`."""
        rows = await self._rows_of(snapshot)
        text = b"\0".join(name for _, _, name in rows).decode(errors="surrogateescape")
        if "\\" in text or not text.replace("\0", "").isprintable():
            paths = [printable_path(name) for _, _, name in rows]
        else:
            paths = text.split("\0") if rows else []
        links = {
            printable_path(name): blob.decode()
            for mode, blob, name in rows
            if mode == b"120000"
        }
        targets = await self.contents({blob: path for path, blob in links.items()})
        unstored = await self.unstored(snapshot)
        return [*paths, *unstored], {
            path: os.fsdecode(targets[blob]) for path, blob in links.items()
        }

    async def _rows_of(self, snapshot: Snapshot) -> list[tuple[bytes, bytes, bytes]]:
        """Return mode, blob and path of all kept files, in bytes."""
        return _LISTED.findall(
            await self.git.ask("ls-tree", "-r", "-z", "--full-tree", snapshot.tree)
        )

    async def contents(self, paths: Mapping[str, str]) -> dict[str, bytes]:
        """Return the content of kept files by its id; `paths` has the path of each id, for errors.

        Raise WorkspaceError if a content is not what its id says.
        """
        if not paths:
            return {}
        output = await self.git.ask(
            "cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in paths).encode()
        )
        contents = {}
        place = 0
        for blob, path in paths.items():
            heading_end = output.index(b"\n", place)
            heading = output[place:heading_end].split(b" ")
            if heading[1:2] != [b"blob"]:
                raise GitFailed(
                    f"a snapshot cannot be read: {path} ({blob}) is not in {self.git.store}"
                )
            place = heading_end + 1 + int(heading[2])
            contents[blob] = output[heading_end + 1 : place]
            if object_id("blob", contents[blob]) != blob:
                raise self.changed(path)
            place += 1
        return contents

    async def changed_entries(
        self, old: Snapshot, new: Snapshot
    ) -> dict[str, EntryPair]:
        """Return the paths that differ, with their entries, without the data of repositories."""
        [step] = await self._steps([(old, new)])
        files = {
            path: pair
            for path, pair in step.items()
            if path.rpartition("/")[2] != ".git"
        }
        files = {
            path: pair for path, pair in files.items() if not self._is_left(path, pair)
        }
        return {path: (_entry(was), _entry(now)) for path, (was, now) in files.items()}

    async def changes(self, old: Snapshot, new: Snapshot) -> tuple[Change, ...]:
        """Return what differs, sorted by path, without caches and the goal's `outputs`."""
        [step] = await self._steps([(old, new)])
        rows = sorted(
            (path, pair) for path, pair in step.items() if self._counts(path, pair)
        )
        return tuple(Change(path=path, kind=_kind(path, *pair)) for path, pair in rows)

    async def all_changes(self, old: Snapshot, new: Snapshot) -> tuple[Change, ...]:
        """Return everything that differs, sorted by path; repositories as `.git` or `vendor/lib/.git`."""
        [step] = await self._steps([(old, new)])
        return tuple(
            Change(path=path, kind=_kind(path, *pair))
            for path, pair in sorted(step.items())
        )

    async def differences(self, snapshots: Sequence[Snapshot]) -> list[Step]:
        """Compare each of these with the next one. Caches and the goal's `outputs` are left out.

        At most two git processes run, however many snapshots there are.
        """
        steps = await self._steps(list(pairwise(snapshots)))
        return [
            {path: pair for path, pair in step.items() if self._counts(path, pair)}
            for step in steps
        ]

    def _counts(self, path: str, sides: tuple[str, str]) -> bool:
        return not self._passing.match(path) and not self._is_left(path, sides)

    def _is_left(self, path: str, sides: tuple[str, str]) -> bool:
        """Return whether a difference is only that a file of checks exists now, or does not."""
        contents = self.left.get(path, ())
        return bool(contents) and all(not side or side in contents for side in sides)

    async def left_in(self, snapshot: Snapshot) -> set[str]:
        """Return the files of checks that have the content which the last check gave them."""
        entries = await self.entries(snapshot)
        return {
            path
            for path, own in self.left.items()
            if path in entries and _side(entries[path]) == own[-1]
        }

    async def note_left(self, before: Snapshot, after: Snapshot) -> list[str]:
        """Note the files that a check made, made again or, as a repository, changed; return the new ones."""
        [step] = await self.differences((before, after))
        new = [path for path, (was, _) in step.items() if not was]
        for path, sides in step.items():
            if path in new or path in self.left or path.rpartition("/")[2] == ".git":
                known = [side for side in self.left.get(path, ()) if side not in sides]
                self.left[path] = [*known, *filter(None, sides)]
        return new

    async def diff_stat(self, old: Snapshot, new: Snapshot) -> DiffStat:
        """Count the files and lines that differ, without caches and the goal's `outputs`."""
        trees = (f"{old.tree}:content", f"{new.tree}:content")
        output = await self.git.ask(
            "diff-tree",
            "-r",
            "-z",
            "--numstat",
            "--no-renames",
            "--no-textconv",
            *trees,
        )
        rows = [row.split(b"\t", 2) for row in output.split(b"\0")[:-1]]
        counted = (await self.differences((old, new)))[0].keys() if self.left else None
        names = [printable_path(row[2]) for row in rows]
        kept = [
            (row[0], row[1])
            for row, name in zip(rows, names, strict=True)
            if (
                name in counted
                if counted is not None
                else not self._passing.match(name)
            )
        ]
        added, removed = (
            [int(row[side]) for row in kept if row[side].isdigit()] for side in (0, 1)
        )
        return DiffStat(files=len(kept), added=sum(added), removed=sum(removed))

    async def diff(
        self, old: Snapshot, new: Snapshot, paths: Sequence[str] = ()
    ) -> str:
        """Return a unified patch from one to the other, of these paths or folders, or of all.

        Large and binary files are only named. Bytes that are not UTF-8 are replaced.
        """
        [step] = await self._steps([(old, new)])
        [text] = await self._texts([(old, new, step)], paths)
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    async def patches(self, pairs: Sequence[tuple[Snapshot, Snapshot]]) -> list[str]:
        """Return a unified patch for each pair, without caches and `outputs`. Bytes that are not UTF-8 are surrogates."""
        compared = [
            (*pair, step)
            for pair, step in zip(pairs, await self._steps(pairs), strict=True)
        ]
        kept = [
            [path for path, pair in step.items() if self._counts(path, pair)]
            for _, _, step in compared
        ]
        whole = [
            len(paths) == len(item[2])
            for item, paths in zip(compared, kept, strict=True)
        ]
        texts = iter(
            await self._texts(
                [
                    item
                    for item, is_whole in zip(compared, whole, strict=True)
                    if is_whole
                ]
            )
        )
        found = []
        for item, paths, is_whole in zip(compared, kept, whole, strict=True):
            found += (
                [next(texts)]
                if is_whole
                else await self._texts([item], paths)
                if paths
                else [""]
            )
        return found

    async def _texts(
        self,
        compared: Sequence[tuple[Snapshot, Snapshot, Step]],
        paths: Sequence[str] = (),
    ) -> list[str]:
        """Return a unified patch of these paths, or of all, for each pair with its differences; one git process makes them."""
        stdin = "".join(f"{old.tree} {new.tree}\n" for old, new, _ in compared).encode()
        output = await self.git.ask(
            *_PATCH, "--", *(b"content/" + raw(path) for path in paths), stdin=stdin
        )
        found = []
        for (_, _, step), patch in zip(
            compared, _BEGINNING.split(output)[1:], strict=True
        ):
            lines = [
                f"{path}: {_described(was)} -> {_described(now)}\n"
                for path, (was, now) in sorted(step.items())
                if (was.endswith(_NOT_KEPT) or now.endswith(_NOT_KEPT))
                and (
                    not paths
                    or any(
                        f"{path}/".startswith(one.rstrip("/") + "/") for one in paths
                    )
                )
            ]
            found.append(patch.decode("utf-8", "surrogateescape") + "".join(lines))
        return found

    async def _steps(self, pairs: Sequence[tuple[Snapshot, Snapshot]]) -> list[Step]:
        """Return for each pair what differs, repositories included."""
        steps = await self._rows(pairs)
        # By step: the lists of unstored content before and after, as ids of blobs; empty if they are the same.
        lists = [
            tuple(side.partition(" ")[2] for side in step.pop(_MANIFEST, ("", "")))
            for step in steps
        ]
        names = {snapshot.repository for pair in pairs for snapshot in pair}.union(
            *lists
        )
        blobs = {"": b"{}", **await self._lists(names - {""})}
        for step, (old, new), (before, after) in zip(steps, pairs, lists, strict=True):
            was = _beside_the_tree(blobs[before], blobs[old.repository])
            now = _beside_the_tree(blobs[after], blobs[new.repository])
            for path in was.keys() | now.keys():
                in_trees = step.pop(path, ("", ""))
                sides = was.get(path) or in_trees[0], now.get(path) or in_trees[1]
                if sides[0] != sides[1]:
                    step[path] = sides
        return steps

    async def _rows(self, pairs: Sequence[tuple[Snapshot, Snapshot]]) -> list[Step]:
        """Return for each pair what differs in their trees."""
        stdin = "".join(f"{old.tree} {new.tree}\n" for old, new in pairs).encode()
        output = await self.git.ask(
            "diff-tree", "--stdin", "-r", "-z", "--no-renames", stdin=stdin
        )
        steps: list[Step] = []
        for row in _ROW.finditer(output):
            if row[5] is None:
                steps.append({})
                continue
            # An absent path has an id of zeros.
            sides = [
                f"{row[one].decode()} {row[one + 2].decode()}"
                if row[one + 2].strip(b"0")
                else ""
                for one in (1, 2)
            ]
            path = (
                _MANIFEST
                if row[5] == b"unstored"
                else printable_path(row[5].removeprefix(b"content/"))
            )
            steps[-1][path] = (sides[0], sides[1])
        if len(steps) != len(pairs):
            raise GitFailed(
                f"a snapshot cannot be read: a tree is not in {self.git.store}"
            )
        return steps

    async def _lists(self, names: Iterable[str]) -> dict[str, bytes]:
        return await self.contents(dict.fromkeys(sorted(names), "a list of paths"))


def _beside_the_tree(unstored: bytes, repositories: bytes) -> dict[str, str]:
    """Return what identifies the content of a snapshot that is not in its tree: unstored files, and repositories."""
    files = {
        path: f"{entry.mode} {entry.blob}{_NOT_KEPT}"
        for path, entry in read_manifest(unstored).items()
    }
    found: dict[str, str] = json.loads(repositories)
    return files | found


def _kind(
    path: str, was: str, now: str
) -> Literal["added", "modified", "deleted", "repository"]:
    if path.rpartition("/")[2] == ".git":  # no file of this name is in a snapshot
        return "repository"
    return "modified" if was and now else "added" if now else "deleted"


def _entry(side: str) -> Entry | None:
    """Return the entry that a side of a step describes."""
    if not side:
        return None
    mode, _, blob = side.removesuffix(_NOT_KEPT).partition(" ")
    return Entry(mode, blob, stored=not side.endswith(_NOT_KEPT))


def _side(entry: Entry) -> str:
    return f"{entry.mode} {entry.blob}{'' if entry.stored else _NOT_KEPT}"


def _described(side: str) -> str:
    if not side.endswith(_NOT_KEPT):
        return "not there"
    blob = side.split(" ")[1]
    return f"not kept, sha256 {blob[:16]}" if blob else "unreadable"


class Patterns:
    """An ordered list of patterns; the last one that matches decides, and `!` excludes a path.

    `tests/**` is everything below `tests`, `build/` the folder of that name anywhere, `/setup.py` the one at the root.
    Paths are relative, with forward slashes, in the form of `objects.shown`. Case matters on every system.
    """

    def __init__(self, lines: Sequence[str], *, builtin: bool = False) -> None:
        """Raise UsageError for an invalid pattern.

        `builtin` patterns, made by this program, are compiled at their first use.
        """
        self.lines = tuple(lines)
        if self.lines and not builtin:
            _compiled(self.lines)

    def rule(self, path: str) -> str | None:
        """Return the line that matches the path; None if none does, or a later one excludes it."""
        if not self.lines:
            return None
        compiled = _compiled(self.lines)
        if not compiled.may_match(path.removeprefix("./").removeprefix("/")):
            return None
        result = compiled.spec.check_file(path)
        return (
            self.lines[result.index]
            if result.include and result.index is not None
            else None
        )

    def match(self, path: str) -> bool:
        """Return whether a pattern matches the path."""
        return any(self.matches([path]))

    def matches(self, paths: Iterable[str]) -> Iterator[bool]:
        """Return for each path whether a pattern matches it."""
        if not self.lines:
            return (False for _ in paths)
        compiled = _compiled(self.lines)
        normal = (path.removeprefix("./").removeprefix("/") for path in paths)
        if compiled.excludes:
            return (
                bool(compiled.may_match(path)) and self.rule(path) is not None
                for path in normal
            )
        return (compiled.may_match(path) is not None for path in normal)


@dataclass(frozen=True)
class _Compiled:
    """A list of patterns in two forms."""

    spec: GitIgnoreSpec
    may_match: Callable[[str], object]
    """Matches if one of the patterns that do not begin with `!` does: one regular expression, some ten times faster."""
    excludes: bool
    """Whether a pattern begins with `!`."""


_ANYWHERE = "^(?:.+/)?"
"""The beginning of the regular expression of a pattern that matches in every folder."""


@lru_cache(maxsize=64)
def _compiled(lines: tuple[str, ...]) -> _Compiled:
    """Return the compiled patterns; a run uses the same few lists in each round."""
    from pathspec import GitIgnoreSpec  # many commands never match a pattern

    patterns: list[Any] = []
    for line in lines:
        try:
            patterns += GitIgnoreSpec.from_lines([line]).patterns
        except ValueError as error:
            message = f"{line!r} is not a valid pattern of paths: {error}"
            raise UsageError(message, "write it as in a .gitignore") from error
    # A group has a name, which can be there only once in one expression.
    including = [
        re.sub(r"\(\?P<\w+>", "(?:", one.regex.pattern)
        for one in patterns
        if one.include
    ]
    anywhere = [
        text.removeprefix(_ANYWHERE) for text in including if text.startswith(_ANYWHERE)
    ]
    bound = [text for text in including if not text.startswith(_ANYWHERE)]
    if anywhere:
        bound.append(f"{_ANYWHERE}(?:{'|'.join(anywhere)})")
    combined = re.compile("|".join(bound) if bound else "(?!)")
    return _Compiled(
        GitIgnoreSpec(patterns),
        combined.search,
        any(one.include is False for one in patterns),
    )


CACHES: tuple[str, ...] = (
    "__pycache__/", ".pytest_cache/", ".hypothesis/", ".testmondata*", ".mypy_cache/", ".dmypy.json", ".pytype/", ".pyre/",
    ".ruff_cache/", ".import_linter_cache/", ".tox/", ".nox/", ".ipynb_checkpoints/", ".coverage", ".coverage.*", "htmlcov/",
    ".nyc_output/", "node_modules/.cache/", "node_modules/.vite/", "node_modules/.vitest/", ".eslintcache",
    ".stylelintcache", ".parcel-cache/", ".turbo/", "*.tsbuildinfo", ".gradle/", ".DS_Store", "Thumbs.db",
)  # fmt: skip
"""Caches of test runners, compilers and linters, and measurements of coverage; as in a .gitignore."""
