"""The steps of a run as rows: what runs, what waits, and how a step ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from goalrunner.core import events
from goalrunner.core.actions import short_name, shown_command
from goalrunner.core.observation import REPLAY
from goalrunner.core.outcome import GoalStatus
from goalrunner.core.run_state import Phase, RunState, Waiting
from goalrunner.reports import figures
from goalrunner.reports.layout import (
    ASKED,
    INDENT,
    WARNED,
    Quoted,
    ReportLine,
    StepLine,
)
from goalrunner.reports.terminal_text import cut, join_nonempty, printable_line

LONGEST_WORDS = 300
"""Columns of an agent's message that are shown."""
CONTINUING = "continuing"
"""The first word of the step of an agent that goes on with a turn after a resume."""
WORKING, ASKING = "working", "waiting for the model"
"""What an agent does: an external one, and the built-in one."""
# One object: `Narrative` compares identities to see whether a step goes on.
_AGENT = StepLine("agent", subject=WORKING)
# Events after which nothing runs until the next one.
_ENDS_OF_STEPS = (
    events.RoundFinished,
    events.CritiqueFinished,
    events.ValidatorsFinished,
    events.BaselineTaken,
    events.ConfirmationRecorded,
    events.VerdictRecorded,
    events.ChecksReviewed,
    events.RunEnded,
)


def warning_step(name: str, remark: str) -> StepLine:
    """Return a step with a warning."""
    return StepLine(name, WARNED, remark=remark, tone="warn")


def failed_step(name: str, remark: str, subject: str = "") -> StepLine:
    """Return a step that failed, for example a red validator."""
    return StepLine(name, "✗", subject, remark=remark, tone="bad")


def passed_step(name: str, remark: str, subject: str = "") -> StepLine:
    """Return a step that passed."""
    return StepLine(name, "✓", subject, remark=remark, tone="good")


def call_step(tool: str, command: str, workspace: str = "") -> StepLine:
    """Return the row of a tool call, with paths relative to the workspace."""
    subject = shown_command(command, workspace)
    # Claude Code and others name the tools of MCP servers mcp__SERVER__TOOL.
    prefix, _, name = tool.partition("__")
    server, _, server_tool = name.partition("__")
    if prefix == "mcp" and server_tool:
        tool_call = join_nonempty(" ", server, server_tool, subject)
        return StepLine("mcp", subject=tool_call)
    return StepLine(short_name(tool), subject=subject)


def message_step(message: str) -> Iterator[StepLine]:
    """Yield the beginning of the agent's last message in a turn, unless it is empty."""
    text = cut(printable_line(message), LONGEST_WORDS)
    if text:
        yield StepLine("agent", subject="said", remark=text)


def agent_message_lines(message: str, *, whole: bool) -> Iterator[ReportLine]:
    """Yield the beginning of a message of the agent; with `whole`, all of it.

    An empty message has no line.
    """
    lines = message.strip().splitlines()
    if whole and lines:
        yield StepLine("agent", subject="said")
        for line in lines:
            yield Quoted(line, " " * INDENT, whole=True)
        return
    text = cut(printable_line(message), LONGEST_WORDS)
    if text:
        yield StepLine("agent", subject=text)


def wait_step(wait: Waiting, now: datetime) -> StepLine:
    """Return why the run waits, and until when."""
    if wait.kind == "limit":
        until = figures.time_ahead(wait.until, now)
        return StepLine("waiting", WARNED, f"{wait.reason}, until {until}", tone="warn")
    pause = (datetime.fromisoformat(wait.until) - now).total_seconds()
    # A resumed run may show a pause that is over.
    length = figures.span(max(round(pause), 1))
    return warning_step(
        wait.account, f"retry {wait.number} after {length} ({wait.reason})"
    )


def person_step(state: RunState) -> StepLine | None:
    """Return the command with which a person decides; None if the run does not wait."""
    is_waiting = state.waiting or state.asks_person
    if state.status is not GoalStatus.RUNNING or not is_waiting:
        return None
    run_id = state.goal.run_id
    # `goal status` lists the others.
    if state.waiting:
        command = f"goal approve {run_id} {state.waiting[-1].id}"
    else:
        command = f'goal answer {run_id} "..."'
    return StepLine("waiting", ASKED, f"for you: {command}", tone="warn")


def is_continuing(step: StepLine | None) -> bool:
    """Return whether the agent was silent since the run was resumed in its turn."""
    return step is not None and step.subject.startswith(CONTINUING)


def step_after(
    event: events.Event, before: StepLine | None, state: RunState
) -> StepLine | None:
    """Return the step that runs after an event; None if none does.

    `state` is the state after the event, and `before` the step until then.
    """
    is_working = state.phase is Phase.WORKING
    match event:
        case events.RunResumed() if is_working and state.prompted:
            return StepLine("agent", subject=f"{CONTINUING} round {state.round}")
        case events.RunStarted() | events.RunResumed():
            return StepLine("start", subject="checking the models")
        case events.WaitEnded():
            return _AGENT if is_working else None
        case events.ToolCalled():
            return call_step(event.tool, event.summary, state.working_folder)
        case events.ToolResultRecorded():
            return _step_after_result(event, before)
        case events.RoundStarted() | events.RefinementStarted():
            return _AGENT
        # A prompt begins a turn. In a turn that goes on after a resume, any message
        # shows that the agent works again.
        case events.MessageRecorded() if event.role == "user" or is_continuing(before):
            return _AGENT
        case events.StepStarted():
            return StepLine("checks", subject=event.description)
        case events.CritiqueStarted():
            return StepLine(event.account, subject="scoring the round")
        case events.AuditStarted() | events.ChecksReviewStarted():
            return StepLine("judge", subject="reviewing evidence")
    return None if isinstance(event, _ENDS_OF_STEPS) else before


def _step_after_result(
    event: events.ToolResultRecorded, before: StepLine | None
) -> StepLine | None:
    """Return the step that runs after a tool call."""
    observation = event.observation
    # A replay is a part of the audit, which goes on.
    if observation.source == REPLAY:
        return before
    # The calls of an external agent that are open when its turn is cut have this fact.
    is_cut = bool(observation.reported_by) and "interrupted" in observation.facts
    return None if is_cut else _AGENT
