"""The scripted server is loud if its script is too short."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from tests.support.model_server import ModelServer, say


def ask_twice() -> None:
    body = json.dumps({"model": "agent", "messages": []}).encode()
    with ModelServer([say("only")]) as server:
        urllib.request.urlopen(f"{server.base_url}/chat/completions", body, timeout=5).close()
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(f"{server.base_url}/chat/completions", body, timeout=5)


def test_an_exhausted_script_fails_the_request_and_the_test() -> None:
    with pytest.raises(AssertionError, match="at its end after 1 answers"):
        ask_twice()
