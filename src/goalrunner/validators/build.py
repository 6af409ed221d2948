"""From what a goal names to validators. Owns their names; runs none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goalrunner.model.goal import ValidatorSpec
from goalrunner.ports import Launcher, Validator
from goalrunner.validators.naming import name_of
from goalrunner.validators.python import PythonValidator
from goalrunner.validators.retried import RetriedValidator
from goalrunner.validators.shell import ShellValidator


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
