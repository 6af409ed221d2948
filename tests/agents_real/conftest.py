"""Each test is run by each agent that is installed, in a home of its own; what is not installed is skipped aloud."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.presets import find
from goalrunner.process.environment import is_provider_key
from tests.agents_real.programs import FOLDER, NAMES, installed, search_path
from tests.agents_real.stage import Stage
from tests.support.agents import MemoryRecorder

SETTINGS = {"qwen": {".qwen/settings.json": '{"memory": {"enableManagedAutoMemory": false}}'}}
"""What would ask the model besides, with the very tools that play the script."""


@pytest.fixture(params=NAMES)
def stage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """The stage of one agent."""
    name = str(request.param)
    if not installed(name):
        pytest.skip(f"{name} is not installed: {find(name, {}, {}).install}, or name its folder in {FOLDER}")
    for variable in [one for one in os.environ if is_provider_key(one) or one.startswith("XDG_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PATH", search_path())
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for folder in ("home", "work"):
        (tmp_path / folder).mkdir()
    for path, settings in SETTINGS.get(name, {}).items():
        (tmp_path / "home" / path).parent.mkdir()
        (tmp_path / "home" / path).write_text(settings)
    return Stage(name, tmp_path)


@pytest.fixture
def recorder(tmp_path: Path) -> MemoryRecorder:
    """What a conversation writes."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return MemoryRecorder(folder)
