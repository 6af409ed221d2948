"""Which actions need the approval of a person, decided by their text.

A command uses the network if its program is in the table. Other programs (a script, a library) pass; only a sandbox stops
them. A command line that cannot be parsed needs approval.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Literal

from goalrunner.core.events import RiskClass
from goalrunner.core.goal import Approvals
from goalrunner.core.shell_programs import Program, started
from goalrunner.core.shell_words import Word

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

_SUBCOMMANDS = frozenset({name for name, commands in NETWORK_PROGRAMS.items() if commands}) | {
    "kubectl", "helm", "terraform", "gh", "glab", "aws", "gcloud", "systemctl",
}  # fmt: skip
"""Programs whose options may be in front of the subcommand."""

_WITH_VALUE = frozenset(
    """
    -C -c --git-dir --work-tree --namespace --prefix --directory --project --config-env --exec-path --host --context
    --config --kubeconfig --cluster --repo --profile --region --cwd --dir --filter --workspace
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Options before a program's own command that take the next word."""

_SHORT_WITH_VALUE = {"kubectl": "-n", "helm": "-n", "gh": "-R", "glab": "-R", "docker": "-H", "pnpm": "-F", "npm": "-w"}
"""Short options with a value, by program."""

_DEVICES = ("/dev/tcp/", "/dev/udp/")


@dataclass(frozen=True)
class Action:
    """An action of an agent: run a command, or write a file."""

    kind: Literal["shell", "write"]
    text: str
    """The command line, or the path."""


def rule_for(action: Action, approvals: Approvals, risk: RiskClass) -> str:
    """Return the setting of the goal that requires approval of this action; empty if none does."""
    if risk == "critical":
        return 'risk_class = "critical"'
    if action.kind in approvals.require:
        return f'[approvals] require = ["{action.kind}"]'
    if action.kind == "shell" and (approvals.commands or "network" in approvals.require):
        programs, problem = started(action.text)
        if pattern := _matching(action.text, programs, approvals.commands):
            return f'[approvals] commands = ["{pattern}"]'
        network = "network" in approvals.require
        if network and _reaches_network(action.text, programs):
            return '[approvals] require = ["network"]'
        if problem:
            rule = 'require = ["network"]' if network else f'commands = ["{approvals.commands[0]}"]'
            return f"[approvals] {rule} (the command cannot be parsed: {problem})"
    return ""


def completion_rule(approvals: Approvals, risk: RiskClass) -> str:
    """Return the setting of the goal that requires approval of the completion; empty if none does."""
    if risk in ("high", "critical"):
        return f'risk_class = "{risk}"'
    return '[approvals] require = ["complete"]' if "complete" in approvals.require else ""


def guarding_key(approvals: Approvals, risk: RiskClass) -> str:
    """Return the setting under which a person may have to decide on single actions; empty if there is none."""
    if risk == "critical":
        return 'risk_class = "critical"'
    kinds = [f'require = ["{kind}"]' for kind in approvals.require if kind != "complete"]
    return [*kinds, *(["commands"] if approvals.commands else []), ""][0]


def expires_at(approvals: Approvals, now: datetime) -> str | None:
    """Return when a request made now expires (ISO 8601), or None."""
    return None if approvals.expires is None else (now + timedelta(seconds=approvals.expires)).isoformat()


def is_late(expires: str | None, now: datetime) -> bool:
    """Return whether an approval has expired; None never does."""
    return expires is not None and now > datetime.fromisoformat(expires)


def _reaches_network(command: str, programs: tuple[Program, ...]) -> bool:
    return any(device in command for device in _DEVICES) or any(map(_reaches, programs))


def _matching(line: str, programs: tuple[Program, ...], patterns: tuple[str, ...]) -> str:
    """Return the first pattern that matches the whole line, or may match a command in it; blanks are one space."""
    if not patterns:
        return ""
    whole = " ".join(line.split())
    # Of each command, the text, and what is known of its beginning.
    forms = {form for program in programs for form in _forms(program)}
    for pattern in patterns:
        begin = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
        if fnmatchcase(whole, pattern) or any(
            fnmatchcase(text, pattern) or (known != text and begin.startswith(known)) for text, known in forms
        ):
            return pattern
    return ""


def _forms(program: Program) -> Iterator[tuple[str, str]]:
    """Yield the ways to write a command: with and without the folder of the program, and without options of git and others."""
    words = program.words
    if not words or not (name := words[0].program):
        return
    lines: list[tuple[Word, ...]] = [*([words] if words[0].known else []), (Word(name), *words[1:])]
    if name in _SUBCOMMANDS:
        lines.append((Word(name), *_from_subcommand(words)))
    for line in lines:
        first = next((at for at, word in enumerate(line) if not word.known), len(line))
        known = " ".join(line) if first == len(line) else " ".join((*line[:first], line[first].head))
        yield " ".join(line), known


def _from_subcommand(words: tuple[Word, ...], commands: Collection[str] = ()) -> tuple[Word, ...]:
    """Return the words from the subcommand on: `git -C x push` gives `push`. `commands` may look like options."""
    at, short = 1, _SHORT_WITH_VALUE.get(words[0].program, "")
    while at < len(words) and words[at].startswith("-") and words[at] not in commands:
        at += 2 if words[at] in _WITH_VALUE or words[at] == short else 1
    return words[at:]


def _reaches(program: Program) -> bool:
    name = program.words[0].program if program.words else ""
    if name not in NETWORK_PROGRAMS:
        return False
    commands = NETWORK_PROGRAMS[name]
    if commands is None:
        return True
    rest = _from_subcommand(program.words, commands)
    if rest and not rest[0].known:
        return True
    # `uv pip install`, `npm run`: the word that counts is the first or the second.
    return bool(commands & set(rest[:1] if name in ("git", "go", "docker", "podman") else rest[:2]))
