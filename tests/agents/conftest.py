"""The parser `plain` is registered for the tests of this folder."""

from __future__ import annotations

import pytest

from tests.support.command_line import WITH_PLAIN


@pytest.fixture(autouse=True)
def _plain_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(WITH_PLAIN["PYTHONPATH"])
