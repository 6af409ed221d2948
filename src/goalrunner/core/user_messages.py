"""What a person wrote to an agent, among texts that have the role of the user: programs
write many of those.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from goalrunner.core.errors import shortened

ORIGIN = "origin"
"""The key of a message with the role of the user that says who wrote it, if that is not
a person."""

LONGEST_USER_TEXT = 4_000
"""Characters of one message of a person that are kept: both ends of a longer one."""

_SHORT = 40
"""A prompt of fewer characters may occur in a person's own words."""

_REMINDER = re.compile(r"<(system-reminder|EXTRA_INFO)>.*?</\1>", re.DOTALL)
_OF_PROGRAMS = re.compile(
    r"\s*(?:"
    # What Claude Code, Codex, Gemini CLI and OpenHands add, and results of tools in
    # texts of the user.
    r"<(?:system|command-|local-command|task-notification|bash-|environment_context|user_instructions|permissions"
    r"|turn_aborted|session_context|user_action|tool_response|tool_result|function_results?|observation|returncode"
    r"|output|system-|uploaded_files|hook|skill)"
    r"|# AGENTS\.md instructions|\[Request interrupted by user|Caveat: The messages below were generated"
    r"|This session is being continued from a previous conversation|Stop hook feedback|This is the Gemini CLI"
    r"|EXECUTION RESULT of|OBSERVATION:|Observation:|Exit code:"
    r")",
)
_OF_RUNNER = (
    (
        "Clean up first, then run your checks last: a result counts only if nothing "
        "changed after it."
    ),
    "When you finish, this is run to check your work:\n- ",
    "The objective is unchanged:\n\n",
    "Go on with the objective (round ",
    "The run was interrupted in the middle of your turn. ",
    "The run was interrupted. These files have changed since you were last seen",
    "You have worked on this before, and do not remember it.",
    "That does not meet the goal yet. ",
)
"""Words of the runner's own prompts, each of which has at least one of them unless it
is the objective alone."""


def persons_text(text: str, prompts: Iterable[str] = ()) -> str:
    """Return what a person wrote in a text with the role of the user; empty for
    prompts, reminders and results.

    `prompts` are texts that the runner sent to the agent. A long text is shortened.
    """
    own = _REMINDER.sub("", text).strip()
    is_programs = _OF_PROGRAMS.match(own) or any(words in own for words in _OF_RUNNER)
    if (
        not own
        or is_programs
        or any(_repeats(own, prompt.strip()) for prompt in prompts)
    ):
        return ""
    return shortened(own, LONGEST_USER_TEXT)


def _repeats(text: str, prompt: str) -> bool:
    """Return whether a text is a prompt, or contains one that is too long to be there
    by chance.
    """
    return text == prompt or (len(prompt) >= _SHORT and prompt in text)
