"""Reads the snapshots of a store, and what differs between them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import (
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from goalrunner.core.errors import WorkspaceError
from goalrunner.core.observation import (
    Change,
    DiffStat,
    Snapshot,
)
from goalrunner.snapshots.files import read_manifest
from goalrunner.snapshots.git import Git, GitFailed
from goalrunner.snapshots.objects import (
    Entry,
    EntryPair,
    object_id,
)
from goalrunner.snapshots.paths import printable_path, raw
from goalrunner.snapshots.patterns import Patterns

_PATCH = (
    "-c", "core.bigFileThreshold=1m", "diff-tree", "--stdin", "-r", "-p",
    "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
    "--relative=content/", "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip
"""The git command of patches. Larger files are not printed line by line."""
_BEGINNING = re.compile(rb"^[0-9a-f]{40,64} [0-9a-f]{40,64}\n", re.MULTILINE)
"""The line that begins the patch of two trees.

Lines of a file begin with a space, "+", "-" or a backslash.
"""

_ROW = re.compile(rb":(\d+) (\d+) (\w+) (\w+) \w+\0([^\0]+)\0|\w+ \w+\n")
"""A path that differs, or the line that begins the comparison of two trees."""

_LISTED = re.compile(rb"(\d+) blob (\w+)\tcontent/([^\0]+)")
"""Mode, blob and path of a file in the output of `ls-tree -z`."""

Step = dict[str, tuple[str, str]]
"""What differs between two snapshots, by path.

