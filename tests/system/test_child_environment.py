"""Which variables commands get to see."""

from __future__ import annotations

import pytest

from goalrunner.system.child_environment import child_environment, credentials_of


@pytest.mark.parametrize(
    "name",
    [
        "LLM_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY",
        "AZURE_API_KEY", "OPENROUTER_API_KEY", "HF_TOKEN", "WATSONX_APIKEY", "AWS_BEARER_TOKEN_BEDROCK",
        "OPENAI_API_KEY_2", "OPENAI_API_KEYS", "XAI_API_KEY", "LITELLM_PROXY_API_KEY",
    ],
)  # fmt: skip
def test_a_model_providers_key_is_withheld(name: str) -> None:
    assert child_environment({name: "value", "HOME": "/home/me"}) == {
        "HOME": "/home/me"
    }


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "GITHUB_TOKEN", "STRIPE_API_KEY", "AWS_SECRET_ACCESS_KEY", "NPM_TOKEN", "OPENAI_BASE_URL", "API_KEY",
        "MY_OPENAI_API_KEY_PATH", "DATABASE_PASSWORD", "GOOGLE_APPLICATION_CREDENTIALS", "openai_api_key_path",
    ],
)  # fmt: skip
def test_what_belongs_to_the_users_project_stays(name: str) -> None:
    assert child_environment({name: "value"}) == {name: "value"}


def test_names_to_withhold_are_withheld() -> None:
    assert child_environment({"TEAM_KEY": "k", "HOME": "/"}, withhold=["TEAM_KEY"]) == {
        "HOME": "/"
    }


def test_what_the_user_gives_by_name_is_there_whatever_it_is() -> None:
    given = {"OPENAI_API_KEY": "for this check", "HOME": "/elsewhere"}

    assert (
        child_environment({"OPENAI_API_KEY": "the run's", "HOME": "/"}, extra=given)
        == given
    )


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("openai/gpt-5-mini", ()),
        ("gpt-5-mini", ()),
        ("bedrock/anthropic.claude", (
            "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE",
        )),
        ("bedrock_converse/anthropic.claude", (
            "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE",
        )),
        ("azure_ai/mistral", ("AZURE_CLIENT_SECRET", "AZURE_AD_TOKEN", "AZURE_PASSWORD")),
        ("vertex_ai/gemini-3", ("GOOGLE_APPLICATION_CREDENTIALS", "VERTEX_CREDENTIALS")),
    ],
)  # fmt: skip
def test_a_cloud_behind_a_model_names_its_credentials(
    model: str, names: tuple[str, ...]
) -> None:
    assert credentials_of(model) == names
