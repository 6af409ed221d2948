"""The base class of all records, and the types of their fields.

Each type checks the form of its values. The message of a ValueError of these types
follows the name of the key: `timeout` + `"soon" is not a valid duration; ...`.
"""

from __future__ import annotations

import json
import math
import posixpath
import re
import string
import warnings
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import CoreSchema

from goalrunner.core.errors import quoted, toml_value

if TYPE_CHECKING:
    from inspect import Signature


class _FieldsSignature:
    """The signature of a model that is not built yet: its fields with their
    defaults."""

    def __get__(self, _: object, model: type[BaseModel]) -> Signature:
        model.model_rebuild()
        # A model that is built has a signature of its own, made by pydantic.
        if "__signature__" not in vars(model):
            raise AttributeError("__signature__")
        return model.__signature__


class Frozen(BaseModel):
    """An immutable record.

    An unknown field is an error, so that a typing mistake is always found.

    The docstring below a field describes it in the JSON Schema. It is read from the
    source then: pydantic's own `use_attribute_docstrings` reads all of them whenever a
    model is imported.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        # JSON has neither.
        allow_inf_nan=False,
        # Built at its first use: a command needs few of all models.
        defer_build=True,
        # The input may contain a secret.
        hide_input_in_errors=True,
    )

    # Without it, `help` shows `**data` until the model is used for the first time.
    __signature__ = _FieldsSignature()

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        described = handler(schema)
        resolved = handler.resolve_ref_schema(described)
        if "description" in resolved:
            # Without the example in Python.
            words = resolved["description"].partition("\n\n>>>")[0]
            resolved["description"] = words
        properties = resolved.get("properties", {})
        for model in cls.__mro__:
            if model is not Frozen and issubclass(model, Frozen):
                for name, text in field_descriptions(model).items():
                    # A field that is not written has no schema.
                    if name in properties:
                        properties[name].setdefault("description", text)
        return described


_Model = TypeVar("_Model", bound=Frozen)


class Unchecked(Generic[_Model]):
    """Makes records of values that are valid, of which very many are kept.

    Each takes half of the memory of a record of `model_construct`: their attributes are
    set one by one, because such objects share one table of names.
    """

    def __init__(self, model: type[_Model]) -> None:
        self._model = model
        self._defaults = {
            name: field.get_default(call_default_factory=False)
            for name, field in model.model_fields.items()
        }
        self._internal = {
            "__pydantic_fields_set__": set(self._defaults),
            "__pydantic_extra__": None,
            "__pydantic_private__": None,
        }

    def __call__(self, **values: Any) -> _Model:
        record = self._model.__new__(self._model)
        # The method of the model refuses, because records are immutable.
        set_attribute = object.__setattr__
        for name, default in self._defaults.items():
            set_attribute(record, name, values.get(name, default))
        for name, value in self._internal.items():
            set_attribute(record, name, value)
        return record


def field_descriptions(model: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class by name.

    None if its source is not available.
    """
    # Imported here: only schemas and the documentation need them.
    import ast
    import inspect
    import textwrap

    try:
        source = textwrap.dedent(inspect.getsource(model))
    except OSError:
        return {}
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.ClassDef)
    descriptions = {}
    for field, below in pairwise(definition.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str() as text)
            ):
                descriptions[name] = " ".join(text.split())
    return descriptions


