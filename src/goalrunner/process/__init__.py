"""Child processes: starting them, cutting them, and leaving nobody behind. Knows nothing of agents or validators."""

from __future__ import annotations

from goalrunner.process.connection import ProcessConnection, ProcessConnector
from goalrunner.process.environment import child_environment, credentials_of
from goalrunner.process.launcher import ProcessLauncher

__all__ = ["ProcessConnection", "ProcessConnector", "ProcessLauncher", "child_environment", "credentials_of"]
