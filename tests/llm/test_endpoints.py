"""Models that LiteLLM does not know are looked up in the list of the provider, over HTTP."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from goalrunner.core.errors import ModelNotFound
from goalrunner.llm import LLM, endpoints
from goalrunner.llm.library import known_models, provider_of

pytestmark = pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="LiteLLM is not installed")


class Lists(ThreadingHTTPServer):
    """Answers each GET with one status and one body."""

    def __init__(self, answer: Any, status: int = 200, delay: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.status, self.stopping, self.delay = status, threading.Event(), delay
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.location = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Lists

    def do_GET(self) -> None:
        self.server.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        if self.server.stopping.wait(self.server.delay):
            return
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def lists(answer: Any = b"", status: int = 200, delay: float = 0.0) -> Iterator[Lists]:
    server = Lists(answer, status, delay)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()


def openai(*names: str) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}


def foresee(model: str, **more: object) -> str:
    return asyncio.run(LLM(model, account="judge", **more).foresee())  # type: ignore[arg-type]


def refusal(model: str, **more: object) -> str:
    with pytest.raises(ModelNotFound) as raised:
        foresee(model, **more)
    return raised.value.message


def test_a_model_that_litellm_knows_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with lists(openai("other")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        assert foresee("openai/gpt-5-mini") == ""
        assert foresee("gpt-4o") == ""
    assert server.seen == []


def test_a_model_that_the_provider_does_not_list_is_refused_with_the_similar_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with lists(openai("gpt-5.5-mini", "gpt-5.5", "tts-1")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        said = refusal("openai/gpt-55-mini")
    assert said == (
        f"the model openai/gpt-55-mini was not found: it is not among the 3 models that 127.0.0.1:{server.server_port}"
        " lists; did you mean openai/gpt-5.5-mini?"
    )
    assert [(path, headers["authorization"]) for path, headers in server.seen] == [("/v1/models", "Bearer secret")]


def test_a_new_model_that_the_provider_lists_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_KEY", "secret")
    with lists(openai("gpt-77")) as server:
        assert foresee("openai/gpt-77", api_base=f"{server.url}/v1", api_key_env="TEAM_KEY") == ""
    assert server.seen[0][1]["authorization"] == "Bearer secret"


def test_without_a_similar_name_in_the_list_that_of_litellm_is_named() -> None:
    with lists(openai("qwen", "llama")) as server:
        said = refusal("openai/gpt-5-mni", api_base=f"{server.url}/v1")
    assert said.endswith("lists; did you mean openai/gpt-5-mini?")


def test_anthropic_has_a_list_of_its_own_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    with lists(
        {"data": [{"id": "claude-sonnet-5-20270101"}, {"id": "claude-opus-5-20270101"}], "has_more": False}
    ) as server:
        monkeypatch.setenv("ANTHROPIC_API_BASE", server.url)
        assert foresee("anthropic/claude-sonnet-5") == ""
        assert "did you mean anthropic/claude-sonnet-5-20270101?" in refusal("anthropic/claude-sonet-5")
    path, headers = server.seen[0]
    assert (path, headers["x-api-key"]) == ("/v1/models?limit=1000", "secret")


def test_gemini_has_a_list_of_its_own_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    with lists({"models": [{"name": "models/gemini-9-pro"}, {"name": "models/gemini-9-flash"}]}) as server:
        assert foresee("gemini/gemini-9-pro", api_base=server.url) == ""
        assert "did you mean gemini/gemini-9-pro?" in refusal("gemini/gemini-9-por", api_base=server.url)
    path, headers = server.seen[0]
    assert (path, headers["x-goog-api-key"]) == ("/v1beta/models?pageSize=1000", "secret")


def test_a_redirection_is_a_warning_and_gets_no_key() -> None:
    with lists(openai("my-model", "b")) as server, lists(b"x", 307) as first:
        first.location = f"{server.url}/models"
        assert "HTTP 307" in foresee("openai/my-model", api_base=f"{first.url}/v1")
    assert server.seen == []


@pytest.mark.parametrize(("answer", "status"), [(b"", 404), (b"", 501), ({"data": []}, 200)])
def test_a_server_without_a_list_takes_any_name(answer: object, status: int) -> None:
    with lists(answer, status) as server:
        assert foresee("openai/my-model", api_base=f"{server.url}/v1") == ""
        said = foresee("openai/gpt-5-mni", api_base=f"{server.url}/v1")
    assert said == "the model openai/gpt-5-mni is not known to LiteLLM; did you mean openai/gpt-5-mini?"


@pytest.mark.parametrize(
    ("answer", "status", "why"),
    [(b"", 401, "HTTP 401"), (b"", 500, "HTTP 500"), (b"<html>", 200, "JSONDecodeError"), ([3], 200, "AttributeError")],
)
def test_a_list_that_cannot_be_read_is_a_warning(answer: object, status: int, why: str) -> None:
    with lists(answer, status) as server:
        said = foresee("openai/gpt-5-mni", api_base=f"{server.url}/v1")
    assert said == (
        "the model openai/gpt-5-mni is not known to LiteLLM, and the models of "
        f"127.0.0.1:{server.server_port} could not be listed ({why}); did you mean openai/gpt-5-mini?"
    )


def test_a_server_that_does_not_answer_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "DEADLINE", 0.3)
    with lists(openai("x"), delay=30) as server:
        assert "(TimeoutError)" in foresee("openai/my-model", api_base=f"{server.url}/v1")
    monkeypatch.undo()
    assert "(ConnectError)" in foresee("openai/my-model", api_base=f"{server.url}/v1")


def test_the_only_model_of_a_server_may_answer_to_any_name() -> None:
    with lists(openai("/models/qwen2.5-coder-7b-q4_k_m.gguf")) as server:
        said = foresee("openai/local", api_base=f"{server.url}/v1")
        assert said.endswith("lists only the model /models/qwen2.5-coder-7b-q4_k_m.gguf, not local")


def test_a_password_in_the_address_is_not_shown() -> None:
    with lists(openai("a", "b")) as server:
        base = f"{server.url}/v1".replace("://", "://me:hush@")
        said = refusal("openai/local", api_base=base)
    assert "hush" not in said
    assert f"that 127.0.0.1:{server.server_port} lists" in said


def test_what_may_go_elsewhere_is_not_asked_for() -> None:
    with lists(openai("a", "b")) as server:
        params = {"custom_llm_provider": "openai"}
        assert foresee("mine/x", api_base=f"{server.url}/v1", params=params) == ""
    assert server.seen == []


@pytest.mark.parametrize("name", ["GPT-7", "gpt-7:online", "gpt-7-latest", "gpt"])
def test_a_name_may_stand_for_a_version_or_a_variant(name: str) -> None:
    with lists(openai("gpt-7-20270101", "b")) as server:
        assert foresee(f"openai/{name}", api_base=f"{server.url}/v1") == ""


@pytest.mark.parametrize(
    ("model", "expected"),
    [("openai/gpt", True), ("gpt", True), ("groq/llama", True), ("groq/gpt", False), ("openai/gtp", False)],
)
def test_names_that_litellm_knows(model: str, expected: bool) -> None:
    def provider(name: str) -> tuple[str, str]:
        return "", name.partition("/")[0] if "/" in name else "openai"

    table = {"gpt": {"litellm_provider": "openai"}, "groq/llama": {"litellm_provider": "groq"}}
    library = SimpleNamespace(model_cost=table, get_llm_provider=provider)
    name = model.partition("/")[2] or model
    assert (name in known_models(library, provider_of(library, model))) is expected
