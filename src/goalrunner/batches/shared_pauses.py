"""Usage limits of accounts, which the runs of a batch learn from each other.

The run that reaches a limit writes a file for the account; the others then wait as if
they had reached it, without a call. An account is an agent's program or the provider
of a model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from pydantic import AwareDatetime, ValidationError

from goalrunner.core.errors import AgentError, GoalError, ModelError, Outage
from goalrunner.core.events import Account, Record, WorkFailed
from goalrunner.core.field_types import SCRIPTED, Frozen
from goalrunner.core.run_state import RunState
from goalrunner.core.waiting import LONGEST_LIMIT, LONGEST_PAUSE
from goalrunner.records.files import write_whole


class AccountPause(Frozen):
    """Until when an account is not used."""

    until: AwareDatetime
    reason: str
    run_id: str
    """The run that has reached the limit."""
    number: int = 1
    """How often in a row it was reached, if its end is not known."""

    def is_over(self, now: datetime) -> bool:
        return self.until <= now


class SharedPauses(ABC):
    """The pauses that runs share, for one of them."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._names: dict[Account, str] = {}
        """The names of the accounts that were called last."""

    def refuse_call(self, account: Account, state: RunState) -> None:
        """Raise AgentError or ModelError if a run has reached the account's limit."""
        self._names[account] = name = account_name(account, state)
        pause = self.read(name)
        if pause is None or pause.is_over(datetime.now(UTC)):
            return
        outage = Outage("limit", pause.reason, pause.until)
        kind: type[GoalError] = ModelError
        if account == "agent" and state.external:
            kind = AgentError
        message = f"{name}: {pause.reason} (seen by run {pause.run_id})"
        raise kind(message, outage=outage)

    def on_record(self, record: Record) -> None:
        """Write a pause when this run has reached a limit."""
        event = record.event
        if not isinstance(event, WorkFailed) or event.kind != "limit":
            return
        name = self._names.get(event.account)
        if name is None:
            # Nothing was called by this process.
            return
        now = datetime.now(UTC)
        earlier = self.read(name)
        # Another run may have written it first, and this one only learned of it.
        if earlier is not None and not earlier.is_over(now):
            return
        pause = AccountPause(
            until=_end_of_limit(event, earlier, now),
            reason=event.reason,
            run_id=self._run_id,
            number=_number_in_row(earlier, now),
        )
        self.write(name, pause)

    @abstractmethod
    def read(self, name: str) -> AccountPause | None:
        """Return the last pause of an account; None if there was none."""

    @abstractmethod
    def write(self, name: str, pause: AccountPause) -> None:
        """Keep a pause of an account."""


class BatchPauses(SharedPauses):
    """The pauses of a batch, each in a file."""

    def __init__(self, folder: Path, run_id: str) -> None:
        super().__init__(run_id)
        self._folder = folder

    def read(self, name: str) -> AccountPause | None:
        try:
            return AccountPause.model_validate_json(self._file(name).read_bytes())
        except (OSError, ValidationError):
            # Without a valid pause, a run meets the limit itself at the worst.
            return None

    def write(self, name: str, pause: AccountPause) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        # It is not forced to the disk: after a power cut, a run meets the limit again.
        write_whole(self._file(name), pause.model_dump_json().encode(), lasting=False)

    def _file(self, name: str) -> Path:
        # File systems allow 255 bytes for a name.
        return self._folder / f"{quote(name, safe='')[:200]}.json"


def account_name(account: Account, state: RunState) -> str:
    """Return the program of an agent, or the provider of a model."""
    if account == "agent" and state.plan.agents:
        return state.plan.agents[state.agent]
    name = state.models.get(account, account)
    # Each recording stands for a provider of its own.
    return name if name.startswith(SCRIPTED) else name.partition("/")[0]


def _end_of_limit(
    event: WorkFailed, earlier: AccountPause | None, now: datetime
) -> datetime:
    """Return when the limit resets; without a known time, after a longer pause."""
    if event.resets_at:
        resets_at = datetime.fromisoformat(event.resets_at)
        if now < resets_at <= now + LONGEST_LIMIT:
            return resets_at
    pauses_before = _number_in_row(earlier, now) - 1
    # The longest pause is far shorter than the last of these powers.
    minutes: int = 2 ** min(pauses_before, 10)
    return now + min(timedelta(minutes=minutes), LONGEST_PAUSE)


def _number_in_row(earlier: AccountPause | None, now: datetime) -> int:
    """Return the number of a pause among those that followed each other at once."""
    if earlier is None:
        return 1
    since = now - earlier.until
    return earlier.number + 1 if since < LONGEST_PAUSE else 1
