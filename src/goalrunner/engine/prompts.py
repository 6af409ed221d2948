"""The texts for the agent: the first prompt, the feedback of later rounds, and the reply to its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goalrunner.core.decision import RunRound
from goalrunner.core.errors import AgentError, kind_of, some
from goalrunner.core.events import PlanProposed
from goalrunner.core.goal import Goal
from goalrunner.core.messages import blocks_of, text_of
from goalrunner.core.observation import Observation
from goalrunner.core.run_state import Interruption
from goalrunner.core.state_outcome import NOT_SAID
from goalrunner.core.steps import is_runner_step

ResumePrompt = str | Callable[[str | None], str | Sequence[Mapping[str, Any]]]
"""A template with {feedback} {iteration} {missing} {objective}, or a callable from feedback (or None) to message."""

RETRY = """The objective is not complete yet (round {iteration}). This is what is missing:

{feedback}

Do what is missing, then check it and let the check be the last thing you run. The objective is unchanged:

{objective}"""

NEUTRAL = """Go on with the objective (round {iteration}). Make sure that each part of it is done
and shown by the result of a command or a file that you read, then finish:

{objective}"""

STALLED = """The last rounds ended just as the ones before: nothing in the files changed, and the same is missing. What you did
does not lead there. Stop, find out why the check fails, and take a different way (round {iteration}). If the objective
cannot be reached, or only a person can go on, say so with report_blocked. This is missing:

{feedback}

The objective is unchanged:

