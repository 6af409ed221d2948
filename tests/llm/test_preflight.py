"""Errors about a model before any work: without a call if it is certain to fail, else with a call of one token."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from goalrunner.core.errors import (
    AuthenticationFailed,
    ModelError,
    ModelNotFound,
    RequestRejected,
)
from goalrunner.llm import LLM
from goalrunner.llm.endpoints import provider_names, refuse_missing_key
from tests.support.model_server import ModelServer, fail, say

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("litellm") is None, reason="LiteLLM is not installed"
)


def _check(model: str, **more: object) -> None:
    LLM(model, account="judge", **more).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("qqqqqq/x", 'unknown provider "qqqqqq"'),
        (
            "opnai/gpt-5-mini",
            'unknown provider "opnai"; did you mean openai/gpt-5-mini?',
        ),
        (
            "antropic/claude",
            'unknown provider "antropic"; did you mean anthropic/claude?',
        ),
        (
            "no-such-model-anywhere",
            "it names no provider; write provider/model, for example openai/no-such-model-anywhere",
        ),
    ],
)
def test_an_unknown_provider_is_named_with_the_one_that_may_be_meant(
    model: str, said: str
) -> None:
    with pytest.raises(ModelNotFound) as raised:
        _check(model)
    assert raised.value.message == f"the model {model} was not found: {said}"


def test_every_provider_of_litellm_is_known_without_importing_it() -> None:
    import litellm

    assert {
        str(getattr(item, "value", item)) for item in litellm.provider_list
    } <= provider_names()


@pytest.mark.parametrize(
    ("model", "error"),
    [("qqqqqq/x", "unknown provider"), ("openai/gpt-5", "OPENAI_API_KEY")],
)
def test_a_missing_key_and_an_unknown_provider_are_reported_without_importing_litellm(
    model: str, error: str
) -> None:
    code = """
import sys
from goalrunner.llm import LLM
try:
    LLM(sys.argv[1]).check()
except Exception as error:
    print(error)
print("litellm" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, model],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert error in done.stdout
    assert done.stdout.endswith("False\n")


def test_the_provider_of_a_model_with_an_address_is_left_to_the_call() -> None:
    _check("nonsense/x", api_base="http://127.0.0.1:9/v1")
    with pytest.raises(ModelNotFound):
        asyncio.run(LLM("nonsense/x", api_base="http://127.0.0.1:9/v1").probe())


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
    with pytest.raises(
        AuthenticationFailed, match=f"{model} is missing: {variable} is not set"
    ):
        _check(model)


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
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    environ: Mapping[str, str],
    more: dict[str, object],
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    _check(model, **more)


def test_a_model_that_is_configured_in_litellm_itself_is_left_to_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import litellm

    monkeypatch.setattr(
        litellm,
        "custom_provider_map",
        [{"provider": "mine", "custom_handler": object()}],
    )
    _check("mine/x")
    monkeypatch.setattr(litellm, "custom_provider_map", [])
    monkeypatch.setattr(litellm, "openai_key", "k")
    _check("openai/gpt-5-mini")
    monkeypatch.setattr(litellm, "model_alias_map", {"short": "openai/x"})
    _check("short")


@pytest.mark.parametrize(
    ("model", "environ", "is_missing"),
    [
        ("gemini/pro", {}, True),
        ("gemini/pro", {"GEMINI_API_KEY": " "}, True),
        ("gemini/pro", {"GOOGLE_API_KEY": "k"}, False),
        ("gemini/pro", {"LLM_API_KEY": "k"}, False),
        ("openai/gpt-5", {"OPENAI_BASE_URL": "http://127.0.0.1:9"}, False),
        ("bedrock/claude", {}, False),
        ("gemini-2.5-pro", {"GEMINI_API_KEY": "k"}, False),
    ],
)
def test_a_key_is_missing_only_if_no_variable_of_its_provider_is_set(
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    environ: dict[str, str],
    is_missing: bool,
) -> None:
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    refused = (
        pytest.raises(AuthenticationFailed, match="GEMINI_API_KEY is not set")
        if is_missing
        else nullcontext()
    )
    with refused:
        refuse_missing_key(model, {}, "agent", environ)


def test_what_a_calling_program_has_set_in_litellm_may_be_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "litellm", SimpleNamespace(openai_key="k"))
    refuse_missing_key("openai/gpt-5", {}, "agent", {})


def _probe(server: ModelServer, **more: object) -> LLM:
    llm = LLM("openai/judge", api_base=server.base_url, account="judge", **more)  # type: ignore[arg-type]
    assert asyncio.run(llm.probe()) == ""
    return llm


def test_a_call_of_one_token_shows_that_key_and_model_are_accepted() -> None:
    with ModelServer([say("y")]) as server:
        llm = _probe(server, params={"max_completion_tokens": 500})
    assert server.bodies[0]["max_tokens"] == 1
    assert "max_completion_tokens" not in server.bodies[0]
    assert llm.usage.calls == 1


def test_a_refusal_of_the_form_shows_that_the_key_is_accepted() -> None:
    with ModelServer(
        [fail(400, "Could not finish the message because max_tokens was reached.")]
    ) as server:
        _probe(server)


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (401, "Incorrect API key provided: abc.", AuthenticationFailed),
        (404, "The model `judge` does not exist.", ModelNotFound),
        (
            429,
            "You exceeded your current quota, please check your plan and billing details.",
            RequestRejected,
        ),
    ],
)
def test_a_key_a_name_or_a_quota_that_is_refused_is_an_error(
    status: int, message: str, error: type[ModelError]
) -> None:
    with (
        ModelServer([fail(status, message)]) as server,
        pytest.raises(error, match="openai/judge") as raised,
    ):
        _probe(server)
    assert raised.value.hint


def test_a_server_that_does_not_answer_is_a_warning() -> None:
    with ModelServer() as server:
        base = server.base_url
    assert "did not answer" in asyncio.run(LLM("openai/judge", api_base=base).probe())
