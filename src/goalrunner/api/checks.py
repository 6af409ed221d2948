"""What a caller may hand in as checks, and the validators that they become. Owns their refusal at the call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from goalrunner.errors import UsageError
from goalrunner.model.goal import ValidatorSpec
from goalrunner.ports import Validator
from goalrunner.validators import CallableValidator

Check = str | ValidatorSpec | Validator | Callable[..., Any]
"""A shell command, a specification, a Validator, or a callable `(response, agent)` that says whether it passed."""

Checks = Check | Iterable[Check]
"""One check, or any number of them."""

_HINT = "give shell commands, ValidatorSpecs, Validators, or callables (response, agent): validators=[...]"


def checks_of(given: Checks) -> tuple[Check, ...]:
    """The checks that were given; one alone is one check. Raises UsageError for what is none."""
    if _is_check(given):
        return (_checked(given),)
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise UsageError(f"validators is {_kind(given)}, neither a check nor a list of them", _HINT)
    return tuple(_checked(check) for check in given)


def specs_of(checks: tuple[Check, ...]) -> tuple[ValidatorSpec, ...]:
    """Those that run in processes of their own: shell commands, then specifications."""
    commands = [ValidatorSpec(name=check, run=check) for check in checks if isinstance(check, str)]
    return (*commands, *(check for check in checks if isinstance(check, ValidatorSpec)))


def own_validators(checks: tuple[Check, ...]) -> tuple[Validator, ...]:
    """Those that are objects or callables, run in process."""
    return tuple(_validator(check) for check in checks if not isinstance(check, str | ValidatorSpec))


def _validator(check: Validator | Callable[..., Any]) -> Validator:
    return check if _is_validator(check) else CallableValidator(check)  # type: ignore[return-value,arg-type]


def _checked(check: object) -> Any:
    if not _is_check(check):
        raise UsageError(f"a validator is {_kind(check)}, which is no check", _HINT)
    if isinstance(check, str) and not check.strip():
        raise UsageError("a validator is an empty command", _HINT)
    return check


def _is_check(value: object) -> bool:
    return isinstance(value, str | ValidatorSpec) or _is_validator(value) or callable(value)


def _is_validator(value: object) -> bool:
    return hasattr(value, "validate") and hasattr(value, "name") and not isinstance(value, type)


def _kind(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
