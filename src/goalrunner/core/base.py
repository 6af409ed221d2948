"""The base class of all records, and snapshots of the workspace."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    """An immutable record; an unknown field is an error, so that a typing mistake can never pass in silence."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True, hide_input_in_errors=True
    )


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
