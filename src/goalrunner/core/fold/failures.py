"""Failures that pass by themselves, the waits for that, and agents that take over."""

from __future__ import annotations

from datetime import datetime

from goalrunner.core import events
from goalrunner.core.events import Account
from goalrunner.core.labels import Label, begins_with
from goalrunner.core.run_state import Failure, Phase, RunState, Waiting
from goalrunner.core.waiting import seconds_between


def work_failed(state: RunState, event: events.WorkFailed, at: str) -> RunState:
    """Return the state after a failure at a time (ISO 8601); what follows is open."""
    # Counted by kind, because an overload and a limit have pauses of their own.
    name = f"{event.account} {event.kind}"
    number = state.failures.get(name, 0) + 1
    failure = Failure(**event.model_dump(exclude={"type"}), at=at, number=number)
    failures = {**state.failures, name: number}
    return state.replace(failure=failure, failures=failures, awaiting=None)


def wait_started(state: RunState, event: events.WaitStarted, at: str) -> RunState:
    return state.replace(wait=Waiting(**event.model_dump(exclude={"type"}), began=at))


def wait_ended(state: RunState, event: events.WaitEnded, at: str) -> RunState:
    """Return the state after a wait.

    `at` is when a process noticed that it is over (ISO 8601).
    """
    wait = state.wait
    after = state.replace(wait=None, failure=None)
    if wait is None:
        return after
    if wait.account == "agent" and state.phase is Phase.WORKING and state.prompted:
        # A conversation goes on without another prompt, and its model is asked next.
        after = after.replace(awaiting="agent")
    if wait.kind == "retry":
        return after
    # The time after its end, in which no process drove the run, was not waited.
    end = min(at, wait.until, key=datetime.fromisoformat)
    waited = state.waited + seconds_between(wait.began, end)
    return after.replace(waited=waited).with_budget(deadline_at=event.deadline_at)


def agent_switched(state: RunState, event: events.AgentSwitched) -> RunState:
    """Return the state in which another agent has the round, but not its prompt yet."""
    # The turn of an agent is estimated from its own turns alone.
    last_call = {**state.last_call}
    last_call.pop("agent", None)
    given_up = {**state.given_up, event.before: event.reason}
    after = before_prompt(without_failures(state, "agent")).replace(
        agent=event.index,
        switched=True,
        failure=None,
        given_up=given_up,
        last_call=last_call,
        # One label names all agents, in the order of their work.
        labels=tuple(
            label for label in state.labels if not begins_with(label, Label.AGENTS)
        ),
    )
    names = ", ".join((*given_up, event.agent))
    after = after.with_label(Label.AGENTS.about(names))
    if event.agent in state.plan.self_judging:
        return after.with_label(Label.SELF_JUDGED)
    return after


def without_failures(state: RunState, account: Account) -> RunState:
    """Return the state without the counted failures of an account.

    They count only in a row: the account has worked since, or another agent works.
    """
    if not state.failures:
        return state
    prefix = f"{account} "
    failures = {
        name: number
        for name, number in state.failures.items()
        if not name.startswith(prefix)
    }
    return state.replace(failures=failures)


def before_prompt(state: RunState) -> RunState:
    """Return the state in which the agent at work has no prompt yet."""
    return state.replace(block_report="", prompted=False, calling=None, awaiting=None)
