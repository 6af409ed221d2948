"""Errors: the exceptions, their exit codes, and the wording of their messages.

Each error says what failed, why, and what to do next.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Any, Literal


class ExitCode(IntEnum):
    """The exit codes.

    Signals give 128 + number: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP.
    """

    COMPLETE = 0
    CAPPED = 1
    USAGE = 2
    BLOCKED = 3
    FAILED = 4
    INTERRUPTED = 130
    TERMINATED = 143


@dataclass(frozen=True)
class Outage:
    """Why an agent or a model cannot go on now, although it may later."""

    kind: Literal["limit", "overload"]
    """A usage or rate limit; or an overloaded, failing or unreachable provider."""
    reason: str
    """For people, in a few words: "usage limit, five hours", "529 overloaded"."""
    resets_at: datetime | None = None
    """When a limit ends, with a time zone; None: not known."""
    was_retried: bool = False
    """Whether the call was repeated already, so that only a longer pause can help."""


class GoalError(Exception):
    """An expected failure.

    `message` says what failed and why, `hint` what to type next (may be empty).
    `outage` is set if the failure passes by itself.

    >>> from goalrunner import GoalError, load_goal
    >>> try:
    ...     goal = load_goal("no-such-file.toml")
    ... except GoalError as error:
    ...     print(error.exit_code.name)
    USAGE
    """

    exit_code: ExitCode = ExitCode.FAILED
    # A text, because the module of StopReason imports this one.
    stop_reason: str = "internal_error"
    """The stop reason of a run that it ends."""

    def __init__(
        self, message: str, hint: str = "", *, outage: Outage | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.outage = outage

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(GoalError):
    """The request cannot be carried out as given."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True)
class Problem:
    """One problem of a goal file, with its key and its place.

    Line and column are 1-based; 0 if unknown.
    """

    message: str
    key: str = ""
    line: int = 0
    column: int = 0


class GoalFileError(UsageError):
    """A goal is not valid; contains all problems in the order of its file.

    A problem with an option or a variable has the name of that option or variable in
    place of the file's name.
    """

    def __init__(self, path: str, problems: tuple[Problem, ...]) -> None:
        self.path = path
        self.problems = problems
        super().__init__("\n".join(self._line(problem) for problem in problems))

    def _line(self, problem: Problem) -> str:
        if self.path and problem.line:
            place = f"{self.path}:{problem.line}:{problem.column}"
            return f"{place}  {problem.message}"
        # The message begins with the name of the option or the variable.
        names_its_place = problem.key.startswith("--") or problem.key.isupper()
        if not self.path or names_its_place:
            return problem.message
        return f"{self.path}  {problem.message}"


class RunNotFound(UsageError):
    """No run folder matches the id that was given."""


class ConversationBusy(UsageError):
    """Another run uses this conversation."""


class RecordError(GoalError):
    """A run's log, transcript or artifact cannot be written or read back.

    The message names file and byte offset. `outcome` is the GoalOutcome of the run that
    it ended, if known; None outside of a run.
    """

    # Any, because the module of GoalOutcome imports this one.
    outcome: Any = None


@contextmanager
def os_errors(what: str, hint: str, kind: type[GoalError]) -> Iterator[None]:
    """Raise an error of this kind for an OSError in the context.

    Its message is `what` and the reason.
    """
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror or error}", hint) from error


def record_errors(
    what: str, hint: str = "free some space, or set GOAL_HOME"
) -> AbstractContextManager[None]:
    """Return a context that raises RecordError for an OSError."""
    return os_errors(what, hint, RecordError)


class WorkspaceError(GoalError):
    """The workspace, or the store of its snapshots, cannot be read or written.

    The message names the path.
    """

    stop_reason = "workspace_failed"


class WorkspaceBusy(WorkspaceError):
    """Another run is active in the workspace."""


class EnvironmentFailed(GoalError):
    """The check environment cannot be set up, kept or undone.

    No validator result counts then. If it is `permanent`, another attempt is useless or
    harmful; otherwise the check runs once more.
    """

    stop_reason = "environment_failed"

    def __init__(
        self, message: str, hint: str = "", *, permanent: bool = False
    ) -> None:
        super().__init__(message, hint)
        self.permanent = permanent


