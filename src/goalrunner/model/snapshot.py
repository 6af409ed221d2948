"""The content of the workspace at one moment, and what changed between two. Owns their shape; takes none."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from goalrunner.model.base import Frozen


class Snapshot(Frozen):
    """The whole workspace at one moment, kept in a private store outside of it."""

    id: str = Field(pattern=r"^[0-9a-f]{64}$", description="hash over everything below: equal ids, equal workspaces")
    tree: str = Field(
        pattern=r"^[0-9a-f]{40,64}$", description="the git tree of the content, nested repositories folded in"
    )
    repository: str = Field(
        default="", description="hash over HEAD, refs and index of the user's repositories; empty: none"
    )


class Change(Frozen):
    """One path that differs between two snapshots. `path` is relative to the workspace, with forward slashes."""

    path: str
    kind: Literal["added", "modified", "deleted", "repository"] = Field(
        description="repository: HEAD, refs or index of a git repository changed, its files did not"
    )
