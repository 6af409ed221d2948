"""Every test here works in a folder of its own, unless it names a workspace."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder is empty."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))
