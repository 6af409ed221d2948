"""The tests of Python files that pytest could not import at the baseline."""

from __future__ import annotations

import ast
from collections.abc import Awaitable, Callable, Iterator, Sequence

from goalrunner.model.validation import ValidatorResult

_MARKS = frozenset({"parametrize", "filterwarnings"})
_FIXTURES = frozenset(
    "self tmp_path tmpdir monkeypatch capsys capfd capsysbinary caplog recwarn request tmp_path_factory".split()  # noqa: SIM905
)
"""Fixtures of pytest itself, which skip no test."""
_SKIPPING = (b"pytestmark", b"importorskip", b"allow_module_level", b"__test__")


async def with_uncollected(
    results: Sequence[ValidatorResult], read: Callable[[str], Awaitable[bytes | None]]
) -> list[ValidatorResult]:
    """Return results with the tests that exist in files that could not be imported beside those that ran.

    `read` returns the content of a file at the start.
    """
    return [await _with_uncollected(result, read) for result in results]


async def _with_uncollected(result: ValidatorResult, read: Callable[[str], Awaitable[bytes | None]]) -> ValidatorResult:
    if result.suite.filters or "::" in result.command:
        return result  # single tests are selected
    files = [name for name in result.test_ids if name.endswith(".py") and "::" not in name]
    more = [f"{path}::{name}" for path in files for name in tests_in(await read(path) or b"")]
    return result.model_copy(update={"test_ids": tuple(sorted({*result.test_ids, *more}))})


def tests_in(source: bytes) -> tuple[str, ...]:
    """Return the tests of a file that pytest runs in any environment once it can import it: "test_a", "TestB::test_c".

    Tests with other marks and fixtures than the known ones are left out, because those may skip them.
    """
    if any(word in source for word in _SKIPPING):
        return ()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(dict.fromkeys(_tests(tree.body)))


def _tests(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef) and _runs(node):
            yield node.name
        elif (
            isinstance(node, ast.ClassDef) and node.name.startswith("Test") and not (node.bases or node.decorator_list)
        ):
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            if not any(item.name.startswith(("__init__", "setup")) for item in methods):
                yield from (f"{node.name}::{item.name}" for item in methods if _runs(item))


def _runs(function: ast.FunctionDef) -> bool:
    names = {_name(node).lower() for node in ast.walk(function)}
    if not function.name.startswith("test") or any("skip" in name or "xfail" in name for name in names):
        return False
    marks = [node.func if isinstance(node, ast.Call) else node for node in function.decorator_list]
    words = " ".join(
        node.value
        for mark in function.decorator_list
        for node in ast.walk(mark)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    given = _FIXTURES | set(words.replace(",", " ").split())
    return all(_name(mark) in _MARKS for mark in marks) and all(item.arg in given for item in function.args.args)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
