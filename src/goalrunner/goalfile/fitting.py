"""What else a goal says of its agent, held against that agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import GoalFileError
from goalrunner.core.goal import AGENT_MODEL, CHAT, AgentConfig
from goalrunner.goalfile.layers import Layer
from goalrunner.goalfile.parsing import Known
from goalrunner.goalfile.positions import Key
from goalrunner.goalfile.problems import Problems, Spot, listed, nearest, quoted
from goalrunner.presets import ACP, COMMAND, protocol_of, user_files

CHAT_KEYS = ("max_steps", "system_prompt", "params", "api_base", "api_key_env")
"""Keys of `[agent]` that the built-in agent alone has."""

_USE: Key = ("agent", "use")
_EXTERNAL_KEYS = ("command", "args", "protocol")
_MADE_FOR_IT = ("model", "command", "args")
"""Keys whose values are for the agent beside which they stand, and no other."""


def chosen(layer: Layer) -> str:
    """The agent that a goal names, whether there is one of that name or not."""
    return str(layer.values.get(_USE, CHAT))


def check_agent(layer: Layer, file: Layer, environ: Mapping[str, str], problems: Problems) -> GoalFileError | None:
    """Say what does not fit the agent, and take a preset of the user's into the goal, which is to be whole by itself.

    `file` is what the goal file alone says. Gives what is wrong in the file of the user's preset.
    """
    name = chosen(layer)
    if problems.excuses(_USE, ("agents", name)):
        return None
    fit = _Fit(layer, problems, name)
    fit.refuse_strangers(file)
    if name == CHAT:
        fit.refuse(_EXTERNAL_KEYS, 'is for external agents; name one with use = "...", or remove it')
        return None
    own: Mapping[str, Any] = layer.values.get(("agents",), {})  # type: ignore[assignment]
    known = Known(dict.fromkeys(own, Preset()), user_files(environ))
    if name not in known.names:
        fit.refuse_unknown(known.names)
        return None
    fit.refuse(CHAT_KEYS, f'is for the agent "chat" alone, and {quoted(name)} has no such thing; remove it')
    fit.check_judge()
    fit.check_command()
    try:
        preset = Preset.model_validate(own[name]) if name in own else known.preset(name)
    except GoalFileError as error:
        return error
    if name not in (COMMAND, ACP):
        fit.check_preset(preset)
    if name in known.files and name not in own:
        layer.values["agents",] = {**own, name: preset}
    return None


class _Fit:
    """One goal and the agent that it names."""

    def __init__(self, layer: Layer, problems: Problems, name: str) -> None:
        self._layer = layer
        self._problems = problems
        self._name = name

    def refuse_strangers(self, file: Layer) -> None:
        """`--agent` names another agent than the file: what the file says for its own one is for nobody else."""
        of_file = str(file.values.get(_USE, CHAT))
        if of_file == self._name:
            return
        label = self._layer.spots[_USE].label
        for key in _MADE_FOR_IT:
            spot = self._spot(key)
            if spot is not None and spot is file.spots.get(("agent", key)):
                also = "; give --model as well, or remove it" if key == "model" else "; remove it"
                spot.wrong_key(
                    f"{spot.label} is for the agent {quoted(of_file)}, not for {label} {quoted(self._name)}{also}"
                )

    def refuse(self, keys: tuple[str, ...], why: str) -> None:
        """Refuse each of these keys of `[agent]` that is there."""
        for key in keys:
            spot = self._spot(key)
            if spot is not None:
                spot.wrong_key(f"{spot.label} {why}")

    def refuse_unknown(self, names: tuple[str, ...]) -> None:
        """There is no agent of that name."""
        near = nearest(self._name, names)
        guess = f"; did you mean {quoted(near)}?" if near else ";"
        hint = f"; for a model write model = {quoted(self._name)}" if "/" in self._name else ""
        self._layer.spots[_USE].wrong(f"{quoted(self._name)} is unknown{guess} valid: {listed(names)}{hint}")

    def check_judge(self) -> None:
        """The model of an external agent is its own affair, and cannot be asked to judge."""
        if self._layer.values.get(("judge", "model")) == AGENT_MODEL:
            self._layer.spots["judge", "model"].wrong(
                f'"agent" is the model of the agent, and {quoted(self._name)} lends nobody its own; '
                'write judge = "provider/model"'
            )

    def check_command(self) -> None:
        """A command stands where nothing else says what is to be started, and nowhere else."""
        if self._name not in (COMMAND, ACP):
            self.refuse(
                ("command",),
                f'is for use = "command" or "acp", and {quoted(self._name)} has its own; '
                "add words with args, or describe an agent in [agents.NAME]",
            )
            return
        if ("agent", "command") not in self._layer.values and not self._problems.excuses(("agent", "command")):
            self._layer.spots[_USE].wrong_key(
                f'the agent {quoted(self._name)} has no command; write command = "..." beside it in [agent]'
            )
        self.refuse(("args",), "is for agents with a preset; write its words in command")
        self.refuse(("model",), "is for agents with a preset; write it in command")
        if self._layer.values.get(("agent", "protocol"), self._name) != self._name:
            self._refuse_value("protocol", f"does not fit use = {quoted(self._name)}; remove it")

    def check_preset(self, preset: Preset) -> None:
        """The preset has what the goal asks of it."""
        protocol = self._layer.values.get(("agent", "protocol"))
        config = AgentConfig.model_validate({"use": self._name, "protocol": protocol})
        command = preset.acp if protocol_of(config, preset) == "acp" else preset.argv
        key = "acp" if protocol_of(config, preset) == "acp" else "argv"
        table = f"[agents.{self._name}]"
        if not command:
            self._refuse_value(
                "protocol",
                f'cannot be spoken by {quoted(self._name)}; remove it, or say how in {table}: {key} = ["..."]',
            )
            return
        if not (preset.model and any("{model}" in word for word in command)):
            why = f"cannot be chosen for {quoted(self._name)}; remove it, or say how in {table}: model, and {{model}} in {key}"
            self.refuse(("model",), why)

    def _refuse_value(self, key: str, why: str) -> None:
        spot = self._spot(key)
        if spot is not None:
            spot.wrong(f"{quoted(str(self._layer.values['agent', key]))} {why}")

    def _spot(self, key: str) -> Spot | None:
        """Where a key of `[agent]` was written, unless it has been refused already."""
        spot = self._layer.spots.get(("agent", key))
        return None if spot is None or spot.path in self._problems.excused else spot