class ValidatorMissing(GoalError):
    """The command line of a validator names a program or path that does not exist.

    Only a person can correct it.
    """

    stop_reason = "validator_missing"


class BudgetExhausted(GoalError):
    """The budget of tokens or dollars is spent.

    It is raised before a model call, never during one.
    """

    exit_code = ExitCode.CAPPED


class ApprovalPending(GoalError):
    """An action waits for the decision of a person; it was not done."""

    exit_code = ExitCode.BLOCKED


class ApprovalDenied(GoalError):
    """An action was denied, or its approval expired.

    `reply` is the answer to the agent.
    """

    exit_code = ExitCode.BLOCKED

    def __init__(self, message: str, approval_id: str, reply: str = "") -> None:
        super().__init__(message)
        self.approval_id = approval_id
        self.reply = reply or message


# No GoalError: it ends a turn, and the run goes on with what the agent has done.
class TurnCut(Exception):
    """The agent's turn was ended before it was over, but not the run.

    The message is why: "no output for 15 min".
    """


class DeadlineReached(TurnCut):
    """The agent's turn was ended by the time limit of the run."""


class AgentError(GoalError):
    """An external agent failed; `message` is its own error message."""

    stop_reason = "agent_failed"


class AgentNotInstalled(AgentError):
    """The program of an external agent cannot be started."""


class AgentNotSignedIn(AgentError):
    """An external agent has no key or login, or a wrong one."""

    stop_reason = "authentication"


class AgentRefused(AgentError):
    """The provider refuses the model or the account of an external agent.

    It refuses them in later turns as well.
    """


class ModelError(GoalError):
    """A model call failed, and retrying does not help."""

    stop_reason = "agent_failed"


class AuthenticationFailed(ModelError):
    """The key for a provider is missing or wrong."""

    stop_reason = "authentication"


class ModelNotFound(ModelError):
    """The provider, or the model at the provider, does not exist."""

    stop_reason = "model_not_found"


class ContextWindowExceeded(ModelError):
    """The request is longer than the model's context window."""


class RequestRejected(ModelError):
    """The provider rejects the request itself (400, 422)."""


class JudgeChanged(ModelError):
    """Files that a judge's program reads were changed after the run began."""

    stop_reason = "judge_failed"


class ProviderUnavailable(ModelError):
    """A failure of the provider that persisted through all retries.

    That is a rate limit, a server error, a timeout or an interrupted stream.
    """


_SHOWN = 60
"""Characters of a string that are shown."""

LONGEST_PATH = 4096
"""Maximum number of characters of a path that are shown. It is large, because the end
of a path matters most."""


RESUMED_THERE = "resume the run in the program that started it"
"""How a run with parts of a calling program goes on."""
RESETS = "the limit resets at"
"""The beginning of the line of a message that names the time."""

# In this module, because reports and the rules of budgets name the same options.
LIMIT_OPTIONS = {
    "max_iterations": "--max-iterations",
    "timeout": "--timeout",
    "tokens": "--tokens",
    "cost_usd": "--cost",
}
"""The option of the command line for each limit of a run."""


def ways_on(
    limits: Mapping[str, Any],
    used: Mapping[str, float],
    reason: str,
    unknown: Sequence[str],
) -> list[str]:
    """Return the options of `goal resume` for each way to go on.

    Without them, a limit would stop the run at once; the list is empty if none would.
    `reason` is why it stopped; the use of `unknown` budgets is not known.
    """
    # After other stops, a resumed run first finishes its round.
    begins_round = reason in ("max_iterations", "denied", "impossible")
    raised, counted, lifted = [], [], []
    for name, option in LIMIT_OPTIONS.items():
        limit = limits.get(name)
        if not limit or (name == "max_iterations" and not begins_round):
            continue
        is_reached = used[name] >= limit or reason == name
        if is_reached and name in unknown:
            raised.append(f"{option} inf")
        elif is_reached:
            raised.append(_raised_limit(name, limit, used[name]))
        elif name in unknown:
            counted.append(f"--allow-unenforced {name}")
            lifted.append(f"{option} inf")
    ways = [" ".join((*raised, *options)) for options in (counted, lifted)]
    return list(dict.fromkeys(filter(None, ways)))


