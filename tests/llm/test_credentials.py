"""The precedence of keys and addresses."""

from __future__ import annotations

from typing import Any

import pytest

from goalrunner.core.errors import AuthenticationFailed
from goalrunner.llm.endpoints import find_endpoint, refuse_empty_key
from goalrunner.llm.failure import Endpoint

BASE = "http://127.0.0.1:1/v1"


class Library:
    """The two questions that are asked of LiteLLM, answered for OpenAI and for providers without API keys."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._environ = environ

    def get_llm_provider(self, model: str) -> tuple[str, str, None, None]:
        provider, _, name = model.partition("/")
        if provider == "nosuch":
            raise ValueError("LLM Provider NOT provided")
        return name, provider, None, None

    def validate_environment(self, model: str) -> dict[str, Any]:
        wanted = {
            "openai": ["OPENAI_API_KEY"],
            "ollama": ["OLLAMA_API_BASE"],
            "bedrock": ["AWS_ACCESS_KEY_ID"],
        }
        names = wanted.get(model.partition("/")[0], [])
        return {"missing_keys": [name for name in names if name not in self._environ]}


def _find(
    environ: dict[str, str],
    model: str = "openai/x",
    base: str | None = None,
    named: str | None = None,
) -> Endpoint:
    return find_endpoint(Library(environ), model, base, named, environ)


@pytest.mark.parametrize(
    ("environ", "base", "expected"),
    [
        ({"OPENAI_API_KEY": "own"}, None, (None, None, "OPENAI_API_KEY", True)),
        (
            {"OPENAI_API_KEY": "own", "LLM_API_KEY": "fall"},
            None,
            (None, None, "OPENAI_API_KEY", True),
        ),
        ({"LLM_API_KEY": "fall"}, None, (None, "fall", "LLM_API_KEY", True)),
        ({"LLM_API_KEY": " "}, None, (None, None, "OPENAI_API_KEY", False)),
        ({}, BASE, (BASE, "none", "OPENAI_API_KEY", False)),
        (
            {"OPENAI_API_KEY": "own", "LLM_API_KEY": "fall", "LLM_BASE_URL": BASE},
            None,
            (BASE, "fall", "LLM_API_KEY", True),
        ),
        (
            {"OPENAI_API_KEY": "own", "LLM_BASE_URL": BASE},
            None,
            (BASE, None, "OPENAI_API_KEY", True),
        ),
        (
            {"OPENAI_API_KEY": "own", "LLM_BASE_URL": "other"},
            BASE,
            (BASE, None, "OPENAI_API_KEY", True),
        ),
    ],
)
def test_the_order_of_the_places(
    environ: dict[str, str],
    base: str | None,
    expected: tuple[str | None, str | None, str, bool],
) -> None:
    endpoint = _find(environ, base=base)
    assert (
        endpoint.api_base,
        endpoint.api_key,
        endpoint.variable,
        endpoint.key_known,
    ) == expected


def test_the_named_variable_wins_over_every_other() -> None:
    environ = {
        "OPENAI_API_KEY": "own",
        "LLM_API_KEY": "fall",
        "LLM_BASE_URL": BASE,
        "MY_KEY": "mine",
    }
    endpoint = _find(environ, named="MY_KEY")
    assert (endpoint.api_key, endpoint.variable) == ("mine", "MY_KEY")


@pytest.mark.parametrize("model", ["ollama/llama3", "bedrock/claude"])
def test_providers_without_api_keys_are_not_given_one(model: str) -> None:
    endpoint = _find({"LLM_API_KEY": "fall"}, model=model)
    assert (endpoint.api_key, endpoint.key_known) == (None, True)


def test_an_unknown_provider_is_left_to_the_call_to_say() -> None:
    assert _find({}, model="nosuch/x") == Endpoint(None, None, "", key_known=True)


@pytest.mark.parametrize(
    ("environ", "state"),
    [({}, "is not set"), ({"MY_KEY": ""}, "is empty"), ({"MY_KEY": " "}, "is empty")],
)
def test_the_error_names_a_variable_without_a_key(
    environ: dict[str, str], state: str
) -> None:
    with pytest.raises(AuthenticationFailed) as raised:
        refuse_empty_key("MY_KEY", "judge", environ)
    assert str(raised.value) == (
        f'the environment variable MY_KEY {state}; [judge] api_key_env = "MY_KEY" names it for the key\nexport MY_KEY=...'
    )


def test_a_key_is_not_shown_by_repr() -> None:
    assert "mine" not in repr(_find({"MY_KEY": "mine"}, named="MY_KEY"))
