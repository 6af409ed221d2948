"""Which actions and results a person must approve, by the rules of the goal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Literal

from goalrunner.core.events import RiskClass
from goalrunner.core.goal_tables import Approvals
from goalrunner.core.shell_programs import Program, started_programs
from goalrunner.core.tools import WITH_SUBCOMMANDS

_EXPANSION = re.compile(r"[$`]|\{[^{}\s]*(?:,|\.\.)")
"""What the shell replaces when a command runs."""
_WILDCARD = re.compile(r"[*?\[]")
"""What the shell, or a pattern of the goal, expands to other characters."""


def rule_for(
    kind: Literal["shell", "write"], text: str, approvals: Approvals, risk: RiskClass
) -> str:
    """Return the setting that requires approval of a command line or a written path.

    Empty if none does. A pattern is compared with the commands that a line names. A
    line that is not understood needs approval.
    """
    # Of a critical goal, a person sees every action.
    if risk == "critical":
        return 'risk_class = "critical"'
    if kind in approvals.require:
        return f'[approvals] require = ["{kind}"]'
    if kind == "write" or not approvals.commands:
        return ""
    programs, problem = started_programs(text)
    if pattern := _matching_pattern(text, programs, approvals.commands):
        return f'[approvals] commands = ["{pattern}"]'
    if problem:
        # Fails closed: such a line may hide any command.
        pattern = approvals.commands[0]
        return (
            f'[approvals] commands = ["{pattern}"] '
            f"(the command cannot be parsed: {problem})"
        )
    return ""


def completion_rule(approvals: Approvals, risk: RiskClass) -> str:
    """Return the setting that requires approval of the completion; else empty."""
    if risk in ("high", "critical"):
        return f'risk_class = "{risk}"'
    if "complete" in approvals.require:
        return '[approvals] require = ["complete"]'
    return ""


def guarding_key(approvals: Approvals, risk: RiskClass) -> str:
    """Return the setting under which a person may have to decide on single actions.

    Empty if there is none.
    """
    if risk == "critical":
        return 'risk_class = "critical"'
    for kind in approvals.require:
        if kind != "complete":
            return f'require = ["{kind}"]'
    return "commands" if approvals.commands else ""


def expires_at(approvals: Approvals, now: datetime) -> str | None:
    """Return when an approval that is requested now expires (ISO 8601); None: never."""
    if approvals.expires is None:
        return None
    return (now + timedelta(seconds=approvals.expires)).isoformat()


def is_late(expires: str | None, now: datetime) -> bool:
    return expires is not None and now > datetime.fromisoformat(expires)


def _matching_pattern(
    line: str, programs: tuple[Program, ...], patterns: tuple[str, ...]
) -> str:
    """Return the first pattern that matches a line, or may match a command in it.

    Several blanks in a row count as one space.
    """
    whole = " ".join(line.split())
    forms = {form for program in programs for form in _forms(program)}
    for pattern in patterns:
        if fnmatchcase(whole, pattern):
            return pattern
        if any(_may_match(form, pattern) for form in forms):
            return pattern
    return ""


def _may_match(form: str, pattern: str) -> bool:
    """Return whether a pattern matches a command, or could with other variables."""
    if fnmatchcase(form, pattern):
        return True
    pattern_beginning = _WILDCARD.split(pattern, maxsplit=1)[0]
    if _may_expand_to(pattern_beginning.split(), form.split(" ")):
        return True
    fixed_form = _EXPANSION.split(form, maxsplit=1)[0]
    return fixed_form != form and pattern_beginning.startswith(fixed_form)


def _may_expand_to(beginning: list[str], words: list[str]) -> bool:
    """Return whether words can become the beginning of a pattern.

    The shell makes `git push` of `git pus?` if a file is named push.
    """
    if not beginning or len(words) < len(beginning):
        return False
    pairs = zip(beginning, words, strict=False)
    return all(fnmatchcase(expected, word) for expected, word in pairs)


def _forms(program: Program) -> Iterator[str]:
    """Yield the ways to write a command that a pattern may match.

    They are with and without the folder of the program, and without the options before
    its subcommand.
    """
    words = program.words
    if not words or not program.has_known_name:
        return
    if _EXPANSION.search(words[0]) is None:
        yield " ".join(words)
    yield " ".join((program.name, *words[1:]))
    if program.name in WITH_SUBCOMMANDS:
        for from_subcommand in _from_subcommand(words):
            yield " ".join((program.name, *from_subcommand))


def _from_subcommand(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the words from the subcommand on.

    `git -C x push` gives `push`, and `x push`, because -C might take no value.
    """
    for index in range(1, len(words)):
        if words[index].startswith("-"):
            continue
        yield words[index:]
        follows_option = words[index - 1].startswith("-")
        if not follows_option:
            return
