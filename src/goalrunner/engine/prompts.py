"""The texts for the agent: the first prompt, and the feedback of later rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goalrunner.core.decision import RunRound
from goalrunner.core.errors import AgentError, kind_of, some
from goalrunner.core.goal import Goal
from goalrunner.core.messages import blocks_of, text_of
from goalrunner.core.run_state import Interruption
from goalrunner.core.state_outcome import NOT_SAID

ResumePrompt = str | Callable[[str | None], str | Sequence[Mapping[str, Any]]]
"""A template with {feedback} {iteration} {missing} {objective}, or a callable.

The callable gets the feedback, or None, and returns the message.
"""

RETRY = """\
The objective is not complete yet (round {iteration}). This is what is missing:

{feedback}

Do what is missing, then check it and let the check be the last thing you run. The \
objective is unchanged:

{objective}"""

NEUTRAL = """\
Go on with the objective (round {iteration}). Make sure that each part of it is done
and shown by the result of a command or a file that you read, then finish:

{objective}"""

STALLED = """\
The last rounds ended just as the ones before: nothing in the files changed, and the
same is missing. What you did does not lead there. Stop, find out why the check fails,
and take a different way (round {iteration}). If the objective cannot be reached, or
only a person can go on, say so with report_blocked. This is missing:

{feedback}

The objective is unchanged:

