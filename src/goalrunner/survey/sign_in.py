"""Whether an agent has a key or a login. Owns looking for them: names of variables and of files, never what they hold."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

from goalrunner.errors import GoalError
from goalrunner.llm import LLM
from goalrunner.model.goal import AgentConfig
from goalrunner.model.preset import Preset
from goalrunner.survey.check import Check
from goalrunner.survey.sandbox import Box

_NAME = "sign-in"


def sign_in_check(
    preset: Preset, environ: Mapping[str, str], box: Box | None = None, *, configured: bool = False
) -> Check:
    """The key or the login of an external agent. Whether they are right, only its provider can say.

    A login must be in view where the agent will be: in `box`. `configured`: the goal adds words or variables to it, with
    which it may ask somebody else and sign in there.
    """
    for name in preset.keys:
        if environ.get(name, "").strip():
            return Check(_NAME, "good", f"{name} is set")
    home = environ.get("HOME", "")
    for path in preset.login:
        if home and Path(home, path).exists():
            if box is not None and not box.sees(str(Path(home, path))):
                hidden = f"~/{path} is there, and not seen in the sandbox"
                return Check(_NAME, "bad", hidden, f'add it to home = ["{path}"] of its preset')
            return Check(_NAME, "good", f"~/{path} is there")
    if not (preset.keys or preset.login):
        return Check(_NAME, "note", "its preset names neither a key nor a login")
    missing = _either(preset)
    if sys.platform == "darwin" and preset.login:
        return Check(_NAME, "note", f"{missing}; its login may be in the keychain", preset.sign_in)
    if configured:
        return Check(_NAME, "note", f"{missing}; what [agent] adds may sign it in", preset.sign_in)
    return Check(_NAME, "bad", missing, preset.sign_in or _exports(preset))


def model_check(agent: AgentConfig) -> Check:
    """The model of the built-in agent, and its key as far as it is known without asking. Imports LiteLLM."""
    if not agent.model:
        return Check("model", "bad", "no model is named", "export GOAL_MODEL=provider/name, or give --goal FILE")
    try:
        llm = LLM(agent.model, api_base=agent.api_base, api_key_env=agent.api_key_env, params=agent.params)
        llm.check()
        asyncio.run(llm.foresee())
    except GoalError as error:
        return Check("model", "bad", f"{agent.model}: {error.message}", error.hint)
    return Check("model", "good", f"{agent.model} can be asked, as far as is known without asking")


def _either(preset: Preset) -> str:
    keys = f"none of {', '.join(preset.keys)} is set" if len(preset.keys) > 1 else ""
    keys = keys or (f"{preset.keys[0]} is not set" if preset.keys else "")
    files = " or ".join(f"~/{path}" for path in preset.login)
    return ", and ".join(part for part in (keys, f"there is no {files}" if files else "") if part)


def _exports(preset: Preset) -> str:
    return f"export {preset.keys[0]}=..." if preset.keys else "sign in with the agent itself"
