"""What the check environment changes: which files have their original content in it, and which do not exist.

Of a project's manifest, only the part that configures checks is protected: a change of its dependencies is no change of a
check.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.checking import protection as rules
from goalrunner.checking.environment import File, Layer
from goalrunner.checking.ignored_content import CACHE, Changes, IgnoredContent
from goalrunner.checking.manifests import check_part
from goalrunner.checking.protection import Difference, Protection, StartFiles, differences
from goalrunner.core.errors import some
from goalrunner.core.labels import Label
from goalrunner.snapshots.diff import CACHES, Patterns
from goalrunner.snapshots.objects import Entry, EntryPair, raw
from goalrunner.snapshots.store import SnapshotStore

_CACHES = Patterns(CACHES, own=True)


@dataclass(frozen=True)
class Plan:
    """One check run: the differences between the live workspace and what validators see.

    `originals` is the layer of the first run. `differences` are protected paths whose original content it has, `allowed`
    those that the goal or a person lets the agent change. `appeared` are ignored files that are new and hidden.
    """

    originals: Layer
    differences: tuple[Difference, ...] = ()
    allowed: tuple[Difference, ...] = ()
    appeared: tuple[str, ...] = ()
    refusal: str = ""
    hint: str = ""
    dependencies: tuple[str, ...] = ()
    key: str = ""

    def layer(self, *, appeared: bool = False, agents_checks: bool = False) -> Layer:
        """Return the layer with ignored files that are new, or with the agent's versions of the checks."""
        put, hide = dict(self.originals.put), set(self.originals.hide)
        if appeared:
            hide -= set(self.appeared)
        if agents_checks:
            for item in self.differences:
                put.pop(on_disk(item.path), None)
                hide.discard(on_disk(item.path))
        return Layer(self.originals.root, put, frozenset(hide))


async def make_plan(
    store: SnapshotStore,
    workspace: Path,
    protection: Protection,
    ignored: IgnoredContent,
    changes: Changes,
    start: StartFiles,
    changed: Mapping[str, EntryPair],
    approved: frozenset[str] = frozenset(),
) -> Plan:
    """Plan a check by what `changed` since the start. `approved` are keys of changed checks that a person has accepted."""
    protection = start.followed(protection)
    protected, free = differences(protection, start, changed)
    protected = tuple(item for item in protected if not (item.kind == "planted" and _CACHES.match(item.path)))
    contents = await _contents(store, changed, (*protected, *free))
    differing = tuple(item for item in protected if _concerns_checks(item, changed[item.path], contents))
    allowed = tuple(item for item in free if _concerns_checks(item, changed[item.path], contents))
    differing = (*differing, *_folders_before(protection, workspace, start))
    key = _key(differing, changed)
    if differing and key in approved and not protection.strict:
        differing, allowed = (), (*allowed, *differing)
    if not protection.strict:  # ignored files keep their content with protect and editable alone
        allowed = (*allowed, *_touched(protection, changes.changed))
    restored = [item.path for item in differing if item.kind != "planted"]
    originals = {path: _original(changed[path][0], contents) for path in restored}
    put = {on_disk(path): original for path, original in originals.items() if original is not None}
    lost = [path for path, original in originals.items() if original is None]
    hide = {on_disk(item.path) for item in differing if item.kind == "planted"}
    hide |= {*changes.caches, *_bytecode(protection, start, changed, put)}
    if protection.strict:  # ignored files have the content of the start, and build output is built anew
        may_change = protection.is_editable if protection.mode == "editable" else protection.allowed
        originals = {path: ignored.original(path) for path in changes.changed if not may_change(path)}
        put |= {path: original for path, original in originals.items() if original is not None}
        lost += [path for path, original in originals.items() if original is None]
        hide |= {path for path in changes.build if not protection.allowed(path)}
    refusal, hint = _refusal(protection, lost, changes)
    appeared = tuple(path for path in changes.appeared if not (protection.editable and protection.is_editable(path)))
    hide |= set(appeared)
    # With `editable`, the validators never see them.
    retried = () if protection.mode == "editable" else appeared
    layer = Layer(workspace, put, frozenset(hide))
    return Plan(layer, differing, allowed, retried, refusal, hint, changes.dependencies, key)


async def _contents(
    store: SnapshotStore, changed: Mapping[str, EntryPair], items: Sequence[Difference]
) -> Mapping[str, bytes]:
    """Return the kept content of the paths by its id: what they had at the start, of configuration also what it is now."""
    paths: dict[str, str] = {}
    for item in items:
        old, new = changed[item.path]
        if old is not None and old.stored:
            paths[old.blob] = item.path
        if new is not None and new.stored and item.rule in _COMPARED_IN_PARTS:
            paths[new.blob] = item.path
    return await store.contents(paths)