def _raised_limit(name: str, limit: float, used: float) -> str:
    """Return the option that doubles a limit, or its use: "--timeout 20m"."""
    option = LIMIT_OPTIONS[name]
    if name != "timeout":
        return f"{option} {2 * max(limit, used):.10g}"
    # A multiple of the limit, so that it is in whole minutes if the limit is.
    seconds = 2 * max(limit, used - used % limit)
    for size, unit in ((3600, "h"), (60, "m")):
        if seconds % size == 0:
            return f"{option} {seconds / size:.10g}{unit}"
    return f"{option} {seconds:.10g}"


def span(seconds: float) -> str:
    """Return a limit without parts that are zero: "45 s", "1 h 30 min", "2.5 s"."""
    if seconds < 60:
        return f"{seconds:g} s"
    minutes, whole_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min")]
    if not hours:
        # Beside hours, seconds say nothing.
        parts.append((whole_seconds, "s"))
    return " ".join(f"{number:,} {unit}" for number, unit in parts if number)


def one_line(text: str, longest: int = 200) -> str:
    """Return the text on one line, truncated."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def kind_of(value: object) -> str:
    """Return the type of a value with an article: "a str", "an int"; or "None"."""
    if value is None:
        return "None"
    name = type(value).__name__
    article = "an" if name[0].lower() in "aeiou" else "a"
    return f"{article} {name}"


def quoted(text: str, longest: int = _SHOWN) -> str:
    """Return a string in quotes, on one line, without control characters.

    At most `longest` characters of it are shown.
    """
    short = text if len(text) <= longest else text[: longest - 1] + "…"
    in_quotes = json.dumps(short, ensure_ascii=False)
    # JSON leaves some characters that move a terminal's cursor, such as U+009B.
    escaped = [
        char if char.isprintable() else json.dumps(char)[1:-1] for char in in_quotes
    ]
    return "".join(escaped)


def toml_value(value: object) -> str:
    """Return a value as it is written in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return quoted(value)
    return str(value) if isinstance(value, int | float) else kind(value)


def kind(value: object) -> str:
    """Return a description of a value: "the string "x"", "a table", "a list"."""
    if isinstance(value, bool):
        return toml_value(value)
    if isinstance(value, str):
        return f"the string {toml_value(value)}"
    if isinstance(value, int | float):
        return f"the number {toml_value(value)}"
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    return f"a value of type {type(value).__name__}"


def shortened(text: str, longest: int, note: str = "") -> str:
    """Return the text, or its two ends if it is longer.

    A mark between them counts what is left out; `note` ends the mark.
    """
    if len(text) <= longest:
        return text
    half = longest // 2
    omitted = len(text) - 2 * half
    mark = f"[... {omitted:,} characters left out{note} ...]"
    return f"{text[:half]}\n{mark}\n{text[-half:]}"


def titled(kind: str, action: str) -> str:
    """Return an action with its kind in front, unless it begins with it.

    "checks changed: tests/test_a.py" begins with "checks".
    """
    if action.startswith((f"{kind}: ", f"{kind} changed: ")):
        return action
    return f"{kind}: {action}"


def some(names: Sequence[str], most: int = 5) -> str:
    """Return the first names: "a, b and 3 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def quoted_list(choices: Iterable[str]) -> str:
    """Return choices in quotes: `"low", "medium"`."""
    return ", ".join(quoted(choice) for choice in choices)


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice that was probably meant, or None."""
    # Imported here: only an error needs it.
    import difflib

    by_shape = {_shape(choice): choice for choice in choices}
    # Cut, because the time of a comparison grows with the square of the length.
    matches = difflib.get_close_matches(_shape(word[:100]), list(by_shape), n=1)
    return by_shape[matches[0]] if matches else None


def unexpected_keyword(
    name: str, valid_names: Iterable[str], function: str = ""
) -> TypeError:
    """Return the error for an unknown keyword of a call, with the nearest valid one.

    `function` is its name, if Python would show that.
    """
    near = nearest(name, valid_names)
    advice = f"; did you mean '{near}'?" if near else ""
    called = f"{function}() " if function else ""
    return TypeError(f"{called}got an unexpected keyword argument '{name}'{advice}")


def _shape(word: str) -> str:
    """Return a word without the differences that people overlook."""
    return word.casefold().replace("-", "_")
