"""What holds for every test: no keys and runs of the user, no connection to other machines; and the selection by markers."""

from __future__ import annotations

import itertools
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from goalrunner.system.child_environment import JOB_FILES
from tests.default_runs import FOLDERS, mark_runs

# Assertions there show what they compared, also if another module imports them first.
pytest.register_assert_rewrite("tests.conformance.checks", "tests.conformance.place")

# How long an example takes depends on the load of the machine, so it decides nothing.
for _name, _examples in (("quick", 8), ("thorough", 150)):
    settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )

_LOCAL = {"127.0.0.1", "localhost", "::1", ""}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that rewrites what is derived from recorded runs."""
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="write the files that recorded runs and screens are compared with",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Try few examples of each property; CI has `--hypothesis-profile=thorough`."""
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("quick")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore modules of which `-m` selects no test: importing them would take a good part of the time."""
    expression = config.option.markexpr
    if not collection_path.match("test_*.py"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    marks = {
        FOLDERS.get(collection_path.parent.name),
        *re.findall(r"(?:mark\.|\b(?=hypothesis))(\w+)", text),
    }
    wanted = set(re.findall(r"\w+", re.sub(r"\bnot (\w+|\(.*?\))", "", expression))) - {
        "and",
        "or",
    }
    if wanted and wanted.isdisjoint(marks):
        return True
    (line,) = re.findall(r"^pytestmark = (.*)$", text, re.MULTILINE) or [""]
    excluded = (
        set() if " or " in expression else set(re.findall(r"\bnot (\w+)", expression))
    )
    return True if excluded & set(re.findall(r"mark\.(\w+)", line)) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Mark the whole runs, before `-m` selects."""
    names_tests = any("::" in argument for argument in config.args)
    is_repeated = config.getoption("lf", default=False)
    mark_runs(items, whole_files=not (names_tests or is_repeated))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more worker than there are processors: a fifth of the time a test waits for a process that it started."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Iterate over paths that do not exist. (`mktemp` looks through all folders that it has made before.)"""
    folder = tmp_path_factory.mktemp("goal-homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_home(
    homes: Iterator[Path],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Return GOAL_HOME of this test, outside of its tmp_path, which is often the workspace."""
    home = next(homes)
    home.mkdir()
    monkeypatch.setenv("GOAL_HOME", str(home))
    for name in (
        "GOAL_AGENT",
        "GOAL_MODEL",
        "GOAL_JUDGE",
        "LLM_MODEL",
        "LLM_API_KEY",
        "LLM_BASE_URL",
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "CI",
        "GITHUB_ACTIONS",
        "COLUMNS",
        *(name for name in os.environ if name.lower().endswith("_proxy")),
        *JOB_FILES,
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(
        "XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-config")
    )
    return home


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only loopback may be connected to from the test process."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if (
            self.family in (socket.AF_INET, socket.AF_INET6)
            and address[0] not in _LOCAL
        ):
            raise AssertionError(f"a test tried to reach {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
