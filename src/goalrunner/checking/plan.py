"""What the check environment changes: which files have their original content in it, and which do not exist."""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.checking.environment import File, Layer
from goalrunner.checking.ignored_content import Changes, IgnoredContent
from goalrunner.checking.manifests import check_part
from goalrunner.checking.protection import (
    BEFORE,
    CONFIGURATION,
    LINK,
    NEW_CONFIGURATION,
    NEW_LINTING,
    SOURCE,
    Difference,
    Protection,
    differences,
)
from goalrunner.core.base import Snapshot
from goalrunner.snapshots.diff import Patterns
from goalrunner.snapshots.ignore_rules import CACHES
from goalrunner.snapshots.objects import Entry, raw
from goalrunner.snapshots.store import SnapshotStore

_CACHES = Patterns(CACHES, own=True)
_NAMED = 5


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
    base: Snapshot,
    now: Snapshot,
    approved: frozenset[str] = frozenset(),
) -> Plan:
    """Compare the workspace with its start. `approved` are keys of changed checks that a person has accepted."""
    before, after = await store.entries(base), await store.entries(now)
    protection = protection.with_link_targets(await _links(store, base, before))
    counted, free = differences(protection, before, after)
    counted = tuple(item for item in counted if not (item.kind == "planted" and _CACHES.match(item.path)))
    found = tuple([item for item in counted if await _concerns_checks(store, base, now, item)])
    allowed = tuple([item for item in free if await _concerns_checks(store, base, now, item)])
    found = (*found, *_folders_before(protection, workspace, before))
    key = _key(found, after)
    if found and key in approved and not protection.strict:
        found, allowed = (), (*allowed, *found)
    if not protection.strict:  # ignored files keep their content with protect and editable alone
        allowed = (*allowed, *_touched(protection, (*changes.changed, *changes.lost)))
    put: dict[str, File] = {}
    lost: list[str] = []
    for item in found:
        if item.kind != "planted":
            original = await _original(store, base, before[item.path], item.path)
            if original is None:
                lost.append(item.path)
            else:
                put[on_disk(item.path)] = original
    hide = {on_disk(item.path) for item in found if item.kind == "planted"}
    # Bytecode beside a protected source may be that of another content with the same time.
    sources = (on_disk(path) for path in before if protection.rule(path) and not protection.allowed(path))
    caches = {
        posixpath.join(posixpath.dirname(path), "__pycache__") for path in (*put, *sources) if path.endswith(".py")
    }
    if protection.strict:
        for path in after:
            head, inside, _ = f"/{path}".partition("/__pycache__/")
            if inside:
                caches.add(on_disk(f"{head}/__pycache__"[1:]))
    hide |= caches
    refusal, hint = _lost(lost)
    if protection.strict:
        more_put, more_hide, refused = _strict(protection, ignored, changes)
        put, hide = put | more_put, hide | more_hide
        refusal, hint = (refusal, hint) if refusal else refused
    appeared = tuple(path for path in changes.appeared if not (protection.editable and protection.is_editable(path)))
    hide |= set(appeared)
    shown = () if protection.mode == "editable" else appeared
    layer = Layer(workspace, put, frozenset(hide))
    return Plan(layer, found, allowed, shown, refusal, hint, _installed(changes), key)


def on_disk(path: str) -> str:
    """Return a path of a snapshot as `os.fsdecode` gives it."""
    return os.fsdecode(raw(path))


def labels(plan: Plan, *, green: bool) -> tuple[str, ...]:
    """Return what weakens a completion that rests on this plan."""
    found = []
    if plan.allowed:
        found.append(f"checks changed: {_shown([item.path for item in plan.allowed])}")
    if plan.dependencies:
        found.append(f"dependencies changed: {_shown(plan.dependencies)}")
    if green and plan.differences:
        found.append(f"not verified: {_shown([item.path for item in plan.differences])}")
    return tuple(found)


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


