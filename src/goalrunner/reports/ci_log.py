"""Text that a CI system does not read as a command when it is printed to its log."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

# `##[add-mask]`: a command anywhere in a line.
_HASH_COMMAND = re.compile(r"#(?=#\w*\[)")
# `::error::`: a command at the beginning of a line. A reader of a log may split lines
# at any of these characters.
_COLON_COMMAND = re.compile(
    "((?:^|[\r\x85\u2028\u2029\ufeff])[^\\S\n]*):(?=:)", re.MULTILINE
)


def is_github(environ: Mapping[str, str]) -> bool:
    """Return whether this is a step of GitHub Actions."""
    return environ.get("GITHUB_ACTIONS") == "true"


def neutral(text: str) -> str:
    """Return text without commands of GitHub Actions and Azure Pipelines."""
    without_colons = _COLON_COMMAND.sub(r"\1: ", text)
    return _HASH_COMMAND.sub("# ", without_colons)


def json_text(value: Any) -> str:
    """Return indented JSON without commands of CI systems.

    Its lines cannot begin with a colon, and an escaped `#` is the same text to a
    program that parses it.
    """
    return _HASH_COMMAND.sub(r"\\u0023", json.dumps(value, indent=2)) + "\n"
