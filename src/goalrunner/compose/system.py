"""Where time and names come from in a real run. Nothing below reads a clock of its own."""

from __future__ import annotations

import getpass
import os
import socket
import time
from datetime import UTC, datetime


class SystemClock:
    """The machine's clocks, as the port `Clock`."""

    def now(self) -> datetime:
        """The time of day in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()


def person() -> str:
    """Who types here: user@host."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # an id without a name, as containers have
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
