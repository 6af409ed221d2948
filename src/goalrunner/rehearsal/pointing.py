"""How an agent is pointed at a rehearsal: by what its preset says. Starts nothing, writes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from goalrunner.core.agent_preset import Preset
from goalrunner.rehearsal.server import Rehearsal


@dataclass(frozen=True)
class Pointed:
    """What is added to its environment, and to the words of its command; and files below a HOME that is its own."""

    env: dict[str, str]
    args: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)


def pointed(preset: Preset, server: Rehearsal) -> Pointed | None:
    """What makes the agent ask `server`; None where it cannot be pointed anywhere."""
    if not preset.wire:
        return None
    url = server.base_url(preset.wire)
    env, files = (
        {name: value.replace("{base_url}", url) for name, value in table.items()}
        for table in (preset.server, preset.server_files)
    )
    return Pointed(env, tuple(word.replace("{base_url}", url) for word in preset.server_args), files)
