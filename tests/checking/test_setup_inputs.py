"""What the result of a setup command depends on."""

from __future__ import annotations

import pytest

from goalrunner.checking.setup import input_paths

PATHS = [
    "README.md",
    "pyproject.toml",
    "src/a.py",
    "src/fast.pyx",
    "sub/package-lock.json",
    "uv.lock",
]


@pytest.mark.parametrize(
    "setup",
    [
        "uv sync", "uv sync --frozen --extra=test", "npm ci", "pip install -e .", "pip install -e .[test]",
        "uv pip install -e .", "pip install -r requirements.txt", "poetry install --no-root",
    ],
)  # fmt: skip
def test_a_known_command_depends_on_manifests_and_what_is_compiled(setup: str) -> None:
    assert input_paths(setup, PATHS) == [
        "pyproject.toml",
        "src/fast.pyx",
        "sub/package-lock.json",
        "uv.lock",
    ]


@pytest.mark.parametrize(
    "setup",
    [
        "pip install .",
        "make deps",
        "uv sync && python build.py",
        "npm ci; ./x",
        "uv sync --no-editable .",
        "",
    ],
)
def test_any_other_depends_on_every_file(setup: str) -> None:
    assert input_paths(setup, PATHS) == PATHS