{objective}"""

REFINE = "{feedback}\n\n{objective}"

RESUMED = "Go on with the objective (round {iteration}). It is unchanged."

_TEMPLATES = {
    "stalled": STALLED,
    "neutral": NEUTRAL,
    "refine": REFINE,
    "resumed": RESUMED,
}

ENDED = """\
The runner ended these processes, which you left running: {names}. Checks run without
them. If a check needs one of them, let the check start it: in a fixture, or in the
script that the check runs."""

CUT_SHORT = (
    "Your last turn ended before you had finished: {ending}. Its results so far count."
)

REMEMBERED = """\
Remembered from earlier runs. None of it is evidence, and it may be out of date: check \
it before you rely on it.
"""

PROTECTED = """\
Leave these as they are; your work is also checked with their original content:
"""

EDITABLE = """\
Change only files that match these patterns; your work is also checked without changes \
of others:
"""

CHECK_FILES = """\
These files check your work. Change what they contain only where the objective asks \
for it:
"""

CHECK_FILES_REFUSED = """\
These files check your work. Leave what they contain as it is:
"""

ABANDONED = """\
The machine of this run was lost in the middle of a round, which is abandoned: the \
workspace is as it was before that round. These calls may have had effects outside of \
the workspace, so look before you repeat them:
"""
CHANGED_MEANWHILE = """\
The run was interrupted. These files have changed since you were last seen; look at \
them again:
"""

CHECK_LAST = (
    "Clean up first, then run your checks last: a result counts only if nothing"
    " changed after it."
)

_MOST_PATHS = 30
_MOST_CALLS = 50
_MOST_CHECKS = 12


@dataclass(frozen=True)
class Prompts:
    """Renders the prompts of one goal."""

    goal: Goal
    resume_prompt: ResumePrompt | None = None
    """Replaces the retry message of the goal, or the built-in one."""
    first: str | None = None
    """Replaces the first message; the objective is then only for the judge."""
    remembered: tuple[str, ...] = ()
    """Facts of earlier runs for the first message, one line each."""
    protected: Callable[[], Sequence[str]] = tuple
    """Returns the files of the checks, in short."""

    def render(self, brief: RunRound) -> str:
        """Return the user message of a round.

        It is empty if the agent continues a round and there is nothing to report.
        """
        kind = brief.kind
        if kind == "first":
            text = self._first(brief.feedback)
        elif kind == "resumed" and not brief.interruption:
            text = ""
        else:
            text = self._again(brief)
        begins_turn = kind in ("retry", "stalled", "neutral")
        # An agent without its earlier messages needs the objective again.
        if begins_turn and not self.goal.preserve_context:
            text = f"{self._first()}\n\n{text}"
        parts = [interruption_text(brief.interruption)]
        if brief.ending and kind != "resumed":
            parts.append(CUT_SHORT.format(ending=brief.ending))
        parts.append(text)
        if brief.ended_processes and begins_turn:
            parts.append(ENDED.format(names=some(brief.ended_processes)))
        return "\n\n".join(filter(None, parts))

    def _again(self, brief: RunRound) -> str:
        """Return the message of a round that is not the first one."""
        custom = self.resume_prompt
        if custom is None:
            custom = self.goal.resume_prompt
        if brief.kind == "retry" and callable(custom):
            return called_template(custom, brief.feedback)
        template = _TEMPLATES.get(brief.kind)
        if template is None:
            template = custom if isinstance(custom, str) else RETRY
        elif self.goal.agent.external:
            # An external agent has no such tool.
            template = template.replace(" with report_blocked", "")
        feedback = brief.feedback or NOT_SAID
        # One call for all fields: braces in a value stay as they are.
        return template.format(
            feedback=feedback,
            missing=feedback,
            iteration=brief.round,
            objective=self.goal.objective.strip(),
        )

    def _first(self, feedback: str | None = None) -> str:
        """Return the first message, with what is missing if the checks pass already."""
        remembered: list[str] = []
        if self.remembered:
            remembered.append(REMEMBERED + _items(self.remembered))
        # A caller's own prompt says itself what is to be done.
        if self.first is not None:
            parts = [self.first, *remembered]
            if feedback is not None:
                parts.append(feedback)
            return "\n\n".join(parts)
        parts = [*self._of_goal(), *self._of_files(), *remembered]
        if self.goal.deliverable == "workspace":
            parts.append(CHECK_LAST)
        if feedback is not None:
            parts.append(f"The checks pass already. This is still missing:\n{feedback}")
        return "\n\n".join(parts)

    def _of_goal(self) -> list[str]:
        """Return the parts about objective, criteria, constraints and validators."""
        goal = self.goal
        parts = [goal.objective.strip()]
        if goal.success_criteria:
            heading = "It is complete when all of this holds:\n"
            parts.append(heading + _items(goal.success_criteria))
        if goal.constraints:
            heading = "Keep to this all the way:\n"
            parts.append(heading + _items(goal.constraints))
        # A hidden validator tests more than the agent can see.
        commands = [
            spec.run or spec.python or "" for spec in goal.validators if not spec.hidden
        ]
        if commands:
            heading = "When you finish, this is run to check your work:\n"
            parts.append(heading + _items(commands))
        return parts

    def _of_files(self) -> list[str]:
        """Return the parts about files that the agent should not change."""
        workspace = self.goal.workspace
        parts: list[str] = []
        if workspace.protect:
            parts.append(PROTECTED + _items(workspace.protect))
        if workspace.editable:
            parts.append(EDITABLE + _items(workspace.editable))
        return parts or self._of_checks()

    def _of_checks(self) -> list[str]:
        """Return the part about the files of the checks, which may have to change."""
        paths = tuple(self.protected())
        if not paths:
            return []
        refuses = self.goal.approvals.checks == "refuse"
        heading = CHECK_FILES_REFUSED if refuses else CHECK_FILES
        return [heading + _items(_at_most(_MOST_CHECKS, paths))]


def called_template(
    template: Callable[[str | None], object], feedback: str | None
) -> str:
    """Return the text that a template returned, or that of its content blocks.

    Raise AgentError for anything else.
    """
    try:
        value = template(feedback)
    except Exception as error:
        raise AgentError(
            f"resume_prompt raised {type(error).__name__}: {error}",
            "it gets the feedback, or None if there is none",
        ) from error
    blocks = blocks_of(value)
    has_text_only = bool(blocks) and all(block.kind == "text" for block in blocks)
    if not isinstance(value, str) and not has_text_only:
        raise AgentError(
            f"resume_prompt returned {kind_of(value)}, not a text",
            'return a str, or a list of blocks: [{"text": "..."}]',
        )
    return text_of(value)


def interruption_text(interruption: Interruption | None) -> str:
    """Return what happened while the run was interrupted, for the agent."""
    if interruption is None:
        return ""
    parts: list[str] = []
    if interruption.abandoned:
        parts.append(ABANDONED + _items(_at_most(_MOST_CALLS, interruption.abandoned)))
    if interruption.changed:
        paths = _at_most(_MOST_PATHS, interruption.changed)
        parts.append(CHANGED_MEANWHILE + _items(paths))
    for question, answer in interruption.answers:
        parts.append(
            f"Your question was answered.\nQuestion: {question}\nAnswer: {answer}"
        )
    if interruption.note:
        parts.append(f"The owner says:\n{interruption.note}")
    return "\n\n".join(parts)


def _at_most(count: int, lines: Sequence[str]) -> Sequence[str]:
    """Return the first lines, and how many more there are."""
    if len(lines) <= count:
        return lines
    return [*lines[:count], f"and {len(lines) - count} more"]


def _items(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
