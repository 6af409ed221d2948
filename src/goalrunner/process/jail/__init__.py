"""Jails: commands that see and write only what is theirs. Knows nothing of goals, agents or validators."""

from __future__ import annotations

from goalrunner.process.jail.bubblewrap import Bubblewrap
from goalrunner.process.jail.cell import Cell, Room
from goalrunner.process.jail.choosing import Choice, choose
from goalrunner.process.jail.connector import JailedConnector
from goalrunner.process.jail.launcher import JailedLauncher
from goalrunner.process.jail.secrets import hidden_in
from goalrunner.process.jail.sight import hidden_path
from goalrunner.process.jail.surroundings import inside, shown

__all__ = [
    "Bubblewrap",
    "Cell",
    "Choice",
    "JailedConnector",
    "JailedLauncher",
    "Room",
    "choose",
    "hidden_in",
    "hidden_path",
    "inside",
    "shown",
]