{objective}"""

REFINE = "{feedback}\n\n{objective}"

RESUMED = "Go on with the objective (round {iteration}). It is unchanged."

ENDED = """\
The runner ended these processes, which you left running: {names}. Checks run without them. If a check needs one of
them, let the check start it: in a fixture, or in the script that the check runs."""

CUT_SHORT = (
    "Your last turn ended before you had finished: {ending}. Its results so far count."
)

REMEMBERED = """Remembered from earlier runs. None of it is evidence, and it may be out of date: check it before you rely on it.
"""

Find = Callable[[str], Observation | None]
"""Returns the observation of an id, or None."""

_MOST_PATHS = 30
_MOST_CHECKS = 12

CHECK_LAST = "Clean up first, then run your checks last: a result counts only if nothing changed after it."


@dataclass(frozen=True)
class Prompts:
    """Renders the prompts of one goal."""

    goal: Goal
    resume_prompt: ResumePrompt | None = (
        None  # replaces the retry message of the goal, or the built-in one
    )
    first: str | None = (
        None  # replaces the first message by the caller's own; the objective is then only for the judge
    )
    remembered: tuple[
        str, ...
    ] = ()  # facts of earlier runs for the first message, one line each
    protected: Callable[[], Sequence[str]] = tuple  # the files of the checks, in short

    def render(self, brief: RunRound) -> str:
        """Return the user message of a round; empty if the agent continues a round and there is nothing to report."""
        kind = brief.kind
        if kind == "first":
            text = self._first(brief.feedback)
        elif kind == "resumed" and not brief.interruption:
            text = ""
        else:
            text = self._again(brief)
        if kind in ("retry", "stalled", "neutral") and not self.goal.preserve_context:
            text = f"{self._first()}\n\n{text}"
        ended = (
            ENDED.format(names=some(brief.ended))
            if brief.ended and kind in ("retry", "stalled", "neutral")
            else ""
        )
        cut = (
            CUT_SHORT.format(ending=brief.ending)
            if brief.ending and kind != "resumed"
            else ""
        )
        return "\n\n".join(
            part
            for part in (interruption_text(brief.interruption), cut, text, ended)
            if part
        )

    def _again(self, brief: RunRound) -> str:
        """Return the message of a round that is not the first one. Braces in the values stay as they are."""
        custom = (
            self.resume_prompt
            if self.resume_prompt is not None
            else self.goal.resume_prompt
        )
        if brief.kind == "retry" and callable(custom):
            return called_template(custom, brief.feedback)
        template = {
            "stalled": STALLED,
            "neutral": NEUTRAL,
            "refine": REFINE,
            "resumed": RESUMED,
        }.get(brief.kind)
        if template is None:
            template = custom if isinstance(custom, str) else RETRY
        elif self.goal.agent.external:  # it has no such tool
            template = template.replace(" with report_blocked", "")
        feedback = brief.feedback or NOT_SAID
        objective = self.goal.objective.strip()
        return template.format(
            feedback=feedback,
            missing=feedback,
            iteration=brief.round,
            objective=objective,
        )

    def _first(self, feedback: str | None = None) -> str:
        remembered = [REMEMBERED + _items(self.remembered)] if self.remembered else []
        if self.first is not None:
            return "\n\n".join(
                [self.first, *remembered, *([feedback] if feedback is not None else [])]
            )
        goal = self.goal
        parts = [goal.objective.strip()]
        if goal.success_criteria:
            parts.append(
                "It is complete when all of this holds:\n"
                + _items(goal.success_criteria)
            )
        if goal.constraints:
            parts.append("Keep to this all the way:\n" + _items(goal.constraints))
        commands = tuple(
            spec.run or spec.python or "" for spec in goal.validators if not spec.hidden
        )
        if commands:
            parts.append(
                "When you finish, this is run to check your work:\n" + _items(commands)
            )
        kept = "Leave these as they are; your work is also checked with their original content:\n"
        changed = "Change only files that match these patterns; your work is also checked without changes of others:\n"
        for heading, patterns in (
            (kept, goal.workspace.protect),
            (changed, goal.workspace.editable),
        ):
            parts += [heading + _items(patterns)] if patterns else []
        parts += (
            []
            if goal.workspace.protect or goal.workspace.editable
            else self._of_checks()
        )
        parts += remembered
        if goal.deliverable == "workspace":
            parts.append(CHECK_LAST)
        if feedback is not None:
            parts.append(f"The checks pass already. This is still missing:\n{feedback}")
        return "\n\n".join(parts)

    def _of_checks(self) -> list[str]:
        """Return the part about the files of the checks, which the agent may have to change."""
        files = tuple(self.protected())
        if not files:
            return []
        if self.goal.approvals.checks == "refuse":
            heading = "These files check your work. Leave what they contain as it is:\n"
        else:
            heading = "These files check your work. Change what they contain only where the objective asks for it:\n"
        more = (
            (f"and {len(files) - _MOST_CHECKS} more",)
            if len(files) > _MOST_CHECKS
            else ()
        )
        return [heading + _items((*files[:_MOST_CHECKS], *more))]


def called_template(
    template: Callable[[str | None], object], feedback: str | None
) -> str:
    """Return the text that a template returned, or that of its content blocks. Raise AgentError for anything else."""
    try:
        value = template(feedback)
    except Exception as error:
        raise AgentError(
            f"resume_prompt raised {type(error).__name__}: {error}",
            "it gets the feedback, or None if there is none",
        ) from error
    blocks = blocks_of(value)
    if not isinstance(value, str) and not (
        blocks and all(block.kind == "text" for block in blocks)
    ):
        raise AgentError(
            f"resume_prompt returned {kind_of(value)}, not a text",
            'return a str, or a list of blocks: [{"text": "..."}]',
        )
    return text_of(value)


def interruption_text(about: Interruption | None) -> str:
    """Return what happened while the run was interrupted, for the agent."""
    if about is None:
        return ""
    parts = []
    if about.changed:
        heading = "The run was interrupted. These files have changed since you were last seen; look at them again:"
        more = (
            (f"and {len(about.changed) - _MOST_PATHS} more",)
            if len(about.changed) > _MOST_PATHS
            else ()
        )
        parts.append(f"{heading}\n{_items((*about.changed[:_MOST_PATHS], *more))}")
    parts += [
        f"Your question was answered.\nQuestion: {asked}\nAnswer: {answer}"
        for asked, answer in about.answers
    ]
    parts += [f"The owner says:\n{about.note}"] if about.note else []
    return "\n\n".join(parts)


def _items(lines: tuple[str, ...]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def settle_plan(plan: PlanProposed, find: Find) -> tuple[PlanProposed, str]:
    """Return the accepted part of an agent's plan, and the reply for the agent.

    The reply contains none of the agent's words, because it becomes an observation that a judge may quote.
    """
    refusals = {
        step: why
        for step, shown in plan.completed.items()
        if (why := _plan_refusal(step, shown, find))
    }
    numbers = {step: number for number, step in enumerate(plan.completed, start=1)}
    lines = [
        f"- completed step {numbers[step]} is not accepted: {why}"
        for step, why in refusals.items()
    ]
    if any(map(is_runner_step, (*plan.pending, plan.current))):
        lines.append(
            "- names such as round-1 and audit-1 are the runner's own steps; they are left out"
        )
    accepted = {
        "current": "" if is_runner_step(plan.current) else plan.current,
        "pending": tuple(step for step in plan.pending if not is_runner_step(step)),
        "completed": {
            step: shown
            for step, shown in plan.completed.items()
            if step not in refusals
        },
        "refused": tuple(refusals),
    }
    settled = plan.model_copy(update=accepted)
    head = f"The plan is kept: {len(settled.completed)} completed, {len(settled.pending)} pending."
    return settled, "\n".join([head, *lines]) + "\n"


def _plan_refusal(step: str, shown: str, find: Find) -> str:
    if is_runner_step(step):
        return "its name is one of the runner's own"
    if (observation := find(shown)) is None:
        return f"there is no result {shown}"
    return "" if observation.shows else f"{shown} shows nothing that was done"
