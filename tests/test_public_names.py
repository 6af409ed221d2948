"""Every public name has a docstring with an example that runs, and a signature with its real defaults."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import os
import pydoc
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import goalrunner
from goalrunner import testing
from goalrunner.adapters import openhands, strands

SCREEN = (24, 80)
"""Lines and columns of a terminal of the usual size."""


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a module defines for users."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if not name.startswith("__")]
    names = []
    for name, value in vars(module).items():
        is_own = getattr(value, "__module__", "") == module.__name__
        if (
            is_own
            and not name.startswith("_")
            and inspect.isroutine(value) | (inspect.isclass(value))
        ):
            names.append(name)
    return names


def public_objects(*modules: ModuleType) -> Iterator[Any]:
    for module in modules:
        for name in public_names(module):
            value = getattr(module, name)
            is_type = inspect.isclass(value) and not hasattr(value, "__origin__")
            if is_type or inspect.isroutine(value):
                yield pytest.param(value, id=f"{module.__name__}.{name}")


def own_members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public functions of a class, and those behind properties."""
    for owner in cls.__mro__:
        if not owner.__module__.startswith("goalrunner"):
            continue
        for name, value in list(vars(owner).items()):
            function = getattr(value, "fget", None) or inspect.unwrap(
                getattr(value, "__func__", value)
            )
            if not name.startswith("_") and isinstance(function, FunctionType):
                yield f"{owner.__qualname__}.{name}", function


def has_own_docstring(value: Any) -> bool:
    # A dataclass without a docstring gets its signature as one.
    text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    return bool(text) and not str(text).startswith(f"{value.__name__}(")


EVERYWHERE = list(public_objects(goalrunner, testing, strands, openhands))
OURS = list(public_objects(goalrunner, testing))


@pytest.mark.parametrize("value", EVERYWHERE)
def test_a_public_name_and_its_members_have_docstrings(value: Any) -> None:
    missing = [] if has_own_docstring(value) else [value.__qualname__]
    if inspect.isclass(value):
        missing += [name for name, member in own_members(value) if not member.__doc__]
    assert missing == []


@pytest.mark.parametrize(
    "value",
    [
        parameter
        for parameter in EVERYWHERE
        # The adapters pass some names of the frameworks on.
        if parameter.values[0].__module__.startswith("goalrunner")
    ],
)
def test_a_public_name_has_an_example_that_runs(
    value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOAL_HOME", str(tmp_path / "home"))
    text = inspect.getdoc(value) or ""
    example = doctest.DocTestParser().get_doctest(
        text, {}, value.__qualname__, None, None
    )
    assert example.examples
    for statement in example.examples:
        ast.parse(statement.source)
    if value.__module__.startswith("goalrunner.adapters"):
        # It needs the framework.
        return
    printed: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    runner.run(example, out=printed.append)
    assert "".join(printed) == ""


@pytest.mark.parametrize("value", OURS)
def test_a_signature_shows_defaults_and_no_environment(value: Any) -> None:
    if inspect.isclass(value) and issubclass(value, dict | Exception):
        pytest.skip("no signature of its own")
    for parameter in inspect.signature(value).parameters.values():
        assert parameter.default is not ...
        assert parameter.default is not os.environ


def test_the_shown_defaults_are_those_of_a_call(own_home: Path) -> None:
    first = goalrunner.run_goal(
        testing.ScriptedConversation("4"), "Add.", validators=lambda: True
    )
    shown = {
        name: parameter.default
        for name, parameter in inspect.signature(goalrunner.run_goal).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert shown.keys() == goalrunner.RunKeywords.__annotations__.keys()
    second = goalrunner.run_goal(
        testing.ScriptedConversation("4"),
        "Add.",
        **{**shown, "validators": lambda: True},
    )
    assert goalrunner.read_state(first).plan == goalrunner.read_state(second).plan


def test_the_shown_defaults_of_batches_are_accepted(tmp_path: Path) -> None:
    for function in (goalrunner.run_batch, goalrunner.best_of):
        keywords = {
            name: parameter.default
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        with pytest.raises(goalrunner.GoalError, match=r"no-such\.toml"):
            function(tmp_path / "no-such.toml", **{**keywords, "home": tmp_path})


@cache
def _documented_data(module: ModuleType) -> set[str]:
    """Return the names with a docstring below their assignment."""
    body = ast.parse(inspect.getsource(module)).body
    names = set()
    for statement, below in pairwise(body):
        is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if is_text and isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = getattr(statement, "targets", None) or [
                getattr(statement, "target", None)
            ]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def test_a_public_value_is_described_below_its_assignment() -> None:
    described = set()
    data = set()
    for home, names in goalrunner._NAMES.items():
        module = importlib.import_module(f"goalrunner.{home}")
        for name in names:
            value = getattr(goalrunner, name)
            if not (isinstance(value, type) or inspect.isroutine(value)):
                data.add(name)
        described |= _documented_data(module)
    assert data - described == set()


def test_help_fits_four_screens_and_names_everything() -> None:
    text = pydoc.plain(pydoc.render_doc(goalrunner))
    lines = text.splitlines()
    rows, columns = SCREEN
    assert len(lines) <= 4 * rows
    # The last section is the path of the file.
    assert max(map(len, lines[: lines.index("FILE")])) <= columns
    assert "Start with run_goal" in text
    words = set(re.findall(r"\w+", text))
    assert set(public_names(goalrunner)) - words == set()


def test_completion_and_star_imports_know_all_names() -> None:
    names = set(public_names(goalrunner))
    assert names <= set(dir(goalrunner))
    namespace: dict[str, object] = {}
    exec("from goalrunner import *", namespace)
    assert names <= namespace.keys()
