"""What a goal says that its external agent has no use for is refused before anything is written."""

from __future__ import annotations

import pytest

from goalrunner.core.errors import GoalFileError
from goalrunner.goalfile.loading import load_goal_text

PRESETS = """
[agents.plain]
argv = ["x"]
acp = ["y"]
[agents.choosing]
argv = ["x", "{model}"]
acp = ["y"]
model = ["--model", "{name}"]
"""


def misfits(*lines: str) -> str:
    text = "\n".join(['objective = "x"', 'validator = "true"', "[agent]", *lines, PRESETS])
    try:
        load_goal_text(text, "goal.toml", {}, {})
    except GoalFileError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_steps", "5"),
        ("tools", '["shell"]'),
        ("system_prompt", '"x"'),
        ("params", "{temperature = 1}"),
        ("api_base", '"http://x"'),
    ],
)
def test_what_steers_the_built_in_agent_is_refused_by_name(key: str, value: str) -> None:
    said = f'agent.{key} is only for the built-in agent, and "plain" does not support it; remove it'
    assert misfits('use = "plain"', f"{key} = {value}").endswith(said)


def test_a_model_needs_a_preset_that_says_how_it_is_chosen() -> None:
    refused = "agent.model cannot be chosen for"
    assert misfits('use = "choosing"', 'model = "m"') == ""
    assert refused in misfits('use = "plain"', 'model = "m"')
    assert refused in misfits('use = "choosing"', 'model = "m"', 'protocol = "acp"')
    assert "agent.model is for agents with a preset" in misfits('use = "command"', 'model = "m"', 'command = ["x"]')
