"""What the runs of a batch learn from each other: their budget, and limits of accounts."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from goalrunner.batches.history import batch_state
from goalrunner.batches.plan import BatchLimits
from goalrunner.batches.scheduling import Spent
from goalrunner.batches.shared_budget import BudgetObserver, SpentFile
from goalrunner.batches.shared_pauses import BatchPauses, account_name
from goalrunner.core.errors import ModelError
from goalrunner.core.events import (
    Account,
    Event,
    Record,
    RunResumed,
    RunRules,
    RunStarted,
    UsageRecorded,
    WorkFailed,
)
from goalrunner.core.outcome import StopReason, Usage
from goalrunner.core.run_state import RunState
from tests.batches.test_history import plan_of
from tests.support.folding import state_after

NOW = datetime.now(UTC)


def record(event: Event) -> Record:
    return Record(seq=1, at=NOW.isoformat(), elapsed=0.0, event=event)


def usage(cost: float, tokens: int = 0) -> Usage:
    return Usage(input_tokens=tokens, cost_usd=cost, calls=1)


@pytest.fixture
def file(tmp_path: Path) -> SpentFile:
    return SpentFile(tmp_path / "spent", batch_state(plan_of("a", "b"), ()))


def test_each_call_is_counted_at_once_and_the_total_is_that_of_all_runs(
    tmp_path: Path, file: SpentFile
) -> None:
    first = BudgetObserver(file, "1", BatchLimits())
    first.on_record(record(UsageRecorded(account="agent", usage=usage(0.5, 10))))
    first.on_record(record(UsageRecorded(account="judge", usage=Usage.unknown())))
    again = SpentFile(tmp_path / "spent", batch_state(plan_of("a", "b"), ()))
    second = BudgetObserver(again, "2", BatchLimits())
    cut = RunResumed(
        plan=RunRules(), version="1", in_flight={"agent": usage(0.25, 5)}, notes=()
    )
    second.on_record(record(cut))
    assert file.total() == again.total() == Spent(0.75, 15)
    # A resumed run continues its own count.
    second.on_state(state_after(RunRules()))
    assert file.total() == Spent(0.5, 10)
    file.close()
    again.close()


def test_the_run_that_sees_the_budget_spent_ends_itself_once(
    file: SpentFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: list[int] = []
    monkeypatch.setattr("os.kill", lambda _, number: signals.append(number))
    file.write("2", Spent(cost_usd=1.0))
    observer = BudgetObserver(file, "1", BatchLimits(cost_usd=2))
    for _ in range(3):
        event = UsageRecorded(account="agent", usage=usage(0.4))
        observer.on_record(record(event))
    assert signals == [signal.SIGTERM]
    file.close()


def state(agent: str = "claude", judge: str = "openai/gpt-5") -> RunState:
    models = {"agent": agent, "judge": judge}
    return state_after(
        RunRules(), RunStarted(workspace="/w", models=models, version="1")
    )


@pytest.mark.parametrize(
    ("account", "name"),
    [("agent", "claude"), ("judge", "openai"), ("critic", "critic")],
)
def test_an_account_is_a_program_or_a_provider(account: Account, name: str) -> None:
    assert account_name(account, state()) == name
    assert account_name("agent", state("scripted/a.jsonl")) == "scripted/a.jsonl"


def failed(account: Account, resets_at: str = "") -> WorkFailed:
    return WorkFailed(
        account=account,
        kind="limit",
        reason="usage limit, five hours",
        resets_at=resets_at,
        stop_reason=StopReason.AGENT_FAILED,
        message="limited",
    )


def test_a_limit_pauses_the_account_in_every_run_until_it_resets(
    tmp_path: Path,
) -> None:
    one, other = BatchPauses(tmp_path, "k3f9"), BatchPauses(tmp_path, "b2aa")
    one.refuse_call("judge", state())
    resets_at = NOW + timedelta(hours=2)
    one.on_record(record(failed("judge", resets_at.isoformat())))
    for pauses in (one, other):
        with pytest.raises(ModelError, match=r"openai: .*seen by run k3f9") as raised:
            pauses.refuse_call("judge", state())
        outage = raised.value.outage
        assert outage is not None
        assert (outage.kind, outage.resets_at) == ("limit", resets_at)
    other.refuse_call("agent", state())
    other.refuse_call("judge", state(judge="anthropic/x"))


@pytest.mark.parametrize("until", ["soon", "2999-01-01T00:00:00", ""])
def test_a_pause_without_a_valid_end_is_none(tmp_path: Path, until: str) -> None:
    pause = {"until": until, "reason": "x", "run_id": "k3f9"}
    (tmp_path / "openai.json").write_text(json.dumps(pause))
    pauses = BatchPauses(tmp_path, "b2aa")
    pauses.refuse_call("judge", state())
    # A limit that this run reaches replaces it.
    pauses.on_record(record(failed("judge")))
    with pytest.raises(ModelError):
        pauses.refuse_call("judge", state())


def test_a_limit_without_an_end_pauses_for_a_minute_and_then_longer(
    tmp_path: Path,
) -> None:
    pauses = BatchPauses(tmp_path, "k3f9")
    seconds = []
    for _ in range(3):
        pauses.refuse_call("agent", state())
        pauses.on_record(record(failed("agent")))
        with pytest.raises(ModelError) as raised:
            pauses.refuse_call("agent", state())
        outage = raised.value.outage
        assert outage is not None
        assert outage.resets_at is not None
        seconds.append((outage.resets_at - datetime.now(UTC)).total_seconds())
        # The pause is over a moment ago.
        (file,) = tmp_path.glob("*.json")
        over = datetime.now(UTC) - timedelta(seconds=1)
        pause = json.loads(file.read_text())
        file.write_text(json.dumps({**pause, "until": over.isoformat()}))
    assert [round(number / 60) for number in seconds] == [1, 2, 4]
