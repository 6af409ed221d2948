"""How open questions change a state: opened by agent or judge, closed by a person's answer. Pure."""

from __future__ import annotations

from goalrunner import events
from goalrunner.model.outcome import StopReason
from goalrunner.state.changes import with_evidence, with_fields, with_memory
from goalrunner.state.run_state import Interruption, RunState


def asked(state: RunState, questions: tuple[str, ...]) -> RunState:
    """The questions are open; one that is open already is not opened twice."""
    opened = state.memory.open_questions
    return with_memory(state, open_questions=tuple(dict.fromkeys((*opened, *questions)))) if questions else state


def answered(state: RunState, event: events.QuestionAnswered) -> RunState:
    """The question is closed, with the observation that holds the answer; the agent is still to be told of it."""
    left = tuple(question for question in state.memory.open_questions if question != event.question)
    closed = with_memory(state, open_questions=left)
    closed = with_evidence(closed, [event.evidence_ref], counted=event.observation is not None)
    closed = _said(closed, event)
    if event.observation is None:  # a tool result said it to the agent already
        return closed
    told = state.interruption or Interruption()
    answers = (*told.answers, (event.question, event.answer))
    return with_fields(closed, interruption=told.model_copy(update={"answers": answers}))


def _said(state: RunState, event: events.QuestionAnswered) -> RunState:
    """A run that ended with open questions says what is left of them."""
    if state.stop_reason is not StopReason.QUESTION_OPEN:
        return state
    run, left = state.goal.run_id, state.memory.open_questions
    if left:
        return with_fields(state, message="\n".join(["only a person can answer:", *left, f'goal answer {run} "..."']))
    by = f" by {event.by}" if event.by else ""
    return with_fields(state, message=f"the question was answered{by}\ngoal resume {run} goes on")
