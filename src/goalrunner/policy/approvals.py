"""Which actions wait for a person. Pure: looks at the action's own words, never at what it does.

A command is known to use the network by its program alone; what is not in the table passes, and only a jail can keep it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Literal

from goalrunner.events import RiskClass
from goalrunner.model.approvals import Approvals

NETWORK_PROGRAMS = frozenset(
    """
    curl wget ssh scp sftp rsync ftp telnet nc ncat socat aws gcloud az gh hub kubectl helm terraform http https
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Programs that are there to reach other machines."""

NETWORK_COMMANDS = (
    re.compile(r"\bgit\s+(?:-\S+\s+)*(?:push|pull|fetch|clone|ls-remote|submodule)\b"),
    re.compile(
        r"\b(?:pip|pip3|pipx|uv|poetry|npm|pnpm|yarn|cargo|go|gem|apt|apt-get|brew|conda)\b.*\b(?:install|add|sync|get|update|upgrade|publish|download)\b"
    ),
    re.compile(r"\bdocker\s+(?:push|pull|login)\b"),
)

_WORD = re.compile(r"[^\s;&|()<>`$\"']+")


@dataclass(frozen=True)
class Action:
    """What an agent is about to do: run a command, or write the file at a path."""

    kind: Literal["shell", "write"]
    text: str
    """The command line, or the path."""


def rule_for(action: Action, approvals: Approvals, risk: RiskClass) -> str:
    """What of the goal asks for a person before this action, in words; empty where nothing does."""
    if risk == "critical":
        return 'risk_class = "critical"'
    if action.kind in approvals.require:
        return f'[approvals] require = ["{action.kind}"]'
    if action.kind == "shell":
        line = " ".join(action.text.split())
        for pattern in approvals.commands:
            if fnmatchcase(line, pattern):
                return f'[approvals] commands = ["{pattern}"]'
        if "network" in approvals.require and reaches_network(action.text):
            return '[approvals] require = ["network"]'
    return ""


def completion_rule(approvals: Approvals, risk: RiskClass) -> str:
    """What of the goal asks for a person before it is called complete; empty where nothing does."""
    if risk in ("high", "critical"):
        return f'risk_class = "{risk}"'
    return '[approvals] require = ["complete"]' if "complete" in approvals.require else ""


def reaches_network(command: str) -> bool:
    """Whether a command names a program that is there to reach other machines."""
    words = {word.rpartition("/")[2] for word in _WORD.findall(command)}
    return bool(words & NETWORK_PROGRAMS) or any(pattern.search(command) for pattern in NETWORK_COMMANDS)


def expires_at(approvals: Approvals, now: datetime) -> str | None:
    """When a request made now can no longer be approved, ISO 8601; None: never."""
    return None if approvals.expires is None else (now + timedelta(seconds=approvals.expires)).isoformat()
