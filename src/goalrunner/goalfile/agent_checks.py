"""Checks whether the keys of a goal fit the agent that it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from goalrunner.agents.registry import ACP, COMMAND, agent_names, protocol_of, user_files
from goalrunner.core.agent_preset import TEXT, Preset
from goalrunner.core.goal import AGENT_MODEL, CHAT, Goal
from goalrunner.core.wording import listed, nearest, quoted
from goalrunner.goalfile.layers import Layer
from goalrunner.goalfile.parsing import Known
from goalrunner.goalfile.problems import Problems

CHAT_KEYS = ("max_steps", "system_prompt", "params", "api_base", "api_key_env")
"""Keys of `[agent]` that only the built-in agent has."""

_EXTERNAL_KEYS = ("command", "args", "protocol")


def check_agent(goal: Goal, layer: Layer, file: Layer, environ: Mapping[str, str], problems: Problems) -> Goal:
    """Note what does not fit the agent; return the goal, with the user's preset in it if the agent has one.

    `file` holds the values of the goal file alone. Raise GoalFileError if the file of the user's preset is not valid.
    """
    name = goal.agent.use
    checks = _AgentChecks(layer, name)
    checks.refuse_keys_of_another_agent(file)
    if name == CHAT:
        checks.refuse(_EXTERNAL_KEYS, 'is for external agents; name one with use = "...", or remove it')
        return goal
    known = Known(goal.agents, user_files(environ))
    if name not in known.names:
        checks.refuse_unknown_agent(known.names)
        return goal
    checks.refuse(CHAT_KEYS, f'is only for the agent "chat", and {quoted(name)} does not support it; remove it')
    if goal.judge.model == AGENT_MODEL:
        layer.spot(("judge", "model"), problems).wrong(
            f'"agent" is the model of the agent, and {quoted(name)} does not share its model; '
            'write judge = "provider/model"'
        )
    if name in (COMMAND, ACP):
        checks.check_command(goal)
        return goal
    checks.refuse(
        ("command",),
        f'is for use = "command" or "acp", and {quoted(name)} has its own; '
        "add words with args, or describe an agent in [agents.NAME]",
    )
    preset = known.preset(name)
    if preset.stream not in (TEXT, *agent_names()):
        key = ("agents", name, "stream") if name in goal.agents else ("agent", "use")
        why = f"the stream {quoted(preset.stream)} of the agent {quoted(name)} is unknown"
        layer.spot(key, problems).wrong_key(f"{why}; valid: {listed((TEXT, *agent_names()))}")
    checks.check_preset(goal, preset)
    is_own_file = name in known.files and name not in goal.agents
    return goal.model_copy(update={"agents": {**goal.agents, name: preset}}) if is_own_file else goal


class _AgentChecks:
    """The spots of the keys in `[agent]`, and the name of the agent."""

    def __init__(self, layer: Layer, name: str) -> None:
        self._spots = {str(key[1]): spot for key, spot in layer.spots.items() if len(key) == 2 and key[0] == "agent"}
        self._name = name

    def refuse(self, keys: Iterable[str], why: str) -> None:
        """Refuse each of these keys that is given."""
        for key in keys:
            if key in self._spots:
                self._spots[key].wrong_key(f"{self._spots[key].label} {why}")

    def refuse_keys_of_another_agent(self, file: Layer) -> None:
        """Refuse the file's keys for its own agent if an option or a variable names another one."""
        of_file = str(file.values.get(("agent", "use"), CHAT))
        if of_file == self._name:
            return
        named = f"{self._spots['use'].label} {quoted(self._name)}"
        for key in ("model", "command", "args"):
            if key in self._spots and self._spots[key] is file.spots.get(("agent", key)):
                also = "give --model as well, or remove it" if key == "model" else "remove it"
                self.refuse((key,), f"is for the agent {quoted(of_file)}, not for {named}; {also}")

    def refuse_unknown_agent(self, names: tuple[str, ...]) -> None:
        """Refuse the name of the agent."""
        near = nearest(self._name, names)
        guess = f"; did you mean {quoted(near)}?" if near else ";"
        hint = f"; for a model write model = {quoted(self._name)}" if "/" in self._name else ""
        self._spots["use"].wrong(f"{quoted(self._name)} is unknown{guess} valid: {listed(names)}{hint}")

    def check_command(self, goal: Goal) -> None:
        """Check the keys of an agent that is a command line."""
        if not goal.agent.command:
            self._spots["use"].wrong_key(
                f'the agent {quoted(self._name)} has no command; write command = "..." beside it in [agent]'
            )
        self.refuse(("args",), "is for agents with a preset; write its words in command")
        self.refuse(("model",), "is for agents with a preset; write it in command")
        if goal.agent.protocol not in (None, self._name):
            self._refuse_protocol(goal, f"does not fit use = {quoted(self._name)}; remove it")

    def check_preset(self, goal: Goal, preset: Preset) -> None:
        """Check that the preset supports the protocol and the choice of a model."""
        is_acp = protocol_of(goal.agent, preset) == "acp"
        command, key = (preset.acp, "acp") if is_acp else (preset.argv, "argv")
        table = f"[agents.{self._name}]"
        if not command:
            self._refuse_protocol(
                goal, f'is not supported by {quoted(self._name)}; remove it, or write {key} = ["..."] in {table}'
            )
        elif not (preset.model and any("{model}" in word for word in command)):
            why = f"cannot be chosen for {quoted(self._name)}; remove it, or write model in {table}, and {{model}} in its {key}"
            self.refuse(("model",), why)

    def _refuse_protocol(self, goal: Goal, why: str) -> None:
        if "protocol" in self._spots:
            self._spots["protocol"].wrong(f"{quoted(str(goal.agent.protocol))} {why}")