def first_problem(error: ValidationError) -> str:
    """Return the first problem of an invalid record: "label: Field required"."""
    # Without the input, which may contain a secret.
    problems = error.errors(
        include_url=False, include_context=False, include_input=False
    )
    place = ".".join(map(str, problems[0]["loc"]))
    message = problems[0]["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


FROM_FILE = {"file": True}
"""The validation context of a goal file. In it, empty values are errors, and `["word"]`
is a command of one word."""


class InnerError(ValueError):
    """An error inside of the checked value, at `path`.

    The message is the name of the key and `reason`, or `reason` alone if it is `whole`.
    `key`: the key itself is wrong.
    """

    def __init__(
        self,
        path: tuple[str | int, ...],
        reason: str,
        *,
        key: bool = False,
        whole: bool = False,
    ) -> None:
        name = ".".join(map(str, path))
        super().__init__(reason if whole else f"{name} {reason}".lstrip())
        self.path = path
        self.reason = reason
        self.key = key or whole
        self.whole = whole


def from_file(info: ValidationInfo) -> bool:
    """Return whether the value comes from a goal file, an option or the environment."""
    return info.context == FROM_FILE


def _writable(text: str) -> str:
    # Arguments and environment variables of processes cannot hold it.
    if "\0" in text:
        raise ValueError("contains a NUL character; remove it")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("contains bytes that are not UTF-8")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty; write something, or remove it")
    return text


def _given(text: str, info: ValidationInfo) -> str:
    # In Python, an empty text is a way to say "none"; in a file, it is a mistake.
    return _not_blank(text) if text or from_file(info) else text


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{quoted(text)} must be one line without control characters")
    return text


# The empty string is the default of the optional types, and stands for no value.
String = Annotated[str, AfterValidator(_writable)]
Text = Annotated[String, AfterValidator(_not_blank), Field(min_length=1)]
Line = Annotated[Text, AfterValidator(_one_line)]
OptionalText = Annotated[String, AfterValidator(_given)]
OptionalLine = Annotated[OptionalText, AfterValidator(_one_line)]

SCRIPTED = "scripted/"
"""Prefix of a model that plays recorded replies; what follows is a file."""

_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_DOTTED = r"[^\W\d]\w*(\.[^\W\d]\w*)*"


def matching(pattern: str, message: str) -> AfterValidator:
    """Return the check that a text matches a pattern.

    `{text}` in the message stands for the text.
    """

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(message.format(text=quoted(text)))
        return text

    return AfterValidator(check)


def _model(name: str) -> str:
    if name != name.strip():
        raise ValueError(f"{quoted(name)} begins or ends with a space; remove it")
    if name == SCRIPTED:
        raise ValueError(
            f'{quoted(name)} names no file; write "scripted/replies.jsonl"'
        )
    return name


def _inner_folder(path: str) -> str:
    if path.startswith(("/", "~")) or posixpath.normpath(path).split("/")[0] == "..":
        raise ValueError(
            f"{quoted(path)} leaves the workspace; write a folder relative to it"
        )
    return path


def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a compiled regular expression; raise ValueError if it is not valid."""
    try:
        # Python warns about `[[` and the like, which may get another meaning.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is not a valid regular expression: {error}") from error


def _pattern(text: str) -> str:
    try:
        compiled(text, re.MULTILINE)
    except ValueError as error:
        raise ValueError(f"{quoted(text)} {error}") from error
    return text


ModelName = Annotated[OptionalLine, AfterValidator(_model)]
InnerFolder = Annotated[OptionalText, AfterValidator(_inner_folder)]
"""A path relative to the workspace that stays inside it."""
Pattern = Annotated[Text, AfterValidator(_pattern)]
CallableName = Annotated[
    Text,
    matching(
        f"{_DOTTED}:{_DOTTED}",
        '{text} is not a Python callable; write "package.module:function"',
    ),
]
_KEY = (
    'must be the name of an environment variable, such as "OPENAI_API_KEY", not the '
    "key itself"
)
KeyVariable = Annotated[Text, matching(_VARIABLE, _KEY)]
"""The name of the environment variable that holds a key. A wrong one is not shown: it
may be the key itself."""
_ADDRESS = '{text} is not an address; write "http://..." or "https://..."'
Address = Annotated[Line, matching(r"https?://[^\s/].*", _ADDRESS)]
_COLLECTOR = (
    'must be the address of a collector, such as "http://localhost:4318", or "env"; a '
    "key belongs into the variable OTEL_EXPORTER_OTLP_HEADERS"
)
Collector = Annotated[
    OptionalLine, matching(r"|env|https?://[^\s/?#@]+(/[^\s?#@]*)?", _COLLECTOR)
]
"""Where telemetry goes: an address without a key, or "env". A wrong one is not shown:
it may hold a key."""
Environment = dict[
    Annotated[
        str, matching(_VARIABLE, "is not a valid name of an environment variable")
    ],
    String,
]


def secret_pattern(entry: str) -> re.Pattern[str] | None:
    """Return the pattern of `/pattern/`; None for anything else.

    Raise ValueError if the pattern is not valid.
    """
    if len(entry) < 2 or not (entry.startswith("/") and entry.endswith("/")):
        return None
    pattern = compiled(entry[1:-1])
    if pattern.search(""):
        raise ValueError("matches the empty text; write what is to be replaced")
    return pattern


def secret_variable(entry: str) -> str | None:
    """Return the variable of `$NAME` or `${NAME}`; None for anything else."""
    match = re.fullmatch(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?", entry)
    return match[1] if match else None


# The secret itself must not stand in the goal file, which is part of a repository.
def _secret(entry: str) -> str:
    """Return the entry. A wrong one is not shown: it may be the secret itself."""
    if secret_pattern(entry) is None and secret_variable(entry) is None:
        raise ValueError(
            'must be "$NAME", a variable that holds the secret, or "/pattern/"; do '
            "not write the secret itself"
        )
    return entry


Secret = Annotated[Text, AfterValidator(_secret)]
"""A secret that is replaced in all records: `$NAME` or `/pattern/`."""

PLACEHOLDERS = ("feedback", "iteration", "missing", "objective")
"""Names that a retry message may contain in braces."""


def braced(names: Sequence[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)


def _template(text: str) -> str:
    valid = braced(PLACEHOLDERS)
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError:
        raise ValueError(
            f"has a stray brace; write {{{{ or }}}} for a brace, or one of {valid}"
        ) from None
    for _, name, form, conversion in fields:
        if name is None:
            continue
        word = name
        if conversion:
            word += f"!{conversion}"
        if form:
            word += f":{form}"
        if word not in PLACEHOLDERS:
            raise ValueError(
                f"names {{{quoted(word)[1:-1]}}}, which does not exist; valid: {valid}"
            )
    return text


Template = Annotated[Text, AfterValidator(_template)]
"""A retry message with placeholders."""


_SET_BY_RUNNER = (
    "messages stream stream_options tools functions response_format n max_retries "
    "num_retries"
)
OWNED_PARAMETERS: dict[str, str] = {
    **dict.fromkeys(_SET_BY_RUNNER.split(), "the runner sets it; remove it"),
    **dict.fromkeys(("api_base", "base_url"), 'write api_base = "..." beside params'),
    "model": 'write model = "..." beside params',
    "api_key": (
        'write api_key_env = "..." beside params, the name of the variable that holds '
        "it"
    ),
}
"""Arguments of a model call that are not for `params`, and what to do instead."""


def _parameters(table: dict[str, Any]) -> dict[str, Any]:
    for name, value in table.items():
        if name in OWNED_PARAMETERS:
            raise InnerError(
                (name,), f"is not for params; {OWNED_PARAMETERS[name]}", key=True
            )
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise InnerError(
                (name,),
                "must hold only strings, finite numbers, true, false, lists and tables",
            ) from None
    return table


Parameters = Annotated[dict[str, Any], AfterValidator(_parameters)]
"""A table that is passed on to the model."""

# An integer of TOML has 64 bits.
LARGEST = 2**63 - 1
_LONGEST = 1e9
"""Maximum number of seconds (31 years) and of dollars. Larger values are mistakes, and
clocks reject them."""

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
_DURATION = r"\s*".join(rf"(?:({_NUMBER})\s*{unit})?" for unit in _UNITS)
_NOTATION = 'write seconds, or "90s", "30m", "2h"'


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration; None if it is not valid.

    Valid are "90s", "30m", "2h", "1h30m", "1d", "1.5h" and "500ms". Units are d, h, m,
    s and ms, each at most once, the larger first; a number needs a unit.
    """
    match = re.fullmatch(_DURATION, text.strip())
    if match is None or not text.strip():
        return None
    seconds = 0.0
    for number, unit in zip(match.groups(), _UNITS.values(), strict=True):
        if number:
            seconds += float(number) * unit
    return seconds


def _seconds(value: object, *, least: float | None = None) -> object:
    """Return seconds above zero, or from `least` on.

    None for inf, which lifts the limit.
    """
    seconds = parse_duration(value) if isinstance(value, str) else value
    if value is None or seconds == math.inf:
        return None
    shown = toml_value(value)
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        # Only NaN differs from itself; `math.isnan` fails for integers beyond floats.
        or seconds != seconds
    ):
        remedy = "write inf without the quotes" if value == "inf" else _NOTATION
        raise ValueError(f"{shown} is not a valid duration; {remedy}")
    lift = f"{_NOTATION}, or inf to lift the limit"
    if least is not None and seconds < least:
        raise ValueError(f"{shown} is below {least:g}; {lift}")
    if least is None and seconds <= 0:
        raise ValueError(f"{shown} is not above zero; {lift}")
    if seconds > _LONGEST:
        raise ValueError(
            f"{shown} is longer than 30 years; write inf to lift the limit"
        )
    return float(seconds)


