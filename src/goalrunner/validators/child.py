"""Calls a Python validator in a process of its own. The request comes on stdin, and the answer goes to a file.

The file is run by its path, with the standard library alone. The workspace, which the agent writes, comes last on
sys.path: nothing in it replaces an installed check, what that check imports, or the standard library.
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
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
_LEADING = (_OWN, os.path.dirname(asyncio.__file__), "<frozen importlib")  # noqa: PTH120
"""Files whose frames lie between a traceback's top and the validator."""


def callable_outcome(value: object) -> tuple[str, str]:
    """Return the reason ("passed", "red" or "invalid_result") and the feedback for what a validator returned.

    True and False count, a dict of `passed` (a bool) and perhaps `feedback` (str or None) and `evidence` (a list of str such
    as "order:O-104"), and an object with these. Evidence becomes a last line of the feedback.
    """
    passed, feedback, evidence = value, None, None
    if isinstance(value, dict):
        passed, feedback, evidence = (
            value.get(key) for key in ("passed", "feedback", "evidence")
        )
        passed = passed if value.keys() <= {"passed", "feedback", "evidence"} else None
    elif (
        hasattr(value, "passed")
        and hasattr(value, "feedback")
        and not isinstance(value, type)
    ):
        passed, feedback, evidence = (
            getattr(value, key, None) for key in ("passed", "feedback", "evidence")
        )
    if (passed is True or passed is False) and (
        feedback is None or isinstance(feedback, str)
    ):
        if isinstance(evidence, list | tuple) and evidence:
            feedback = f"{feedback or ''}\nGOAL_EVIDENCE {' '.join(map(str, evidence))}".lstrip(
                "\n"
            )
        return "passed" if passed else "red", _storable(feedback or "")
    expected = "it must return a bool, {'passed': bool, 'feedback': str} or an object with passed and feedback"
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix(
        "builtins."
    )
    return "invalid_result", f"the validator returned {kind}; {expected}"


def score_of(value: object) -> tuple[str, str]:
    """Return the reason ("passed" or "invalid_result") and the feedback for a returned score: a line of JSON."""
    if hasattr(value, "score"):
        value = {
            "score": getattr(value, "score", None),
            "feedback": getattr(value, "feedback", None),
        }
    try:
        line = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return (
            "invalid_result",
            f"a {type(value).__name__} was returned, which is no score",
        )
    return "passed", line  # the runner reads the score itself


def arity(function: Callable[..., Any]) -> int | None:
    """Return how many of the arguments (response, agent) a validator takes; None if it cannot be called with them."""
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
    """Return the arguments of a validator: response and agent, or as many of them as it takes."""
    count = arity(function)
    return (response, agent)[: 2 if count is None else count]


def traceback_end(error: BaseException) -> str:
    """Return the end of a traceback, without the frames that led to the validator."""
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename.startswith(_LEADING):
        at = at.tb_next
    return _storable(
        "".join(traceback.format_exception(type(error), error, at)).strip()[
            -_FEEDBACK_TAIL:
        ]
    )


def _storable(text: str) -> str:
    """Return the text without lone surrogates, which no file can hold."""
    return text.encode(errors="replace").decode()


def _arrange(request: dict[str, Any], name: str) -> None:
    """Put sys.path in order for the module `name`: PYTHONPATH, this interpreter, the runner's folders, the workspace."""
    workspace = request["workspace"]
    own = [entry for entry in sys.path if entry not in workspace]
    sys.path[:] = dict.fromkeys([*request["first"], *own, *request["installed"]])
    # Packages that are installed as a link are found by finders of their own, which usually come after sys.path.
    sys.meta_path.sort(key=lambda finder: finder is PathFinder)
    _import_packages(name)
    sys.path += [entry for entry in workspace if entry not in sys.path]


def _import_packages(name: str) -> None:
    """Import the installed packages that lead to a module: folders without an __init__.py come after the workspace's."""
    try:
        found = importlib.util.find_spec(name)
    except Exception:  # what needs the workspace is imported later
        found = None
    parts = name.split(".")
    for length in range(1, len(parts) + 1) if found is None else ():
        sys.modules.pop(".".join(parts[:length]), None)


def _load(request: dict[str, Any]) -> Callable[..., Any] | str:
    """Return the callable that `package.module:function` names, or why there is none. Errors of the module are raised."""
    target = request["target"]
    name, _, attribute = target.partition(":")
    _arrange(request, name)
    try:
        found: Any = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            return f'there is no module "{error.name}" in the workspace or among the installed packages'
        raise
    for part in attribute.split("."):
        if not hasattr(found, part):
            return f'the module "{name}" has no "{attribute}"'
        found = getattr(found, part)
    return found if callable(found) else f'"{target}" is not callable'


def _answer(request: dict[str, Any]) -> tuple[str, str]:
    """Load and call the validator of a request; return the reason and the feedback."""
    try:
        function = _load(request)
        if isinstance(function, str):
            return "not_found", function
        agent = SimpleNamespace(messages=request["messages"])
        value = function(*arguments_of(function, request["response"], agent))
        # Within the try: a returned object may have methods that raise.
        value = asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value
        return score_of(value) if request["scores"] else callable_outcome(value)
    except Exception as error:
        return "crashed", traceback_end(error)


async def _awaited(value: Any) -> Any:
    return await value


def _main() -> None:
    """Read the request, and write the answer into the file that it names. A fork of this process does not answer."""
    started = os.getpid()
    request = json.load(sys.stdin.buffer)
    nonce, result = request.pop("nonce"), request.pop("result")
    reason, feedback = _answer(request)
    if os.getpid() != started:
        return
    with open(f"{result}.part", "w", encoding="ascii") as file:  # noqa: PTH123 - no more is imported than is needed
        json.dump({"nonce": nonce, "reason": reason, "feedback": feedback}, file)
    os.replace(f"{result}.part", result)  # noqa: PTH105


if __name__ == "__main__":
    # Run by path, the folder of this file would come first on sys.path; -I keeps it out.
    _main()