async def _concerns_checks(store: SnapshotStore, base: Snapshot, now: Snapshot, item: Difference) -> bool:
    """Return whether a change concerns what a file says about checks; a new dependency in a manifest does not."""
    if item.rule not in (CONFIGURATION, NEW_CONFIGURATION, NEW_LINTING):
        return True
    old, new = await store.read(base, item.path), await store.read(now, item.path)
    only_linters = item.rule == NEW_LINTING
    return check_part(item.path, old, only_linters=only_linters) != check_part(
        item.path, new, only_linters=only_linters
    )


def _touched(protection: Protection, ignored: Sequence[str]) -> Iterator[Difference]:
    """Yield the protected scripts and sources of tests among changed files that git ignores."""
    for path in ignored:
        rule = protection.rule(path)
        if rule and (SOURCE.search(path) or path in protection.scripts):
            yield Difference(path, "changed", rule)


def _folders_before(protection: Protection, workspace: Path, before: Mapping[str, Entry]) -> Iterator[Difference]:
    """Yield new folders that stand where a file of a check would be found; no snapshot holds one that is empty."""
    for path, rule in protection.scripts.items():
        new = rule.startswith(BEFORE) and not any(name.startswith(f"{path}/") for name in before)
        if new and (workspace / path).is_dir() and not protection.allowed(path):
            yield Difference(path, "planted", rule)


async def _links(store: SnapshotStore, snapshot: Snapshot, entries: Mapping[str, Entry]) -> dict[str, str]:
    names = [name for name, entry in entries.items() if entry.mode == LINK and entry.stored]
    return {name: os.fsdecode(await store.read(snapshot, name) or b"") for name in names}


async def _original(store: SnapshotStore, base: Snapshot, entry: Entry, path: str) -> File | None:
    if not entry.stored:
        return None
    content = await store.read(base, path)
    if content is None:
        return None
    if entry.mode == LINK:
        return File(stat.S_IFLNK | 0o777, content)
    return File(stat.S_IFREG | (0o755 if entry.mode == "100755" else 0o644), content)


def _key(found: Sequence[Difference], now: Mapping[str, Entry]) -> str:
    rows = [f"{item.path}\0{now[item.path].blob if item.path in now else ''}" for item in found]
    return hashlib.sha256("\0\0".join(rows).encode(errors="surrogateescape")).hexdigest()[:32]


def _lost(paths: Sequence[str]) -> tuple[str, str]:
    if not paths:
        return "", ""
    return (
        f"the original content of {_shown(paths)} is needed to check your work and is not kept; restore it",
        f"the run can go on if they may change: [workspace] allow = [{_quoted(paths)}]",
    )


def _strict(
    protection: Protection, ignored: IgnoredContent, changes: Changes
) -> tuple[dict[str, File], set[str], tuple[str, str]]:
    """With `protect` or `editable`: ignored files have the content of the start, and build output is built anew."""
    put: dict[str, File] = {}
    free = protection.is_editable if protection.mode == "editable" else protection.allowed
    for path in changes.changed:
        original = None if free(path) else ignored.original(path)
        if original is not None:
            put[path] = original
    hide = {path for path in changes.build if not protection.allowed(path)}
    lost = [path for path in changes.lost if not free(path)]
    refusal = _lost(lost)
    folders = (*changes.dependency_folders, *changes.new_dependencies)
    if not refusal[0] and not all(protection.allowed(name) or protection.allowed(f"{name}/x") for name in folders):
        said = f"installed packages changed ({_shown(_installed(changes))}), which this goal does not allow"
        hint = f'if they may change: [workspace] allow = [{_quoted(folders)}], or setup = "..." to install them in a checkout'
        refusal = (f"{said}; put them back as they were", hint)
    return put, hide, refusal


def _installed(changes: Changes) -> tuple[str, ...]:
    """Return what differs in installed packages, new folders included."""
    return (*changes.dependencies, *(f"+{folder}" for folder in changes.new_dependencies))


def _quoted(paths: Sequence[str]) -> str:
    return ", ".join(f'"{path}"' for path in paths[:_NAMED])
