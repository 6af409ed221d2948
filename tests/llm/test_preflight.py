"""Errors about a model before its first request, only if a call is certain to fail."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from goalrunner.core.errors import AuthenticationFailed, ModelNotFound
from goalrunner.llm import LLM
from goalrunner.llm.endpoints import refuse_missing_key

pytestmark = pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="LiteLLM is not installed")


def _foresee(model: str, **more: object) -> None:
    asyncio.run(LLM(model, account="judge", **more).foresee())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("qqqqqq/x", 'unknown provider "qqqqqq"'),
        ("opnai/gpt-5-mini", 'unknown provider "opnai"; did you mean openai/gpt-5-mini?'),
        ("antropic/claude", 'unknown provider "antropic"; did you mean anthropic/claude?'),
        (
            "no-such-model-anywhere",
            "it names no provider; write provider/model, for example openai/no-such-model-anywhere",
        ),
    ],
)
def test_an_unknown_provider_is_named_with_the_one_that_may_be_meant(model: str, said: str) -> None:
    with pytest.raises(ModelNotFound) as raised:
        _foresee(model)
    assert raised.value.message == f"the model {model} was not found: {said}"


def test_an_address_makes_no_provider() -> None:
    with pytest.raises(ModelNotFound):
        _foresee("nonsense/x", api_base="http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai/gpt-5-mini", "OPENAI_API_KEY"),
        ("gpt-4o", "OPENAI_API_KEY"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("gemini/gemini-2.5-pro", "GEMINI_API_KEY"),
        ("mistral/mistral-large-latest", "MISTRAL_API_KEY"),
    ],
)
def test_a_key_that_is_not_there(model: str, variable: str) -> None:
    with pytest.raises(AuthenticationFailed, match=f"{model} is missing: {variable} is not set"):
        _foresee(model)


@pytest.mark.parametrize(
    ("model", "environ", "more"),
    [
        ("openai/local", {}, {"api_base": "http://127.0.0.1:9/v1"}),
        ("openai/local", {"LLM_BASE_URL": "http://127.0.0.1:9/v1"}, {}),
        ("openai/gpt-5-mini", {"LLM_API_KEY": "k"}, {}),
        ("openai/gpt-5-mini", {"OPENAI_API_KEY": "k"}, {}),
        ("openai/gpt-5-mini", {"OPENAI_ADMIN_KEY": "k"}, {}),
        ("anthropic/claude-sonnet-4-5", {"ANTHROPIC_AUTH_TOKEN": "k"}, {}),
        ("gemini/gemini-2.5-pro", {"GOOGLE_API_KEY": "k"}, {}),
        ("openai/gpt-5-mini", {"TEAM_KEY": "k"}, {"api_key_env": "TEAM_KEY"}),
        ("openai/gpt-5-mini", {}, {"params": {"api_key": "k"}}),
        ("mine/x", {}, {"params": {"custom_llm_provider": "openai"}}),
        ("ollama/llama3", {}, {}),
        ("bedrock/us.amazon.nova-lite-v1:0", {}, {}),
        ("vertex_ai/gemini-2.5-pro", {}, {}),
        ("huggingface/some/model", {}, {}),
        ("hosted_vllm/some-model", {}, {}),
    ],
)
def test_what_may_work_is_left_to_the_call(
    monkeypatch: pytest.MonkeyPatch, model: str, environ: Mapping[str, str], more: dict[str, object]
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    _foresee(model, **more)


def test_a_model_that_is_configured_in_litellm_itself_is_left_to_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    import litellm

    monkeypatch.setattr(litellm, "custom_provider_map", [{"provider": "mine", "custom_handler": object()}])
    _foresee("mine/x")
    monkeypatch.setattr(litellm, "custom_provider_map", [])
    monkeypatch.setattr(litellm, "openai_key", "k")
    _foresee("openai/gpt-5-mini")
    monkeypatch.setattr(litellm, "model_alias_map", {"short": "openai/x"})
    _foresee("short")


@pytest.mark.parametrize(
    ("model", "environ", "is_missing"),
    [
        ("gemini/pro", {}, True),
        ("gemini/pro", {"GEMINI_API_KEY": " "}, True),
        ("gemini/pro", {"GOOGLE_API_KEY": "k"}, False),
        ("gemini/pro", {"LLM_API_KEY": "k"}, False),
        ("openai/gpt-5", {"OPENAI_BASE_URL": "http://127.0.0.1:9"}, False),
        ("bedrock/claude", {}, False),
        ("gpt-5", {}, False),
    ],
)
def test_a_key_is_missing_only_if_no_variable_of_its_provider_is_set(
    monkeypatch: pytest.MonkeyPatch, model: str, environ: dict[str, str], is_missing: bool
) -> None:
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    refused = pytest.raises(AuthenticationFailed, match="GEMINI_API_KEY is not set") if is_missing else nullcontext()
    with refused:
        refuse_missing_key(model, {}, "agent", environ)


def test_what_a_calling_program_has_set_in_litellm_may_be_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", SimpleNamespace(openai_key="k"))
    refuse_missing_key("openai/gpt-5", {}, "agent", {})
