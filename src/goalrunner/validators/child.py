"""Calling a validator in a process of its own. The request comes on stdin; the answer goes to a file, never to stdout.

Run by its path, with the standard library alone; also the one place that says which returned objects count.

What is installed wins: the workspace, which the agent writes, comes last on sys.path. A check of that name may come from it,
but nothing in it takes the place of an installed check, of what that check imports, or of the standard library.
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


def outcome_of(value: object) -> tuple[bool, str] | None:
    """(passed, feedback) of what a validator returned, or None when it does not count.

    What counts: True and False themselves, a dict of `passed` (a bool) and perhaps `feedback` (str or None), and a
    ValidationOutcome. No truth of any other object is ever asked for.
    """
    if value is True or value is False:
        return value, ""
    if isinstance(value, dict):
        if "passed" not in value or not set(value) <= {"passed", "feedback"}:
            return None
        passed, feedback = value["passed"], value.get("feedback")
    elif _is_validation_outcome(value):
        passed, feedback = getattr(value, "passed", None), getattr(value, "feedback", None)
    else:
        return None
    if not (passed is True or passed is False) or not (feedback is None or isinstance(feedback, str)):
        return None
    return passed, _storable(feedback or "")


def refusal_of(value: object) -> str:
    """Why a returned object does not count, for people."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    expected = "it must return a bool, {'passed': bool, 'feedback': str} or a ValidationOutcome"
    if isinstance(value, dict):
        keys = ", ".join(sorted(str(key)[:40] for key in value)[:10])
        return f"the validator returned a dict that does not fit (keys: {keys or 'none'}); {expected}"
    return f"the validator returned {kind}; {expected}"


def last_lines(error: BaseException) -> str:
    """The end of a traceback, without the frames that led to the validator."""
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename.startswith(_LEADING):
        at = at.tb_next
    return _storable("".join(traceback.format_exception(type(error), error, at)).strip()[-_FEEDBACK_TAIL:])


def _storable(text: str) -> str:
    """The text without halves of characters, which no file can hold: the reason must not be lost for one of them."""
    return text.encode(errors="replace").decode()


def _is_validation_outcome(value: object) -> bool:
    module = sys.modules.get("goalrunner.core.verdict")
    return module is not None and isinstance(value, module.ValidationOutcome)


def arrange(first: list[str], installed: list[str], workspace: list[str], name: str) -> None:
    """Put sys.path in order for the module `name`: PYTHONPATH, this interpreter, the runner's own folders, the workspace."""
    own = [entry for entry in sys.path if entry not in workspace]
    sys.path[:] = dict.fromkeys([*first, *own, *installed])
    # Packages that are installed as a link are found by finders of their own, which usually come after sys.path.
    sys.meta_path.sort(key=lambda finder: finder is PathFinder)
    _hold(name)
    sys.path += [entry for entry in workspace if entry not in sys.path]


def _hold(name: str) -> None:
    """Import the installed folders that lead to a module: one without an __init__.py gives way to any later module else."""
    held: list[str] = []
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        prefix = ".".join(parts[:length])
        if prefix in sys.modules:
            return
        spec = importlib.util.find_spec(prefix)
        if spec is None:
            break
        if spec.origin is not None:
            return
        importlib.import_module(prefix)
        held.append(prefix)
    # The module is not there: a folder that only has its name stands in nobody's way.
    for prefix in held:
        del sys.modules[prefix]


def load(target: str, first: list[str], installed: list[str], workspace: list[str]) -> Callable[..., Any] | str:
    """The callable that `package.module:function` names, or why there is none. What the module itself raises is raised."""
    name, colon, attribute = target.partition(":")
    if not (name and colon and attribute):
        return f'"{target}" names no callable; write package.module:function'
    arrange(first, installed, workspace, name)
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


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Load, call and read the validator of a request. `kind` is outcome, not_found, crashed or invalid_result."""
    try:
        function = load(request["target"], request["first"], request["installed"], request["workspace"])
        if isinstance(function, str):
            return _said("not_found", function)
        value = function(request["response"], SimpleNamespace(messages=request["messages"]))
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        # Within the try: a returned object may have methods that raise.
        outcome = outcome_of(value)
        if outcome is None:
            return _said("invalid_result", refusal_of(value))
    except Exception as error:
        return _said("crashed", last_lines(error))
    return {"kind": "outcome", "passed": outcome[0], "feedback": outcome[1]}


async def _awaited(value: Any) -> Any:
    return await value


def _said(kind: str, feedback: str) -> dict[str, Any]:
    return {"kind": kind, "passed": False, "feedback": feedback}


def main() -> None:
    """Read the request, answer it into the file that it names. Only the process that was started may answer."""
    started = os.getpid()
    request = json.load(sys.stdin.buffer)
    nonce, result = request.pop("nonce"), request.pop("result")
    said = {"nonce": nonce, **answer(request)}
    if os.getpid() != started:
        return
    with open(f"{result}.part", "w", encoding="ascii") as file:  # noqa: PTH123 - no more is imported than is needed
        json.dump(said, file)
    os.replace(f"{result}.part", result)  # noqa: PTH105


if __name__ == "__main__":
    # Run by path, the folder of this file would come first on sys.path; -I keeps it out.
    main()
