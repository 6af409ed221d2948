"""The packages of dependency folders, and labels for what differs from the start of a run."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.snapshots.objects import shown

_MANY = 20
"""More packages with changed code are counted, not named."""


@dataclass
class Installed:
    """What a dependency folder contains.

    `code` has a digest for each part: `package:NAME`, and `folder:PATH` and `file:PATH` of no package. `records` are
    digests of the hashes that a Python package was installed with; `own` are editable installs of the workspace.
    """

    kind: str
    versions: dict[str, list[str]] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    records: dict[str, str] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)
    files: dict[str, list[str]] = field(default_factory=dict)
    """The names that each part has now; not written down."""

    def as_json(self) -> dict[str, object]:
        """Return it for JSON."""
        return vars(self) | {"files": {}}

    def add_version(self, name: str, version: str) -> None:
        """Add a version of a package; several copies of one version count once."""
        self.versions[name] = sorted({*self.versions.get(name, ()), version})


def labels(
    before: Mapping[str, Installed], after: Mapping[str, Installed], workspace: Path, verified: set[tuple[str, str]]
) -> dict[str, list[str]]:
    """Return labels for what differs in the folders of the start: "+httpx 0.28", "code of requests changed".

    Folders without a difference are left out. `verified` remembers, by part and digest, what was compared with its RECORD.
    """
    found: dict[str, list[str]] = {}
    environments = {root for both in (before, after) for root, installed in both.items() if installed.kind == "python"}
    for root, old in before.items():
        new = after.get(root)
        prefix = "" if old.kind == "python" and len(environments) == 1 else f"{root}: "
        if new is None:
            found[root] = [f"{root} removed"]
        elif old.kind not in {"python", "node"} or new.kind != old.kind:
            found[root] = [f"{root} changed"] if (old.kind, old.code) != (new.kind, new.code) else []
        else:
            some = _differences(old, new, os.path.join(workspace, root), verified)
            found[root] = [shown(os.fsencode(prefix + label)) for label in some]
    return {root: some for root, some in found.items() if some}


def _differences(old: Installed, new: Installed, path: str, verified: set[tuple[str, str]]) -> list[str]:
    found, code, skipped = list[str](), list[str](), {*new.own}
    for name in (old.versions.keys() | new.versions.keys()) - skipped:
        was, now = old.versions.get(name, []), new.versions.get(name, [])
        gone, come = [one for one in was if one not in now], [one for one in now if one not in was]
        if gone or come:
            skipped.add(name)
        if len(gone) == len(come) == 1:
            found.append(f"{name} {gone[0]} → {come[0]}")
        else:
            found += [f"-{name} {version}".rstrip() for version in gone]
            found += [f"+{name} {version}".rstrip() for version in come]
    for part in {part for part, _ in old.code.items() ^ new.code.items()}:
        kind, _, name = part.partition(":")
        if (kind == "package" and name in skipped) or _is_as_installed(part, old, new, path, verified):
            continue
        if kind == "package":
            code.append(f"code of {name} changed")
        elif part not in old.code:
            found.append(f"new {kind} {name}")
        else:
            found.append(f"{kind} {name} {'changed' if part in new.code else 'removed'}")
    return found + (code if len(code) <= _MANY else [f"code of {len(code):,} packages changed"])


def _is_as_installed(part: str, old: Installed, new: Installed, path: str, verified: set[tuple[str, str]]) -> bool:
    """Return whether the files of a package have the hashes that its RECORD had at the start, and there are no others.

    A package that was installed once more has new times.
    """
    key = (f"{path} {part}", new.code.get(part, ""))
    if key not in verified:
        names = new.files.get(part)
        if not names or digest([f"{name}\0{_sha256(os.path.join(path, name))}" for name in names]) != old.records.get(
            part
        ):
            return False
        verified.add(key)
    return True


def _sha256(path: str) -> str:
    """Return a file's hash as RECORD writes it; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return base64.urlsafe_b64encode(hashlib.file_digest(file, "sha256").digest()).decode().rstrip("=")
    except OSError:
        return ""


def digest(lines: list[str]) -> str:
    """Return one digest of lines, whatever their order."""
    return hashlib.sha256("\0".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()[:32]
