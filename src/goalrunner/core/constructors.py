"""Signatures of what programs call, and the errors of models that they make."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from goalrunner.core.errors import kind, kind_of, nearest, toml_value
from goalrunner.core.field_types import InnerError

_Init = TypeVar("_Init", bound=Callable[..., None])
_Function = TypeVar("_Function", bound=Callable[..., Any])
Location = tuple[str | int, ...]


def declares_fields(signature: _Init) -> _Init:
    """Return the constructor of a model that has the parameters of `signature`.

    They are the fields of the model with their defaults, in the forms in which a
    program may write them: type checkers, editors and `help` show them. The body of
    `signature` never runs. A field that is left out is not in `model_fields_set`. The
    constructor raises TypeError, and ValidationError with the values that were given.
    """
    code = signature.__code__
    positional = code.co_varnames[1 : code.co_argcount]

    @wraps(signature)
    def construct(self: BaseModel, /, *values: object, **fields: object) -> None:
        model = type(self)
        _name_values(model.__name__, positional, values, fields)
        try:
            BaseModel.__init__(self, **fields)
        except ValidationError as error:
            raise _with_values(error, model) from None

    # As for the constructor of pydantic itself: else each table of a goal file is made
    # by a call of it, without the validation context.
    construct.__pydantic_base_init__ = True  # type: ignore[attr-defined]
    return cast("_Init", construct)


def _name_values(
    function: str,
    names: Sequence[str],
    values: Sequence[object],
    fields: dict[str, object],
) -> None:
    """Add positional arguments to the fields. Raise TypeError, as Python does."""
    if len(values) > len(names):
        advice = "" if names else f"; name each one: {function}(NAME=VALUE)"
        raise TypeError(
            f"{function} takes {len(names)} positional arguments but {len(values)} "
            f"were given{advice}"
        )
    for name, value in zip(names, values, strict=False):
        if name in fields:
            raise TypeError(f"{function} got multiple values for argument '{name}'")
        fields[name] = value


def shows_keywords(
    keywords: type, defaults: Mapping[str, Any]
) -> Callable[[_Function], _Function]:
    """Return a decorator for functions with `**options: Unpack[keywords]`.

    `inspect.signature` and `help` then show the keywords of the TypedDict, with these
    defaults, instead of `**options`.
    """
    parameters: list[inspect.Parameter] = []
    for name, annotation in keywords.__annotations__.items():
        words = getattr(annotation, "__forward_arg__", annotation)
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults[name],
                annotation=words,
            )
        )

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        # The last one is `**options`.
        named_parameters = list(signature.parameters.values())[:-1]
        complete = signature.replace(parameters=[*named_parameters, *parameters])
        function.__signature__ = complete  # type: ignore[attr-defined]
        return function

    return decorate


def _with_values(error: ValidationError, model: type[BaseModel]) -> ValidationError:
    """Return the error with our messages instead of those of pydantic."""
    lines: list[InitErrorDetails] = []
    kinds = (detail["type"] for detail in error.errors(include_input=False))
    for name, (place, reason) in zip(kinds, value_problems(error, model), strict=True):
        message = PydanticCustomError(name, "{reason}", {"reason": reason})
        lines.append(InitErrorDetails(type=message, loc=place, input=None))
    return ValidationError.from_exception_data(error.title, lines, hide_input=True)


def value_problems(
    error: ValidationError, model: type[BaseModel] | None = None
) -> Iterator[tuple[Location, str]]:
    """Yield the place and the reason of each problem of a validation.

    With `model`, an unknown field is reported with the nearest one.
    """
    for detail in error.errors(include_url=False):
        place = detail["loc"]
        reason = detail.get("ctx", {}).get("error")
        if isinstance(reason, InnerError):
            # The path of an error is part of its place, and not repeated in its words.
            yield (*place, *reason.path), reason.reason
        elif reason is not None:
            yield place, str(reason)
        elif detail["type"] == "missing":
            yield place, "is missing"
        elif detail["type"] == "extra_forbidden":
            yield place, _unknown_field(place, model)
        else:
            is_check = place[:1] == ("validators",) and len(place) == 2
            yield place, invalid_value(detail, _CHECK if is_check else None)


_CHECK = "a command, a ValidatorSpec or a callable"


def _unknown_field(place: Location, model: type[BaseModel] | None) -> str:
    """Return the words about a field that does not exist. Its value may be a secret."""
    for step in place[:-1]:
        model = _model_of_field(model, str(step))
    if model is None:
        return "is not a field"
    near = nearest(str(place[-1]), model.model_fields)
    remedy = f"; did you mean {near}?" if near else ""
    return f"is not a field of {model.__name__}{remedy}"


def _model_of_field(model: type[BaseModel] | None, name: str) -> type[BaseModel] | None:
    """Return the model that is the type of a field; None for another type."""
    field = model.model_fields.get(name) if model is not None else None
    annotation = field.annotation if field is not None else None
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return None


LIMITS = ("stall_rounds", "max_iterations", "tokens", "cost_usd")
"""Fields that inf lifts."""

_KINDS = {
    "string": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "tuple": "a list of strings",
    "dict": "a table",
    "model": "a table",
}
"""Types by the beginning of pydantic's name for an error of a wrong type.

Such names are `int_type` and `int_from_float`.
"""

_SECRET_TABLES = frozenset({"env", "sandbox_env", "asking", "params", "extra"})
"""Tables whose values may be secrets of any form."""


def expected_type(detail: Mapping[str, Any]) -> str | None:
    """Return the type that a value should have, in words.

    None if its type is not the problem.
    """
    name = str(detail["type"])
    if name.endswith("_too_short"):
        return None
    return _KINDS.get(name.partition("_")[0])


def invalid_value(
    detail: Mapping[str, Any], expected: str | None = None, hint: str = ""
) -> str:
    """Return the message about a value, which follows the name of its field.

    For a wrong type it is our own, else pydantic's. It shows the value unless that may
    be a secret. `expected` are other words for the right type; `hint` follows it.
    """
    value, place = detail["input"], detail["loc"]
    expected = expected or expected_type(detail)
    hides_value = _may_be_secret(value, place)
    is_limit = bool(place) and place[-1] in LIMITS
    if expected is not None:
        if value == "inf" and is_limit:
            hint = "; write inf without the quotes"
        shown = _hidden(value) if hides_value else kind(value)
        return f"must be {expected}, not {shown}{hint}"
    message = str(detail["msg"]).removeprefix("Input ").replace("should", "must", 1)
    shown = _hidden(value) if hides_value else toml_value(value)
    if str(detail["type"]).startswith("greater_") and is_limit:
        hint = "; write inf to lift the limit"
    return f"{message}, not {shown}{hint}"


def _may_be_secret(value: object, place: Location) -> bool:
    if not _SECRET_TABLES.isdisjoint(place):
        return isinstance(value, str | int | float)
    # A key or token is one long word with digits.
    is_long_word = isinstance(value, str) and re.fullmatch(r"[\w.+/=-]{16,}", value)
    return bool(is_long_word and re.search(r"\d", str(value)))


def _hidden(value: object) -> str:
    """Return what a value is, without the value: "a string", "a number"."""
    return "a string" if isinstance(value, str) else "a number"


def shown_argument(value: object) -> str:
    """Return a wrong argument of a call in words: "the number 0", "a list"."""
    if isinstance(value, str) and _may_be_secret(value, ()):
        return "this text"
    return kind(value) if isinstance(value, str | int | float) else kind_of(value)