class Unlimited:
    """Marks the type of a limit that `inf` lifts; the value is then None."""


_LIFTED = BeforeValidator(lambda value: None if value == math.inf else value)
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(ge=1, le=LARGEST, strict=True)]
CountLimit = Annotated[Count | None, _LIFTED, Unlimited]
_NEWEST = r"last\s+([1-9][0-9]{0,5})"


def parse_newest(text: str) -> int | None:
    """Return the number of "last 50"; None for anything else."""
    match = re.fullmatch(_NEWEST, text.strip())
    return int(match[1]) if match is not None else None


def _retention(value: object) -> object:
    if isinstance(value, str) and (parse_newest(value) or parse_duration(value)):
        return value.strip()
    shown = quoted(value) if isinstance(value, str) else toml_value(value)
    raise ValueError(
        f'{shown} is neither an age nor a number of runs; write "90d", or "last 50"'
    )


Retention = Annotated[str, BeforeValidator(_retention, json_schema_input_type=str)]
"""How long runs are kept: an age, "90d", or a number, "last 50"."""

Dollars = Annotated[float, Field(gt=0, le=_LONGEST, strict=True)]
DollarLimit = Annotated[Dollars | None, _LIFTED, Unlimited]
Share = Annotated[float, Field(ge=0, le=1, strict=True)]
_Written = (
    Annotated[float, Field(gt=0, le=_LONGEST)]
    | Annotated[str, Field(pattern=f"^{_DURATION}$", min_length=1)]
)
DurationLimit = Annotated[
    float | None,
    BeforeValidator(_seconds, json_schema_input_type=_Written | None),
    Unlimited,
]
"""Seconds above zero, as a number or a text like "30m"; `inf` lifts the limit."""
_WrittenOrZero = (
    Annotated[float, Field(ge=0, le=_LONGEST)]
    | Annotated[str, Field(pattern=f"^{_DURATION}$", min_length=1)]
)
_FROM_ZERO = BeforeValidator(
    partial(_seconds, least=0), json_schema_input_type=_WrittenOrZero | None
)
WaitLimit = Annotated[float | None, _FROM_ZERO, Unlimited]
"""Seconds from zero on, as a number or a text like "30m"; `inf` lifts the limit."""
