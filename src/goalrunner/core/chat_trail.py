"""The trail of a chat in OpenAI's format, or with the blocks of other providers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from goalrunner.core.freshness import start_of
from goalrunner.core.messages import (
    TIMESTAMP,
    Block,
    blocks_of,
    calls_of,
    clean,
    facts_of,
    text,
    text_of,
)
from goalrunner.core.observation import Trail
from goalrunner.core.trail_builder import Deliverable, TrailBuilder
from goalrunner.core.user_messages import (
    ORIGIN,
    output_of_users_command,
    users_command,
)

USERS_COMMAND = "user_shell"
"""The source of the output of a command that a person ran in the agent's program."""
_BY_USER = "run by the user"


def trail_of(
    messages: Sequence[Mapping[str, Any]], *, deliverable: Deliverable = "workspace"
) -> Trail:
    """Return the trail of a chat, oldest message first.

    Observations are numbered from o1, rounds by the messages of the user. `content` is
    a string, None or a list of blocks, also those of Anthropic, Strands and Bedrock for
    calls and results.
    """
    # The tools of a program that calls this may have any name, `task` as well.
    trail = TrailBuilder(subagents=False)
    for message in messages:
        add_message(trail, message)
    return trail.finish(deliverable)


def add_message(
    trail: TrailBuilder, message: Mapping[str, Any], *, claims: bool = False
) -> None:
    """Add a chat message.

    Text of the assistant is a claim, results of tools are observations. With `claims`,
    everything is a claim, as in the conversation of a sub-agent.
    """
    content, role = message.get("content"), message.get("role")
    content_text = clean(text_of(content))
    results = _results_in(content, role)
    tool = ""
    if role == "user" and not claims:
        _add_user_message(trail, message, content_text, has_results=bool(results))
    elif role == "assistant":
        trail.claimed(content_text, summary=claims)
        started = start_of(message.get(TIMESTAMP))
        for call in calls_of(message):
            trail.called(
                call.id, call.name, call.arguments, summary=claims, started=started
            )
    elif role in ("tool", "function"):
        # A function is the old form of a tool; its calls have no id.
        tool = text(message.get("name"))
        identifier = str(message.get("tool_call_id") or "")
        results = [Block("result", id=identifier, text=content_text)]
    for result in results:
        if claims:
            trail.claimed(result.text, summary=True)
            continue
        facts = facts_of(result.text, failed=result.failed)
        trail.result(result.id, result.text, facts, tool=tool)


def _results_in(content: object, role: object) -> list[Block]:
    """Return the results in the blocks of a message that its role can have.

    The result of a tool that the provider ran is in the message of the assistant, other
    results are in a message of the user.
    """
    results = [block for block in blocks_of(content) if block.kind == "result"]
    # Only a result of a tool that ran at the provider has a name.
    if role == "assistant":
        return [result for result in results if result.name]
    if role == "user":
        return [result for result in results if not result.name]
    return []


def _add_user_message(
    trail: TrailBuilder,
    message: Mapping[str, Any],
    content_text: str,
    *,
    has_results: bool,
) -> None:
    # A message of the user may contain only results of tools; a text begins a round.
    if has_results and not content_text.strip():
        return
    if _add_part_of_users_command(trail, message, content_text):
        return
    # Beside results, a text of a program is as likely as one of a person.
    is_persons = not has_results and message.get(ORIGIN, "user") == "user"
    trail.user(content_text if is_persons else "")


def add_users_command(
    trail: TrailBuilder, command: str, output: str, facts: Sequence[str]
) -> None:
    """Add a command that a person ran, with its output."""
    trail.called(USERS_COMMAND, USERS_COMMAND, {"command": command})
    trail.result(USERS_COMMAND, output, (*facts, _BY_USER), tool=USERS_COMMAND)


def _add_part_of_users_command(
    trail: TrailBuilder, message: Mapping[str, Any], content_text: str
) -> bool:
    """Add a command that a person ran, or its output; return whether it is one."""
    command = users_command(content_text)
    if command:
        started = start_of(message.get(TIMESTAMP))
        arguments = {"command": command}
        trail.called(USERS_COMMAND, USERS_COMMAND, arguments, started=started)
        return True
    output = output_of_users_command(content_text)
    if output is None:
        return False
    trail.result(USERS_COMMAND, output, (_BY_USER,), tool=USERS_COMMAND)
    return True
