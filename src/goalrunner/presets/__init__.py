"""The agents that are known by name, as data: one TOML file each."""

from __future__ import annotations

from goalrunner.presets.registry import (
    ACP,
    COMMAND,
    builtin,
    builtin_names,
    builtin_text,
    protocol_of,
    user_files,
)

__all__ = [
    "ACP",
    "COMMAND",
    "builtin",
    "builtin_names",
    "builtin_text",
    "protocol_of",
    "user_files",
]