def _bytecode(
    protection: Protection, start: StartFiles, changed: Mapping[str, EntryPair], put: Mapping[str, File]
) -> Iterator[str]:
    """Yield caches of bytecode that may belong to other content: beside protected sources, or written in the run."""
    sources = (path for path in start.protected(protection) if path.endswith(".py"))
    folders = {on_disk(folder) for folder in {posixpath.dirname(path) for path in sources}}
    folders |= {posixpath.dirname(path) for path in put if path.endswith(".py")}
    yield from (posixpath.join(folder, CACHE) for folder in folders)
    written = [path for path, (_, new) in changed.items() if new is not None]
    if protection.strict:
        written += start.caches
    for path in written:
        if cache := re.match(rf"(.*/)?{CACHE}(?=/|$)", path):
            yield on_disk(cache[0])


def on_disk(path: str) -> str:
    """Return a path of a snapshot as `os.fsdecode` gives it."""
    return os.fsdecode(raw(path))


def plan_labels(plan: Plan, *, green: bool) -> tuple[str, ...]:
    """Return what weakens a completion that rests on this plan."""
    found = []
    if plan.allowed:
        found.append(Label.CHECKS_CHANGED.about(some([item.path for item in plan.allowed])))
    if plan.dependencies:
        found.append(Label.DEPENDENCIES_CHANGED.about(some(plan.dependencies)))
    if green and plan.differences:
        found.append(Label.NOT_VERIFIED.about(some([item.path for item in plan.differences])))
    return tuple(found)


_COMPARED_IN_PARTS = frozenset({rules.CONFIGURATION, rules.NEW_CONFIGURATION, rules.NEW_LINTING})


def _concerns_checks(item: Difference, change: EntryPair, contents: Mapping[str, bytes]) -> bool:
    """Return whether a change concerns the configuration of checks; a new dependency in a manifest does not."""
    if item.rule not in _COMPARED_IN_PARTS or any(side is not None and not side.stored for side in change):
        return True
    versions = (None if side is None else contents[side.blob] for side in change)
    old, new = (check_part(item.path, one, only_linters=item.rule == rules.NEW_LINTING) for one in versions)
    return old != new


def _touched(protection: Protection, ignored: Sequence[str]) -> Iterator[Difference]:
    """Yield the protected scripts and sources of tests among changed files that git ignores."""
    for path in ignored:
        rule = protection.rule(path)
        if rule and (rules.SOURCE.search(path) or path in protection.scripts):
            yield Difference(path, "changed", rule)


def _folders_before(protection: Protection, workspace: Path, start: StartFiles) -> Iterator[Difference]:
    """Yield new folders that would be found before a file of a check. Snapshots contain no empty folders."""
    for path, rule in protection.scripts.items():
        if not rule.startswith(rules.BEFORE) or protection.allowed(path):
            continue
        if (workspace / path).is_dir() and path not in start.folders:
            yield Difference(path, "planted", rule)


def _original(entry: Entry | None, contents: Mapping[str, bytes]) -> File | None:
    if entry is None or not entry.stored:
        return None
    if entry.mode == rules.LINK:
        return File(stat.S_IFLNK | 0o777, contents[entry.blob])
    return File(stat.S_IFREG | (0o755 if entry.mode == "100755" else 0o644), contents[entry.blob])


def _key(differing: Sequence[Difference], changed: Mapping[str, EntryPair]) -> str:
    rows = []
    for item in differing:
        _, new = changed.get(item.path, (None, None))
        rows.append(f"{item.path}\0{new.blob if new else ''}")
    return hashlib.sha256("\0\0".join(rows).encode(errors="surrogateescape")).hexdigest()[:32]


def _refusal(protection: Protection, lost: Sequence[str], changes: Changes) -> tuple[str, str]:
    """Return why the check is refused, and a hint for a person; empty if it is not."""
    folders = changes.dependency_folders
    if lost:
        return (
            f"the original content of {some(lost)} is needed to check your work and is not kept; restore it",
            f"the run can go on if they may change: [workspace] allow = {json.dumps(lost[:5])}",
        )
    if protection.strict and not all(protection.allowed(name) or protection.allowed(f"{name}/x") for name in folders):
        message = f"installed packages changed ({some(changes.dependencies)}), which this goal does not allow"
        hint = f"if they may change: [workspace] allow = {json.dumps(folders[:5])}"
        hint += ', or setup = "..." to install them in a checkout'
        return f"{message}; put them back as they were", hint
    return "", ""
