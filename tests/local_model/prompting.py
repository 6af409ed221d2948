"""How 135 million parameters are brought to call a tool: four examples, and a call that is forced."""

from __future__ import annotations

import json
from typing import Any

INSTRUCTION = "You write files with shell commands."

EXAMPLES = (
    ("Write the word apple into the file fruit.txt.", "echo apple > fruit.txt"),
    ("Write the word blue into the file colour.txt.", "echo blue > colour.txt"),
    ("The file pet.txt must say cat.", "echo cat > pet.txt"),
    ("The file city.txt must say paris.", "echo paris > city.txt"),
)
"""What a user says, and the command that does it."""


def chat_examples() -> list[dict[str, str]]:
    """The examples as a chat that a conversation begins with.

    The calls stand there as text, just as the grammar of a forced call will have them written.
    """
    chat = [{"role": "system", "content": INSTRUCTION}]
    for request, command in EXAMPLES:
        chat += [
            {"role": "user", "content": request},
            {"role": "assistant", "content": _call(command)},
        ]
    return chat


def system_prompt() -> str:
    """The same chat as a system prompt, for a goal file: the turns are parted by the model's own marks."""
    turns = [
        f"<|im_start|>user\n{request}<|im_end|>\n<|im_start|>assistant\n{_call(command)}"
        for request, command in EXAMPLES
    ]
    return "<|im_end|>\n".join([INSTRUCTION, *turns])


def params(seed: int) -> dict[str, Any]:
    """What goes to the server with every request of the agent: one short call of `shell`, and nothing else."""
    return {
        "temperature": 0.8,
        "seed": seed,
        "max_tokens": 60,
        "tool_choice": "required",
    }


def _call(command: str) -> str:
    call = json.dumps({"name": "shell", "arguments": {"command": command}})
    return f"<tool_call>\n{call}\n</tool_call>"
