"""Who sits here: user@host. Owns that name alone."""

from __future__ import annotations

import getpass
import os
import socket


def who() -> str:
    """The user of this process and its machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # an id without a name, as in many containers
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
