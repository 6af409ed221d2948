"""Arguments and options that several commands share, with their completions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypeVar

from typer import Argument, BadParameter, Option

from goalrunner.core.errors import GoalError, quoted

STDIN = "-"
"""The name of stdin in place of a file."""
_LONGEST = 1e9
"""Seconds of the longest duration, about 30 years."""

T = TypeVar("T")

Text = str | None
Texts = list[str] | None
File = Path | None


def run_ids(incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield the ids of runs, newest first, with status and objective."""
    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_summaries import run_summaries

    try:
        summaries = run_summaries(goal_home(os.environ))
    except GoalError:
        return
    for summary in summaries:
        run_id = str(summary["run_id"])
        if run_id.startswith(incomplete):
            yield run_id, f"{summary.get('status', '')}: {summary.get('objective', '')}"


def runs_and_batches(incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield the ids of runs, then the names of batches."""
    from goalrunner.batches.names import batch_completions
    from goalrunner.records.run_folder import goal_home

    yield from run_ids(incomplete)
    with suppress(GoalError):
        for name in batch_completions(goal_home(os.environ), incomplete):
            yield name, "batch"


def agent_completions(incomplete: str) -> list[str]:
    """Return the names of agents."""
    from goalrunner.agents import external_agents

    names = {
        "builtin",
        *external_agents.agent_names(),
        *external_agents.user_files(os.environ),
    }
    return [name for name in sorted(names) if name.startswith(incomplete)]


def validator_commands(incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield the test commands of the project in the current folder."""
    from goalrunner.app.project import detect_project

    try:
        commands = detect_project(Path.cwd(), os.environ).commands
    except (GoalError, OSError):
        return
    # bash inserts a value as it is; the other shells quote it.
    is_bash = os.environ.get("_GOAL_COMPLETE") == "complete_bash"
    space = "\\ " if is_bash else " "
    for proposed in commands:
        if proposed.command.startswith(incomplete):
            yield proposed.command.replace(" ", space), proposed.why


def goal_files(incomplete: str) -> list[str]:
    """Return the TOML files of the current folder, goal.toml first."""
    names = sorted(
        (path.name for path in Path.cwd().glob("*.toml")),
        key=lambda name: (name != "goal.toml", name),
    )
    return [name for name in names if name.startswith(incomplete)]


def option(
    metavar: str | None,
    text: str,
    *names: str,
    values: Callable[[str], Any] | None = None,
    **more: Any,
) -> Any:
    """Return an option with a value."""
    # readable=False: the commands report unreadable files themselves.
    return Option(
        *names,
        metavar=metavar,
        help=text,
        autocompletion=values,
        readable=False,
        **more,
    )


def checked(parse: Callable[[str], T | None], valid: str) -> Callable[[str], T]:
    """Return a parser for an option.

    `parse` returns None or raises ValueError for a value that is not `valid`.
    """

    def parsed(text: str) -> T:
        with suppress(ValueError, OverflowError):
            value = parse(text)
            if value is not None:
                return value
        raise BadParameter(f"{quoted(text)} is not valid; use {valid}")

    return parsed


def duration(text: str) -> float | None:
    """Return the seconds of a duration that is given as an option."""
    from goalrunner.core.field_types import parse_duration

    seconds = parse_duration(text)
    return seconds if seconds is not None and seconds <= _LONGEST else None


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """Return a parser for an option that has one of these values."""
    return checked(lambda text: text if text in choices else None, ", ".join(choices))


def whole(least: int) -> Callable[[str], int]:
    """Return a parser for a whole number that is not below the least one."""

    def parse(text: str) -> int | None:
        number = int(text)
        return number if number >= least else None

    return checked(parse, f"a whole number from {least}")


COUNT, ROUND, DURATION = whole(1), whole(0), checked(duration, '"90d", "12h" or "30m"')


def argument(
    metavar: str, text: str, values: Callable[[str], Any] | None = None, **more: Any
) -> Any:
    """Return an argument."""
    return Argument(
        metavar=metavar, help=text, autocompletion=values, readable=False, **more
    )


def flag(name: str, text: str, *more: str) -> Any:
    """Return an option without a value."""
    return Option(name, *more, help=text)


Run = Annotated[
    Text,
    argument(
        "RUN",
        "Id of a run or its beginning; default: the newest of this workspace.",
        run_ids,
    ),
]
RunOrBatch = Annotated[
    Text,
    argument(
        "RUN|BATCH",
        "Id of a run or its beginning, or the name of a batch; default: the newest run"
        " of this workspace.",
        runs_and_batches,
    ),
]
Json = Annotated[bool, flag("--json", "Print the result as JSON.")]
NoPager = Annotated[
    bool, flag("--no-pager", "Print a long text directly, without PAGER or less.")
]
Yes = Annotated[bool, flag("--yes", "Do not ask.", "-y")]
Agent = Annotated[
    Text,
    option(
        "NAME",
        "The agent, such as claude, or several: claude,codex. goal agents lists them.",
        values=agent_completions,
    ),
]
Agents = Annotated[
    Texts,
    option(
        "NAME",
        "The agent, such as claude; claude,codex goes on with codex when claude cannot."
        " If it is repeated, the best run is taken, as with --best-of.",
        values=agent_completions,
    ),
]
Judge = Annotated[Text, option("NAME", "The judge's model.")]
Criteria = Annotated[Texts, option("TEXT", "A success criterion; may be repeated.")]
Validators = Annotated[
    Texts,
    option(
        "CMD",
        "A shell command that must pass; may be repeated.",
        values=validator_commands,
    ),
]
Format = Annotated[
    Text,
    option("NAME", "Its format; goal status --list-formats lists them.", "--format"),
]

MaxIterations = Annotated[Text, option("N", "Limit of rounds; inf: no limit.")]
Timeout = Annotated[
    Text, option("TIME", 'Seconds, or "90s", "30m", "2h"; inf: no limit.')
]
Wait = Annotated[
    Text,
    option(
        "TIME",
        "Longest sum of waits for usage limits to reset; 0: end instead; inf: no"
        " limit.",
    ),
]
Tokens = Annotated[Text, option("N", "Budget of tokens; inf: no limit.")]
Cost = Annotated[Text, option("USD", "Budget in US dollars; inf: no limit.")]
Unenforced = Annotated[
    Texts,
    option("BUDGET", "tokens or cost_usd: count only what is known; may be repeated."),
]

OutputFile = Annotated[
    File, option("PATH", "Write a copy of outcome.json there.", "--output")
]
OutcomeJson = Annotated[
    bool, flag("--json", "Print the outcome on stdout, progress on stderr.")
]
Detach = Annotated[
    bool,
    flag(
        "--detach",
        "Run in the background; print the id of the run and how to watch it.",
    ),
]
Fresh = Annotated[
    bool,
    flag("--fresh", "Run the validators anew, also if their results are known."),
]
Isolate = Annotated[
    bool,
    flag(
        "--isolate",
        "Work in a copy; the workspace stays as it is until goal apply.",
    ),
]
Verbose = Annotated[
    bool, flag("--verbose", "Print all that an external agent says.", "-v")
]
Quiet = Annotated[bool, flag("--quiet", "Print the last lines only.", "-q")]
JUnit = Annotated[
    File, option("FILE", "Write the result as JUnit XML there.", "--junit")
]
SigningKey = Annotated[
    File, option("KEY", "Sign the receipt with this SSH key; needs --output.", "--sign")
]
SummaryFile = Annotated[
    File, option("FILE", "Write the result as Markdown there.", "--summary")
]
GitLab = Annotated[
    File,
    option("FILE", "Write failures as GitLab code-quality JSON there.", "--gitlab"),
]
Html = Annotated[
    File, option("FILE", "Write the result as an HTML page there.", "--html")
]
