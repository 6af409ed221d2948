"""What a run has spent, by account: counted from events, and what an agent's turn that was cut leaves unknown. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from goalrunner.events import Account
from goalrunner.model.outcome import GoalStatus
from goalrunner.model.usage import Usage
from goalrunner.state.changes import with_budget, with_fields
from goalrunner.state.run_state import RunState


def spent(state: RunState, account: str, usage: Usage) -> RunState:
    """A model call, or a part of an agent's turn, has said what it used."""
    last = state.last_call
    if usage.calls or usage.known_cost_usd:
        before = last.get(account)
        # An agent may say on one line how many tokens it used, and on the next one how many dollars.
        follows = state.external and state.awaiting is None and before is not None and not usage.calls
        last = {**last, account: before + usage if follows and before is not None else usage}
    accounts = {**state.usage, account: state.usage.get(account, Usage()) + usage}
    return counted(with_fields(state, usage=accounts, last_call=last, awaiting=None))


def with_cut(state: RunState, cut: Mapping[Account, Usage] | Mapping[str, Usage]) -> RunState:
    """The same, with what calls may have used that were under way when a process ended."""
    accounts = {**state.usage}
    for account, usage in cut.items():
        accounts[account] = accounts.get(account, Usage()) + usage
    return counted(with_fields(state, usage=accounts, awaiting=None))


def accounts_of(state: RunState, *, over: bool | None = None) -> dict[str, Usage]:
    """By account, what people and machines are told that was spent.

    An external agent says at the end of its turn what it used: of one that was cut that is not known. `over` says that
    nobody goes on with the run now; None: what its status says.
    """
    over = state.status is not GoalStatus.RUNNING if over is None else over
    if not (over and state.external and state.awaiting == "agent"):
        return dict(state.usage)
    return {**state.usage, "agent": state.usage.get("agent", Usage()) + Usage.unknown()}


def total_of(state: RunState, *, over: bool | None = None) -> Usage:
    """The sum of `accounts_of`."""
    return sum(accounts_of(state, over=over).values(), Usage())


def counted(state: RunState) -> RunState:
    """The budget of the working memory, brought up to date."""
    total = total_of(state)
    cents = None if total.cost_usd is None else round(total.cost_usd * 100, 6)
    tokens = None if total.input_tokens is None else total.tokens
    return with_budget(state, token_estimate=tokens, cost_cents=cents)
