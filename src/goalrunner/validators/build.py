"""From the validators of a goal file to validators that can run, with retries."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.core.check_ports import ValidationContext, Validator
from goalrunner.core.goal import ValidatorSpec
from goalrunner.core.process_ports import Launcher
from goalrunner.core.verdict import ValidatorResult
from goalrunner.validators.check_env import name_of
from goalrunner.validators.python_validators import PythonValidator
from goalrunner.validators.shell import ShellValidator

_FINAL = frozenset({"not_found", "invalid_result"})
"""Reasons that another try cannot change."""


class RetriedValidator:
    """Runs `inner` again up to `retries` times while it is red, on the same workspace. Implements the port `Validator`.

    Green after red is green and says so. The output holds every try, so that what was red can be seen.
    """

    def __init__(self, inner: Validator, retries: int) -> None:
        self._inner = inner
        self._tries = retries + 1

    @property
    def name(self) -> str:
        """The inner one's."""
        return self._inner.name

    @property
    def command(self) -> str:
        """The inner one's."""
        return self._inner.command

    @property
    def serial(self) -> bool:
        """The inner one's."""
        return self._inner.serial

    @property
    def hidden(self) -> bool:
        """The inner one's."""
        return self._inner.hidden

    async def validate(self, context: ValidationContext) -> tuple[ValidatorResult, Path | None]:
        """Run it until it is green or there are no more tries; the duration is that of all of them."""
        outputs: list[tuple[str, Path | None]] = []
        duration = 0.0
        for number in range(1, self._tries + 1):
            result, output = await self._inner.validate(context)
            duration += result.duration
            outputs.append((f"--- try {number} of {self._tries}: {result.summary}", output))
            if result.passed or result.reason in _FINAL or number == self._tries:
                break
        result = result.model_copy(update={"steady": False})
        if number > 1:
            how = f"green at try {number} of {self._tries}" if result.passed else f"red in {number} tries"
            result = result.model_copy(update={"summary": f"{result.summary}, {how}", "duration": duration})
        return result, _joined(outputs, context)


def _joined(outputs: list[tuple[str, Path | None]], context: ValidationContext) -> Path | None:
    """One file with every try under a heading; a single try's output stays as it is."""
    if len(outputs) == 1 or all(path is None for _, path in outputs):
        return outputs[-1][1]
    whole = context.scratch(".out")
    with whole.open("wb") as sink:
        for heading, path in outputs:
            sink.write(f"{heading}\n".encode(errors="replace"))
            if path is not None:
                with path.open("rb") as source:
                    shutil.copyfileobj(source, sink)
                path.unlink()
            sink.write(b"\n")
    return whole


def build_validators(
    specs: Sequence[ValidatorSpec], launcher: Launcher, env: Mapping[str, str]
) -> tuple[Validator, ...]:
    """A validator for each, in order, every one with a name of its own.

    `env` is the whole environment of the checks, without the providers' keys; what a spec names is added to it.
    """
    validators: list[Validator] = []
    taken: set[str] = set()
    for spec in specs:
        name = _free(name_of(spec), taken)
        taken.add(name)
        named = spec.model_copy(update={"name": name})
        kind = PythonValidator if spec.python is not None else ShellValidator
        validator: Validator = kind(named, launcher, env)
        validators.append(RetriedValidator(validator, spec.retries) if spec.retries else validator)
    return tuple(validators)


def _free(name: str, taken: set[str]) -> str:
    """`pytest`, then `pytest-2`, `pytest-3`."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
