"""The agents that are known by name, as data: one TOML table each. Owns finding and reading them; starts none.

A name is looked up in the goal first, then in `$XDG_CONFIG_HOME/goal/agents/NAME.toml`, then among those that come along.
"""

from __future__ import annotations

from goalrunner.presets.registry import (
    ACP,
    COMMAND,
    builtin,
    builtin_names,
    builtin_text,
    find,
    known,
    protocol_of,
    user_files,
)

__all__ = [
    "ACP",
    "COMMAND",
    "builtin",
    "builtin_names",
    "builtin_text",
    "find",
    "known",
    "protocol_of",
    "user_files",
]
