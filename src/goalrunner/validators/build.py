"""From the validators of a goal file to validators that can run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goalrunner.core.check_ports import Validator
from goalrunner.core.goal import ValidatorSpec
from goalrunner.core.process_ports import Launcher
from goalrunner.validators.python_validators import PythonValidator
from goalrunner.validators.shell_validators import ShellValidator
from goalrunner.validators.spec_validator import name_of


def build_validators(
    specs: Sequence[ValidatorSpec], launcher: Launcher, env: Mapping[str, str]
) -> tuple[Validator, ...]:
    """Return a validator for each spec, in order, every one with a name of its own: `pytest`, then `pytest-2`.

    `env` is the whole environment of the checks, without the providers' keys; what a spec names is added to it.
    """
    validators: dict[str, Validator] = {}
    for spec in specs:
        name, number = name_of(spec), 1
        while name in validators:
            number += 1
            name = f"{name_of(spec)}-{number}"
        kind = PythonValidator if spec.python is not None else ShellValidator
        validators[name] = kind(spec.model_copy(update={"name": name}), launcher, env)
    return tuple(validators.values())
