"""Which actions wait for a person. Pure: looks at the action's own words, never at what it does.

A command is known to use the network by the names in the table alone. What is not in it passes - a script, a variable, an
interpreter's own library - and only a jail can keep it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Literal

from goalrunner.events import RiskClass
from goalrunner.model.approvals import Approvals
from goalrunner.policy.commands import commands_in, program

_INSTALLING = frozenset(
    """
    install i ci add sync lock get update upgrade publish download dlx create fetch push
    """.split()  # noqa: SIM905 - a table, to be read
)

NETWORK_PROGRAMS: dict[str, frozenset[str] | None] = {
    **dict.fromkeys(
        """
        curl wget fetch aria2c ssh scp sftp rsync ftp lftp telnet nc ncat netcat socat aws gcloud az gh hub glab kubectl helm
        terraform http https xh mosh ping dig nslookup host npx bunx twine rclone s3cmd doctl flyctl vercel netlify
        """.split()  # noqa: SIM905 - a table, to be read
    ),
    **dict.fromkeys(("pip", "pip3", "pipx", "uv", "poetry", "pdm", "npm", "pnpm", "yarn", "bun"), _INSTALLING),
    **dict.fromkeys(("cargo", "gem", "bundle", "composer", "brew", "conda", "mamba"), _INSTALLING),
    **dict.fromkeys(("apt", "apt-get", "dnf", "yum", "apk", "pacman"), _INSTALLING | {"-S", "-Sy", "-Syu"}),
    "go": frozenset({"get", "install", "mod"}),
    "git": frozenset({"push", "pull", "fetch", "clone", "ls-remote", "submodule", "send-email", "lfs", "svn"}),
    "docker": frozenset({"push", "pull", "login", "build", "run"}),
    "podman": frozenset({"push", "pull", "login", "build", "run"}),
}
"""Programs that reach other machines, and by which of their commands; None: always."""

_WITH_VALUE = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--prefix", "--directory", "--project"})
"""Options before a program's own command that take the next word."""

_DEVICES = ("/dev/tcp/", "/dev/udp/")


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
        pattern = _matching(action.text, approvals.commands)
        if pattern:
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
    return any(device in command for device in _DEVICES) or any(map(_reaches, commands_in(command)))


def expires_at(approvals: Approvals, now: datetime) -> str | None:
    """When a request made now can no longer be approved, ISO 8601; None: never."""
    return None if approvals.expires is None else (now + timedelta(seconds=approvals.expires)).isoformat()


def is_late(expires: str | None, now: datetime) -> bool:
    """Whether it is too late to approve what expires then; None never does."""
    return expires is not None and now > datetime.fromisoformat(expires)


def _matching(line: str, patterns: tuple[str, ...]) -> str:
    """The first pattern that the whole line, or any command in it, is like; blanks are one space."""
    if not patterns:
        return ""
    spoken = {" ".join(line.split())}
    for words in commands_in(line):
        spoken |= {" ".join(words), " ".join((program(words), *words[1:]))}
    return next((pattern for pattern in patterns if any(fnmatchcase(text, pattern) for text in spoken)), "")


def _reaches(words: tuple[str, ...]) -> bool:
    name = program(words)
    if name.startswith("python") and words[1:2] == ("-m",):
        name, words = words[2] if len(words) > 2 else "", words[2:]
    if name not in NETWORK_PROGRAMS:
        return False
    commands = NETWORK_PROGRAMS[name]
    if commands is None:
        return True
    rest = list(words[1:])
    while rest and rest[0].startswith("-") and rest[0] not in commands:
        del rest[: 2 if rest[0] in _WITH_VALUE else 1]
    # `uv pip install`, `npm run`: the word that counts is the first or the second.
    return bool(commands & set(rest[:1] if name in ("git", "go", "docker", "podman") else rest[:2]))
