"""The folder that the work happens in. Owns looking at it; never writes into it."""

from __future__ import annotations

from goalrunner.workspace.describe import WorkspaceDescription, describe

__all__ = ["WorkspaceDescription", "describe"]
