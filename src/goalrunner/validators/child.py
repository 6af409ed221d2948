"""Calls a Python validator in a process of its own.

The request comes on stdin, and the answer goes to a file.

The file is run by its path, with the standard library alone. The workspace, which the
agent writes, comes last on sys.path: nothing in it replaces an installed check, what
that check imports, or the standard library.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib.machinery import PathFinder
from types import SimpleNamespace
from typing import Any

_FEEDBACK_TAIL = 4_000
_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
_LEADING = (
    os.path.dirname(_FOLDER),  # noqa: PTH120
    os.path.dirname(asyncio.__file__),  # noqa: PTH120
    "<frozen importlib",
)
"""Files whose frames lie between a traceback's top and the validator."""
_KEYS = ("passed", "feedback", "evidence")


def callable_outcome(value: object) -> tuple[str, str]:
    """Return the reason and the feedback for what a validator returned.

    The reason is "passed", "red" or "invalid_result". True and False count, a dict of
    `passed` (a bool) and perhaps `feedback` (str or None) and `evidence` (a list of str
    such as "order:O-104"), and an object with these. Evidence becomes a last line of
    the feedback.
    """
    passed, feedback, evidence = value, None, None
    if isinstance(value, dict):
        passed, feedback, evidence = map(value.get, _KEYS)
        # A misspelled key must not be lost.
        if not value.keys() <= set(_KEYS):
            passed = None
    elif _has_result(value):
        passed, feedback, evidence = (getattr(value, key, None) for key in _KEYS)
    is_bool = passed is True or passed is False
    if not is_bool or not (feedback is None or isinstance(feedback, str)):
        return "invalid_result", _why_invalid(value)
    text = feedback or ""
    if isinstance(evidence, list | tuple) and evidence:
        text = f"{text}\nGOAL_EVIDENCE {' '.join(map(str, evidence))}".lstrip("\n")
    return "passed" if passed else "red", _storable(text)


def _has_result(value: object) -> bool:
    """Return whether an object, and not a class, has the fields of a result."""
    if isinstance(value, type):
        return False
    return hasattr(value, "passed") and hasattr(value, "feedback")


def _why_invalid(value: object) -> str:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    kind = kind.removeprefix("builtins.")
    if value is None:
        # A function without a return statement is the most frequent mistake.
        kind = "None"
    return (
        f"the validator returned {kind};"
        " it must return a bool, {'passed': bool, 'feedback': str}"
        " or an object with passed and feedback"
    )


def score_of(value: object) -> tuple[str, str]:
    """Return the reason and the feedback for a returned score.

    The reason is "passed" or "invalid_result", the feedback a line of JSON, which the
    runner reads itself.
    """
    if hasattr(value, "score"):
        value = {
            "score": getattr(value, "score", None),
            "feedback": getattr(value, "feedback", None),
        }
    try:
        return "passed", json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        problem = f"a {type(value).__name__} was returned, which is no score"
        return "invalid_result", problem


def arity(function: Callable[..., Any]) -> int | None:
    """Return how many of the arguments (response, agent) a validator takes.

    None if it cannot be called with them.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin
        return 2
    for count in (2, 1, 0):
        try:
            signature.bind(*[None] * count)
        except TypeError:
            continue
        return count
    return None


def arguments_of(
    function: Callable[..., Any], response: object, agent: object
) -> tuple[object, ...]:
    """Return response and agent, or as many of them as a validator takes."""
    count = arity(function)
    return (response, agent)[: 2 if count is None else count]


def traceback_end(error: BaseException) -> str:
    """Return the end of a traceback, without the frames that led to the validator."""
    frame = error.__traceback__
    while frame is not None:
        if not frame.tb_frame.f_code.co_filename.startswith(_LEADING):
            break
        frame = frame.tb_next
    lines = traceback.format_exception(type(error), error, frame)
    return _storable("".join(lines).strip()[-_FEEDBACK_TAIL:])


def _storable(text: str) -> str:
    """Return the text without lone surrogates, which no file can hold."""
    return text.encode(errors="replace").decode()


def _arrange(request: dict[str, Any], name: str) -> None:
    """Put sys.path in order for the module `name`.

    PYTHONPATH, this interpreter, the runner's folders, the workspace.
    """
    workspace = request["workspace"]
    interpreter = [entry for entry in sys.path if entry not in workspace]
    sys.path[:] = dict.fromkeys(
        [*request["first"], *interpreter, *request["installed"]]
    )
    # Packages that are installed as a link are found by finders of their own, which
    # usually come after sys.path.
    sys.meta_path.sort(key=lambda finder: finder is PathFinder)
    _import_packages(name)
    sys.path += [entry for entry in workspace if entry not in sys.path]


def _import_packages(name: str) -> None:
    """Import the installed packages that lead to a module.

    Otherwise folders without an __init__.py would come after those of the workspace.
    """
    try:
        is_installed = importlib.util.find_spec(name) is not None
    except Exception:  # what needs the workspace is imported later
        is_installed = False
    if is_installed:
        return
    # Half of the module may be installed: its packages are looked for again.
    package = ""
    for part in name.split("."):
        package = f"{package}.{part}" if package else part
        sys.modules.pop(package, None)


def _load(request: dict[str, Any]) -> Callable[..., Any] | str:
    """Return the callable that `package.module:function` names, or why there is none.

    Errors of the module are raised.
    """
    target = request["target"]
    name, _, attribute = target.partition(":")
    _arrange(request, name)
    try:
        value: Any = importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name
        if missing and (name == missing or name.startswith(f"{missing}.")):
            where = "in the workspace or among the installed packages"
            return f'there is no module "{missing}" {where}'
        # The module exists, and imports one that does not.
        raise
    for part in attribute.split("."):
        if not hasattr(value, part):
            return f'the module "{name}" has no "{attribute}"'
        value = getattr(value, part)
    return value if callable(value) else f'"{target}" is not callable'


def _answer(request: dict[str, Any]) -> tuple[str, str]:
    """Load and call the validator of a request; return the reason and the feedback."""
    try:
        function = _load(request)
        if isinstance(function, str):
            return "not_found", function
        agent = SimpleNamespace(messages=request["messages"])
        value = function(*arguments_of(function, request["response"], agent))
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        # Within the try: a returned object may have methods that raise.
        return score_of(value) if request["scores"] else callable_outcome(value)
    except Exception as error:
        return "crashed", traceback_end(error)


async def _awaited(value: Any) -> Any:
    return await value


def _main() -> None:
    """Read the request, and write the answer into the file that it names."""
    process = os.getpid()
    request = json.load(sys.stdin.buffer)
    nonce, result = request.pop("nonce"), request.pop("result")
    reason, feedback = _answer(request)
    # A fork of this process, which the validator left, does not answer.
    if os.getpid() != process:
        return
    # pathlib is not imported: this process starts for each check.
    with open(f"{result}.part", "w", encoding="ascii") as file:  # noqa: PTH123
        json.dump({"nonce": nonce, "reason": reason, "feedback": feedback}, file)
    os.replace(f"{result}.part", result)  # noqa: PTH105


if __name__ == "__main__":
    # Python puts the folder of a program first on sys.path; -I keeps it out.
    _main()
