"""A connector that starts everything in a cell. Owns nothing else; another connector starts, talks and ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from goalrunner.ports import Connection, Connector
from goalrunner.process.jail.cell import Cell


@dataclass(frozen=True)
class JailedConnector:
    """The port `Connector` in a cell."""

    inner: Connector
    cell: Cell

    def connect(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], errors: Path
    ) -> AbstractAsyncContextManager[Connection]:
        """See `goalrunner.ports.Connector`. Raises RecordError where the jail's /tmp cannot be made."""
        return self.inner.connect(self.cell.confined(argv, cwd), cwd=cwd, env=env, errors=errors)
