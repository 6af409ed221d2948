"""What a person wrote to an agent, among texts that have the role of the user.

Programs write many of those: reminders, results of tools, and the runner's own prompts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from goalrunner.core.errors import shortened

ORIGIN = "origin"
"""The key of a message of the user that says who wrote it, if that is no person."""

LONGEST_USER_TEXT = 4_000
"""Characters of one message of a person that are kept: both ends of a longer one."""

_SHORT = 40
"""A prompt of fewer characters may occur in a person's own words."""

_REMINDER = re.compile(r"<(system-reminder|EXTRA_INFO)>.*?</\1>", re.DOTALL)

# Agents' programs do not mark what they add to the texts of the user, so it is known by
# how it begins. An unknown one does no harm: the judge sees it as a text of the user,
# which is no evidence.
_TAGS_OF_PROGRAMS = (
    # Claude Code, Codex and Gemini CLI.
    "system",
    "command-",
    "local-command",
    "task-notification",
    "bash-",
    "environment_context",
    "user_instructions",
    "permissions",
    "turn_aborted",
    "session_context",
    "user_action",
    "uploaded_files",
    "hook",
    "skill",
    # Results of tools in texts of the user.
    "tool_response",
    "tool_result",
    "function_result",
    "observation",
    "returncode",
    "output",
)
"""Beginnings of the names of tags that programs write."""
_WORDS_OF_PROGRAMS = (
    "# AGENTS.md instructions",
    "[Request interrupted by user",
    "Caveat: The messages below were generated",
    "This session is being continued from a previous conversation",
    "Stop hook feedback",
    "This is the Gemini CLI",
    # Results of tools, of OpenHands and of agents that are trained on its chats.
    "EXECUTION RESULT of",
    "OBSERVATION:",
    "Observation:",
    "Exit code:",
)
"""Beginnings of texts that programs write."""
_BY_PROGRAM = (*(f"<{tag}" for tag in _TAGS_OF_PROGRAMS), *_WORDS_OF_PROGRAMS)

_OF_RUNNER = (
    (
        "Clean up first, then run your checks last: "
        "a result counts only if nothing changed after it."
    ),
    "When you finish, this is run to check your work:\n- ",
    "The objective is unchanged:\n\n",
    "Go on with the objective (round ",
    "The run was interrupted in the middle of your turn. ",
    "The run was interrupted. These files have changed since you were last seen",
    "You have worked on this before, and do not remember it.",
    "That does not meet the goal yet. ",
)
"""Words of the runner's own prompts.

Each prompt has at least one of them, unless it is the objective alone.
"""


_BASH_INPUT = re.compile(r"<bash-input>(.*)</bash-input>", re.DOTALL)
_BASH_OUTPUT = re.compile(
    r"<bash-stdout>(.*)</bash-stdout>(?:\s*<bash-stderr>(.*)</bash-stderr>)?", re.DOTALL
)


def users_command(text: str) -> str:
    """Return the command that a person ran in the agent's program; else empty.

    Claude Code writes it as a message of the user (`!pytest`).
    """
    match = _BASH_INPUT.fullmatch(text.strip())
    return match[1].strip() if match else ""


def output_of_users_command(text: str) -> str | None:
    """Return what a command of a person printed, which is the next message.

    None for another text.
    """
    match = _BASH_OUTPUT.fullmatch(text.strip())
    if match is None:
        return None
    printed = [part.rstrip("\n") for part in match.groups() if part]
    return "\n".join(printed)


def persons_text(text: str, prompts: Iterable[str] = ()) -> str:
    """Return what a person wrote in a text with the role of the user.

    Empty for prompts, reminders and results. `prompts` are texts that the runner sent
    to the agent. A long text is shortened.
    """
    words = _REMINDER.sub("", text).strip()
    if not words or words.startswith(_BY_PROGRAM):
        return ""
    if any(part in words for part in _OF_RUNNER):
        return ""
    if any(_repeats(words, prompt.strip()) for prompt in prompts):
        return ""
    return shortened(words, LONGEST_USER_TEXT)


def _repeats(text: str, prompt: str) -> bool:
    """Return whether a text is a prompt, or contains one.

    A contained one must be too long to be there by chance.
    """
    return text == prompt or (len(prompt) >= _SHORT and prompt in text)
