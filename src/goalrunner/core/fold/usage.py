"""The usage of a run, by account and by agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goalrunner.core import events
from goalrunner.core.events import Account
from goalrunner.core.outcome import Usage
from goalrunner.core.run_state import RunState


def usage_recorded(state: RunState, event: events.UsageRecorded) -> RunState:
    """Return the state after a model call, or a part of a turn, reported its usage."""
    last_call = _last_call(state, event.account, event.usage)
    after = with_more_usage(state, {event.account: event.usage})
    return after.replace(last_call=last_call)


def _last_call(state: RunState, account: Account, usage: Usage) -> dict[str, Usage]:
    """Return the last answered call of each account.

    It is the estimate for a call that is running when the process ends.
    """
    before = state.last_call
    if not (usage.calls or usage.known_cost_usd):
        return before
    if account not in before:
        return {**before, account: usage}
    # An external agent may report tokens on one line and dollars on the next.
    belongs_to_last = state.external and state.awaiting is None and not usage.calls
    call = before[account] + usage if belongs_to_last else usage
    return {**before, account: call}


def with_more_usage(state: RunState, more: Mapping[Any, Usage]) -> RunState:
    """Return the state with more usage by account.

    That may be an estimate for calls that were running when a process ended.
    """
    usage = dict(state.usage)
    for account, used in more.items():
        usage[account] = usage.get(account, Usage()) + used
    if "agent" in more and state.plan.agents:
        name = state.plan.agents[state.agent]
        of_agent = state.agent_usage.get(name, Usage()) + more["agent"]
        state = state.replace(agent_usage={**state.agent_usage, name: of_agent})
    return with_usage_counted(state.replace(usage=usage, awaiting=None))


def with_usage_counted(state: RunState) -> RunState:
    """Return the state with the current usage in its budget."""
    total = state.spent()
    # Rounded, because sums of dollars such as 0.1 + 0.2 are not exact.
    cents = None if total.cost_usd is None else round(total.cost_usd * 100, 6)
    return state.with_budget(token_estimate=total.known_tokens, cost_cents=cents)


def account_in_flight(state: RunState) -> Account | None:
    """Return the account with unrecorded usage while a tool runs or a person decides.

    That is an external agent, which reports its usage at the end of its turn; the model
    of the built-in agent is idle meanwhile.
    """
    return state.awaiting if state.external else None
