"""Doubles of external agents: small programs that print what they are told to, and a preset whose parser reads them."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

from goalrunner.agents.command import CommandConversation
from goalrunner.agents.external_agents import ExternalAgent
from goalrunner.core.agent_preset import Preset
from goalrunner.core.ports import Launcher
from goalrunner.system.launcher import ProcessLauncher

HEAD = """
import json, os, sys, time
from pathlib import Path

def say(kind, **fields):
    print(json.dumps({"type": kind, **fields}), flush=True)

def rounds():
    path = Path(os.environ["STATE"], "rounds")
    number = int(path.read_text()) + 1 if path.exists() else 1
    path.write_text(str(number))
    return number

prompt = sys.stdin.read()
asked = sys.argv[1:]
"""


def program(folder: Path, body: str) -> tuple[str, ...]:
    """The words that start an agent whose source is `body`, after HEAD."""
    path = folder / "agent.py"
    path.write_text(HEAD + textwrap.dedent(body))
    return (sys.executable, str(path))


def preset(
    folder: Path, body: str, *, resumes: bool = False, cumulative: bool = False
) -> Preset:
    """An agent that prints JSON; one that `resumes` is given the words `--resume ID`."""
    argv = program(folder, body)
    return Preset(
        argv=argv,
        resume=(*argv, "--resume", "{session}") if resumes else (),
        stream="plain_totals" if cumulative else "plain",
        reports={
            "tokens": "session" if cumulative else "turn",
            "cost_usd": "session" if cumulative else "turn",
        },
        denied=("run double login",),
        install="pip install double",
        sign_in="double login",
    )


def agent(folder: Path, chosen: Preset, workspace: Path | None = None) -> ExternalAgent:
    """The agent "double", whose state lies in `folder`."""
    env = {**os.environ, "STATE": str(folder)}
    return ExternalAgent("double", chosen, workspace or folder, env)


def conversation(
    folder: Path, chosen: Preset, launcher: Launcher | None = None
) -> CommandConversation:
    """A conversation with it."""
    return CommandConversation(agent(folder, chosen), launcher or ProcessLauncher())
