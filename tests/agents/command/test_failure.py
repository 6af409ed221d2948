"""Messages of failures: which are recognised, and that the search takes no time."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.agents.agent_errors import failed, not_signed_in
from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import AgentNotSignedIn

AGENT = ExternalAgent("double", Preset(argv=("double",)), Path("/w"), {})


@pytest.mark.parametrize(
    "said",
    [
        "Invalid API key",
        "invalid_api_key",
        "invalid x-api-key",
        "no valid API key was found",
        "No auth token",
        "missing OPENAI api key",
        "expired_oauth_user_credentials",
    ],
)
def test_a_wrong_key_is_known_by_its_words(said: str) -> None:
    assert isinstance(failed(AGENT, said, "exit 1", ""), AgentNotSignedIn)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "part", ["no_", "no ", "no a_", "invalid ", "session ", "api key", "a", "please "]
)
def test_endless_messages_are_searched_in_bounded_time(part: str) -> None:
    error = failed(AGENT, part * 500_000, "exit 1", part * 1_500)

    assert len(error.message) < 1_000
    assert len(not_signed_in(AGENT, part * 500_000).message) < 1_000
