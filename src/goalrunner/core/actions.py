"""The tool calls of an agent in words.

They have short names and commands without their shell; a stall says what was done in
its rounds.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Mapping

from goalrunner.core.errors import one_line, some
from goalrunner.core.observation import Observation

# Each agent names its tools differently; with one name, people can compare the rows.
_SHORT_NAMES = {
    **dict.fromkeys(
        ("bash", "execute", "command_execution", "run_shell_command", "execute_bash"),
        "shell",
    ),
    **dict.fromkeys(
        ("edit_file", "edit", "multiedit", "replace", "file_change"), "edit"
    ),
    **dict.fromkeys(("read_file", "read"), "read"),
    **dict.fromkeys(("write_file", "write"), "write"),
}
"""Names of tools in lower case, and those of the column of names."""
_IN_SHELL = re.compile(r"(?:/\S+/)?(?:ba|da|z)?sh -l?c (.+)", re.DOTALL)
"""A command that is given to a shell as one word."""
_VERBS = {"edit": "edited", "write": "wrote", "shell": "ran", "read": "read"}
"""By short name of a tool, the most telling first."""
_LONGEST = 48
_NAMED = 3
_KEPT = 30
"""Different actions of equal rounds that are counted."""


def short_name(tool: str) -> str:
    """Return the name of a tool for the column of names."""
    return _SHORT_NAMES.get(tool.lower(), tool)


def shown_command(command: str, workspace: str = "") -> str:
    """Return a command without the shell around it.

    Its paths are relative to the workspace, where it begins.
    """
    # Some agents start every command through a shell.
    if in_shell := _IN_SHELL.fullmatch(command):
        with contextlib.suppress(ValueError):
            words = shlex.split(in_shell[1])
            command = words[0] if len(words) == 1 else command
    if workspace.strip("/"):
        folder = re.escape(workspace)
        command = re.sub(rf"^cd [\"']?{folder}[\"']? *(?:&&|;) *", "", command)
        command = re.sub(rf"(?<![^\s\"'=,(]){folder}/(?=[^\s/])", "", command)
    return command


def action_of(observation: Observation, workspace: str = "") -> str:
    """Return what a tool call did, such as "edited src/a.py".

    Empty if it shows nothing that happened.
    """
    if not observation.shows:
        return ""
    name = short_name(observation.source)
    subject = shown_command(observation.command, workspace)
    verb = _VERBS.get(name, f"called {name}")
    return one_line(f"{verb} {subject}".strip(), _LONGEST)


def with_actions(counts: Mapping[str, int], added: Mapping[str, int]) -> dict[str, int]:
    """Return how often each action was done, with those that are added.

    Of very many, the first are kept.
    """
    # Bounded, because it is part of the state.
    total = dict(counts)
    for action, count in added.items():
        if action in total or len(total) < _KEPT:
            total[action] = total.get(action, 0) + count
    return total


def in_words(counts: Mapping[str, int]) -> str:
    """Return the most telling actions, edits first.

    They read as "edited src/a.py 4 times, ran pytest -q".
    """
    verbs = list(_VERBS.values())

    def rank(action: str) -> tuple[int, int]:
        verb = action.partition(" ")[0]
        place = verbs.index(verb) if verb in verbs else len(verbs)
        return place, -counts[action]

    phrases = []
    for action in sorted(counts, key=rank):
        count = counts[action]
        phrases.append(f"{action} {count} times" if count > 1 else action)
    return some(phrases, _NAMED)
