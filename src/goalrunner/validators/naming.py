"""Short names for validators that were given none. Owns how a command line becomes one."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath

from goalrunner.model.goal import ValidatorSpec

_RUNNERS = frozenset({"uv", "poetry", "pipenv", "pdm", "hatch", "rye", "npm", "pnpm", "yarn", "bun", "npx", "env"})
_FOLDER_CHANGE = re.compile(r"^\s*cd\s+\S+\s*&&\s*")
_LONGEST = 40


def name_of(spec: ValidatorSpec) -> str:
    """The name it was given, or one made from what it runs: `pytest -q` is "pytest", `checks:covers` is "covers"."""
    if spec.name:
        return spec.name
    if spec.python is not None:
        return (spec.python.rpartition(":")[2] or spec.python)[:_LONGEST]
    return _program(spec.run or "")[:_LONGEST] or "check"


def _program(line: str) -> str:
    try:
        words = shlex.split(_FOLDER_CHANGE.sub("", line))
    except ValueError:
        words = line.split()
    while words and ("=" in words[0] or words[0] in _RUNNERS or words[0] == "run"):
        words.pop(0)
    if len(words) > 2 and words[0].startswith("python") and words[1] == "-m":
        words = words[2:]
    return PurePath(words[0]).name if words else ""
