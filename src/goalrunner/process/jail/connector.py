"""A connector that starts everything in a cell. Owns nothing else; another connector starts, talks and ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from goalrunner.errors import AgentNotInstalled
from goalrunner.ports import Connection, Connector
from goalrunner.process.jail.cell import Cell
from goalrunner.process.jail.startable import unstartable


@dataclass(frozen=True)
class JailedConnector:
    """The port `Connector` in a cell."""

    inner: Connector
    cell: Cell

    def connect(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], errors: Path
    ) -> AbstractAsyncContextManager[Connection]:
        """See `goalrunner.ports.Connector`. Raises AgentNotInstalled, and RecordError where its /tmp cannot be made."""
        if (missing := unstartable(argv, cwd, env)) is not None:
            raise AgentNotInstalled(missing.reason)
        return self.inner.connect(self.cell.confined(argv, cwd), cwd=cwd, env=env, errors=errors)
