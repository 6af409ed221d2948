"""Without its extra, `goal fleet` says what is missing; with it, the other modules here test the fleet."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from goalrunner.cli.main import main

HAS_EXTRA = find_spec("procrastinate") is not None


@pytest.mark.skipif(HAS_EXTRA, reason="the extra `fleet` is installed")
def test_the_command_names_the_extra_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GOAL_FLEET", "postgresql://nowhere/fleet")
    assert main(["fleet", "status"]) == 2
    assert "pip install 'goalrunner[fleet]'" in capsys.readouterr().err


@pytest.mark.skipif(
    not HAS_EXTRA, reason="the extra `fleet` is not installed, so no fleet is tested"
)
def test_the_command_can_be_used_with_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GOAL_FLEET", raising=False)
    assert main(["fleet", "status"]) == 2
    assert "GOAL_FLEET" in capsys.readouterr().err