The two sides are what identifies its content before and after, empty where it does not
exist.
"""


_MANIFEST = ""
"""The path, in the differences of two trees, of the list of unstored content."""
_NOT_KEPT = " not kept"
"""The end of what identifies a content that is not stored."""


@dataclass(frozen=True)
class _Comparison:
    """Two snapshots, and what differs between them."""

    old: Snapshot
    new: Snapshot
    step: Step


class SnapshotReader:
    """Reads snapshots.

    The tree of a snapshot contains `content`, and `unstored` if some content is not
    stored. Paths are in the form of `objects.printable_path`. Caches and the goal's
    `outputs` match `caches_and_outputs`.
    """

    def __init__(self, git: Git, caches_and_outputs: Patterns) -> None:
        self.git = git
        self._caches_and_outputs = caches_and_outputs
        self.left_by_checks: dict[str, list[str]] = {}
        """By file that checks made in the workspace, the contents that they gave it.

        These are no differences.
        """

    async def entries(self, snapshot: Snapshot) -> Mapping[str, Entry]:
        """Return the entry of every path of a snapshot.

        Raise WorkspaceError if it is not in the store.
        """
        entries = {
            printable_path(path): Entry(mode.decode(), blob.decode())
            for mode, blob, path in await self._rows_of(snapshot)
        }
        entries.update(await self.unstored(snapshot))
        return entries

    async def unstored(self, snapshot: Snapshot) -> Mapping[str, Entry]:
        """Return the paths of a snapshot whose content is not stored."""
        row = await self.git.ask(
            "ls-tree",
            "-z",
            "--full-tree",
            snapshot.tree,
            "unstored",
        )
        if not row:
            return {}
        blob = row.split()[2].decode()
        lists = await self._lists([blob])
        return read_manifest(lists[blob])

    async def read(self, snapshot: Snapshot, path: str) -> bytes | None:
        """Return the content of a file, or the target of a link.

        Return None if the path does not exist. Raise WorkspaceError if the content was
        not stored, or is not what the snapshot recorded.
        """
        listed = await self.git.ask(
            "ls-tree",
            "-z",
            "--full-tree",
            snapshot.tree,
            b"content/" + raw(path),
        )
        # The rows of a folder are those in it.
        for _, blob, name in _LISTED.findall(listed):
            if printable_path(name) == path:
                contents = await self.contents({blob.decode(): path})
                return contents[blob.decode()]
        if path in await self.unstored(snapshot):
            raise WorkspaceError(
                f"{path} is in the snapshot only as a hash; its content was not stored"
            )
        return None

    def changed(self, what: str) -> WorkspaceError:
        """Return the error for an object with another content than its id says.

        Git does not compare them when it reads an object.
        """
        store = self.git.store
        return WorkspaceError(
            f"the kept content of {what} differs from the snapshot: "
            f"a file in {store} was changed",
            f"remove {store} and start a new run; the original content is lost",
        )

    async def listing(self, snapshot: Snapshot) -> tuple[list[str], dict[str, str]]:
        """Return all paths of a snapshot, and the targets of the stored links."""
        # Ten times faster than `entries`, which makes an object for each path.
        rows = await self._rows_of(snapshot)
        links = {
            printable_path(name): blob.decode()
            for mode, blob, name in rows
            if mode == b"120000"
        }
        targets = await self.contents({blob: path for path, blob in links.items()})
        paths = _printable_paths(rows)
        paths += await self.unstored(snapshot)
        return paths, {path: os.fsdecode(targets[blob]) for path, blob in links.items()}

    async def _rows_of(self, snapshot: Snapshot) -> list[tuple[bytes, bytes, bytes]]:
        """Return mode, blob and path of all stored files, in bytes."""
        return _LISTED.findall(
            await self.git.ask("ls-tree", "-r", "-z", "--full-tree", snapshot.tree)
        )

    async def contents(self, paths: Mapping[str, str]) -> dict[str, bytes]:
        """Return the content of stored files by its id.

        `paths` has the path of each id, for errors. Raise WorkspaceError if a content
        is not what its id says.
        """
        if not paths:
            return {}
        stdin = "".join(f"{blob}\n" for blob in paths)
        output = await self.git.ask("cat-file", "--batch", stdin=stdin.encode())
        contents: dict[str, bytes] = {}
        place = 0
        for blob, path in paths.items():
            # "ID blob SIZE", or "ID missing"; then the content and a newline.
            heading_end = output.index(b"\n", place)
            heading = output[place:heading_end].split(b" ")
            if heading[1:2] != [b"blob"]:
                raise GitFailed(
                    f"a snapshot cannot be read: {path} ({blob}) "
                    f"is not in {self.git.store}"
                )
            content_end = heading_end + 1 + int(heading[2])
            contents[blob] = output[heading_end + 1 : content_end]
            if object_id("blob", contents[blob]) != blob:
                raise self.changed(path)
            place = content_end + 1
        return contents

    async def changed_entries(
        self,
        old: Snapshot,
        new: Snapshot,
    ) -> dict[str, EntryPair]:
        """Return the paths that differ, with their entries, without repositories."""
        step = await self._step(old, new)
        entries: dict[str, EntryPair] = {}
        for path, sides in step.items():
            if _is_repository(path) or self._is_left_by_checks(path, sides):
                continue
            before, after = sides
            entries[path] = (_entry(before), _entry(after))
        return entries

    async def changes(self, old: Snapshot, new: Snapshot) -> tuple[Change, ...]:
        """Return what differs, sorted by path, without caches and `outputs`."""
        return _changes(self._counted(await self._step(old, new)))

    async def all_changes(self, old: Snapshot, new: Snapshot) -> tuple[Change, ...]:
        """Return everything that differs, sorted by path.

        Repositories are `.git` or `vendor/lib/.git`.
        """
        return _changes(await self._step(old, new))

    async def differences(self, snapshots: Sequence[Snapshot]) -> list[Step]:
        """Compare each of these with the next one, without caches and `outputs`.

        At most two git processes run, however many snapshots there are.
        """
        steps = await self._steps(list(pairwise(snapshots)))
        return list(map(self._counted, steps))

    def _counted(self, step: Step) -> Step:
        """Return the differences that are neither in caches nor in `outputs`."""
        return {
            path: sides for path, sides in step.items() if self._counts(path, sides)
        }

    def _counts(self, path: str, sides: tuple[str, str]) -> bool:
        is_expected = self._caches_and_outputs.match(path)
        return not is_expected and not self._is_left_by_checks(path, sides)

    def _is_left_by_checks(self, path: str, sides: tuple[str, str]) -> bool:
        """Return whether a file of checks only appeared, disappeared or changed."""
        contents = self.left_by_checks.get(path)
        if not contents:
            return False
        # A side is empty if the file did not exist.
        return all(not side or side in contents for side in sides)

    async def left_in(self, snapshot: Snapshot) -> set[str]:
        """Return the files of checks with the content that the last check gave them."""
        entries = await self.entries(snapshot)
        paths: set[str] = set()
        for path, contents in self.left_by_checks.items():
            if path in entries and _side(entries[path]) == contents[-1]:
                paths.add(path)
        return paths

    async def note_left(self, before: Snapshot, after: Snapshot) -> list[str]:
        """Note the files that a check made or made again; return the new ones.

        Repositories that it changed are noted as well.
        """
        [step] = await self.differences((before, after))
        new = [path for path, (old, _) in step.items() if not old]
        for path, sides in step.items():
            earlier = self.left_by_checks.get(path)
            if not (path in new or earlier is not None or _is_repository(path)):
                continue
            # The content after the check is the last one: see `left_in`.
            contents = [side for side in earlier or () if side not in sides]
            contents += filter(None, sides)
            self.left_by_checks[path] = contents
        return new

    async def diff_stat(self, old: Snapshot, new: Snapshot) -> DiffStat:
        """Count the files and lines that differ, without caches and `outputs`."""
        output = await self.git.ask(
            "diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-textconv",
            f"{old.tree}:content", f"{new.tree}:content",
        )  # fmt: skip
        counted: Step | None = None
        if self.left_by_checks:
            [counted] = await self.differences((old, new))
        files = added = removed = 0
        for row in output.split(b"\0")[:-1]:
            added_lines, removed_lines, name = row.split(b"\t", 2)
            path = printable_path(name)
            # Matching the names is enough if no check made a file.
            if counted is None and self._caches_and_outputs.match(path):
                continue
            if counted is not None and path not in counted:
                continue
            files += 1
            # It is "-" for a binary file.
            added += int(added_lines) if added_lines.isdigit() else 0
            removed += int(removed_lines) if removed_lines.isdigit() else 0
        return DiffStat(
            files=files,
            added=added,
            removed=removed,
        )

    async def diff(
        self,
        old: Snapshot,
        new: Snapshot,
        paths: Sequence[str] = (),
    ) -> str:
        """Return a unified patch from one to the other, of these paths or folders.

        Without `paths`, it is of all. Large and binary files are only named. Bytes that
        are not UTF-8 are replaced.
        """
        step = await self._step(old, new)
        [text] = await self._texts([_Comparison(old, new, step)], paths)
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    async def patches(self, pairs: Sequence[tuple[Snapshot, Snapshot]]) -> list[str]:
        """Return a unified patch for each pair, without caches and `outputs`.

        Bytes that are not UTF-8 are surrogates.
        """
        steps = await self._steps(pairs)
        patches = [""] * len(pairs)
        whole: dict[int, _Comparison] = {}
        for number, ((old, new), step) in enumerate(zip(pairs, steps, strict=True)):
            comparison = _Comparison(old, new, step)
            counted_paths = list(self._counted(step))
            if len(counted_paths) == len(step):
                whole[number] = comparison
            elif counted_paths:
                [patches[number]] = await self._texts([comparison], counted_paths)
        # Most patches leave nothing out, and one git process makes all of those.
        texts = await self._texts(list(whole.values()))
        for number, text in zip(whole, texts, strict=True):
            patches[number] = text
        return patches

    async def _texts(
        self,
        comparisons: Sequence[_Comparison],
        paths: Sequence[str] = (),
    ) -> list[str]:
        """Return a unified patch of these paths, or of all, for each comparison.

        One git process makes them.
        """
        stdin = "".join(f"{one.old.tree} {one.new.tree}\n" for one in comparisons)
        arguments = [b"content/" + raw(path) for path in paths]
        output = await self.git.ask(*_PATCH, "--", *arguments, stdin=stdin.encode())
        _, *patches = _BEGINNING.split(output)
        texts: list[str] = []
        for comparison, patch in zip(comparisons, patches, strict=True):
            lines = _lines_of_unstored(comparison.step, paths)
            texts.append(patch.decode("utf-8", "surrogateescape") + "".join(lines))
        return texts

    async def _step(self, old: Snapshot, new: Snapshot) -> Step:
        """Return what differs between two snapshots, repositories included."""
        [step] = await self._steps([(old, new)])
        return step

    async def _steps(self, pairs: Sequence[tuple[Snapshot, Snapshot]]) -> list[Step]:
        """Return for each pair what differs, repositories included."""
        steps = await self._rows(pairs)
        # The lists of unstored content before and after, as ids of blobs; empty if they
        # are the same.
        manifests: list[tuple[str, str]] = []
        names: set[str] = set()
        for (old, new), step in zip(pairs, steps, strict=True):
            before, after = step.pop(_MANIFEST, ("", ""))
            manifest_ids = before.partition(" ")[2], after.partition(" ")[2]
            manifests.append(manifest_ids)
            names.update(manifest_ids, (old.repository, new.repository))
        # One git process reads all of them.
        lists = {"": b"{}", **await self._lists(names - {""})}
        for step, (old, new), (before, after) in zip(
            steps,
            pairs,
            manifests,
            strict=True,
        ):
            old_sides = _beside_the_tree(lists[before], lists[old.repository])
            new_sides = _beside_the_tree(lists[after], lists[new.repository])
            for path in old_sides.keys() | new_sides.keys():
                # A path may be in the tree of one snapshot, and unstored in the other.
                old_in_tree, new_in_tree = step.pop(path, ("", ""))
                old_side = old_sides.get(path) or old_in_tree
                new_side = new_sides.get(path) or new_in_tree
                if old_side != new_side:
                    step[path] = (old_side, new_side)
        return steps

    async def _rows(self, pairs: Sequence[tuple[Snapshot, Snapshot]]) -> list[Step]:
        """Return for each pair what differs in their trees."""
        stdin = "".join(f"{old.tree} {new.tree}\n" for old, new in pairs)
        output = await self.git.ask(
            "diff-tree",
            "--stdin",
            "-r",
            "-z",
            "--no-renames",
            stdin=stdin.encode(),
        )
        steps: list[Step] = []
        for row in _ROW.finditer(output):
            old_mode, new_mode, old_id, new_id, name = row.groups()
            if name is None:
                steps.append({})
                continue
            path = _MANIFEST
            if name != b"unstored":
                path = printable_path(name.removeprefix(b"content/"))
            sides = _side_in_tree(old_mode, old_id), _side_in_tree(new_mode, new_id)
            steps[-1][path] = sides
        # Git prints nothing for a tree that is missing.
        if len(steps) != len(pairs):
            raise GitFailed(
                f"a snapshot cannot be read: a tree is not in {self.git.store}"
            )
        return steps

    async def _lists(self, names: Iterable[str]) -> dict[str, bytes]:
        return await self.contents(dict.fromkeys(sorted(names), "a list of paths"))


def _printable_paths(rows: Sequence[tuple[bytes, bytes, bytes]]) -> list[str]:
    """Return the paths of rows, in the form of `objects.printable_path`."""
    text = b"\0".join(name for _, _, name in rows).decode(errors="surrogateescape")
    if "\\" in text or not text.replace("\0", "").isprintable():
        return [printable_path(name) for _, _, name in rows]
    # Nothing has to be escaped: ten times faster than path by path.
    return text.split("\0") if rows else []


def _changes(step: Step) -> tuple[Change, ...]:
    """Return the changes of a step, sorted by path."""
    return tuple(
        Change(
            path=path,
            kind=_kind(path, old, new),
        )
        for path, (old, new) in sorted(step.items())
    )


def _lines_of_unstored(step: Step, paths: Sequence[str]) -> list[str]:
    """Return a line for each path of a patch whose content is not stored."""
    lines: list[str] = []
    folders = tuple(path.rstrip("/") + "/" for path in paths)
    for path, (old, new) in sorted(step.items()):
        is_wanted = not paths or f"{path}/".startswith(folders)
        if is_wanted and (old.endswith(_NOT_KEPT) or new.endswith(_NOT_KEPT)):
            lines.append(f"{path}: {_described(old)} -> {_described(new)}\n")
    return lines


def _beside_the_tree(unstored: bytes, repositories: bytes) -> dict[str, str]:
    """Return what identifies the content of a snapshot that is not in its tree.

    These are unstored files, and repositories.
    """
    sides = {
        path: f"{entry.mode} {entry.blob}{_NOT_KEPT}"
        for path, entry in read_manifest(unstored).items()
    }
    sides.update(json.loads(repositories))
    return sides


def _is_repository(path: str) -> bool:
    # No file of this name is in a snapshot.
    return path.rpartition("/")[2] == ".git"


def _kind(
    path: str,
    old: str,
    new: str,
) -> Literal["added", "modified", "deleted", "repository"]:
    if _is_repository(path):
        return "repository"
    if not old:
        return "added"
    return "modified" if new else "deleted"


def _side_in_tree(mode: bytes, blob: bytes) -> str:
    """Return what identifies a content in the output of `diff-tree`."""
    # A path that does not exist has an id of zeros.
    exists = blob.strip(b"0")
    return f"{mode.decode()} {blob.decode()}" if exists else ""


def _entry(side: str) -> Entry | None:
    """Return the entry that a side of a step describes."""
    if not side:
        return None
    mode, _, blob = side.removesuffix(_NOT_KEPT).partition(" ")
    return Entry(mode, blob, stored=not side.endswith(_NOT_KEPT))


def _side(entry: Entry) -> str:
    """Return what identifies the content of an entry."""
    side = f"{entry.mode} {entry.blob}"
    return side if entry.stored else side + _NOT_KEPT


def _described(side: str) -> str:
    if not side.endswith(_NOT_KEPT):
        return "not there"
    blob = side.split(" ")[1]
    return f"not kept, sha256 {blob[:16]}" if blob else "unreadable"
